//! `completions`: completion scripts for shells.
//!
//! A script does not know the commands: it asks this program, which answers with `complete`.

use super::{
    failure::{DONE, Failure},
    print::Out,
};
use argh::{ArgsInfo, FromArgs};
use protocol::text::escaped;

/// Print a completion script for bash, zsh, fish or powershell.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "completions",
    help_triggers("--help"),
    example = "agent-relay completions bash > ~/.local/share/bash-completion/completions/agent-relay",
    example = "agent-relay completions fish > ~/.config/fish/completions/agent-relay.fish",
    example = "agent-relay completions powershell | Out-String | Invoke-Expression",
    note = "The scripts ask `agent-relay` on the PATH for agents, ids and topics. They start nothing."
)]
pub(super) struct Completions {
    /// bash, zsh, fish or powershell
    #[argh(positional, arg_name = "shell")]
    shell: String,
}

impl Completions {
    pub(super) fn run(self) -> Result<i32, Failure> {
        let script = match self.shell.as_str() {
            "bash" => include_str!("completions/agent-relay.bash"),
            "zsh" => include_str!("completions/agent-relay.zsh"),
            "fish" => include_str!("completions/agent-relay.fish"),
            "powershell" | "pwsh" => include_str!("completions/agent-relay.ps1"),
            other => {
                return Err(Failure::usage(format!(
                    "no completions for {}: there are bash, zsh, fish and powershell",
                    escaped(other)
                )));
            }
        };
        Out::new().raw(script)?;
        Ok(DONE)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn powershell_script_is_balanced_and_plain() {
        let script = include_str!("completions/agent-relay.ps1");
        assert!(script.is_ascii(), "Windows PowerShell reads files in the system's own encoding");
        for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
            let count = |mark| script.matches(mark).count();
            assert_eq!(count(open), count(close), "{script}");
        }
        assert!(script.lines().all(|line| line.matches('\'').count() % 2 == 0), "{script}");
        assert!(!script.contains(['"', '`']), "every text is in single quotes: {script}");
    }
}
