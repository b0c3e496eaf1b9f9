//! Where an answer first differs from the expected one, in the eyes of the checker.

use tribunal_shared::check;

use super::escape;

/// What is shown of a line.
const LONGEST: usize = 100;
/// What is shown of a long line before the place where it differs.
const BEFORE: usize = 30;

#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// From 1.
    pub line: usize,
    /// Ready to be shown, as is `actual`. `None`: there is no such line.
    pub expected: Option<String>,
    pub actual: Option<String>,
}

/// `None` if the checker sees no difference: space at the end of lines and empty lines at the end do not count.
pub fn first(expected: &str, actual: &str) -> Option<Difference> {
    let (expected, actual) = (check::lines(expected.as_bytes()), check::lines(actual.as_bytes()));
    let longer = expected.len().max(actual.len());
    let index = (0..longer).find(|&index| expected.get(index) != actual.get(index))?;
    let line = |lines: &[&[u8]]| lines.get(index).map(|line| String::from_utf8_lossy(line).into_owned());
    let (expected, actual) = (line(&expected), line(&actual));
    let same = match (&expected, &actual) {
        (Some(expected), Some(actual)) => expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    let shown = |line: Option<String>| line.map(|line| around(&line, same));
    Some(Difference { line: index + 1, expected: shown(expected), actual: shown(actual) })
}

/// The line, or the part of it around the character at `place`. It is cut first and escaped then, so that no escape is
/// cut in two.
fn around(line: &str, place: usize) -> String {
    let length = line.chars().count();
    if length <= LONGEST {
        return escape::line(line);
    }
    let start = place.saturating_sub(BEFORE).min(length - LONGEST);
    let part: String = line.chars().skip(start).take(LONGEST).collect();
    let (left, right) = (if start > 0 { "…" } else { "" }, if start + LONGEST < length { "…" } else { "" });
    format!("{left}{}{right}", escape::line(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(expected: &str, actual: &str) -> (usize, Option<String>, Option<String>) {
        let difference = first(expected, actual).unwrap();
        (difference.line, difference.expected, difference.actual)
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(shown("1\n2\n3", "1\n5\n9\n"), (2, Some("2".into()), Some("5".into())));
    }

    #[test]
    fn a_missing_line_and_a_line_too_many_differ() {
        assert_eq!(shown("1\n2", "1\n"), (2, Some("2".into()), None));
        assert_eq!(shown("1", "1\n\n2"), (2, None, Some("".into())));
        assert_eq!(shown("yes", ""), (1, Some("yes".into()), None));
    }

    #[test]
    fn what_the_checker_forgives_is_no_difference() {
        assert_eq!(first("1 \r\n2\n\n", "1\n2\t"), None);
        assert_eq!(first("1\x1f\n2", "1\r2\u{a0}"), None);
        assert_eq!(first("", "\n\n"), None);
    }

    #[test]
    fn hostile_output_is_escaped() {
        assert_eq!(shown("ok", "\x1b[31mok").2.unwrap(), "\\u{1b}[31mok");
    }

    #[test]
    fn long_lines_are_cut_around_the_difference() {
        let (expected, actual) = (format!("{}x{}", "a".repeat(500), "b".repeat(500)), "a".repeat(2000));
        let (_, expected, actual) = shown(&expected, &actual);
        let expected = expected.unwrap();
        assert!(expected.starts_with("…aaa") && expected.contains("ax") && expected.ends_with("bb…"), "{expected}");
        assert_eq!(expected.chars().count(), LONGEST + 2);
        assert_eq!(actual.unwrap().chars().count(), LONGEST + 2);
    }

    #[test]
    fn a_long_line_beside_a_short_one_is_shown_from_where_they_part() {
        let (_, expected, actual) = shown("short", &"x".repeat(5000));
        assert_eq!(expected.unwrap(), "short");
        assert!(actual.unwrap().starts_with("xxx"));
    }
}
