//! A template as it stands in a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use posthaste_core::email::PolicyChoice;
use posthaste_core::template::TemplateContent;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::exit::UsageError;

/// What a file may say. Bodies may stand in files of their own, named from its folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    #[serde(default)]
    description: String,
    from: Option<String>,
    #[serde(default)]
    subject: String,
    html: Option<String>,
    html_file: Option<PathBuf>,
    text: Option<String>,
    text_file: Option<PathBuf>,
    priority: Option<String>,
    retry_policy: Option<Value>,
    route: Option<String>,
    #[serde(default)]
    sample: Map<String, Value>,
}

/// Whether this is the name of a file, not of a template.
pub(super) fn is_file(given: &str) -> bool {
    let ending = Path::new(given).extension();
    ending.is_some_and(|ending| ending == "toml" || ending == "json")
}

/// Reads a template and its name.
pub(super) fn read(path: &Path) -> anyhow::Result<(String, TemplateContent)> {
    let text = text_of(path)?;
    let wrong = |error: &dyn std::fmt::Display| {
        UsageError(format!("{}: {}", path.display(), error.to_string().trim()))
    };
    let written: Written = if path.extension().is_some_and(|ending| ending == "toml") {
        toml::from_str(&text).map_err(|error| wrong(&error))?
    } else {
        serde_json::from_str(&text).map_err(|error| wrong(&error))?
    };
    let default = TemplateContent::default();
    let priority = written.priority.map(|text| text.parse()).transpose();
    let priority = priority.map_err(|error| wrong(&format!("priority: {error}")))?;
    let policy = written.retry_policy.map(policy_of).transpose();
    let policy = policy.map_err(|error| wrong(&format!("retry_policy: {error}")))?;
    let body_of = |name: &str, text: Option<String>, file: Option<PathBuf>| match (text, file) {
        (Some(_), Some(_)) => {
            let both = format!("{name} and {name}_file are both given; leave out one of them");
            Err(anyhow::Error::from(wrong(&both)))
        }
        (text, None) => Ok(text.and_then(body)),
        (None, Some(file)) => {
            let folder = path.parent().unwrap_or(Path::new(""));
            text_of(&folder.join(file)).map(body)
        }
    };
    let content = TemplateContent {
        description: written.description,
        from: written.from,
        subject: written.subject,
        html: body_of("html", written.html, written.html_file)?,
        text: body_of("text", written.text, written.text_file)?,
        priority: priority.unwrap_or(default.priority),
        policy: policy.unwrap_or(default.policy),
        route: written.route,
        sample: written.sample,
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((written.name.unwrap_or(stem.into_owned()), content))
}

/// A policy by name, or one of its own.
fn policy_of(written: Value) -> Result<PolicyChoice, serde_json::Error> {
    match written {
        Value::String(name) => Ok(PolicyChoice::Named(name)),
        own => serde_json::from_value(own).map(|own| PolicyChoice::Own(Box::new(own))),
    }
}

/// A body; an empty one is none.
pub(super) fn body(text: String) -> Option<String> {
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The text in a file; `-` is standard input.
pub(super) fn text_of(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin());
        return text.context("cannot read standard input");
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The object in a JSON file.
pub(super) fn object_of(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = text_of(path)?;
    serde_json::from_str(&text).map_err(|error| {
        let message = format!("{} is not a JSON object: {error}", path.display());
        UsageError(message).into()
    })
}
