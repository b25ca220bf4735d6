//! Takes from the HTML of an email what no policy of ours can keep a browser from following.

/// Tags for which Chromium opens a connection to another host before it asks whether it may: frames,
/// and links such as `preconnect`. No email needs them.
const WILD: [&str; 3] = ["iframe", "frame", "link"];

/// The same HTML with these tags under names that mean nothing.
pub(crate) fn tamed(html: &str) -> String {
    let mut tame = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at + 1);
        tame.push_str(before);
        let is_wild = |name: &&str| {
            let start = tag.get(..name.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        if WILD.iter().any(|name| is_wild(name)) {
            tame.push_str("x-");
        }
        rest = tag;
    }
    tame.push_str(rest);
    tame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wild_tags_change() {
        let html =
            "<p>1 < 2</p><IFRAME src=x></IFRAME><link rel=preconnect><a href=x>ä</a><främe><";
        let tame =
            "<p>1 < 2</p><x-IFRAME src=x></IFRAME><x-link rel=preconnect><a href=x>ä</a><främe><";
        assert_eq!(tamed(html), tame);
    }
}
