//! What sent emails and republished messages cost those that wait: nothing, according to PostgreSQL
//! itself.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_core::message::{Arrival, Failure, MessageId, MessagePolicy, Properties};
use posthaste_core::port::{EmailStore as _, MessageStore as _};
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::status::Priority;
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::{Database, an_email};

/// What a plan touches, node by node.
fn nodes(plan: &serde_json::Value, found: &mut Vec<(String, String, String)>) {
    match plan {
        serde_json::Value::Object(node) => {
            let text = |key: &str| {
                node.get(key)
                    .and_then(|v| v.as_str())
                    .unwrap_or("")
                    .to_owned()
            };
            if node.contains_key("Node Type") {
                found.push((text("Node Type"), text("Relation Name"), text("Index Name")));
            }
            node.values().for_each(|value| nodes(value, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| nodes(item, found)),
        _ => {}
    }
}

/// Where states are kept.
const TABLES: [&str; 3] = ["email_log", "retry_queue", "operation"];

fn sorts_states(plan: &serde_json::Value) -> bool {
    match plan {
        serde_json::Value::Object(node) => {
            let kind = node.get("Node Type").and_then(|kind| kind.as_str());
            let sorts = kind.is_some_and(|kind| kind.contains("Sort"));
            let of_states = |table: &&str| plan.to_string().contains(&format!("\"{table}\""));
            (sorts && TABLES.iter().any(of_states)) || node.values().any(sorts_states)
        }
        serde_json::Value::Array(items) => items.iter().any(sorts_states),
        _ => false,
    }
}

/// As sessions are that claim and write.
const BY_INDEX_ONLY: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off;
     SET enable_hashjoin = off; SET enable_mergejoin = off";

/// Prepares a query so that its plan does not depend on any values, and gives its name with nothing
/// for each value.
async fn prepare(beside: &tokio_postgres::Client, sql: &str) -> String {
    beside
        .batch_execute(&format!(
            "DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan; PREPARE hot AS {sql}"
        ))
        .await
        .unwrap();
    let types = "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'hot'";
    let types: Vec<String> = beside.query_one(types, &[]).await.unwrap().get(0);
    if types.is_empty() {
        return "hot".to_owned();
    }
    let values: Vec<_> = types.iter().map(|kind| format!("NULL::{kind}")).collect();
    format!("hot({})", values.join(", "))
}

#[tokio::test]
async fn no_hot_query_touches_what_is_over() {
    let database = Database::fresh().await;
    let options = PostgresOptions::new(database.url());
    let _store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    many_sent(&beside, 20_000).await;
    many_messages(&beside, 20_000, "retried").await;
    let queries = PostgresStore::hot_queries();
    assert!(queries.len() >= 14);
    let small = [
        "email_log_waiting",
        "email_log_unqueued",
        "email_log_lease",
        "email_log_parked",
        "email_log_parked_until",
        "idx_retry_next_retry",
        "operation_running",
    ];
    for sql in queries {
        let is_of_messages = !sql.contains("email_log");
        if is_of_messages {
            beside.batch_execute(BY_INDEX_ONLY).await.unwrap();
        }
        let execute = prepare(&beside, &sql).await;
        let plan = beside
            .query_one(&format!("EXPLAIN (FORMAT JSON) EXECUTE {execute}"), &[])
            .await
            .unwrap();
        let plan: serde_json::Value = plan.get(0);
        let mut found = Vec::new();
        nodes(&plan, &mut found);
        // The order comes from the index, too: no states are collected and sorted. Only of those that
        // might test a way, one of each priority, are three compared.
        let compares_three = sql.ends_with("ORDER BY l.next_attempt_at LIMIT $1");
        assert!(compares_three || !sorts_states(&plan), "{sql}: {plan:#}");
        let states: Vec<_> = found
            .iter()
            .filter(|(_, table, _)| TABLES.contains(&table.as_str()))
            .collect();
        assert!(!states.is_empty(), "{sql}: {plan:#}");
        // What is written is found by its number, and not among all that wait.
        let is_by_number = is_of_messages && sql.contains("unnest");
        for (node, _, index) in &found {
            assert_ne!(node, "Seq Scan", "{sql}: {plan:#}");
            let is_of_states = index.starts_with("email_log")
                || index.starts_with("retry_queue")
                || index.starts_with("idx_retry")
                || index.starts_with("operation");
            let is_small = small.contains(&index.as_str()) && !is_by_number;
            let is_a_key = is_of_messages && index == "retry_queue_pkey";
            assert!(
                !is_of_states || is_small || is_a_key,
                "{sql}: reads {index}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_written_is_found_by_its_id_also_by_plans_that_were_made_on_an_empty_table() {
    let database = Database::fresh().await;
    let options = PostgresOptions::new(database.url());
    let _store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    beside.batch_execute(BY_INDEX_ONLY).await.unwrap();
    for sql in PostgresStore::hot_writes() {
        let execute = prepare(&beside, sql).await;
        let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE {execute}");
        let plan: serde_json::Value = beside.query_one(&explain, &[]).await.unwrap().get(0);
        let mut found = Vec::new();
        nodes(&plan, &mut found);
        let tables = ["email", "email_log", "email_attempt"];
        let touched: Vec<_> = found
            .iter()
            .filter(|(_, table, _)| tables.contains(&table.as_str()))
            .collect();
        assert!(!touched.is_empty(), "{sql}: {plan:#}");
        for (node, table, index) in touched {
            let is_by_id = node == "Index Scan" && *index == format!("{table}_pkey");
            assert!(is_by_id || node == "ModifyTable", "{sql}: {plan:#}");
        }
    }
}

#[tokio::test]
async fn dead_letters_are_grouped_without_a_look_at_other_emails() {
    let database = Database::fresh().await;
    let options = PostgresOptions::new(database.url());
    let _store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    many_sent(&beside, 20_000).await;
    let some_die =
        "UPDATE email_log SET status = 'dead', sent_at = NULL, dead_reason = 'HardBounce',
             fingerprint = nullif(substr(id::text, 2, 1), '0'), last_error = '550 no'
         WHERE left(id::text, 2) < '02'";
    for sql in [some_die, "VACUUM ANALYZE email_log"] {
        beside.batch_execute(sql).await.unwrap();
    }
    let sql = PostgresStore::dead_group_query();
    let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}");
    let plan: serde_json::Value = beside.query_one(&explain, &[]).await.unwrap().get(0);
    let mut found = Vec::new();
    nodes(&plan, &mut found);
    for (node, _, index) in &found {
        let is_of_others = index.starts_with("email_log") && !index.starts_with("email_log_dead");
        assert!(
            node != "Seq Scan" && !is_of_others,
            "{node} {index}: {plan:#}"
        );
    }
    let groups = beside.query(&sql, &[]).await.unwrap();
    assert_eq!(groups.len(), 2, "by error and by reason");
}

/// Inserts emails that were sent long ago.
async fn many_sent(beside: &tokio_postgres::Client, count: i32) {
    beside
        .batch_execute(&format!(
            "INSERT INTO email (id, owner, message_key, payload_hash, priority, envelope_from,
                 recipients, recipient_count, first_recipient, header_from, header_to, subject,
                 metadata, policy, created_at, size_bytes, content)
             SELECT id, 'default', id::text, '', 'normal', 'a@example.org', '[\"b@example.org\"]', 1,
                 'b@example.org', 'a@example.org', '[]', 'Hello', '{{}}', '\"email\"', posthaste_now(),
                 2, 'hi'
             FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {count})) AS n;
             INSERT INTO email_log (id, status, phase, attempt_number, attempt_count, budget_from,
                 lease_token, lost_count, unknown_count, possible_duplicate, last_queued_at,
                 sent_at, finished_at)
             SELECT id, 'sent', 'idle', 1, 0, 0, 1, 0, 0, false, created_at, created_at, created_at
             FROM email ON CONFLICT DO NOTHING;
             ANALYZE email; ANALYZE email_log;"
        ))
        .await
        .unwrap();
}

/// Inserts messages that were republished, or are due in a year.
async fn many_messages(beside: &tokio_postgres::Client, count: i32, status: &str) {
    beside
        .batch_execute(&format!(
            "INSERT INTO retry_queue (message_id, original_queue, properties, original_payload,
                 created_at, status, token, retry_count, next_retry_at, finished_at, delivery)
             SELECT gen_random_uuid(), 'billing', '{{}}', 'hi', posthaste_now(), '{status}', 1, 1,
                 posthaste_now() + CASE '{status}' WHEN 'pending' THEN '1 year'::interval
                     ELSE '-1 hour' END,
                 CASE '{status}' WHEN 'pending' THEN NULL ELSE posthaste_now() END, ''
             FROM generate_series(1, {count});
             ANALYZE retry_queue;"
        ))
        .await
        .unwrap();
}

