//! Prints bytes on a screen and extracts messages; the body has the checks.

#![no_main]

#[path = "../bodies/screen.rs"]
mod screen;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| screen::run(bytes));
