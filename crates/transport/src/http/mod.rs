//! Providers' HTTP APIs: one request per email, whose answer is a yes or a no.
//!
//! The way of a message: `mail` finds who still waits and in which requests they go; the adapter
//! in `provider` builds the request (some from the fields that `letter` takes out of our message);
//! the gate is passed; `exchange` makes the request; the adapter reads the answer. What is certain
//! and what is not is decided here and in `exchange`, for all providers alike.

mod config;
mod exchange;
mod letter;
mod mail;
mod person;
mod provider;
mod retry_after;

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use posthaste_core::answer::Answer;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::{Receipt, RecipientResult};
use posthaste_core::failpoint;
use posthaste_core::port::{Gate, Outgoing, Transport};
use reqwest::{Client, Request, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use config::{HttpConfig, HttpConfigError, ProviderConfig};

use exchange::{RawAnswer, exchange};
use mail::{Group, Mail};
use provider::{Api, Probe, Reading, Refused};

/// A check waits no longer than this.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// A secret that is shorter is not looked for in answers: too much would look like it.
const SHORTEST_SECRET: usize = 8;

/// Sends emails through one provider's HTTP API.
pub struct HttpTransport {
    config: HttpConfig,
    api: Box<dyn Api>,
    client: Client,
    permits: Semaphore,
    secrets: Vec<SecretString>,
}

impl HttpTransport {
    /// A transport with this configuration. Connects only when there is something to send.
    pub fn new(config: HttpConfig) -> Result<Self, HttpConfigError> {
        config.validate()?;
        Ok(Self {
            api: provider::api(&config.provider)?,
            client: exchange::client(&config)?,
            permits: Semaphore::new(config.connections.min(Semaphore::MAX_PERMITS)),
            secrets: config.provider.secrets(),
            config,
        })
    }

    /// Sends the message to everybody who waits, or says why nobody was asked.
    async fn deliver(
        &self,
        email: &Outgoing,
        gate: &dyn Gate,
    ) -> Result<Vec<RecipientResult>, Failure> {
        let unreadable = || Cause::NotSupported("a message that cannot be read".to_owned());
        let mail = Mail::read(email).ok_or_else(|| Failure::new(Stage::Body, unreadable()))?;
        let everybody: Vec<usize> = (0..email.recipients.len()).collect();
        let mut groups: VecDeque<Group> = self.groups(&mail, &everybody).into();
        let Some(first) = groups.front() else {
            return Ok(Vec::new());
        };
        let mut ready = Some(self.request(&mail, first)?);
        failpoint::hit("http.before_gate");
        if !gate.pass().await {
            return Err(Failure::new(Stage::Gate, Cause::LeaseLost));
        }
        let deadline = Instant::now() + self.config.request_timeout;
        let mut results = Results::of(email);
        while let Some(group) = groups.pop_front() {
            let request = match ready.take() {
                Some(request) => Ok(request),
                None => self.request(&mail, &group),
            };
            let outcome = match request {
                Ok(request) => self.ask(request, &group, deadline).await,
                Err(failure) => Err(No::to_all(failure)),
            };
            match results.take(email, &group, outcome) {
                Next::GoOn => {}
                Next::Without(others) => {
                    let again = self.groups(&mail, &others).into_iter();
                    again.rev().for_each(|group| groups.push_front(group));
                }
                Next::Stop(rest) => {
                    results.fill(rest);
                    break;
                }
            }
        }
        Ok(results.finish())
    }

    fn groups(&self, mail: &Mail<'_>, places: &[usize]) -> Vec<Group> {
        mail.groups(places, self.api.addressing(), self.api.most_recipients())
    }

    fn request(&self, mail: &Mail<'_>, group: &Group) -> Result<Request, Failure> {
        let request = self.api.request(&self.client, mail, group);
        request.map_err(|cause| Failure::new(Stage::Body, cause))
    }

    /// One request after the gate.
    async fn ask(
        &self,
        mut request: Request,
        group: &Group,
        deadline: Instant,
    ) -> Result<Taken, No> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(No::to_all(Failure::new(Stage::Body, Cause::Timeout)));
        }
        *request.timeout_mut() = Some(left);
        failpoint::hit("http.before_request");
        let answer = exchange(&self.client, request).await;
        failpoint::hit("http.after_request");
        let answer = answer.map_err(|failure| No::to_all(self.lost(failure, group)))?;
        match self.api.read(&answer) {
            Reading::Accepted(accepted) => Ok(Taken {
                receipt: Receipt {
                    text: self.said(answer.status, None, &accepted.text).to_string(),
                    provider_id: accepted.id.map(|id| self.clean(&id)),
                },
                except: accepted
                    .except
                    .map(|(addresses, refused)| (addresses, self.refusal(&refused, None))),
            }),
            Reading::Refused(refused) => Err(No {
                failure: self.no(&answer, &refused),
                named: self.api.named_in(&refused, group),
            }),
        }
    }

    /// A lost answer can be asked for again where the provider knows our key. It is the key of this
    /// request: with several recipients, the next one may be to fewer of them, and so another.
    fn lost(&self, failure: Failure, group: &Group) -> Failure {
        let is_repeatable = self.api.honours_keys() && group.members.len() == 1;
        if failure.stage == Stage::Request && is_repeatable {
            let cause = Cause::AnswerLost(failure.cause.to_string());
            return Failure::new(Stage::Request, cause);
        }
        failure
    }

    fn no(&self, answer: &RawAnswer, refused: &Refused) -> Failure {
        // The half of a refusal that was lost may have said that it is no refusal for good. It was
        // one all the same: nothing was sent.
        let is_for_good = matches!(answer.status, 400..=499) && !matches!(answer.status, 408 | 429);
        if !answer.is_whole && is_for_good {
            return Failure::new(Stage::Body, Cause::Disconnected);
        }
        let now = Timestamp::now();
        let wait = retry_after::asked_for(answer.status, &answer.headers, now);
        self.refusal(refused, wait)
    }

    fn refusal(&self, refused: &Refused, wait: Option<Duration>) -> Failure {
        let answer = self.said(refused.status, refused.name.as_deref(), &refused.text);
        Failure::new(Stage::Request, Cause::Answer(answer.after(wait)))
    }

    fn said(&self, status: u16, name: Option<&str>, text: &str) -> Answer {
        let name = name.map(|name| self.clean(name));
        Answer::new(
            self.api.provider(),
            status,
            name.as_deref(),
            &self.clean(text),
        )
    }

    /// What a provider said, without our secrets, should it repeat them.
    fn clean(&self, text: &str) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.expose_secret());
        secrets
            .filter(|secret| secret.len() >= SHORTEST_SECRET)
            .fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }

    async fn probe(&self) -> Result<String, String> {
        match self.api.probe(&self.client)? {
            Probe::Ask(mut request) => {
                let place = place(request.url());
                *request.timeout_mut() = Some(self.config.request_timeout.min(CHECK_TIMEOUT));
                let answer = exchange(&self.client, request).await;
                let answer = answer.map_err(|failure| format!("{place}: {}", failure.cause))?;
                match self.api.read_probe(&answer) {
                    Ok(text) => Ok(format!("{place}: {}", self.clean(&text))),
                    Err(text) => Err(format!(
                        "{place}: {}{}",
                        self.clean(&text),
                        advice(answer.status)
                    )),
                }
            }
            Probe::Connect(url) => {
                let place = place(&url);
                let host = url.host_str().unwrap_or_default();
                let host = host.trim_matches(['[', ']']);
                let port = url.port_or_known_default().unwrap_or(443);
                let connected = tokio::net::TcpStream::connect((host, port));
                match tokio::time::timeout(self.config.connect_timeout, connected).await {
                    Ok(Ok(_)) => Ok(format!("{place}: it can be reached")),
                    Ok(Err(error)) => Err(format!("{place}: {error}; check url and the network")),
                    Err(_) => Err(format!(
                        "{place}: {}; check url and the network",
                        Cause::Timeout
                    )),
                }
            }
        }
    }
}

