//! When the studio is open: one wheel, three times a day, for the next two weeks.

use std::fmt;

use anyhow::Result;
use posthaste::Timestamp;
use posthaste::calendar::jiff::{self, ToSpan as _, Zoned, civil};
use posthaste::rusqlite::ToSql;
use posthaste::rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::Serialize;

/// By whose clock the studio opens.
pub const ZONE: &str = "Europe/Berlin";

const HOURS: [i8; 3] = [10, 14, 18];
const DAYS: usize = 14;

/// An hour and a half at the wheel, by the clock on the studio's wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Slot(civil::DateTime);

impl Slot {
    /// All that are on offer: the rest of today's, and those of the days that follow.
    ///
    /// # Errors
    ///
    /// If this machine does not know the studio's time zone.
    pub fn on_offer(now: Timestamp) -> Result<Vec<Self>> {
        let now = now.in_tz(ZONE)?.datetime();
        let days = now.date().series(1.day()).take(DAYS);
        let slots = days.flat_map(|day| HOURS.map(|hour| Self(day.at(hour, 0, 0, 0))));
        Ok(slots.filter(|slot| slot.0 > now).collect())
    }

    /// When it begins.
    ///
    /// # Errors
    ///
    /// If this machine does not know the studio's time zone.
    pub fn start(self) -> Result<Zoned> {
        Ok(self.0.in_tz(ZONE)?)
    }

    /// When it ends.
    ///
    /// # Errors
    ///
    /// If this machine does not know the studio's time zone.
    pub fn end(self) -> Result<Zoned> {
        Ok(self.start()?.checked_add(90.minutes())?)
    }

    /// As people say it: `Friday, 20 November 2026, 18:00`.
    #[must_use]
    pub fn in_words(self) -> String {
        self.0.strftime("%A, %-d %B %Y, %H:%M").to_string()
    }

    /// The day it is on: `Fri, 20 Nov`.
    #[must_use]
    pub fn day(self) -> String {
        self.0.strftime("%a, %-d %b").to_string()
    }

    /// The time of day: `18:00`.
    #[must_use]
    pub fn time(self) -> String {
        self.0.strftime("%H:%M").to_string()
    }
}

/// As programs write it: `2026-11-20T18:00:00`.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Slot {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl ToSql for Slot {
    fn to_sql(&self) -> posthaste::rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

impl FromSql for Slot {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_begun_today_is_not_on_offer_any_more() {
        // Noon in Berlin.
        let slots = Slot::on_offer("2026-11-20T11:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(slots[0].in_words(), "Friday, 20 November 2026, 14:00");
        assert_eq!(slots.len(), 14 * 3 - 1);
    }

    #[test]
    fn a_slot_lasts_an_hour_and_a_half_by_the_clock_of_the_studio() {
        let slot: Slot = "2026-11-20T18:00".parse().unwrap();
        let end = slot.end().unwrap();
        assert_eq!(end.to_string(), "2026-11-20T19:30:00+01:00[Europe/Berlin]");
    }
}
