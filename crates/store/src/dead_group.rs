//! Dead letters by what they died of: one query for all dialects.
//!
//! It counts in an index of dead letters and looks up the first and the last of each group in
//! another: however many emails there are beside them, none is read. What died of an error goes by
//! its fingerprint, the rest by its reason; no fingerprint is the name of a reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use posthaste_core::port::DeadGroup;
use posthaste_core::status::DeadReason;

/// At most this many groups are shown.
const MOST_GROUPS: usize = 1000;

/// The query: name, number, first, last and a sample. Emails that died of the same error for
/// different reasons come apart, and are put together by [`merged`]. Names of tables begin with
/// `prefix`. `place` is where an owner is bound, if only his are wanted.
pub(crate) fn query(prefix: &str, place: Option<&str>) -> String {
    let owned = place.map_or_else(String::new, |place| {
        format!("AND (SELECT e.owner FROM {prefix}email e WHERE e.id = l.id) = {place}")
    });
    // One is of a group by its fingerprint or, if it has none, by its reason alone. The order is that
    // of the index, in full: PostgreSQL does not see that all without a fingerprint are alike.
    let one_of = |what: &str, order: &str| {
        let one = |which: &str| {
            format!(
                "(SELECT {what} FROM {prefix}email_log l
                  WHERE l.status = 'dead' AND {which} AND l.dead_reason = died.dead_reason {owned}
                  ORDER BY l.fingerprint {order}, l.dead_reason {order}, l.finished_at {order}
                  LIMIT 1)"
            )
        };
        let by_error = one("l.fingerprint = died.fingerprint");
        let by_reason = one("died.fingerprint IS NULL AND l.fingerprint IS NULL");
        format!("coalesce({by_error}, {by_reason})")
    };
    let first = one_of("l.finished_at", "ASC");
    let last = one_of("l.finished_at", "DESC");
    let sample = one_of("coalesce(l.last_error, l.dead_reason)", "DESC");
    format!(
        "SELECT coalesce(died.fingerprint, died.dead_reason), died.number, {first}, {last}, {sample}
         FROM (
             SELECT l.fingerprint, l.dead_reason, count(*) AS number FROM {prefix}email_log l
             WHERE l.status = 'dead' {owned}
             GROUP BY l.fingerprint, l.dead_reason ORDER BY 3 DESC LIMIT {MOST_GROUPS}
         ) AS died"
    )
}

/// Groups of the same name put together, most first.
pub(crate) fn merged(rows: Vec<DeadGroup>) -> Vec<DeadGroup> {
    let mut groups = BTreeMap::<String, DeadGroup>::new();
    for row in rows {
        let Some(group) = groups.get_mut(&row.fingerprint) else {
            groups.insert(row.fingerprint.clone(), row);
            continue;
        };
        group.count += row.count;
        group.first_seen = group.first_seen.min(row.first_seen);
        if row.last_seen > group.last_seen {
            group.last_seen = row.last_seen;
            group.sample = row.sample;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse((group.count, group.last_seen)));
    groups
}

/// The condition for one group, bound at `place`.
pub(crate) fn condition(name: &str, place: &str) -> String {
    if name.parse::<DeadReason>().is_ok() {
        format!("l.fingerprint IS NULL AND l.dead_reason = {place}")
    } else {
        format!("l.dead_reason IS NOT NULL AND l.fingerprint = {place}")
    }
}
