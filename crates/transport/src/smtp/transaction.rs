//! One message over one connection: MAIL, RCPT, DATA, the message, the gate, the final dot.
//!
//! The final dot must never be written before the gate was passed; after it, only the reply is
//! waited for. A reply must never be taken for the answer to another command.
//!
//! Content with bytes above 127 is sent to a server without 8BITMIME all the same: such servers
//! have taken it for decades, and re-encoding would break signatures and the promise that a
//! message arrives byte for byte.

use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::failpoint;
use posthaste_core::port::{Gate, Outgoing};
use tokio::time::{Duration, Instant};

use super::announcement::{self, Command, WINDOW};
use super::config::Timeouts;
use super::connection::Connection;
use super::dot_stuffing::stuffed;
use super::pool::Pool;
use super::reply_reader::RawReply;
use super::slots::Next;

/// A message up to this size is written together with its final dot: one write, and the server
/// wakes up once. A larger one is on its way before the gate is passed, so that little is left to
/// do after it.
const AT_ONCE: usize = 32 * 1024;
/// A server that takes longer than this to answer is given no announcements.
const PROMPT: Duration = Duration::from_millis(250);
/// Who was announced on a connection does not wait longer than this for the answer to the message
/// before.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a transaction ended.
pub(super) struct Ended {
    /// One per recipient, in their order.
    pub(super) results: Vec<RecipientResult>,
    /// What the connection is good for now.
    pub(super) fate: Fate,
    /// Whose message was announced on it already.
    pub(super) next: Option<Next>,
}

/// What a connection is good for after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// The next transaction.
    Usable,
    /// Nothing: it is dead, out of step, in the middle of a message, or about to be closed.
    Broken,
    /// Nothing: it ended before MAIL was answered. If it had been used before, it may have been
    /// dead already, and a fresh connection may be tried: nothing can have been sent.
    Stale,
}

/// Why a transaction went no further.
struct Halt {
    /// What becomes of those who have no result of their own.
    rest: RecipientResult,
    fate: Fate,
}

impl Halt {
    fn new(stage: Stage, cause: Cause, fate: Fate) -> Self {
        Self {
            rest: RecipientResult::Failed(Failure::new(stage, cause)),
            fate,
        }
    }
}

/// Sends the message.
pub(super) async fn run(
    connection: &mut Connection,
    email: &Outgoing,
    gate: &dyn Gate,
    timeouts: &Timeouts,
    pool: &Pool,
) -> Ended {
    let mut transaction = Transaction {
        connection,
        email,
        timeouts,
        pool,
        next: None,
        results: vec![None; email.recipients.len()],
        was_announced: false,
        lacks_reset: false,
        mail_was_answered: false,
        mail_refusal: None,
        accepted: 0,
    };
    let (rest, mut fate) = match transaction.conduct(gate).await {
        Ok(reply) => (
            RecipientResult::Accepted(reply.to_reply().into()),
            Fate::Usable,
        ),
        Err(halt) => (halt.rest, halt.fate),
    };
    let next = transaction.next;
    let results = transaction.results.into_iter();
    let results = results.map(|result| result.unwrap_or_else(|| rest.clone()));
    if connection.in_message || (connection.is_announced && next.is_none()) {
        // Someone's message can neither go on nor be taken back.
        fate = fate.max(Fate::Broken);
    }
    Ended {
        results: results.collect(),
        fate,
        next,
    }
}

struct Transaction<'a> {
    connection: &'a mut Connection,
    email: &'a Outgoing,
    timeouts: &'a Timeouts,
    pool: &'a Pool,
    /// Whose message was announced behind this one.
    next: Option<Next>,
    /// Results of single recipients; the others share one.
    results: Vec<Option<RecipientResult>>,
    /// Whether it was announced behind the message before.
    was_announced: bool,
    /// Whether the message before was refused when this one had been announced already.
    lacks_reset: bool,
    mail_was_answered: bool,
    /// The reply to MAIL, if it was refused.
    mail_refusal: Option<RawReply>,
    /// How many recipients the server takes.
    accepted: usize,
}

