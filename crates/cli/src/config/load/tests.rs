use super::*;

fn load_with(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("posthaste.toml");
    std::fs::write(&file, text).unwrap();
    let environment = environment
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    load(
        &Overrides {
            file: Some(file),
            ..Overrides::default()
        },
        &environment,
    )
}

#[test]
fn the_defaults_are_valid_and_complete() {
    let loaded = load_with("", &[]).unwrap();
    assert_eq!(loaded.settings.server.port, 8086);
    assert_eq!(
        loaded.settings.policies().unwrap().budgets().by_name["email"],
        8
    );
}

#[test]
fn environment_beats_file_beats_default() {
    let text = "[retry]\nmax_attempts = 5\n[sender]\nconnections = 7\n";
    let loaded = load_with(
        text,
        &[
            ("MAX_ATTEMPTS", "3"),
            ("BACKOFF_SCHEDULE", "1s, 2s"),
            ("LEASE_SECONDS", "9"),
        ],
    )
    .unwrap();
    assert_eq!(loaded.settings.retry.max_attempts, 3);
    assert_eq!(loaded.settings.sender.connections, 7);
    assert_eq!(loaded.settings.sender.lease.to_string(), "9s");
    let policies = loaded.settings.policies().unwrap();
    assert_eq!(policies.get("email").unwrap().backoff(2).as_secs(), 2);
}

#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    let error = load_with("[retry]\nmax_atempts = 5\n", &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("retry.max_atempts") && error.contains("`max_attempts`"),
        "{error}"
    );
    let error = load_with("", &[("POSTHASTE_SENDER__CONECTIONS", "5")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("POSTHASTE_SENDER__CONECTIONS") && error.contains("sender.connections"),
        "{error}"
    );
    let error = load_with("", &[("POSTHASTE_SENDER__CONNECTIONS", "many")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("`many` is not a whole number"), "{error}");
}

#[test]
fn a_secret_can_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, "smtp://u:p@mail.example.org\n").unwrap();
    let loaded = load_with("", &[("SMTP_URL_FILE", file.to_str().unwrap())]).unwrap();
    assert_eq!(loaded.settings.smtp.url, "smtp://u:p@mail.example.org");
}

#[test]
fn alert_channels_are_read_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    let environment = [
        (
            "POSTHASTE_ALERTS__SLACK__URL",
            "https://hooks.slack.com/services/T/B/x",
        ),
        (
            "POSTHASTE_ALERTS__PAGERDUTY__ROUTING_KEY_FILE",
            key.to_str().unwrap(),
        ),
    ];
    let loaded = load_with("[retention]\ncontent = \"90d\"\n", &environment).unwrap();
    let channels = loaded.settings.alert_channels().unwrap();
    let names: Vec<_> = channels.iter().map(|channel| channel.name()).collect();
    assert_eq!(names, ["slack", "pagerduty"]);
    let retention = loaded.settings.retention();
    assert_eq!(retention.attempts, None);
    assert_eq!(retention.content.unwrap().as_secs(), 90 * 86_400);
    for shown in [
        format!("{:?}", loaded.settings),
        loaded.without_secrets()["alerts"].to_string(),
    ] {
        assert!(
            !shown.contains("/T/B") && !shown.contains("cdef"),
            "{shown}"
        );
    }
    for (option, bad, place) in [
        ("SLACK__URL", "hooks.slack.com", "alerts.slack.url"),
        (
            "PAGERDUTY__ROUTING_KEY",
            "x",
            "alerts.pagerduty.routing_key",
        ),
        ("WEBHOOK__URL", "https://a.example", "alerts.webhook.secret"),
        ("EVERY", "1h", "alerts.longest"),
        ("EVERY", "10ms", "alerts.every"),
        ("DASHBOARD_URL", "mail.example.org", "alerts.dashboard_url"),
        ("SLACK__URI", "x", "slack.url"),
    ] {
        let variable = format!("POSTHASTE_ALERTS__{option}");
        let error = load_with("", &[(&variable, bad)]).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn own_policies_are_read_and_checked() {
    let text = "[policy.invoices]\nmax_attempts = 20\nbackoff = { base = \"1m\" }\n";
    let loaded = load_with(text, &[("POSTHASTE_POLICY__INVOICES__ON_UNKNOWN", "hold")]).unwrap();
    assert_eq!(
        loaded
            .settings
            .policies()
            .unwrap()
            .get("invoices")
            .unwrap()
            .max_attempts,
        20
    );
    let error = load_with(
        "[policy.x]\nmax_attempts = 0\nbackoff = { base = \"1m\" }\n",
        &[],
    )
    .unwrap_err();
    assert!(error.to_string().contains("max_attempts"), "{error}");
}
