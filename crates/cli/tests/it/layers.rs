//! Who may import whom, compared with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

const ADAPTERS: [&str; 3] = ["posthaste-store", "posthaste-broker", "posthaste-transport"];

/// The table of docs/architecture.md: what each crate may import of ours, outside of tests.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let core = "posthaste-core";
    let engine = "posthaste-engine";
    let mut table = BTreeMap::from([
        (core, BTreeSet::new()),
        (engine, BTreeSet::from([core])),
        ("posthaste-server", BTreeSet::from([engine, core])),
        (
            "posthaste",
            // The server for its feature `desk`.
            BTreeSet::from([core, engine, ADAPTERS[0], ADAPTERS[2], "posthaste-server"]),
        ),
        ("posthaste-booking", BTreeSet::from(["posthaste"])),
        ("posthaste-sink", BTreeSet::new()),
        ("posthaste-sqlite-log", BTreeSet::new()),
        ("posthaste-trace", BTreeSet::from([core])),
        ("posthaste-alert", BTreeSet::from([core])),
        (
            "posthaste-cli",
            BTreeSet::from([
                core,
                engine,
                ADAPTERS[0],
                ADAPTERS[1],
                ADAPTERS[2],
                "posthaste-server",
                "posthaste-sink",
                "posthaste-trace",
                "posthaste-alert",
                "posthaste",
            ]),
        ),
        (
            "posthaste-testkit",
            BTreeSet::from([core, "posthaste-sink"]),
        ),
        (
            "posthaste-bench",
            BTreeSet::from([core, "posthaste-sink", "posthaste-testkit"]),
        ),
        (
            "posthaste-simulation",
            // The store for its ledger, which the one in memory shares with the databases.
            BTreeSet::from([core, engine, ADAPTERS[0]]),
        ),
    ]);
    for adapter in ADAPTERS {
        table.insert(adapter, BTreeSet::from([core]));
    }
    table
        .entry(ADAPTERS[0])
        .or_default()
        .insert("posthaste-sqlite-log");
    table
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn dependencies(package: &Value, dev: bool) -> impl Iterator<Item = &str> {
    let of_kind = move |dependency: &&Value| (dependency["kind"] == "dev") == dev;
    package["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_kind)
        .map(|one| one["name"].as_str().unwrap())
}

#[test]
fn every_crate_imports_only_what_the_design_allows() {
    let allowed = allowed();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let may = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        for imported in dependencies(&package, false).filter(|one| one.starts_with("posthaste")) {
            assert!(may.contains(imported), "{name} imports {imported}");
        }
    }
}

#[test]
fn the_core_knows_no_runtime_no_sql_and_no_http() {
    let packages = packages();
    let core = packages
        .iter()
        .find(|package| package["name"] == "posthaste-core")
        .unwrap();
    for imported in dependencies(core, false) {
        let heavy = [
            "tokio",
            "rusqlite",
            "axum",
            "hyper",
            "reqwest",
            "tokio-postgres",
            "lapin",
        ];
        assert!(!heavy.contains(&imported), "core imports {imported}");
    }
}

#[test]
fn the_testkit_is_a_dev_dependency_only() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        if name == "posthaste-bench" {
            continue;
        }
        assert!(
            dependencies(&package, false).all(|one| one != "posthaste-testkit"),
            "{name} ships the testkit"
        );
    }
}
