//! Redis: results, states and event streams, each with a time to live.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `tribunal:result:ID` | string | the result as JSON |
//! | `tribunal:request:ID` | hash | `digest` of the body, `state` (absent, `queued`, `running`), `starts` |
//! | `tribunal:events:ID` | stream | one field, `event`, as JSON |
//!
//! What must happen together happens in one script.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Script};

use super::{Claim, Event, Events, Numbered, ResultStore, State, StoreError, final_event};
use crate::address;
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::ExecutionResult;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// How long one read waits for events before it is repeated, which is how a dead connection shows.
const FOLLOW_FOR: Duration = Duration::from_secs(10);

/// KEYS: request, result. ARGV: digest, ttl. Answers as `Claim` does. A state without a digest is one whose claim was lost
/// with the server's memory; whoever comes with the body first gets it. It does not lengthen the life of what is done: a
/// state that outlives its result would promise one that never comes.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local digest = redis.call('HGET', KEYS[1], 'digest')
        local done = redis.call('EXISTS', KEYS[2]) == 1
        local used = done or redis.call('HEXISTS', KEYS[1], 'state') == 1
        if digest and digest ~= ARGV[1] or done and not digest then return 'conflict' end
        if not done then
            redis.call('HSET', KEYS[1], 'digest', ARGV[1])
            redis.call('EXPIRE', KEYS[1], ARGV[2])
        end
        if used then return 'accepted' end
        return digest and 'unconfirmed' or 'new'
        ",
    )
});

/// KEYS: request, result, events. ARGV: state or '', event, ttl. A state never goes back to `queued`.
static RECORD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        if ARGV[1] == 'queued' and redis.call('HEXISTS', KEYS[1], 'state') == 1 then return 0 end
        if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], 'state', ARGV[1]) end
        if ARGV[1] == 'running' then redis.call('HINCRBY', KEYS[1], 'starts', 1) end
        redis.call('EXPIRE', KEYS[1], ARGV[3])
        redis.call('XADD', KEYS[3], '*', 'event', ARGV[2])
        redis.call('EXPIRE', KEYS[3], ARGV[3])
        return 1
        ",
    )
});

/// KEYS: request, result.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('HEXISTS', KEYS[1], 'state') == 1 or redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        return redis.call('DEL', KEYS[1])
        ",
    )
});

/// KEYS: request, result, events. ARGV: result, final event, ttl. The first result wins.
static PUT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'EX', ARGV[3]) then return 0 end
        redis.call('XADD', KEYS[3], '*', 'event', ARGV[2])
        redis.call('EXPIRE', KEYS[3], ARGV[3])
        redis.call('EXPIRE', KEYS[1], ARGV[3])
        return 1
        ",
    )
});

pub struct Redis {
    client: Client,
    manager: ConnectionManager,
    address: String,
    ttl_s: u64,
}

struct Keys {
    request: String,
    result: String,
    events: String,
}

impl Keys {
    fn of(id: &RequestId) -> Self {
        Self {
            request: format!("tribunal:request:{id}"),
            result: format!("tribunal:result:{id}"),
            events: format!("tribunal:events:{id}"),
        }
    }
}

impl Redis {
    pub async fn connect(settings: &StoreSettings) -> Result<Self, StoreError> {
        let address = address::without_credentials(&settings.url);
        let unreachable = |error: RedisError| unreachable(&address, &error);
        let client = Client::open(settings.url.as_str()).map_err(unreachable)?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(500))
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let connect = ConnectionManager::new_with_config(client.clone(), config);
        let mut manager = match tokio::time::timeout(ANSWER_WITHIN, connect).await {
            Ok(connected) => connected.map_err(unreachable)?,
            Err(_) => {
                let reason = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
                return Err(StoreError::Unreachable { what: "Redis", address, reason });
            }
        };
        if !settings.allow_eviction {
            // INFO, because managed servers forbid CONFIG.
            let memory: String =
                redis::cmd("INFO").arg("memory").query_async(&mut manager).await.map_err(unreachable)?;
            let policy = memory.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).unwrap_or("unknown");
            if policy != "noeviction" {
                return Err(StoreError::Evicts { address, policy: policy.into() });
            }
        }
        Ok(Self { client, manager, address, ttl_s: settings.result_ttl_s })
    }

    /// Repeated once, because after a broken connection the manager's next command always fails. If it was only the
    /// answer that was lost, the script runs twice: `record` appends its event twice then, and `put` says that it was
    /// not the first, though its own first run was. Nothing else changes.
    async fn run<T: redis::FromRedisValue>(&self, script: &redis::ScriptInvocation<'_>) -> Result<T, StoreError> {
        let mut connection = self.manager.clone();
        let answer = match script.invoke_async(&mut connection).await {
            Err(error) if is_connection_failure(&error) => script.invoke_async(&mut connection).await,
            answer => answer,
        };
        answer.map_err(|error| failed(&self.address, &error))
    }

    async fn record_with_state(&self, id: &RequestId, state: &str, event: &Event) -> Result<(), StoreError> {
        let keys = Keys::of(id);
        let mut script = RECORD.prepare_invoke();
        script.key(keys.request).key(keys.result).key(keys.events).arg(state).arg(json(event)).arg(self.ttl_s);
        self.run::<i64>(&script).await.map(drop)
    }

    fn unreadable(&self, key: &str, reason: impl ToString) -> StoreError {
        StoreError::Unreadable { address: self.address.clone(), key: key.into(), reason: reason.to_string() }
    }
}

