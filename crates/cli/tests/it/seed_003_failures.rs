//! Seed 003's two lists of failures, each through SMTP and through a provider's HTTP API: what is
//! transient is tried again and delivered, what is permanent is dead at once.

use posthaste_sink::Sink;
use posthaste_testkit::process::Posthaste;
use posthaste_testkit::{Provider, ProviderAnswer};
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::smtp_front::{Front, Trouble};
use crate::support::{copies, email_to, get, metric, outcomes, submit, until, verify};
use crate::ways_support::{
    ConfigFile, WEBHOOK_SECRET, a_guarded_sink, counted, says, transports, url_with_password,
};

on_every_backend! {
    transient_failures_are_tried_again_and_permanent_ones_are_dead_at_once,
}

/// More often than anyone tries.
const ALWAYS: usize = 1_000;

/// How the other side fails: over SMTP, or as a provider.
enum Failing {
    Smtp(Trouble),
    Http(ProviderAnswer),
    /// The provider's port is closed.
    HttpClosed,
    /// The sink wants this password, and gets that one, or none.
    Password(&'static str),
}

/// One of the seed's failures. `class`: the rule that must recognise it.
struct Transient {
    failure: &'static str,
    failing: Failing,
    class: &'static str,
}

struct Permanent {
    failure: &'static str,
    failing: Failing,
    class: &'static str,
    reason: &'static str,
}

const fn http(status: u16, name: &'static str, message: &'static str) -> Failing {
    Failing::Http(ProviderAnswer::refused(status, name, message))
}

/// Seed 003: network timeout, HTTP 429, 500, 502, 503, 504, connection refused.
fn transient() -> Vec<Transient> {
    use Failing::{Http, HttpClosed, Smtp};
    let row = |failure, failing, class| Transient {
        failure,
        failing,
        class,
    };
    let throttled =
        ProviderAnswer::Refused(429, "rate_limit_exceeded", "Too many requests.", Some(1));
    vec![
        row("timeout", Smtp(Trouble::Silent), "timeout"),
        row("timeout", Http(ProviderAnswer::Silence), "answer_lost"),
        row(
            "429",
            Smtp(Trouble::Says("450 4.7.0 Too many messages, slow down")),
            "policy_deferred",
        ),
        row("429", Http(throttled), "rate_limited"),
        row(
            "500",
            Smtp(Trouble::Says("451 4.3.0 Local error in processing")),
            "system_busy",
        ),
        row(
            "500",
            http(500, "application_error", "An unexpected error occurred."),
            "provider_error",
        ),
        row("502", Smtp(Trouble::HangsUp), "connection_lost"),
        row(
            "502",
            http(502, "bad_gateway", "Bad gateway."),
            "provider_error",
        ),
        row(
            "503",
            Smtp(Trouble::Says("421 4.3.2 Service not available, closing")),
            "system_busy",
        ),
        row(
            "503",
            http(503, "service_unavailable", "Service unavailable."),
            "provider_error",
        ),
        row(
            "504",
            Smtp(Trouble::Says("451 4.4.1 No answer from the host")),
            "network_trouble",
        ),
        row(
            "504",
            http(504, "gateway_timeout", "Gateway timeout."),
            "provider_timeout",
        ),
        row("refused", Smtp(Trouble::Closed), "connection_refused"),
        row("refused", HttpClosed, "connection_refused"),
    ]
}

/// Seed 003: HTTP 400 or an invalid recipient, 401, 403, hard bounce, spam complaint.
fn permanent() -> Vec<Permanent> {
    use Failing::{Password, Smtp};
    let row = |failure, failing, class, reason| Permanent {
        failure,
        failing,
        class,
        reason,
    };
    let (auth, denied) = ("authentication_failed", "AuthenticationFailed");
    vec![
        row(
            "400-recipient",
            Smtp(Trouble::Says("553 5.1.3 Bad recipient address syntax")),
            "invalid_recipient",
            "InvalidRecipient",
        ),
        row(
            "400-recipient",
            http(422, "validation_error", "Invalid `to` field."),
            "invalid_recipient",
            "InvalidRecipient",
        ),
        row(
            "400",
            Smtp(Trouble::Says("554 5.6.0 Message content not acceptable")),
            "content_rejected",
            "MessageRejected",
        ),
        row(
            "400",
            http(
                400,
                "validation_error",
                "Something is wrong with the request.",
            ),
            "rejected",
            "MessageRejected",
        ),
        row("401", Password("wrong"), auth, denied),
        row(
            "401",
            http(401, "missing_api_key", "Missing API key."),
            auth,
            denied,
        ),
        row("403", Password(""), auth, denied),
        row(
            "403",
            http(403, "invalid_api_key", "API key is invalid."),
            auth,
            denied,
        ),
        row(
            "bounce",
            Smtp(Trouble::Says("550 5.1.1 No such user here")),
            "mailbox_not_found",
            "HardBounce",
        ),
    ]
}

/// Who answers for a row.
enum Other {
    Front(Front),
    Sink(Sink),
    Provider(Provider),
}

/// A row, and everything of its own: a server, a transport, a route and a recipient, so that no row
/// slows down or stops another.
struct Case {
    name: String,
    other: Other,
    id: String,
}

impl Case {
    async fn prepare(name: String, failing: &Failing, times: usize, config: &mut String) -> Self {
        let other = match failing {
            Failing::Smtp(trouble) => Other::Front(Front::start(*trouble, times).await),
            Failing::Password(_) => Other::Sink(a_guarded_sink().await),
            Failing::HttpClosed => Other::Provider(Provider::closed()),
            Failing::Http(answer) => {
                let provider = Provider::start();
                let answers = vec![answer.clone(); times];
                provider.answer(&recipient(&name), answers);
                Other::Provider(provider)
            }
        };
        *config += &match (&other, failing) {
            (Other::Front(front), _) => smtp_section(&name, &front.url()),
            (Other::Sink(sink), Failing::Password("")) => {
                smtp_section(&name, &format!("{}?tls=none", sink.url()))
            }
            (Other::Sink(sink), Failing::Password(password)) => {
                smtp_section(&name, &url_with_password(sink, password))
            }
            (Other::Provider(provider), Failing::Http(ProviderAnswer::Silence)) => {
                let times = "connect_timeout = \"2s\"\nrequest_timeout = \"4s\"\n";
                provider.section(&name) + times
            }
            (Other::Provider(provider), _) => provider.section(&name),
            (Other::Sink(_), _) => unreachable!("a sink is for passwords"),
        };
        *config += &format!("[route.{name}]\norder = [\"{name}\"]\n");
        Self {
            name,
            other,
            id: String::new(),
        }
    }

