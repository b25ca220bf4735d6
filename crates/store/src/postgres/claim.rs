//! Takes rows that wait, each once, however many instances ask: candidates are found by a small
//! partial index and locked, those that another instance holds are skipped, and the lifecycle
//! decides about each with the row in its present state.

use std::time::Instant;

use deadpool_postgres::ClientWrapper;
use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::port::StoreResult;
use posthaste_core::way::FaultNote;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::PostgresStore;
use super::books::{Books, Pipeline, READ_FACTS, READ_SPENT, int};
use super::error::Trouble;
use super::floor::{self, Floor, Found};
use super::pool::Values;
use super::state_row::{STATE_COLUMNS, STATE_WIDTH, get, lock_states};
use crate::ledger::Ledger as _;

/// Which rows are to be taken.
pub(super) struct Candidates<'a> {
    /// The query for states and ids.
    pub(super) query: String,
    /// Its values from `$2` on, or from `$4` on if it goes in turn; `$1` is how many.
    pub(super) values: Values<'a>,
    /// In which turn.
    pub(super) in_turn: Option<InTurn<'a>>,
    /// How many.
    pub(super) most: usize,
    /// Whether parked emails for which it became too late are taken, too. They come first.
    pub(super) with_overdue: bool,
    /// Whose facts are read.
    pub(super) facts_of: FactsOf,
}

/// Whose facts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactsOf {
    /// Everyone's.
    All,
    /// Of emails that have failed, or for which it may be too late. The others are only begun, which
    /// takes nothing but their states.
    Doubtful,
}

/// A kind of email that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Its number among all kinds that are looked for together.
    pub(super) kind: usize,
    /// What such emails fulfil.
    pub(super) condition: &'static str,
    /// Those that became due after this are not looked for yet; the present if that is not said.
    pub(super) until: Option<Timestamp>,
}

/// One priority after the other, and one part after the other within it.
pub(super) struct InTurn<'a> {
    pub(super) priorities: &'a [i16],
    pub(super) parts: &'a [Part],
    /// Where to begin to look; at the beginning if that is not said.
    pub(super) floor: Option<&'a Floor>,
}

/// The query for emails of these kinds, one priority after the other, and one kind after the other
/// within it, until there are enough. `$1` is how many, `$2` where to begin, `$3` the priorities in
/// their order. All of it is one statement: the parts are run as far as rows are wanted of them, and
/// each locks what it gives.
pub(super) fn in_turn(parts: &[Part]) -> String {
    in_order(parts, "turn.place")
}

/// The same, those first that have waited longest, whatever their priority. At most `$1` of each
/// priority are looked at.
pub(super) fn longest(parts: &[Part]) -> String {
    in_order(parts, "l.next_attempt_at")
}

fn in_order(parts: &[Part], order: &str) -> String {
    let kinds = parts.len();
    let part = |Part {
                    kind, condition, ..
                }: &Part| {
        let place = kind + 1;
        format!(
            "SELECT * FROM (SELECT {STATE_COLUMNS}, l.id, {kind} AS kind FROM email_log l
             WHERE l.priority = turn.priority
                 AND l.next_attempt_at >= ($2::timestamptz[])[turn.priority * {kinds} + {place}]
                 AND {condition}
             ORDER BY l.next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED) AS part"
        )
    };
    let all: Vec<String> = parts.iter().map(part).collect();
    let all = all.join(" UNION ALL ");
    format!(
        "SELECT {STATE_COLUMNS}, l.id, turn.priority, l.kind
         FROM unnest($3::int2[]) WITH ORDINALITY AS turn (priority, place)
         CROSS JOIN LATERAL ({all}) AS l
         ORDER BY {order} LIMIT $1"
    )
}

/// The query for emails whose time in this column has come.
pub(super) fn by_time(column: &str) -> String {
    format!(
        "SELECT {STATE_COLUMNS}, l.id FROM email_log l WHERE {column} <= posthaste_now()
         ORDER BY {column} LIMIT $1 FOR UPDATE SKIP LOCKED"
    )
}

/// The query for parked emails for which it became too late.
pub(super) fn waited_too_long() -> String {
    by_time("l.waits_until")
}

impl PostgresStore {
    /// Takes candidates and lets `decide` make something of them, in one transaction.
    pub(super) async fn claim<T>(
        &self,
        candidates: Candidates<'_>,
        decide: impl FnOnce(&mut Books, &[EmailId]) -> T,
    ) -> StoreResult<(T, Timestamp)> {
        self.keep_books(async |client, books| {
            let ids = lock(client, books, &candidates).await?;
            Ok(decide(books, &ids))
        })
        .await
    }

    /// Lets `work` read, lock and decide, and writes what it decided, in one transaction.
    pub(super) async fn keep_books<T>(
        &self,
        work: impl AsyncFnOnce(&ClientWrapper, &mut Books) -> Result<T, Trouble>,
    ) -> StoreResult<(T, Timestamp)> {
        let kept = self.pool.run(async |client: &ClientWrapper| {
            let asked = Instant::now();
            let now = client.prepare_cached("SELECT posthaste_now()").await?;
            let (begun, now) = tokio::join!(
                biased;
                client.batch_execute("BEGIN"),
                client.query_one(&now, &[]),
            );
            begun?;
            let now: Timestamp = get(&now?, 0)?;
            self.clock.learn(now, asked);
            let mut books = Books::new(now);
            let done = work(client, &mut books).await?;
            let mut pipeline = Pipeline::new(client);
            books
                .write_back(&mut pipeline, self.slots.next(), &self.bell)
                .await?;
            pipeline.commit();
            self.under_way.forget(&books);
            pipeline.finish().await?;
            if books.concerns_schedulers {
                self.bell.ring();
            }
            let now = books.now();
            self.under_way.remember(books);
            Ok::<_, Trouble>((done, now))
        });
        Ok(kept.await?)
    }
}

