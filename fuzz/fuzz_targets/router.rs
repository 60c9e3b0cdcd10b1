//! Runs a router with arbitrary operations; the body has the checks.

#![no_main]

#[path = "../bodies/router.rs"]
mod router;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| router::run(bytes));
