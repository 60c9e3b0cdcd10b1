//! Reads a frame's JSON; the body has the checks.

#![no_main]

#[path = "../bodies/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envelope::run(bytes));
