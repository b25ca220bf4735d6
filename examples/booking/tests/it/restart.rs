//! The program is stopped or killed, and what it had in hand is sent after the next start, once.

use std::sync::Arc;

use reqwest::Client;
use serde_json::{Value, json};

use crate::mail_server::MailServer;
use crate::program::Program;
use crate::world::{World, eventually};

/// Books by the program's own clock.
async fn book(client: &Client, program: &Program) {
    let slots = client.get(program.url("/api/slots")).send().await.unwrap();
    let slots: Value = slots.json().await.unwrap();
    let wish = json!({"name": "Ada", "email": "ada@example.org", "slot": slots[0]});
    let request = client.post(program.url("/api/book")).json(&wish);
    assert_eq!(request.send().await.unwrap().status(), 200);
}

async fn last_error(client: &Client, program: &Program) -> Value {
    let url = program.url("/api/admin/outbox");
    let entries: Value = client.get(url).send().await.unwrap().json().await.unwrap();
    entries[0]["lastError"].clone()
}

fn a_client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

#[tokio::test]
async fn killed_while_it_talks_to_the_mail_server_it_sends_once_after_the_restart() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut mail_server = MailServer::start().await;
    mail_server.hang();
    let program = Program::start(&folder, &mail_server);
    book(&a_client(), &program).await;
    mail_server.until_connected().await;

    program.kill();

    mail_server.restart().await;
    // Much later, by the clock of this world: whoever had the email in hand is given up.
    let mut world = World::open(folder, mail_server).await;
    world.start_worker();
    eventually("it is delivered", async || world.rows() == 0).await;
    let message = world.mail_server.only_one();
    assert_eq!(message.recipients[0], "ada@example.org");
    assert_eq!(world.rows(), 0);
    let bookings = world.get("/api/bookings").await.body;
    assert_eq!(bookings.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn told_to_stop_it_ends_well_and_what_waits_is_sent_after_the_next_start() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut mail_server = MailServer::start().await;
    mail_server.kill().await;
    let program = Program::start(&folder, &mail_server);
    let client = a_client();
    book(&client, &program).await;
    eventually("the mail server was tried", async || {
        last_error(&client, &program).await.is_string()
    })
    .await;
    // Somebody watches the queue; that keeps nothing from ending.
    let watching = client.get(program.url("/admin/live")).send().await.unwrap();
    assert_eq!(watching.status(), 200);

    assert!(program.terminate().await.success());

    mail_server.restart().await;
    let mut world = World::open(folder, mail_server).await;
    world.start_worker();
    world.settle().await;
    world.mail_server.only_one();
    assert_eq!(world.rows(), 0);
}
