//! The program that an agent runs and its directory, as shown to people.

use super::{Book, Settings, agents, texts};
use platform::{paths, process};
use std::{ffi::OsString, path::Path};

/// Returns the name of an agent CLI, or else the command's file name without its directory.
pub(super) fn program(command: &[OsString], recipes: &Book) -> Option<String> {
    if let Some(cli) = agent_cli(command, recipes) {
        return Some(cli);
    }
    let file = Path::new(command.first()?).file_name()?;
    Some(file.to_string_lossy().into_owned())
}

/// Returns the name of the agent CLI that a command runs, if it runs one.
pub(crate) fn agent_cli(command: &[OsString], recipes: &Book) -> Option<String> {
    let recipe = recipes.choose(&texts(command), process::SYSTEM, None).name;
    agents::named(&recipe).map(|_| recipe)
}

/// Returns the whole path of the command's directory. `None` if this process has none any more.
pub(super) fn directory(settings: &Settings) -> Option<String> {
    let directory = match &settings.directory {
        Some(directory) => paths::absolute(directory),
        None => paths::current_directory(),
    };
    directory.ok().map(|path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_the_agent_cli_or_the_commands_file() {
        for (command, name) in [
            (&["claude", "--continue"][..], Some("claude")),
            (&["/opt/bin/codex"], Some("codex")),
            (&["agy"], Some("agy")),
            (&["/bin/bash", "-i"], Some("bash")),
            (&["./agent.py"], Some("agent.py")),
            (&[], None),
        ] {
            let words: Vec<_> = command.iter().map(OsString::from).collect();
            assert_eq!(program(&words, &Book::default()).as_deref(), name, "{command:?}");
        }
    }
}
