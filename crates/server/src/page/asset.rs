//! The style sheet and the scripts. They are built into the program; their addresses change with
//! their content, so that browsers may keep them.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};

use crate::problem::{Kind, Problem};

/// A file that pages need.
pub(crate) struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

/// How every page looks.
pub(crate) const DESK_CSS: Asset = Asset {
    name: "desk.css",
    kind: "text/css; charset=utf-8",
    content: include_str!("desk.css"),
};

/// The mark in the tab of a browser.
pub(crate) const ICON: Asset = Asset {
    name: "icon.svg",
    kind: "image/svg+xml",
    content: include_str!("icon.svg"),
};

/// What makes pages live.
const DESK_JS: Asset = Asset {
    name: "desk.js",
    kind: "text/javascript; charset=utf-8",
    content: include_str!("desk.js"),
};

/// How the editor of templates looks.
const TEMPLATE_CSS: Asset = Asset {
    name: "template.css",
    kind: "text/css; charset=utf-8",
    content: include_str!("template.css"),
};

/// What shows a template while it is being written.
const TEMPLATE_JS: Asset = Asset {
    name: "template.js",
    kind: "text/javascript; charset=utf-8",
    content: include_str!("template.js"),
};

const ALL: [&Asset; 5] = [&ICON, &DESK_CSS, &DESK_JS, &TEMPLATE_CSS, &TEMPLATE_JS];

/// What every screen of the desk needs besides.
pub(crate) fn desk_script() -> Markup {
    html! { script src=(DESK_JS.address()) defer {} }
}

/// What the editor of templates needs besides.
pub(crate) fn template_assets() -> Markup {
    html! {
        link rel="stylesheet" href=(TEMPLATE_CSS.address());
        script src=(TEMPLATE_JS.address()) defer {}
    }
}

impl Asset {
    /// Where it is found.
    pub(crate) fn address(&self) -> String {
        format!("/admin/assets/{}?{:08x}", self.name, self.mark())
    }

    /// Differs when the content does (FNV-1a).
    const fn mark(&self) -> u32 {
        let bytes = self.content.as_bytes();
        let mut hash = 0x811c_9dc5_u32;
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        hash
    }
}

/// Answers with an asset.
pub(crate) async fn serve(Path(name): Path<String>) -> Result<Response, Problem> {
    let none = || Problem::new(Kind::NotFound, "There is no such file.");
    let asset = ALL.into_iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(none)?;
    let headers = [
        (CONTENT_TYPE, asset.kind),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.content).into_response())
}