impl std::fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HttpTransport").field(&self.config).finish()
    }
}

/// The host and port of a URL: its path and query may hold secrets.
fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "; check the key and what it may do",
        404 => "; check base_url, and that what is configured exists there",
        _ => "",
    }
}

/// A yes, and for whom it is none.
struct Taken {
    receipt: Receipt,
    except: Option<(Vec<String>, Failure)>,
}

/// A no, or no answer.
struct No {
    failure: Failure,
    /// Those who are named as the reason, in lower case.
    named: Vec<String>,
}

impl No {
    fn to_all(failure: Failure) -> Self {
        Self {
            failure,
            named: Vec::new(),
        }
    }
}

/// What comes after a request.
enum Next {
    /// The next one.
    GoOn,
    /// Once more, for these alone.
    Without(Vec<usize>),
    /// No other: this becomes of their recipients.
    Stop(Failure),
}

/// One result per recipient, found request by request.
struct Results(Vec<Option<RecipientResult>>);

impl Results {
    fn of(email: &Outgoing) -> Self {
        Self(vec![None; email.recipients.len()])
    }

    /// Takes in what became of a request.
    fn take(&mut self, email: &Outgoing, group: &Group, outcome: Result<Taken, No>) -> Next {
        let is_among = |addresses: &[String], member: usize| {
            addresses.contains(&email.recipients[member].folded())
        };
        match outcome {
            Ok(taken) => {
                let accepted = RecipientResult::Accepted(taken.receipt);
                for &member in &group.members {
                    let except = taken.except.as_ref();
                    let except = except.filter(|(addresses, _)| is_among(addresses, member));
                    self.0[member] = Some(match except {
                        Some((_, failure)) => RecipientResult::Failed(failure.clone()),
                        None => accepted.clone(),
                    });
                }
                Next::GoOn
            }
            Err(no) => {
                let members = group.members.iter().copied();
                let (named, others): (Vec<usize>, Vec<usize>) =
                    members.partition(|&member| is_among(&no.named, member));
                let speaks_of_others = !speaks_of_its_own(&no.failure);
                let is_their_fault = !named.is_empty() && !others.is_empty() && !speaks_of_others;
                let refused = if is_their_fault {
                    &named
                } else {
                    &group.members
                };
                for &member in refused {
                    self.0[member] = Some(RecipientResult::Failed(no.failure.clone()));
                }
                if is_their_fault {
                    Next::Without(others)
                } else if speaks_of_others {
                    Next::Stop(spoilt(no.failure))
                } else {
                    Next::GoOn
                }
            }
        }
    }

