//! Redis: results, states and event streams, each with a time to live.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `tribunal:result:ID` | string | the result as JSON |
//! | `tribunal:request:ID` | hash | `digest` of the body, `state` (absent, `queued`, `running`), `starts`, and who runs it: `owner`, `token`, when it was `heard` |
//! | `tribunal:events:ID` | stream | one field, `event`, as JSON; `queued` has the id 0-1, and may be left to `state` |
//! | `tribunal:worker:NAME` | string | there for as long as the worker is alive |
//! | `tribunal:workers` | hash | for every worker by name, when it was last heard of and what it said, as JSON |
//!
//! What must happen together happens in one of the [`scripts`].

mod follower;
mod scripts;

use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::streams::StreamRangeReply;
use redis::{Client, ErrorKind, FromRedisValue, RedisError};

use super::{
    ALIVE_FOR, Blame, Claim, Event, Events, Lease, REMEMBERED_FOR, ResultStore, State, StoreError, Take, WorkerReport,
    WorkerStatus, attempts, final_event,
};
use crate::address;
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::{Attempt, ExecutionResult};

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
const WORKERS: &str = "tribunal:workers";

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
    async fn run<T: FromRedisValue>(&self, script: &redis::ScriptInvocation<'_>) -> Result<T, StoreError> {
        let mut connection = self.manager.clone();
        let answer = match script.invoke_async(&mut connection).await {
            Err(error) if is_connection_failure(&error) => script.invoke_async(&mut connection).await,
            answer => answer,
        };
        answer.map_err(|error| failed(&self.address, &error))
    }

    /// The same for commands that need no script.
    async fn ask<T: FromRedisValue>(&self, commands: &redis::Pipeline) -> Result<T, StoreError> {
        let mut connection = self.manager.clone();
        let answer = match commands.query_async(&mut connection).await {
            Err(error) if is_connection_failure(&error) => commands.query_async(&mut connection).await,
            answer => answer,
        };
        answer.map_err(|error| failed(&self.address, &error))
    }

    fn unreadable(&self, key: &str, reason: impl ToString) -> StoreError {
        StoreError::Unreadable { address: self.address.clone(), key: key.into(), reason: reason.to_string() }
    }
}

#[async_trait]
impl ResultStore for Redis {
    async fn claim_all(&self, claims: &[(RequestId, Digest)]) -> Result<Vec<Claim>, StoreError> {
        let mut script = scripts::CLAIM.prepare_invoke();
        script.arg(self.ttl_s);
        for (id, digest) in claims {
            let keys = Keys::of(id);
            script.key(keys.request).key(keys.result).arg(digest.as_str());
        }
        let answers = self.run::<Vec<String>>(&script).await?;
        let read = |answer: String| match answer.as_str() {
            "new" => Ok(Claim::New),
            "unconfirmed" => Ok(Claim::Unconfirmed),
            "accepted" => Ok(Claim::Accepted),
            "conflict" => Ok(Claim::Conflict),
            other => Err(self.unreadable("tribunal:request:", format!("claim {other:?}"))),
        };
        answers.into_iter().map(read).collect()
    }

    async fn confirm_all(&self, confirmed: &[(RequestId, Digest)]) -> Result<(), StoreError> {
        let mut script = scripts::CONFIRM.prepare_invoke();
        script.arg(self.ttl_s).arg(json(&Event::Queued));
        for (id, digest) in confirmed {
            let keys = Keys::of(id);
            script.key(keys.request).key(keys.result).key(keys.events).arg(digest.as_str());
        }
        self.run::<()>(&script).await
    }

    async fn release(&self, id: &RequestId) -> Result<(), StoreError> {
        let keys = Keys::of(id);
        let mut script = scripts::RELEASE.prepare_invoke();
        script.key(keys.request).key(keys.result);
        self.run::<()>(&script).await
    }

    async fn take(
        &self,
        id: &RequestId,
        digest: &Digest,
        lease: &Lease,
        max_attempts: u32,
    ) -> Result<Take, StoreError> {
        let keys = Keys::of(id);
        let mut script = scripts::TAKE.prepare_invoke();
        script
            .key(&keys.request)
            .key(keys.result)
            .key(keys.events)
            .arg(self.ttl_s)
            .arg(digest.as_str())
            .arg(&lease.worker)
            .arg(&lease.token)
            .arg(max_attempts)
            .arg(json(&Event::Queued))
            .arg(u8::from(lease.alone))
            .arg(ALIVE_FOR.as_millis() as u64);
        let (answer, detail): (String, String) = self.run(&script).await?;
        match answer.as_str() {
            "begun" => match detail.parse() {
                Ok(attempt) => Ok(Take::Begun { attempt }),
                Err(error) => Err(self.unreadable(&keys.request, error)),
            },
            "done" => Ok(Take::Done),
            "elsewhere" => Ok(Take::Elsewhere { worker: detail }),
            "alone" => Ok(Take::Alone),
            "exhausted" => Ok(Take::Exhausted),
            "conflict" => Ok(Take::Conflict),
            other => Err(self.unreadable(&keys.request, format!("take {other:?}"))),
        }
    }

