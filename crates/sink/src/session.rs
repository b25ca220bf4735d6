//! The server's side of the protocol as a state machine: a line in, a [`Step`] out. It
//! never touches the network; [`crate::connection`] does what the steps say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::TlsAcceptor;

use crate::auth::{self, Expecting};
use crate::behaviour::{self, Action, RecipientAction};
use crate::body::Body;
use crate::command::{self, Command, Path};
use crate::header;
use crate::ledger::{Arrival, ReceivedMessage};
use crate::mode::Mode;
use crate::reply::Reply;
use crate::shared::Shared;
use crate::transaction::{Ending, TOO_LARGE, TRY_LATER, Transaction, Verdict};

const OUT_OF_ORDER: Reply = Reply::new(503, "5.5.1", "Bad sequence of commands");
const NOT_OFFERED: Reply = Reply::new(502, "5.5.1", "Command not implemented");
const RECIPIENT_OK: Reply = Reply::new(250, "2.1.5", "Recipient ok");
const OK: Reply = Reply::new(250, "2.0.0", "Ok");

/// What to do about a command.
pub(crate) enum Step {
    Answer(Reply),
    AnswerAndClose(Reply),
    /// Answer byte by byte.
    Trickle(Reply, Duration),
    /// Answer with a line far beyond any limit.
    LongAnswer,
    /// Answer with something that is no reply.
    Garbage,
    /// Answer 354 and receive the message.
    ReceiveBody,
    /// Answer 220 and encrypt the connection.
    StartTls(TlsAcceptor),
    /// Close without an answer.
    Drop,
    /// Never answer again.
    Hang,
}

