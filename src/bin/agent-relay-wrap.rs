//! `agent-relay-wrap`: runs an agent in a terminal of its own and speaks for it.

use std::{env, process};

fn main() {
    process::exit(agent_relay::cli::agent_relay_wrap(env::args_os().skip(1)))
}
