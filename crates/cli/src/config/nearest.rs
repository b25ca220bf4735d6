//! Finds the known name that was probably meant.

/// The known name with the fewest changes to `given`, if any is near enough to suggest.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .min()
        .filter(|(changes, name)| *changes <= name.len().max(given.len()) / 2)
        .map(|(_, name)| name)
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
