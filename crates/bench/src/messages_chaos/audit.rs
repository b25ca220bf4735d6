//! Compares three witnesses for every message: the driver's ledger, the row, and the copies in the
//! review queue.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::Client;
use uuid::Uuid;

use super::ledger::{Entry, Ledger, MAX_RETRIES};

/// At most this many broken messages are told in full.
const MOST_TOLD: usize = 20;

/// One row of `retry_queue`.
#[derive(Debug, Clone)]
struct Stored {
    status: String,
    retry_count: u32,
    repeats: u32,
    line: String,
}

/// What the comparison found.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) messages: u64,
    pub(super) by_status: BTreeMap<String, u64>,
    /// Different retries that were seen, and copies beyond the first of each.
    pub(super) retries: u64,
    pub(super) extra_copies: u64,
    /// Deliveries to the driver of what it had before.
    pub(super) delivered_again: u64,
    pub(super) in_review: u64,
    pub(super) extra_in_review: u64,
    /// Repeats as the store counted them, and messages that have some.
    pub(super) repeats: u64,
    pub(super) repeated: u64,
    /// Messages of which the driver handed in a failure twice, not knowing better.
    pub(super) uncertain: u64,
    /// Those of them that took another way than planned.
    pub(super) astray: u64,
    /// Not seen as often as it should have been, or not at its end.
    pub(super) lost: u64,
    /// More copies than 1 + repeats.
    pub(super) silent_duplicates: u64,
    /// Put back, or given to people, although nothing had failed.
    pub(super) unasked: u64,
    /// In a state that does not fit what was seen.
    pub(super) mistaken: u64,
    /// Broken messages with all that is known about them.
    pub(super) broken: Vec<String>,
}

impl Audit {
    pub(super) async fn of(
        database: &Client,
        ledger: &Ledger,
        review: &[Option<(Uuid, u32)>],
    ) -> anyhow::Result<Self> {
        let mut stored = read(database).await?;
        let mut audit = Self::default();
        let mut in_review: HashMap<usize, Vec<u32>> = HashMap::new();
        for message in review {
            match message.and_then(|(id, count)| Some((ledger.number_of(id)?, count))) {
                Some((number, count)) => in_review.entry(number).or_default().push(count),
                None => {
                    audit.unasked += 1;
                    audit.tell(format!("UNASKED: {message:?} is in review"));
                }
            }
        }
        for (number, entry) in ledger.entries().iter().enumerate() {
            let review = in_review.remove(&number).unwrap_or_default();
            match stored.remove(&entry.id) {
                Some(row) => audit.judge(entry, &row, &review),
                None => {
                    audit.lost += 1;
                    audit.tell(format!("LOST: there is no row of {entry:?}"));
                }
            }
        }
        for row in stored.values() {
            audit.unasked += 1;
            audit.tell(format!("UNASKED: nobody handed in {}", row.line));
        }
        for strange in ledger.strange() {
            audit.unasked += 1;
            audit.tell(strange);
        }
        Ok(audit)
    }

    fn judge(&mut self, entry: &Entry, row: &Stored, review: &[u32]) {
        let extra = entry.seen.values().map(|copies| copies.copies - 1).sum();
        let extra_in_review = (review.len() as u32).saturating_sub(1);
        self.count(entry, row, review, extra);
        let mut troubles = Vec::new();
        // A failure that was handed in twice may count as two.
        if extra + extra_in_review > row.repeats + entry.uncertain {
            self.silent_duplicates += 1;
            troubles.push("SILENT DUPLICATE: more copies than repeats explain");
        }
        if entry.uncertain == 0 {
            self.judge_way(entry, row, review, &mut troubles);
        } else if went_as_planned(entry, row, review) {
            // Nothing came of the doubt.
        } else {
            self.astray += 1;
            self.judge_end(entry, row, review, &mut troubles);
        }
        for trouble in troubles {
            self.tell(format!(
                "{trouble}\n  {entry:?}\n  in review with the counts {review:?}\n  retry_queue {}",
                row.line
            ));
        }
    }

