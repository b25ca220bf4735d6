//! Templates in all their versions.

use posthaste_core::port::{Actor, StoreError, StoreResult, TemplateSaved, TemplateVersion};
use posthaste_core::template::{Template, TemplateContent};

use super::SqliteStore;

impl SqliteStore {
    pub(super) async fn insert_template(
        &self,
        _name: &str,
        _content: TemplateContent,
        _based_on: Option<u32>,
        _actor: &Actor,
    ) -> StoreResult<TemplateSaved> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn template_of(
        &self,
        _name: &str,
        _version: Option<u32>,
    ) -> StoreResult<Option<Template>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn newest_templates(&self) -> StoreResult<Vec<Template>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn versions_of(&self, _name: &str) -> StoreResult<Vec<TemplateVersion>> {
        Err(StoreError::Failed("not built yet".into()))
    }

    pub(super) async fn remove_template(&self, _name: &str, _actor: &Actor) -> StoreResult<bool> {
        Err(StoreError::Failed("not built yet".into()))
    }
}
