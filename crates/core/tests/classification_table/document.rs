//! CLASSIFICATION.md's section on SMTP, row by row, and what it says of answers that never came.

use posthaste_core::attempt::{Cause, Stage};
use posthaste_core::classification::Fault;
use posthaste_core::reply::Reply;
use posthaste_core::status::DeadReason;

use DeadReason::{
    AuthenticationFailed, DomainNotFound, HardBounce, InvalidRecipient, MessageRejected,
    PolicyBlocked,
};
use Stage::{
    Authentication, Banner, Body, Connect, Data, FinalDot, Gate, Hello, MailFrom, Resolve, Tls,
};

/// Every stage at which a server answers.
const ANSWERED: &[Stage] = &[
    Tls,
    Banner,
    Hello,
    Authentication,
    MailFrom,
    Stage::Recipient,
    Data,
    Body,
    Gate,
    FinalDot,
];
/// The stages at which no recipient has been named yet.
const BEFORE_RECIPIENT: &[Stage] = &[Banner, Hello, Authentication, MailFrom];
/// RCPT and whatever comes after it.
const FROM_RECIPIENT: &[Stage] = &[Stage::Recipient, Data, Body, Gate, FinalDot];
const RCPT: &[Stage] = &[Stage::Recipient];
const CONTENT: &[Stage] = &[Data, Body, FinalDot];

/// Whom the document blames.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blame {
    /// The document says.
    Only(Fault),
    /// The document leaves open which, but it speaks about this email, not about the way out.
    ThisEmail,
    /// The document leaves it open.
    Open,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Transient(Blame),
    Permanent(Blame, DeadReason),
    Unknown,
}

/// One row of the document, for these stages and failures.
pub(crate) struct Row {
    pub(crate) document: &'static str,
    pub(crate) stages: &'static [Stage],
    pub(crate) failures: Vec<Cause>,
    pub(crate) expected: Expected,
}

fn row(
    document: &'static str,
    stages: &'static [Stage],
    failures: Vec<Cause>,
    expected: Expected,
) -> Row {
    Row {
        document,
        stages,
        failures,
        expected,
    }
}

fn replies<const N: usize>(lines: [&str; N]) -> Vec<Cause> {
    let reply = |line| Cause::Reply(Reply::parse_line(line).unwrap());
    lines.into_iter().map(reply).collect()
}

/// `code` with the enhanced codes `class.subject.0` and on, but for those in `without`.
fn series(code: u16, class: u8, subject: u16, without: &[u16]) -> Vec<Cause> {
    (0..=40)
        .filter(|detail| !without.contains(detail))
        .map(|detail| Cause::Reply(Reply::new(code, &format!("{class}.{subject}.{detail} no"))))
        .collect()
}

/// Every failure without a reply that is about the connection.
fn connection_trouble() -> Vec<Cause> {
    vec![
        Cause::Refused,
        Cause::Timeout,
        Cause::Disconnected,
        Cause::Io("connection reset by peer".into()),
        Cause::LookupFailed("SERVFAIL".into()),
        Cause::Tls("certificate expired".into()),
        Cause::Protocol("not a reply".into()),
        Cause::LeaseLost,
    ]
}

/// Every failure without a reply.
pub(crate) fn silent_causes() -> Vec<Cause> {
    let mut causes = connection_trouble();
    causes.extend([
        Cause::DomainNotFound("example.invalid".into()),
        Cause::TooLarge { size: 2, limit: 1 },
        Cause::NotSupported("SMTPUTF8".into()),
        Cause::Credentials("no password".into()),
    ]);
    causes
}

