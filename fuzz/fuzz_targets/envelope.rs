//! Judges a frame's JSON; what has to hold is in the body.

#![no_main]

#[path = "../bodies/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envelope::run(bytes));
