//! The order in which people count: `test2` before `test10`.

use std::cmp::Ordering;

pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while !left.is_empty() && !right.is_empty() {
        let (a, b) = (take_part(&mut left), take_part(&mut right));
        let order = match (is_number(a), is_number(b)) {
            (true, true) => compare_numbers(a, b),
            _ => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    // `test01` and `test1` are the same number; any fixed order will do.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Cuts the next run of digits, or of anything else, off the text.
fn take_part<'a>(text: &mut &'a str) -> &'a str {
    let number = is_number(text);
    let end = text.find(|c: char| c.is_ascii_digit() != number).unwrap_or(text.len());
    let (part, rest) = text.split_at(end);
    *text = rest;
    part
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Of any length: without leading zeros, the longer one is the greater one.
fn compare_numbers(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        let mut names = ["test10", "test2", "test1", "a", "test", "10", "9", "test2b", "test2a", "007", "7"];
        names.sort_by(|one, other| compare(one, other));
        assert_eq!(names, ["007", "7", "9", "10", "a", "test", "test1", "test2", "test2a", "test2b", "test10"]);
    }

    #[test]
    fn numbers_may_be_longer_than_any_integer() {
        let (small, large) = (format!("t{}", "9".repeat(60)), format!("t1{}", "0".repeat(60)));
        assert_eq!(compare(&small, &large), Ordering::Less);
        assert_eq!(compare(&large, &large), Ordering::Equal);
    }
}
