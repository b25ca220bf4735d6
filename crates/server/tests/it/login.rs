//! Logging in and out of the dashboard.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::ConnectInfo;
use posthaste_core::admin::{LastOperator, Role};

use crate::browser::{Browser, PASSWORD, an_admin, form, root};
use crate::fixture::{Answer, PROXY, SESSION, Server, local, with_key};

#[tokio::test]
async fn before_there_is_a_key_or_an_admin_this_machine_needs_no_login() {
    let server = Server::start();
    let browser = Browser::of(&server);
    assert_eq!(browser.get("/admin").await.status, 200);
    let login = browser.get("/admin/login").await;
    assert_eq!(login.header("location"), "/admin");
}

#[tokio::test]
async fn once_an_admin_exists_pages_and_the_api_need_proof() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let stranger = Browser::of(&server);
    let answer = stranger.get("/admin/emails?status=dead&q=a%26b").await;
    assert_eq!(answer.status, 303);
    assert_eq!(
        answer.header("location"),
        "/admin/login?next=%2Fadmin%2Femails%3Fstatus%3Ddead%26q%3Da%2526b"
    );
    server.get("/admin/emails").await.is_problem(401);
    server.get("/v1/stats").await.is_problem(401);
    // Removing the last admin does not open the door again.
    server
        .admins
        .remove("ann", LastOperator::MayGo, &root())
        .await
        .unwrap();
    server.get("/v1/stats").await.is_problem(401);
}

#[tokio::test]
async fn a_key_opens_pages_as_before_but_a_browser_without_one_is_told_how_to_log_in() {
    let server = Server::start();
    let (_, secret) = server.key("ann", &["read"]).await;
    let answer = server.send(with_key("GET", "/admin/inbox", &secret)).await;
    assert_eq!(answer.status, 200);
    let login = Browser::of(&server).get("/admin/login").await;
    assert_eq!(login.status, 200);
    assert!(login.text().contains("posthaste admin create"));
}

#[tokio::test]
async fn the_right_password_leads_to_the_page_that_was_asked_for() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let browser = Browser::of(&server);
    let page = browser.get("/admin/login?next=/admin/audit").await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains(r#"value="/admin/audit""#));
    let answer = browser.send_login(" Ann ", PASSWORD, "/admin/audit").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), "/admin/audit");
    let cookie = answer.header("set-cookie");
    let (secret, attributes) = cookie.split_once("; ").unwrap();
    let secret = secret.strip_prefix("posthaste_session=").unwrap();
    assert_eq!(secret.len(), 64, "256 bits");
    assert_eq!(
        attributes,
        format!(
            "Path=/; Max-Age={}; HttpOnly; SameSite=Strict",
            SESSION.as_secs()
        )
    );
    let bytes = std::fs::read(server.database()).unwrap();
    let stored = bytes
        .windows(secret.len())
        .any(|window| window == secret.as_bytes());
    assert!(!stored, "only its hash is kept");
}

#[tokio::test]
async fn a_login_over_https_is_sent_over_https_only() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let request = local("POST", "/admin/login").header("x-forwarded-proto", "https");
    let fields = [("name", "ann"), ("password", PASSWORD)];
    let answer = server.send(form(request, &fields)).await;
    assert!(answer.header("set-cookie").ends_with("; Secure"));
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_password_look_the_same() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let browser = Browser::of(&server);
    let mut pages = Vec::new();
    for (name, password) in [
        ("ann", "wrong horse"),
        ("bob", PASSWORD),
        ("", ""),
        ("a\0b", "\0"),
    ] {
        let answer = browser.send_login(name, password, "").await;
        assert_eq!(answer.status, 401, "{name}");
        assert_eq!(answer.header("set-cookie"), "");
        let page = answer.text();
        assert!(page.contains("The name or the password is wrong."));
        assert!(!page.contains(PASSWORD), "a password is never shown");
        pages.push(page.replace(&format!("value=\"{name}\""), ""));
    }
    assert_eq!(pages[0], pages[1]);
}

#[tokio::test]
async fn who_tries_too_often_must_wait() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let browser = Browser::of(&server);
    let mut tries = 0;
    let answer = loop {
        let answer = browser.send_login("ann", "wrong horse", "").await;
        if answer.status != 401 {
            break answer;
        }
        tries += 1;
    };
    assert!((3..30).contains(&tries), "{tries}");
    assert_eq!(answer.status, 429);
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert!(answer.text().contains("Wait "));
    let right = browser.send_login("ann", PASSWORD, "").await;
    assert_eq!(right.status, 429, "also with the right password");
    assert_eq!(right.header("set-cookie"), "");
}

/// A login that a proxy passed on for someone.
async fn log_in_by_way_of(
    server: &Server,
    proxy: IpAddr,
    from: &str,
    name: &str,
    password: &str,
) -> Answer {
    let request = local("POST", "/admin/login").header("x-forwarded-for", from);
    let mut request = form(request, &[("name", name), ("password", password)]);
    let peer = SocketAddr::new(proxy, 50_000);
    request.extensions_mut().insert(ConnectInfo(peer));
    server.send(request).await
}

