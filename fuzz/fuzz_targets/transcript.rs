//! Reads transcripts; the body has the checks.

#![no_main]

#[path = "../bodies/transcript.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transcript::run(bytes));
