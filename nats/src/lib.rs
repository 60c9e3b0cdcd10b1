//! Joins the agents of many machines over NATS JetStream.

pub mod batch;
pub mod bridge;
pub mod cli;
pub mod js;
pub mod link;
pub mod local;
pub mod outbox;
pub mod presence;
pub mod pull;
pub mod reports;
pub mod sequencer;
pub mod side;
pub mod subject;
