//! The calendar object of an email, checked so far that Gmail, Outlook and the others take the
//! message for an invitation and not for a file.
//!
//! What is in the object is the caller's business. Only this is looked at: mail names the METHOD
//! of the object a second time (RFC 6047 §2.4), and readers drop an object that is not whole.

use serde::Serializer;

use super::field_check::Findings;
use super::mime;
use super::request::CalendarRequest;

/// The methods of iTIP (RFC 5546 §1.4).
const METHODS: [&str; 8] = [
    "PUBLISH",
    "REQUEST",
    "REPLY",
    "ADD",
    "CANCEL",
    "REFRESH",
    "COUNTER",
    "DECLINECOUNTER",
];

/// How much of a line an error shows.
const SHOWN_CHARACTERS: usize = 40;

/// A checked iCalendar object. Its bytes are as they were given, but for the line ends, and for a
/// METHOD if it had none.
pub(super) struct Calendar {
    /// The object, its lines ending in CR LF.
    pub(super) content: String,
    /// The method, in capitals.
    pub(super) method: &'static str,
}

impl Calendar {
    /// Checks what was given, or notes all that is wrong with it.
    pub(super) fn check(given: &CalendarRequest, findings: &mut Findings) -> Option<Self> {
        let method = METHODS
            .into_iter()
            .find(|method| method.eq_ignore_ascii_case(&given.method));
        if method.is_none() {
            let known = METHODS.join(", ");
            findings.note("calendar.method", format!("must be one of {known}"));
        }
        let content = mime::lines(&given.content).into_owned();
        let checked = check_object(&content, method);
        let has_method = findings.check("calendar.content", checked)?;
        let method = method?;
        let content = if has_method {
            content
        } else {
            with_method(&content, method)
        };
        Some(Self { content, method })
    }

    /// The name of the file as which the object goes along.
    pub(super) fn filename(&self) -> &'static str {
        match self.method {
            "CANCEL" => "cancel.ics",
            _ => "invite.ics",
        }
    }
}

/// Writes an object without the lines that say when it was made: the same invitation made again is
/// the same content.
pub(super) fn without_stamp<S: Serializer>(
    content: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let is_stamp = |line: &&str| {
        line.trim_start()
            .to_ascii_uppercase()
            .starts_with("DTSTAMP")
    };
    let lines: Vec<&str> = content.lines().filter(|line| !is_stamp(line)).collect();
    serializer.serialize_str(&lines.join("\n"))
}

/// The same object with a METHOD of its own.
fn with_method(content: &str, method: &str) -> String {
    let is_begin = |line: &str| line.trim_end().eq_ignore_ascii_case("BEGIN:VCALENDAR");
    let mut lines: Vec<&str> = content.split("\r\n").collect();
    let own = format!("METHOD:{method}");
    // Nobody folds this line; if someone does, the object goes as it is.
    if let Some(begin) = lines.iter().position(|line| is_begin(line)) {
        lines.insert(begin + 1, &own);
    }
    lines.join("\r\n")
}

/// Whether this is one whole VCALENDAR with what readers need, of this method if it is known; and
/// whether it has a METHOD.
fn check_object(content: &str, method: Option<&str>) -> Result<bool, String> {
    if content.contains('\0') {
        return Err("contains a NUL character; remove it".into());
    }
    let unfolded = content.replace("\r\n ", "").replace("\r\n\t", "");
    let mut open = Vec::new();
    let mut methods = Vec::new();
    let (mut version, mut component, mut whole) = (false, false, false);
    for line in unfolded.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = property(line).ok_or_else(|| not_a_property(line))?;
        match (name.to_ascii_uppercase().as_str(), open.len()) {
            (_, 0) if whole => {
                return Err("goes on after END:VCALENDAR; give one VCALENDAR per email".into());
            }
            ("BEGIN", 0) if value.eq_ignore_ascii_case("VCALENDAR") => open.push(value),
            (_, 0) => return Err(not_begun()),
            ("BEGIN", depth) => {
                component |= depth == 1;
                open.push(value);
            }
            ("END", _) => {
                let begun = open.pop().unwrap_or_default();
                if !begun.eq_ignore_ascii_case(value) {
                    let (begun, value) = (shown(begun), shown(value));
                    return Err(format!("has END:{value} where END:{begun} must come first"));
                }
                whole = open.is_empty();
            }
            ("METHOD", 1) => methods.push(value),
            ("VERSION", 1) => version = true,
            _ => {}
        }
    }
    if let Some(begun) = open.pop() {
        let begun = shown(begun);
        return Err(format!("breaks off: there is no END:{begun}"));
    }
    if !whole {
        return Err(not_begun());
    }
    for (is_there, what) in [
        (version, "a VERSION; add the line VERSION:2.0"),
        (component, "a component such as VEVENT"),
    ] {
        if !is_there {
            return Err(format!("is a VCALENDAR without {what}"));
        }
    }
    if let Some(method) = method {
        check_method(&methods, method)?;
    }
    Ok(!methods.is_empty())
}

/// Readers compare the method of the object with that of the message, and drop both if they differ.
fn check_method(given: &[&str], method: &str) -> Result<(), String> {
    match given {
        [] => Ok(()),
        [one] if one.eq_ignore_ascii_case(method) => Ok(()),
        [one] => Err(format!(
            "has METHOD:{}, but calendar.method is {method}; make them the same",
            shown(one)
        )),
        _ => Err("has more than one METHOD; leave one".into()),
    }
}

