//! What goes into a store and comes out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::Timestamp;
use crate::address::Address;
use crate::decision::Decision;
use crate::email::{EmailId, PolicyChoice, Recipient};
use crate::lifecycle::{Refusal, Resolution, State};
use crate::status::{DeadReason, Phase, Priority, Status};

/// Why the store could not do its work. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Try again later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The disk is full or cannot be written.
    #[error("the store cannot write: {0}")]
    CannotWrite(String),
    /// The store answered something that should not be possible.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// What the store answers.
pub type StoreResult<T> = Result<T, StoreError>;

/// What became of an email that was handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It is new and durable.
    Created,
    /// The same was accepted before, under this id and in this state.
    Replayed(EmailId, Status),
    /// The key was used before for something else.
    KeyConflict(EmailId),
}

/// Who makes the first attempt of an email that begins as it is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opener {
    /// Its caller waits for it. That attempt is not counted.
    Caller,
    /// A sender that had room for one more.
    Sender,
}

/// What became of an email that was handed in to be tried at once.
#[derive(Debug, Clone)]
pub enum Opened {
    /// It is new and durable, and its first attempt has begun.
    Started(Box<Started>),
    /// The same was accepted before, under this id and in this state.
    Replayed(EmailId, Status),
    /// The key was used before for something else.
    KeyConflict(EmailId),
}

/// The right to work on one email, for a time: to send it, or to say what became of its ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Which email.
    pub id: EmailId,
    /// The token that every write must carry.
    pub token: i64,
}

/// An email whose attempt has begun.
#[derive(Debug, Clone)]
pub struct Started {
    /// The right to send it.
    pub lease: Lease,
    /// Its state after the attempt began.
    pub state: State,
    /// The return path.
    pub from: Address,
    /// Everyone it goes to, and where each stood.
    pub recipients: Vec<Recipient>,
    /// The finished MIME message.
    pub content: Bytes,
    /// Which of the recipients get nothing any more, and why; by their place.
    pub suppressed: Vec<(usize, DeadReason)>,
    /// Which retry policy it follows.
    pub policy: PolicyChoice,
    /// Which route it takes; `None` for the default one.
    pub route: Option<String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Not to be sent after.
    pub expires_at: Option<Timestamp>,
    /// The step of its trace that came before all attempts.
    pub traceparent: Option<String>,
    /// The store's time at which the attempt began.
    pub now: Timestamp,
}

/// What became of a ticket.
#[derive(Debug, Clone)]
pub enum Begun {
    /// Go ahead.
    Started(Box<Started>),
    /// It is over for this email, or someone else is at it, or it is not time.
    Refused(Refusal),
    /// There is no such email.
    NotFound,
}

/// The end of one attempt.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The right to say so.
    pub lease: Lease,
    /// How it ended.
    pub decision: Decision,
    /// Which way out was used, if one was.
    pub transport: Option<String>,
    /// How many attempts may fail, as things stand.
    pub budget: u32,
    /// Whether an email that was sent is removed at once, with all that is about it.
    pub removes_sent: bool,
}

/// The present budgets: how many attempts may fail, per policy.
#[derive(Debug, Clone, Default)]
pub struct Budgets {
    /// By policy name.
    pub by_name: BTreeMap<String, u32>,
    /// For a name that is not known (any more).
    pub fallback: u32,
}

impl Budgets {
    /// How many attempts may fail under this choice.
    #[must_use]
    pub fn of(&self, choice: &PolicyChoice) -> u32 {
        match choice {
            PolicyChoice::Own(policy) => policy.max_attempts,
            PolicyChoice::Named(name) => self.by_name.get(name).copied().unwrap_or(self.fallback),
        }
    }
}

