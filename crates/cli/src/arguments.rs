//! The command line.

mod send;
mod template;
mod way;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use posthaste_core::admin::Role as AdminRole;
use posthaste_core::email::EmailId;
use posthaste_core::lifecycle::Resolution;
use posthaste_core::message::{MessageId, MessageStatus};
use posthaste_core::operation::OperationId;
use posthaste_core::status::Status;

pub(crate) use self::send::SendArguments;
pub(crate) use self::template::{PolicyCommand, PushArguments, TemplatesCommand};
pub(crate) use self::way::{SuppressionsCommand, TransportsCommand};

/// Takes emails, keeps them safe, and delivers each once.
///
/// Without a command: serve.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The configuration file; `posthaste.toml` in this folder if there is one
    #[arg(long, global = true, value_name = "FILE", env = "POSTHASTE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where the embedded database lives
    #[arg(long, global = true, value_name = "FOLDER", env = "POSTHASTE_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print JSON for programs; JSON Lines for lists
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: API, senders, scheduler (the default)
    Serve(ServeArguments),
    /// Bring the database to the present schema
    Migrate,
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Find out what is wrong: configuration, database, mail server
    Doctor(DoctorArguments),
    /// Hand in an email
    Send(Box<SendArguments>),
    /// See and treat emails
    #[command(subcommand)]
    Emails(EmailsCommand),
    /// See and treat dead letters
    #[command(subcommand)]
    Dead(DeadCommand),
    /// See and steer operations over many dead letters
    #[command(subcommand)]
    Operations(OperationsCommand),
    /// See and treat failed messages of other services
    #[command(subcommand)]
    Messages(MessagesCommand),
    /// See, save and try out templates
    #[command(subcommand)]
    Templates(TemplatesCommand),
    /// See when retry policies try
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// See how the ways out do, pause and resume them
    #[command(subcommand)]
    Transports(TransportsCommand),
    /// See, add and remove addresses that get nothing any more
    #[command(subcommand)]
    Suppressions(SuppressionsCommand),
    /// Who did what
    Audit(AuditArguments),
    /// Make, list and remove people who may use the dashboard
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// See it work: the server, a mail server that misbehaves, and a steady stream of mail
    ///
    /// Needs nothing and leaves nothing behind, unless --data-dir names a folder: what it writes there
    /// stays. Your own configuration and database are not touched.
    Demo(DemoArguments),
    /// An SMTP server for trying things out: recipients such as tempfail@ make it misbehave
    Sink(SinkArguments),
    /// Audit the stored state against the promises
    Verify {
        /// A file with one id per line that a client saw accepted
        #[arg(long, value_name = "FILE")]
        ledger: Option<PathBuf>,
    },
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArguments {
    /// Where to listen, for example 127.0.0.1:8086; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Which parts of the work this process does
    #[arg(long = "role", value_delimiter = ',', value_name = "ROLES")]
    pub(crate) roles: Vec<Role>,
}

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Takes emails in and answers operators
    Api,
    /// Sends
    Sender,
    /// Schedules, rescues, prunes
    Scheduler,
    /// Puts failed messages of other services back into their queues
    Messages,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and say where it came from
    Check,
    /// Show every option as it is in force, without secrets
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Explain what a server's reply would lead to, for example "550 5.1.1 No such user"
    #[arg(long, value_name = "REPLY")]
    pub(crate) classify: Option<String>,
    /// The stage at which the reply came: banner, ehlo, auth, mail, rcpt, data, dot
    #[arg(long, default_value = "rcpt", value_name = "STAGE")]
    pub(crate) stage: String,
    /// Send a test alert to every channel that is told of dead emails
    #[arg(long)]
    pub(crate) alert: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArguments {
    /// Only to this address
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// Only from this template
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// An id, a key, an exact address or the start of a subject
    #[arg(long, short)]
    pub(crate) q: Option<String>,
    /// Only accepted since this time
    #[arg(long)]
    pub(crate) since: Option<posthaste_core::Timestamp>,
    /// At most this many
    #[arg(long, default_value_t = 50, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Only those after this one: the last id of the page before
    #[arg(long)]
    pub(crate) after: Option<EmailId>,
}

/// A limit of none would show nothing.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum EmailsCommand {
    /// List emails, newest first
    List {
        /// Only in these states
        #[arg(long, value_delimiter = ',')]
        status: Vec<Status>,
        #[command(flatten)]
        filter: ListArguments,
    },
    /// Show one email with its attempts
    Show { id: EmailId },
    /// Withdraw emails that are not sent yet
    Cancel {
        #[arg(required = true)]
        ids: Vec<EmailId>,
    },
    /// Try emails again now, with a fresh budget
    Retry {
        #[arg(required = true)]
        ids: Vec<EmailId>,
        /// Also those for which it is too late
        #[arg(long)]
        even_if_expired: bool,
    },
    /// Settle the fate of an uncertain email
    Resolve {
        id: EmailId,
        /// sent, retry or dead
        #[arg(long = "as")]
        resolution: Resolution,
    },
    /// Remove body and addresses, keep counts
    Erase {
        #[arg(required = true)]
        ids: Vec<EmailId>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters, newest first
    List {
        /// Only those that died of this
        #[arg(long)]
        fingerprint: Option<String>,
        #[command(flatten)]
        filter: ListArguments,
    },
    /// Show one dead letter with its attempts
    Show { id: EmailId },
    /// What they died of, most frequent first
    Groups,
    /// Try dead letters again now, with a fresh budget
    Retry {
        #[command(flatten)]
        many: Many,
    },
    /// Give up on dead letters for good
    Discard {
        #[command(flatten)]
        many: Many,
    },
    /// Take a discard back
    Restore {
        #[arg(required = true)]
        ids: Vec<EmailId>,
    },
}