#[async_trait]
impl ResultStore for Redis {
    async fn claim(&self, id: &RequestId, digest: &Digest) -> Result<Claim, StoreError> {
        let keys = Keys::of(id);
        let mut script = CLAIM.prepare_invoke();
        script.key(&keys.request).key(keys.result).arg(digest.as_str()).arg(self.ttl_s);
        match self.run::<String>(&script).await?.as_str() {
            "new" => Ok(Claim::New),
            "unconfirmed" => Ok(Claim::Unconfirmed),
            "accepted" => Ok(Claim::Accepted),
            "conflict" => Ok(Claim::Conflict),
            other => Err(self.unreadable(&keys.request, format!("claim {other:?}"))),
        }
    }

    async fn confirm(&self, id: &RequestId) -> Result<(), StoreError> {
        self.record_with_state(id, "queued", &Event::Queued).await
    }

    async fn release(&self, id: &RequestId) -> Result<(), StoreError> {
        let keys = Keys::of(id);
        let mut script = RELEASE.prepare_invoke();
        script.key(keys.request).key(keys.result);
        self.run::<i64>(&script).await.map(drop)
    }

    async fn record(&self, id: &RequestId, event: &Event) -> Result<(), StoreError> {
        let state = if matches!(event, Event::Running { .. }) { "running" } else { "" };
        self.record_with_state(id, state, event).await
    }

    async fn starts(&self, id: &RequestId) -> Result<u32, StoreError> {
        let key = Keys::of(id).request;
        let mut connection = self.manager.clone();
        let answer: RedisResult<Option<u32>> = match connection.hget(&key, "starts").await {
            Err(error) if is_connection_failure(&error) => connection.hget(&key, "starts").await,
            answer => answer,
        };
        answer.map(Option::unwrap_or_default).map_err(|error| failed(&self.address, &error))
    }

    async fn put(&self, id: &RequestId, result: &ExecutionResult) -> Result<bool, StoreError> {
        let keys = Keys::of(id);
        let mut script = PUT.prepare_invoke();
        script
            .key(keys.request)
            .key(keys.result)
            .key(keys.events)
            .arg(json(result))
            .arg(json(&final_event(result)))
            .arg(self.ttl_s);
        Ok(self.run::<i64>(&script).await? == 1)
    }

    async fn state(&self, id: &RequestId) -> Result<State, StoreError> {
        let keys = Keys::of(id);
        let mut connection = self.manager.clone();
        let mut pipeline = redis::pipe();
        pipeline.get(&keys.result).hget(&keys.request, "state");
        let answer: RedisResult<(Option<Vec<u8>>, Option<String>)> = match pipeline.query_async(&mut connection).await {
            Err(error) if is_connection_failure(&error) => pipeline.query_async(&mut connection).await,
            answer => answer,
        };
        match answer.map_err(|error| failed(&self.address, &error))? {
            (Some(result), _) => {
                let result = serde_json::from_slice(&result).map_err(|error| self.unreadable(&keys.result, error))?;
                Ok(State::Done(Box::new(result)))
            }
            (None, Some(state)) if state == "running" => Ok(State::Running),
            (None, Some(_)) => Ok(State::Queued),
            (None, None) => Ok(State::Unknown),
        }
    }

    async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError> {
        // A connection of its own: a blocking read would hold up everybody else on a shared one.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_WITHIN)).set_response_timeout(None);
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| unreachable(&self.address, &error))?;
        let follower = Follower {
            connection,
            key: Keys::of(id).events,
            last: after.unwrap_or_else(|| "0".into()),
            read: Vec::new().into_iter(),
            ended: false,
            address: self.address.clone(),
        };
        Ok(stream::unfold(follower, Follower::step).boxed())
    }
}

/// One caller following one stream.
struct Follower {
    connection: MultiplexedConnection,
    key: String,
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
        let options = StreamReadOptions::default().block(FOLLOW_FOR.as_millis() as usize).count(100);
        let (key, last) = ([&self.key], [&self.last]);
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
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("results and events have only string keys")
}

fn is_connection_failure(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}

fn failed(address: &str, error: &RedisError) -> StoreError {
    match is_connection_failure(error) {
        true => unreachable(address, error),
        false => StoreError::Refused { address: address.into(), reason: error.to_string() },
    }
}

fn unreachable(address: &str, error: &RedisError) -> StoreError {
    let reason = match error.kind() {
        // The parser's own words help nobody.
        ErrorKind::Parse => "what answers there does not speak Redis's protocol".into(),
        _ => error.to_string(),
    };
    StoreError::Unreachable { what: "Redis", address: address.into(), reason }
}
