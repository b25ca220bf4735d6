//! Addresses that get nothing any more, by HTTP and on their page.

use posthaste_core::admin::Role;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::fixture::{Answer, Server, with_key};

const PATH: &str = "/v1/suppressions";

async fn add(server: &Server, body: Value) -> Answer {
    server.post(PATH, &body).await
}

fn addresses(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let data = body["data"].as_array().unwrap_or_else(|| panic!("{body}"));
    let address = |entry: &Value| entry["address"].as_str().unwrap().to_owned();
    data.iter().map(address).collect()
}

#[tokio::test]
async fn an_address_is_added_once_listed_and_removed_once() {
    let server = Server::start();
    let body = json!({"address": "Ann@Example.NET", "detail": " asked to be left alone "});
    let added = add(&server, body.clone()).await;
    assert_eq!(added.status, 201, "{}", added.text());
    let mut entry = added.json();
    assert!(entry["created_at"].is_string());
    entry["created_at"] = Value::Null;
    assert_eq!(
        entry,
        json!({
            "owner": "default", "address": "ann@example.net", "reason": "Suppressed",
            "detail": "asked to be left alone", "email_id": null, "created_at": null,
            "created_by": "loopback",
        })
    );
    let again = add(
        &server,
        json!({"address": "ann@example.net", "detail": "other"}),
    )
    .await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json(), added.json(), "it stays as it was");
    assert_eq!(addresses(&server.get(PATH).await), ["ann@example.net"]);

    let one = format!("{PATH}/ANN@example.net");
    assert_eq!(server.act("DELETE", &one).await.status, 204);
    server.act("DELETE", &one).await.is_problem(404);
    assert_eq!(addresses(&server.get(PATH).await), [""; 0]);
    let audit = server.get("/v1/audit").await.json();
    let actions: Vec<_> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["action"])
        .collect();
    assert_eq!(actions.first(), Some(&&json!("unsuppress")));
    assert_eq!(actions.last(), Some(&&json!("suppress")));
}

#[tokio::test]
async fn an_address_that_begins_like_another_is_not_taken_for_it() {
    let server = Server::start();
    for address in ["ann@example.network", "ann@example.net"] {
        let added = add(&server, json!({"address": address})).await;
        assert_eq!(
            (added.status.as_u16(), &added.json()["address"]),
            (201, &json!(address))
        );
    }
}

#[tokio::test]
async fn what_is_wrong_is_named_and_changes_nothing() {
    let server = Server::start();
    let cases: [(Value, u16, &[&str]); 9] = [
        (json!({}), 422, &["address"]),
        (json!({"address": ""}), 422, &["address"]),
        (json!({"address": "ann"}), 422, &["address"]),
        (
            json!({"address": "Ann <ann@example.net>"}),
            422,
            &["address"],
        ),
        (json!({"address": ["ann@example.net"]}), 422, &["address"]),
        (
            json!({"address": "ann@example.net", "detail": "x".repeat(501)}),
            422,
            &["detail"],
        ),
        (
            json!({"address": "ann@example.net", "owner": ""}),
            422,
            &["owner"],
        ),
        (
            json!({"address": "ann@example.net", "reson": "x"}),
            422,
            &["reson"],
        ),
        (json!(["ann@example.net"]), 422, &[]),
    ];
    for (body, status, fields) in cases {
        let answer = add(&server, body.clone()).await;
        assert_eq!(answer.is_problem(status).fields(), fields, "{body}");
    }
    server.post_text(PATH, "{").await.is_problem(400);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("after=zzz", "after"),
        ("adress=a", "adress"),
        ("q=a&q=b", "q"),
    ] {
        let answer = server.get(&format!("{PATH}?{query}")).await;
        assert_eq!(answer.is_problem(422).fields(), [field], "{query}");
    }
    let wrong = server
        .act("DELETE", &format!("{PATH}/a@b.example?ower=x"))
        .await;
    assert_eq!(wrong.is_problem(422).fields(), ["ower"]);
    for path in ["%ff", "nobody", "nobody@example.net"] {
        server
            .act("DELETE", &format!("{PATH}/{path}"))
            .await
            .is_problem(404);
    }
    assert_eq!(addresses(&server.get(PATH).await), [""; 0]);
}

#[tokio::test]
async fn the_list_is_searched_by_what_addresses_begin_with_and_comes_in_pages() {
    let server = Server::start();
    for address in [
        "ann@example.net",
        "anna@example.org",
        "bob@example.net",
        "cid@example.org",
    ] {
        add(&server, json!({"address": address})).await;
    }
    let found = async |query: &str| addresses(&server.get(&format!("{PATH}?{query}")).await);
    assert_eq!(found("q=AN").await, ["ann@example.net", "anna@example.org"]);
    assert_eq!(
        found("q=@example.org").await,
        ["anna@example.org", "cid@example.org"]
    );
    assert_eq!(found("q=zz").await, [""; 0]);
    let mut seen = Vec::new();
    let mut query = "limit=2".to_owned();
    for is_last in [false, true] {
        let page = server.get(&format!("{PATH}?{query}")).await;
        seen.extend(addresses(&page));
        let body = page.json();
        assert_eq!(body["has_more"], !is_last);
        assert_eq!(body["next"].is_null(), is_last);
        query = format!("limit=2&after={}", body["next"].as_str().unwrap_or(""));
    }
    let all = [
        "ann@example.net",
        "anna@example.org",
        "bob@example.net",
        "cid@example.org",
    ];
    assert_eq!(seen, all);
}

