//! What sent emails cost those that wait: nothing, according to PostgreSQL itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_core::port::EmailStore as _;
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

fn sorts_states(plan: &serde_json::Value) -> bool {
    match plan {
        serde_json::Value::Object(node) => {
            let sorts = node.get("Node Type").is_some_and(|kind| kind == "Sort");
            (sorts && plan.to_string().contains("\"email_log\"")) || node.values().any(sorts_states)
        }
        serde_json::Value::Array(items) => items.iter().any(sorts_states),
        _ => false,
    }
}

#[tokio::test]
async fn no_hot_query_touches_sent_emails() {
    let database = Database::fresh().await;
    let options = PostgresOptions::new(database.url());
    let _store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    many_sent(&beside, 20_000).await;
    let queries = PostgresStore::hot_queries();
    assert!(queries.len() >= 10);
    let small = ["email_log_waiting", "email_log_unqueued", "email_log_lease"];
    for sql in queries {
        // Whatever the values are: the plan must not depend on them.
        let parameters = (1..=9)
            .take_while(|n| sql.contains(&format!("${n}")))
            .count();
        let values = ["100::bigint", "posthaste_now()"][..parameters].join(", ");
        let name = "hot";
        beside
            .batch_execute(&format!(
                "SET plan_cache_mode = force_generic_plan; PREPARE {name} AS {sql}"
            ))
            .await
            .unwrap();
        let execute = if parameters == 0 {
            name.to_owned()
        } else {
            format!("{name}({values})")
        };
        let plan = beside
            .query_one(&format!("EXPLAIN (FORMAT JSON) EXECUTE {execute}"), &[])
            .await
            .unwrap();
        beside.batch_execute("DEALLOCATE hot").await.unwrap();
        let plan: serde_json::Value = plan.get(0);
        let mut found = Vec::new();
        nodes(&plan, &mut found);
        // The order comes from the index, too: no states are collected and sorted.
        assert!(!sorts_states(&plan), "{sql}: {plan:#}");
        let states: Vec<_> = found
            .iter()
            .filter(|(_, table, _)| table == "email_log")
            .collect();
        assert!(!states.is_empty(), "{sql}: {plan:#}");
        for (node, _, index) in &found {
            assert_ne!(node, "Seq Scan", "{sql}: {plan:#}");
            let is_of_states = index.starts_with("email_log");
            assert!(
                !is_of_states || small.contains(&index.as_str()),
                "{sql}: reads {index}"
            );
        }
    }
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

/// How many pages a claim of 500 reads, and how long it takes. Undone afterwards.
async fn cost_of_a_claim(beside: &tokio_postgres::Client) -> (i64, f64) {
    let claim = &PostgresStore::hot_queries()[0];
    assert!(claim.contains("'failed'") && claim.contains("SKIP LOCKED"));
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {}",
        claim.replace("$1", "500")
    );
    let mut costs = Vec::new();
    for _ in 0..15 {
        beside.batch_execute("BEGIN").await.unwrap();
        let plan: serde_json::Value = beside.query_one(&explain, &[]).await.unwrap().get(0);
        beside.batch_execute("ROLLBACK").await.unwrap();
        let plan = &plan[0]["Plan"];
        assert_eq!(plan["Actual Rows"], 500);
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

/// The cost of a claim with many sent emails against that with none, in pages, which no noise of
/// the machine changes. By default with 300,000; `POSTHASTE_TEST_SENT_ROWS=5000000` for more.
#[tokio::test]
async fn claiming_costs_the_same_beside_many_sent_emails() {
    let sent_rows: i32 =
        std::env::var("POSTHASTE_TEST_SENT_ROWS").map_or(300_000, |rows| rows.parse().unwrap());
    let database = Database::fresh().await;
    let store = PostgresStore::open(PostgresOptions::new(database.url()))
        .await
        .unwrap();
    let emails = (0..2_000).map(|n| an_email(&n.to_string()).build());
    let accepted = store.accept(emails.collect(), false).await.unwrap();
    assert!(accepted.iter().all(Result::is_ok));
    let beside = database.beside().await;
    let settle = "UPDATE email_log SET status = 'failed'; VACUUM ANALYZE email_log";
    for sql in settle.split(';') {
        beside.batch_execute(sql).await.unwrap();
    }
    let (pages, time) = cost_of_a_claim(&beside).await;
    many_sent(&beside, sent_rows).await;
    let (pages_beside, time_beside) = cost_of_a_claim(&beside).await;
    eprintln!(
        "a claim of 500: {pages} pages, {time:.2} ms with none; {pages_beside} pages, \
         {time_beside:.2} ms with {sent_rows} sent"
    );
    assert!(
        pages_beside * 2 <= pages * 3,
        "{pages} pages, then {pages_beside}"
    );
}