/// An email that a scheduler took.
#[derive(Debug, Clone)]
pub struct Due {
    /// Which email.
    pub id: EmailId,
    /// The caller's key.
    pub message_key: String,
    /// Which emails go first.
    pub priority: Priority,
    /// Counted attempts so far.
    pub attempt_count: u32,
    /// The token that marking its ticket must carry.
    pub token: i64,
    /// When it was due.
    pub due_at: Timestamp,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
    /// Whether its budget was spent: then it is dead now, and not to be published.
    pub exhausted: bool,
    /// Whether it had become too late: then it is dead now, and not to be published.
    pub expired: bool,
}

impl Due {
    /// The right to say what became of its ticket.
    #[must_use]
    pub const fn lease(&self) -> Lease {
        Lease {
            id: self.id,
            token: self.token,
        }
    }
}

/// Which of the emails that wait for a way out begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Up to so many, by their priority.
    UpTo(usize),
    /// The one that has waited longest, whatever its priority: it tests a way that is stopped. One
    /// whose test failed waits anew, so that the next test is another's. Otherwise a single email
    /// that no server likes could keep a way stopped for all.
    Longest,
}

impl Pick {
    /// How many at most.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::UpTo(most) => most,
            Self::Longest => 1,
        }
    }
}

/// What a sender found that waited without a ticket.
#[derive(Debug, Clone, Default)]
pub struct Unticketed {
    /// Emails whose attempts began.
    pub started: Vec<Started>,
    /// Emails that were over budget or too late: they are dead now.
    pub dead: Vec<Due>,
}

/// An email whose lease had expired.
#[derive(Debug, Clone)]
pub struct Rescued {
    /// Which email.
    pub id: EmailId,
    /// How far its attempt had got; `Idle` for one that a lost scheduler held.
    pub phase: Phase,
    /// Its state now.
    pub state: State,
}

/// An email of unknown fate about which its policy has not decided.
#[derive(Debug, Clone)]
pub struct Undecided {
    /// Which email.
    pub id: EmailId,
    /// Its state.
    pub state: State,
    /// Which retry policy it follows.
    pub policy: PolicyChoice,
    /// Not to be sent after.
    pub expires_at: Option<Timestamp>,
}

/// Which notice.
pub type NoticeId = i64;

/// Who did something, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// For example `key:billing`, `cli:root`, `loopback`.
    pub name: String,
    /// Only emails of this owner may be touched; `None` for all.
    pub owner: Option<String>,
}

/// What an operator can do to an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Withdraw it.
    Cancel,
    /// Try it again now, with a fresh budget.
    Retry,
    /// The same, even if it is too late for it.
    RetryExpired,
    /// Settle its unknown fate.
    Resolve(Resolution),
    /// Give up on it for good.
    Discard,
    /// Take that back.
    Restore,
    /// Remove body and addresses, keep counts.
    Erase,
}

impl Action {
    /// Its name in the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
            Self::RetryExpired => "retry_expired",
            Self::Resolve(Resolution::Sent) => "resolve_sent",
            Self::Resolve(Resolution::Retry) => "resolve_retry",
            Self::Resolve(Resolution::Dead) => "resolve_dead",
            Self::Discard => "discard",
            Self::Restore => "restore",
            Self::Erase => "erase",
        }
    }
}

/// What became of an operator's action on one email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acted {
    /// Done; the state is this now.
    Done(Status),
    /// It was so already.
    Unchanged(Status),
    /// The state does not allow it.
    Refused(Refusal, Status),
    /// Its content was erased: it cannot be sent again.
    Erased,
    /// It is too late for it: it cannot be sent again.
    Expired,
    /// There is no such email, or it is another owner's.
    NotFound,
}

/// Which emails to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmailFilter {
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only in one of these states.
    pub statuses: Vec<Status>,
    /// Only these; empty for all.
    pub ids: Vec<EmailId>,
    /// Only from this template.
    pub template: Option<String>,
    /// Only to this address.
    pub to: Option<String>,
    /// An id, a key, an exact address or the start of a subject.
    pub q: Option<String>,
    /// Only accepted at or after this moment.
    pub since: Option<Timestamp>,
    /// Only dead letters with this fingerprint.
    pub fingerprint: Option<String>,
    /// At most this many.
    pub limit: usize,
    /// Only those after (older than) this one.
    pub after: Option<EmailId>,
}

