//! Emails taken in and delivered at the same time.

use std::time::Duration;

use anyhow::ensure;

use crate::ground::{Contender, Ground, Part, Round};
use crate::load::{Pace, Until};
use crate::processor::Reading;
use crate::rig::stand::Store;

/// When everything that was taken in must have arrived.
const PATIENCE: Duration = Duration::from_secs(120);

/// One round of one contender, on an empty database: from the first request until the sink has the
/// last email.
pub(super) async fn one(ground: &Ground<'_>, contender: Contender) -> anyhow::Result<Round> {
    let options = ground.options;
    let room = ground.room(contender.store()).await?;
    let sink = ground.sink().await?;
    let part = Part::Whole(sink.port());
    let subject = contender.start(ground, &room, part).await?;
    let load = |time| {
        let load = subject.load(options.clients, Until::Time(time), Pace::Closed);
        load.run()
    };
    let warm_up = load(options.warm_up.0).await?;
    sink.wait(warm_up.accepted, PATIENCE).await?;
    let log = room.log_bytes().await?;
    let written = subject.written_bytes()?;
    let reading = Reading::of(&ground.groups(&subject, Some(&sink)));
    let loaded = load(options.time.0).await?;
    let total = warm_up.accepted + loaded.accepted;
    let end = sink.wait(total, PATIENCE).await?;
    let usage = reading.until_now();
    let each = |bytes: f64| bytes / loaded.accepted.max(1) as f64;
    let bytes = match contender.store() {
        Store::Sqlite => ("disk", each(subject.written_bytes()? - written)),
        Store::Postgres | Store::Rabbitmq => ("WAL", each(room.log_bytes().await? - log)),
    };
    subject.stop().await?;
    let arrived = sink.count()?;
    ensure!(
        arrived == total,
        "{arrived} emails arrived of {total} that were accepted: some twice"
    );
    room.leave(ground).await?;
    let round = Round {
        rate: loaded.accepted as f64 / (end - loaded.began).as_secs_f64(),
        latency: Some(loaded.histogram.latency()),
        usage,
        bytes: Some(bytes),
    };
    ground.journal.line(&format!(
        "live, {}, {}: {:.0}/s delivered, {:.0}/s accepted, p99 {:.1} ms; cpu % {}",
        contender.who().name(),
        contender.name(),
        round.rate,
        loaded.rate(),
        loaded.histogram.percentile_ms(0.99),
        round.usage.percent()
    ));
    Ok(round)
}
