//! A backlog delivered, as job queues are measured: nothing is taken in meanwhile.

use std::time::Duration;

use anyhow::ensure;

use crate::ground::{Contender, Ground, Part, Room, Round};
use crate::load::{Pace, Until};
use crate::processor::Reading;
use crate::rig::stand::Store;

/// When the whole backlog must have arrived.
const PATIENCE: Duration = Duration::from_secs(180);
/// When all tickets must be in the queue.
const TICKETS: Duration = Duration::from_secs(60);

/// One round: from a tenth of the backlog to all of it, by the sink, so that the start of the
/// process is left out.
pub(super) async fn one(ground: &Ground<'_>, contender: Contender) -> anyhow::Result<Round> {
    let (options, backlog) = (ground.options, ground.options.backlog);
    let room = ground.room(contender.store()).await?;
    let intake = contender.start(ground, &room, Part::Accept).await?;
    let load = intake.load(options.clients, Until::Count(backlog), Pace::Closed);
    let loaded = load.run().await?;
    tickets(ground, &room, backlog).await?;
    intake.shut_down().await?;
    if let Some(database) = room.database() {
        database.batch_execute("CHECKPOINT").await?;
    }
    let sink = ground.sink().await?;
    let part = Part::Whole(sink.port());
    let subject = contender.start(ground, &room, part).await?;
    sink.wait(backlog / 10, PATIENCE).await?;
    let reading = Reading::of(&ground.groups(&subject, Some(&sink)));
    let log = room.log_bytes().await?;
    let written = subject.written_bytes()?;
    let (before, began) = (sink.count()?, std::time::Instant::now());
    let end = sink.wait(loaded.accepted, PATIENCE).await?;
    let usage = reading.until_now();
    let count = (loaded.accepted - before) as f64;
    let bytes = match contender.store() {
        Store::Sqlite => ("disk", (subject.written_bytes()? - written) / count),
        Store::Postgres | Store::Rabbitmq => ("WAL", (room.log_bytes().await? - log) / count),
    };
    subject.stop().await?;
    let arrived = sink.count()?;
    ensure!(
        arrived == loaded.accepted,
        "{arrived} emails arrived of {} that were accepted: some twice",
        loaded.accepted
    );
    room.leave(ground).await?;
    let round = Round {
        rate: count / (end - began).as_secs_f64(),
        latency: None,
        usage,
        bytes: Some(bytes),
    };
    ground.journal.line(&format!(
        "drain, {}, {}: {:.0}/s; cpu % {}",
        contender.who().name(),
        contender.name(),
        round.rate,
        round.usage.percent()
    ));
    Ok(round)
}

/// Waits until RabbitMQ has a ticket for each email, if there is one.
async fn tickets(ground: &Ground<'_>, room: &Room, backlog: u64) -> anyhow::Result<()> {
    if room.rabbitmq_url.is_none() {
        return Ok(());
    }
    let rabbit = ground.rabbit().await?;
    let waiting = async {
        while rabbit.depth(&room.queue("send")).await? < backlog {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(TICKETS, waiting).await {
        Ok(there) => there,
        Err(_) => {
            let depth = rabbit.depth(&room.queue("send")).await?;
            anyhow::bail!("RabbitMQ has {depth} tickets for {backlog} emails")
        }
    }
}
