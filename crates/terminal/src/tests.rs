//! Scripted tests of the whole terminal side, and tests of its invariants under random inputs.

mod brief;
mod foreground;
pub(crate) mod foreign_words;
mod loops;
mod notices;
mod person;
mod random_inputs;
mod routes;
pub(crate) mod script;
mod typing;