/// The query that claims emails, or messages.
fn claim_of(table: &str) -> String {
    let is_claim = |sql: &String| sql.contains("SKIP LOCKED") && sql.contains(table);
    PostgresStore::hot_queries()
        .into_iter()
        .find(is_claim)
        .unwrap()
}

/// How many rows a plan locks.
fn locked(plan: &serde_json::Value) -> f64 {
    match plan {
        serde_json::Value::Object(node) => {
            let number = |key: &str| node.get(key).and_then(|n| n.as_f64()).unwrap_or(0.0);
            let is_lock = node.get("Node Type").is_some_and(|kind| kind == "LockRows");
            let own = f64::from(u8::from(is_lock)) * number("Actual Rows") * number("Actual Loops");
            own + node.values().map(locked).sum::<f64>()
        }
        serde_json::Value::Array(items) => items.iter().map(locked).sum(),
        _ => 0.0,
    }
}

/// How many pages a claim of 500 with these further values reads, and how long it takes. Undone
/// afterwards.
async fn cost_of_a_claim(
    beside: &tokio_postgres::Client,
    claim: &str,
    values: &[&str],
) -> (i64, f64) {
    let mut claim = claim.replace("$1", "500");
    for (value, place) in values.iter().zip(2..) {
        claim = claim.replace(&format!("${place}"), value);
    }
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim}");
    let mut costs = Vec::new();
    for _ in 0..15 {
        beside.batch_execute("BEGIN").await.unwrap();
        let plan: serde_json::Value = beside.query_one(&explain, &[]).await.unwrap().get(0);
        beside.batch_execute("ROLLBACK").await.unwrap();
        let plan = &plan[0]["Plan"];
        assert_eq!(plan["Actual Rows"], 500);
        let locked = locked(plan);
        assert!(locked <= 500.0, "{locked} rows were locked: {plan:#}");
        let pages = |kind: &str| plan[kind].as_i64().unwrap();
        let read = pages("Shared Hit Blocks") + pages("Shared Read Blocks");
        costs.push((read, plan["Actual Total Time"].as_f64().unwrap()));
    }
    costs.sort_by(|a, b| a.1.total_cmp(&b.1));
    (
        costs.iter().map(|(read, _)| *read).min().unwrap(),
        costs[7].1,
    )
}

