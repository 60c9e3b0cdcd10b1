//! Programs under the name of Claude Code, which run its hooks: [`Claude`], for every system, and
//! shell scripts.

use crate::{
    programs::{copy_program, example_program, program},
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::output,
};
use platform::process::SYSTEM;
use serde_json::Value;
use std::{
    env,
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
};

/// The version of a Claude Code with hooks.
const PACKAGE: &str = r#"{"version": "2.1.330"}"#;

/// A scripted Claude Code: the tests' program `claude`, which does what a test tells it.
pub struct Claude {
    folder: PathBuf,
    pub program: String,
}

impl Claude {
    /// Installs the program in the sandbox, with a version that has hooks.
    #[track_caller]
    pub fn install(sandbox: &Sandbox) -> Self {
        let folder = sandbox.directory().join("claude-code");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("package.json"), PACKAGE).unwrap();
        let program = folder.join(format!("claude{}", env::consts::EXE_SUFFIX));
        copy_program(example_program("claude"), &program);
        Self { folder, program: program.into_os_string().into_string().unwrap() }
    }

    /// Starts the program in a terminal, wrapped as Ann.
    #[track_caller]
    pub fn wrap(&self, sandbox: &Sandbox) -> Terminal {
        start_program(sandbox, &self.program, &[])
    }

    pub fn print(&self, text: &str) {
        self.tell(&["print", text]);
    }

    /// Sets the terminal's title, as programs of the system do.
    pub fn set_title(&self, title: &str) {
        if SYSTEM == "windows" {
            // The words are not quoted, since the quotes would be in the title.
            let words: Vec<_> = title.split(' ').collect();
            self.run(&[&["cmd", "/c", "title"], &words[..]].concat());
        } else {
            self.print(&format!("\x1b]0;{title}\x07"));
        }
    }

    /// Runs a program in the terminal.
    pub fn run(&self, command: &[&str]) {
        self.tell(&[&["run"], command].concat());
    }

    /// Runs `agent-relay` in the terminal.
    pub fn relay(&self, arguments: &[&str]) {
        let relay = program("agent-relay");
        self.run(&[&[relay.to_str().unwrap()], arguments].concat());
    }

    /// Runs the hook of an event repeatedly, until the next command to the program.
    pub fn hook(&self, event: &str, payload: &str) {
        self.tell(&["hook", event, payload]);
    }

    pub fn end(&self, code: i32) {
        self.tell(&["end", &code.to_string()]);
    }

    /// Clears the instructions for the next start.
    pub fn forget(&self) {
        fs::remove_file(self.folder.join("script")).unwrap();
    }

    /// The directory and the arguments of each start, without those of its hooks.
    pub fn started(&self) -> Vec<(PathBuf, Vec<String>)> {
        let text = fs::read_to_string(self.folder.join("started")).unwrap_or_default();
        let started = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let mut arguments: Vec<String> =
                serde_json::from_value(line["arguments"].clone()).unwrap();
            if let Some(at) = arguments.iter().position(|word| word == "--settings") {
                arguments.drain(at..at + 2);
            }
            (line["directory"].as_str().unwrap().into(), arguments)
        });
        started.collect()
    }

    fn tell(&self, words: &[&str]) {
        let line = serde_json::to_string(words).unwrap() + "\n";
        let script = self.folder.join("script");
        let mut script = OpenOptions::new().create(true).append(true).open(script).unwrap();
        script.write_all(line.as_bytes()).unwrap();
    }
}

/// The beginning of each script. `hook EVENT` runs a hook with its payload from standard input.
/// `begin_turn` begins a turn. `$first` is the first argument.
///
/// In all of a script, `$RELAY` and `$WRAP` are the paths of `agent-relay` and `agent-relay-wrap`.
const HEAD: &str = r#"#!/bin/sh
first=$1
while [ "$1" != --settings ]; do shift || exit 9; done
to=$(dirname "$2")/wrapper.json
hook() { "$WRAP" hook claude "$1" --to "$to"; }
# A hook gives up when its wrapper is slow.
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
    fs::write(package, PACKAGE).unwrap();
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
