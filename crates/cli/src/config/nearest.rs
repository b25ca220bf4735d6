//! Finds the known name that was probably meant.

/// The known name with the fewest changes to `given`, if any is near enough to suggest.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (distance(given, name), name))
        .min()
        .filter(|(changes, name)| *changes <= name.len().max(given.len()) / 2)
        .map(|(_, name)| name)
}

/// How many letters must be added, removed or replaced (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_understood() {
        let known = ["max_attempts", "interval", "schedule", "jitter"];
        assert_eq!(
            nearest("max_atempts", known.into_iter()),
            Some("max_attempts")
        );
        assert_eq!(nearest("shedule", known.into_iter()), Some("schedule"));
        assert_eq!(nearest("zzzzzzzz", known.into_iter()), None);
    }
}
