//! Reads transcripts; what has to hold is in the body.

#![no_main]

#[path = "../bodies/transcript.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transcript::run(bytes));
