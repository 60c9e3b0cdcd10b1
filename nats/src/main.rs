//! `agent-relay-nats`: joins the agents of many machines over NATS JetStream.

use std::{env, process};

fn main() {
    process::exit(agent_relay_nats::cli::run(env::args_os().skip(1)))
}
