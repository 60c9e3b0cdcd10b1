//! Cuts bytes into frames; what has to hold is in the body.

#![no_main]

#[path = "../bodies/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frames::run(bytes));