impl Transaction<'_> {
    /// The whole way. The reply is the one to the final dot.
    async fn conduct(&mut self, gate: &dyn Gate) -> Result<RawReply, Halt> {
        self.refuse_unsupported()?;
        self.announce().await?;
        let dot = self.write_message().await?;
        self.pass(gate).await?;
        self.finish(dot).await
    }

    /// Finds what this server cannot take, without asking it.
    fn refuse_unsupported(&mut self) -> Result<(), Halt> {
        let offers = &self.connection.extensions;
        if let Some(failure) = announcement::refusal(self.email, offers) {
            return Err(Halt {
                rest: RecipientResult::Failed(failure),
                fate: Fate::Usable,
            });
        }
        for (recipient, result) in self.email.recipients.iter().zip(&mut self.results) {
            let failure = announcement::refusal_of(recipient, offers);
            *result = failure.map(RecipientResult::Failed);
        }
        if self.results.iter().all(Option::is_some) {
            return Err(self.nobody_is_left());
        }
        Ok(())
    }

    /// MAIL, every RCPT, and DATA: in one go if the server allows it, and not at all if it was
    /// done together with the message before. Afterwards the server waits for the message.
    async fn announce(&mut self) -> Result<(), Halt> {
        let is_announced = std::mem::take(&mut self.connection.is_announced);
        self.connection.awaits_data = is_announced;
        self.was_announced = is_announced;
        self.lacks_reset = is_announced && self.connection.needs_reset;
        let commands = self.commands(is_announced);
        self.connection.messages += 1;
        self.connection.needs_reset = true;
        let mut rest = commands.as_slice();
        while let Some(&first) = rest.first() {
            if self.mail_refusal.is_some() || (first == Command::Data && self.accepted == 0) {
                break;
            }
            let count = if is_announced {
                rest.len()
            } else {
                self.write_window(rest).await?
            };
            let (window, later) = rest.split_at(count);
            rest = later;
            for &command in window {
                let (stage, limit) = self.stage_and_limit(command);
                let reply = self.connection.reply(stage, limit).await;
                let reply = reply.map_err(|failure| self.halt(failure))?;
                self.hear(command, reply)?;
            }
        }
        if let Some(reply) = &self.mail_refusal {
            let cause = Cause::Reply(reply.to_reply());
            return Err(Halt::new(Stage::MailFrom, cause, Fate::Usable));
        }
        if self.accepted == 0 {
            return Err(self.nobody_is_left());
        }
        Ok(())
    }

    fn commands(&self, is_announced: bool) -> Vec<Command> {
        let mut commands = Vec::with_capacity(self.results.len() + 3);
        if self.connection.needs_reset && !is_announced {
            commands.push(Command::Reset);
        }
        commands.push(Command::Mail);
        let open = self.results.iter().enumerate();
        let open = open.filter(|(_, result)| result.is_none());
        commands.extend(open.map(|(index, _)| Command::Recipient(index)));
        commands.push(Command::Data);
        commands
    }

    /// Writes the commands that can be sent without waiting for a reply; how many they are.
    async fn write_window(&mut self, commands: &[Command]) -> Result<usize, Halt> {
        let offers = &self.connection.extensions;
        let out = &mut self.connection.outgoing;
        out.clear();
        let most = if offers.pipelining { commands.len() } else { 1 };
        let mut count = 0;
        while count < most && out.len() <= WINDOW {
            announcement::push(out, commands[count], self.email, offers);
            self.connection.awaits_data |= commands[count] == Command::Data;
            count += 1;
        }
        let (stage, limit) = self.stage_and_limit(commands[0]);
        failpoint::hit("smtp.before_mail");
        let written = self.connection.write_outgoing(stage, limit).await;
        written.map_err(|failure| self.halt(failure))?;
        Ok(count)
    }

    fn stage_and_limit(&self, command: Command) -> (Stage, Duration) {
        match command {
            Command::Reset | Command::Mail => (Stage::MailFrom, self.timeouts.mail),
            Command::Recipient(_) => (Stage::Recipient, self.timeouts.recipient),
            Command::Data => (Stage::Data, self.timeouts.data),
        }
    }

    /// Takes in the reply to a command. Pipelined replies are heard to the end even when it is
    /// clear that nothing comes of it, so that the connection stays in step.
    fn hear(&mut self, command: Command, reply: RawReply) -> Result<(), Halt> {
        let (stage, _) = self.stage_and_limit(command);
        let refusal = || Failure::new(stage, Cause::Reply(reply.to_reply()));
        if reply.is_closing() {
            return Err(self.halt(refusal()));
        }
        match command {
            // A connection that cannot be reset is as good as dead.
            Command::Reset if !reply.is_positive() => Err(Halt {
                rest: RecipientResult::Failed(refusal()),
                fate: Fate::Stale,
            }),
            Command::Reset => Ok(()),
            // Perhaps the server wanted RSET first.
            Command::Mail if self.lacks_reset && reply.is_negative() => Err(Halt {
                rest: RecipientResult::Failed(refusal()),
                fate: Fate::Stale,
            }),
            Command::Mail => {
                failpoint::hit("smtp.after_mail");
                self.mail_was_answered = true;
                if reply.is_negative() {
                    self.mail_refusal = Some(reply);
                    return Ok(());
                }
                self.expect(reply.is_positive(), stage, &reply)
            }
            Command::Recipient(_) if self.mail_refusal.is_some() => Ok(()),
            Command::Recipient(index) => {
                failpoint::hit("smtp.after_recipient");
                if reply.is_negative() {
                    self.results[index] = Some(RecipientResult::Failed(refusal()));
                    return Ok(());
                }
                self.accepted += 1;
                self.expect(reply.is_positive(), stage, &reply)
            }
            Command::Data if reply.is_negative() => {
                self.connection.awaits_data = false;
                if self.accepted > 0 {
                    let rest = RecipientResult::Failed(refusal());
                    let fate = Fate::Usable;
                    return Err(Halt { rest, fate });
                }
                Ok(())
            }
            Command::Data => {
                // Should nobody have been accepted, the connection can only be thrown away: even
                // a lone dot would send a message.
                self.connection.in_message = true;
                self.connection.awaits_data = false;
                self.expect(reply.code == 354, stage, &reply)
            }
        }
    }

    fn expect(&self, is_in_order: bool, stage: Stage, reply: &RawReply) -> Result<(), Halt> {
        if is_in_order {
            return Ok(());
        }
        let text = format!("{} out of order", reply.code);
        Err(self.halt(Failure::new(stage, Cause::Protocol(text))))
    }

    /// Writes the message, all but the final dot. A small one is only laid ready; how much that is.
    async fn write_message(&mut self) -> Result<usize, Halt> {
        failpoint::hit("smtp.before_body");
        let pieces = stuffed(&self.email.content);
        if self.email.content.len() <= AT_ONCE {
            let out = &mut self.connection.outgoing;
            out.clear();
            pieces.for_each(|piece| out.extend_from_slice(piece));
            return Ok(out.len());
        }
        let written = self.connection.write_message(pieces, self.timeouts.body);
        written.await.map_err(|failure| self.halt(failure))?;
        Ok(0)
    }

    /// Passes the gate. A server that has hung up or refused by then has not taken the message:
    /// seen before the final dot that is certain, seen after it never.
    async fn pass(&mut self, gate: &dyn Gate) -> Result<(), Halt> {
        self.expect_quiet().await?;
        failpoint::hit("smtp.before_gate");
        if !gate.pass().await {
            return Err(Halt::new(Stage::Gate, Cause::LeaseLost, Fate::Broken));
        }
        failpoint::hit("smtp.after_gate");
        self.expect_quiet().await
    }

    async fn expect_quiet(&mut self) -> Result<(), Halt> {
        match self.connection.interruption().await {
            None => Ok(()),
            Some(cause) => Err(Halt::new(Stage::Body, cause, Fate::Broken)),
        }
    }

    /// The final dot after what was laid ready, and its reply. Whoever waits for this connection
    /// is announced in the same breath.
    async fn finish(&mut self, dot: usize) -> Result<RawReply, Halt> {
        let stage = Stage::FinalDot;
        let limit = self.timeouts.dot;
        let started = Instant::now();
        self.connection.outgoing.extend_from_slice(b".\r\n");
        // The rest of a large message may take its time to leave.
        if dot > 0 {
            self.announce_next();
        }
        failpoint::hit("smtp.before_dot");
        let written = self.connection.write_ending(dot, limit).await;
        let is_whole = written.map_err(|failure| self.halt(failure))?;
        if !is_whole {
            self.next = None;
        }
        failpoint::hit("smtp.after_dot");
        let reply = self.reply_to_dot(started, limit).await;
        failpoint::hit("smtp.after_reply");
        let took = started.elapsed();
        self.connection.is_prompt = took < PROMPT;
        let reply = reply.map_err(|failure| self.halt(failure))?;
        if reply.is_positive() {
            self.connection.needs_reset = false;
            return Ok(reply);
        }
        self.expect(reply.is_negative(), stage, &reply)?;
        let failure = Failure::new(stage, Cause::Reply(reply.to_reply()));
        if reply.is_closing() {
            return Err(self.halt(failure));
        }
        Err(Halt {
            rest: RecipientResult::Failed(failure),
            fate: Fate::Usable,
        })
    }

    /// Announces whoever waits for this connection. Only where the server answers promptly: who is
    /// announced here waits for the answer to this message, and cannot go elsewhere meanwhile.
    fn announce_next(&mut self) {
        if !self.connection.is_prompt {
            return;
        }
        self.next = self.pool.next_on(self.connection);
        if let Some(next) = &self.next {
            self.connection.outgoing.extend_from_slice(next.commands());
            self.connection.is_announced = true;
        }
    }

    async fn reply_to_dot(
        &mut self,
        started: Instant,
        limit: Duration,
    ) -> Result<RawReply, Failure> {
        let stage = Stage::FinalDot;
        if self.next.is_some() && limit > PATIENCE {
            let patience = PATIENCE.saturating_sub(started.elapsed());
            match self.connection.reply(stage, patience).await {
                Err(failure) if failure.cause == Cause::Timeout => self.next = None,
                reply => return reply,
            }
        }
        let left = limit.saturating_sub(started.elapsed());
        self.connection.reply(stage, left).await
    }

    /// The end of a conversation that cannot go on.
    fn halt(&self, failure: Failure) -> Halt {
        if let Some(reply) = &self.mail_refusal {
            let cause = Cause::Reply(reply.to_reply());
            return Halt::new(Stage::MailFrom, cause, Fate::Broken);
        }
        let is_hangup = match &failure.cause {
            Cause::Disconnected => true,
            Cause::Reply(reply) => reply.code == 421,
            _ => false,
        };
        // Not every server that says so can take in what comes behind a dot.
        let is_lost = self.was_announced && !is_hangup;
        let fate = match self.mail_was_answered {
            false if is_lost => {
                self.pool.announce_no_more();
                Fate::Stale
            }
            false if is_hangup => Fate::Stale,
            _ => Fate::Broken,
        };
        Halt {
            rest: RecipientResult::Failed(failure),
            fate,
        }
    }

    /// The end of a transaction in which every recipient was refused on their own.
    fn nobody_is_left(&self) -> Halt {
        let any = self.results.iter().flatten().next().cloned();
        let nothing = || Cause::Protocol("no recipient was answered".to_owned());
        Halt {
            rest: any.unwrap_or_else(|| {
                RecipientResult::Failed(Failure::new(Stage::Recipient, nothing()))
            }),
            fate: Fate::Usable,
        }
    }
}
