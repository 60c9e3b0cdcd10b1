//! Hostile clients: programs of the same user that misuse the daemon, on purpose or by mistake.
//!
//! During each test, two well-behaved agents exchange messages undisturbed, newcomers are welcomed
//! in time, and the daemon's memory stays bounded. Single bad frames and most limits are tested in
//! crates/protocol and crates/router/src/tests; many well-behaved clients in `stress` and
//! `every_system`.

mod attack;
mod floods;
mod limits;
mod paths;
mod tokens;

pub(crate) use attack::Pair;
