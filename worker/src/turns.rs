//! Who waits for whom, among the requests in a worker's hands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, Semaphore, SemaphorePermit};
use tribunal_shared::request::RequestId;

/// One at a time for each id. A request that is delivered again while it still runs here, after a lost connection, waits
/// for the result instead of running twice.
#[derive(Default)]
pub struct Turns(Mutex<HashMap<RequestId, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub async fn take(&self, id: &RequestId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Only the map itself knows of those that are over.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Who runs beside whom. A request that brings its worker down takes the others in its hands with it, and they would be
/// given up as soon as it is. So each has its last attempt alone.
pub struct Company(Semaphore);

/// Somebody is there.
pub type Presence<'a> = SemaphorePermit<'a>;

/// More than a worker ever holds.
const EVERYBODY: u32 = 1 << 20;

impl Default for Company {
    fn default() -> Self {
        Self(Semaphore::new(EVERYBODY as usize))
    }
}

impl Company {
    /// In the order of asking: nobody begins before one that waits to be alone.
    pub async fn join(&self, alone: bool) -> Presence<'_> {
        self.0.acquire_many(if alone { EVERYBODY } else { 1 }).await.expect("it is never closed")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_wants_to_be_alone_waits_for_all_and_all_wait_for_it() {
        let company = Company::default();
        let (first, second) = (company.join(false).await, company.join(false).await);
        let mut alone = Box::pin(company.join(true));
        assert!(alone.as_mut().now_or_never().is_none());
        drop(first);
        let mut late = Box::pin(company.join(false));
        assert!(late.as_mut().now_or_never().is_none(), "one that came later does not keep it waiting");
        drop(second);
        let alone = alone.now_or_never().expect("all have left");
        assert!(late.as_mut().now_or_never().is_none());
        drop(alone);
        assert!(late.now_or_never().is_some());
    }
}
