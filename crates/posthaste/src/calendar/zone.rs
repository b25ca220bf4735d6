//! How a time is written in a calendar, and the time zone that goes with it.
//!
//! A time is local to its zone, so that its readers see the wall clock that was meant. The zone
//! goes along as a VTIMEZONE, because the name of a zone means nothing to the standard. It has the
//! shape that Outlook needs ([MS-OXCICAL] 2.1.3.1.1.19): one DAYLIGHT and one STANDARD with a
//! yearly rule each, or just one STANDARD. Where clocks change by no rule that can be written like
//! that (Morocco follows the moon), it has the changes around the event, one by one.

use icalendar::Property;
use jiff::civil::{Date, DateTime, Weekday, date};
use jiff::tz::{Offset, TimeZone, TimeZoneTransition};
use jiff::{Timestamp, Zoned};

use super::component::Component;

/// For how many years a rule must hold to be one. In eleven, every date on which a last Sunday can
/// be has come.
const YEARS: usize = 12;

const LOCAL: &str = "%Y%m%dT%H%M%S";
const UTC: &str = "%Y%m%dT%H%M%SZ";

/// A property whose value is this moment by UTC.
pub(super) fn utc_time(name: &str, at: Timestamp) -> Property {
    Property::new(name, at.strftime(UTC).to_string())
}

/// A property whose value is this time: local to its zone where that is possible, else by UTC.
pub(super) fn time(name: &str, at: &Zoned) -> Property {
    match local_zone(at) {
        Some(zone) => Property::new(name, at.strftime(LOCAL).to_string())
            .add_parameter("TZID", zone)
            .done(),
        None => utc_time(name, at.timestamp()),
    }
}

/// The VTIMEZONEs that these times need, each once.
pub(super) fn zones(times: [&Zoned; 2]) -> Vec<Component> {
    let mut zones: Vec<(&str, Vec<&Zoned>)> = Vec::new();
    for at in times {
        let Some(name) = local_zone(at) else { continue };
        match zones.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(at),
            None => zones.push((name, vec![at])),
        }
    }
    let component = |(name, times): (&str, Vec<&Zoned>)| {
        let instants = || times.iter().map(|at| at.timestamp());
        let (from, until) = (instants().min()?, instants().max()?);
        let zone = times.first()?.time_zone();
        let component = Component::new("VTIMEZONE").property(("TZID", name));
        Some(component.parts(observances(zone, from, until)))
    };
    zones.into_iter().filter_map(component).collect()
}

/// The name of the zone by whose wall clock a calendar finds the same moment again. It does not if
/// the zone has no name, and in the second of two hours that are called the same.
fn local_zone(at: &Zoned) -> Option<&str> {
    let zone = at.time_zone();
    let name = zone.iana_name()?;
    let is_found = zone.to_timestamp(at.datetime()).ok()? == at.timestamp();
    (is_found && !is_utc(zone)).then_some(name)
}

/// Whether a zone is UTC by whatever name: its clocks never showed anything else.
fn is_utc(zone: &TimeZone) -> bool {
    zone.to_offset(Timestamp::UNIX_EPOCH) == Offset::UTC
        && zone.preceding(Timestamp::MAX).next().is_none()
}

/// What a zone's clocks show from one moment to another, and afterwards if there is a rule.
fn observances(zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Component> {
    let mut changes: Vec<_> = Change::until(zone, from).take(2).collect();
    changes.reverse();
    let earlier = changes.len();
    changes.extend(Change::after(zone, from).take(2 * YEARS));
    if changes.len() == earlier {
        return vec![always(zone, from)];
    }
    if let Some(rules) = yearly(&changes) {
        return rules;
    }
    let (earlier, later) = changes.split_at(earlier);
    let first = earlier
        .last()
        .map_or_else(|| always(zone, from), |change| change.observance());
    // One more than is needed, so that there is a STANDARD whenever there is a DAYLIGHT.
    let most = later.iter().filter(|change| change.at <= until).count() + 1;
    let later = later.iter().take(most).map(Change::observance);
    std::iter::once(first).chain(later).collect()
}

/// The offset of a moment, for all times.
fn always(zone: &TimeZone, at: Timestamp) -> Component {
    let info = zone.to_offset_info(at);
    let start = date(1970, 1, 1).at(0, 0, 0, 0);
    let offset = info.offset();
    observance("STANDARD", start, offset, offset, info.abbreviation())
}

/// One DAYLIGHT and one STANDARD with a rule each, if all the changes follow them.
fn yearly(changes: &[Change]) -> Option<Vec<Component>> {
    let (forward, back): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.is_forward());
    let with_rule = |changes: Vec<&Change>| {
        let first = *changes.first()?;
        let rule = rule(&changes)?;
        Some(first.observance().property(("RRULE", rule.as_str())))
    };
    Some(vec![with_rule(forward)?, with_rule(back)?])
}

