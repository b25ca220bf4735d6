//! What an application takes in with the library.

use std::process::Command;

/// The names of all crates that these features need.
fn crates(features: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "posthaste", "--no-default-features"])
        .args(["--features", features, "--edges", "normal,build"])
        .args(["--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let (out, error) = (output.stdout, output.stderr);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&error)
    );
    let lines = String::from_utf8(out).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<_> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn sqlite_and_smtp_need_no_http_server_no_amqp_and_no_postgresql() {
    let names = crates("sqlite,smtp");
    assert!(names.iter().any(|name| name == "rusqlite"), "{names:?}");
    let unwanted = [
        "axum",
        "hyper",
        "lapin",
        "reqwest",
        "tokio-postgres",
        "deadpool-postgres",
        "argon2",
        "opentelemetry",
        "posthaste-broker",
        "posthaste-server",
    ];
    for name in unwanted {
        assert!(!names.iter().any(|one| one == name), "{name} is in it");
    }
}

#[test]
fn postgresql_needs_no_sqlite() {
    let names = crates("postgres,smtp");
    assert!(names.iter().any(|name| name == "tokio-postgres"));
    assert!(
        !names.iter().any(|name| name.contains("sqlite")),
        "{names:?}"
    );
}
