//! The promises, each with the tests that hold us to it. Everything runs on a real RabbitMQ, a real Redis, a real
//! Docker daemon and the real kernel.
#![allow(clippy::unwrap_used)]

mod bounded;
mod cancel;
mod fitness;
mod forgeries;
mod images;
mod lanes;
mod languages;
mod memory;
mod native;
mod observed;
mod outages;
mod poison;
mod road;
mod rootfs;
mod sandbox;
mod seed;
mod stopping;
mod survival;
mod takeover;
