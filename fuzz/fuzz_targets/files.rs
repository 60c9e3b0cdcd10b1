//! Reads configuration files; what has to hold is in the body.

#![no_main]

#[path = "../bodies/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::run(bytes));
