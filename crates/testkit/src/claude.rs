//! Shell scripts under the name of Claude Code, which run its hooks.

use crate::{programs::program, sandbox::Sandbox, terminal::Terminal, waiting::output};
use std::fs;

/// The beginning of each script. `hook EVENT` runs a hook, whose payload is the standard input.
/// `begin_turn` begins a turn. `$first` is the first argument.
///
/// In all of a script, `$RELAY` and `$WRAP` are the paths of `agent-relay` and `agent-relay-wrap`.
const HEAD: &str = r#"#!/bin/sh
first=$1
while [ "$1" != --settings ]; do shift || exit 9; done
to=$(dirname "$2")/wrapper.json
hook() { "$WRAP" hook claude "$1" --to "$to"; }
# A hook gives up after half a second.
begin_turn() {
    until "$RELAY" agents --json | grep -q '"activity":"working"'; do
        echo '{"prompt":"Work."}' | hook UserPromptSubmit
    done
}
"#;

/// Starts a script as Claude Code of a version with hooks, wrapped as Ann with these options. It
/// runs in the directory of the sandbox.
pub fn start_with_hooks(sandbox: &Sandbox, script: &str, options: &[&str]) -> Terminal {
    start_program(sandbox, &install_with_hooks(sandbox, script), options)
}

/// Starts a script as Claude Code of an unknown version, which gets no hooks.
pub fn start(sandbox: &Sandbox, script: &str, options: &[&str]) -> Terminal {
    start_program(sandbox, &install(sandbox, script), options)
}

/// Writes a script as Claude Code of a version with hooks, and returns its path.
pub fn install_with_hooks(sandbox: &Sandbox, script: &str) -> String {
    let package = sandbox.directory().join("package.json");
    fs::write(package, r#"{"version": "2.1.330"}"#).unwrap();
    let path = |name: &str| program(name).into_os_string().into_string().unwrap();
    let script = format!("{HEAD}{script}")
        .replace("$RELAY", &path("agent-relay"))
        .replace("$WRAP", &path("agent-relay-wrap"));
    install(sandbox, &script)
}

fn install(sandbox: &Sandbox, script: &str) -> String {
    let program = sandbox.directory().join("claude");
    fs::write(&program, script).unwrap();
    let mut chmod = sandbox.program("chmod");
    chmod.arg("+x").arg(&program);
    assert!(output(chmod).status.success());
    program.into_os_string().into_string().unwrap()
}

fn start_program(sandbox: &Sandbox, program: &str, options: &[&str]) -> Terminal {
    let options = [&["-n", "Ann"], options].concat();
    let terminal = Terminal::wrap_with(sandbox, &options, &[program]);
    terminal.wait_for("ready");
    terminal
}
