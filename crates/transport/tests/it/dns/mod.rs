//! Whether a domain takes mail, asked of a name server that answers, lies, fails or is silent.

mod name_server;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::port::DomainVerdict::{Takes, TakesNone};
use posthaste_core::port::Domains;
use posthaste_transport::{DnsDomains, DnsOptions, InvalidDnsOptions};

use crate::scripted::in_time;
use name_server::NameServer;

/// Asks this server, with more patience than any answer needs.
fn asking(server: &NameServer) -> DnsDomains {
    asking_with(server, |_| {})
}

fn asking_with(server: &NameServer, adapt: impl FnOnce(&mut DnsOptions)) -> DnsDomains {
    let mut options = DnsOptions {
        servers: vec![server.address()],
        timeout: Duration::from_secs(60),
        cache_size: 100,
    };
    adapt(&mut options);
    DnsDomains::new(options).unwrap()
}

#[tokio::test]
async fn an_answer_is_a_verdict() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    for (domain, expected) in [
        ("mail.test", Takes),
        ("alias.test", Takes),
        ("address.test", Takes),
        ("six.test", Takes),
        ("undecided.test", Takes),
        ("null.test", TakesNone),
        ("null10.test", TakesNone),
        ("gone.test", TakesNone),
        ("unsigned-gone.test", TakesNone),
        ("empty.test", TakesNone),
    ] {
        assert_eq!(domains.look_up(domain).await, expected, "{domain}");
    }
}

#[tokio::test]
async fn addresses_are_asked_for_only_without_an_mx() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    for domain in ["mail.test", "null.test", "address.test", "empty.test"] {
        domains.look_up(domain).await;
    }
    let asked = |domain| ["MX", "A", "AAAA"].map(|kind| server.asked(&format!("{kind} {domain}")));
    assert_eq!(asked("mail.test"), [1, 0, 0]);
    assert_eq!(asked("null.test"), [1, 0, 0]);
    assert_eq!(asked("address.test"), [1, 1, 0]);
    assert_eq!(asked("empty.test"), [1, 1, 1]);
}

#[tokio::test]
async fn a_server_that_denies_the_name_when_only_the_mx_is_missing_does_no_harm() {
    let server = NameServer::start().await;
    assert_eq!(asking(&server).look_up("liar.test").await, Takes);
    assert_eq!(server.asked("A liar.test"), 1);
}

#[tokio::test]
async fn a_failure_is_no_verdict_and_is_not_remembered() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    for domain in ["broken.test", "refused.test", "half.test", "referral.test"] {
        let question = format!("MX {domain}");
        assert_eq!(domains.look_up(domain).await, Takes, "{domain}");
        let before = server.asked(&question);
        assert!(before > 0, "{domain}");
        assert_eq!(domains.look_up(domain).await, Takes, "{domain}");
        assert!(server.asked(&question) > before, "{domain} was remembered");
    }
}

#[tokio::test]
async fn silence_ends_and_is_no_verdict() {
    let server = NameServer::start().await;
    let domains = asking_with(&server, |options| {
        options.timeout = Duration::from_millis(100)
    });
    assert_eq!(domains.look_up("silent.test").await, Takes);
    let before = server.asked("MX silent.test");
    assert!(before > 0);
    assert_eq!(domains.look_up("silent.test").await, Takes);
    assert!(
        server.asked("MX silent.test") > before,
        "silence was remembered"
    );
}

#[tokio::test]
async fn what_was_answered_is_remembered_good_and_bad() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    let all = [
        "mail.test",
        "null.test",
        "gone.test",
        "address.test",
        "empty.test",
    ];
    for domain in all {
        domains.look_up(domain).await;
    }
    let before = server.asked_in_all();
    for (domain, expected) in all
        .into_iter()
        .zip([Takes, TakesNone, TakesNone, Takes, TakesNone])
    {
        assert_eq!(domains.look_up(domain).await, expected, "{domain}");
        let shouted = format!("{}.", domain.to_uppercase());
        assert_eq!(domains.look_up(&shouted).await, expected, "{shouted}");
    }
    assert_eq!(server.asked_in_all(), before);
}

#[tokio::test]
async fn an_answer_is_remembered_no_longer_than_it_holds() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    // Without a lifetime: asked every time.
    for domain in ["fleeting.test", "unsigned-gone.test"] {
        for times in 1..=3 {
            domains.look_up(domain).await;
            assert_eq!(server.asked(&format!("MX {domain}")), times, "{domain}");
        }
    }
    // With a lifetime of a second: asked again at some time.
    for (domain, expected) in [("brief.test", Takes), ("brief-gone.test", TakesNone)] {
        in_time(async {
            while server.asked(&format!("MX {domain}")) < 2 {
                assert_eq!(domains.look_up(domain).await, expected, "{domain}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn nothing_is_remembered_without_room_for_it() {
    let server = NameServer::start().await;
    let domains = asking_with(&server, |options| options.cache_size = 0);
    for times in 1..=3 {
        assert_eq!(domains.look_up("mail.test").await, Takes);
        assert_eq!(server.asked("MX mail.test"), times);
    }
}

#[tokio::test]
async fn many_at_once_share_one_question() {
    let server = NameServer::start().await;
    let domains = Arc::new(asking(&server));
    server.hold();
    for (domain, expected) in [("mail.test", Takes), ("gone.test", TakesNone)] {
        server.hold();
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let domains = domains.clone();
                tokio::spawn(async move { domains.look_up(domain).await })
            })
            .collect();
        let question = format!("MX {domain}");
        while server.asked(&question) == 0 {
            tokio::task::yield_now().await;
        }
        server.release();
        for task in tasks {
            assert_eq!(task.await.unwrap(), expected);
        }
        assert_eq!(server.asked(&question), 1);
    }
}

#[tokio::test]
async fn one_who_gives_up_does_not_take_the_others_along() {
    let server = NameServer::start().await;
    let domains = Arc::new(asking(&server));
    server.hold();
    let look_up = || {
        let domains = domains.clone();
        tokio::spawn(async move { domains.look_up("gone.test").await })
    };
    let first = look_up();
    while server.asked("MX gone.test") == 0 {
        tokio::task::yield_now().await;
    }
    let second = look_up();
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    server.release();
    assert_eq!(second.await.unwrap(), TakesNone);
}

#[tokio::test]
async fn an_address_literal_is_not_asked_for() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    for literal in ["[192.0.2.1]", "[IPv6:2001:db8::1]"] {
        assert_eq!(domains.look_up(literal).await, Takes);
    }
    assert_eq!(server.asked_in_all(), 0);
}

#[tokio::test]
async fn what_is_no_name_is_no_verdict() {
    let server = NameServer::start().await;
    let domains = asking(&server);
    let long = "a".repeat(64);
    for name in ["", ".", "a..b", &long] {
        assert_eq!(domains.look_up(name).await, Takes, "{name}");
    }
}

#[test]
fn a_look_up_without_time_is_refused() {
    let options = DnsOptions {
        timeout: Duration::ZERO,
        ..DnsOptions::default()
    };
    let error = DnsDomains::new(options).err().unwrap();
    assert_eq!(error, InvalidDnsOptions::NoTime);
    assert!(error.to_string().contains("`timeout`"));
}
