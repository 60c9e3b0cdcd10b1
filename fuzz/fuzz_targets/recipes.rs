//! Reads files of recipes; what has to hold is in the body.

#![no_main]

#[path = "../bodies/recipes.rs"]
mod recipes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recipes::run(bytes));
