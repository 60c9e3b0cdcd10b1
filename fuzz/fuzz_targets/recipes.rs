//! Reads files of recipes; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::recipes::run(bytes));
