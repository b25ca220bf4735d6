//! A process dies at each of its points, one run for each: between any two things that others can
//! see.

use posthaste_simulation::{Options, Simulator};

const fn dies_at(point: u64) -> Options {
    Options {
        dies_at: Some(point),
        planted: None,
        logs: false,
    }
}

#[test]
fn a_process_may_die_at_any_point() {
    let simulator = Simulator::new();
    let mut runs = 0;
    for seed in 0..4 {
        let undisturbed = simulator.run(seed, dies_at(0));
        assert!(undisturbed.violations.is_empty(), "seed {seed}");
        assert!(undisturbed.points > 20, "seed {seed} does something");
        for point in 1..=undisturbed.points.min(300) {
            let outcome = simulator.run(seed, dies_at(point));
            let broken = &outcome.violations;
            assert!(broken.is_empty(), "seed {seed}, point {point}: {broken:#?}");
            runs += 1;
        }
    }
    assert!(runs > 100, "{runs}");
}
