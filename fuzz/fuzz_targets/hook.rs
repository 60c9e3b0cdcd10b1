//! Reads what hooks get; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::hook::run(bytes));
