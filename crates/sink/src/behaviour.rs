//! The table of misbehaviour that recipients ask for by their local part.
//!
//! The table is the only list: lookup, help text and tests are made from it.

use std::time::Duration;

use crate::reply::Reply;

/// One way to misbehave.
#[derive(Debug)]
pub struct Behaviour {
    /// The local part that asks for it. `<…>` stands for digits and may be left out,
    /// which gives the default named in the description.
    pub pattern: &'static str,
    /// What the server then does.
    pub description: &'static str,
    /// What the number is when the address has none.
    default_number: u64,
    action: fn(u64) -> Action,
}

/// What to do, and at which stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Sender(Reply),
    Recipient(RecipientAction),
    Data(DataAction),
}

/// What to do when a recipient is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecipientAction {
    Refuse(Reply),
    RefuseAndClose(Reply),
    Greylist,
    Hang,
    Drop,
    Garbage,
    LongReply,
    Trickle { interval: Duration },
}

/// What to do with a message that has this recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataAction {
    Refuse(Reply),
    FailFirst { tries: u64 },
    FailSometimes { percent: u64 },
    Wait(Duration),
    DropInData,
    DropAfterDot,
    HangAfterDot,
}

/// All misbehaviour that an address can ask for, e.g. `tempfail@x`, in any case and
/// with any tag (`Tempfail+17@x`). Other recipients are accepted.
///
/// When the recipients of one message ask for different things at the data stage, the
/// worst wins, for all of them: `drop-in-data`, then `hang-after-dot`, then
/// `drop-after-dot`, then a 5xx answer, then a 4xx answer (of two alike, the earlier
/// recipient's), then acceptance. `slow` only adds its wait (the longest, if several)
/// before whatever follows.
pub fn behaviours() -> &'static [Behaviour] {
    BEHAVIOURS
}

/// What this address asks for, if anything.
pub(crate) fn requested_by(address: &str) -> Option<Action> {
    let local_part = match address.rsplit_once('@') {
        Some((local_part, _)) => local_part,
        None => address,
    };
    let name = local_part
        .split_once('+')
        .map_or(local_part, |(name, _)| name)
        .as_bytes();
    BEHAVIOURS.iter().find_map(|behaviour| {
        let number = behaviour.number_in(name)?;
        Some((behaviour.action)(number))
    })
}

