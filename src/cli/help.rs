//! The help of the program itself: its commands in groups, from their own descriptions.

use super::program::VERSION;
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind};

/// The word after `help` for the descriptions of all commands.
pub(super) const ALL: &str = "all";

/// The commands in groups, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Agents",
        &[
            "run", "spawn", "attach", "restore", "team", "agents", "wait", "hold", "release",
            "stop", "rename",
        ],
    ),
    ("Messages", &["send", "ask", "listen", "inbox", "read", "redeliver", "purge"]),
    ("Watching", &["top", "history", "tap"]),
    ("Daemon", &["up", "down", "status", "service", "policy", "doctor", "bridge", "stdio"]),
    ("Setup", &["brief", "mcp", "gemini-extension", "completions", "demo", "bench"]),
];

/// The group of commands that are in no other.
const OTHERS: &str = "Others";

/// The commands that are used most, each with an example. An agent CLI's name is short for `run`.
const MOST_USED: [(&str, &str); 3] = [
    ("run", "agent-relay claude"),
    ("send", "agent-relay send Ann \"How far are you?\""),
    ("agents", "agent-relay agents"),
];

/// A group of commands: its title, and their names and descriptions.
type Group<'a> = (&'static str, Vec<(&'a str, &'a str)>);

/// Returns the groups of a program's commands.
pub(super) fn groups(program: &CommandInfoWithArgs) -> Vec<Group<'_>> {
    let described = |name: &str| {
        let known = program.commands.iter().find(|known| known.name == name)?;
        Some((known.name, known.command.description))
    };
    let is_grouped = |name| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others = program.commands.iter().map(|known| known.name).filter(|name| !is_grouped(name));
    let mut groups: Vec<Group<'_>> = GROUPS
        .iter()
        .map(|(title, names)| (*title, names.iter().copied().filter_map(described).collect()))
        .collect();
    groups.push((OTHERS, others.filter_map(described).collect()));
    groups.retain(|(_, commands)| !commands.is_empty());
    groups
}

/// Returns the help that fits one screen: the commands that are used most, and the names of all.
pub(super) fn screen(program: &CommandInfoWithArgs) -> String {
    let mut text = format!("{}\n\n", program.description);
    for (name, example) in MOST_USED {
        let command = program.commands.iter().find(|known| known.name == name);
        let description = command.map(|known| known.command.description).unwrap_or_default();
        text.extend([description, "\n  ", example, "\n"]);
    }
    text.push('\n');
    for (title, commands) in groups(program) {
        let names: Vec<_> = commands.into_iter().map(|(name, _)| name).collect();
        text.push_str(&format!("{:<TITLE_COLUMNS$}{}\n", format!("{title}:"), names.join(", ")));
    }
    let options = program.flags.iter().filter(|flag| !flag.hidden).map(option);
    text.push_str(&format!(
        "{:<TITLE_COLUMNS$}{}\n",
        "Options:",
        options.collect::<Vec<_>>().join(", ")
    ));
    let codes = program.error_codes.iter();
    let codes = codes.map(|code| format!("{} {}", code.code, code.description));
    text.push_str(&format!(
        "{:<TITLE_COLUMNS$}{}\n\n",
        "Exit codes:",
        codes.collect::<Vec<_>>().join(", ")
    ));
    text.push_str(
        "`agent-relay help COMMAND` shows the options and examples of a command,\n\
         `agent-relay help all` describes all commands.\n",
    );
    wrapped(&text)
}

/// Returns the descriptions of all commands, in groups.
pub(super) fn all(program: &CommandInfoWithArgs) -> String {
    let mut text = format!("agent-relay {VERSION}\n{}\n", program.description);
    for (title, commands) in groups(program) {
        text.push_str(&format!("\n{title}:\n"));
        for (name, description) in commands {
            text.push_str(&format!("  {name:<18}{description}\n"));
        }
    }
    text.push_str("\nOptions:\n");
    for flag in program.flags.iter().filter(|flag| !flag.hidden) {
        text.push_str(&format!("  {:<22}{}\n", option(flag), flag.description));
    }
    text.push_str("\nExit codes:\n");
    for code in program.error_codes {
        text.push_str(&format!("  {:<18}{}\n", code.code, code.description));
    }
    wrapped(&text)
}

/// Returns an option with its placeholder.
fn option(flag: &FlagInfo<'_>) -> String {
    match flag.kind {
        FlagInfoKind::Option { arg_name } => format!("{} {}", flag.long, arg_name.to_uppercase()),
        FlagInfoKind::Switch => flag.long.to_owned(),
    }
}

/// The width of the titles of groups.
const TITLE_COLUMNS: usize = 12;

/// The width of the help.
const COLUMNS: usize = 80;

/// Breaks long lines between words. The rest of a line with two columns goes to the second one.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let column = match line.rfind("  ") {
            Some(blanks) => line[..blanks + 2].chars().count(),
            None => line.find(": ").map_or(0, |_| TITLE_COLUMNS),
        };
        let mut columns = 0;
        for word in line.split_inclusive(' ') {
            let width = word.chars().count();
            if columns + word.trim_end().chars().count() > COLUMNS && columns > column {
                wrapped.truncate(wrapped.trim_end_matches(' ').len());
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(column));
                columns = column;
            }
            wrapped.push_str(word);
            columns += width;
        }
        wrapped.push('\n');
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top_info;

    #[test]
    fn every_command_is_in_one_group() {
        let program = top_info();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut known: Vec<_> = program.commands.iter().map(|command| command.name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn help_fits_one_screen() {
        let screen = screen(&top_info());
        // One line stays free for the prompt.
        assert!(screen.lines().count() <= 23, "{screen}");
        for text in [screen, all(&top_info())] {
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
            assert!(text.contains("--home DIR") && text.contains("gemini-extension"), "{text}");
        }
    }
}
