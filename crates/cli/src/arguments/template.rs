//! The commands about templates and retry policies.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use posthaste_core::duration::HumanDuration;

#[derive(Debug, Subcommand)]
pub(crate) enum TemplatesCommand {
    /// List templates
    List,
    /// Show a template
    Show {
        name: String,
        /// Which version; the newest if left out
        #[arg(long)]
        version: Option<u32>,
    },
    /// Save a template: from a file, or by flags over what is saved already
    ///
    /// A file of TOML or JSON has the fields name, description, from, subject, html or html_file,
    /// text or text_file, priority, retry_policy, route and sample. Without a name it is called like the
    /// file.
    Push(Box<PushArguments>),
    /// Show what a template comes to; nothing is saved or sent
    Preview {
        /// The name of a template, or a file ending in .toml or .json
        #[arg(value_name = "NAME|FILE")]
        template: String,
        /// A variable, as in name=Ann or order={"number":7}; may be given several times
        #[arg(long = "var", value_name = "NAME=VALUE")]
        variables: Vec<String>,
        /// A JSON file with variables; `-` reads standard input. The sample if neither is given
        #[arg(long, value_name = "FILE")]
        variables_file: Option<PathBuf>,
    },
    /// Delete a template; emails that were made from it stay as they are
    Delete { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct PushArguments {
    /// A file ending in .toml or .json, or the name of a template
    #[arg(value_name = "FILE|NAME")]
    pub(crate) template: String,
    /// What it is called, if not as the file says
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What it is for, in a line
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// The sender, where the request gives none
    #[arg(long)]
    pub(crate) from: Option<String>,
    /// The subject, as in "Your order {{ number }}"
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// The HTML body
    #[arg(long)]
    pub(crate) html: Option<String>,
    /// A file with the HTML body
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    pub(crate) html_file: Option<PathBuf>,
    /// The text body
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// A file with the text body
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) text_file: Option<PathBuf>,
    /// high, normal or low
    #[arg(long)]
    pub(crate) priority: Option<String>,
    /// The name of a retry policy
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// The name of a route
    #[arg(long)]
    pub(crate) route: Option<String>,
    /// A JSON file with values to try it out with
    #[arg(long, value_name = "FILE")]
    pub(crate) sample_file: Option<PathBuf>,
    /// Only if this is still the newest version; 0 if there is none yet
    #[arg(long, value_name = "VERSION")]
    pub(crate) based_on: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show when a policy tries: the moment of each attempt, if all of them fail
    Preview {
        /// The name of a policy
        #[arg(default_value = posthaste_engine::policy::DEFAULT)]
        name: String,
        /// With so many attempts instead
        #[arg(long)]
        attempts: Option<u32>,
        /// With these delays instead, as in 1m,5m,15m
        #[arg(long, value_delimiter = ',', value_name = "DELAYS")]
        schedule: Vec<HumanDuration>,
        /// With this jitter instead: up to so much is added to each delay
        #[arg(long)]
        jitter: Option<HumanDuration>,
        /// When the email is accepted, as in 2026-11-15T18:30:00Z; now if left out
        #[arg(long)]
        start: Option<posthaste_core::Timestamp>,
        /// For emails that are sent inline: the first try, at once, is not counted
        #[arg(long)]
        inline: bool,
    },
}