#[tokio::test]
async fn every_owner_has_a_list_of_its_own() {
    let server = Server::start();
    let (_, ann) = server.key("ann", &["send", "read"]).await;
    let (_, bob) = server.key("bob", &["send", "read"]).await;
    let (_, admin) = server.key("root", &["admin"]).await;
    let body = json!({"address": "x@example.net"});
    for secret in [&ann, &bob] {
        let added = server.send_json("POST", PATH, secret, &body).await;
        assert_eq!(added.status, 201, "{}", added.text());
    }
    let list = server.send(with_key("GET", PATH, &ann)).await;
    assert_eq!(list.json()["data"][0]["owner"], "ann");
    assert_eq!(addresses(&list).len(), 1, "bob's is not seen");
    // Of others one hears nothing, and does nothing to them.
    let others = format!("{PATH}?owner=bob");
    let refused = server.send(with_key("GET", &others, &ann)).await;
    assert_eq!(refused.is_problem(403).fields(), ["owner"]);
    let theirs = json!({"address": "y@example.net", "owner": "bob"});
    server
        .send_json("POST", PATH, &ann, &theirs)
        .await
        .is_problem(403);
    let one = format!("{PATH}/x@example.net");
    let delete = format!("{one}?owner=bob");
    server
        .send(with_key("DELETE", &delete, &ann))
        .await
        .is_problem(403);
    assert_eq!(
        server.send(with_key("DELETE", &one, &ann)).await.status,
        204
    );
    assert_eq!(
        addresses(&server.send(with_key("GET", PATH, &bob)).await).len(),
        1
    );
    // An admin sees all, and says whose list is meant.
    assert_eq!(
        addresses(&server.send(with_key("GET", PATH, &admin)).await).len(),
        1
    );
    server
        .send(with_key("DELETE", &one, &admin))
        .await
        .is_problem(404);
    let added = server.send_json("POST", PATH, &admin, &theirs).await;
    assert_eq!(
        (added.status.as_u16(), &added.json()["owner"]),
        (201, &json!("bob"))
    );
    assert_eq!(
        addresses(&server.send(with_key("GET", &others, &admin)).await).len(),
        2
    );
    assert_eq!(
        server
            .send(with_key("DELETE", &delete, &admin))
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn reading_and_writing_need_their_scopes() {
    let server = Server::start();
    let (_, read) = server.key("ann", &["read"]).await;
    let (_, send) = server.key("ann", &["send"]).await;
    let body = json!({"address": "x@example.net"});
    server
        .send_json("POST", PATH, &read, &body)
        .await
        .is_problem(403);
    server
        .send(with_key("GET", PATH, &send))
        .await
        .is_problem(403);
    let one = format!("{PATH}/x@example.net");
    server
        .send(with_key("DELETE", &one, &read))
        .await
        .is_problem(403);
    server.get(PATH).await.is_problem(401);
    assert_eq!(
        server.send_json("POST", PATH, &send, &body).await.status,
        201
    );
    assert_eq!(
        server.send(with_key("DELETE", &one, &send)).await.status,
        204
    );
}

#[tokio::test]
async fn the_page_lists_searches_adds_and_removes() {
    let server = Server::start();
    server
        .sent_as("m-1", json!({"to": "bob@example.net"}))
        .await;
    server.hears("complained m-1").await;
    let olga = Browser::logged_in(&server, "olga", Role::Operator).await;
    let page = olga.get("/admin/suppressions").await.text();
    for part in [
        "bob@example.net",
        "SpamComplaint",
        "550 5.1.1",
        "Remove",
        "Add an address",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    let fields = [("address", "ann@<b>"), ("detail", "why"), ("owner", "shop")];
    let refused = olga.post("/admin/suppressions", &fields).await;
    assert_eq!(refused.status, 422);
    let text = refused.text();
    assert!(
        text.contains("Nothing was added: address:") && text.contains("value=\"shop\""),
        "{text}"
    );
    assert!(!text.contains("ann@<b>"), "escaped");

    let fields = [
        ("address", "ann@example.net"),
        ("detail", "<i>why</i>"),
        ("owner", "shop"),
    ];
    assert_eq!(olga.post("/admin/suppressions", &fields).await.status, 303);
    let found = olga.get("/admin/suppressions?q=ann").await.text();
    assert!(
        found.contains("&lt;i&gt;why&lt;/i&gt;") && found.contains("admin:olga"),
        "{found}"
    );
    assert!(!found.contains("bob@example.net"));
    let fields = [("address", "ann@example.net"), ("owner", "shop")];
    let path = "/admin/suppressions/remove";
    assert_eq!(olga.post(path, &fields).await.status, 303);
    assert_eq!(olga.post(path, &fields).await.status, 404);
    assert!(
        !olga
            .get("/admin/suppressions")
            .await
            .text()
            .contains("ann@example.net")
    );

    let vera = Browser::logged_in(&server, "vera", Role::Viewer).await;
    let page = vera.get("/admin/suppressions").await.text();
    assert!(
        page.contains("bob@example.net") && !page.contains("Remove"),
        "{page}"
    );
}

#[tokio::test]
async fn the_page_shows_an_owner_only_its_own() {
    let server = Server::start();
    add(
        &server,
        json!({"address": "ann@example.net", "owner": "ann"}),
    )
    .await;
    add(
        &server,
        json!({"address": "bob@example.net", "owner": "bob"}),
    )
    .await;
    let (_, ann) = server.key("ann", &["read"]).await;
    let page = server
        .send(with_key("GET", "/admin/suppressions", &ann))
        .await
        .text();
    assert!(page.contains("ann@example.net") && !page.contains("bob@example.net"));
    let others = "/admin/suppressions?owner=bob";
    assert_eq!(server.send(with_key("GET", others, &ann)).await.status, 403);
}
