//! kill -9 at the worst moments.

use crate::support::{
    a_sink, copies, email_to, id_of_accepted, keyed_email_to, run, sending_to, submit,
    submit_fatal, until, verify,
};

#[tokio::test]
async fn killed_between_accept_and_send_it_is_sent_once_after_the_restart() {
    let sink = a_sink().await;
    let folder = tempfile::tempdir().unwrap();
    let accepting = sending_to(&sink).data_dir(folder.path());
    let mut accepting = accepting.arg("--role").arg("api").start().await;
    let id = submit(&accepting, &email_to("ann@example.org")).await;
    accepting.kill9();
    assert_eq!(sink.report().messages, 0);

    let server = sending_to(&sink).data_dir(folder.path()).start().await;

    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    verify(&server).await;
}

#[tokio::test]
async fn killed_after_the_commit_and_before_the_answer_the_same_key_gives_the_same_email() {
    let sink = a_sink().await;
    let mut server = sending_to(&sink)
        .env("POSTHASTE_FAILPOINT", "intake.after_commit=kill")
        .start()
        .await;
    let email = keyed_email_to("ann@example.org");
    submit_fatal(&mut server, &email).await;

    server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
    let id = id_of_accepted(&server, &email).await;

    until(&server, &id, "sent").await;
    assert_eq!(copies(&sink, &id, "ann@example.org"), 1);
    assert_eq!(sink.report().messages, 1);
    verify(&server).await;
}

#[tokio::test]
async fn killed_at_any_step_before_the_gate_it_is_sent_exactly_once() {
    for failpoint in ["sender.after_begin", "smtp.before_gate"] {
        let sink = a_sink().await;
        let mut server = sending_to(&sink)
            .env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"))
            .start()
            .await;
        let email = keyed_email_to("ann@example.org");
        submit_fatal(&mut server, &email).await;

        server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
        let id = id_of_accepted(&server, &email).await;

        let sent = until(&server, &id, "sent").await;
        let outcomes: Vec<_> = sent["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a["outcome"].clone())
            .collect();
        assert_eq!(outcomes, ["lost", "sent"], "{failpoint}");
        assert_eq!(
            sent["attempt_count"], 0,
            "{failpoint}: a lost worker spends nothing"
        );
        assert_eq!(sent["possible_duplicate"], false, "{failpoint}");
        assert_eq!(copies(&sink, &id, "ann@example.org"), 1, "{failpoint}");
        verify(&server).await;
    }
}

#[tokio::test]
async fn a_scheduler_killed_in_the_middle_loses_and_doubles_nothing() {
    for failpoint in ["scheduler.after_claim", "scheduler.after_publish"] {
        let sink = a_sink().await;
        let mut server = sending_to(&sink)
            .env("POSTHASTE_FAILPOINT", format!("{failpoint}=kill"))
            .start()
            .await;
        let email = keyed_email_to("fail1@example.org");
        submit_fatal(&mut server, &email).await;
        server.restart(&[("POSTHASTE_FAILPOINT", "")]).await;
        let id = id_of_accepted(&server, &email).await;
        until(&server, &id, "sent").await;
        assert_eq!(copies(&sink, &id, "fail1@example.org"), 1, "{failpoint}");
        verify(&server).await;
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused() {
    let sink = a_sink().await;
    let server = sending_to(&sink).start().await;
    let output = run(&server, &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--data-dir"), "{}", output.stderr);
}