/// Dead letters that died of the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadGroup {
    /// What they have in common.
    pub fingerprint: String,
    /// How many.
    pub count: u64,
    /// When the first died.
    pub first_seen: Timestamp,
    /// When the last died.
    pub last_seen: Timestamp,
    /// One of the errors, word for word.
    pub sample: String,
}

/// Numbers about emails. Taken from counters that are written with the rows, so they cost the
/// same with ten emails and ten million.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// How many emails are in each state.
    pub by_status: BTreeMap<Status, u64>,
    /// How many were ever accepted.
    pub accepted: u64,
    /// How many were removed after their retention.
    pub pruned: u64,
    /// How many were sent in the last hour.
    pub sent_last_hour: u64,
    /// How many were sent in the last 24 hours.
    pub sent_last_day: u64,
    /// How many died in the last 24 hours.
    pub dead_last_day: u64,
    /// When the oldest email that still waits became due.
    pub oldest_waiting: Option<Timestamp>,
    /// How many failed emails are due right now.
    pub due: u64,
}

/// What happened to emails in a step of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryStep {
    /// When it began.
    pub from: Timestamp,
    /// How many were accepted.
    pub accepted: u64,
    /// How many were sent.
    pub sent: u64,
    /// How many attempts failed and are tried again.
    pub failed: u64,
    /// How many died.
    pub dead: u64,
}

/// How long to keep what is over.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Sent and cancelled emails.
    pub sent: Duration,
    /// Dead and discarded emails.
    pub dead: Duration,
    /// The attempts of sent and cancelled emails; `None` for as long as the email.
    pub attempts: Option<Duration>,
    /// The content of emails that are over: erased after this time, while the rest of them stays;
    /// `None` for as long as the email.
    pub content: Option<Duration>,
    /// Captured mail.
    pub captures: Duration,
    /// Audit entries.
    pub audit: Duration,
}

/// What a pruning round removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Emails.
    pub emails: u64,
    /// Captured mail.
    pub captures: u64,
    /// Audit entries.
    pub audit_entries: u64,
    /// Emails whose attempts were removed.
    pub attempts: u64,
    /// Emails whose content was erased.
    pub contents: u64,
    /// Whether there is more to look at, though nothing may come of it: ask again soon.
    pub is_unfinished: bool,
}

/// An API key as it is kept: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Short, shown in lists and used to revoke.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// Whose emails it may see.
    pub owner: String,
    /// `send`, `read`, `admin`.
    pub scopes: Vec<String>,
    /// From addresses it may use; empty for all.
    pub from_addresses: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Which entries of the audit log to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only of this kind.
    pub action: Option<String>,
    /// Only about this email, key, template and so on.
    pub subject: Option<String>,
    /// At most this many.
    pub limit: usize,
    /// Only those after (older than) the one with this number.
    pub after: Option<i64>,
}

impl AuditFilter {
    /// The newest entries, whatever they are about.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number: later entries have greater ones.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// To which email, key, template, operation and so on.
    pub subject: String,
    /// Which emails it was meant for, where it was for many.
    pub filter: Option<String>,
    /// How many it was about, where it was for many.
    pub count: Option<u64>,
    /// What came of it.
    pub result: String,
}

/// An email that was captured instead of sent.
#[derive(Debug, Clone)]
pub struct Captured {
    /// Which email.
    pub email_id: EmailId,
    /// When.
    pub captured_at: Timestamp,
    /// The return path.
    pub from: String,
    /// Everyone it went to.
    pub recipients: Vec<String>,
    /// The MIME message, where asked for.
    pub content: Bytes,
}

/// A promise that the stored state breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant of FAULTS.md: `I1` … `I7`.
    pub invariant: &'static str,
    /// What is wrong, and where.
    pub detail: String,
}
