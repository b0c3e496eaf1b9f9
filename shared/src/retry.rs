//! Growing delays with jitter, for everything that is tried again.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;

/// Delays that grow from `first` to `longest` and never run out.
pub struct Delays(ExponentialBackoff);

impl Delays {
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self(ExponentialBackoff {
            initial_interval: first,
            current_interval: first,
            max_interval: longest,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        })
    }

    pub fn next_delay(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }

    pub fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_the_longest() {
        let mut delays = Delays::new(Duration::from_millis(100), Duration::from_secs(2));
        let taken: Vec<_> = (0..50).map(|_| delays.next_delay()).collect();
        assert!(taken[0] <= Duration::from_millis(150), "{:?}", taken[0]);
        // Jitter is half of the interval to either side.
        assert!(taken.iter().all(|delay| *delay <= Duration::from_secs(3)));
        assert!(taken[40..].iter().all(|delay| *delay >= Duration::from_secs(1)));
        delays.reset();
        assert!(delays.next_delay() <= Duration::from_millis(150));
    }
}
