//! Bridges between real daemons over real NATS servers.

#[path = "../support/mod.rs"]
mod support;

mod carry;
mod permissions;
