//! An email to hand in.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// The sender; may be left out if the template has one
    #[arg(long, default_value = "")]
    pub(crate) from: String,
    /// A recipient; may be given several times
    #[arg(long, required = true)]
    pub(crate) to: Vec<String>,
    /// A recipient of a copy
    #[arg(long)]
    pub(crate) cc: Vec<String>,
    /// A recipient of a copy whom the others do not see
    #[arg(long)]
    pub(crate) bcc: Vec<String>,
    /// The subject
    #[arg(long, default_value = "")]
    pub(crate) subject: String,
    /// The text body; `-` reads it from standard input
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// The HTML body
    #[arg(long)]
    pub(crate) html: Option<String>,
    /// A template to make it from
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// A variable of the template, as in name=Ann or order={"number":7}
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,
    /// A file to attach
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// The idempotency key: the same key again sends nothing new
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Not before this time, as in 2026-11-15T18:30:00Z
    #[arg(long)]
    pub(crate) send_at: Option<String>,
    /// Not later than this long after it may be sent, as in 10m
    #[arg(long)]
    pub(crate) expire_after: Option<String>,
    /// Which retry policy
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// Which route
    #[arg(long)]
    pub(crate) route: Option<String>,
    /// high, normal or low
    #[arg(long)]
    pub(crate) priority: Option<String>,
    /// Whose email it is
    #[arg(long, default_value = posthaste_engine::access::DEFAULT_OWNER)]
    pub(crate) owner: String,
}
