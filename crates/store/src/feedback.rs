//! What every store makes of what providers say later, written once for all dialects.
//!
//! A dialect reads and locks the emails that events may be about; this decides what each event
//! means. Events come late, twice and in any order: whatever the order, what is known in the end
//! is the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use posthaste_core::Timestamp;
use posthaste_core::address::Address;
use posthaste_core::email::{EmailId, Recipient, RecipientStatus};
use posthaste_core::feedback::{Happening, ProviderEvent, Recorded};
use posthaste_core::lifecycle::{Event, Feedback, State};
use posthaste_core::status::{DeadReason, Status};
use posthaste_core::suppression::{Suppression, folded};

use crate::ledger::{Ledger, apply};
use crate::way::writable;

/// Of what a provider says, so many characters are kept.
const MOST_DETAIL: usize = 1000;

/// What is known of the emails that events may be about.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Emails by what the provider calls their messages.
    names: HashMap<String, BTreeSet<EmailId>>,
    /// Names of messages that left before their email was replayed: what comes of them does not
    /// concern what was sent since.
    outdated: BTreeSet<(String, EmailId)>,
    /// The emails themselves, read and locked.
    subjects: BTreeMap<EmailId, Subject>,
}

/// An email that events may be about.
#[derive(Debug)]
pub(crate) struct Subject {
    owner: String,
    /// Everyone it goes to, and where each stands; empty once it was erased.
    recipients: Vec<Recipient>,
    /// How many there are, also of one that was erased.
    count: usize,
    /// Whether there are rows for them.
    has_rows: bool,
    /// Whether they stand elsewhere than the rows say.
    is_changed: bool,
}

impl Subject {
    /// An email of this owner to these addresses, of which there were `count` before it was erased.
    /// `rows`: where each stands, if that is on record.
    pub(crate) fn new(
        owner: String,
        addresses: Vec<Address>,
        count: usize,
        is_erased: bool,
        rows: Vec<Recipient>,
    ) -> Self {
        let has_rows = !rows.is_empty();
        let recipients = match (is_erased, has_rows) {
            (true, _) => Vec::new(),
            (false, true) => rows,
            (false, false) => addresses.into_iter().map(Recipient::waiting).collect(),
        };
        Self {
            owner,
            recipients,
            count,
            has_rows,
            is_changed: false,
        }
    }

    /// Recipients without rows of their own stand where the email does.
    fn follow(&mut self, state: &State) {
        if self.has_rows || self.is_changed {
            return;
        }
        let (status, reason) = match state.status {
            Status::Sent => (RecipientStatus::Accepted, None),
            Status::Dead | Status::Discarded => (RecipientStatus::Dead, state.dead_reason),
            _ => (RecipientStatus::Waiting, None),
        };
        for recipient in &mut self.recipients {
            recipient.status = status;
            recipient.reason = reason;
        }
    }

    fn is_to(&self, address: &Address) -> bool {
        let wanted = folded(address);
        self.recipients
            .iter()
            .any(|one| folded(&one.address) == wanted)
    }

    /// Whether this event can be about it: erased addresses cannot be compared.
    fn fits(&self, event: &ProviderEvent) -> bool {
        let recipient = event.recipient.as_ref();
        self.recipients.is_empty() || recipient.is_none_or(|address| self.is_to(address))
    }
}

impl Known {
    /// A provider calls a message of this email so. `is_outdated`: the email was replayed since.
    pub(crate) fn add_name(&mut self, provider_id: String, id: EmailId, is_outdated: bool) {
        if is_outdated {
            self.outdated.insert((provider_id.clone(), id));
        }
        self.names.entry(provider_id).or_default().insert(id);
    }

    /// An email that was read and locked.
    pub(crate) fn add(&mut self, id: EmailId, subject: Subject) {
        self.subjects.insert(id, subject);
    }

    /// Which email an event is about, or the answer if there is none to tell.
    fn find(
        &self,
        event: &ProviderEvent,
        transport: &str,
        mut state: impl FnMut(EmailId) -> Option<State>,
    ) -> Result<EmailId, Recorded> {
        let named = self.names.get(&event.provider_id);
        let Some(named) = named.filter(|ids| !ids.is_empty()) else {
            return self.find_unnamed(event, transport, state);
        };
        let mut fitting = named.iter().filter(|id| {
            event.email_id.is_none_or(|own| own == **id)
                && self.subjects.get(id).is_none_or(|email| email.fits(event))
        });
        let (Some(id), None) = (fitting.next(), fitting.next()) else {
            return Err(Recorded::NotOurs);
        };
        match (self.subjects.get(id), state(*id)) {
            // Its name came up after the emails were locked: it is being recorded right now.
            (None, _) => Err(Recorded::TryLater),
            (_, None) => Err(Recorded::NotOurs),
            (_, Some(state)) if state.status == Status::Sending => Err(Recorded::TryLater),
            // An operator knew that it came back, and had it sent again. Of complaints nobody knew.
            _ if event.happening != Happening::Complained && self.is_outdated(event, *id) => {
                Err(Recorded::Unchanged)
            }
            _ => Ok(*id),
        }
    }

