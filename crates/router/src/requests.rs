//! `@relay`: the daemon as an agent that answers requests and copies messages to taps,
//! or tells them of changes.
//!
//! A request is parsed in `request`. The router answers at once if it can; otherwise it queries the
//! store, and `queue` keeps each connection's answers in order. `access` decides what a client may
//! ask for, and `rows` formats agents and deliveries for answers.

mod access;
mod changes;
mod names;
mod queue;
mod reports;
mod request;
mod rows;
mod serve;
mod table;
mod taps;

pub(super) use table::Requests;
