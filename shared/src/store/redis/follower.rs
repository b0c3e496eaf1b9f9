//! One caller following the events of one request.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult};
use serde::Deserialize;

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
        loop {
            if let Some(next) = self.read.next() {
                self.ended |= matches!(next.event, Event::Done { .. });
                return Some((Ok(next), self));
            }
            if self.ended {
                return None;
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
        let options = || StreamReadOptions::default().count(100);
        let entries = self.read_entries(&options().block(FOLLOW_FOR.as_millis() as usize)).await?;
        // With a result there is nothing to wait for, even if its event cannot be found, because the stream was made anew and
        // the server's clock has gone back.
        if entries.is_empty() && self.has_result().await? {
            let entries = self.read_entries(&options()).await?;
            self.ended = entries.is_empty();
            self.take_in(entries);
        } else {
            self.take_in(entries);
        }
        Ok(())
    }

    async fn read_entries(&mut self, options: &StreamReadOptions) -> Result<Vec<StreamId>, StoreError> {
        let (key, last) = ([&self.keys.events], [&self.last]);
        let read = self.connection.xread_options(&key, &last, options);
        // The server answers within FOLLOW_FOR, if it is alive.
        let reply: Option<StreamReadReply> = answered(&self.address, FOLLOW_FOR + ANSWER_WITHIN, read).await?;
        Ok(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|stream| stream.ids).collect())
    }

    fn take_in(&mut self, entries: Vec<StreamId>) {
        let mut events = Vec::new();
        for entry in entries {
            self.last = entry.id.clone();
            let text: String = entry.get("event").unwrap_or_default();
            match serde_json::from_str(&text) {
                Ok(event) => events.push(Numbered { id: entry.id, event }),
                // An event of a newer version is nothing to stop for, unless it is the last.
                Err(_) => self.ended |= is_the_last(&text),
            }
        }
        self.read = events.into_iter();
    }

    async fn has_result(&mut self) -> Result<bool, StoreError> {
        answered(&self.address, ANSWER_WITHIN, self.connection.exists(&self.keys.result)).await
    }

    /// If nothing is known, this is remembered for as long as we read, so that we are woken.
    async fn is_just_queued(&mut self) -> Result<bool, StoreError> {
        let mut script = scripts::FOLLOW.prepare_invoke();
        script.key(&self.keys.request).key(&self.keys.events).arg(2 * FOLLOW_FOR.as_secs());
        answered(&self.address, ANSWER_WITHIN, script.invoke_async(&mut self.connection)).await
    }
}

async fn answered<T>(
    address: &str,
    patience: Duration,
    question: impl Future<Output = RedisResult<T>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(patience, question).await {
        Ok(answer) => answer.map_err(|error| failed(address, &error)),
        Err(_) => Err(StoreError::Unreachable { what: "Redis", address: address.into(), reason: "no answer".into() }),
    }
}

/// Of an event that cannot be understood otherwise.
fn is_the_last(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        event: String,
    }

    serde_json::from_str::<Kind>(text).is_ok_and(|kind| kind.event == "done")
}
