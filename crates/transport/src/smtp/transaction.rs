//! One message over one connection: MAIL, RCPT, DATA, the message, the gate, the final dot.
//!
//! The final dot must never be written before the gate was passed; after it, only the reply is
//! waited for. A reply must never be taken for the answer to another command.
//!
//! Content with bytes above 127 is sent to a server without 8BITMIME all the same: such servers
//! have taken it for decades, and re-encoding would break signatures and the promise that a
//! message arrives byte for byte.

use std::io::Write;

use posthaste_core::address::Address;
use posthaste_core::attempt::{Cause, Failure, Stage};
use posthaste_core::decision::RecipientResult;
use posthaste_core::failpoint;
use posthaste_core::port::{Gate, Outgoing};
use tokio::time::{Duration, Instant};

use super::config::Timeouts;
use super::connection::Connection;
use super::dot_stuffing::{size_of, stuffed};
use super::reply_reader::RawReply;

/// Pipelined commands are sent in windows of about this size. It holds hundreds of recipients,
/// and is small enough that neither side waits for the other to read.
const WINDOW: usize = 32 * 1024;

/// How a transaction ended.
pub(super) struct Ended {
    /// One per recipient, in their order.
    pub(super) results: Vec<RecipientResult>,
    /// What the connection is good for now.
    pub(super) fate: Fate,
}

/// What a connection is good for after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Reset,
    Mail,
    Recipient(usize),
    Data,
}

