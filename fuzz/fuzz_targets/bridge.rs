//! Has a bridge's terminal and relay do what they like; what has to hold is in the body.

#![no_main]

#[path = "../bodies/bridge.rs"]
mod bridge;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bridge::run(bytes));
