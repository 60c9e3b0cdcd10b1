//! Paints bytes on a screen and reads messages off it; what has to hold is in the body.

#![no_main]

#[path = "../bodies/screen.rs"]
mod screen;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| screen::run(bytes));