/// The name and the value of an unfolded line: `NAME;PARAMETER="a:b":value`.
fn property(line: &str) -> Option<(&str, &str)> {
    let end = line.find([';', ':']).filter(|end| *end > 0)?;
    let mut quoted = false;
    let colon = line[end..].find(|c| {
        quoted ^= c == '"';
        c == ':' && !quoted
    })?;
    Some((&line[..end], line[end + colon + 1..].trim_end()))
}

fn not_begun() -> String {
    "is not an iCalendar object: it must start with BEGIN:VCALENDAR".into()
}

fn not_a_property(line: &str) -> String {
    let line = shown(line);
    format!(
        "has a line that is not NAME:value: `{line}`; \
         write a line break in a text as \\n, and begin the rest of a long line with a blank"
    )
}

fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARACTERS).collect();
    start.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "BEGIN:VCALENDAR\nPRODID:-//x//y//EN\nVERSION:2.0\nMETHOD:REQUEST\n\
        BEGIN:VEVENT\nUID:1\nEND:VEVENT\nEND:VCALENDAR\n";

    fn errors(content: &str, method: &str) -> Vec<(String, String)> {
        let given = CalendarRequest {
            content: content.into(),
            method: method.into(),
        };
        let mut findings = Findings::default();
        let checked = Calendar::check(&given, &mut findings);
        let errors = findings.into_errors();
        assert_eq!(checked.is_some(), errors.is_empty(), "{content}");
        let pair = |error: crate::intake::FieldError| (error.field, error.message);
        errors.into_iter().map(pair).collect()
    }

    #[test]
    fn unusual_objects_that_are_valid_pass() {
        let folded_method = WHOLE.replace("METHOD:REQUEST", "METH\n OD:REQ\n\tUEST");
        let cases = [
            WHOLE.to_owned(),
            WHOLE.replace('\n', "\r\n"),
            WHOLE.replace("PRODID:-//x//y//EN\n", ""),
            WHOLE.to_lowercase(),
            WHOLE.replace("METHOD:", "METHOD;X-A=\"b:c;d\":"),
            WHOLE.replace("UID:1", "UID:1\nDESCRIPTION:END:VCALENDAR"),
            WHOLE.replace("UID:1", "BEGIN:VALARM\nACTION:DISPLAY\nEND:VALARM"),
            WHOLE.replace("VEVENT", "X-THING"),
            // A method inside of a component is not the object's.
            WHOLE.replace("UID:1", "METHOD:CANCEL"),
            WHOLE.trim_end().to_owned(),
            format!("{WHOLE}\n\n"),
            folded_method,
        ];
        for content in cases {
            assert_eq!(errors(&content, "request"), [], "{content}");
        }
        let every = METHODS.map(|method| (method, WHOLE.replace("REQUEST", method)));
        for (method, content) in every {
            assert_eq!(errors(&content, method), [], "{method}");
        }
    }

    #[test]
    fn an_object_without_a_method_gets_the_one_of_the_message() {
        let given = CalendarRequest {
            content: WHOLE.replace("METHOD:REQUEST\n", ""),
            method: "cancel".into(),
        };
        let checked = Calendar::check(&given, &mut Findings::default()).unwrap();
        let start = "BEGIN:VCALENDAR\r\nMETHOD:CANCEL\r\nPRODID:-//x//y//EN\r\n";
        assert!(checked.content.starts_with(start), "{}", checked.content);
        assert!(checked.content.ends_with("END:VCALENDAR\r\n"));
    }

    #[test]
    fn what_readers_would_drop_is_refused_with_the_fix() {
        let without = |line: &str| WHOLE.replace(line, "");
        let cases = [
            (String::new(), "must start with BEGIN:VCALENDAR"),
            ("hello".into(), "not NAME:value: `hello`"),
            (format!("X-A:1\n{WHOLE}"), "must start with BEGIN:VCALENDAR"),
            (WHOLE.repeat(2), "one VCALENDAR per email"),
            (without("END:VCALENDAR\n"), "there is no END:VCALENDAR"),
            (
                without("END:VEVENT\n"),
                "END:VCALENDAR where END:VEVENT must come first",
            ),
            (without("VERSION:2.0\n"), "add the line VERSION:2.0"),
            (
                without("BEGIN:VEVENT\nUID:1\nEND:VEVENT\n"),
                "without a component",
            ),
            (
                WHOLE.replace("REQUEST", "CANCEL"),
                "has METHOD:CANCEL, but calendar.method is REQUEST",
            ),
            (
                WHOLE.replace("UID:1\n", "DESCRIPTION:one\ntwo\n"),
                "not NAME:value: `two`",
            ),
            (WHOLE.replace("UID:1", "UID:\0"), "NUL"),
        ];
        for (content, message) in cases {
            let found = errors(&content, "REQUEST");
            let [(field, text)] = found.as_slice() else {
                panic!("{content}: {found:?}");
            };
            assert_eq!(field, "calendar.content");
            assert!(text.contains(message), "{text} lacks {message}");
        }
    }

    #[test]
    fn a_method_that_itip_does_not_know_is_refused_by_name() {
        for method in [
            "",
            "INVITE",
            "REQUEST ",
            "REQUEST; x=y",
            "REQUEST\r\nBcc: x",
        ] {
            let found = errors(WHOLE, method);
            let [(field, text)] = found.as_slice() else {
                panic!("{method}: {found:?}");
            };
            assert_eq!(field, "calendar.method");
            assert!(text.contains("PUBLISH, REQUEST"), "{text}");
        }
    }
}
