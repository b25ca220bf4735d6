//! Takes from the HTML of an email what reaches out even where it may not.
//!
//! The headers of its document forbid scripts and loads, and browsers obey. But some open a
//! connection to the host of a frame, or where a link says so, before they ask whether they may:
//! enough to tell a sender that the email was looked at. So such elements lose their names.

/// Elements that may make a browser connect, or change what addresses mean.
const REACHING: [&str; 11] = [
    "base",
    "embed",
    "fencedframe",
    "frame",
    "frameset",
    "iframe",
    "link",
    "meta",
    "object",
    "portal",
    "script",
];

/// The same HTML, with elements that reach out called `x-…`, which browsers do not know.
pub(crate) fn powerless(html: &str) -> String {
    let mut kept = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at + 1);
        kept.push_str(before);
        if opens_reaching(tag) {
            kept.push_str("x-");
        }
        rest = tag;
    }
    kept.push_str(rest);
    kept
}

/// Whether what follows a `<` is the name of such an element.
fn opens_reaching(tag: &str) -> bool {
    let ends = |c: char| c.is_ascii_whitespace() || c == '/' || c == '>';
    let name = tag.split(ends).next().unwrap_or_default();
    REACHING
        .iter()
        .any(|reaching| name.eq_ignore_ascii_case(reaching))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_out_loses_its_name_and_nothing_else_changes() {
        for (given, expected) in [
            ("<p>a < b</p>", "<p>a < b</p>"),
            ("<iframe src=x></iframe>", "<x-iframe src=x></iframe>"),
            ("<LINK/rel=preconnect>", "<x-LINK/rel=preconnect>"),
            ("<meta\nhttp-equiv=refresh>", "<x-meta\nhttp-equiv=refresh>"),
            ("<<iframe>", "<<x-iframe>"),
            ("<links><metal>", "<links><metal>"),
            ("a<script", "a<x-script"),
            ("<", "<"),
            ("ä<Base>ö", "ä<x-Base>ö"),
        ] {
            assert_eq!(powerless(given), expected);
        }
    }
}