    /// How many copies arrived.
    fn copies(&self) -> u64 {
        match &self.other {
            Other::Front(front) => copies(&front.sink, &self.id, &recipient(&self.name)),
            Other::Sink(sink) => copies(sink, &self.id, &recipient(&self.name)),
            Other::Provider(provider) => provider.copies(&self.id),
        }
    }

    /// Opens a port that was closed.
    fn open(&self) {
        match &self.other {
            Other::Front(front) => front.open(),
            Other::Provider(provider) => provider.open(),
            Other::Sink(_) => {}
        }
    }
}

fn smtp_section(name: &str, url: &str) -> String {
    format!("[transport.{name}]\nkind = \"smtp\"\nurl = \"{url}\"\n")
}

/// The recipient of a row, at a domain of its own.
fn recipient(name: &str) -> String {
    format!("ann@{name}.example.net")
}

/// An email of the policy `notification` by the route of this name.
fn email_by(route: &str, to: &str) -> Value {
    let mut email = email_to(to);
    email["route"] = json!(route);
    email["retry_policy"] = json!("notification");
    email
}

/// The name of a row's transport: the failure, and by which way.
fn name_of(failure: &str, failing: &Failing) -> String {
    match failing {
        Failing::Smtp(_) | Failing::Password(_) => format!("{failure}-smtp"),
        Failing::Http(_) | Failing::HttpClosed => format!("{failure}-http"),
    }
}

async fn transient_failures_are_tried_again_and_permanent_ones_are_dead_at_once(backend: &Backend) {
    let provider = Provider::start();
    let quiet = Front::start(Trouble::None, 0).await;
    // The policy with delays that a test can wait for, long enough to be seen waiting, and no dice.
    let mut config = format!(
        "[policy.notification]\nmax_attempts = 3\nbackoff = {{ schedule = [\"10s\", \"1m\"] }}\njitter = \"0s\"\n\
         [smtp]\nconnect_timeout = \"4s\"\ncommand_timeout = \"4s\"\n\
         {}webhook_secret = \"{WEBHOOK_SECRET}\"\n{}\
         [route.default]\norder = [\"resend\"]\n[route.quiet]\norder = [\"quiet\"]\n",
        provider.section("resend"),
        smtp_section("quiet", &quiet.url()),
    );
    let mut passing = Vec::new();
    for row in transient() {
        let name = name_of(row.failure, &row.failing);
        let case = Case::prepare(name, &row.failing, 1, &mut config).await;
        passing.push((row, case));
    }
    let mut lasting = Vec::new();
    for row in permanent() {
        let name = name_of(row.failure, &row.failing);
        let case = Case::prepare(name, &row.failing, ALWAYS, &mut config).await;
        lasting.push((row, case));
    }
    let config = ConfigFile::new(&config);
    let server = config.of(backend.posthaste()).start().await;

    for case in passing
        .iter_mut()
        .map(|(_, case)| case)
        .chain(lasting.iter_mut().map(|(_, case)| case))
    {
        case.id = submit(&server, &email_by(&case.name, &recipient(&case.name))).await;
    }
    let transient = passing.iter().map(|row| is_tried_again(&server, row));
    let permanent = lasting.iter().map(|row| is_dead_at_once(&server, row));
    tokio::join!(
        futures_util::future::join_all(transient),
        futures_util::future::join_all(permanent),
        is_dead_when_the_provider_says_so(&server, &provider, "bounced", "HardBounce"),
        is_dead_when_the_provider_says_so(&server, &provider, "complained", "SpamComplaint"),
    );
    // Over SMTP nobody hears of complaints; but who complained before gets nothing more.
    let complained = "complained@example.net";
    let id = submit(&server, &email_by("quiet", complained)).await;
    let dead = until(&server, &id, "dead").await;
    assert_eq!(dead["dead_reason"], "SpamComplaint", "{dead}");
    assert_eq!(outcomes(&dead), ["permanent"], "{dead}");
    assert_eq!(transports(&dead), ["none"], "{dead}");
    assert_eq!(
        (quiet.connections(), quiet.sink.report().connections),
        (0, 0)
    );

    assert_eq!(
        metric(
            &server,
            r#"posthaste_dead_total{reason="MaxAttemptsExceeded"}"#
        )
        .await,
        0.0
    );
    verify(&server).await;
}

async fn is_tried_again(server: &Posthaste, (row, case): &(Transient, Case)) {
    let name = &case.name;
    let failed = until(server, &case.id, "failed").await;
    assert_eq!(
        failed["status_text"], "Retrying (attempt 2 of 3)",
        "{name}: {failed}"
    );
    assert_eq!(failed["attempt_count"], 1, "{name}: {failed}");
    assert_eq!(failed["error_class"], row.class, "{name}: {failed}");
    if matches!(
        row.failing,
        Failing::HttpClosed | Failing::Smtp(Trouble::Closed)
    ) {
        case.open();
    }
    let sent = until(server, &case.id, "sent").await;
    assert_eq!(outcomes(&sent), ["transient", "sent"], "{name}: {sent}");
    assert_eq!(transports(&sent), [name, name], "{name}: {sent}");
    assert!(counted(&sent)[0], "{name}: {sent}");
    assert_eq!(case.copies(), 1, "{name}");
    if let Other::Provider(provider) = &case.other {
        let keys: Vec<_> = provider
            .requests_of(&case.id)
            .into_iter()
            .map(|request| request.key)
            .collect();
        assert!(keys.iter().all(|key| *key == case.id), "{name}: {keys:?}");
    }
}

async fn is_dead_at_once(server: &Posthaste, (row, case): &(Permanent, Case)) {
    let name = &case.name;
    let dead = until(server, &case.id, "dead").await;
    assert_eq!(dead["dead_reason"], row.reason, "{name}: {dead}");
    assert_eq!(dead["error_class"], row.class, "{name}: {dead}");
    assert_eq!(
        dead["status_text"], "Failed (moved to dead letter queue)",
        "{name}"
    );
    assert_eq!(dead["attempt_count"], 1, "{name}: {dead}");
    assert_eq!(outcomes(&dead), ["permanent"], "{name}: {dead}");
    assert!(dead["next_attempt_at"].is_null(), "{name}: {dead}");
    assert_eq!(case.copies(), 0, "{name}");
    if let Other::Provider(provider) = &case.other {
        assert_eq!(provider.requests_of(&case.id).len(), 1, "{name}");
    }
}

/// A provider took it, and says later that it came back or was called spam.
async fn is_dead_when_the_provider_says_so(
    server: &Posthaste,
    provider: &Provider,
    word: &str,
    reason: &str,
) {
    let to = format!("{word}@example.net");
    let id = submit(server, &email_by("default", &to)).await;
    until(server, &id, "sent").await;
    let taken = provider.taken_of(&id);
    let summary = says(server, "resend", &taken, &format!("email.{word}")).await;
    assert_eq!(summary["recorded"], 1, "{word}: {summary}");
    let dead = get(server, &format!("/v1/emails/{id}")).await.body;
    assert_eq!(dead["status"], "dead", "{word}: {dead}");
    assert_eq!(dead["dead_reason"], reason, "{word}: {dead}");
    assert_eq!(outcomes(&dead), ["sent"], "{word}: {dead}");
    assert_eq!(provider.requests_of(&id).len(), 1, "{word}");
}