#[tokio::test]
async fn who_tries_too_often_shuts_nobody_else_out() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let try_from = async |proxy, from: &str, password: &str| {
        let answer = log_in_by_way_of(&server, proxy, from, "ann", password).await;
        answer.status.as_u16()
    };
    // What comes first was written by the client itself.
    let mut tries = 0;
    while try_from(PROXY, &format!("192.0.2.{tries}, 198.51.100.7"), "wrong").await == 401 {
        tries += 1;
        assert!(tries < 30, "other addresses do not help");
    }
    assert_eq!(try_from(PROXY, "198.51.100.7", PASSWORD).await, 429);
    assert_eq!(try_from(PROXY, "198.51.100.8", PASSWORD).await, 303);
    // Nobody else may say where someone comes from.
    let stranger = IpAddr::from([192, 0, 2, 1]);
    let mut tries = 0;
    while try_from(stranger, &format!("198.51.100.{tries}"), "wrong").await == 401 {
        tries += 1;
        assert!(tries < 30, "other addresses do not help");
    }
}

#[tokio::test]
async fn a_login_leads_nowhere_else() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    let browser = Browser::of(&server);
    for next in [
        "https://evil.example/admin",
        "//evil.example/admin",
        "/\\evil.example",
        "/admin/../../\\evil",
        "/admin/login",
    ] {
        let answer = browser.send_login("ann", PASSWORD, next).await;
        assert_eq!(answer.header("location"), "/admin", "{next}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_log_anyone_in() {
    let server = Server::start();
    an_admin(&server, "ann", Role::Operator).await;
    for (header, value) in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let request = local("POST", "/admin/login").header(header, value);
        let fields = [("name", "ann"), ("password", PASSWORD)];
        let answer = server.send(form(request, &fields)).await;
        answer.is_problem(403);
        assert_eq!(answer.header("set-cookie"), "");
    }
}

#[tokio::test]
async fn a_link_on_another_site_finds_the_login_by_way_of_a_page_of_ours() {
    let server = Server::start();
    let ann = Browser::logged_in(&server, "ann", Role::Viewer).await;
    // With such a link a browser sends no cookie.
    let request = Browser::of(&server)
        .request("GET", "/admin/emails?q=1")
        .header("sec-fetch-site", "cross-site");
    let page = server.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, 200);
    let leads_on = r#"<meta http-equiv="refresh" content="0;url=/admin/emails?q=1">"#;
    assert!(page.text().contains(leads_on), "{}", page.text());
    assert_eq!(ann.get("/admin/emails?q=1").await.status, 200);
}

#[tokio::test]
async fn logging_out_ends_the_session() {
    let server = Server::start();
    let viewer = Browser::logged_in(&server, "ann", Role::Viewer).await;
    let page = viewer.get("/admin").await.text();
    assert!(page.contains("admin:ann") && page.contains("/admin/logout"));
    let without_token = form(viewer.request("POST", "/admin/logout"), &[]);
    assert_eq!(viewer.send(without_token).await.status, 403);
    let answer = viewer.post("/admin/logout", &[]).await;
    assert_eq!(answer.header("location"), "/admin/login");
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("posthaste_session=; ") && cookie.contains("Max-Age=0"));
    let answer = viewer.get("/admin").await;
    assert_eq!(answer.status, 303, "the old cookie opens nothing");
}

#[tokio::test]
async fn a_session_that_ran_out_opens_nothing() {
    let server = Server::start();
    let ann = Browser::logged_in(&server, "ann", Role::Operator).await;
    let database = rusqlite::Connection::open(server.database()).unwrap();
    let sql = "UPDATE posthaste_admin_session SET expires_at = created_at";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    assert_eq!(ann.get("/admin").await.status, 303);
    let answer = ann.post("/admin/logout", &[]).await;
    assert_eq!(answer.header("location"), "/admin/login");
}

#[tokio::test]
async fn another_password_logs_everyone_of_that_name_out() {
    let server = Server::start();
    let ann = Browser::logged_in(&server, "ann", Role::Operator).await;
    let root = root();
    let changed = server
        .admins
        .change_password("ann", "battery staple", &root);
    changed.await.unwrap();
    assert_eq!(ann.get("/admin").await.status, 303);
    let mut ann = Browser::of(&server);
    assert_eq!(ann.log_in("ann", PASSWORD).await.status, 401);
    assert_eq!(ann.log_in("ann", "battery staple").await.status, 303);
}

#[tokio::test]
async fn the_login_page_needs_nothing_from_elsewhere() {
    let server = Server::start();
    server.key("ann", &["read"]).await;
    let page = Browser::of(&server).get("/admin/login").await;
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert!(!page.text().contains("http://") || page.text().contains("www.w3.org/2000/svg"));
}
