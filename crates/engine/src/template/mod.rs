//! What emails are made from: templates, kept in all their versions, checked before they are saved
//! and rendered when an email is taken in.
//!
//! Rendering can neither read nor reach anything but the variables it is given, and always comes to
//! an end.

mod cache;
mod check;
mod filter;
mod grammar;
mod part;
mod render;
#[cfg(test)]
mod tests;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use minijinja::Environment;
use posthaste_core::port::{
    Actor, SharedStore, StoreError, StoreResult, TemplateSaved, TemplateVersion,
};
use posthaste_core::template::{Template, TemplateContent, is_name};
use serde_json::{Map, Value};
use tokio::runtime::{Handle, RuntimeFlavor};

use self::cache::{Cache, Known};
use self::check::LONGEST_SUBJECT;
pub use self::render::{Compiled, Rendered};
use crate::{FieldError, Policies};

/// How long what was read counts as new: other instances' changes act after this time.
const NEW: Duration = Duration::from_secs(1);

/// Why a template was not saved.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotSaved {
    /// Something about it is wrong.
    #[error("the template is not valid")]
    Invalid(Vec<FieldError>),
    /// The store could not keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A template that emails can be made from right away.
pub struct ReadyTemplate {
    /// What is kept.
    pub template: Template,
    compiled: Result<Compiled, Vec<FieldError>>,
}

impl ReadyTemplate {
    /// Renders it, or says all that is missing or wrong.
    pub fn render<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a Value)> + Clone,
    ) -> Result<Rendered, Vec<FieldError>> {
        match &self.compiled {
            Ok(compiled) => compiled.render(values),
            Err(errors) => Err(errors.clone()),
        }
    }
}

/// The templates.
pub struct Templates {
    store: SharedStore,
    policies: Arc<Policies>,
    environment: Environment<'static>,
    ready: Cache<ReadyTemplate>,
    /// Every name, under the empty one.
    names: Cache<Vec<String>>,
}

impl Templates {
    /// The templates of this store.
    #[must_use]
    pub fn new(store: SharedStore, policies: Arc<Policies>) -> Self {
        Self {
            store,
            policies,
            environment: render::environment(),
            ready: Cache::new(NEW),
            names: Cache::new(NEW),
        }
    }

    /// The retry policies that templates can name.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Everything that is wrong with a template.
    #[must_use]
    pub fn check(&self, name: &str, content: &TemplateContent) -> Vec<FieldError> {
        let mut errors = check::name(name);
        errors.extend(beside_others(|| {
            check::content(&self.environment, content, &self.policies)
        }));
        errors
    }

    /// Checks a template and saves it. Emails are made from it at once; by other instances within
    /// about a second.
    pub async fn save(
        &self,
        name: &str,
        content: TemplateContent,
        based_on: Option<u32>,
        actor: &Actor,
    ) -> Result<TemplateSaved, NotSaved> {
        let errors = self.check(name, &content);
        if !errors.is_empty() {
            return Err(NotSaved::Invalid(errors));
        }
        let saved = self.store.save_template(name, content, based_on, actor);
        let saved = saved.await?;
        self.forget(name).await;
        Ok(saved)
    }

    /// Deletes a template; `false` if there is none.
    pub async fn delete(&self, name: &str, actor: &Actor) -> StoreResult<bool> {
        let deleted = self.store.delete_template(name, actor).await?;
        self.forget(name).await;
        Ok(deleted)
    }

    /// A template: this version, or the newest.
    pub async fn find(&self, name: &str, version: Option<u32>) -> StoreResult<Option<Template>> {
        if !is_name(name) {
            return Ok(None);
        }
        self.store.template(name, version).await
    }

    /// The newest version of every template, by name.
    pub async fn list(&self) -> StoreResult<Vec<Template>> {
        self.store.templates().await
    }

    /// The versions of a template, newest first.
    pub async fn versions(&self, name: &str) -> StoreResult<Vec<TemplateVersion>> {
        self.store.template_versions(name).await
    }

    /// The newest version, ready to be rendered; at most about a second old.
    pub async fn ready(&self, name: &str) -> StoreResult<Option<Arc<ReadyTemplate>>> {
        if !is_name(name) {
            return Ok(None);
        }
        if let Known::Answer(answer) = self.ready.get(name) {
            return Ok(answer);
        }
        let _turn = self.ready.turn().await;
        // Someone may have read it while we waited.
        let before = match self.ready.get(name) {
            Known::Answer(answer) => return Ok(answer),
            Known::Old(before) => before,
        };
        let found = self.store.template(name, None).await?;
        let ready = found.map(|template| match before {
            Some(before) if before.template == template => before,
            _ => Arc::new(self.prepare(template)),
        });
        self.ready.keep(name, ready.clone());
        Ok(ready)
    }

    /// What to do about a name that no template has: names the nearest, or says how to make one.
    pub async fn advice(&self, name: &str) -> StoreResult<String> {
        let names = self.names().await?;
        let nearest = names
            .iter()
            .map(|known| (strsim::damerau_levenshtein(name, known), known))
            .min()
            .filter(|(distance, _)| *distance <= name.len().div_ceil(3).max(1));
        let shown = name.escape_debug();
        Ok(match nearest {
            Some((_, nearest)) => {
                format!("there is no template called `{shown}`; did you mean `{nearest}`?")
            }
            None => format!(
                "there is no template called `{shown}`; make one with `posthaste templates push`, or \
                 on the dashboard"
            ),
        })
    }

    /// Every name; what was made in the last second may be left out.
    async fn names(&self) -> StoreResult<Arc<Vec<String>>> {
        if let Known::Answer(Some(names)) = self.names.get("") {
            return Ok(names);
        }
        let templates = self.store.templates().await?;
        let names: Arc<Vec<_>> = Arc::new(templates.into_iter().map(|one| one.name).collect());
        self.names.keep("", Some(Arc::clone(&names)));
        Ok(names)
    }

    /// Renders a template that need not be saved.
    pub fn render(
        &self,
        content: &TemplateContent,
        values: &Map<String, Value>,
    ) -> Result<Rendered, Vec<FieldError>> {
        beside_others(|| Compiled::new(&self.environment, content)?.render(values.iter()))
    }

    /// The variables that a template needs or may need, by their first names, in order. None if
    /// it cannot be read.
    #[must_use]
    pub fn variables(&self, content: &TemplateContent) -> Vec<String> {
        Compiled::new(&self.environment, content)
            .map(|compiled| compiled.variables())
            .unwrap_or_default()
    }

    fn prepare(&self, template: Template) -> ReadyTemplate {
        let compiled = Compiled::new(&self.environment, &template.content);
        ReadyTemplate { template, compiled }
    }

    /// What is read from now on is new.
    async fn forget(&self, name: &str) {
        let _turn = self.ready.turn().await;
        self.ready.forget(name);
    }
}

/// Does work that may take a while without holding up whatever else its thread would serve.
fn beside_others<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
