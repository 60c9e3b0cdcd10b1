//! `agent-relayw`: `agent-relay` without a console window on Windows, for the task at logon.
#![windows_subsystem = "windows"]

use std::{env, process};

fn main() {
    process::exit(agent_relay::cli::agent_relay(env::args_os().skip(1)))
}
