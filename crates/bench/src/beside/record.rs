//! What the scripts write down, as figures.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::claims::FORCED;
use crate::figures::{Figure, Kind, Who};

/// How the names of records begin, and whose they are.
const NAMES: [(&str, &str); 6] = [
    ("postfix", "Postfix"),
    ("apalis", "apalis + lettre"),
    ("graphile-worker", "graphile-worker"),
    ("pg-boss", "pg-boss"),
    ("celery", "Celery"),
    ("dramatiq", "Dramatiq"),
];

/// How they end, and which kind of work that is. Others, such as inserting jobs without HTTP, are
/// not held against anything of ours.
const KINDS: [(&str, Kind); 3] = [
    (": end to end", Kind::Live),
    (": drain to sink", Kind::Drain),
    (": accept only (held in queue)", Kind::Accept),
];

/// Everything in a file of records; of those with the same name the last.
pub(super) fn figures(path: &Path) -> anyhow::Result<Vec<Figure>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut figures: Vec<Figure> = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).context("a record is not JSON")?;
        let Some(figure) = figure(&record) else {
            continue;
        };
        figures.retain(|f| (&f.who, &f.name, f.kind) != (&figure.who, &figure.name, figure.kind));
        figures.push(figure);
    }
    Ok(figures)
}

fn figure(record: &Value) -> Option<Figure> {
    let name = record["name"].as_str()?;
    let (stem, kind) = KINDS
        .iter()
        .find_map(|(end, kind)| Some((name.strip_suffix(end)?, *kind)))?;
    let (start, peer) = NAMES.iter().find(|(start, _)| stem.starts_with(start))?;
    let name = readable(stem.strip_prefix(start)?);
    let runs = record["runs"].as_array()?.iter().filter_map(Value::as_f64);
    let who = Who::Peer((*peer).to_owned());
    let mut figure = Figure::rate(kind, who, &name, "email/s", runs.collect());
    if let Some(shares) = record["cpu"].as_object() {
        let shares = shares.iter();
        figure.processors = shares
            .filter_map(|(name, share)| Some((name.clone(), share.as_f64()?)))
            .collect();
    }
    Some(figure)
}

/// The settings of a peer in words, without what stands in parentheses.
fn readable(settings: &str) -> String {
    let settings = settings.split('(').next().unwrap_or_default();
    let settings = settings.replace("+ TCP_NODELAY shim", FORCED);
    let words = settings.split_whitespace().filter(|word| *word != "poll");
    let parts: Vec<String> = words
        .map(|word| match word.split_once('=') {
            Some(("concurrency", count)) => format!("{count} connections,"),
            Some(("batch_size", count)) => format!("batches of {count},"),
            Some(("s", count)) => format!("with {count} sessions,"),
            _ => word.to_owned(),
        })
        .collect();
    match parts.join(" ").trim_end_matches(',') {
        "" => "as shipped".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_becomes_a_figure_of_its_kind() {
        let record = json!({"name": "apalis concurrency=32 batch_size=500 poll + TCP_NODELAY shim: drain to sink",
            "unit": "msg/s", "runs": [4056.0, 3914.0, 4255.0], "cpu": {"rust": 66, "sink": 35}});
        let figure = figure(&record).expect("a figure");
        assert_eq!(figure.kind, Kind::Drain);
        assert_eq!(figure.who, Who::Peer("apalis + lettre".to_owned()));
        assert_eq!(
            figure.name,
            "32 connections, batches of 500, TCP_NODELAY forced"
        );
        assert_eq!(figure.median(), 4056.0);
        assert_eq!(figure.processors.len(), 2);
    }

    #[test]
    fn settings_are_told_in_words() {
        let said = readable(" tuned for two cores s=10 (10 deliveries at once, processes kept)");
        assert_eq!(said, "tuned for two cores with 10 sessions");
        assert_eq!(readable(" default s=20"), "default with 20 sessions");
        assert_eq!(readable(""), "as shipped");
    }

    #[test]
    fn records_of_other_work_are_left_out() {
        for name in [
            "apalis: push clients=16 batch=1",
            "probe x: end to end",
            "PG insert",
        ] {
            assert!(
                figure(&json!({"name": name, "runs": [1.0]})).is_none(),
                "{name}"
            );
        }
    }
}
