//! Pages for those who are not in yet.

use maud::{DOCTYPE, Markup, html};

use super::{head, logo};

/// A page with one card in the middle.
pub(crate) fn door(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body class="door" {
                main {
                    p class="brand" { (logo()) "Posthaste" }
                    (content)
                }
            }
        }
    }
}

/// A page that leads on to an address of ours at once.
pub(crate) fn leading_on(to: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (to) };
                title { "Posthaste" }
            }
            body { p { a href=(to) { "Go on" } } }
        }
    }
}
