//! What every store does when a template is saved, written once for all dialects.

use posthaste_core::port::{Actor, TemplateSaved};
use posthaste_core::template::{Template, TemplateContent};

/// What the audit log calls saving a template.
pub(crate) const SAVED: &str = "save_template";
/// What it calls deleting one.
pub(crate) const DELETED: &str = "delete_template";

/// What is there under a name.
pub(crate) struct Standing {
    /// The highest number so far: also of a template that was deleted. 0 if there was none.
    pub(crate) highest: u32,
    /// The newest version, unless it was deleted.
    pub(crate) current: Option<Template>,
}

/// What saving makes of it.
pub(crate) enum Verdict {
    /// Nothing; this is the answer.
    Answered(Box<TemplateSaved>),
    /// A version with this number.
    Next(u32),
}

impl Verdict {
    fn answered(answer: TemplateSaved) -> Self {
        Self::Answered(Box::new(answer))
    }
}

impl Standing {
    /// Decides what becomes of content that is to be saved.
    pub(crate) fn save(self, content: &TemplateContent, based_on: Option<u32>) -> Verdict {
        let visible = self.current.as_ref().map_or(0, |newest| newest.version);
        match self.current {
            // Also where it was based on another version: whoever saves twice meant it once.
            Some(newest) if newest.content == *content => {
                Verdict::answered(TemplateSaved::Unchanged(newest))
            }
            _ if based_on.is_some_and(|edited| edited != visible) => {
                Verdict::answered(TemplateSaved::Conflict(visible))
            }
            _ => Verdict::Next(self.highest.saturating_add(1)),
        }
    }
}

/// What the audit log says about a version that was saved.
pub(crate) fn audited(version: u32) -> String {
    format!("version {version}")
}

/// The version that was saved.
pub(crate) fn saved(
    name: &str,
    version: u32,
    content: TemplateContent,
    saved_at: posthaste_core::Timestamp,
    actor: &Actor,
) -> TemplateSaved {
    TemplateSaved::Saved(Template {
        name: name.to_owned(),
        version,
        content,
        saved_at,
        saved_by: actor.name.clone(),
    })
}
