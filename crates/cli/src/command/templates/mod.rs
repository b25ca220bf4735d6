//! Templates: what emails are made from.

mod file;

use std::path::{Path, PathBuf};

use posthaste_core::email::PolicyChoice;
use posthaste_core::port::TemplateSaved;
use posthaste_core::template::{Template, TemplateContent};
use posthaste_engine::template::NotSaved;
use posthaste_engine::{FieldError, Templates};
use serde_json::{Map, Value, json};

use self::file::{body, is_file, object_of, text_of};
use super::policy;
use crate::arguments::{Global, PushArguments, TemplatesCommand};
use crate::exit::{Exit, NotFound, UsageError};
use crate::output;
use crate::wiring::{self, Desk};

pub(crate) async fn run(global: &Global, command: TemplatesCommand) -> anyhow::Result<Exit> {
    let desk = match &command {
        TemplatesCommand::Push(_) => wiring::open_or_create_desk(global).await?,
        _ => wiring::open_desk(global).await?,
    };
    let templates = desk.intake.templates();
    match command {
        TemplatesCommand::List => list(global, &templates.list().await?),
        TemplatesCommand::Show { name, version } => {
            let template = find(templates, &name, version).await?;
            show(global, templates, &template);
        }
        TemplatesCommand::Push(arguments) => return push(global, &desk, *arguments).await,
        TemplatesCommand::Preview {
            template,
            variables,
            variables_file,
        } => preview(global, templates, &template, &variables, variables_file).await?,
        TemplatesCommand::Delete { name } => {
            if !templates.delete(&name, &desk.actor).await? {
                return Err(NotFound(templates.advice(&name).await?).into());
            }
            if global.json {
                output::json(&json!({"name": name, "result": "deleted"}));
            } else {
                output::line(&format!("Template {name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn find(templates: &Templates, name: &str, version: Option<u32>) -> anyhow::Result<Template> {
    if let Some(template) = templates.find(name, version).await? {
        return Ok(template);
    }
    let message = match version {
        Some(version) if templates.find(name, None).await?.is_some() => {
            format!("template {name} has no version {version}")
        }
        _ => templates.advice(name).await?,
    };
    Err(NotFound(message).into())
}

fn list(global: &Global, templates: &[Template]) {
    if global.json {
        for template in templates {
            output::json(&as_json(template));
        }
        return;
    }
    let rows: Vec<_> = templates
        .iter()
        .map(|template| {
            vec![
                template.name.clone(),
                template.version.to_string(),
                policy_name(&template.content.policy),
                template.content.priority.to_string(),
                format!("{:.0}", template.saved_at),
                output::short(&template.content.subject, 40),
                output::short(&template.content.description, 40),
            ]
        })
        .collect();
    let headings = [
        "NAME",
        "VERSION",
        "RETRIES",
        "PRIORITY",
        "SAVED",
        "SUBJECT",
        "DESCRIPTION",
    ];
    output::table(&headings, &rows);
}

fn policy_name(policy: &PolicyChoice) -> String {
    match policy {
        PolicyChoice::Named(name) => name.clone(),
        PolicyChoice::Own(own) => format!("own, {} attempts", own.max_attempts),
    }
}

fn as_json(template: &Template) -> Value {
    let content = &template.content;
    json!({
        "name": template.name, "version": template.version, "description": content.description,
        "from": content.from, "subject": content.subject, "html": content.html, "text": content.text,
        "priority": content.priority, "retry_policy": content.policy, "route": content.route, "sample": content.sample,
        "saved_at": template.saved_at, "saved_by": template.saved_by,
    })
}

fn show(global: &Global, templates: &Templates, template: &Template) {
    let variables = templates.variables(&template.content);
    if global.json {
        let mut shown = as_json(template);
        shown["variables"] = json!(variables);
        output::json(&shown);
        return;
    }
    let content = &template.content;
    let saved = format!("{:.0} by {}", template.saved_at, template.saved_by);
    let facts = [
        (
            "Template",
            format!("{}, version {}", template.name, template.version),
        ),
        ("For", content.description.clone()),
        ("Saved", saved),
        ("From", content.from.clone().unwrap_or_default()),
        ("Priority", content.priority.to_string()),
        (
            "Retries",
            policy::in_words(templates.policies(), &content.policy),
        ),
        ("Variables", variables.join(", ")),
        ("Subject", content.subject.clone()),
    ];
    for (name, value) in facts {
        if !value.is_empty() {
            output::line(&format!("{name:<10} {}", output::short(&value, 1000)));
        }
    }
    bodies(content.text.as_deref(), content.html.as_deref());
}

fn bodies(text: Option<&str>, html: Option<&str>) {
    for (name, body) in [("Text", text), ("HTML", html)] {
        if let Some(body) = body {
            output::line(&format!("\n--- {name}"));
            for line in body.lines() {
                output::line(&output::short(line, usize::MAX));
            }
        }
    }
}

async fn push(global: &Global, desk: &Desk, arguments: PushArguments) -> anyhow::Result<Exit> {
    let templates = desk.intake.templates();
    let (name, mut content) = if is_file(&arguments.template) {
        let (name, content) = file::read(Path::new(&arguments.template))?;
        (arguments.name.clone().unwrap_or(name), content)
    } else {
        let saved = templates.find(&arguments.template, None).await?;
        let content = saved.map_or_else(TemplateContent::default, |saved| saved.content);
        (arguments.template.clone(), content)
    };
    let based_on = arguments.based_on;
    apply(arguments, &mut content)?;
    let saved = templates.save(&name, content, based_on, &desk.actor).await;
    let (template, result) = match saved.map_err(usage)? {
        TemplateSaved::Saved(template) => (template, "saved"),
        TemplateSaved::Unchanged(template) => (template, "unchanged"),
        TemplateSaved::Conflict(0) => anyhow::bail!("there is no template {name} (any more)"),
        TemplateSaved::Conflict(newest) => anyhow::bail!(
            "template {name} is version {newest} by now: look at it, then push with --based-on {newest}"
        ),
    };
    let version = template.version;
    if global.json {
        output::json(&json!({"name": name, "version": version, "result": result}));
        return Ok(Exit::Ok);
    }
    output::line(&match result {
        "saved" => format!("Template {name} is version {version} now."),
        _ => format!("Template {name} says so already, in version {version}."),
    });
    let retries = policy::in_words(templates.policies(), &template.content.policy);
    output::line(&format!("Retries: {retries}"));
    Ok(Exit::Ok)
}

/// What the flags say counts more than what was there.
fn apply(arguments: PushArguments, content: &mut TemplateContent) -> anyhow::Result<()> {
    if let Some(description) = arguments.description {
        content.description = description;
    }
    if arguments.from.is_some() {
        content.from = arguments.from;
    }
    if let Some(subject) = arguments.subject {
        content.subject = subject;
    }
    let read = |text: Option<String>, file: Option<PathBuf>| match file {
        Some(path) => text_of(&path).map(Some),
        None => Ok(text),
    };
    if let Some(html) = read(arguments.html, arguments.html_file)? {
        content.html = body(html);
    }
    if let Some(text) = read(arguments.text, arguments.text_file)? {
        content.text = body(text);
    }
    if let Some(priority) = arguments.priority {
        let priority = priority.parse();
        content.priority = priority.map_err(|error| UsageError(format!("--priority: {error}")))?;
    }
    if let Some(policy) = arguments.policy {
        content.policy = PolicyChoice::Named(policy);
    }
    if let Some(route) = arguments.route {
        content.route = Some(route);
    }
    if let Some(path) = arguments.sample_file {
        content.sample = object_of(&path)?;
    }
    Ok(())
}

async fn preview(
    global: &Global,
    templates: &Templates,
    template: &str,
    variables: &[String],
    variables_file: Option<PathBuf>,
) -> anyhow::Result<()> {
    let content = if is_file(template) {
        file::read(Path::new(template))?.1
    } else {
        find(templates, template, None).await?.content
    };
    let mut values = match variables_file {
        Some(path) => object_of(&path)?,
        None if variables.is_empty() => content.sample.clone(),
        None => Map::new(),
    };
    values.extend(given(variables)?);
    let rendered = templates.render(&content, &values);
    let rendered = rendered.map_err(|errors| UsageError(in_lines(&errors)))?;
    if global.json {
        output::json(&json!({
            "from": content.from, "subject": rendered.subject, "html": rendered.html, "text": rendered.text,
            "variables": templates.variables(&content),
        }));
    } else {
        let from = content.from.as_deref();
        output::line(&format!(
            "From: {}",
            from.map_or("(each request names it)".to_owned(), |from| output::short(
                from, 400
            ))
        ));
        output::line(&format!("Subject: {}", rendered.subject));
        bodies(rendered.text.as_deref(), rendered.html.as_deref());
    }
    Ok(())
}

/// Variables as they are written at the command line: JSON where it is such, text otherwise.
pub(super) fn given(variables: &[String]) -> Result<Map<String, Value>, UsageError> {
    variables
        .iter()
        .map(|variable| {
            let (name, value) = variable.split_once('=').ok_or_else(|| {
                UsageError(format!("`{variable}` is not a variable; write name=value"))
            })?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        })
        .collect()
}

fn usage(error: NotSaved) -> anyhow::Error {
    match error {
        NotSaved::Invalid(errors) => UsageError(in_lines(&errors)).into(),
        NotSaved::Store(error) => error.into(),
    }
}

/// What is wrong, one field per line.
pub(super) fn in_lines(errors: &[FieldError]) -> String {
    let line = |error: &FieldError| format!("{} {}", error.field, error.message);
    let lines: Vec<_> = errors.iter().map(line).collect();
    lines.join("\n           ")
}
