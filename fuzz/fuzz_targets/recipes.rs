//! Reads files of recipes; the body has the checks.

#![no_main]

#[path = "../bodies/recipes.rs"]
mod recipes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recipes::run(bytes));
