//! Reads what is said at a wrapper's endpoint; what has to hold is in the body.

#![no_main]

#[path = "../bodies/control.rs"]
mod control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::run(bytes));
