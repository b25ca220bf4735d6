//! Bugs that we planted are found, and nothing else is.

use posthaste_simulation::{Campaign, Options, PlantedBug, Report, Simulator};

/// Within so many seeds a planted bug must show. The program runs as many in seconds.
const SEEDS: u64 = 1_500;

fn search(bug: PlantedBug) -> Report {
    let campaign = Campaign {
        first_seed: 0,
        runs: SEEDS,
        threads: 1,
        options: Options {
            planted: Some(bug),
            ..Options::default()
        },
        most_failures: 1,
    };
    campaign.run(|_| {})
}

/// Asserts that a bug is found by one of these promises, and that the seed that finds it keeps all of
/// them without the bug.
#[track_caller]
fn is_found_by(bug: PlantedBug, invariants: &[&str]) {
    let report = search(bug);
    let [found] = &report.failures[..] else {
        panic!("{bug:?} is not found in {} runs", report.runs);
    };
    let broken = &found.violations[0];
    assert!(invariants.contains(&broken.invariant), "{broken:?}");
    let sound = Simulator::new().run(found.seed, Options::default());
    assert!(sound.violations.is_empty(), "{:#?}", sound.violations);
}

#[test]
fn a_store_that_ignores_tokens_is_found() {
    is_found_by(PlantedBug::Token, &["I3", "I5", "I7"]);
}

#[test]
fn an_answer_before_the_commit_is_found() {
    is_found_by(PlantedBug::Commit, &["I2"]);
}

#[test]
fn a_gate_after_the_dot_is_found() {
    is_found_by(PlantedBug::Gate, &["I3"]);
}
