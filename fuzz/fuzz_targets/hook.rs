//! Reads what hooks get; the body has the checks.

#![no_main]

#[path = "../bodies/hook.rs"]
mod hook;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hook::run(bytes));
