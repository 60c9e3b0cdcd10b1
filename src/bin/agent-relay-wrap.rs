//! `agent-relay-wrap`: `agent-relay run` under another name.

use std::{env, process};

fn main() {
    process::exit(agent_relay::cli::agent_relay_wrap(env::args_os().skip(1)))
}
