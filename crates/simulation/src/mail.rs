//! A mail server that counts the copies it took, and the way to it.
//!
//! [`MemoryTransport`] talks as SMTP does: the gate stands between the body and the final dot, and the
//! server has a copy only when the dot has arrived. What the server does in one conversation is a
//! [`Script`], drawn when it begins.

mod script;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::email::EmailId;
use posthaste_core::port::{Gate, Outgoing, Transport};
use posthaste_core::reply::Reply;
use tokio::time::Instant;

use self::script::{End, Script};
use crate::nature::Nature;
use crate::plan::MailRates;
use crate::planted::PlantedBug;
use crate::process::Process;
use crate::store::Database;

/// The server, or all of them: one copy is one copy, wherever it arrived.
pub(crate) struct MailServer {
    nature: Arc<Nature>,
    database: Arc<Database>,
    rates: MailRates,
    planted: Option<PlantedBug>,
    copies: Mutex<HashMap<(EmailId, String), usize>>,
    away_until: Mutex<Option<Instant>>,
}

impl MailServer {
    pub(crate) fn new(
        nature: Arc<Nature>,
        database: Arc<Database>,
        rates: MailRates,
        planted: Option<PlantedBug>,
    ) -> Arc<Self> {
        Arc::new(Self {
            nature,
            database,
            rates,
            planted,
            copies: Mutex::default(),
            away_until: Mutex::default(),
        })
    }

    fn copies(&self) -> MutexGuard<'_, HashMap<(EmailId, String), usize>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn away_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let away = self.away_until.lock();
        away.unwrap_or_else(PoisonError::into_inner)
    }

    /// It takes no connection for this long.
    pub(crate) fn go_away(&self, time: Duration) {
        *self.away_until() = Some(Instant::now() + time);
    }

    /// It takes connections again.
    pub(crate) fn come_back(&self) {
        *self.away_until() = None;
    }

    fn is_away(&self) -> bool {
        self.away_until()
            .is_some_and(|until| until > Instant::now())
    }

    /// How many copies of an email a recipient has.
    pub(crate) fn copies_of(&self, id: EmailId, to: &str) -> usize {
        let copies = self.copies();
        copies.get(&(id, to.to_owned())).copied().unwrap_or(0)
    }

    /// The dot arrived: these recipients have a copy. A further one must have its reason on record
    /// by now.
    fn take(&self, id: EmailId, to: &[&Address], process: &Process) {
        let (name, unknowns) = {
            let tables = self.database.tables();
            let row = tables.row(id);
            let name = row.map_or("nothing", |row| row.name()).to_owned();
            (name, row.map_or(0, |row| row.unknowns()))
        };
        for address in to {
            let copies = {
                let mut copies = self.copies();
                let copies = copies.entry((id, address.to_string())).or_default();
                *copies += 1;
                *copies
            };
            self.nature.count("copies at the mail server");
            self.nature.say(&process.name, || {
                format!("{name:<4} copy {copies} for {address}")
            });
            if copies > 1 {
                self.nature.count("second copies, on record");
            }
            if copies > 1 + unknowns {
                let detail = format!(
                    "{name} reached {address} {copies} times with {unknowns} attempts of unknown fate"
                );
                self.nature.breach("I3", detail);
            }
        }
    }
}

/// A way to the server from one process.
pub(crate) struct MemoryTransport {
    name: String,
    server: Arc<MailServer>,
    process: Arc<Process>,
}

impl MemoryTransport {
    pub(crate) fn new(name: String, server: Arc<MailServer>, process: Arc<Process>) -> Self {
        Self {
            name,
            server,
            process,
        }
    }

    /// Takes a while, and may be the end of the process.
    async fn travel(&self, what: &'static str, time: Duration) {
        self.process.point(what).await;
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        self.process.awake().await;
    }

    /// Everything up to the final dot; the recipients that the server would take.
    async fn prepare(
        &self,
        email: &Outgoing,
        script: &Script,
    ) -> Result<Vec<Option<Failure>>, Failure> {
        self.travel("connect", script.pause).await;
        if self.server.is_away() {
            return Err(Failure::new(Stage::Connect, Cause::Refused));
        }
        match &script.end {
            End::BeforeRecipients(failure, after) => {
                self.travel("connect", *after).await;
                return Err(failure.clone());
            }
            End::BeforeDot(failure, after) => {
                self.travel("body", *after).await;
                return Err(failure.clone());
            }
            _ => {}
        }
        self.travel("recipients", script.slow_before).await;
        Ok((0..email.recipients.len())
            .map(|place| script.refusal(place))
            .collect())
    }

    /// The dot, and what the server makes of it.
    async fn dot(&self, email: &Outgoing, taken: &[&Address], script: &Script) -> Option<Failure> {
        self.process.point("before the dot").await;
        if script.takes_it() {
            self.server.take(email.email_id, taken, &self.process);
        }
        self.travel("after the dot", script.slow_after).await;
        match &script.end {
            End::AfterDot(failure, _) => Some(failure.clone()),
            _ => None,
        }
    }
}

fn all(email: &Outgoing, failure: &Failure) -> Vec<RecipientResult> {
    vec![RecipientResult::Failed(failure.clone()); email.recipients.len()]
}

#[async_trait]
impl Transport for MemoryTransport {
    fn name(&self) -> &str {
        &self.name
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        let server = &*self.server;
        let script = Script::draw(&server.nature, &server.rates, email.recipients.len());
        let refusals = match self.prepare(email, &script).await {
            Ok(refusals) => refusals,
            Err(failure) => return all(email, &failure),
        };
        let stands = email.recipients.iter().zip(&refusals);
        let taken: Vec<&Address> = stands
            .filter_map(|(address, refusal)| refusal.is_none().then_some(address))
            .collect();
        let lost = Failure::new(Stage::Gate, Cause::LeaseLost);
        let ended = if taken.is_empty() {
            None
        } else if server.planted == Some(PlantedBug::Gate) {
            let ended = self.dot(email, &taken, &script).await;
            if gate.pass().await { ended } else { Some(lost) }
        } else if gate.pass().await {
            self.dot(email, &taken, &script).await
        } else {
            Some(lost)
        };
        let result = |refusal: Option<Failure>| match refusal.or_else(|| ended.clone()) {
            Some(failure) => RecipientResult::Failed(failure),
            None => RecipientResult::Accepted(Reply::new(250, "2.0.0 OK").into()),
        };
        refusals.into_iter().map(result).collect()
    }

    async fn check(&self) -> Result<String, String> {
        Ok("simulated".into())
    }

    async fn close(&self) {}
}
