//! How much of everything.

use std::time::Duration;

/// The goals are part of the promise; the rest follows from them.
pub struct Plan {
    pub requests: usize,
    pub kills: usize,
    pub at_each_point: usize,
    pub restarts: usize,
    /// How often the rarer troubles come.
    pub rarities: usize,
    /// Of the smaller fleet on Docker.
    pub docker_requests: usize,
    pub at_most: Duration,
}

impl Plan {
    pub const SHORT: Self = Self {
        requests: 3_000,
        kills: 200,
        at_each_point: 10,
        restarts: 10,
        rarities: 4,
        docker_requests: 60,
        at_most: Duration::from_secs(9 * 60),
    };

    pub const LONG: Self = Self {
        requests: 20_000,
        kills: 1_000,
        at_each_point: 40,
        restarts: 40,
        rarities: 16,
        docker_requests: 240,
        at_most: Duration::from_secs(80 * 60),
    };
}