    async fn record(&self, id: &RequestId, lease: &Lease, event: &Event) -> Result<(), StoreError> {
        let keys = Keys::of(id);
        let mut script = scripts::RECORD.prepare_invoke();
        script.key(keys.request).key(keys.result).key(keys.events).arg(self.ttl_s).arg(&lease.token).arg(json(event));
        self.run::<()>(&script).await
    }

    async fn give_back(&self, id: &RequestId, lease: &Lease, reason: &str, blame: Blame) -> Result<(), StoreError> {
        let keys = Keys::of(id);
        let event = Event::GivenBack { worker: lease.worker.clone(), reason: reason.into() };
        let forgiven = i32::from(blame == Blame::Worker);
        let mut script = scripts::GIVE_BACK.prepare_invoke();
        script
            .key(keys.request)
            .key(keys.result)
            .key(keys.events)
            .arg(self.ttl_s)
            .arg(&lease.token)
            .arg(json(&event))
            .arg(forgiven);
        self.run::<()>(&script).await
    }

    async fn history(&self, id: &RequestId) -> Result<Vec<Attempt>, StoreError> {
        let (reply,): (StreamRangeReply,) = self.ask(redis::pipe().xrange_all(Keys::of(id).events)).await?;
        let texts = reply.ids.iter().filter_map(|entry| entry.get::<String>("event"));
        let events: Vec<Event> = texts.filter_map(|text| serde_json::from_str(&text).ok()).collect();
        Ok(attempts(&events))
    }

    async fn put(&self, id: &RequestId, digest: Option<&Digest>, result: &ExecutionResult) -> Result<bool, StoreError> {
        let keys = Keys::of(id);
        let mut script = scripts::PUT.prepare_invoke();
        script
            .key(keys.request)
            .key(keys.result)
            .key(keys.events)
            .arg(self.ttl_s)
            .arg(json(result))
            .arg(json(&final_event(result)))
            .arg(json(&Event::Queued))
            .arg(digest.map_or("", Digest::as_str));
        Ok(self.run::<i64>(&script).await? == 1)
    }

    async fn state(&self, id: &RequestId) -> Result<State, StoreError> {
        let keys = Keys::of(id);
        let mut pipeline = redis::pipe();
        pipeline.get(&keys.result).hget(&keys.request, "state");
        let answer: (Option<Vec<u8>>, Option<String>) = self.ask(&pipeline).await?;
        match answer {
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
        follower::follow(&self.client, &self.address, Keys::of(id), after).await
    }

    async fn forget(&self, id: &RequestId, digest: &Digest) -> Result<bool, StoreError> {
        let keys = Keys::of(id);
        let mut script = scripts::FORGET.prepare_invoke();
        script.key(keys.request).key(keys.result).key(keys.events).arg(digest.as_str());
        Ok(self.run::<i64>(&script).await? == 1)
    }

    async fn beat(&self, report: &WorkerReport, running: &[RequestId]) -> Result<Vec<RequestId>, StoreError> {
        let mut script = scripts::BEAT.prepare_invoke();
        script
            .key(worker_key(&report.name))
            .key(WORKERS)
            .arg(ALIVE_FOR.as_millis() as u64)
            .arg(&report.name)
            .arg(json(report))
            .arg(self.ttl_s);
        for id in running {
            let keys = Keys::of(id);
            script.key(keys.result).key(keys.request).key(keys.events);
        }
        let done: Vec<bool> = self.run(&script).await?;
        Ok(running.iter().zip(done).filter(|(_, done)| *done).map(|(id, _)| id.clone()).collect())
    }

    async fn leave(&self, worker: &str) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.del(worker_key(worker)).ignore().hdel(WORKERS, worker).ignore();
        self.ask(&pipeline).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        let mut script = scripts::WORKERS.prepare_invoke();
        script.key(WORKERS).arg(REMEMBERED_FOR.as_millis() as u64);
        let heard: Vec<(u64, String)> = self.run(&script).await?;
        let read = |(last_heartbeat_ms, said): (u64, String)| {
            let alive = last_heartbeat_ms < ALIVE_FOR.as_millis() as u64;
            // What a worker of another version says, and we do not understand, is nothing to fail for.
            let report = serde_json::from_str(&said).ok()?;
            Some(WorkerStatus { report, last_heartbeat_ms, alive })
        };
        let mut workers: Vec<_> = heard.into_iter().filter_map(read).collect();
        workers.sort_by(|one, other| one.report.name.cmp(&other.report.name));
        Ok(workers)
    }
}

fn worker_key(name: &str) -> String {
    format!("tribunal:worker:{name}")
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
