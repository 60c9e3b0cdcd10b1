//! Joins the agents of many machines over NATS JetStream.

pub mod batch;
pub mod outbox;
pub mod sequencer;
pub mod subject;