impl Behaviour {
    /// The number to act with if `name` matches the pattern.
    fn number_in(&self, name: &[u8]) -> Option<u64> {
        let pattern = self.pattern.as_bytes();
        // Nearly every address is settled by its first letter.
        if !name.first()?.eq_ignore_ascii_case(pattern.first()?) {
            return None;
        }
        let Some(bracket) = pattern.iter().position(|&byte| byte == b'<') else {
            return name
                .eq_ignore_ascii_case(pattern)
                .then_some(self.default_number);
        };
        let (word, digits) = name.split_at_checked(bracket)?;
        if !word.eq_ignore_ascii_case(&pattern[..bracket]) {
            return None;
        }
        if digits.is_empty() {
            return Some(self.default_number);
        }
        // Digits only: `parse` alone would allow a sign.
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        str::from_utf8(digits).ok()?.parse().ok()
    }
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        pattern: "tempfail",
        description: "451 4.3.0 at RCPT",
        default_number: 0,
        action: |_| refuse_recipient(451, "4.3.0", "Try again later"),
    },
    Behaviour {
        pattern: "tempfail-data",
        description: "451 4.3.0 at the final dot",
        default_number: 0,
        action: |_| refuse_data(451, "4.3.0", "Try again later"),
    },
    Behaviour {
        pattern: "reject",
        description: "550 5.1.1 at RCPT",
        default_number: 0,
        action: |_| refuse_recipient(550, "5.1.1", "No such user here"),
    },
    Behaviour {
        pattern: "reject-data",
        description: "554 5.6.0 at the final dot",
        default_number: 0,
        action: |_| refuse_data(554, "5.6.0", "Message content not acceptable"),
    },
    Behaviour {
        pattern: "spam",
        description: "554 5.7.1 at the final dot",
        default_number: 0,
        action: |_| refuse_data(554, "5.7.1", "Message looks like spam"),
    },
    Behaviour {
        pattern: "full",
        description: "452 4.2.2 at RCPT",
        default_number: 0,
        action: |_| refuse_recipient(452, "4.2.2", "Mailbox full"),
    },
    Behaviour {
        pattern: "greylist",
        description: "451 4.7.1 \"Greylisted, try again in N seconds\" at RCPT until the greylisting \
                      time has passed since the first try of this sender and recipient; then accepted",
        default_number: 0,
        action: |_| Action::Recipient(RecipientAction::Greylist),
    },
    Behaviour {
        pattern: "hang",
        description: "never answers RCPT",
        default_number: 0,
        action: |_| Action::Recipient(RecipientAction::Hang),
    },
    Behaviour {
        pattern: "hang-after-dot",
        description: "never answers the final dot; the copy counts, its bytes arrived",
        default_number: 0,
        action: |_| Action::Data(DataAction::HangAfterDot),
    },
    Behaviour {
        pattern: "drop",
        description: "closes the connection at RCPT",
        default_number: 0,
        action: |_| Action::Recipient(RecipientAction::Drop),
    },
    Behaviour {
        pattern: "drop-in-data",
        description: "closes the connection when the first bytes of the body arrive",
        default_number: 0,
        action: |_| Action::Data(DataAction::DropInData),
    },
    Behaviour {
        pattern: "drop-after-dot",
        description: "closes the connection instead of answering the final dot; the copy counts",
        default_number: 0,
        action: |_| Action::Data(DataAction::DropAfterDot),
    },
    Behaviour {
        pattern: "shutdown",
        description: "421 4.3.2 at RCPT, then closes the connection",
        default_number: 0,
        action: |_| {
            Action::Recipient(RecipientAction::RefuseAndClose(Reply::new(
                421,
                "4.3.2",
                "Shutting down",
            )))
        },
    },
    Behaviour {
        pattern: "slow<ms>",
        description: "answers the final dot after this many milliseconds (default 1000)",
        default_number: 1000,
        action: |number| Action::Data(DataAction::Wait(Duration::from_millis(number))),
    },
    Behaviour {
        pattern: "trickle<ms>",
        description: "accepts at RCPT with a reply that comes byte by byte, this many milliseconds \
                      apart (default 1000)",
        default_number: 1000,
        action: |number| {
            Action::Recipient(RecipientAction::Trickle {
                interval: Duration::from_millis(number),
            })
        },
    },
    Behaviour {
        pattern: "garbage",
        description: "answers nonsense at RCPT",
        default_number: 0,
        action: |_| Action::Recipient(RecipientAction::Garbage),
    },
    Behaviour {
        pattern: "longreply",
        description: "accepts at RCPT with one line of 10 MB",
        default_number: 0,
        action: |_| Action::Recipient(RecipientAction::LongReply),
    },
    Behaviour {
        pattern: "flaky<percent>",
        description: "451 4.3.0 at the final dot in this many percent of the tries (default 50), by \
                      seeded dice",
        default_number: 50,
        action: |number| Action::Data(DataAction::FailSometimes { percent: number }),
    },
    Behaviour {
        pattern: "fail<n>",
        description: "451 4.3.0 at the final dot for the first n tries (default 1) of each Message-ID \
                      to this address (of the address alone, if there is no Message-ID); then accepted",
        default_number: 1,
        action: |number| Action::Data(DataAction::FailFirst { tries: number }),
    },
    Behaviour {
        pattern: "authfail",
        description: "535 5.7.8 at MAIL when it is the sender, at RCPT when it is a recipient (which \
                      MAIL cannot know yet)",
        default_number: 0,
        action: |_| Action::Sender(Reply::new(535, "5.7.8", "Authentication failed")),
    },
];

fn refuse_recipient(code: u16, enhanced: &'static str, text: &'static str) -> Action {
    Action::Recipient(RecipientAction::Refuse(Reply::new(code, enhanced, text)))
}

fn refuse_data(code: u16, enhanced: &'static str, text: &'static str) -> Action {
    Action::Data(DataAction::Refuse(Reply::new(code, enhanced, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_matched_in_any_case_and_with_any_tag() {
        for address in ["hang@x", "HANG@x", "Hang+17@x", "hang+a+b@x", "hang"] {
            let expected = Action::Recipient(RecipientAction::Hang);
            assert_eq!(requested_by(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn a_number_is_read_from_the_local_part() {
        let wait = |ms| Some(Action::Data(DataAction::Wait(Duration::from_millis(ms))));
        assert_eq!(requested_by("slow5000@x"), wait(5000));
        assert_eq!(requested_by("SLOW7+1@x"), wait(7));
        assert_eq!(requested_by("slow@x"), wait(1000));
    }

    #[test]
    fn an_ordinary_address_asks_for_nothing() {
        for address in [
            "",
            "@x",
            "bob@x",
            "hanging@x",
            "ha@x",
            "slow-5@x",
            "slow1x@x",
            "tempfail5@x",
            "x+hang@x",
            "é@x",
            "slo\u{301}w@x",
            "slow99999999999999999999@x",
        ] {
            assert_eq!(requested_by(address), None, "{address}");
        }
    }

    #[test]
    fn every_pattern_finds_its_own_entry() {
        for behaviour in behaviours() {
            let name = behaviour.pattern.split('<').next().unwrap_or_default();
            let expected = (behaviour.action)(behaviour.default_number);
            assert_eq!(requested_by(&format!("{name}@x")), Some(expected));
        }
    }
}
