//! Reads policy files; what has to hold is in the body.

#![no_main]

#[path = "../bodies/policy.rs"]
mod policy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policy::run(bytes));
