//! The checker's rule: output is what was expected, byte for byte but for white space at the ends of lines and of the
//! whole.

pub fn matches(actual: &[u8], expected: &[u8]) -> bool {
    lines(actual) == lines(expected)
}

/// The lines that are compared. They end where Python's `splitlines` ends them, white space is what its `rstrip`
/// strips. Bytes that are not UTF-8 stay as they are: replacing them would make different outputs equal.
pub fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = split(text).into_iter().map(trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

fn split(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let (mut start, mut skip_newline_at) = (0, None);
    for (at, character) in characters(text) {
        if !ends_line(character) {
            continue;
        }
        if skip_newline_at == Some(at) && character == '\n' {
            start = at + 1;
            continue;
        }
        lines.push(&text[start..at]);
        start = at + character.len_utf8();
        skip_newline_at = (character == '\r').then_some(start);
    }
    lines.push(&text[start..]);
    lines
}

fn trim_end(line: &[u8]) -> &[u8] {
    let end = characters(line).filter(|(_, c)| !is_space(*c)).last().map_or(0, |(at, c)| at + c.len_utf8());
    // Bytes after the last character that are not UTF-8 are no white space either.
    let end = invalid_end(line).max(end);
    &line[..end]
}

/// The characters with their positions, leaving out what is not UTF-8.
fn characters(text: &[u8]) -> impl Iterator<Item = (usize, char)> {
    let mut position = 0;
    text.utf8_chunks().flat_map(move |chunk| {
        let start = position;
        position += chunk.valid().len() + chunk.invalid().len();
        chunk.valid().char_indices().map(move |(at, character)| (start + at, character))
    })
}

/// Where the last bytes that are not UTF-8 end.
fn invalid_end(line: &[u8]) -> usize {
    let (mut position, mut end) = (0, 0);
    for chunk in line.utf8_chunks() {
        position += chunk.valid().len() + chunk.invalid().len();
        if !chunk.invalid().is_empty() {
            end = position;
        }
    }
    end
}

fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_ends_does_not_matter_and_elsewhere_does() {
        for (actual, expected, equal) in [
            (&b"0 1\n"[..], &b"0 1"[..], true),
            (b"0 1  \t\n\n\n", b"0 1", true),
            (b"a\r\nb\r\n", b"a\nb", true),
            (b"a\rb", b"a\nb", true),
            (b"a\n\rb", b"a\n\nb", true),
            (b"", b"\n \n", true),
            (b" a", b"a", false),
            (b"a  b", b"a b", false),
            (b"a\n\nb", b"a\nb", false),
            (b"\na", b"a", false),
            (b"a", b"A", false),
            ("caf\u{e9}\u{a0}".as_bytes(), "caf\u{e9}".as_bytes(), true),
            ("a\u{2028}b".as_bytes(), b"a\nb", true),
            (b"a\x1f", b"a", true),
        ] {
            assert_eq!(matches(actual, expected), equal, "{actual:?} and {expected:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_differ_from_each_other_and_from_their_replacement() {
        assert!(matches(b"\xff\xfe \n", b"\xff\xfe"));
        assert!(!matches(b"\xff", b"\xfe"));
        assert!(!matches(b"\xff", "\u{fffd}".as_bytes()));
        assert!(!matches(b"a\xff", b"a"));
        assert!(!matches(b"a\0", b"a"));
        assert!(!matches(b"a\0b", b"ab"));
        assert!(matches(b"a\0b\n", b"a\0b"));
    }
}
