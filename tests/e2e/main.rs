//! The promises, each with the tests that hold us to it. Everything runs on a real RabbitMQ, a real Redis, a real
//! Docker daemon and the real kernel.
#![allow(clippy::unwrap_used)]

mod bounded;
mod forgeries;
mod images;
mod languages;
mod native;
mod road;
mod rootfs;
mod sandbox;
mod seed;
mod survival;
