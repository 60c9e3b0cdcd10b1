//! Reads transcripts; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terminal::transcript::fuzz::run(bytes));