/// How many rows that are over there are. By default 300,000; `POSTHASTE_TEST_SENT_ROWS=5000000`
/// for more.
fn rows_that_are_over() -> i32 {
    std::env::var("POSTHASTE_TEST_SENT_ROWS").map_or(300_000, |rows| rows.parse().unwrap())
}

/// Every email passes the gate, and all of its row's versions then fit on its page.
#[tokio::test]
async fn passing_the_gate_touches_no_index() {
    let database = Database::fresh().await;
    let options = PostgresOptions::new(database.url());
    let _store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    let sql = "SELECT indexdef FROM pg_indexes
               WHERE schemaname = current_schema() AND tablename = 'email_log'";
    let rows = beside.query(sql, &[]).await.unwrap();
    let indexes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(indexes.len() > 5);
    for index in indexes {
        let is_touched = ["phase", "transport"]
            .iter()
            .any(|column| index.contains(column));
        assert!(!is_touched, "{index}");
    }
}

/// Puts other emails beside those that are to be claimed: sent ones, and as many in each of these
/// states that are not due, or parked for another way.
async fn many_others(beside: &tokio_postgres::Client, sent: i32) {
    many_sent(beside, sent).await;
    let some = sent / 10;
    for (status, more) in [
        ("failed", "waiting_for = NULL"),
        (
            "failed",
            "waiting_for = 'other', waits_until = posthaste_now() + '1 year'",
        ),
        ("pending", "last_queued_at = NULL"),
        ("pending", "last_queued_at = posthaste_now()"),
    ] {
        let sql = format!(
            "UPDATE email_log l SET status = '{status}', sent_at = NULL, finished_at = NULL,
                 priority = (substr(id::text, 36, 1) < '6')::int
                     + (substr(id::text, 36, 1) < 'b')::int,
                 next_attempt_at = posthaste_now() + '1 year', {more}
             FROM (SELECT id AS other FROM email_log WHERE status = 'sent' LIMIT {some}) AS picked
             WHERE l.id = picked.other"
        );
        assert_eq!(beside.execute(&sql, &[]).await.unwrap(), some as u64);
    }
    let settle = "VACUUM ANALYZE email_log";
    beside.batch_execute(settle).await.unwrap();
}

/// From the beginning, for as many kinds of emails as are ever looked for together.
const FLOORS: &str = "array_fill('epoch'::timestamptz, ARRAY[12])";

