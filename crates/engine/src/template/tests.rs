//! What templates come to, and what they cannot do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_core::email::PolicyChoice;
use posthaste_core::retry_policy::RetryPolicy;
use posthaste_core::template::TemplateContent;
use serde_json::{Map, Value, json};

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn content(subject: &str, html: Option<&str>, text: Option<&str>) -> TemplateContent {
    TemplateContent {
        subject: subject.into(),
        html: html.map(str::to_owned),
        text: text.map(str::to_owned),
        ..TemplateContent::default()
    }
}

fn render(content: &TemplateContent, values: Value) -> Result<Rendered, Vec<(String, String)>> {
    let named = |errors: Vec<FieldError>| {
        errors
            .into_iter()
            .map(|error| (error.field, error.message))
            .collect()
    };
    Compiled::new(&render::environment(), content)
        .and_then(|compiled| compiled.render(object(values).iter()))
        .map_err(named)
}

/// What a text comes to.
fn text(source: &str, values: Value) -> Result<String, Vec<(String, String)>> {
    render(&content("s", None, Some(source)), values).map(|rendered| rendered.text.unwrap())
}

#[track_caller]
fn fields(result: Result<impl std::fmt::Debug, Vec<(String, String)>>) -> Vec<String> {
    let errors = result.unwrap_err();
    errors.into_iter().map(|(field, _)| field).collect()
}

fn problems(content: &TemplateContent) -> Vec<String> {
    let errors = check::content(&render::environment(), content, &Policies::default());
    let fields = errors.into_iter().map(|error| error.field);
    fields.collect()
}

#[test]
fn html_is_escaped_and_the_rest_is_not() {
    let template = content("{{ name }}", Some("<p>{{ name }}</p>"), Some("{{ name }}"));
    let rendered = render(&template, json!({ "name": "<Ann & Bob>" })).unwrap();
    assert_eq!(rendered.subject, "<Ann & Bob>");
    assert_eq!(rendered.html.unwrap(), "<p>&lt;Ann &amp; Bob&gt;</p>");
    assert_eq!(rendered.text.unwrap(), "<Ann & Bob>");
}

#[test]
fn loops_filters_and_nothing_for_null() {
    let source =
        "{% for line in lines %}{{ loop.index }}. {{ line.name|upper }}\n{% endfor %}{{ note }}!";
    let values = json!({ "lines": [{"name": "ink"}, {"name": "pen"}], "note": null });
    assert_eq!(text(source, values).unwrap(), "1. INK\n2. PEN\n!");
    let values = json!({ "names": ["a", 2, "c"], "text": "1-2" });
    let source = "{{ names|join(', ') }} {{ text|replace('-', '+') }} {{ text is defined }}";
    assert_eq!(text(source, values).unwrap(), "a, 2, c 1+2 True");
}

#[test]
fn lines_stay_as_they_are_written_unless_a_tag_says_otherwise() {
    let values = json!({ "vip": true });
    let kept = "Dear {% if vip %}Ann{% endif %}\n  {% if vip %}\nhello\n{% endif %}\n";
    assert_eq!(
        text(kept, values.clone()).unwrap(),
        "Dear Ann\n  \nhello\n\n"
    );
    let trimmed = "{% if vip -%}\nhello\n{%- endif %}\n";
    assert_eq!(text(trimmed, values).unwrap(), "hello\n");
}

#[test]
fn every_missing_variable_is_named() {
    let template = content(
        "Order {{ number }}",
        Some("{{ customer.name }} {{ total }}"),
        Some("{{ number }} {{ nick|default('you') }}"),
    );
    let errors = render(&template, json!({ "customer": {} })).unwrap_err();
    let expected = [
        ("variables.number", "subject"),
        ("variables.customer.name", "html"),
    ];
    for (field, part) in expected {
        let message = format!("is missing; the {part} of the template needs it");
        assert!(errors.contains(&(field.into(), message)), "{errors:?}");
    }
    let several = text(
        "{{ a }}{{ b }}{% for x in c %}{{ x }}{% endfor %}",
        json!({}),
    );
    assert_eq!(
        fields(several),
        ["variables.a", "variables.b", "variables.c"]
    );
    let inside = text(
        "{% for x in c %}{{ x.y }}{% endfor %}",
        json!({ "c": [{"y": 1}, {}] }),
    );
    assert_eq!(fields(inside), ["variables.c[1].y"]);
}

#[test]
fn a_subject_is_one_line() {
    let template = content("Hello {{ name }}", None, Some("x"));
    let injected = render(&template, json!({ "name": "Ann\r\nBcc: eve@example.org" }));
    assert_eq!(fields(injected), ["subject"]);
    let template = content("{% if vip %}\nDear\n{% endif %}", None, Some("x"));
    assert_eq!(
        render(&template, json!({ "vip": true })).unwrap().subject,
        "Dear"
    );
}