    fn count(&mut self, entry: &Entry, row: &Stored, review: &[u32], extra: u32) {
        self.messages += 1;
        *self.by_status.entry(row.status.clone()).or_default() += 1;
        self.retries += entry.seen.len() as u64;
        self.extra_copies += u64::from(extra);
        let again = entry.seen.values().map(|copies| u64::from(copies.again));
        self.delivered_again += again.sum::<u64>();
        self.in_review += review.len() as u64;
        self.extra_in_review += review.len().saturating_sub(1) as u64;
        self.repeats += u64::from(row.repeats);
        self.repeated += u64::from(row.repeats > 0);
        self.uncertain += u64::from(entry.uncertain > 0);
    }

    /// Every failure was handed in once: everything must be exactly as planned.
    fn judge_way(
        &mut self,
        entry: &Entry,
        row: &Stored,
        review: &[u32],
        troubles: &mut Vec<&'static str>,
    ) {
        let last = entry.last_retry();
        if (1..=last).any(|count| !entry.seen.contains_key(&count)) {
            self.lost += 1;
            troubles.push("LOST: a retry was never seen");
        }
        if entry.exhausts() && review.is_empty() {
            self.lost += 1;
            troubles.push("LOST: it is not in review");
        }
        let beyond = entry.seen.keys().any(|count| *count > last);
        if beyond || (!entry.exhausts() && !review.is_empty()) {
            self.unasked += 1;
            troubles.push("UNASKED: it was put back, or given to people, without a failure");
        }
        if !went_as_planned(entry, row, review) && troubles.is_empty() {
            self.mistaken += 1;
            troubles.push("MISTAKEN: its row does not say what was seen");
        }
    }

    /// A failure was handed in twice, and may have counted as two. Then it may be further than
    /// planned, but it must be at an end: handled well, or with people.
    fn judge_end(
        &mut self,
        entry: &Entry,
        row: &Stored,
        review: &[u32],
        troubles: &mut Vec<&'static str>,
    ) {
        let seen = entry.seen.last_key_value().map_or(0, |(count, _)| *count);
        let handled = row.status == "retried" && seen > entry.failures && row.retry_count == seen;
        let with_people = row.status == "failed" && !review.is_empty();
        if !handled && !with_people {
            self.lost += 1;
            troubles.push("LOST: it is neither handled nor with people");
        }
    }

    fn tell(&mut self, what: String) {
        if self.broken.len() < MOST_TOLD {
            self.broken.push(what);
        }
    }
}

/// Whether a message was put back as often as planned, and is where it should be.
fn went_as_planned(entry: &Entry, row: &Stored, review: &[u32]) -> bool {
    let (status, count) = match entry.exhausts() {
        true => ("failed", MAX_RETRIES),
        false => ("retried", entry.last_retry()),
    };
    let in_review = match entry.exhausts() {
        true => !review.is_empty() && review.iter().all(|count| *count == MAX_RETRIES),
        false => review.is_empty(),
    };
    let retries = entry.seen.keys().copied();
    row.status == status
        && row.retry_count == count
        && in_review
        && retries.eq(1..=entry.last_retry())
}

async fn read(database: &Client) -> anyhow::Result<HashMap<Uuid, Stored>> {
    let sql = "SELECT message_id, status, retry_count, repeats,
                   (to_jsonb(q) - 'original_payload' - 'properties' - 'delivery')::text
               FROM retry_queue q";
    let mut stored = HashMap::new();
    for row in database.query(sql, &[]).await? {
        let number =
            |at: usize| -> anyhow::Result<u32> { Ok(u32::try_from(row.try_get::<_, i32>(at)?)?) };
        let one = Stored {
            status: row.try_get(1)?,
            retry_count: number(2)?,
            repeats: number(3)?,
            line: row.try_get(4)?,
        };
        stored.insert(row.try_get(0)?, one);
    }
    Ok(stored)
}

#[cfg(test)]
mod tests;
