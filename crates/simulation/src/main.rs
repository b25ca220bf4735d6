//! Runs seeds and says what came of them.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use posthaste_simulation::{Campaign, Failure, Options, Outcome, PlantedBug, Report, Simulator};

/// Simulates the engine: real code, virtual time, every kind of trouble, one seed after the other.
#[derive(Debug, Parser)]
#[command(name = "posthaste-simulation")]
struct Arguments {
    /// How many seeds; one if only --seed is given
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print every step of the seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Plant a bug, to see it found
    #[arg(long, value_enum)]
    planted: Option<PlantedBug>,
    /// Kill the first process at each of its points, one run for each, and let nothing else go wrong
    #[arg(long)]
    every_point: bool,
    /// Go on until so many seeds broke a promise
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Threads; as many as there are processors if left out
    #[arg(long)]
    threads: Option<usize>,
}

const DEFAULT_RUNS: u64 = 20_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match carry_out(&arguments, &mut std::io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read this has gone.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Does what is asked for; whether all promises held.
fn carry_out(arguments: &Arguments, out: &mut impl Write) -> std::io::Result<bool> {
    let options = Options {
        planted: arguments.planted,
        logs: arguments.trace,
        dies_at: None,
    };
    let first_seed = arguments.seed.unwrap_or(0);
    let runs = match (arguments.runs, arguments.seed) {
        (Some(runs), _) => runs,
        (None, Some(_)) => 1,
        (None, None) => DEFAULT_RUNS,
    };
    if arguments.every_point {
        return at_every_point(first_seed, runs, options, out);
    }
    if arguments.trace {
        let outcome = Simulator::new().run(first_seed, options);
        return show(first_seed, &outcome, out);
    }
    let campaign = Campaign {
        first_seed,
        runs,
        threads: arguments.threads.unwrap_or_else(processors),
        options,
        most_failures: arguments.failures.max(1),
    };
    let report = campaign.run(|done| {
        let mut progress = std::io::stderr().lock();
        let _ = writeln!(progress, "{done} of {runs} runs");
    });
    summarise(&report, arguments.planted, out)?;
    Ok(report.failures.is_empty())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// All that is known of one run.
fn show(seed: u64, outcome: &Outcome, out: &mut impl Write) -> std::io::Result<bool> {
    for line in &outcome.log {
        writeln!(out, "{line}")?;
    }
    write!(out, "\nseed {seed}\n{}", outcome.tally)?;
    for violation in &outcome.violations {
        writeln!(out, "BROKEN {}: {}", violation.invariant, violation.detail)?;
    }
    Ok(outcome.violations.is_empty())
}

fn summarise(
    report: &Report,
    planted: Option<PlantedBug>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{} runs in {:.1} s, {:.0} per minute\n{}",
        report.runs,
        report.took.as_secs_f64(),
        report.runs_per_minute(),
        report.tally
    )?;
    if report.failures.is_empty() {
        return writeln!(out, "every promise was kept");
    }
    for Failure { seed, violations } in &report.failures {
        for violation in violations {
            let (invariant, detail) = (violation.invariant, &violation.detail);
            writeln!(out, "seed {seed} breaks {invariant}: {detail}")?;
        }
        let planted = planted.map_or(String::new(), |bug| format!(" --planted {}", bug.as_str()));
        writeln!(
            out,
            "  again: cargo run --release -p posthaste-simulation -- --seed {seed} --trace{planted}"
        )?;
    }
    Ok(())
}

/// Kills the first process at each of its points, one run for each.
fn at_every_point(
    first_seed: u64,
    seeds: u64,
    options: Options,
    out: &mut impl Write,
) -> std::io::Result<bool> {
    let simulator = Simulator::new();
    let mut kept = true;
    for seed in (0..seeds).map(|number| first_seed.wrapping_add(number)) {
        let dies_at = |point| Options {
            dies_at: Some(point),
            ..options
        };
        let points = simulator.run(seed, dies_at(0)).points;
        for point in 1..=points {
            for violation in simulator.run(seed, dies_at(point)).violations {
                kept = false;
                let (invariant, detail) = (violation.invariant, violation.detail);
                writeln!(
                    out,
                    "seed {seed} at point {point} breaks {invariant}: {detail}"
                )?;
            }
        }
        writeln!(out, "seed {seed}: killed at each of {points} points")?;
    }
    Ok(kept)
}
