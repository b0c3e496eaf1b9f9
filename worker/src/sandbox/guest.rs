//! Who guests are on the host.

use uuid::Uuid;

/// Far from everybody's.
const FIRST: u32 = 2_000_000_000;
const COUNT: u32 = 100_000_000;

/// A user and group of its own for each run, so that no two share what the kernel counts by user.
pub fn fresh_user() -> u32 {
    FIRST + Uuid::new_v4().as_u128() as u32 % COUNT
}
