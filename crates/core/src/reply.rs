//! A server's reply: code, enhanced code, text.

use std::fmt;

/// The longest text of a reply that is kept, in characters.
const LONGEST_TEXT: usize = 500;

/// An enhanced status code of RFC 3463, such as 5.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Enhanced {
    /// 2, 4 or 5.
    pub class: u8,
    /// What kind of thing it is about.
    pub subject: u16,
    /// The detail.
    pub detail: u16,
}

impl Enhanced {
    /// Reads a code at the start of a reply's text; the rest of the text follows.
    #[must_use]
    pub fn parse_prefix(text: &str) -> Option<(Self, &str)> {
        let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut parts = code.split('.');
        let class = parts
            .next()?
            .parse()
            .ok()
            .filter(|class| matches!(class, 2 | 4 | 5))?;
        let part = |text: Option<&str>| -> Option<u16> {
            text.filter(|t| (1..=3).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit()))?
                .parse()
                .ok()
        };
        let (subject, detail) = (part(parts.next())?, part(parts.next())?);
        parts.next().is_none().then_some((
            Self {
                class,
                subject,
                detail,
            },
            rest,
        ))
    }
}

impl fmt::Display for Enhanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// What someone else said, fit for logs and pages: no control characters, bounded in length.
pub(crate) fn printable(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST_TEXT)
        .collect();
    text.trim().to_owned()
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The three-digit code.
    pub code: u16,
    /// The enhanced code, if the text began with one.
    pub enhanced: Option<Enhanced>,
    /// The text, lines joined by a space, control characters replaced, bounded in length.
    pub text: String,
}

impl Reply {
    /// Builds a reply from its code and its text without codes in front of the lines.
    #[must_use]
    pub fn new(code: u16, text: &str) -> Self {
        let (enhanced, rest) = match Enhanced::parse_prefix(text) {
            Some((enhanced, rest)) => (Some(enhanced), rest),
            None => (None, text),
        };
        Self {
            code,
            enhanced,
            text: printable(rest),
        }
    }

    /// Reads a reply as people paste it: `550 5.1.1 No such user`.
    #[must_use]
    pub fn parse_line(line: &str) -> Option<Self> {
        let line = line.trim();
        let code: u16 = line
            .get(..3)?
            .parse()
            .ok()
            .filter(|code| (200..600).contains(code))?;
        let rest = line.get(3..)?.trim_start_matches(['-', ' ']);
        Some(Self::new(code, rest))
    }

    /// 2xx.
    #[must_use]
    pub const fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// The enhanced code, where it agrees with the basic code on transient or permanent. Where
    /// the two disagree, the basic code decides.
    #[must_use]
    pub fn agreeing_enhanced(&self) -> Option<Enhanced> {
        self.enhanced
            .filter(|enhanced| u16::from(enhanced.class) == self.code / 100)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced {
            write!(f, " {enhanced}")?;
        }
        if self.text.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_reads_back_as_it_was_printed() {
        for line in [
            "250 2.0.0 OK",
            "550 5.1.1 No such user",
            "421 Bye",
            "354",
            "451 4.7.1 Greylisted",
        ] {
            assert_eq!(Reply::parse_line(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn what_only_looks_like_an_enhanced_code_stays_text() {
        for text in [
            "1.2.3 x",
            "5.1 x",
            "5.1.1.1 x",
            "5.1111.1 x",
            "5.a.1 x",
            "127.0.0.1 refused",
        ] {
            assert_eq!(Reply::new(550, text).enhanced, None, "{text}");
        }
    }

    #[test]
    fn an_enhanced_code_that_contradicts_the_basic_code_is_left_out() {
        assert_eq!(
            Reply::new(450, "5.1.1 No such user").agreeing_enhanced(),
            None
        );
        assert!(
            Reply::new(550, "5.1.1 No such user")
                .agreeing_enhanced()
                .is_some()
        );
    }

    #[test]
    fn control_characters_never_reach_a_log() {
        assert_eq!(Reply::new(550, "a\r\nb\u{1b}[31m").text, "a  b [31m");
    }
}