    fn is_outdated(&self, event: &ProviderEvent, id: EmailId) -> bool {
        self.outdated.contains(&(event.provider_id.clone(), id))
    }

    /// The same where no attempt has that name. It may not be on record yet; and if the answer to
    /// an attempt was lost, so was the name; and an attempt that took several requests has several, of
    /// which one is kept. Then our own id, which the provider repeats, is enough.
    fn find_unnamed(
        &self,
        event: &ProviderEvent,
        transport: &str,
        mut state: impl FnMut(EmailId) -> Option<State>,
    ) -> Result<EmailId, Recorded> {
        let id = event.email_id.ok_or(Recorded::NotOurs)?;
        let subject = self.subjects.get(&id).ok_or(Recorded::NotOurs)?;
        let state = state(id).ok_or(Recorded::NotOurs)?;
        if !subject.fits(event) {
            return Err(Recorded::NotOurs);
        }
        match state.bound_to.as_deref() {
            _ if state.status == Status::Sending => Err(Recorded::TryLater),
            Some(bound) if bound == transport => Ok(id),
            _ if subject.count > 1 && state.transport.as_deref() == Some(transport) => Ok(id),
            _ => Err(Recorded::NotOurs),
        }
    }
}

/// What has to be written besides the emails themselves.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The answers, in the order of the events.
    pub(crate) recorded: Vec<Recorded>,
    /// What goes on the list, by owner and address, and for which event.
    pub(crate) suppressions: Vec<(usize, Suppression)>,
}

impl Outcome {
    /// What was put on the list is something that changed.
    pub(crate) fn was_put(&mut self, event: usize) {
        if let Some(recorded) = self.recorded.get_mut(event) {
            *recorded = Recorded::Done;
        }
    }
}

/// Records what a provider said of emails that went by a transport.
pub(crate) fn record<L: Ledger>(
    ledger: &mut L,
    transport: &str,
    events: &[ProviderEvent],
    mut known: Known,
) -> Result<Outcome, L::Error> {
    let mut outcome = Outcome::default();
    for (at, event) in events.iter().enumerate() {
        let recorded = record_one(ledger, transport, event, &mut known, at, &mut outcome)?;
        outcome.recorded.push(recorded);
    }
    for (id, subject) in &known.subjects {
        let differ = |pair: &[Recipient]| {
            (pair[0].status, pair[0].reason) != (pair[1].status, pair[1].reason)
        };
        let are_told_apart = subject.has_rows || subject.recipients.windows(2).any(differ);
        if subject.is_changed && are_told_apart {
            ledger.save_recipients(*id, &subject.recipients)?;
        }
    }
    // Whoever writes several does so in the order of their key.
    let key = |(_, one): &(usize, Suppression)| (one.owner.clone(), one.address.clone());
    outcome.suppressions.sort_by_cached_key(key);
    Ok(outcome)
}

fn record_one<L: Ledger>(
    ledger: &mut L,
    transport: &str,
    event: &ProviderEvent,
    known: &mut Known,
    at: usize,
    outcome: &mut Outcome,
) -> Result<Recorded, L::Error> {
    let mut states = HashMap::new();
    let named = known.names.get(&event.provider_id).into_iter().flatten();
    for id in named.copied().chain(event.email_id) {
        states.insert(id, ledger.state(id)?);
    }
    let state = |id: EmailId| states.get(&id).cloned().flatten();
    let id = match known.find(event, transport, state) {
        Ok(id) => id,
        Err(answer) => return Ok(answer),
    };
    let (Some(state), Some(subject)) = (state(id), known.subjects.get_mut(&id)) else {
        return Ok(Recorded::NotOurs);
    };
    subject.follow(&state);
    let is_erased = subject.recipients.is_empty();
    let detail = event.detail.as_deref().map(kept);
    let said = detail.as_deref().filter(|_| !is_erased);
    let is_changed = match (subject.count, subject.recipients.len()) {
        (1, _) => {
            let feedback = event.happening.feedback();
            tell(ledger, id, feedback, said)?
        }
        // Nobody knows any more which of them it is about.
        (_, 0) => false,
        _ => record_several(ledger, id, &state, subject, event, said)?,
    };
    if event.happening != Happening::Delivered {
        let now = ledger.now();
        let gone = suppressed(subject, event, transport, id, detail.as_deref(), now);
        outcome.suppressions.extend(gone.map(|one| (at, one)));
    }
    Ok(match is_changed {
        true => Recorded::Done,
        false => Recorded::Unchanged,
    })
}