/// The cost of claims with many other emails against that with none, in pages, which no noise of
/// the machine changes.
#[tokio::test]
async fn claiming_costs_the_same_beside_many_other_emails() {
    let sent_rows = rows_that_are_over();
    let database = Database::fresh().await;
    let store = PostgresStore::open(PostgresOptions::new(database.url()))
        .await
        .unwrap();
    let emails = (0..3_600).map(|n| {
        let priority = [Priority::High, Priority::Normal, Priority::Low][n % 3];
        an_email(&n.to_string()).priority(priority).build()
    });
    let accepted = store.accept(emails.collect(), false).await.unwrap();
    assert!(accepted.iter().all(Result::is_ok));
    let beside = database.beside().await;
    // Enough of each kind for one claim, of which no priority has enough by itself.
    let settle = "UPDATE email_log SET status = 'failed', waiting_for = 'primary'
             WHERE id IN (SELECT id FROM email_log ORDER BY id LIMIT 1200);
         UPDATE email_log SET status = 'failed'
             WHERE id IN (SELECT id FROM email_log ORDER BY id DESC LIMIT 1200);
         VACUUM ANALYZE email_log";
    for sql in settle.split(';') {
        beside.batch_execute(sql).await.unwrap();
    }
    let mut claims = Vec::new();
    for claim in PostgresStore::hot_queries() {
        let values: &[&str] = match () {
            () if !claim.contains("turn.place") => continue,
            () if claim.contains("waiting_for = $4") => &[FLOORS, "'{2,1,0}'", "'primary'"],
            () if claim.contains("$4") => &[FLOORS, "'{2,1,0}'", "posthaste_now()"],
            () => &[FLOORS, "'{2,1,0}'"],
        };
        let (pages, time) = cost_of_a_claim(&beside, &claim, values).await;
        claims.push((claim, values, pages, time));
    }
    assert_eq!(
        claims.len(),
        4,
        "by a scheduler, twice by a sender, and parked"
    );
    many_others(&beside, sent_rows).await;
    for (claim, values, pages, time) in claims {
        let (pages_beside, time_beside) = cost_of_a_claim(&beside, &claim, values).await;
        eprintln!(
            "a claim of 500: {pages} pages, {time:.2} ms with none; {pages_beside} pages, \
             {time_beside:.2} ms with {sent_rows} others"
        );
        // How the rows lie decides whether one or two pages are read for each. More would mean that
        // others are looked at.
        assert!(
            pages_beside * 2 <= pages * 3 || pages_beside <= 3 * 500,
            "{pages} pages, then {pages_beside}: {claim}"
        );
    }
}

/// The same for messages, beside as many that are not due and as many that were republished.
#[tokio::test]
async fn claiming_costs_the_same_beside_many_other_messages() {
    let others = rows_that_are_over() / 2;
    let database = Database::fresh().await;
    let store = PostgresStore::open(PostgresOptions::new(database.url()))
        .await
        .unwrap();
    let policy = MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 1,
    };
    let due = (0..2_000).map(|_| exhausted()).collect();
    store.schedule(due, &policy).await.unwrap();
    let beside = database.beside().await;
    beside.batch_execute(BY_INDEX_ONLY).await.unwrap();
    let settle = "VACUUM ANALYZE retry_queue";
    beside.batch_execute(settle).await.unwrap();
    let claim = claim_of("UPDATE retry_queue");
    let values = ["1000000", "30"];
    let (pages, time) = cost_of_a_claim(&beside, &claim, &values).await;
    many_messages(&beside, others, "pending").await;
    many_messages(&beside, others, "retried").await;
    beside.batch_execute(settle).await.unwrap();
    let (pages_beside, time_beside) = cost_of_a_claim(&beside, &claim, &values).await;
    eprintln!(
        "a claim of 500 messages: {pages} pages, {time:.2} ms with none; {pages_beside} pages, \
         {time_beside:.2} ms with {others} republished and {others} that are not due"
    );
    assert!(
        pages_beside * 2 <= pages * 3,
        "{pages} pages, then {pages_beside}"
    );
}

/// The failure of a message that has no retries left: it is due at once.
fn exhausted() -> Arrival {
    Arrival {
        failure: Failure {
            message_id: MessageId(uuid::Uuid::now_v7()),
            payload: "hi".into(),
            original_queue: "billing".into(),
            error_reason: "no answer".into(),
            retry_count: 0,
            max_retries: Some(0),
            not_before: None,
            properties: Properties::default(),
        },
        hash: [0; 32],
        redelivered: false,
        random: 0.0,
    }
}
