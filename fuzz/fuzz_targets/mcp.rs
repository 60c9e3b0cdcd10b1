//! Reads the lines of an MCP client; the body has the checks.

#![no_main]

#[path = "../bodies/mcp.rs"]
mod mcp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mcp::run(bytes));
