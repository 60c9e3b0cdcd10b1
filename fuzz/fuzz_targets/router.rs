//! Runs a router through a list of operations; what has to hold is in the body.

#![no_main]

#[path = "../bodies/router.rs"]
mod router;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| router::run(bytes));
