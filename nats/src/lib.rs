//! Joins the agents of many machines over NATS JetStream.
//!
//! ```text
//!  daemon <-> clients <-> Border      side's thread     NATS's thread          NATS
//!             (agent_relay::machines)  side <-> local <-> bridge <-> link, pull <-> stream RELAY_pi
//!                                                        |
//!                                   Outbox, Sequencer, Presence (values in, values out)
//! ```
//!
//! - [`outbox`] publishes what goes to other hosts, in order; [`batch`] puts frames together.
//! - [`sequencer`] restores the order of what comes from the stream; [`pull`] asks for it.
//! - [`presence`] knows which hosts are there and what they export.
//! - [`bridge`] is the loop around them, [`link`] the connection, [`js`] JetStream's JSON, and
//!   [`subject`] the names in NATS.
//! - [`side`] is the local side, around the border in the main crate; [`local`] is the channel to it.
//!
//! A message is acknowledged to the sender's daemon when the stream of the receiving host has it,
//! and to JetStream when the receiver's daemon has accepted or refused it.

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
