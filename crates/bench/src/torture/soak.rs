//! A long time without faults: whether memory, descriptors and tables come to rest.
//!
//! Sent emails are kept, so tables grow with them; what must not grow is what each costs, and what
//! is left behind: dead rows, descriptors, memory. PostgreSQL looks for dead rows to remove once a
//! minute, so a soak of a few minutes says nothing of those.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::Stage;
use crate::evidence::stored::Books;
use crate::rig::services;
use crate::rig::vital::Vital;

/// How many samples a soak has.
const SAMPLES: u32 = 60;
/// The first of them are of a process that still warms up.
const WARM_UP: f64 = 0.25;
/// By how much the end may be above the beginning.
const SLACK: f64 = 1.25;
/// What is so little is noise.
const LITTLE: [f64; 4] = [32.0, 16.0, 20_000.0, 400.0];
const NAMES: [&str; 4] = [
    "memory, MiB",
    "descriptors",
    "dead rows",
    "table bytes per email",
];

/// What was seen, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    /// Memory, descriptors, dead rows, bytes per email.
    seen: Vec<[f64; 4]>,
}

impl Samples {
    /// Looks for so long.
    pub(super) async fn take(stage: &Stage<'_>, time: Duration) -> anyhow::Result<Self> {
        let began = Instant::now();
        let mut samples = Self::default();
        while began.elapsed() < time {
            tokio::time::sleep(time / SAMPLES).await;
            stage.fleet.check()?;
            let vital = Vital::sum(&stage.fleet);
            let (dead_rows, bytes) = tables(&stage.books).await?;
            let emails = stage.ledger.accepted().max(1) as f64;
            let seen = [
                vital.memory_mib,
                vital.descriptors,
                dead_rows,
                bytes / emails,
            ];
            stage.journal.line(&format!("{NAMES:?}: {seen:.1?}"));
            samples.seen.push(seen);
        }
        Ok(samples)
    }

    /// Beginning, end, and whether it is flat, of each thing that was looked at.
    fn trends(&self) -> impl Iterator<Item = (&'static str, f64, f64, bool)> {
        let warm = (self.seen.len() as f64 * WARM_UP) as usize;
        let warm = &self.seen[warm.min(self.seen.len())..];
        let third = warm.len().div_ceil(3);
        let (early, late) = (&warm[..third], &warm[warm.len() - third..]);
        let middle = |part: &[[f64; 4]], what: usize| {
            let mut values: Vec<f64> = part.iter().map(|seen| seen[what]).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let trends: Vec<_> = NAMES
            .into_iter()
            .enumerate()
            .map(|(what, name)| {
                let (early, late) = (middle(early, what), middle(late, what));
                let is_flat = late <= early * SLACK || late - early <= LITTLE[what];
                (name, early, late, is_flat)
            })
            .collect();
        trends.into_iter()
    }

    /// What goes on growing.
    pub(super) fn growing(&self) -> Vec<String> {
        let trends = self.trends().filter(|(.., is_flat)| !is_flat);
        trends
            .map(|(name, early, late, _)| format!("{name} grows: {early:.0} to {late:.0}"))
            .collect()
    }

    /// For the report.
    pub(super) fn rows(&self) -> Vec<(String, Value)> {
        let trends = self.trends();
        trends
            .map(|(name, early, late, is_flat)| {
                let flat = if is_flat { "flat" } else { "GROWS" };
                let text = format!("{early:.0} to {late:.0}, {flat}");
                (format!("soak: {name}"), json!(text))
            })
            .collect()
    }
}

/// How many dead rows there are, and how large all tables are.
async fn tables(books: &Books) -> anyhow::Result<(f64, f64)> {
    match books {
        Books::Postgres(url) => {
            let sql = "SELECT coalesce(sum(n_dead_tup), 0)::float8,
                              coalesce(sum(pg_total_relation_size(relid)), 0)::float8
                       FROM pg_stat_user_tables";
            let row = services::connect(url).await?.query_one(sql, &[]).await?;
            Ok((row.get(0), row.get(1)))
        }
        // Pages that are free stand for rows that are dead.
        Books::Sqlite(path) => {
            let file = rusqlite::Connection::open(path)?;
            let number = |name: &str| {
                file.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                    .map(|n| n as f64)
            };
            let bytes = number("page_count")? * number("page_size")?;
            Ok((number("freelist_count")?, bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(values: impl Fn(u32) -> f64) -> Samples {
        let seen = (0..60).map(|n| [values(n), 10.0, 0.0, 500.0]);
        Samples {
            seen: seen.collect(),
        }
    }

    #[test]
    fn what_warms_up_and_stays_is_flat_and_what_goes_on_grows() {
        let rests = memory(|n| 100.0 + f64::from(n.min(10)) * 20.0);
        assert!(rests.growing().is_empty());
        let leaks = memory(|n| 100.0 + f64::from(n) * 5.0);
        assert_eq!(leaks.growing().len(), 1);
        assert!(memory(|_| 0.0).growing().is_empty());
    }
}
