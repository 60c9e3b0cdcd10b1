//! Splits bytes into frames; the body has the checks.

#![no_main]

#[path = "../bodies/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::run(bytes));
