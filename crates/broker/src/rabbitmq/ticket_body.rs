//! Tickets and notices as other programs see them.

use lapin::types::ShortString;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::{DeadNotice, Ticket};
use posthaste_core::status::Priority;
use serde_json::{Map, Value, json};

/// The names under which other programs give the id.
const ID_NAMES: [&str; 3] = ["email_id", "EmailId", "emailId"];

/// A key is for people to look at; a longer one is not ours.
const LONGEST_KEY_CHARS: usize = 255;

/// What is wrong with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TicketError {
    #[error("not a JSON object")]
    NotJson,
    #[error("no email_id")]
    NoId,
    #[error("email_id is not a UUID")]
    BadId,
}

/// The body of a ticket.
pub(super) fn encode_ticket(ticket: &Ticket) -> Vec<u8> {
    let body = json!({
        "email_id": ticket.email_id.to_string(),
        "message_key": ticket.message_key,
        "queued_at": ticket.queued_at.to_string(),
    });
    body.to_string().into_bytes()
}

/// The body of a dead notice.
pub(super) fn encode_notice(notice: &DeadNotice) -> Vec<u8> {
    let body = json!({
        "email_id": notice.email_id.to_string(),
        "message_key": notice.message_key,
        "reason": notice.reason.as_str(),
        "error": notice.error,
        "attempts": notice.attempts,
        "died_at": notice.died_at.to_string(),
    });
    body.to_string().into_bytes()
}

/// Reads a ticket, ours or one that only has an id.
pub(super) fn decode_ticket(body: &[u8], priority: Priority) -> Result<Ticket, TicketError> {
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| TicketError::NotJson)?;
    let id = ID_NAMES.iter().find_map(|name| fields.get(*name));
    let email_id = parse_id(id.ok_or(TicketError::NoId)?)?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let is_key = |key: &&str| key.chars().count() <= LONGEST_KEY_CHARS;
    let queued_at = text("queued_at").and_then(|time| time.parse().ok());
    Ok(Ticket {
        email_id,
        message_key: text("message_key")
            .filter(is_key)
            .unwrap_or_default()
            .into(),
        priority,
        queued_at: queued_at.unwrap_or_else(Timestamp::now),
        // The store knows it.
        traceparent: None,
    })
}

fn parse_id(value: &Value) -> Result<EmailId, TicketError> {
    let text = value.as_str().ok_or(TicketError::BadId)?;
    text.parse().map_err(|_| TicketError::BadId)
}

/// The id of an email as AMQP's `message_id`.
pub(super) fn message_id(email_id: EmailId) -> ShortString {
    email_id.to_string().into()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use uuid::Uuid;

    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-000000000001";

    fn decode(body: &str) -> Result<Ticket, TicketError> {
        decode_ticket(body.as_bytes(), Priority::Normal)
    }

    #[test]
    fn a_ticket_survives_the_way() {
        let ticket = Ticket {
            email_id: EmailId::generate(),
            message_key: "a \"key\" ü\u{1f4e7}".into(),
            priority: Priority::Low,
            queued_at: "2100-01-01T00:00:00.123456789Z".parse().unwrap(),
            traceparent: None,
        };
        let decoded = decode_ticket(&encode_ticket(&ticket), Priority::Low);
        assert_eq!(decoded, Ok(ticket));
    }

    #[test]
    fn a_ticket_of_another_program_needs_only_an_id() {
        for name in ID_NAMES {
            let body = format!(r#"{{"{name}":"{ID}","other":[1,{{}}],"queued_at":7}}"#);
            let ticket = decode(&body).unwrap();
            assert_eq!(ticket.email_id.to_string(), ID);
            assert_eq!(ticket.message_key, "");
        }
    }

    #[test]
    fn what_is_no_ticket_says_why() {
        let deep = "[".repeat(100_000);
        let bodies = [
            ("", TicketError::NotJson),
            ("\u{0}\u{1}", TicketError::NotJson),
            ("[]", TicketError::NotJson),
            (&deep, TicketError::NotJson),
            ("{}", TicketError::NoId),
            (r#"{"email_id":7}"#, TicketError::BadId),
            (r#"{"email_id":"7"}"#, TicketError::BadId),
        ];
        for (body, error) in bodies {
            assert_eq!(decode(body), Err(error));
        }
        assert_eq!(
            decode_ticket(b"\xff", Priority::Low),
            Err(TicketError::NotJson)
        );
    }

    #[test]
    fn an_endless_key_is_dropped() {
        let body = format!(
            r#"{{"email_id":"{ID}","message_key":"{}"}}"#,
            "k".repeat(1000)
        );
        assert_eq!(decode(&body).unwrap().message_key, "");
    }

    prop_compose! {
        fn any_ticket()(
            id in any::<u128>(),
            message_key in prop_oneof![any::<String>(), "\\PC{0,255}"],
            priority in select(Priority::ALL),
            seconds in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(),
            nanoseconds in 0..1_000_000_000_i32,
        ) -> Ticket {
            Ticket {
                email_id: EmailId(Uuid::from_u128(id)),
                message_key,
                priority,
                queued_at: Timestamp::new(seconds, nanoseconds).unwrap_or(Timestamp::MAX),
                traceparent: None,
            }
        }
    }

    /// JSON of which some looks like a ticket.
    fn any_body() -> impl Strategy<Value = Vec<u8>> {
        let value = prop_oneof![
            Just(format!("\"{ID}\"")),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
            any::<f64>().prop_map(|number| json!(number).to_string()),
            "[\\[\\]{}\",:0-9a-z\\\\]{0,20}",
            select(
                &[
                    "null",
                    "1e999",
                    "\"\\ud800\"",
                    "[[]]",
                    "\"2100-01-01T00:00:00Z\""
                ][..]
            )
            .prop_map(str::to_owned),
        ];
        let name = select(&["email_id", "EmailId", "message_key", "queued_at", "x"][..]);
        let field = (name, value).prop_map(|(name, value)| format!("\"{name}\":{value}"));
        prop_oneof![
            vec(field, 0..5).prop_map(|fields| format!("{{{}}}", fields.join(",")).into_bytes()),
            vec(any::<u8>(), 0..100),
        ]
    }

    proptest! {
        #[test]
        fn any_ticket_survives_the_way_whole_and_no_part_of_it_is_taken_for_one(
            ticket in any_ticket(),
            end in any::<Index>(),
        ) {
            let body = encode_ticket(&ticket);
            prop_assert_eq!(decode_ticket(&body, ticket.priority), Ok(ticket));
            let cut = &body[..end.index(body.len())];
            prop_assert_eq!(decode_ticket(cut, Priority::Normal), Err(TicketError::NotJson));
        }

        #[test]
        fn whatever_comes_is_a_ticket_or_says_why_not(body in any_body()) {
            if let Ok(ticket) = decode_ticket(&body, Priority::High) {
                prop_assert!(ticket.message_key.chars().count() <= LONGEST_KEY_CHARS);
                let again = decode_ticket(&encode_ticket(&ticket), Priority::High);
                prop_assert_eq!(again, Ok(ticket));
            }
        }
    }
}
