//! Joins the agents of many machines over NATS JetStream.
//!
//! ```text
//!  daemon <-> clients <-> Border      side's thread     NATS's thread          NATS
//!             (machines)  side <-> local <-> bridge <-> link, pull <-> stream RELAY_pi
//!                                       |                 |
//!                                     Inbox         Outbox, Presence (values in, values out)
//! ```
//!
//! - [`outbox`] publishes what goes to other hosts until they confirm it; [`batch`] puts frames
//!   together.
//! - [`inbox`] restores the order of what comes from the stream; [`pull`] asks for it.
//! - [`presence`] knows which hosts are there and what they export.
//! - [`bridge`] is the loop around them, [`link`] the connection, [`js`] JetStream's JSON, and
//!   [`subject`] the names in NATS.
//! - [`side`] is the local side, around the border in [`machines`]; [`local`] is the channel to it.
//!
//! A message is acknowledged to the sender's daemon only when the receiver's daemon has accepted
//! it, so no message depends on what NATS keeps, repeats or loses. Which messages cross is not
//! decided here, but in [`machines`]. Begin with [`bridge`]. The tests start real servers.

pub mod batch;
pub mod bridge;
pub mod cli;
pub mod inbox;
pub mod js;
pub mod link;
pub mod local;
pub mod outbox;
pub mod presence;
pub mod pull;
pub mod reports;
pub mod side;
pub mod subject;
