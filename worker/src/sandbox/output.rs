//! Output of untrusted programs, cut while it is read.

/// The beginning of a stream, and whether there was more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub bytes: Vec<u8>,
    pub truncated: bool,
}

/// Keeps the first `limit` bytes of a stream, and its last `tail` bytes apart.
///
/// The tail is for what we ourselves write at the end of a stream: it does not count against the program's limit.
pub(super) struct Capture {
    head: Vec<u8>,
    tail: Vec<u8>,
    limit: usize,
    tail_length: usize,
}

impl Capture {
    pub fn new(limit: usize, tail_length: usize) -> Self {
        Self { head: Vec::new(), tail: Vec::new(), limit, tail_length }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        // One byte over the limit is kept for as long as it may turn out to be ours.
        let room = (self.limit + self.tail_length + 1).saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.tail_length > 0 {
            let fresh = &bytes[bytes.len().saturating_sub(self.tail_length)..];
            let old = (self.tail.len() + fresh.len()).saturating_sub(self.tail_length);
            self.tail.drain(..old);
            self.tail.extend_from_slice(fresh);
        }
    }

    /// Whether the program wrote more than its limit, whatever the last bytes are.
    pub fn overflowed(&self) -> bool {
        self.head.len() > self.limit + self.tail_length
    }

    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// `ours` is how many bytes at the end are not the program's.
    pub fn finish(mut self, ours: usize) -> Captured {
        let truncated = if self.overflowed() {
            true
        } else {
            self.head.truncate(self.head.len() - ours);
            self.head.len() > self.limit
        };
        self.head.truncate(self.limit);
        Captured { bytes: self.head, truncated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, tail: usize, chunks: &[&[u8]], ours: usize) -> (Captured, Vec<u8>) {
        let mut capture = Capture::new(limit, tail);
        for chunk in chunks {
            capture.push(chunk);
        }
        let tail = capture.tail().to_vec();
        (capture.finish(ours), tail)
    }

    #[test]
    fn a_stream_at_its_limit_is_whole_and_one_byte_more_is_cut() {
        let (exact, _) = captured(4, 0, &[b"ab", b"cd"], 0);
        assert_eq!(exact, Captured { bytes: b"abcd".to_vec(), truncated: false });
        let (over, _) = captured(4, 0, &[b"ab", b"cde"], 0);
        assert_eq!(over, Captured { bytes: b"abcd".to_vec(), truncated: true });
    }

    #[test]
    fn our_own_tail_does_not_count_against_the_program() {
        let (exact, tail) = captured(4, 3, &[b"abcd", b"XY", b"Z"], 3);
        assert_eq!(exact, Captured { bytes: b"abcd".to_vec(), truncated: false });
        assert_eq!(tail, b"XYZ");
        let (over, tail) = captured(4, 3, &[b"abcdeXYZ"], 3);
        assert_eq!(over, Captured { bytes: b"abcd".to_vec(), truncated: true });
        assert_eq!(tail, b"XYZ");
    }

    #[test]
    fn a_flood_keeps_memory_bounded_and_the_last_bytes_at_hand() {
        let mut capture = Capture::new(10, 4);
        for _ in 0..1000 {
            capture.push(&[b'x'; 5000]);
        }
        capture.push(b"end!");
        assert!(capture.overflowed());
        assert!(capture.head.capacity() < 10_000);
        assert_eq!(capture.tail(), b"end!");
        assert_eq!(capture.finish(4), Captured { bytes: vec![b'x'; 10], truncated: true });
    }
}
