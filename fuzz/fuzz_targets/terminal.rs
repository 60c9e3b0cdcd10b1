//! Runs a terminal side with arbitrary events; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terminal::oracle::fuzz::run(bytes));
