//! Reads configuration files; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::files::run(bytes));
