//! Where templates are kept, in all their versions.

use async_trait::async_trait;

use super::{Actor, StoreResult};
use crate::Timestamp;
use crate::template::{Template, TemplateContent};

/// What became of a template that was saved.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplateSaved {
    /// It is this version now.
    Saved(Template),
    /// It says so already, in this version.
    Unchanged(Template),
    /// Someone else saved it meanwhile: the newest version is this.
    Conflict(u32),
}

/// A version in the history of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateVersion {
    /// Which version.
    pub version: u32,
    /// When it was saved.
    pub saved_at: Timestamp,
    /// By whom.
    pub saved_by: String,
}

/// The way of a template through the store.
#[async_trait]
pub trait TemplateStore: Send + Sync {
    /// Saves a new version, with an audit entry. `based_on`: the version that was edited (0 for a
    /// template that is new); `None` to save whatever is there. A name that was deleted goes on
    /// with the next number.
    async fn save_template(
        &self,
        name: &str,
        content: TemplateContent,
        based_on: Option<u32>,
        actor: &Actor,
    ) -> StoreResult<TemplateSaved>;

    /// A template: this version, or the newest. A deleted one is not there.
    async fn template(&self, name: &str, version: Option<u32>) -> StoreResult<Option<Template>>;

    /// The newest version of every template, by name.
    async fn templates(&self) -> StoreResult<Vec<Template>>;

    /// The versions of a template, newest first.
    async fn template_versions(&self, name: &str) -> StoreResult<Vec<TemplateVersion>>;

    /// Deletes a template, with an audit entry; `false` if there is none. Emails that were made
    /// from it stay as they are.
    async fn delete_template(&self, name: &str, actor: &Actor) -> StoreResult<bool>;
}
