//! RabbitMQ: quorum queues for requests, one for each priority, and for what becomes of messages that fail.
//!
//! | queue | holds |
//! |---|---|
//! | `NAME.requests`, `.high`, `.low` | requests by priority; `NAME.LANGUAGE.requests` … where a language has its own |
//! | `NAME.fallen` | what the broker gave up by itself, until a worker has answered it |
//! | `NAME.unanswered` | what it gave up once more, because it brings down whoever reads it |
//! | `NAME.dead` | dead letters, for a person to look at |
//! | `NAME.parked` | messages of a version that no worker knew |
//!
//! Publishing and consuming use connections of their own, because a broker that is short of memory or disk blocks
//! those that publish, and acks must still get through.

mod consume;
mod declare;
mod headers;
mod letters;
mod publish;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Broker, Consumer, DeadLetter, Delivery, Depth, Fate, Message, Names, QueueError};
use crate::address;
use crate::config::QueueSettings;

/// A broker that has not answered by then is as good as down.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// The same for one node of several: the others want to be asked as well.
const NODE_ANSWERS_WITHIN: Duration = Duration::from_millis(1500);
/// The broker looks this often whether a client sent anything, and gives a frozen one's requests to others when it has found
/// nothing twice: six to nine seconds after it froze.
const HEARTBEAT_S: u16 = 3;

pub struct RabbitMq {
    /// The nodes of a cluster, or the only one.
    nodes: Vec<AMQPUri>,
    /// The node that answered last.
    node: AtomicUsize,
    /// It took a connection and then said nothing.
    silent: AtomicBool,
    address: String,
    names: Names,
    publisher: Mutex<Option<Link>>,
}

/// A connection with one channel. Both close when the last clone is dropped.
#[derive(Clone)]
struct Link {
    connection: Arc<Open>,
    channel: Channel,
}

/// A connection that closes when it is dropped. By itself it would not, if it was dropped in the middle of a subscription:
/// what waits for the broker's answer keeps it alive, and it would hoard requests that nobody reads.
struct Open(Arc<Connection>);

impl Drop for Open {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let connection = Arc::clone(&self.0);
            // If it fails, it is closed already.
            runtime.spawn(async move { connection.close(200, "done".into()).await });
        }
    }
}

impl RabbitMq {
    pub fn new(settings: &QueueSettings) -> Result<Self, QueueError> {
        let urls = || settings.url.split(',').map(str::trim).filter(|url| !url.is_empty());
        let address = urls().map(address::without_credentials).collect::<Vec<_>>().join(",");
        let parse = |url: &str| {
            let mut uri: AMQPUri = url.parse().map_err(|reason| unreachable(&address, reason))?;
            uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
            Ok(uri)
        };
        let nodes = urls().map(parse).collect::<Result<_, _>>()?;
        let (node, silent) = (AtomicUsize::new(0), AtomicBool::new(false));
        Ok(Self { nodes, node, silent, address, names: Names::new(settings), publisher: Mutex::new(None) })
    }

    /// Everything but a confirm is answered soon or not at all, and what waits for another caller's attempt waits no
    /// longer than that.
    async fn soon<T>(&self, work: impl Future<Output = lapin::Result<T>> + Send) -> Result<T, QueueError> {
        match timeout(ANSWER_WITHIN, work).await {
            Ok(done) => done.map_err(|error| unreachable(&self.address, self.explain_start(&error))),
            Err(_) => Err(unreachable(&self.address, format!("no answer within {} s", ANSWER_WITHIN.as_secs()))),
        }
    }

    /// What can be wrong from the start, with its remedy.
    fn explain_start(&self, error: &lapin::Error) -> String {
        let reason = explain(error);
        if is(error, AMQPHardError::NOTALLOWED) && self.nodes.iter().any(|node| node.vhost.is_empty()) {
            format!("{reason} (the URL names no virtual host; the default one is written /%2f)")
        } else if is(error, AMQPSoftError::PRECONDITIONFAILED) {
            format!("{reason} (delete that queue, or choose another queue.name)")
        } else {
            reason
        }
    }

