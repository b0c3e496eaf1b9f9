//! One caller following the events of one request.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client};

use super::{ANSWER_WITHIN, CONNECT_WITHIN, Keys, failed, scripts, unreachable};
use crate::store::{Event, Events, Numbered, StoreError};

/// How long one read waits for events before it is repeated, which is how a dead connection shows.
const FOLLOW_FOR: Duration = Duration::from_secs(10);
/// Comes before all events; and the place of `queued`, which comes before all others.
const START: &str = "0";
const QUEUED: &str = "0-1";

/// The events of the stream at `keys.events`, on a connection of its own: a blocking read would hold up everybody else on a shared
/// one.
pub async fn follow(client: &Client, address: &str, keys: Keys, after: Option<String>) -> Result<Events, StoreError> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_WITHIN)).set_response_timeout(None);
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .map_err(|error| unreachable(address, &error))?;
    let follower = Follower {
        connection,
        keys,
        last: after.unwrap_or_else(|| START.into()),
        read: Vec::new().into_iter(),
        ended: false,
        address: address.into(),
    };
    Ok(stream::unfold(follower, Follower::step).boxed())
}

struct Follower {
    connection: MultiplexedConnection,
    keys: Keys,
    last: String,
    read: std::vec::IntoIter<Numbered>,
    ended: bool,
    address: String,
}

impl Follower {
    async fn step(mut self) -> Option<(Result<Numbered, StoreError>, Self)> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(next) = self.read.next() {
                self.ended = matches!(next.event, Event::Done { .. });
                return Some((Ok(next), self));
            }
            if let Err(error) = self.read_more().await {
                self.ended = true;
                return Some((Err(error), self));
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), StoreError> {
        if self.last == START && self.is_just_queued().await? {
            self.last = QUEUED.into();
            self.read = vec![Numbered { id: QUEUED.into(), event: Event::Queued }].into_iter();
            return Ok(());
        }
        let options = StreamReadOptions::default().block(FOLLOW_FOR.as_millis() as usize).count(100);
        let (key, last) = ([&self.keys.events], [&self.last]);
        let read = self.connection.xread_options(&key, &last, &options);
        // The server answers within FOLLOW_FOR, if it is alive.
        let reply: Option<StreamReadReply> = match tokio::time::timeout(FOLLOW_FOR + ANSWER_WITHIN, read).await {
            Ok(reply) => reply.map_err(|error| failed(&self.address, &error))?,
            Err(_) => {
                let (address, reason) = (self.address.clone(), "no answer".into());
                return Err(StoreError::Unreachable { what: "Redis", address, reason });
            }
        };
        let entries = reply.into_iter().flat_map(|reply| reply.keys).flat_map(|stream| stream.ids);
        let mut events = Vec::new();
        for entry in entries {
            self.last = entry.id.clone();
            let text: String = entry.get("event").unwrap_or_default();
            // An event of a newer version is nothing to stop for.
            if let Ok(event) = serde_json::from_str(&text) {
                events.push(Numbered { id: entry.id, event });
            }
        }
        self.read = events.into_iter();
        Ok(())
    }

    /// If nothing is known, this is remembered for as long as we read, so that we are woken.
    async fn is_just_queued(&mut self) -> Result<bool, StoreError> {
        let mut script = scripts::FOLLOW.prepare_invoke();
        script.key(&self.keys.request).key(&self.keys.events).arg(2 * FOLLOW_FOR.as_secs());
        let answer = tokio::time::timeout(ANSWER_WITHIN, script.invoke_async(&mut self.connection)).await;
        let no_answer =
            || StoreError::Unreachable { what: "Redis", address: self.address.clone(), reason: "no answer".into() };
        answer.map_err(|_| no_answer())?.map_err(|error| failed(&self.address, &error))
    }
}
