//! What a configuration may look like, and what its errors say.

use posthaste_transport::{Credentials, SmtpConfig, SmtpTransport, TlsMode};

#[test]
fn urls_are_read() {
    let ann = || Some(Credentials::new("ann", "pw"));
    let cases = [
        (
            "smtp://mail.example.org",
            "mail.example.org",
            25,
            TlsMode::Opportunistic,
            None,
        ),
        (
            "smtps://mail.example.org",
            "mail.example.org",
            465,
            TlsMode::Implicit,
            None,
        ),
        (
            "SMTP://ann:pw@mail.example.org:587?tls=required",
            "mail.example.org",
            587,
            TlsMode::Required,
            ann(),
        ),
        (
            "smtp://ann:pw@mail.example.org/?tls=none",
            "mail.example.org",
            25,
            TlsMode::None,
            ann(),
        ),
        (
            "smtp://localhost:1025/",
            "localhost",
            1025,
            TlsMode::Opportunistic,
            None,
        ),
        (
            "smtp://my_container:25?tls=opportunistic",
            "my_container",
            25,
            TlsMode::Opportunistic,
            None,
        ),
        (
            "smtps://[2001:db8::1]:4650",
            "2001:db8::1",
            4650,
            TlsMode::Implicit,
            None,
        ),
        ("smtp://[::1]", "::1", 25, TlsMode::Opportunistic, None),
        (
            "smtp://192.0.2.1",
            "192.0.2.1",
            25,
            TlsMode::Opportunistic,
            None,
        ),
        (
            "smtp://ann%40example.org:p%40ss%3A%2f%25w%C3%B6rd:x@mail.example.org",
            "mail.example.org",
            25,
            TlsMode::Opportunistic,
            Some(Credentials::new("ann@example.org", "p@ss:/%wörd:x")),
        ),
        // An `@` that should have been encoded, but cannot be misread.
        (
            "smtp://ann@example.org:p@ss@mail.example.org",
            "mail.example.org",
            25,
            TlsMode::Opportunistic,
            Some(Credentials::new("ann@example.org", "p@ss")),
        ),
    ];
    for (url, host, port, tls, credentials) in cases {
        let config = SmtpConfig::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(config.host, host, "{url}");
        assert_eq!(config.port, port, "{url}");
        assert_eq!(config.tls, tls, "{url}");
        assert_eq!(config.credentials, credentials, "{url}");
        assert_eq!(config.name, "smtp");
    }
}

#[test]
fn urls_that_cannot_work_are_refused_and_the_error_names_why() {
    let cases = [
        ("", "smtp://"),
        ("mail.example.org", "smtp://"),
        ("http://ann:s3cret@mail.example.org", "smtp://"),
        ("smtp://", "host"),
        ("smtp://:25", "host"),
        ("smtp://ann:s3cret@", "host"),
        ("smtp://ann:s3cret@/", "host"),
        ("smtp://bücher.example", "host"),
        ("smtp://mail example org", "host"),
        ("smtp://::1", "brackets"),
        ("smtp://2001:db8::1:25", "brackets"),
        ("smtp://[::1", "brackets"),
        ("smtp://[mail]", "host"),
        ("smtp://[::1]25", "port"),
        ("smtp://mail:0", "port"),
        ("smtp://mail:65536", "port"),
        ("smtp://mail:+25", "port"),
        ("smtp://mail:", "port"),
        ("smtp://ann:s3cret", "port"),
        ("smtp://ann@mail", "no password"),
        ("smtp://ann:@mail", "no password"),
        ("smtp://:s3cret@mail", "no user"),
        ("smtp://ann:s3cret%zz@mail", "password"),
        ("smtp://ann:s3cret%@mail", "password"),
        ("smtp://ann:s3cret%ff@mail", "password"),
        ("smtp://an%n:s3cret@mail", "user"),
        ("smtp://ann:s3cret%00@mail", "control"),
        ("smtp://ann:s3/cret@mail", "percent-encode"),
        ("smtp://ann:s3?cret@mail", "percent-encode"),
        ("smtp://ann:s3#cret@mail", "percent-encode"),
        ("smtp://ann:1/s3cret@mail", "percent-encode"),
        ("smtp://mail/path", "path"),
        ("smtp://mail#fragment", "path"),
        ("smtp://mail?tls=none#fragment", "path"),
        ("smtp://mail?tls=maybe", "tls"),
        ("smtp://mail?tls=implicit", "tls"),
        ("smtp://mail?tls", "parameter"),
        ("smtp://mail?pool=3", "parameter"),
        ("smtps://mail?tls=none", "smtps://"),
        ("smtps://mail?tls=required", "smtps://"),
    ];
    for (url, names) in cases {
        let error = SmtpConfig::from_url(url).unwrap_err().to_string();
        assert!(error.contains(names), "{url}: {error}");
        assert!(!error.contains("s3"), "{url}: {error}");
        assert!(!error.contains("cret"), "{url}: {error}");
    }
}

#[test]
fn a_password_does_not_show() {
    let config = SmtpConfig::from_url("smtp://ann:s3cret@mail.example.org").unwrap();
    let shown = format!("{config:?} {config:#?}");
    assert!(shown.contains("ann"));
    assert!(!shown.contains("s3cret"));
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    type Change = fn(&mut SmtpConfig);
    let cases: [(Change, &str); 8] = [
        (|config| config.connections = 0, "connections"),
        (|config| config.messages_per_connection = 0, "messages"),
        (|config| config.timeouts.dot = Default::default(), "dot"),
        (|config| config.host = String::new(), "host"),
        (|config| config.host = "a b".to_owned(), "host"),
        (
            |config| config.client_name = Some("a\r\nMAIL".to_owned()),
            "client name",
        ),
        (
            |config| config.client_name = Some(String::new()),
            "client name",
        ),
        (
            |config| config.credentials = Some(Credentials::new("a\0b", "c")),
            "user",
        ),
    ];
    for (change, names) in cases {
        let mut config = SmtpConfig::new("localhost", 25);
        change(&mut config);
        let error = SmtpTransport::new(config).err().unwrap().to_string();
        assert!(error.contains(names), "{error}");
    }
}
