//! The components of an iCalendar object, and how they are written.
//!
//! `icalendar` writes the lines: it knows which values are escaped, and how parameters are quoted.
//! Two things it does in its own way, and they are done here. Its components get a UID and a
//! DTSTAMP wherever they have none, also inside of a time zone, where they have no place. And its
//! folded lines can have an octet more than they should.

use std::fmt;

use icalendar::Property;

/// The longest line, in octets (RFC 5545 §3.1).
const LONGEST_LINE: usize = 75;

/// One component: VCALENDAR, VEVENT and so on.
pub(super) struct Component {
    name: &'static str,
    properties: Vec<Property>,
    parts: Vec<Component>,
}

impl Component {
    /// A component of this name, with nothing in it.
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            properties: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// With one property more. Whether its value is escaped depends on its name.
    pub(super) fn property(mut self, property: impl Into<Property>) -> Self {
        self.properties.push(property.into());
        self
    }

    /// With these properties more.
    pub(super) fn properties(mut self, properties: impl IntoIterator<Item = Property>) -> Self {
        self.properties.extend(properties);
        self
    }

    /// With these components inside.
    pub(super) fn parts(mut self, parts: impl IntoIterator<Item = Self>) -> Self {
        self.parts.extend(parts);
        self
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BEGIN:{}\r\n", self.name)?;
        for property in &self.properties {
            write_folded(property.clone().try_into()?, f)?;
        }
        for part in &self.parts {
            part.fmt(f)?;
        }
        write!(f, "END:{}\r\n", self.name)
    }
}

/// Writes a line that was folded in another way. Nothing else puts a line break into it: those of
/// texts are escaped.
fn write_folded(line: String, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let line = line.replace("\r\n ", "");
    let mut rest = line.trim_end_matches("\r\n");
    let mut room = LONGEST_LINE;
    while rest.len() > room {
        let (start, end) = rest.split_at(rest.floor_char_boundary(room));
        write!(f, "{start}\r\n ")?;
        rest = end;
        // The blank counts.
        room = LONGEST_LINE - 1;
    }
    write!(f, "{rest}\r\n")
}
