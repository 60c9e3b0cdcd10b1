//! `agent-relayw`: `agent-relay` for which Windows opens no console window. A task at logon runs it.
#![windows_subsystem = "windows"]

use std::{env, process};

fn main() {
    process::exit(agent_relay::cli::agent_relay(env::args_os().skip(1)))
}
