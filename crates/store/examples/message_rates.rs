#![allow(clippy::all, clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste_core::message::*;
use posthaste_core::port::*;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_store::{PostgresOptions, PostgresStore};
use posthaste_testkit::Database;
use uuid::Uuid;

fn arrival(size: usize, n: u128, zero: bool) -> Arrival {
    // Text that packs like JSON does.
    let mut payload = Vec::with_capacity(size + 64);
    while payload.len() < size {
        payload.extend_from_slice(
            format!("{{\"id\":\"{}\",\"amount\":12.50}}", Uuid::now_v7()).as_bytes(),
        );
    }
    payload.truncate(size);
    if std::env::var_os("RANDOM").is_some() {
        let mut z = n as u64;
        for byte in &mut payload {
            z = z
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            *byte = (z >> 56) as u8;
        }
    }
    let mut properties = Properties {
        content_type: Some("application/json".into()),
        ..Default::default()
    };
    properties
        .headers
        .insert("x-retry-count".into(), HeaderValue::Integer(0));
    properties.headers.insert(
        "traceparent".into(),
        HeaderValue::Text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    );
    let id = Uuid::now_v7().as_u128() ^ (n.wrapping_mul(0x9e37_79b9_7f4a_7c15_9e37_79b9_7f4a_7c15));
    Arrival {
        failure: Failure {
            message_id: MessageId(Uuid::from_u128(id)),
            payload: Bytes::from(payload),
            original_queue: "billing.invoices".into(),
            error_reason: "HTTP 503 from the tax service: upstream connect error".into(),
            retry_count: 0,
            max_retries: Some(if zero { 3 } else { 3 }),
            not_before: None,
            properties,
        },
        hash: [7; 32],
        redelivered: false,
        random: 0.5,
    }
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let size: usize = args[1].parse().unwrap();
    let batches: usize = args[2].parse().unwrap();
    let variant = args.get(3).cloned().unwrap_or_default();
    let database = Database::fresh().await;
    let options = PostgresOptions::new(format!(
        "{}&application_name=rates{}",
        database.url(),
        std::process::id()
    ));
    let offset = options.clock_offset.clone();
    let store = PostgresStore::open(options).await.unwrap();
    let beside = database.beside().await;
    for sql in variant.split(';').filter(|s| !s.trim().is_empty()) {
        beside.batch_execute(sql).await.unwrap();
    }
    let policy = MessagePolicy {
        retry: RetryPolicy::message(),
        max_publish_failures: 10,
    };
    let wal = "SELECT (pg_current_wal_lsn() - '0/0')::float8";
    let wal0: f64 = beside.query_one(wal, &[]).await.unwrap().get(0);
    let mut n = 0u128;
    // Rounds of 20 batches: in, due, claimed, settled.
    let (mut ins, mut cla, mut set) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut done = 0;
    for _ in 0..batches / 20 {
        for _ in 0..20 {
            let arrivals: Vec<_> = (0..500)
                .map(|_| {
                    n += 1;
                    arrival(size, n, true)
                })
                .collect();
            let t = Instant::now();
            store.schedule(arrivals, &policy).await.unwrap();
            ins += t.elapsed();
        }
        offset.fetch_add(10_000_000, std::sync::atomic::Ordering::SeqCst);
        store.check().await.unwrap();
        loop {
            let t = Instant::now();
            let claimed = store
                .claim_messages(500, 1 << 30, Duration::from_secs(30))
                .await
                .unwrap();
            cla += t.elapsed();
            if claimed.is_empty() {
                break;
            }
            let now = store.now();
            let settled: Vec<_> = claimed
                .iter()
                .map(|m| {
                    assert_eq!(m.payload.len(), size);
                    let state = m
                        .state
                        .settled(&Task::Retry, &Outcome::Done, &policy, now, 0.5);
                    Settled {
                        number: m.number,
                        state,
                    }
                })
                .collect();
            done += settled.len();
            let t = Instant::now();
            let answers = store.settle_messages(settled).await.unwrap();
            set += t.elapsed();
            assert!(answers.iter().all(|a| *a));
        }
    }
    let wal1: f64 = beside.query_one(wal, &[]).await.unwrap().get(0);
    let hot = beside.query_one("SELECT n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid), pg_table_size(relid), pg_relation_size(relid) FROM pg_stat_user_tables WHERE relname='retry_queue' AND schemaname = current_schema()", &[]).await.unwrap();
    let pids = beside
        .query(
            "SELECT pid FROM pg_stat_activity WHERE application_name = $1",
            &[&format!("rates{}", std::process::id())],
        )
        .await
        .unwrap();
    let mut ticks = 0u64;
    for row in &pids {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", row.get::<_, i32>(0))).unwrap();
        let rest: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        ticks += rest[11].parse::<u64>().unwrap() + rest[12].parse::<u64>().unwrap();
    }
    print!("cpu {:5.1} us/msg ", ticks as f64 * 10_000.0 / done as f64);
    let rate = |t: Duration| done as f64 / t.as_secs_f64();
    println!(
        "{size:6} B {done:7} msgs: insert {:6.0}/s claim {:6.0}/s settle {:6.0}/s all {:6.0}/s; wal {:5.0} B/msg; upd {} hot {}; total {} MB heap {} MB  [{variant}]",
        rate(ins),
        rate(cla),
        rate(set),
        rate(ins + cla + set),
        (wal1 - wal0) / done as f64,
        hot.get::<_, i64>(0),
        hot.get::<_, i64>(1),
        hot.get::<_, i64>(2) >> 20,
        hot.get::<_, i64>(4) >> 20
    );
}
