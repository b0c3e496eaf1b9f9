//! `/metrics`, `/live` and `/ready`, for those who watch over a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::health::Health;
use crate::pulse::Pulse;

/// A worker whose heart has not beaten for this long hangs, whatever else it does.
const HANGS_AFTER: Duration = Duration::from_secs(30);
/// What was recorded is folded into buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Those who look at a worker are few.
const CONNECTIONS: usize = 32;
const ASKED_WITHIN: Duration = Duration::from_secs(5);
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
const ACCEPTED_AGAIN_AFTER: Duration = Duration::from_secs(1);

pub struct Watched {
    pub metrics: PrometheusHandle,
    pub health: Arc<Health>,
    pub pulse: Arc<Pulse>,
}

/// Bound before anything else is done: an address that is taken must be seen at the start.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("worker.listen: cannot listen on {address}: {error}"))
}

pub async fn serve(listener: TcpListener, watched: Watched) {
    let upkeep = watched.metrics.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            upkeep.run_upkeep();
        }
    });
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .with_state(Arc::new(watched));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = routes.clone();
                tokio::spawn(async move {
                    answer(stream, routes).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: others give some back.
                tracing::warn!(%error, "nobody can look at this worker just now");
                tokio::time::sleep(ACCEPTED_AGAIN_AFTER).await;
            }
        }
    }
}

/// Whoever asks slowly, or not at all, is left after a while: it would keep a descriptor that a sandbox needs.
async fn answer(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ASKED_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let _ = tokio::time::timeout(ANSWERED_WITHIN, connection).await;
}

async fn metrics(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], watched.metrics.render())
}

async fn live(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    match watched.pulse.age() {
        age if age > HANGS_AFTER => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("no heartbeat for {} s\n", age.as_secs()))
        }
        _ => (StatusCode::OK, "alive\n".into()),
    }
}

/// With what is wrong, a line for each part.
async fn ready(State(watched): State<Arc<Watched>>) -> impl IntoResponse {
    let problems = watched.health.problems();
    if problems.is_empty() {
        return (StatusCode::OK, "ready\n".into());
    }
    let lines = problems.iter().map(|(part, problem)| format!("{}: {problem}\n", part.as_str()));
    (StatusCode::SERVICE_UNAVAILABLE, lines.collect::<String>())
}
