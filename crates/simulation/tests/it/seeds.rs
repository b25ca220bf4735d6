//! Seeds: what they must keep, and that they mean the same every time.

use posthaste_simulation::{Campaign, Options, Simulator};

#[test]
fn every_promise_is_kept_under_all_kinds_of_trouble() {
    let campaign = Campaign {
        first_seed: 0,
        runs: 2_500,
        threads: 2,
        options: Options::default(),
        most_failures: 1,
    };
    let report = campaign.run(|_| {});
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.runs, 2_500);
    // What does not happen proves nothing.
    for happens in [
        "attempts of unknown fate",
        "broker: ticket doubled",
        "broker: ticket lost",
        "deaths of processes",
        "frozen processes",
        "mail: drops after the dot",
        "mail: drops before the dot",
        "outages of the store",
        "second copies, on record",
        "stale writes refused",
        "store: committed, answer lost",
        "store: failed before the commit",
    ] {
        assert!(report.tally.of(happens) > 20, "{happens}\n{}", report.tally);
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let options = Options {
        logs: true,
        ..Options::default()
    };
    let simulator = Simulator::new();
    for seed in 0..20 {
        let first = simulator.run(seed, options);
        // In the company of others, on another thread, and after other runs.
        let again = std::thread::spawn(move || Simulator::new().run(seed, options));
        let again = again.join().unwrap();
        assert!(first.log.len() > 20, "seed {seed} does something");
        for (line, same) in first.log.iter().zip(&again.log) {
            assert_eq!(line, same, "seed {seed}");
        }
        assert_eq!(first.log.len(), again.log.len(), "seed {seed}");
        assert_eq!(first.tally, again.tally, "seed {seed}");
    }
}
