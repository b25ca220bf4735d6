//! What is configured: how long things are kept, who is told of deaths, and every option.

use maud::{Markup, html};
use posthaste_core::Timestamp;
use posthaste_core::duration::HumanDuration;
use posthaste_core::port::ChannelState;

use crate::app::Setting;
use crate::page::{counted, moment, pill, span};

/// What is kept how long, in the order in which it is shown.
const KEPT: [(&str, &str); 7] = [
    ("sent", "Emails that were sent or cancelled"),
    ("dead", "Dead letters and discarded emails"),
    (
        "content",
        "Body, subject and addresses of emails that are over",
    ),
    ("attempts", "Attempts of emails that were sent or cancelled"),
    ("captures", "Captured mail in the dev inbox"),
    ("messages", "Messages that were put back into their queues"),
    ("audit", "The audit log"),
];

/// How long something is kept, in words, if that is known.
pub(in crate::desk) fn kept(configuration: &[Setting], key: &str) -> Option<String> {
    let mut settings = configuration.iter();
    let found = settings.find(|setting| setting.section == "retention" && setting.key == key);
    found.map(|setting| in_words(&setting.value))
}

/// How long things are kept.
pub(super) fn retention(configuration: &[Setting]) -> Markup {
    html! {
        section id="kept" {
            h2 { "Retention" }
            p class="faint" {
                "How long things are kept after they are over. What is not over is never removed. One email's content can \
                 be erased at once on its own page."
            }
            dl class="facts panel kept" {
                @for (key, what) in KEPT {
                    @if let Some(kept) = kept(configuration, key) { dt { (what) } dd { (kept) } }
                }
            }
        }
    }
}

/// A length of time as one would say it.
fn in_words(text: &str) -> String {
    const DAY: u64 = 86_400;
    if text.is_empty() {
        return "as long as the email".to_owned();
    }
    match text
        .parse::<HumanDuration>()
        .map(|length| length.0.as_secs())
    {
        Ok(seconds) if seconds >= DAY && seconds % DAY == 0 => {
            counted(seconds / DAY, "day", "days")
        }
        Ok(seconds) => span(seconds),
        Err(_) => text.to_owned(),
    }
}

/// Who is told when emails die, and whether that works.
pub(super) fn alerts(channels: &[ChannelState], now: Timestamp) -> Markup {
    html! {
        section id="alerts" {
            h2 { "Alerts" }
            @if channels.is_empty() {
                p class="faint" {
                    "Nobody is told when emails die. The section " code { "[alerts]" } " of the configuration names a Slack, \
                     PagerDuty or other webhook."
                }
            } @else {
                p class="faint" {
                    "Who is told when emails die. " code { "posthaste doctor --alert" } " sends a test."
                }
                table class="list" {
                    caption class="hidden" { "Alert channels" }
                    thead { tr { @for name in ["Channel", "State", "Last told", "To tell"] { th scope="col" { (name) } } } }
                    tbody { @for channel in channels { (channel_row(channel, now)) } }
                }
            }
        }
    }
}

fn channel_row(channel: &ChannelState, now: Timestamp) -> Markup {
    html! {
        tr data-key=(channel.name) {
            td class="subject" { (channel.name) }
            td {
                @match channel.failures {
                    0 if channel.last_told_at.is_none() => { (pill("quiet", "–", "nothing told yet")) }
                    0 => { (pill("good", "✓", "works")) }
                    n => { (pill("bad", "✕", &format!("failed {}", counted(u64::from(n), "time", "times")))) }
                }
                @if let Some(error) = &channel.last_error && channel.failures > 0 {
                    div class="small anywhere" { (error) }
                }
            }
            td data-label="Last told" {
                @match channel.last_told_at { Some(at) => { (moment(at, now)) } None => { "never" } }
            }
            td data-label="To tell" { (counted(channel.waiting, "email", "emails")) }
        }
    }
}

/// Every option, as `posthaste config show` prints it, and where it was given.
pub(super) fn part(configuration: &[Setting]) -> Markup {
    let sections = configuration.chunk_by(|a, b| a.section == b.section);
    html! {
        section id="configuration" {
            h2 { "Configuration" }
            p class="faint" {
                "What is in force in this process, without secrets. It is changed in " code { "posthaste.toml" }
                ", by variables or by flags, and read when the server starts."
            }
            @for settings in sections {
                details class="panel options" open[settings.iter().any(is_given)] {
                    summary { code { "[" (settings[0].section) "]" } }
                    table {
                        thead class="hidden" { tr { @for name in ["Option", "Value", "From"] { th scope="col" { (name) } } } }
                        tbody { @for setting in settings { (row(setting)) } }
                    }
                }
            }
        }
    }
}

fn is_given(setting: &Setting) -> bool {
    setting.source != "default"
}

fn row(setting: &Setting) -> Markup {
    html! {
        tr {
            th scope="row" { (setting.key) }
            td { @if setting.value.is_empty() { span class="faint" { "(empty)" } } @else { code { (setting.value) } } }
            td class="small faint" { (setting.source) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_said_in_words() {
        let said = ["30d", "1d", "36h", "90m", "", "nonsense"].map(in_words);
        assert_eq!(
            said,
            [
                "30 days",
                "1 day",
                "1 d 12 h",
                "1 h 30 min",
                "as long as the email",
                "nonsense"
            ]
        );
    }
}
