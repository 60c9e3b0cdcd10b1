//! Reads configuration files; the body has the checks.

#![no_main]

#[path = "../bodies/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::run(bytes));
