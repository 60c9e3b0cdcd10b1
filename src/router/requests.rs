//! `@relay`: the daemon as an agent that answers requests, and shows what is routed.
//!
//! A request is parsed in `request`. What the router knows itself is answered at once; for the rest
//! the store is asked, and `queue` keeps each connection's answers in order. `access` decides what
//! a client may ask for, and `rows` how deliveries look in an answer.

mod access;
mod queue;
mod reports;
mod request;
mod rows;
mod serve;
mod table;
mod taps;

pub(super) use table::Requests;