    /// To the node that answered last, or the next one that does.
    async fn connection(&self, purpose: &str) -> lapin::Result<Connection> {
        let patience = if self.nodes.len() > 1 { NODE_ANSWERS_WITHIN } else { ANSWER_WITHIN };
        let last = self.node.load(Ordering::Relaxed);
        let mut refusal = None;
        for turn in 0..self.nodes.len() {
            let node = (last + turn) % self.nodes.len();
            let properties = ConnectionProperties::default().with_connection_name(format!("tribunal {purpose}").into());
            let attempt = async {
                if self.silent.load(Ordering::Relaxed) {
                    greeted_by(&self.nodes[node]).await?;
                }
                Connection::connect_uri(self.nodes[node].clone(), properties).await
            };
            match timeout(patience, attempt).await {
                Ok(Ok(connection)) => {
                    self.node.store(node, Ordering::Relaxed);
                    self.silent.store(false, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(error)) => refusal = Some(error),
                Err(_) => self.silent.store(true, Ordering::Relaxed),
            }
        }
        Err(refusal.unwrap_or_else(|| {
            let late = format!("no answer within {} s", patience.as_secs_f32());
            lapin::Error::from(std::io::Error::new(std::io::ErrorKind::TimedOut, late))
        }))
    }

    async fn link(&self, purpose: &str) -> lapin::Result<Link> {
        let connection = Open(Arc::new(self.connection(purpose).await?));
        let channel = connection.0.create_channel().await?;
        declare::all(&channel, &self.names).await?;
        Ok(Link { connection: Arc::new(connection), channel })
    }
}

#[async_trait]
impl Broker for RabbitMq {
    async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<(), QueueError>> {
        let outgoing = messages.into_iter().map(|message| publish::Outgoing::request(message, &self.names)).collect();
        publish::all(self, outgoing).await
    }

    async fn consume(&self, languages: &[String], prefetch: u16) -> Result<Box<dyn Consumer>, QueueError> {
        consume::start(self, languages, prefetch).await
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.soon(async {
            let connection = Open(Arc::new(self.connection("observer").await?));
            let count = async |name: &str| {
                // One for each queue: the broker closes it when there is no such queue.
                let channel = connection.0.create_channel().await?;
                match channel.queue_declare(name.into(), passive, FieldTable::default()).await {
                    Ok(queue) => Ok((u64::from(queue.message_count()), u64::from(queue.consumer_count()))),
                    Err(error) if is(&error, AMQPSoftError::NOTFOUND) => Ok((0, 0)),
                    Err(error) => Err(error),
                }
            };
            let mut depth = Depth::default();
            for name in self.names.requests_of(&[]) {
                let (ready, consumers) = count(&name).await?;
                depth.ready += ready;
                // A worker consumes several queues; the one that most do tells how many there are.
                depth.consumers = depth.consumers.max(consumers);
                depth.queues.push((name, ready));
            }
            depth.dead = count(&self.names.dead()).await?.0 + count(&self.names.fallen()).await?.0;
            depth.parked = count(&self.names.parked()).await?.0;
            depth.unanswered = count(&self.names.unanswered()).await?.0;
            Ok(depth)
        })
        .await
    }

    async fn bury(&self, letter: &DeadLetter) -> Result<(), QueueError> {
        publish::one(self, publish::Outgoing::dead(letter, &self.names)).await
    }

    async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
        letters::look(self, most).await
    }

    async fn exhume(&self, key: &str, fate: Fate) -> Result<usize, QueueError> {
        let counts = letters::exhume(self, &[key.to_owned()], fate).await?;
        Ok(counts.into_iter().sum())
    }

    async fn exhume_all(&self, keys: &[String], fate: Fate) -> Result<Vec<usize>, QueueError> {
        letters::exhume(self, keys, fate).await
    }

    async fn park(&self, delivery: &Delivery) -> Result<(), QueueError> {
        publish::one(self, publish::Outgoing::parked(delivery, &self.names)).await
    }

    async fn unpark(&self) -> Result<usize, QueueError> {
        letters::unpark(self).await
    }
}

/// Returns when a node speaks. The client's own attempt to connect lives on in a thread of its own when it is given up, and a
/// node that stays silent for hours would be met by hundreds of them.
async fn greeted_by(node: &AMQPUri) -> lapin::Result<()> {
    let mut stream = TcpStream::connect((node.authority.host.as_str(), node.authority.port)).await?;
    stream.write_all(b"AMQP\0\0\x09\x01").await?;
    stream.read_u8().await?;
    Ok(())
}

/// Whether it is what the broker says.
fn is(error: &lapin::Error, kind: impl Into<AMQPErrorKind>) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(protocol) if *protocol.kind() == kind.into())
}

fn unreachable(address: &str, reason: String) -> QueueError {
    QueueError::Unreachable { what: "RabbitMQ", address: address.into(), reason }
}

fn lost(address: &str, reason: impl Into<String>) -> QueueError {
    QueueError::Lost { address: address.into(), reason: reason.into() }
}

/// The broker's own words, where there are any.
fn explain(error: &lapin::Error) -> String {
    match error.kind() {
        lapin::ErrorKind::IOError(io) => io.to_string(),
        lapin::ErrorKind::ProtocolError(protocol) => protocol.get_message().to_string(),
        // The parser's own words help nobody.
        lapin::ErrorKind::ParsingError(_) | lapin::ErrorKind::InvalidProtocolVersion(_) => {
            "what answers there does not speak AMQP 0-9-1".into()
        }
        _ => error.to_string(),
    }
}
