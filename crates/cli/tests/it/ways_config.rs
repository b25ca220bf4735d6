//! Ways out as they are written down: what is wrong is named, what is secret stays so.

use posthaste_testkit::Provider;
use serde_json::Value;

use crate::backend::Backend;
use crate::support::{a_sink, email_to, run, submit, until};
use crate::ways_support::{ConfigFile, a_guarded_sink, transports, url_with_password};

#[tokio::test]
async fn what_cannot_work_is_refused_by_name() {
    let backend = Backend::sqlite().await;
    let mut server = backend.posthaste().start().await;
    let resend = "[transport.backup]\nkind = \"resend\"\napi_key = \"re_1\"\n";
    let relay = "[transport.relay]\nkind = \"smtp\"\nurl = \"smtp://127.0.0.1:25?tls=none\"\n";
    for (text, told) in [
        (
            "[transport.backup]\nkind = \"resend\"\napi_kye = \"re_1\"\n".to_owned(),
            &["transport.backup.api_kye", "api_key"][..],
        ),
        (
            format!("{resend}{relay}"),
            &["route.default", "backup", "relay"],
        ),
        (
            format!("{resend}[route.default]\norder = [\"bakcup\"]\n"),
            &["route.default", "bakcup", "backup"],
        ),
        (
            format!("{resend}[route.default]\norder = [\"backup\"]\nweights = {{ backup = 1 }}\n"),
            &["route.default", "order", "weights"],
        ),
        (
            "[transport.backup]\nkind = \"resned\"\n".to_owned(),
            &["resned", "resend"],
        ),
        (
            "[transport.backup]\nkind = \"resend\"\n".to_owned(),
            &["transport.backup", "api_key"],
        ),
        (
            format!("{resend}base_url = \"http://mail.example.org\"\n"),
            &["transport.backup", "base_url", "https"],
        ),
        (
            "[breaker]\nfirst_probe = \"2m\"\n".to_owned(),
            &["breaker.longest_probe", "first_probe"],
        ),
        (
            "[transport.Backup]\nkind = \"resend\"\n".to_owned(),
            &["transport.Backup"],
        ),
    ] {
        let file = ConfigFile::new(&text);
        server.set("POSTHASTE_CONFIG", &file.path());
        let checked = run(&server, &["config", "check"]).await;
        assert_eq!(checked.code, 2, "{text}{}", checked.stdout);
        for word in told {
            assert!(
                checked.stderr.contains(word),
                "{text}{word}: {}",
                checked.stderr
            );
        }
        assert!(!checked.stderr.contains("re_1"), "{}", checked.stderr);
    }
    server.unset("POSTHASTE_CONFIG");
    server.set("POSTHASTE_TRANSPORT__BACKUP__API_KYE", "re_1");
    let checked = run(&server, &["config", "check"]).await;
    assert_eq!(checked.code, 2, "{}", checked.stdout);
    assert!(checked.stderr.contains("api_key"), "{}", checked.stderr);
}

#[tokio::test]
async fn secrets_come_from_the_environment_or_a_file_and_are_never_shown() {
    let (backend, provider) = (Backend::sqlite().await, Provider::start());
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key");
    std::fs::write(&key_file, format!("{}\n", Provider::API_KEY)).unwrap();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let server = backend
        .posthaste()
        .env("POSTHASTE_TRANSPORT__BACKUP__KIND", "resend")
        .env("POSTHASTE_TRANSPORT__BACKUP__BASE_URL", provider.url())
        .env(
            "POSTHASTE_TRANSPORT__BACKUP__API_KEY_FILE",
            key_file.to_str().unwrap(),
        )
        .env("POSTHASTE_TRANSPORT__BACKUP__WEBHOOK_SECRET", secret)
        .start()
        .await;
    let id = submit(&server, &email_to("ann@example.org")).await;
    let sent = until(&server, &id, "sent").await;
    assert_eq!(transports(&sent), ["backup"]);
    let shown = run(&server, &["config", "show"]).await;
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("transport.backup") && shown.stdout.contains("***"));
    let doctor = run(&server, &["doctor"]).await;
    for place in [server.log(), shown.stdout, doctor.stdout, doctor.stderr] {
        for secret in [
            Provider::API_KEY,
            secret,
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            assert!(!place.contains(secret), "{place}");
        }
    }
}

#[tokio::test]
async fn the_doctor_asks_every_way_out() {
    let (backend, provider) = (Backend::sqlite().await, Provider::start());
    let (sink, guarded) = (a_sink().await, a_guarded_sink().await);
    let routes = "[route.default]\norder = [\"smtp\", \"backup\", \"relay\"]\n";
    let with = |password: &str| {
        ConfigFile::new(&format!(
            "{}[transport.relay]\nkind = \"smtp\"\nurl = \"{}\"\n{routes}",
            provider.section("backup"),
            url_with_password(&guarded, password)
        ))
    };
    let (good, bad) = (with("right"), with("wrong"));
    let mut server = good.of(backend.sending_to(&sink)).start().await;
    let findings = |stdout: &str| -> Vec<(String, bool)> {
        let checks = stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ways = ["smtp", "backup", "relay"];
        checks
            .map(|check| {
                (
                    check["check"].as_str().unwrap().to_owned(),
                    check["ok"] == true,
                )
            })
            .filter(|(what, _)| ways.contains(&what.as_str()))
            .collect()
    };
    let all = |oks: [bool; 3]| -> Vec<(String, bool)> {
        let names = ["smtp", "backup", "relay"].map(str::to_owned);
        names.into_iter().zip(oks).collect()
    };
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(doctor.code, 0, "{}", doctor.stdout);
    assert_eq!(findings(&doctor.stdout), all([true, true, true]));
    server.set("POSTHASTE_CONFIG", &bad.path());
    server.set("POSTHASTE_TRANSPORT__BACKUP__API_KEY", "re_wrong");
    let doctor = run(&server, &["doctor", "--json"]).await;
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert_eq!(findings(&doctor.stdout), all([true, false, false]));
    assert!(!doctor.stdout.contains("re_wrong"), "{}", doctor.stdout);
}
