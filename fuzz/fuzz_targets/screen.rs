//! Prints bytes on a screen and extracts messages; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terminal::extract::fuzz::run(bytes));
