//! Transcript tests of the whole bridge, and its invariants under random inputs.

mod foreground;
mod notices;
mod person;
mod random_inputs;
mod typing;
