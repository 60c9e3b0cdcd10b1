//! agent-relay

fn main() {}