#[test]
fn what_has_no_end_is_stopped() {
    let big = "y".repeat(100_000);
    let list: Vec<u32> = (0..10_000).collect();
    for source in [
        // Steps.
        "{% for a in list %}{% for b in list %}{% endfor %}{% endfor %}",
        // What is written.
        "{% for a in list %}{{ big }}{% endfor %}",
        "{% for a in list %}{{ big ~ big ~ big }}{% endfor %}",
        // What filters make.
        "{{ list|join(big)|length }}",
        "{{ big|replace('y', big)|length }}",
        "{{ big|tojson|tojson|tojson|tojson|tojson|tojson|length }}{{ list|join(big) }}",
    ] {
        let values = json!({ "big": big, "list": list });
        assert_eq!(fields(text(source, values)), ["text"], "{source}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(200), ")".repeat(200));
    assert_eq!(fields(text(&deep, json!({}))), ["text"]);
    let huge = "z".repeat(600_000);
    assert_eq!(
        fields(text("{{ huge }}", json!({ "huge": huge }))),
        ["variables"]
    );
}

#[test]
fn what_makes_much_out_of_little_is_not_there() {
    for source in [
        "{% for row in items|batch(4000000000, '') %}{% endfor %}",
        "{{ 'x' * 4000000000 }}",
        "{% set a = a ~ a %}",
        "{{ {'a': 1}|tojson(indent=100000000) }}",
        "{{ range(100000)|list|length }}",
        "{{ items|sum(start=[]) }}",
        "{{ items|list|string }}",
        "{{ 'x'|indent(1000000) }}",
        "{{ '%1000000s'|format(1) }}",
    ] {
        let values = json!({ "items": [1, 2, 3], "a": "a" });
        assert_eq!(fields(text(source, values)), ["text"], "{source}");
    }
}

#[test]
fn numbers_can_be_multiplied_and_texts_cut() {
    let source = "{{ price|times(3)|round(2) }} {{ n|times(2) }} {{ 'hello world'|truncate(6) }}";
    let values = json!({ "price": 1.25, "n": 4 });
    assert_eq!(text(source, values).unwrap(), "3.75 8 hello…");
    assert_eq!(fields(text("{{ 'a'|times(3) }}", json!({}))), ["text"]);
}

#[test]
fn nothing_else_can_be_reached() {
    for source in [
        "{% include 'text' %}",
        "{% include 'html' %}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{{ debug() }}",
        "{{ 'a'|pprint }}",
    ] {
        assert_eq!(fields(text(source, json!({}))).len(), 1, "{source}");
    }
}

#[test]
fn syntax_errors_name_the_line() {
    let template = content("{{ a", Some("<p>\n{% if %}"), Some("fine"));
    let errors = render(&template, json!({})).unwrap_err();
    assert_eq!(errors[0].0, "subject");
    assert_eq!(errors[1].0, "html");
    assert!(errors[1].1.starts_with("line 2: "), "{errors:?}");
}

#[test]
fn the_variables_of_all_parts_are_found() {
    let template = content(
        "{{ b.c }}",
        Some("{% for own in list %}{{ own }}{{ z }}{% endfor %}"),
        Some("{{ a }}"),
    );
    let compiled = Compiled::new(&render::environment(), &template);
    assert_eq!(compiled.ok().unwrap().variables(), ["a", "b", "list", "z"]);
}

#[test]
fn a_template_is_checked_before_it_is_saved() {
    assert_eq!(problems(&content("s", None, Some("t"))), [""; 0]);
    assert_eq!(problems(&content(" ", None, None)), ["subject", "text"]);
    assert_eq!(
        problems(&content("{{", Some("{%"), None)),
        ["subject", "html"]
    );
    assert_eq!(problems(&content("s", None, Some("{{ a|b|c }}"))), ["text"]);
    assert_eq!(
        problems(&content("s", None, Some("{{ a }}{{ f() }}"))),
        ["text"]
    );
    assert_eq!(
        problems(&content("s\0", None, Some("\0"))),
        ["text", "subject"]
    );
    let large = "x".repeat(1024 * 1024 + 1);
    assert_eq!(problems(&content("s", Some(&large), None)), ["html"]);
    let bad = TemplateContent {
        from: Some("nobody".into()),
        policy: PolicyChoice::Named("emial".into()),
        ..content("s", None, Some("t"))
    };
    assert_eq!(problems(&bad), ["from", "retry_policy"]);
    let often = RetryPolicy {
        max_attempts: 4,
        ..RetryPolicy::notification()
    };
    let bad = TemplateContent {
        policy: PolicyChoice::Own(Box::new(often)),
        ..content("s", None, Some("t"))
    };
    assert_eq!(problems(&bad), ["retry_policy.max_attempts"]);
}
