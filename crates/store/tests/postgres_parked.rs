//! What emails that wait for a way out cost those who look: nothing, however many they are.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_core::port::{EmailStore as _, WayStore as _};
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::{Database, an_email};

/// How many emails wait. By default 100,000; `POSTHASTE_TEST_PARKED_ROWS=1000000` for more.
fn parked_rows() -> i64 {
    std::env::var("POSTHASTE_TEST_PARKED_ROWS").map_or(100_000, |rows| rows.parse().unwrap())
}

#[tokio::test]
async fn to_look_what_emails_wait_for_costs_the_same_however_many_wait() {
    let database = Database::fresh().await;
    let store = PostgresStore::open(PostgresOptions::new(database.url()))
        .await
        .unwrap();
    let one = store.accept(vec![an_email("a").build()], true).await;
    one.unwrap().remove(0).unwrap();
    let beside = database.beside().await;
    // States alone: nobody looks at what they are states of.
    let many = format!(
        "INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
             lease_token, lost_count, unknown_count, possible_duplicate, next_attempt_at,
             waiting_for)
         SELECT gen_random_uuid(), 'failed', 'idle', 0, 0, 0, 1, 0, 0, false, posthaste_now(),
             CASE WHEN n % 100 = 0 THEN 'primary@d' || n % 500 || '.example'
                  ELSE 'primary,secondary' END
         FROM generate_series(1, {}) AS n",
        parked_rows()
    );
    for sql in [&many, "VACUUM ANALYZE email_log"] {
        beside.batch_execute(sql).await.unwrap();
    }
    let report = store.watch_ways(None, std::time::Duration::ZERO).await;
    assert_eq!(report.unwrap().waiting_for.len(), 6);
    let is_ours = |sql: &String| sql.contains("WITH RECURSIVE waits");
    let sql = PostgresStore::hot_queries().into_iter().find(is_ours);
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {}", sql.unwrap());
    let plan: serde_json::Value = beside.query_one(&sql, &[]).await.unwrap().get(0);
    let pages = |kind: &str| plan[0]["Plan"][kind].as_i64().unwrap();
    let pages = pages("Shared Hit Blocks") + pages("Shared Read Blocks");
    eprintln!("{pages} pages with {} waiting", parked_rows());
    assert!(pages < 100, "{pages} pages: {plan:#}");
    let parked = store.parked().await.unwrap();
    let all: u64 = parked.iter().map(|parked| parked.count).sum();
    assert_eq!(i64::try_from(all).unwrap(), parked_rows());
    assert_eq!(parked[0].waiting_for, "primary,secondary");
}