/// The rule by which changes come once a year, if there is one: on which weekday of which month.
fn rule(changes: &[&Change]) -> Option<String> {
    let first = *changes.first()?;
    let start = first.local();
    let is_alike = |(year, change): (i16, &&Change)| {
        let local = change.local();
        (local.year(), local.month()) == (start.year() + year, start.month())
            && (local.weekday(), local.time()) == (start.weekday(), start.time())
            && (change.before, change.after) == (first.before, first.after)
    };
    let dates = || changes.iter().map(|change| change.local().date());
    let is_last = |day: Date| day.day() + 7 > day.days_in_month();
    let week = |day: Date| (day.day() - 1) / 7 + 1;
    let nth = if dates().all(is_last) {
        -1
    } else {
        week(start.date())
    };
    let is_rule = changes.len() >= YEARS
        && (0..).zip(changes).all(is_alike)
        && (nth < 0 || dates().all(|day| week(day) == nth));
    let (month, day) = (start.month(), weekday(start.weekday()));
    is_rule.then(|| format!("FREQ=YEARLY;BYMONTH={month};BYDAY={nth}{day}"))
}

/// A moment at which a zone's clocks were or will be changed.
struct Change {
    at: Timestamp,
    before: Offset,
    after: Offset,
    abbreviation: String,
}

impl Change {
    /// The changes until a moment, the latest first.
    fn until(zone: &TimeZone, at: Timestamp) -> impl Iterator<Item = Self> {
        let next = at.checked_add(jiff::SignedDuration::from_nanos(1));
        let changes = zone.preceding(next.unwrap_or(at));
        changes.filter_map(|change| Self::of(zone, &change))
    }

    /// The changes after a moment, the earliest first.
    fn after(zone: &TimeZone, at: Timestamp) -> impl Iterator<Item = Self> {
        let changes = zone.following(at);
        changes.filter_map(|change| Self::of(zone, &change))
    }

    /// A transition, unless only the name of the time was changed.
    fn of(zone: &TimeZone, transition: &TimeZoneTransition<'_>) -> Option<Self> {
        let at = transition.timestamp();
        let just_before = at.checked_sub(jiff::SignedDuration::from_nanos(1)).ok()?;
        let change = Self {
            at,
            before: zone.to_offset(just_before),
            after: transition.offset(),
            abbreviation: transition.abbreviation().to_owned(),
        };
        (change.before != change.after).then_some(change)
    }

    /// Whether clocks are put forward. This, and not what the zone's data say, is called DAYLIGHT:
    /// by law, Irish summer is standard time, and calendars do not expect that.
    fn is_forward(&self) -> bool {
        self.after > self.before
    }

    /// What clocks show when they are changed.
    fn local(&self) -> DateTime {
        self.before.to_datetime(self.at)
    }

    fn observance(&self) -> Component {
        let name = if self.is_forward() {
            "DAYLIGHT"
        } else {
            "STANDARD"
        };
        let (before, after) = (self.before, self.after);
        observance(name, self.local(), before, after, &self.abbreviation)
    }
}

fn observance(
    name: &'static str,
    start: DateTime,
    before: Offset,
    after: Offset,
    abbreviation: &str,
) -> Component {
    Component::new(name)
        .property(Property::new("DTSTART", start.strftime(LOCAL).to_string()))
        .property(Property::new("TZOFFSETFROM", written(before)))
        .property(Property::new("TZOFFSETTO", written(after)))
        .property(("TZNAME", abbreviation))
}

/// `+0100`, with seconds where there are any.
fn written(offset: Offset) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match seconds {
        0 => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
    }
}

const fn weekday(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "MO",
        Weekday::Tuesday => "TU",
        Weekday::Wednesday => "WE",
        Weekday::Thursday => "TH",
        Weekday::Friday => "FR",
        Weekday::Saturday => "SA",
        Weekday::Sunday => "SU",
    }
}
