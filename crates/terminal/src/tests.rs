//! Tests of the whole terminal side by scripts, and of its invariants under random inputs.

mod brief;
mod foreground;
mod loops;
mod notices;
mod person;
mod random_inputs;
mod routes;
pub(crate) mod script;
mod typing;
