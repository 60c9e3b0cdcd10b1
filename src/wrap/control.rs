//! The wrapper's own endpoint, through which a person's commands control one agent.
//!
//! `attach`, `hold`, `release`, `stop` and `status` connect to the endpoint with a
//! [`client::ControlClient`]. In the wrapper, `server` has the threads, and `clients` the state of
//! each connection.

pub(crate) mod client;
pub(super) mod clients;
pub(super) mod server;
