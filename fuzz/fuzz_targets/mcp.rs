//! Reads the lines of an MCP client; the body has the checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::mcp::run(bytes));
