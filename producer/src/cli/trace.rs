//! The trace that whoever started us belongs to, as in W3C Trace Context.

use super::exit::complain;

const VARIABLE: &str = "TRACEPARENT";

/// What `TRACEPARENT` says. Nonsense is left out with a warning: no request fails for its trace.
pub fn parent() -> Option<String> {
    let parent = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
    let valid = parent.to_str().filter(|text| is_valid(text)).map(ToOwned::to_owned);
    if valid.is_none() {
        complain(&format!(
            "{VARIABLE} is left out, because it is no trace as in W3C Trace Context, such as \
             00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        ));
    }
    valid
}

/// `VERSION-TRACE-PARENT-FLAGS`. Versions to come may add parts behind these.
fn is_valid(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut hexadecimal = |digits: usize| {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        parts.next().filter(|part| part.len() == digits && part.bytes().all(is_digit))
    };
    let (version, trace, parent, flags) = (hexadecimal(2), hexadecimal(32), hexadecimal(16), hexadecimal(2));
    let is_set = |part: Option<&str>| part.is_some_and(|part| part.bytes().any(|digit| digit != b'0'));
    let complete = is_set(trace) && is_set(parent) && flags.is_some();
    match version {
        None | Some("ff") => false,
        Some("00") => complete && parts.next().is_none(),
        // A header's length is bounded there, and so is a message's here.
        Some(_) => complete && text.len() <= 512 && text.bytes().all(|byte| byte.is_ascii_graphic()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn only_a_trace_is_a_trace() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        assert!(is_valid(&format!("00-{trace}-{parent}-01")));
        assert!(is_valid(&format!("cc-{trace}-{parent}-01-what-comes-later")));
        for bad in [
            String::new(),
            "hello".into(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("cc-{trace}-{parent}-01-\x1b"),
        ] {
            assert!(!is_valid(&bad), "{bad}");
        }
    }
}
