//! Runs a bridge with arbitrary events; the body has the checks.

#![no_main]

#[path = "../bodies/bridge.rs"]
mod bridge;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bridge::run(bytes));
