//! The ways out, and addresses that get nothing any more.

use clap::Subcommand;

use super::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum TransportsCommand {
    /// List the ways out, how they do and what waits for them
    List,
    /// Let nothing go by one until it is resumed; emails wait for it and spend nothing
    Pause {
        /// Which one; NAME@DOMAIN for a single destination domain
        name: String,
    },
    /// Take a pause back, or test one now that was stopped
    Resume {
        /// Which one; NAME@DOMAIN for a single destination domain
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SuppressionsCommand {
    /// List addresses that get nothing any more
    List {
        /// Only of this owner
        #[arg(long)]
        owner: Option<String>,
        /// Only addresses that begin with this; @DOMAIN for a whole domain
        #[arg(long, short)]
        q: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
        /// Only those after this one: OWNER/ADDRESS, the last of the page before
        #[arg(long)]
        after: Option<String>,
    },
    /// Put an address on the list
    Add {
        /// The address
        address: String,
        /// Whose mail it gets no more
        #[arg(long, default_value = posthaste_engine::access::DEFAULT_OWNER)]
        owner: String,
        /// Why
        #[arg(long)]
        detail: Option<String>,
    },
    /// Take an address off the list
    Remove {
        /// The address
        address: String,
        /// Whose list
        #[arg(long, default_value = posthaste_engine::access::DEFAULT_OWNER)]
        owner: String,
    },
}
