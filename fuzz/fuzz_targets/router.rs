//! Runs a router with arbitrary operations; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| router::oracle::fuzz::run(bytes));
