//! Opens stores with arbitrary rows; what has to hold is in the body.

#![no_main]

#[path = "../bodies/rows.rs"]
mod rows;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rows::run(bytes));