/// The state of one connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    peer: SocketAddr,
    tls: bool,
    greeted: bool,
    user: Option<String>,
    /// Set while the client's lines belong to an AUTH exchange.
    authenticating: Option<Expecting>,
    transaction: Option<Transaction>,
    /// Messages accepted on this connection.
    accepted: u32,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, peer: SocketAddr, tls: bool) -> Self {
        Self {
            shared,
            peer,
            tls,
            greeted: false,
            user: None,
            authenticating: None,
            transaction: None,
            accepted: 0,
        }
    }

    /// The first words of the server.
    pub(crate) fn greeting(&self) -> Reply {
        let hostname = &self.shared.config.hostname;
        Reply::owned(220, "", format!("{hostname} ESMTP Posthaste sink"))
    }

    /// After STARTTLS the client begins anew (RFC 3207 §4.2).
    pub(crate) fn encrypted(&mut self) {
        let accepted = self.accepted;
        *self = Self::new(Arc::clone(&self.shared), self.peer, true);
        self.accepted = accepted;
    }

    /// Whether the connection is to be closed while the body arrives.
    pub(crate) fn drops_in_data(&self) -> bool {
        self.transaction
            .as_ref()
            .is_some_and(Transaction::drops_in_data)
    }

    /// Takes a line of the client, without its line ending.
    pub(crate) fn line(&mut self, line: &[u8]) -> Step {
        if let Some(expecting) = self.authenticating.take() {
            return self.authenticate(auth::proceed(expecting, line));
        }
        let command = match command::parse(line) {
            Ok(command) => command,
            Err(reply) => return Step::Answer(reply),
        };
        match command {
            Command::Mail(path) => self.mail(&path),
            Command::Rcpt(path) => self.rcpt(&path),
            Command::Data => self.data(),
            Command::Ehlo => self.hello(true),
            Command::Helo => self.hello(false),
            Command::Rset => {
                self.transaction = None;
                Step::Answer(OK)
            }
            Command::Noop => Step::Answer(OK),
            Command::Vrfy => Step::Answer(Reply::new(252, "2.1.5", "Send and see")),
            Command::Help => Step::Answer(Reply::new(
                214,
                "2.0.0",
                "The local part of a recipient selects how this server misbehaves",
            )),
            Command::Quit => Step::AnswerAndClose(Reply::new(221, "2.0.0", "Bye")),
            Command::StartTls => self.start_tls(),
            Command::Auth { mechanism, initial } => self.auth(mechanism, initial),
        }
    }

    fn hello(&mut self, extended: bool) -> Step {
        self.greeted = true;
        self.transaction = None;
        let config = &self.shared.config;
        let mut text = config.hostname.clone();
        if extended {
            let offered = &config.capabilities;
            let size = format!("SIZE {}", config.max_size);
            let offers = [
                (offered.pipelining, "PIPELINING"),
                (offered.size, size.as_str()),
                (offered.eight_bit_mime, "8BITMIME"),
                (offered.smtputf8, "SMTPUTF8"),
                (offered.enhanced_status_codes, "ENHANCEDSTATUSCODES"),
                (config.tls.is_some() && !self.tls, "STARTTLS"),
                (config.credentials.is_some(), "AUTH PLAIN LOGIN"),
            ];
            for (_, name) in offers.iter().filter(|(offered, _)| *offered) {
                text.push('\n');
                text.push_str(name);
            }
        }
        Step::Answer(Reply::owned(250, "", text))
    }

    fn mail(&mut self, path: &Path<'_>) -> Step {
        let config = &self.shared.config;
        if !self.greeted {
            return Step::Answer(Reply::new(503, "5.5.1", "Say EHLO first"));
        }
        if self.transaction.is_some() {
            return Step::Answer(OUT_OF_ORDER);
        }
        if config.credentials.is_some() && self.user.is_none() {
            return Step::Answer(Reply::new(530, "5.7.0", "Authentication required"));
        }
        if let Some(limit) = config.max_messages_per_connection
            && self.accepted >= limit
        {
            return Step::AnswerAndClose(Reply::new(421, "4.7.0", "Too many messages, reconnect"));
        }
        if let Some(Action::Sender(reply)) = behaviour::requested_by(path.address) {
            return Step::Answer(reply);
        }
        match Transaction::begin(path.address, path.parameters, config) {
            Ok(transaction) => {
                self.transaction = Some(transaction);
                Step::Answer(Reply::new(250, "2.1.0", "Sender ok"))
            }
            Err(reply) => Step::Answer(reply),
        }
    }

    fn rcpt(&mut self, path: &Path<'_>) -> Step {
        let config = &self.shared.config;
        let address = path.address;
        let Some(transaction) = &mut self.transaction else {
            return Step::Answer(OUT_OF_ORDER);
        };
        if !path.parameters.is_empty() {
            return Step::Answer(Reply::new(555, "5.5.4", "Parameter not recognized"));
        }
        if !transaction.utf8 && !address.is_ascii() {
            return Step::Answer(Reply::new(553, "5.6.7", "Recipient address needs SMTPUTF8"));
        }
        if transaction.recipients.len() >= config.max_recipients {
            return Step::Answer(Reply::new(452, "4.5.3", "Too many recipients"));
        }
        match self.shared.mode() {
            Mode::TempfailAll => return Step::Answer(TRY_LATER),
            Mode::RejectAll => {
                return Step::Answer(Reply::new(550, "5.1.1", "No such user here"));
            }
            Mode::Normal | Mode::RefuseConnections | Mode::HangAll | Mode::Delay(_) => {}
        }
        let action = match behaviour::requested_by(address) {
            None => {
                transaction.add(address, None);
                return Step::Answer(RECIPIENT_OK);
            }
            Some(Action::Data(request)) => {
                transaction.add(address, Some(request));
                return Step::Answer(RECIPIENT_OK);
            }
            Some(Action::Sender(reply)) => return Step::Answer(reply),
            Some(Action::Recipient(action)) => action,
        };
        match action {
            RecipientAction::Refuse(reply) => Step::Answer(reply),
            RecipientAction::RefuseAndClose(reply) => Step::AnswerAndClose(reply),
            RecipientAction::Greylist => {
                let (history, after) = (&self.shared.history, config.greylist_after);
                match history.greylisted_for(&transaction.from, address, after) {
                    Some(remaining) => Step::Answer(greylisted(remaining)),
                    None => {
                        transaction.add(address, None);
                        Step::Answer(RECIPIENT_OK)
                    }
                }
            }
            RecipientAction::Hang => Step::Hang,
            RecipientAction::Drop => Step::Drop,
            RecipientAction::Garbage => Step::Garbage,
            RecipientAction::LongReply => {
                transaction.add(address, None);
                Step::LongAnswer
            }
            RecipientAction::Trickle { interval } => {
                transaction.add(address, None);
                Step::Trickle(RECIPIENT_OK, interval)
            }
        }
    }

    fn data(&mut self) -> Step {
        match &self.transaction {
            None => Step::Answer(OUT_OF_ORDER),
            Some(transaction) if transaction.recipients.is_empty() => {
                Step::Answer(Reply::new(554, "5.5.1", "No valid recipients"))
            }
            Some(_) => Step::ReceiveBody,
        }
    }

    fn start_tls(&mut self) -> Step {
        match &self.shared.acceptor {
            None => Step::Answer(NOT_OFFERED),
            Some(_) if self.tls => Step::Answer(Reply::new(503, "5.5.1", "TLS is already in use")),
            Some(acceptor) => Step::StartTls(acceptor.clone()),
        }
    }

    fn auth(&mut self, mechanism: &str, initial: Option<&str>) -> Step {
        if self.shared.config.credentials.is_none() {
            Step::Answer(NOT_OFFERED)
        } else if !self.greeted || self.user.is_some() || self.transaction.is_some() {
            Step::Answer(OUT_OF_ORDER)
        } else {
            self.authenticate(auth::begin(mechanism, initial))
        }
    }

    fn authenticate(&mut self, progress: auth::Progress) -> Step {
        match progress {
            auth::Progress::Ask(expecting, challenge) => {
                self.authenticating = Some(expecting);
                Step::Answer(Reply::new(334, "", challenge))
            }
            auth::Progress::Presented(presented)
                if self.shared.config.credentials.as_ref() == Some(&presented) =>
            {
                self.user = Some(presented.user);
                Step::Answer(Reply::new(235, "2.7.0", "Authentication succeeded"))
            }
            auth::Progress::Presented(_) => Step::Answer(Reply::new(
                535,
                "5.7.8",
                "Authentication credentials invalid",
            )),
            auth::Progress::Refused(reply) => Step::Answer(reply),
        }
    }

    /// Takes the received message and ends the transaction. An accepted message is in
    /// the ledger when this returns, before the client can know.
    pub(crate) fn end_of_data(&mut self, body: &mut Body) -> Verdict {
        let transaction = self.transaction.take().unwrap_or_default();
        let config = &self.shared.config;
        let message_id = header::message_id(&body.bytes);
        let mut verdict = transaction.verdict(message_id.as_deref(), &self.shared.history);
        verdict.wait = verdict.wait.max(config.delay);
        let imposed = match self.shared.mode() {
            Mode::Normal | Mode::RefuseConnections => Ending::Accept,
            Mode::TempfailAll => Ending::Refuse(TRY_LATER),
            Mode::RejectAll => Ending::Refuse(Reply::new(554, "5.6.0", "Message rejected")),
            Mode::HangAll => Ending::Hang,
            Mode::Delay(wait) => {
                verdict.wait = verdict.wait.max(wait);
                Ending::Accept
            }
        };
        if body.size_bytes > config.max_size {
            verdict.ending = verdict.ending.or_worse(Ending::Refuse(TOO_LARGE));
        }
        verdict.ending = verdict.ending.or_worse(imposed);
        if verdict.ending.takes_message() {
            self.accepted += 1;
            self.enter(transaction, message_id, body);
        }
        verdict
    }

    fn enter(&self, transaction: Transaction, message_id: Option<String>, body: &mut Body) {
        // Nothing is copied for the ledger unless it is to be kept.
        let kept = self.shared.config.keep_messages.then(|| ReceivedMessage {
            from: transaction.from,
            recipients: transaction.recipients.clone(),
            bytes: std::mem::take(&mut body.bytes),
            message_id: message_id.clone(),
            peer: self.peer,
            tls: self.tls,
            user: self.user.clone(),
            arrived_at: Instant::now(),
        });
        let arrival = Arrival {
            message_id: message_id.as_deref(),
            recipients: &transaction.recipients,
            size_bytes: body.size_bytes,
        };
        self.shared.ledger.accept(&arrival, kept);
    }
}

fn greylisted(remaining: Duration) -> Reply {
    let seconds = remaining.as_millis().div_ceil(1000);
    let text = format!("Greylisted, try again in {seconds} seconds");
    Reply::owned(451, "4.7.1", text)
}
