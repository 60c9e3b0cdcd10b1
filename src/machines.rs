//! Agents of other machines: what joins their daemons with the local one.
//!
//! A transport carries frames between machines: a pipe such as that of ssh, or a broker.
//! The [`border`] decides which messages cross, and [`local`] joins the local daemon under the names
//! of the other machines' agents.

pub mod border;
pub mod link;
pub mod local;
pub mod window;
