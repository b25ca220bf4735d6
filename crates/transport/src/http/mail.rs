//! One email on its way to a provider: who still waits for it, and in which requests they go.
//!
//! A request names only those who still wait. Whoever is in neither To nor Cc is in Bcc, and is
//! never named to anybody else.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mail_parser::MessageParser;
use posthaste_core::port::Outgoing;
use sha2::{Digest, Sha256};

use super::letter::{Letter, people};
use super::person::Person;

/// An email and what its headers say about those who wait.
pub(super) struct Mail<'a> {
    pub(super) outgoing: &'a Outgoing,
    to: Vec<Person>,
    cc: Vec<Person>,
    letter: OnceLock<Option<Letter>>,
}

/// What a provider makes of the lists of recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addressing {
    /// Headers: everybody sees To and Cc, and To must not be empty.
    Headers,
    /// Only where copies go: the message has its own headers.
    Envelope,
}

/// The recipients of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Their places among the waiting ones.
    pub(super) members: Vec<usize>,
    pub(super) to: Vec<Person>,
    pub(super) cc: Vec<Person>,
    pub(super) bcc: Vec<Person>,
}

impl Group {
    /// Everybody in it.
    pub(super) fn people(&self) -> impl Iterator<Item = &Person> {
        self.to.iter().chain(&self.cc).chain(&self.bcc)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    To,
    Cc,
    Bcc,
}

/// One of those who wait; the places are more than one if the address is there twice.
struct Waiting {
    field: Field,
    person: Person,
    places: Vec<usize>,
}

impl<'a> Mail<'a> {
    /// Reads the headers; `None` if it is no message.
    pub(super) fn read(outgoing: &'a Outgoing) -> Option<Self> {
        let headers = MessageParser::default().parse_headers(&outgoing.content)?;
        Some(Self {
            to: people(headers.to()),
            cc: people(headers.cc()),
            outgoing,
            letter: OnceLock::new(),
        })
    }

    /// The message, taken apart when it is first asked for.
    pub(super) fn letter(&self) -> Option<&Letter> {
        self.letter
            .get_or_init(|| Letter::read(&self.outgoing.content))
            .as_ref()
    }

    /// The sender as the message names it.
    pub(super) fn from(&self) -> Person {
        let named = self.letter().and_then(|letter| letter.from.clone());
        named.unwrap_or_else(|| Person {
            name: None,
            address: self.outgoing.from.to_string(),
        })
    }

    /// The requests in which these go (by their places among those who wait), at most so many in
    /// each.
    pub(super) fn groups(
        &self,
        places: &[usize],
        addressing: Addressing,
        most: usize,
    ) -> Vec<Group> {
        let mut waiting = self.waiting();
        waiting.retain(|one| one.places.iter().any(|place| places.contains(place)));
        match addressing {
            Addressing::Envelope => waiting.chunks(most).map(group).collect(),
            Addressing::Headers => {
                let visible = waiting.iter().filter(|one| one.field != Field::Bcc).count();
                let (visible, mut hidden) = waiting.split_at(visible);
                let mut groups = Vec::new();
                for chunk in visible.chunks(most) {
                    let (along, later) = hidden.split_at(hidden.len().min(most - chunk.len()));
                    hidden = later;
                    groups.push(headed(group(chunk.iter().chain(along))));
                }
                // Somebody must stand in To, where the others of the request would see them.
                groups.extend(hidden.chunks(1).map(|alone| headed(group(alone))));
                groups
            }
        }
    }

    /// Those who wait, To first, then Cc, then Bcc, nobody twice.
    fn waiting(&self) -> Vec<Waiting> {
        let mut known: BTreeMap<String, (Field, &Person)> = BTreeMap::new();
        let to = self.to.iter().map(|person| (Field::To, person));
        let cc = self.cc.iter().map(|person| (Field::Cc, person));
        for (field, person) in to.chain(cc) {
            known.entry(person.folded()).or_insert((field, person));
        }
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (place, address) in self.outgoing.recipients.iter().enumerate() {
            let folded = address.folded();
            if let Some(&at) = seen.get(&folded) {
                waiting[at].places.push(place);
                continue;
            }
            let named = known.get(&folded);
            seen.insert(folded, waiting.len());
            waiting.push(Waiting {
                field: named.map_or(Field::Bcc, |(field, _)| *field),
                person: Person {
                    name: named.and_then(|(_, person)| person.name.clone()),
                    address: address.to_string(),
                },
                places: vec![place],
            });
        }
        waiting.sort_by_key(|one| one.field);
        waiting
    }

    /// What stands for this request at a provider that sends nothing twice: the email's id where
    /// everybody goes whom the message names. Other recipients make another request, which must
    /// not pass for the same.
    pub(super) fn key(&self, group: &Group) -> String {
        let id = self.outgoing.email_id;
        let sorted = |people: &mut dyn Iterator<Item = &Person>| {
            let mut folded: Vec<String> = people.map(Person::folded).collect();
            folded.sort();
            folded.dedup();
            folded
        };
        let going = sorted(&mut group.people());
        if going == sorted(&mut self.to.iter().chain(&self.cc)) {
            return id.to_string();
        }
        let hash = Sha256::digest(going.join("\n"));
        let short: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}/{short}")
    }
}

fn group<'a>(waiting: impl IntoIterator<Item = &'a Waiting>) -> Group {
    let mut group = Group::default();
    for one in waiting {
        group.members.extend(&one.places);
        let list = match one.field {
            Field::To => &mut group.to,
            Field::Cc => &mut group.cc,
            Field::Bcc => &mut group.bcc,
        };
        list.push(one.person.clone());
    }
    group
}

/// The same with somebody in To: the first of those who may be seen, or the only one.
fn headed(mut group: Group) -> Group {
    if group.to.is_empty() {
        let list = if group.cc.is_empty() {
            &mut group.bcc
        } else {
            &mut group.cc
        };
        group.to.extend((!list.is_empty()).then(|| list.remove(0)));
    }
    group
}
