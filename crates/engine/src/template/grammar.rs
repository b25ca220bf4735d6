//! What templates may say.
//!
//! The engine counts the steps of a rendering, but not what a step costs: a text can be doubled
//! again and again, or repeated a billion times, in a single one. So what builds up values is left
//! out of the language before a template gets to the engine: no `set`, no macros, no repetition,
//! and expressions of a bounded length and depth. What is left can make only so much out of
//! variables of a bounded size.

/// The tags that mail needs.
const TAGS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// The longest expression, in octets.
const LONGEST: usize = 500;
/// How many texts an expression may put together.
const MOST_JOINED: usize = 20;
/// How deep brackets may stand in brackets.
const DEEPEST: usize = 3;

/// Checks a part of a template, or says what is wrong and in which line. What is not closed is left
/// to the engine, which says so better.
pub(super) fn check(source: &str) -> Result<(), String> {
    let mut at = 0;
    while let Some(begin) = source[at..].find('{').map(|found| at + found) {
        let line = || 1 + source[..begin].matches('\n').count();
        let inside = begin + 2;
        let end = match source.as_bytes().get(begin + 1) {
            Some(b'#') => source[inside..].find("#}").map(|found| inside + found),
            Some(kind @ (b'{' | b'%')) => {
                let closing = if *kind == b'{' { "}}" } else { "%}" };
                let body = Body::read(&source[inside..], closing);
                body.map(|body| {
                    let checked = body.check(*kind == b'%');
                    checked.map_err(|message| format!("line {}: {message}", line()))?;
                    Ok::<_, String>(inside + body.length)
                })
                .transpose()?
            }
            _ => {
                at = begin + 1;
                continue;
            }
        };
        let Some(end) = end else {
            return Ok(());
        };
        at = end + 2;
    }
    Ok(())
}

/// What stands between the marks of a tag or an expression, with its texts taken out.
struct Body {
    code: String,
    length: usize,
}

impl Body {
    /// Reads up to the closing mark, which may also stand in a text.
    fn read(source: &str, closing: &str) -> Option<Self> {
        let mut code = String::new();
        let mut text: Option<char> = None;
        let mut escaped = false;
        for (at, c) in source.char_indices() {
            match text {
                Some(_) if escaped => escaped = false,
                Some(_) if c == '\\' => escaped = true,
                Some(quote) if c == quote => text = None,
                Some(_) => {}
                None if source[at..].starts_with(closing) => {
                    return Some(Self { code, length: at });
                }
                None if c == '"' || c == '\'' => {
                    text = Some(c);
                    code.push('…');
                }
                None => code.push(c),
            }
        }
        None
    }

    fn check(&self, is_tag: bool) -> Result<(), String> {
        let code = self.code.trim_start_matches(['-', '+']).trim();
        if self.length > LONGEST {
            return Err(format!(
                "an expression may have at most {LONGEST} characters"
            ));
        }
        let joined = code.matches(['~', '+']).count();
        if joined > MOST_JOINED {
            return Err(format!(
                "an expression may have at most {MOST_JOINED} `~` and `+`"
            ));
        }
        if code.contains('*') {
            return Err("`*` is not there; write price|times(quantity)".to_owned());
        }
        // To the engine an expression goes on while a bracket is open: what we took for its end
        // may not be.
        if code.contains(['{', '}']) {
            return Err("`{` cannot stand in an expression; give objects as variables".to_owned());
        }
        if !is_balanced(code) {
            return Err("a bracket is not closed".to_owned());
        }
        if depth(code) > DEEPEST {
            return Err(format!(
                "brackets may stand in each other at most {DEEPEST} deep"
            ));
        }
        if !is_tag {
            return Ok(());
        }
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let tag = words.next().unwrap_or_default();
        if !TAGS.contains(&tag) {
            let known = TAGS.join(", ");
            return Err(format!("`{tag}` is no tag of templates; they are {known}"));
        }
        let builds = code.contains(['~', '+', '[']) || words.any(|word| word == "recursive");
        if tag == "for" && builds {
            return Err(
                "a loop goes over a variable as it is; it cannot be put together".to_owned(),
            );
        }
        Ok(())
    }
}

fn is_balanced(code: &str) -> bool {
    let count = |one: char| code.matches(one).count();
    count('(') == count(')') && count('[') == count(']')
}

fn depth(code: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for c in code.chars() {
        match c {
            '(' | '[' => now += 1,
            ')' | ']' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mail_needs_may_be_said() {
        for source in [
            "Dear {{ name|default('you') }}, { it } costs {{ '%.2f' }} {{ '}}' }} {# *** #}",
            "{%- for line in order.lines|dictsort -%}{{ loop.index }}{% else %}none{% endfor %}",
            "{% if a and not (b or c) %}{% elif x in ['a', 'b'] %}{% endif %}",
            "{{ a ~ ' ' ~ b }} {{ total - 1 }} {{ price|times(3)|round(2) }}",
            "{{ not closed",
            "{",
            "{%",
            "{{ 'open }}",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn what_builds_up_values_may_not() {
        let long = format!("{{{{ {} }}}}", "a.".repeat(400));
        let joined = format!("{{{{ {}a }}}}", "a~".repeat(21));
        for source in [
            "{% set a = a ~ a %}",
            "{%-set a %}",
            "{% macro m() %}",
            "{% include 'x' %}",
            "{% raw %}",
            "{{ 'x' * 1000000000 }}",
            "{{ '\\'}}' * 9 }}",
            "{{ [{'a':{}}, 'x' * n]|length }}",
            "{{ {'a':{}}|length ~ ('x' * n) }}",
            "{{ (a }} 'x' * n ) }}",
            "{% if a[ %} * ] %}",
            "{{ ((((a)))) }}",
            "{% for x in [a ~ a] %}",
            "{% for x in a + a %}",
            "{% for x in tree recursive %}",
            "{# ' #}{% with a = 1 %}",
            long.as_str(),
            joined.as_str(),
        ] {
            assert!(check(source).is_err(), "{source}");
        }
        let second = check("fine\n{% do x %}").unwrap_err();
        assert!(second.starts_with("line 2: `do` is no tag"), "{second}");
    }
}
