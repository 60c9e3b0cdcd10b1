//! An agent CLI, as far as its name goes, that asks its person something.

use crate::{
    programs::{copy_program, example_program},
    sandbox::Sandbox,
    terminal::Terminal,
};
use std::{env, fs};

/// Wraps a program that is named as Claude Code and shows the dialog for a command. It echoes keys
/// below the dialog.
pub fn start(sandbox: &Sandbox, name: &str, command: &str) -> Terminal {
    let directory = sandbox.directory().join(format!("bin-{name}"));
    fs::create_dir(&directory).unwrap();
    let program = directory.join(format!("claude{}", env::consts::EXE_SUFFIX));
    copy_program(example_program("lines"), &program);
    let dialog = format!("print \\nBash command\\n{command}\\nProceed?\\n❯ 1. Yes\\n  2. No\\n");
    let program = program.to_str().unwrap();
    let terminal = Terminal::wrap(sandbox, name, &[program, "--keys", &dialog]);
    terminal.wait_for_row("ready");
    terminal
}
