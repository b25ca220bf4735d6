//! Small pieces that many screens are made of.

use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::email::EmailRecord;
use posthaste_core::message::MessageStatus;
use posthaste_core::status::Status;

/// A number with its thousands set apart.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number and its noun: `1 email`, `2 emails`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// A length of time in words, as short as they can be: `3 min`, `2 h 5 min`.
pub(crate) fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, m) if m < 10 && !seconds.is_multiple_of(60) => format!("{m} min {} s", seconds % 60),
        (0, 0, m) => format!("{m} min"),
        (0, h, 0) => format!("{h} h"),
        (0, h, m) => format!("{h} h {m} min"),
        (d, 0, _) => format!("{d} d"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

/// A moment in full.
pub(crate) fn full(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A moment, as far away as it is; in full when it is pointed at.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(full(at)) { (relative(at, now)) } }
}

/// A moment that is near: a script counts it down.
pub(crate) fn countdown(at: Timestamp, now: Timestamp) -> Markup {
    let left = at.duration_since(now).as_secs().max(0);
    html! { time datetime=(at) title=(full(at)) data-countdown=(left) { (relative(at, now)) } }
}

/// How many emails go in a second, as short as that can be said.
pub(crate) fn per_second(rate: f64) -> String {
    let rate = if rate < 10.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    };
    format!("{} per second", rate.trim_end_matches(".0"))
}

/// When something is to happen, or that it is due.
pub(crate) fn due(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        @if at > now { (moment(at, now)) } @else { time datetime=(at) title=(full(at)) { "due now" } }
    }
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    match u64::try_from(seconds) {
        Ok(0) => "just now".to_owned(),
        Ok(seconds) => format!("{} ago", span(seconds)),
        Err(_) => format!("in {}", span(seconds.unsigned_abs())),
    }
}

/// How a state looks: the name of its colour and a sign, so that colour is never alone.
const fn look(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Sent => ("good", "✓"),
        Status::Dead => ("bad", "✕"),
        Status::Unknown => ("odd", "?"),
        Status::Failed | Status::RetryQueued => ("warn", "↻"),
        Status::Pending => ("calm", "…"),
        Status::Sending => ("calm", "→"),
        Status::Discarded | Status::Cancelled => ("quiet", "–"),
    }
}

/// What happens to an email, in words.
pub(crate) fn status(email: &EmailRecord, max_attempts: u32, now: Timestamp) -> Markup {
    let (tone, mut sign) = look(email.state.status);
    let text = email.status_text(max_attempts, now);
    if email.state.waiting_for.is_some() {
        return pill("warn", "…", &text);
    }
    if email.state.status == Status::Sending && email.state.has_failed() {
        sign = "↻";
    }
    pill(tone, sign, &text)
}

/// What happens to a message, in words.
pub(crate) fn message_status(status: MessageStatus, text: &str) -> Markup {
    let (tone, sign) = match status {
        MessageStatus::Pending => ("warn", "↻"),
        MessageStatus::Retried => ("good", "✓"),
        MessageStatus::Failed => ("bad", "✕"),
        MessageStatus::Discarded => ("quiet", "–"),
    };
    pill(tone, sign, text)
}

/// A state: a colour, a sign and words.
pub(crate) fn pill(tone: &str, sign: &str, text: &str) -> Markup {
    html! { span class={ "pill " (tone) } { span aria-hidden="true" { (sign) } " " (text) } }
}

/// A subject, or that there is none.
pub(crate) fn subject_or(subject: Option<&str>) -> &str {
    subject
        .filter(|subject| !subject.trim().is_empty())
        .unwrap_or("(no subject)")
}

/// Says that there is nothing to see. `good`: and that this is well.
pub(crate) fn empty(good: bool, title: &str, text: &Markup) -> Markup {
    html! {
        div class={ "empty" @if good { " good" } } {
            p class="title" { @if good { span aria-hidden="true" { "✓ " } } (title) }
            p { (text) }
        }
    }
}

/// An address of ours with a query of these parameters; those without a value are left out.
pub(crate) fn address(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// The way to older entries, and back to the newest.
pub(crate) fn pager(newest: Option<&str>, older: Option<&str>) -> Markup {
    html! {
        @if newest.is_some() || older.is_some() {
            nav class="pager" aria-label="Pages" {
                @if let Some(newest) = newest { a href=(newest) rel="first" { "« Newest" } }
                @if let Some(older) = older { a href=(older) rel="next" { "Older »" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_spans_are_easy_to_read() {
        let shown = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let spans = [0, 59, 60, 61, 600, 3_600, 3_660, 90_000].map(span);
        assert_eq!(
            spans,
            [
                "0 s",
                "59 s",
                "1 min",
                "1 min 1 s",
                "10 min",
                "1 h",
                "1 h 1 min",
                "1 d 1 h"
            ]
        );
    }

    #[test]
    fn rates_are_short() {
        let shown = [0.2, 5.0, 9.96, 12.5, 640.0].map(per_second);
        let expected = ["0.2", "5", "10", "12", "640"].map(|rate| format!("{rate} per second"));
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_address_holds_only_what_is_given() {
        assert_eq!(address("/admin/emails", &[("q", "")]), "/admin/emails");
        let with = address("/admin/emails", &[("q", "a&b c"), ("to", "")]);
        assert_eq!(with, "/admin/emails?q=a%26b+c");
    }
}