/// Sends the message.
pub(super) async fn run(
    connection: &mut Connection,
    email: &Outgoing,
    gate: &dyn Gate,
    timeouts: &Timeouts,
) -> Ended {
    let mut transaction = Transaction {
        connection,
        email,
        timeouts,
        results: vec![None; email.recipients.len()],
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
    let results = transaction.results.into_iter();
    let results = results.map(|result| result.unwrap_or_else(|| rest.clone()));
    if fate == Fate::Usable && connection.in_message {
        fate = Fate::Broken;
    }
    Ended {
        results: results.collect(),
        fate,
    }
}

struct Transaction<'a> {
    connection: &'a mut Connection,
    email: &'a Outgoing,
    timeouts: &'a Timeouts,
    /// Results of single recipients; the others share one.
    results: Vec<Option<RecipientResult>>,
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
        self.write_message().await?;
        self.pass(gate).await?;
        self.finish().await
    }

    /// Finds what this server cannot take, without asking it.
    fn refuse_unsupported(&mut self) -> Result<(), Halt> {
        let offers = &self.connection.extensions;
        let size = size_of(&self.email.content);
        if let Some(limit) = offers.size_limit
            && size > limit
        {
            let cause = Cause::TooLarge { size, limit };
            return Err(Halt::new(Stage::MailFrom, cause, Fate::Usable));
        }
        if let Some(cause) = unsupported(&self.email.from, offers.smtputf8) {
            return Err(Halt::new(Stage::MailFrom, cause, Fate::Usable));
        }
        for (recipient, result) in self.email.recipients.iter().zip(&mut self.results) {
            if let Some(cause) = unsupported(recipient, offers.smtputf8) {
                let failure = Failure::new(Stage::Recipient, cause);
                *result = Some(RecipientResult::Failed(failure));
            }
        }
        if self.results.iter().all(Option::is_some) {
            return Err(self.nobody_is_left());
        }
        Ok(())
    }

    /// MAIL, every RCPT, and DATA: in one go if the server allows it. Afterwards the server waits
    /// for the message.
    async fn announce(&mut self) -> Result<(), Halt> {
        let commands = self.commands();
        self.connection.messages += 1;
        self.connection.needs_reset = true;
        let mut rest = commands.as_slice();
        while let Some(&first) = rest.first() {
            if self.mail_refusal.is_some() || (first == Command::Data && self.accepted == 0) {
                break;
            }
            let (window, later) = rest.split_at(self.fill_window(rest));
            rest = later;
            let (stage, limit) = self.stage_and_limit(first);
            let written = self.connection.write_outgoing(stage, limit).await;
            written.map_err(|failure| self.halt(failure))?;
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

    fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::with_capacity(self.results.len() + 3);
        if self.connection.needs_reset {
            commands.push(Command::Reset);
        }
        commands.push(Command::Mail);
        let open = self.results.iter().enumerate();
        let open = open.filter(|(_, result)| result.is_none());
        commands.extend(open.map(|(index, _)| Command::Recipient(index)));
        commands.push(Command::Data);
        commands
    }

    /// Collects the commands that can be sent without waiting for a reply; how many they are.
    fn fill_window(&mut self, commands: &[Command]) -> usize {
        self.connection.outgoing.clear();
        let most = if self.connection.extensions.pipelining {
            commands.len()
        } else {
            1
        };
        for (index, &command) in commands[..most].iter().enumerate() {
            if self.connection.outgoing.len() > WINDOW {
                return index;
            }
            self.push(command);
        }
        most
    }

    fn push(&mut self, command: Command) {
        let offers = &self.connection.extensions;
        let out = &mut self.connection.outgoing;
        match command {
            Command::Reset => out.extend_from_slice(b"RSET"),
            Command::Mail => {
                out.extend_from_slice(b"MAIL FROM:<");
                out.extend_from_slice(self.email.from.as_str().as_bytes());
                out.push(b'>');
                if offers.size {
                    // Writing to a vector cannot fail.
                    let _ = write!(out, " SIZE={}", size_of(&self.email.content));
                }
                if offers.eight_bit_mime && !self.email.content.is_ascii() {
                    out.extend_from_slice(b" BODY=8BITMIME");
                }
                let mut addresses = self.email.recipients.iter().chain([&self.email.from]);
                // Those that need it and cannot have it were refused before.
                if offers.smtputf8 && addresses.any(Address::needs_smtputf8) {
                    out.extend_from_slice(b" SMTPUTF8");
                }
            }
            Command::Recipient(index) => {
                out.extend_from_slice(b"RCPT TO:<");
                out.extend_from_slice(self.email.recipients[index].as_str().as_bytes());
                out.push(b'>');
            }
            Command::Data => out.extend_from_slice(b"DATA"),
        }
        out.extend_from_slice(b"\r\n");
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
            Command::Mail => {
                self.mail_was_answered = true;
                if reply.is_negative() {
                    self.mail_refusal = Some(reply);
                    return Ok(());
                }
                self.expect(reply.is_positive(), stage, &reply)
            }
            Command::Recipient(_) if self.mail_refusal.is_some() => Ok(()),
            Command::Recipient(index) => {
                if reply.is_negative() {
                    self.results[index] = Some(RecipientResult::Failed(refusal()));
                    return Ok(());
                }
                self.accepted += 1;
                self.expect(reply.is_positive(), stage, &reply)
            }
            Command::Data if reply.is_negative() => {
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

    /// Writes the message, all but the final dot.
    async fn write_message(&mut self) -> Result<(), Halt> {
        let pieces = stuffed(&self.email.content);
        let written = self.connection.write_message(pieces, self.timeouts.body);
        written.await.map_err(|failure| self.halt(failure))
    }

    /// Passes the gate. A server that has hung up or refused by then has not taken the message:
    /// seen before the final dot that is certain, seen after it never.
    async fn pass(&mut self, gate: &dyn Gate) -> Result<(), Halt> {
        self.expect_quiet().await?;
        failpoint::hit("smtp.before_gate");
        if !gate.pass().await {
            return Err(Halt::new(Stage::Gate, Cause::LeaseLost, Fate::Broken));
        }
        self.expect_quiet().await
    }

    async fn expect_quiet(&mut self) -> Result<(), Halt> {
        match self.connection.interruption().await {
            None => Ok(()),
            Some(cause) => Err(Halt::new(Stage::Body, cause, Fate::Broken)),
        }
    }

    /// The final dot, and its reply.
    async fn finish(&mut self) -> Result<RawReply, Halt> {
        let stage = Stage::FinalDot;
        let limit = self.timeouts.dot;
        let started = Instant::now();
        failpoint::hit("smtp.before_dot");
        let written = self.connection.write_dot(limit).await;
        written.map_err(|failure| self.halt(failure))?;
        failpoint::hit("smtp.after_dot");
        let left = limit.saturating_sub(started.elapsed());
        let reply = self.connection.reply(stage, left).await;
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
        let fate = if is_hangup && !self.mail_was_answered {
            Fate::Stale
        } else {
            Fate::Broken
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

/// Why this address cannot be given to the server.
fn unsupported(address: &Address, has_smtputf8: bool) -> Option<Cause> {
    let text = if !is_one_path(address.as_str()) {
        "an address that is not one word".to_owned()
    } else if address.needs_smtputf8() && !has_smtputf8 {
        format!("SMTPUTF8, which the address {address} needs")
    } else {
        return None;
    };
    Some(Cause::NotSupported(text))
}

/// Whether an address cannot break out of `<…>`. Addresses are checked when they come in; this
/// is the last place to stop one that came in another way.
fn is_one_path(address: &str) -> bool {
    !address
        .bytes()
        .any(|byte| byte <= b' ' || matches!(byte, b'<' | b'>' | 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_cannot_bring_a_command_of_its_own() {
        for address in [
            "a@b>\r\nRCPT TO:<c@d",
            "a b@c",
            "a@b\0",
            "<a@b",
            "a@b>",
            "a@b\x7f",
        ] {
            assert!(!is_one_path(address), "{address:?}");
        }
        for address in [
            "a@b",
            "jörg+tag@example.org",
            "o'neil@xn--bcher-kva.example",
        ] {
            assert!(is_one_path(address), "{address:?}");
        }
    }
}
