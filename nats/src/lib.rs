//! Joins the agents of many machines over NATS JetStream.

pub mod batch;
pub mod sequencer;
pub mod subject;
