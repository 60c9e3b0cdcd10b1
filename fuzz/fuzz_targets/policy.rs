//! Reads policy files; the body has the checks.

#![no_main]

#[path = "../bodies/policy.rs"]
mod policy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policy::run(bytes));
