//! What is promised about delivery.

use crate::figures::{Claim, Figure, Kind, Limit, Section, Who};

/// Embedded, of the probe's rate.
const EMBEDDED: Limit = Limit::AtLeast(0.7);
/// With PostgreSQL and RabbitMQ, of the probe's rate.
const RABBITMQ: Limit = Limit::AtLeast(1.0);

/// Holds our live figures against the probe's; with RabbitMQ against its faster kind of queue.
pub(super) fn beside_the_probe(section: &mut Section) {
    let mut claims = Vec::new();
    let ours: Vec<&Figure> = live(section, &Who::Posthaste);
    let theirs = live(section, &Who::Probe);
    for figure in ours {
        let same = theirs.iter().filter(|probe| is_same(figure, probe));
        let fastest = same.max_by(|a, b| a.median().total_cmp(&b.median()));
        let Some(fastest) = fastest else { continue };
        let limit = match figure.name.contains("RabbitMQ") {
            true => RABBITMQ,
            false => EMBEDDED,
        };
        let what = format!("live on {}, of the probe's ({})", figure.name, fastest.name);
        claims.push(Claim::by_round(&what, figure, fastest, limit));
    }
    section.claims.extend(claims);
}

fn live<'a>(section: &'a Section, who: &Who) -> Vec<&'a Figure> {
    let figures = section.figures.iter();
    figures
        .filter(|figure| figure.kind == Kind::Live && figure.who == *who)
        .collect()
}

/// The probe's name may go on with its kind of queue.
fn is_same(ours: &Figure, probe: &Figure) -> bool {
    let rest = probe.name.strip_prefix(&ours.name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
}
