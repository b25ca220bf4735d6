//! Who is at the terminal, or whose cron job it is.

use std::os::unix::fs::MetadataExt as _;

/// The name of the user: what the environment says, otherwise what the system knows; the number if
/// it knows no name.
pub(crate) fn name() -> String {
    let said = |variable: &str| std::env::var(variable).ok();
    let said = ["USER", "LOGNAME"].into_iter().filter_map(said);
    said.filter(|name| !name.is_empty())
        .chain(known_to_the_system())
        .next()
        .unwrap_or_else(|| "unknown".to_owned())
}

fn known_to_the_system() -> Option<String> {
    // The folder of a process belongs to its user.
    let number = std::fs::metadata("/proc/self").ok()?.uid();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(named(number, &users).unwrap_or_else(|| number.to_string()))
}

/// The name of a user in lines such as `root:x:0:0:root:/root:/bin/sh`.
fn named(number: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let found = fields.nth(1)?.parse() == Ok(number);
        found.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n+\n\nann:x:1000:0::/home/ann:/bin/sh\n";
        assert_eq!(named(0, users).as_deref(), Some("root"));
        assert_eq!(named(1000, users).as_deref(), Some("ann"));
        assert_eq!(named(7, users), None);
    }

    #[test]
    fn the_system_knows_who_runs_this() {
        assert!(known_to_the_system().is_some());
    }
}