/// Tells the email what became of it; whether that was news.
fn tell<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    feedback: Feedback,
    detail: Option<&str>,
) -> Result<bool, L::Error> {
    let told = apply(ledger, id, &Event::Feedback { feedback, detail })?;
    Ok(matches!(told, Some(Ok(_))))
}

/// An email to several: each recipient has a fate of its own, and the email is over once nobody's is
/// open.
fn record_several<L: Ledger>(
    ledger: &mut L,
    id: EmailId,
    state: &State,
    subject: &mut Subject,
    event: &ProviderEvent,
    detail: Option<&str>,
) -> Result<bool, L::Error> {
    // One that waits for an attempt was not part of what left, unless an earlier one may have left.
    let may_have_left = match state.status {
        Status::Unknown => true,
        Status::Failed | Status::RetryQueued => state.bound_to.is_some(),
        _ => false,
    };
    let mut is_changed = false;
    let wanted = event.recipient.as_ref().map(folded);
    for recipient in &mut subject.recipients {
        let is_meant = wanted
            .as_deref()
            .is_none_or(|it| it == folded(&recipient.address));
        if is_meant {
            is_changed |= settle(recipient, event.happening, detail, may_have_left);
        }
    }
    if !is_changed {
        return Ok(false);
    }
    subject.is_changed = true;
    let is_open = |one: &Recipient| one.status == RecipientStatus::Waiting;
    if subject.recipients.iter().any(is_open) {
        return Ok(true);
    }
    let dead = subject.recipients.iter().filter_map(reason_of);
    match dead.max_by_key(|(reason, _)| gravity(*reason)) {
        None => tell(ledger, id, Feedback::Delivered, detail)?,
        Some((reason, _)) if gravity(reason) == 0 && state.status == Status::Unknown => {
            // Those that were given up were so before it left.
            apply(ledger, id, &Event::ResolveInPart(reason))?.is_some()
        }
        Some((reason, said)) => tell(ledger, id, Feedback::Refused(reason), said)?,
    };
    Ok(true)
}

/// Why a recipient was given up, and what was said about it.
fn reason_of(recipient: &Recipient) -> Option<(DeadReason, Option<&str>)> {
    let reason = recipient.reason.unwrap_or(DeadReason::HardBounce);
    (recipient.status == RecipientStatus::Dead).then_some((reason, recipient.detail.as_deref()))
}

/// What a provider says later stands above all other reasons, and a complaint above a bounce.
const fn gravity(reason: DeadReason) -> u8 {
    match reason {
        DeadReason::SpamComplaint => 2,
        DeadReason::HardBounce => 1,
        _ => 0,
    }
}

/// What an event makes of one recipient; whether it is something else than before.
fn settle(
    recipient: &mut Recipient,
    happening: Happening,
    detail: Option<&str>,
    may_have_left: bool,
) -> bool {
    let (status, reason) = match (happening.feedback(), recipient.status) {
        (_, RecipientStatus::Waiting) if !may_have_left => return false,
        (Feedback::Delivered, RecipientStatus::Waiting) => (RecipientStatus::Accepted, None),
        (Feedback::Delivered, _) => return false,
        (Feedback::Refused(DeadReason::SpamComplaint), RecipientStatus::Dead)
            if recipient.reason != Some(DeadReason::HardBounce) =>
        {
            return false;
        }
        (Feedback::Refused(DeadReason::HardBounce), RecipientStatus::Dead) => return false,
        (Feedback::Refused(reason), _) => (RecipientStatus::Dead, Some(reason)),
    };
    recipient.status = status;
    recipient.reason = reason;
    recipient.detail = Some(detail.unwrap_or(happening.as_str()).to_owned());
    true
}

/// The addresses that are not to be written to any more. Of one that was erased only the provider
/// still knows the address.
fn suppressed<'a>(
    subject: &'a Subject,
    event: &'a ProviderEvent,
    transport: &'a str,
    id: EmailId,
    detail: Option<&'a str>,
    now: Timestamp,
) -> impl Iterator<Item = Suppression> + 'a {
    let all = subject.recipients.iter().map(|one| &one.address);
    let (named, all) = match &event.recipient {
        Some(address) => (Some(address), None),
        None => (None, Some(all)),
    };
    let reason = match event.happening {
        Happening::Complained => DeadReason::SpamComplaint,
        _ => DeadReason::HardBounce,
    };
    let addresses = named.into_iter().chain(all.into_iter().flatten());
    addresses.map(move |address| Suppression {
        owner: subject.owner.clone(),
        address: folded(address),
        reason,
        detail: detail.map(str::to_owned),
        email_id: Some(id),
        created_at: now,
        created_by: format!("provider:{transport}"),
    })
}

/// What a provider said, as it is kept.
fn kept(detail: &str) -> String {
    writable(detail).chars().take(MOST_DETAIL).collect()
}