pub(crate) fn document() -> Vec<Row> {
    use Blame::{Only, Open, ThisEmail};
    use Expected::{Permanent, Transient, Unknown};
    let provider = Transient(Only(Fault::Provider));
    let destination = Transient(Only(Fault::Destination));
    let our_config = Permanent(Only(Fault::OurConfig), AuthenticationFailed);
    vec![
        row(
            "connect refused/reset/timeout, DNS SERVFAIL or timeout, TLS failure",
            &[Resolve, Connect, Tls, Banner],
            connection_trouble(),
            provider,
        ),
        row(
            "any timeout or EOF before the final dot",
            &[
                Hello,
                Authentication,
                MailFrom,
                Stage::Recipient,
                Data,
                Body,
                Gate,
            ],
            vec![
                Cause::Timeout,
                Cause::Disconnected,
                Cause::Io("broken pipe".into()),
            ],
            provider,
        ),
        row(
            "(inline) the caller does not wait longer",
            &[Body],
            vec![Cause::NotInTime],
            Expected::Transient(Blame::ThisEmail),
        ),
        row(
            "5xx at the banner, EHLO or MAIL (before any RCPT)",
            BEFORE_RECIPIENT,
            replies([
                "500 What",
                "501 Syntax",
                "502 Not implemented",
                "503 Order",
                "521 No mail here",
                "550 No",
                "550 5.1.1 No",
                "550 5.1.2 No",
                "552 Full",
                "553 No",
                "554 No service",
                "554 5.7.1 On a blocklist",
                "571 spam",
            ]),
            provider,
        ),
        row(
            "timeout or EOF after the final dot, before a reply",
            &[FinalDot],
            silent_causes(),
            Unknown,
        ),
        row(
            "timeout or reset after the request was written",
            &[Stage::Request],
            silent_causes(),
            Unknown,
        ),
        row(
            "the same, with a provider that honours our idempotency key",
            &[Stage::Request],
            vec![Cause::AnswerLost("no answer in time".into())],
            provider,
        ),
        row(
            "garbage, oversized or out-of-order reply before the dot",
            &[
                Banner,
                Hello,
                Authentication,
                MailFrom,
                Stage::Recipient,
                Data,
                Body,
                Gate,
            ],
            [
                replies(["220 Hello", "250 OK", "354 Go ahead"]),
                vec![
                    Cause::Protocol("10 MB line".into()),
                    Cause::Reply(Reply::new(99, "what")),
                    Cause::Reply(Reply::new(600, "what")),
                    Cause::Reply(Reply::new(999, "what")),
                ],
            ]
            .concat(),
            Transient(Open),
        ),
        row(
            "garbage, oversized or out-of-order reply after the dot",
            &[FinalDot],
            [
                replies(["220 Hello", "250 OK", "354 Go ahead"]),
                vec![
                    Cause::Protocol("10 MB line".into()),
                    Cause::Reply(Reply::new(0, "")),
                    Cause::Reply(Reply::new(99, "what")),
                    Cause::Reply(Reply::new(600, "what")),
                    Cause::Reply(Reply::new(999, "what")),
                    Cause::Reply(Reply::new(5500, "what")),
                ],
            ]
            .concat(),
            Unknown,
        ),
        row(
            "421, 450, 451, 452, 454",
            ANSWERED,
            replies([
                "421 Bye",
                "450 Busy",
                "451 Error",
                "452 Full",
                "454 TLS",
                "499 Hm",
            ]),
            Transient(Open),
        ),
        row(
            "4.2.x",
            FROM_RECIPIENT,
            series(450, 4, 2, &[]),
            Transient(ThisEmail),
        ),
        row(
            "4.3.x",
            FROM_RECIPIENT,
            series(452, 4, 3, &[]),
            Transient(ThisEmail),
        ),
        row(
            "4.4.x",
            FROM_RECIPIENT,
            series(451, 4, 4, &[]),
            Transient(ThisEmail),
        ),
        row(
            "4.7.x",
            FROM_RECIPIENT,
            series(454, 4, 7, &[]),
            Transient(ThisEmail),
        ),
        row(
            "greylisting (4xx with greylist / \"try again\", 451 4.7.1)",
            FROM_RECIPIENT,
            replies([
                "450 Greylisted",
                "451 4.7.1 Come back",
                "451 Graylisting in action",
                "450 4.2.0 <ann@example.org>: GREYLISTED",
                "421 4.3.2 Try again later",
                "450 Please try again later",
            ]),
            destination,
        ),
        row(
            "DNS: domain does not exist, null MX",
            &[Resolve, Connect, Stage::Recipient],
            vec![Cause::DomainNotFound("example.invalid".into())],
            Permanent(ThisEmail, DomainNotFound),
        ),
        row(
            "5.1.2, 5.1.10, 5.4.4",
            FROM_RECIPIENT,
            replies([
                "550 5.1.2 No host",
                "556 5.1.10 Null MX",
                "554 5.4.4 No route",
            ]),
            Permanent(ThisEmail, DomainNotFound),
        ),
        row(
            "5.1.3; 553/501 syntax at RCPT",
            RCPT,
            replies(["501 5.1.3 Bad", "553 5.1.3 Bad", "553 Bad", "501 Bad"]),
            Permanent(ThisEmail, InvalidRecipient),
        ),
        row(
            "5.1.3 later",
            CONTENT,
            replies(["550 5.1.3 Bad"]),
            Permanent(ThisEmail, InvalidRecipient),
        ),
        row(
            "5.1.1, 5.1.6",
            FROM_RECIPIENT,
            replies([
                "550 5.1.1 No such user",
                "551 5.1.6 Moved",
                "553 5.1.1 Unknown",
            ]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "550/551 with no better code at RCPT",
            RCPT,
            replies(["550 No", "551 Not local", "550 5.0.0 No", "550 5.4.1 No"]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "5.2.1 disabled",
            FROM_RECIPIENT,
            replies(["550 5.2.1 Disabled", "554 5.2.1 Disabled"]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "552 / 5.2.2 mailbox full: at RCPT",
            RCPT,
            replies([
                "552 Full",
                "552 5.2.2 Full",
                "550 5.2.2 Full",
                "452 4.2.2 Full",
            ]),
            Transient(ThisEmail),
        ),
        row(
            "5.2.2 mailbox full: later",
            CONTENT,
            replies(["552 5.2.2 Full", "554 5.2.2 Full", "452 4.2.2 Full"]),
            Transient(ThisEmail),
        ),
        row(
            "5.2.3, 5.3.4",
            FROM_RECIPIENT,
            replies(["552 5.2.3 Long", "552 5.3.4 Big", "554 5.3.4 Big"]),
            Permanent(ThisEmail, MessageRejected),
        ),
        row(
            "5.6.x",
            FROM_RECIPIENT,
            series(554, 5, 6, &[]),
            Permanent(ThisEmail, MessageRejected),
        ),
        row(
            "552 at DATA for size",
            CONTENT,
            replies(["552 Too big"]),
            Permanent(ThisEmail, MessageRejected),
        ),
        row(
            "larger than the server announced",
            &[MailFrom, Data],
            vec![Cause::TooLarge { size: 2, limit: 1 }],
            Permanent(ThisEmail, MessageRejected),
        ),
        row(
            "5.7.x, DMARC (5.7.26)",
            FROM_RECIPIENT,
            series(550, 5, 7, &[8]),
            Permanent(ThisEmail, PolicyBlocked),
        ),
        row(
            "blocklists, spam, virus, DMARC by name",
            FROM_RECIPIENT,
            replies([
                "550 Your host is on a BLOCKLIST",
                "554 blacklisted",
                "550 On our block list",
                "554 This looks like Spam",
                "554 Virus found",
                "550 DMARC says no",
            ]),
            Permanent(ThisEmail, PolicyBlocked),
        ),
        row(
            "530, 534, 535, 538, 5.7.8, 5.1.7/5.1.8 from our relay",
            ANSWERED,
            replies([
                "530 Authenticate first",
                "530 5.7.0 Authenticate first",
                "534 Too weak",
                "535 No",
                "535 5.7.8 No",
                "538 Encrypt first",
                "550 5.7.8 No",
                "550 5.1.7 Bad sender",
                "553 5.1.8 Bad sender",
            ]),
            our_config,
        ),
        row(
            "authentication: credentials that cannot be used",
            &[Authentication],
            vec![Cause::Credentials("no password".into())],
            our_config,
        ),
        row(
            "default: 5xx permanent",
            CONTENT,
            replies(["500 No", "550 No", "554 No", "571 No", "599 No"]),
            Permanent(ThisEmail, MessageRejected),
        ),
        row(
            "default: 5xx permanent, at RCPT",
            RCPT,
            replies(["500 No", "554 No", "571 No", "599 No"]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "default: an address the server cannot take",
            &[MailFrom, Stage::Recipient],
            vec![Cause::NotSupported("SMTPUTF8".into())],
            Permanent(ThisEmail, InvalidRecipient),
        ),
        row(
            "basic and enhanced code disagree: 4xx decides",
            RCPT,
            replies([
                "450 5.1.1 No such user",
                "451 5.7.1 Blocked",
                "421 5.2.1 Disabled",
                "454 5.7.8 Auth",
            ]),
            Transient(ThisEmail),
        ),
        row(
            "basic and enhanced code disagree: 5xx decides",
            RCPT,
            replies(["550 4.2.2 Full", "550 4.7.1 Greylisted", "551 2.0.0 OK"]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "a text is no reason where no rule names it",
            RCPT,
            replies(["550 Try again later", "550 greylisted", "551 user unknown"]),
            Permanent(ThisEmail, HardBounce),
        ),
        row(
            "spam in a 4xx is still a 4xx",
            CONTENT,
            replies(["450 spam suspected", "451 virus scanner is down"]),
            Transient(ThisEmail),
        ),
    ]
}
