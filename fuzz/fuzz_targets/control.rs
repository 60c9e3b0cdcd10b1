//! Reads frames at a wrapper's endpoint; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::control::run(bytes));