async fn lock(
    client: &ClientWrapper,
    books: &mut Books,
    candidates: &Candidates<'_>,
) -> Result<Vec<EmailId>, Trouble> {
    let mut ids = Vec::new();
    if candidates.with_overdue {
        let most = candidates.most;
        lock_some(client, books, &waited_too_long(), &[], most, &mut ids).await?;
    }
    let Candidates { query, values, .. } = candidates;
    match &candidates.in_turn {
        None => {
            lock_some(client, books, query, values, candidates.most, &mut ids).await?;
        }
        Some(turn) => lock_in_turn(client, books, candidates, turn, &mut ids).await?,
    }
    match candidates.facts_of {
        FactsOf::All => read_facts(client, books, &ids).await?,
        FactsOf::Doubtful => read_doubtful(client, books, &ids).await?,
    }
    Ok(ids)
}

/// Takes what a query finds in turn, and remembers where that was.
async fn lock_in_turn(
    client: &ClientWrapper,
    books: &mut Books,
    candidates: &Candidates<'_>,
    turn: &InTurn<'_>,
    ids: &mut Vec<EmailId>,
) -> Result<(), Trouble> {
    let InTurn {
        priorities, parts, ..
    } = *turn;
    if ids.len() == candidates.most {
        return Ok(());
    }
    let now = books.now();
    let look = turn
        .floor
        .map(|floor| (floor, floor.look(parts.len(), now)));
    let beginning = floor::from_the_beginning(parts.len());
    let from = look.as_ref().map_or(&beginning, |(_, look)| &look.from);
    let mut all: Vec<&(dyn ToSql + Sync)> = vec![from, &priorities];
    all.extend_from_slice(candidates.values);
    let Candidates { query, most, .. } = candidates;
    let rows = lock_some(client, books, query, &all, *most, ids).await?;
    let Some((floor, look)) = look else {
        return Ok(());
    };
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, priority): (Uuid, i16) = (get(row, STATE_WIDTH)?, get(row, STATE_WIDTH + 1)?);
        let kind: i32 = get(row, STATE_WIDTH + 2)?;
        let kind = usize::try_from(kind).unwrap_or_default();
        let place = floor::place(priority, kind, parts.len());
        found.extend(books.due(EmailId(id)).map(|due| Found { place, due }));
    }
    let is_full = ids.len() == *most;
    floor.saw(&look, priorities, parts, &found, is_full, now);
    Ok(())
}

/// Takes what a query finds, until there are so many.
async fn lock_some(
    client: &ClientWrapper,
    books: &mut Books,
    query: &str,
    values: Values<'_>,
    most: usize,
    ids: &mut Vec<EmailId>,
) -> Result<Vec<Row>, Trouble> {
    let left = i64::try_from(most - ids.len()).unwrap_or(i64::MAX);
    if left == 0 {
        return Ok(Vec::new());
    }
    let statement = client.prepare_cached(query).await?;
    let mut all: Vec<&(dyn ToSql + Sync)> = vec![&left];
    all.extend_from_slice(values);
    let rows = client.query(&statement, &all).await?;
    for row in &rows {
        ids.push(books.read_state(row, STATE_WIDTH)?);
    }
    Ok(rows)
}

/// Locks and reads what is needed to refund attempts.
pub(super) async fn lock_attempts(
    client: &ClientWrapper,
    books: &mut Books,
    notes: &[FaultNote],
) -> Result<(), Trouble> {
    if notes.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = notes.iter().map(|note| note.email.0).collect();
    let numbers: Vec<i32> = notes.iter().map(|note| int(note.attempt)).collect();
    let statement = client.prepare_cached(&lock_states()).await?;
    for row in client.query(&statement, &[&ids]).await? {
        books.read_state(&row, STATE_WIDTH)?;
    }
    let statement = client.prepare_cached(READ_SPENT).await?;
    for row in client.query(&statement, &[&ids, &numbers]).await? {
        books.read_spent(&row)?;
    }
    Ok(())
}

/// Reads the facts of emails whose states were read.
pub(super) async fn read_facts(
    client: &ClientWrapper,
    books: &mut Books,
    ids: &[EmailId],
) -> Result<(), Trouble> {
    if ids.is_empty() {
        return Ok(());
    }
    let statement = client.prepare_cached(READ_FACTS).await?;
    let taken: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    for row in client.query(&statement, &[&taken]).await? {
        books.read_facts(&row)?;
    }
    Ok(())
}

/// Reads the facts of those of the emails that have failed or may have become too late.
async fn read_doubtful(
    client: &ClientWrapper,
    books: &mut Books,
    ids: &[EmailId],
) -> Result<(), Trouble> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = format!("{READ_FACTS} AND (e.expires_at IS NOT NULL OR e.id = ANY($2))");
    let statement = client.prepare_cached(&sql).await?;
    let taken: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let failed = ids.iter().filter(|id| books.has_failed(**id));
    let failed: Vec<Uuid> = failed.map(|id| id.0).collect();
    for row in client.query(&statement, &[&taken, &failed]).await? {
        books.read_facts(&row)?;
    }
    Ok(())
}

/// Whether a query found anything at all.
pub(super) fn any(rows: &[Row]) -> StoreResult<bool> {
    rows.first().map_or(Ok(false), |row| get(row, 0))
}
