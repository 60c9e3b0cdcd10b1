//! Joins the agents of many machines over NATS JetStream.

pub mod batch;
pub mod js;
pub mod outbox;
pub mod presence;
pub mod sequencer;
pub mod subject;
