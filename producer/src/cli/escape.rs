//! Text that nobody has read, made safe to show: it can neither drive the terminal nor pass for text of ours.

use std::fmt::Write as _;

/// On one line, every invisible character and every backslash as an escape: different texts look different.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            _ => push(&mut shown, c),
        }
    }
    shown
}

/// For people to read: lines and tabs stay as they are, everything else that is invisible becomes an escape.
pub fn block(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            _ => push(&mut shown, c),
        }
    }
    shown
}

/// JSON that means the same, with every invisible character as JSON's own escape. JSON has them in strings only, except
/// for the ends of lines.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && (c.is_control() || is_format(c)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The first line of a message, of at most `longest` characters.
pub fn first_line(text: &str, longest: usize) -> String {
    let first = text.trim_start().lines().next().unwrap_or_default();
    let mut shown: String = first.chars().take(longest).fold(String::new(), |mut shown, c| {
        push(&mut shown, c);
        shown
    });
    if first.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

fn push(shown: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' | '\0' => shown.extend(c.escape_debug()),
        _ if c.is_control() || is_format(c) => shown.extend(c.escape_unicode()),
        _ => shown.push(c),
    }
}

/// Characters without a shape that change how others are shown, such as those that turn the direction of writing.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes() {
        assert_eq!(line("\x1b[2Jhi\x07\x7f\u{9b}1m"), "\\u{1b}[2Jhi\\u{7}\\u{7f}\\u{9b}1m");
        assert_eq!(line("a\tb\r\n\0"), "a\\tb\\r\\n\\0");
        assert_eq!(block("one\r\n\ttwo\rthree\x1b]0;title\x07"), "one\n\ttwo\\rthree\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn the_direction_of_writing_cannot_be_turned() {
        assert_eq!(line("\u{202e}abc"), "\\u{202e}abc");
        assert_eq!(block("a\u{2066}b\u{2069}"), "a\\u{2066}b\\u{2069}");
    }

    #[test]
    fn json_means_the_same_and_drives_no_terminal() {
        let text = "\x1b[2J\u{9b}1m\u{7f}\u{202e}\u{e0001}größer\n";
        let shown = json(&serde_json::to_string_pretty(&[text]).unwrap());
        assert_eq!(shown, "[\n  \"\\u001b[2J\\u009b1m\\u007f\\u202e\\udb40\\udc01größer\\n\"\n]");
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text]);
    }

    #[test]
    fn an_escape_and_the_text_of_an_escape_look_different() {
        assert_ne!(line("\\t"), line("\t"));
    }

    #[test]
    fn writing_of_all_languages_stays_readable() {
        for text in ["größer ≤ 5", "नमस्ते", "你好", "שלום", "🙂"] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn a_message_is_cut_to_its_first_line() {
        assert_eq!(first_line("\nTraceback\nmore", 100), "Traceback");
        assert_eq!(first_line("abcdef", 3), "abc…");
        assert_eq!(first_line("abc", 3), "abc");
        assert_eq!(first_line("a\x1bb", 3), "a\\u{1b}b");
    }
}