/// Many dead letters, and how to treat them.
#[derive(Debug, Args)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Only say how many they are
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// At most this many per second; as fast as it goes if left out
    #[arg(long, value_name = "PER SECOND", value_parser = clap::value_parser!(u32).range(1..=i64::from(posthaste_core::operation::FASTEST)))]
    pub(crate) rate: Option<u32>,
}

/// Which dead letters: those that are dead now and of which all of this is true.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Which {
    /// These
    pub(crate) ids: Vec<EmailId>,
    /// That died of this
    #[arg(long)]
    pub(crate) fingerprint: Option<String>,
    /// From this template
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// To this address
    #[arg(long)]
    pub(crate) to: Option<String>,
    /// An id, a key, an exact address or the start of a subject
    #[arg(long, short)]
    pub(crate) q: Option<String>,
    /// Accepted since this time
    #[arg(long)]
    pub(crate) since: Option<posthaste_core::Timestamp>,
    /// All that are dead now
    #[arg(long, conflicts_with_all = ["ids", "fingerprint", "template", "to", "q", "since"])]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationsCommand {
    /// List operations, newest first
    List {
        /// At most this many
        #[arg(long, default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show how far one has come
    Show { id: OperationId },
    /// Stop one for now
    Pause { id: OperationId },
    /// Go on with one, and follow it
    Resume { id: OperationId },
    /// End one; what it did not get to stays as it is
    Cancel { id: OperationId },
}

#[derive(Debug, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List messages, newest first
    List {
        /// Only in these states
        #[arg(long, value_delimiter = ',')]
        status: Vec<MessageStatus>,
        /// Only of this queue
        #[arg(long)]
        queue: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50, value_parser = at_least_one)]
        limit: usize,
        /// Only those after this one: the number that the page before ended with
        #[arg(long, value_name = "NUMBER")]
        after: Option<i64>,
    },
    /// Show one message with its payload
    Show { id: MessageId },
    /// Put messages back into their queues now, with a fresh budget if that was spent
    Retry {
        #[arg(required = true)]
        ids: Vec<MessageId>,
    },
    /// Give up on messages
    Discard {
        #[arg(required = true)]
        ids: Vec<MessageId>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    /// Only by this actor, for example admin:ann, key:1f2e3d4c or cli:root
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only of this kind, for example retry
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Only about this email, message, key, template, operation or admin
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// At most this many entries
    #[arg(long, default_value_t = 50, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Only those after this one: the number that the page before ended with
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Make an admin; the password is asked for, or read from standard input
    ///
    /// From the first admin or API key on, the dashboard needs a login and the API a key: make one for
    /// each program with `posthaste keys create --name NAME`.
    Create {
        /// The name to log in with
        name: String,
        /// viewer (sees everything) or operator (does everything)
        #[arg(long, default_value = "operator")]
        role: AdminRole,
        /// Read the password from the first line of this file
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List admins
    List,
    /// Remove an admin, who is logged out at once
    Remove { name: String },
    /// Give an admin another role, which counts at once
    Role {
        name: String,
        /// viewer or operator
        role: AdminRole,
    },
    /// Give an admin another password and end their sessions
    Password {
        name: String,
        /// Read the password from the first line of this file
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; its secret is shown once
    Create {
        /// What it is for
        #[arg(long)]
        name: String,
        /// Whose emails it may send and see
        #[arg(long, default_value = posthaste_engine::access::DEFAULT_OWNER)]
        owner: String,
        /// send, read, admin
        #[arg(long = "scope", value_delimiter = ',', default_value = "send,read")]
        scopes: Vec<String>,
        /// A From address it may use; all if left out
        #[arg(long = "from")]
        from_addresses: Vec<String>,
    },
    /// List keys
    List,
    /// Revoke a key at once
    Revoke { id: String },
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// How many emails per second
    #[arg(long, default_value_t = 4.0, value_name = "NUMBER")]
    pub(crate) rate: f64,
    /// Where the dashboard is; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct SinkArguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:2525", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How long to wait before answering the final dot
    #[arg(long, default_value = "0s")]
    pub(crate) delay: posthaste_core::duration::HumanDuration,
    /// After how long a greylisted sender is let through
    #[arg(long, default_value = "60s")]
    pub(crate) greylist: posthaste_core::duration::HumanDuration,
    /// Stop after this many messages
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// List the recipients that make it misbehave
    #[arg(long)]
    pub(crate) help_recipients: bool,
}
