//! What producers and workers must agree on: the wire contract, the queue, the store, the configuration.
//!
//! Nothing here runs untrusted code. The road of a request starts in [`request`] and ends in [`result`];
//! [`queue`] and [`store`] carry it in between.

pub mod address;
pub mod artifact;
pub mod check;
pub mod config;
pub mod language;
pub mod queue;
pub mod request;
pub mod result;
pub mod retry;
pub mod store;
pub mod suspicion;
pub mod telemetry;
