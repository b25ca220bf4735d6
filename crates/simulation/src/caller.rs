//! Those who hand emails in. They keep a ledger of their own of what was accepted, and when they get
//! no answer they hand the same in again, to another process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::status::Status;
use posthaste_engine::intake::{EmailRequest, Refused, Submitter, Taken};

use crate::fleet::{Fleet, Life};
use crate::nature::Nature;
use crate::plan::Post;

/// A caller waits this long for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// What callers know: the id under which each key was accepted.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<String, EmailId>>);

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, EmailId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that was accepted.
    pub(crate) fn all(&self) -> Vec<(String, EmailId)> {
        let entries = self.entries();
        entries.iter().map(|(key, id)| (key.clone(), *id)).collect()
    }

    /// Under which id this was accepted.
    pub(crate) fn id(&self, key: &str) -> Option<EmailId> {
        self.entries().get(key).copied()
    }

    /// A caller was told that this is accepted. The same key is the same email for ever.
    fn note(&self, key: &str, id: EmailId, nature: &Nature) {
        let known = *self.entries().entry(key.to_owned()).or_insert(id);
        if known != id {
            nature.breach("I2", format!("{key} was accepted under two ids"));
        }
    }
}

/// How one try to hand something in ended.
enum Answer {
    /// All of it is accepted.
    Taken,
    /// Some of it may not be.
    Failed,
    /// It makes no sense to try again.
    Refused,
}

/// One who hands something in.
pub(crate) struct Caller {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) beginning: Timestamp,
    pub(crate) post: Post,
}

impl Caller {
    /// Hands it in, until it is taken or the caller gives up.
    pub(crate) async fn run(self) {
        tokio::time::sleep(self.post.at).await;
        let nature = Arc::clone(&self.fleet.ground.nature);
        let mut left = 1 + self.post.repeats;
        while left > 0 {
            let answer = match self.fleet.any_api() {
                Some(life) => self.hand_in(&life).await,
                None => Answer::Failed,
            };
            match answer {
                Answer::Taken => left -= 1,
                Answer::Refused => return,
                Answer::Failed if self.post.gives_up => {
                    nature.count("callers that gave up");
                    return;
                }
                Answer::Failed => nature.count("callers that tried again"),
            }
            let rest = nature.draw(|random| random.milliseconds(100, 2_000));
            tokio::time::sleep(rest).await;
        }
    }

    /// One try at one process, which may die meanwhile.
    async fn hand_in(&self, life: &Life) -> Answer {
        tokio::select! {
            biased;
            () = life.process.death() => Answer::Failed,
            answer = tokio::time::timeout(PATIENCE, self.ask(life)) => {
                if life.process.is_dead() {
                    return Answer::Failed;
                }
                answer.unwrap_or(Answer::Failed)
            }
        }
    }

    async fn ask(&self, life: &Life) -> Answer {
        let submitter = Submitter {
            owner: "default".into(),
            from_addresses: Vec::new(),
        };
        let letters = self.post.letters.iter();
        let mut requests: Vec<EmailRequest> = letters
            .map(|letter| letter.request(self.beginning))
            .collect();
        let intake = &life.engine.intake;
        if self.post.inline
            && let Some(request) = requests.pop()
        {
            let delivered = intake.deliver(&submitter, request).await;
            life.process.awake().await;
            return match delivered {
                Ok(delivered) => {
                    let key = &delivered.message_key;
                    self.taken(key, delivered.id, life);
                    if delivered.status == Status::Sent && !delivered.is_replayed {
                        self.assert_arrived(key, delivered.id);
                    }
                    Answer::Taken
                }
                Err(refused) => self.refused(&refused),
            };
        }
        let answers = intake.take(&submitter, requests).await;
        life.process.awake().await;
        let mut answer = Answer::Taken;
        for taken in answers {
            match taken {
                Ok(
                    Taken::Accepted { id, message_key }
                    | Taken::Replayed {
                        id, message_key, ..
                    },
                ) => {
                    self.taken(&message_key, id, life);
                }
                Err(refused) => answer = self.refused(&refused),
            }
        }
        answer
    }

    /// The answer is there, unless the process died before it could be given.
    fn taken(&self, key: &str, id: EmailId, life: &Life) {
        if !life.process.is_dead() {
            let nature = &self.fleet.ground.nature;
            nature.say("caller", || format!("{key:<4} is accepted"));
            self.ledger.note(key, id, nature);
        }
    }

    /// Whoever is told that it was sent may rely on it.
    fn assert_arrived(&self, key: &str, id: EmailId) {
        let ground = &self.fleet.ground;
        let mut letters = self.post.letters.iter();
        let to = letters.find(|letter| letter.key == key).map(|one| &one.to);
        for address in to.into_iter().flatten() {
            if ground.mail.copies_of(id, address) == 0 {
                let detail =
                    format!("{key}: a caller was told that it was sent, {address} has none");
                ground.nature.breach("I3", detail);
            }
        }
    }
}

impl Caller {
    /// Whether it makes sense to try again.
    fn refused(&self, refused: &Refused) -> Answer {
        if let Refused::Store(_) = refused {
            return Answer::Failed;
        }
        let nature = &self.fleet.ground.nature;
        nature.count("callers that were refused");
        nature.say("caller", || format!("is refused: {refused:?}"));
        Answer::Refused
    }
}
