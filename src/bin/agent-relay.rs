//! `agent-relay`: the daemon and the command line.

use std::{env, process};

fn main() {
    process::exit(agent_relay::cli::agent_relay(env::args_os().skip(1)))
}
