//! What `posthaste doctor` finds out, and that it leaves everything as it is.

use crate::backend::Backend;
use crate::support::run;

#[tokio::test]
async fn before_the_first_start_it_creates_nothing() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    let elsewhere = server.data_dir().join("elsewhere");
    let database = elsewhere.join("posthaste.db");
    server.set("DATABASE_URL", &format!("sqlite:{}", database.display()));
    let doctor = run(&server, &["doctor"]).await;
    assert_eq!(doctor.code, 0, "{}{}", doctor.stdout, doctor.stderr);
    let expected = format!(
        "note    database          there is none yet at {}; `posthaste serve` makes it\n",
        database.display()
    );
    assert!(doctor.stdout.contains(&expected), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("captured"), "{}", doctor.stdout);
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn it_notices_that_no_server_runs() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    let beside = run(&server, &["doctor"]).await;
    assert_eq!(beside.code, 0, "{}", beside.stdout);
    assert!(!beside.stdout.contains("none is running"));
    server.kill9();
    let alone = run(&server, &["doctor"]).await;
    assert_eq!(alone.code, 0, "{}", alone.stdout);
    let expected = "note    server            none is running on this data directory\n";
    assert!(alone.stdout.contains(expected), "{}", alone.stdout);
    // To look does not keep one from starting.
    server.restart(&[]).await;
}

#[tokio::test]
async fn a_test_alert_without_a_channel_is_a_problem() {
    let backend = Backend::sqlite().await;
    let server = backend.posthaste().start().await;
    let doctor = run(&server, &["doctor", "--alert"]).await;
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    let line = doctor.stdout.lines().find(|line| line.contains("PROBLEM"));
    assert!(line.unwrap().contains("alerts.slack.url"), "{line:?}");
}
