//! Opens stores with arbitrary rows; the body has the checks.

#![no_main]

#[path = "../bodies/rows.rs"]
mod rows;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rows::run(bytes));
