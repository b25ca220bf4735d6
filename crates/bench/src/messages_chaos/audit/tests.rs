use super::*;

fn row(status: &str, retry_count: u32, repeats: u32) -> Stored {
    Stored {
        status: status.to_owned(),
        retry_count,
        repeats,
        line: String::new(),
    }
}

/// Lost, silent duplicates, unasked, mistaken.
fn judged(entry: &Entry, row: &Stored, review: &[u32]) -> (u64, u64, u64, u64) {
    let mut audit = Audit::default();
    audit.judge(entry, row, review);
    let Audit {
        lost,
        silent_duplicates,
        unasked,
        mistaken,
        ..
    } = audit;
    let wrong = lost + silent_duplicates + unasked + mistaken;
    assert_eq!(audit.broken.is_empty(), wrong == 0);
    (lost, silent_duplicates, unasked, mistaken)
}

#[test]
fn each_planned_retry_once_is_right() {
    let entry = Entry::seen_so(1, &[(1, 1), (2, 1)]);
    assert_eq!(judged(&entry, &row("retried", 2, 0), &[]), (0, 0, 0, 0));
    let entry = Entry::seen_so(3, &[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(judged(&entry, &row("failed", 3, 0), &[3]), (0, 0, 0, 0));
}

#[test]
fn a_retry_that_nobody_saw_is_lost_and_so_is_who_does_not_reach_people() {
    let entry = Entry::seen_so(1, &[(1, 1)]);
    assert_eq!(judged(&entry, &row("retried", 2, 0), &[]), (1, 0, 0, 0));
    let entry = Entry::seen_so(3, &[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(judged(&entry, &row("failed", 3, 0), &[]), (1, 0, 0, 0));
}

#[test]
fn a_second_copy_needs_a_repeat_on_record() {
    let entry = Entry::seen_so(0, &[(1, 2)]);
    assert_eq!(judged(&entry, &row("retried", 1, 0), &[]), (0, 1, 0, 0));
    assert_eq!(judged(&entry, &row("retried", 1, 1), &[]), (0, 0, 0, 0));
    let entry = Entry::seen_so(3, &[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(judged(&entry, &row("failed", 3, 0), &[3, 3]), (0, 1, 0, 0));
}

#[test]
fn a_retry_without_a_failure_is_wrong_unless_we_may_have_handed_in_two() {
    let mut entry = Entry::seen_so(0, &[(1, 1), (2, 1)]);
    assert_eq!(judged(&entry, &row("retried", 2, 0), &[]), (0, 0, 1, 0));
    entry.uncertain = 1;
    assert_eq!(judged(&entry, &row("retried", 2, 0), &[]), (0, 0, 0, 0));
    assert_eq!(judged(&entry, &row("pending", 2, 0), &[]), (1, 0, 0, 0));
}

#[test]
fn a_row_that_says_something_else_is_a_mistake() {
    let entry = Entry::seen_so(0, &[(1, 1)]);
    assert_eq!(judged(&entry, &row("pending", 0, 0), &[]), (0, 0, 0, 1));
    assert_eq!(judged(&entry, &row("retried", 2, 0), &[]), (0, 0, 0, 1));
}
