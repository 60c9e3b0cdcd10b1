//! agent-relay-wrap

fn main() {}
