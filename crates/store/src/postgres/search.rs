//! Finds emails by an address, a key or the start of a subject.
//!
//! What few emails have is looked up in its index, and the newest of them are shown. What very
//! many have must not be gathered only to be sorted: there, emails are walked from the newest, and
//! mostly enough are found soon; if not, it is gathered after all.

use posthaste_core::email::EmailId;
use posthaste_core::port::{EmailFilter, StoreResult};

use super::PostgresStore;
use super::list::{Value, bound};
use super::state_row::get;

/// The index of subjects knows this many characters of each.
const SUBJECT_INDEXED: usize = 200;
/// More than so many emails are very many.
const MANY: u32 = 500;

/// Which parts of a filter very many emails fulfil.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Common {
    /// The address.
    pub(super) to: bool,
    /// What is searched for.
    pub(super) q: bool,
}

impl Common {
    /// Whether there is such a part.
    pub(super) const fn is_any(self) -> bool {
        self.to || self.q
    }
}

impl PostgresStore {
    /// Finds out which parts of a filter very many emails fulfil.
    pub(super) async fn common_in(&self, filter: &EmailFilter) -> StoreResult<Common> {
        let mut common = Common::default();
        if let Some(to) = &filter.to {
            let values: [Value; 1] = [Box::new(to.to_lowercase())];
            common.to = self.are_many(&sent_to("$1"), &values).await?;
        }
        if let Some(q) = &filter.q {
            let mut values = Vec::new();
            let ids = ids_for(q, &mut binding(&mut values));
            common.q = self.are_many(&ids, &values).await?;
        }
        Ok(common)
    }

    async fn are_many(&self, ids: &str, values: &[Value]) -> StoreResult<bool> {
        let sql = format!(
            "SELECT count(*) > {MANY} FROM (SELECT 1 FROM ({ids}) AS found LIMIT {MANY} + 1) AS counted"
        );
        let rows = self.desk.query(&sql, &bound(values)).await?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }
}

/// Binds values one after the other and gives their places.
pub(super) fn binding(values: &mut Vec<Value>) -> impl FnMut(Value) -> String + '_ {
    |value| {
        values.push(value);
        format!("${}", values.len())
    }
}

/// What the state of an email must fulfil for it to be to an address.
pub(super) fn among_those_to(to: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    let place = bind(Box::new(to.to_lowercase()));
    format!("l.id IN ({})", sent_to(&place))
}

/// What an email must fulfil to be to an address.
pub(super) fn is_to(to: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    let place = bind(Box::new(to.to_lowercase()));
    format!(
        "(e.first_recipient = {place}
          OR (e.recipient_count > 1 AND lower(e.recipients::text)::jsonb ? {place}))"
    )
}

/// What the state of an email must fulfil for it to have this id, key, address, or start of a
/// subject.
pub(super) fn among_those_that_fit(q: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    format!("l.id IN ({})", ids_for(q, bind))
}

/// What an email must fulfil to have this key, address, or start of a subject.
pub(super) fn fits(q: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    let key = bind(Box::new(q.to_owned()));
    let start = bind(Box::new(q.to_ascii_lowercase()));
    let mut condition =
        format!("e.message_key = {key} OR starts_with(lower(e.subject COLLATE \"C\"), {start})");
    if q.contains('@') {
        condition = format!("{condition} OR {}", is_to(q, bind));
    }
    format!("({condition})")
}

/// The ids of emails to an address. The list of addresses is folded as a whole: to the planner
/// that is one condition that few rows fulfil, which a subquery per row is not.
fn sent_to(place: &str) -> String {
    format!(
        "SELECT id FROM email WHERE first_recipient = {place}
         UNION ALL
         SELECT id FROM email WHERE recipient_count > 1 AND lower(recipients::text)::jsonb ? {place}"
    )
}

/// The ids of emails with this id, key, address, or start of a subject.
fn ids_for(q: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    let key = bind(Box::new(q.to_owned()));
    let by_key = format!("SELECT id FROM email WHERE message_key = {key}");
    if let Ok(id) = q.trim().parse::<EmailId>() {
        let place = bind(Box::new(id.0));
        return format!("SELECT {place}::uuid AS id UNION ALL {by_key}");
    }
    // The start of a subject as a range, which the index serves, and then all of it. Folded like
    // the index: ASCII letters only.
    let folded = q.to_ascii_lowercase();
    let from: String = folded.chars().take(SUBJECT_INDEXED).collect();
    let to = bind(Box::new(format!("{from}\u{10ffff}")));
    let from = bind(Box::new(from));
    let start = bind(Box::new(folded));
    let ids = format!(
        "{by_key}
         UNION ALL
         SELECT id FROM email
         WHERE left(lower(subject COLLATE \"C\"), {SUBJECT_INDEXED}) >= {from}
           AND left(lower(subject COLLATE \"C\"), {SUBJECT_INDEXED}) < {to}
           AND starts_with(lower(subject COLLATE \"C\"), {start})"
    );
    if !q.contains('@') {
        return ids;
    }
    let address = bind(Box::new(q.to_lowercase()));
    format!("{ids} UNION ALL {}", sent_to(&address))
}
