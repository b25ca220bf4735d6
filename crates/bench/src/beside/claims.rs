//! What is promised beside the peers.

use crate::figures::{Claim, Figure, Kind, Limit, Section, Who};
use crate::rig::stand::Store;

/// How the name of the figure with TCP_NODELAY forced ends: no peer is shipped so.
pub(super) const FORCED: &str = "TCP_NODELAY forced";

/// Over Postfix in its best configuration, live.
const OVER_POSTFIX: [(Store, f64); 2] = [(Store::Sqlite, 12.0), (Store::Rabbitmq, 7.0)];
/// Over the strongest peer, with a backlog.
const OVER_THE_STRONGEST: [(Store, f64); 2] = [(Store::Postgres, 2.0), (Store::Rabbitmq, 1.2)];
/// Over every peer as it is shipped, with a backlog.
const OVER_SHIPPED: f64 = 3.0;

/// Holds our figures of a section against those of the peers in it.
pub(crate) fn hold_against(section: &mut Section) {
    let mut claims = Vec::new();
    let fastest = |kind: Kind, wanted: &dyn Fn(&str, &str) -> bool| {
        let peers = section.figures.iter().filter(|figure| match &figure.who {
            Who::Peer(peer) => figure.kind == kind && wanted(peer, &figure.name),
            Who::Posthaste | Who::Probe => false,
        });
        peers.max_by(|a, b| a.median().total_cmp(&b.median()))
    };
    let mut claim = |kind: Kind, store: Store, theirs: Option<&Figure>, least: f64| {
        let ours = section.figure(kind, &Who::Posthaste, store.title());
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            let work = if kind == Kind::Live {
                "live"
            } else {
                "draining"
            };
            let (store, peer) = (store.title(), theirs.who.name());
            let what = format!("{work} on {store}, over {peer} ({})", theirs.name);
            let limit = Limit::AtLeast(least);
            claims.push(Claim::of_medians(&what, ours, theirs, limit));
        }
    };
    let postfix = fastest(Kind::Live, &|peer, _| peer == "Postfix");
    for (store, least) in OVER_POSTFIX {
        claim(Kind::Live, store, postfix, least);
    }
    let strongest = fastest(Kind::Drain, &|_, _| true);
    for (store, least) in OVER_THE_STRONGEST {
        claim(Kind::Drain, store, strongest, least);
    }
    let shipped = fastest(Kind::Drain, &|_, name| !name.ends_with(FORCED));
    for (store, _) in OVER_THE_STRONGEST {
        claim(Kind::Drain, store, shipped, OVER_SHIPPED);
    }
    section.claims.extend(claims);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        let mut section = Section::titled("x");
        let peer = |name: &str| Who::Peer(name.to_owned());
        let figures = [
            (Kind::Live, Who::Posthaste, Store::Sqlite.title(), 6_000.0),
            (
                Kind::Drain,
                Who::Posthaste,
                Store::Postgres.title(),
                7_000.0,
            ),
            (Kind::Live, peer("Postfix"), "default", 450.0),
            (Kind::Live, peer("Postfix"), "tuned", 500.0),
            (
                Kind::Drain,
                peer("apalis"),
                "32, TCP_NODELAY forced",
                4_000.0,
            ),
            (Kind::Drain, peer("apalis"), "256", 2_000.0),
        ];
        for (kind, who, name, rate) in figures {
            let figure = Figure::rate(kind, who, name, "email/s", vec![rate]);
            section.figures.push(figure);
        }
        section
    }

    #[test]
    fn we_are_held_against_the_fastest_of_each_kind() {
        let mut section = section();
        hold_against(&mut section);
        let seen: Vec<(f64, bool)> = section.claims.iter().map(|c| (c.seen, c.held)).collect();
        // Over Postfix as it is fastest, over the strongest, over those that are shipped.
        assert_eq!(seen, [(12.0, true), (1.75, false), (3.5, true)]);
    }

    #[test]
    fn nothing_is_claimed_without_peers() {
        let mut section = section();
        section.figures.retain(|f| !matches!(f.who, Who::Peer(_)));
        hold_against(&mut section);
        assert!(section.claims.is_empty());
    }
}