    fn fill(&mut self, rest: Failure) {
        for result in self.0.iter_mut().filter(|result| result.is_none()) {
            *result = Some(RecipientResult::Failed(rest.clone()));
        }
    }

    fn finish(self) -> Vec<RecipientResult> {
        let nothing = || Cause::Protocol("no request was made".to_owned());
        let results = self.0.into_iter();
        results
            .map(|result| {
                result.unwrap_or_else(|| {
                    RecipientResult::Failed(Failure::new(Stage::Body, nothing()))
                })
            })
            .collect()
    }
}

/// Whether a failure speaks only about the recipients of its own request.
fn speaks_of_its_own(failure: &Failure) -> bool {
    let status = failure.answer().map(|answer| answer.status);
    matches!(status, Some(400 | 406 | 422)) || matches!(failure.cause, Cause::NotSupported(_))
}

/// What becomes of recipients whose request was not made because another one failed like this.
fn spoilt(failure: Failure) -> Failure {
    match &failure.cause {
        Cause::Answer(_) => failure,
        // Nobody knows about that one; about the others it is certain.
        _ if failure.stage == Stage::Request => Failure::new(Stage::Body, Cause::Timeout),
        _ => failure,
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn send(&self, email: &Outgoing, gate: &dyn Gate) -> Vec<RecipientResult> {
        if email.recipients.is_empty() {
            return Vec::new();
        }
        let permit = self.permits.acquire().await;
        gate.talks();
        let delivered = match permit {
            Ok(_permit) => self.deliver(email, gate).await,
            Err(error) => Err(Failure::new(Stage::Connect, Cause::Io(error.to_string()))),
        };
        match delivered {
            Ok(results) => results,
            Err(failure) => vec![RecipientResult::Failed(failure); email.recipients.len()],
        }
    }

    async fn check(&self) -> Result<String, String> {
        let provider = self.api.provider();
        match self.probe().await {
            Ok(text) => Ok(format!("{provider} at {text}")),
            Err(text) => Err(format!("{provider} at {text}")),
        }
    }

    /// Idle connections close by themselves soon, or with the transport.
    async fn close(&self) {}
}
