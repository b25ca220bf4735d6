//! One mail transaction: a sender, its recipients, and what they together make of the
//! final dot.

use std::time::Duration;

use crate::behaviour::DataAction;
use crate::config::SinkConfig;
use crate::history::History;
use crate::reply::Reply;

/// The answer while nothing is wrong for ever.
pub(crate) const TRY_LATER: Reply = Reply::new(451, "4.3.0", "Try again later");

/// From MAIL to the final dot.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) from: String,
    /// The client announced SMTPUTF8: addresses may be more than ASCII.
    pub(crate) utf8: bool,
    /// The accepted ones.
    pub(crate) recipients: Vec<String>,
    /// What some recipients (by index) ask for at the data stage.
    requests: Vec<(usize, DataAction)>,
}

/// How the final dot is answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How long to wait first.
    pub(crate) wait: Duration,
    /// What to do then.
    pub(crate) ending: Ending,
}

/// What happens at the final dot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Accept,
    Refuse(Reply),
    /// Counts as accepted, closes without a reply.
    Drop,
    /// Counts as accepted, never replies.
    Hang,
}

impl Ending {
    /// Higher is worse. The order is documented at [`crate::behaviours`].
    fn severity(&self) -> u8 {
        match self {
            Self::Accept => 0,
            Self::Refuse(reply) if reply.code < 500 => 1,
            Self::Refuse(_) => 2,
            Self::Drop => 3,
            Self::Hang => 4,
        }
    }

    /// The message is the server's from here on, whatever the client learns of it.
    pub(crate) fn takes_message(&self) -> bool {
        !matches!(self, Self::Refuse(_))
    }

    /// The worse of both; of two alike, the first.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        match other.severity() > self.severity() {
            true => other,
            false => self,
        }
    }
}

impl Transaction {
    /// Starts one for a sender; the error is the answer to bad MAIL parameters.
    pub(crate) fn begin(from: &str, parameters: &str, config: &SinkConfig) -> Result<Self, Reply> {
        let utf8 = sender_parameters(parameters, config)?;
        if !utf8 && !from.is_ascii() {
            return Err(Reply::new(553, "5.6.7", "Sender address needs SMTPUTF8"));
        }
        Ok(Self {
            from: from.to_owned(),
            utf8,
            ..Self::default()
        })
    }

    /// Adds a recipient and what it asks for later.
    pub(crate) fn add(&mut self, recipient: &str, request: Option<DataAction>) {
        if let Some(request) = request {
            self.requests.push((self.recipients.len(), request));
        }
        self.recipients.push(recipient.to_owned());
    }

    /// Whether the connection is to be closed while the body arrives.
    pub(crate) fn drops_in_data(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|(_, request)| *request == DataAction::DropInData)
    }

    /// What the recipients make of the final dot. Counts a try for those that fail
    /// some of them.
    pub(crate) fn verdict(&self, message_id: Option<&str>, history: &History) -> Verdict {
        let mut verdict = Verdict {
            wait: Duration::ZERO,
            ending: Ending::Accept,
        };
        for (index, request) in &self.requests {
            let recipient = &self.recipients[*index];
            let fails = |failing| match failing {
                true => Ending::Refuse(TRY_LATER),
                false => Ending::Accept,
            };
            let ending = match request {
                DataAction::Refuse(reply) => Ending::Refuse(reply.clone()),
                DataAction::FailFirst { tries } => {
                    let id = message_id.unwrap_or_default();
                    fails(history.fails_again(id, recipient, *tries))
                }
                DataAction::FailSometimes { percent } => fails(history.unlucky(*percent)),
                DataAction::Wait(wait) => {
                    verdict.wait = verdict.wait.max(*wait);
                    Ending::Accept
                }
                DataAction::DropInData | DataAction::DropAfterDot => Ending::Drop,
                DataAction::HangAfterDot => Ending::Hang,
            };
            verdict.ending = verdict.ending.or_worse(ending);
        }
        verdict
    }
}

/// Checks the parameters of MAIL; true: SMTPUTF8 is among them.
fn sender_parameters(parameters: &str, config: &SinkConfig) -> Result<bool, Reply> {
    let offered = &config.capabilities;
    let mut utf8 = false;
    for parameter in parameters.split_ascii_whitespace() {
        let (name, value) = match parameter.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (parameter, None),
        };
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("SIZE") && offered.size {
            let size = value.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            match size.filter(|digits| (1..=20).contains(&digits.len())) {
                None => return Err(Reply::new(501, "5.5.4", "Bad SIZE parameter")),
                // Twenty digits may not fit a number, but are too large anyway.
                Some(digits) if digits.parse().unwrap_or(usize::MAX) > config.max_size => {
                    return Err(TOO_LARGE);
                }
                Some(_) => {}
            }
        } else if is("BODY") && offered.eight_bit_mime {
            let known = |body: &&str| {
                body.eq_ignore_ascii_case("7BIT") || body.eq_ignore_ascii_case("8BITMIME")
            };
            if value.filter(known).is_none() {
                return Err(Reply::new(501, "5.5.4", "Bad BODY parameter"));
            }
        } else if is("SMTPUTF8") && offered.smtputf8 {
            if value.is_some() {
                return Err(Reply::new(501, "5.5.4", "SMTPUTF8 takes no value"));
            }
            utf8 = true;
        } else if is("AUTH") && config.credentials.is_some() {
            // RFC 4954 asks to accept it; a sink has no use for it.
        } else {
            return Err(Reply::new(555, "5.5.4", "Parameter not recognized"));
        }
    }
    Ok(utf8)
}

/// The answer to a message over the size limit.
pub(crate) const TOO_LARGE: Reply = Reply::new(552, "5.3.4", "Message too large");
