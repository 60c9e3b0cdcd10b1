//! The table of commands, from their help.

use super::{table, ticks};
use std::process::Command;

/// A table for each group of commands. A command with subcommands has a row for each.
pub(super) fn commands() -> String {
    let all = help("all");
    let (_, groups) = all.split_once("\n\n").expect("a heading");
    let groups = groups.split("\n\n").take_while(|group| !group.starts_with("Options:"));
    let groups = groups.map(|group| {
        let (title, list) = group.split_once(":\n").expect("a title");
        let rows = entries(list).into_iter().flat_map(|(name, does)| rows(&name, does));
        format!("\n**{title}**\n\n{}", table(["command", "does", "options"], rows))
    });
    groups.collect::<String>() + "\n"
}

fn rows(command: &str, does: String) -> Vec<[String; 3]> {
    let help = help(command);
    match help.split_once("\n\nCommands:\n") {
        Some((_, list)) => {
            let (list, _) = list.split_once("\n\n").unwrap_or((list, ""));
            let own = entries(list).into_iter();
            own.flat_map(|(name, does)| rows(&format!("{command} {name}"), does)).collect()
        }
        None => vec![[ticks(usage(&help)), does, options(&help)]],
    }
}

/// The help of a command. `all` means the program.
fn help(command: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_agent-relay"));
    let output = program.arg("help").args(command.split(' ')).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The names in a list of the help, with their descriptions. Further lines of a description are
/// indented.
fn entries(list: &str) -> Vec<(String, String)> {
    let mut entries = Vec::<(String, String)>::new();
    for line in list.lines() {
        let entry = line.trim_start();
        if line.len() - entry.len() == 2 {
            let (name, text) = entry.split_once("  ").expect("a name and a description");
            entries.push((name.to_owned(), text.trim_start().to_owned()));
        } else if let Some((_, text)) = entries.last_mut() {
            text.extend([" ", entry]);
        }
    }
    entries
}

/// A command with its arguments and required options, as `agent-relay hold AGENT`.
fn usage(help: &str) -> String {
    let (usage, _) = help.split_once("\n\n").expect("a usage");
    let words = usage.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.trim_start_matches("Usage: ").replace("[--] <command", "-- <command");
    let (first_form, _) = words.split_once(" |").unwrap_or((&words, ""));
    let mut pieces = first_form.split(" [-");
    let mut usage = pieces.next().expect("the command").to_owned();
    for option in pieces {
        usage.push_str(option.split_once(']').expect("an option ends").1);
    }
    let placeholders = usage.split(['<', '>']).enumerate();
    placeholders
        .map(|(number, text)| if number % 2 == 0 { text.to_owned() } else { text.to_uppercase() })
        .collect()
}

/// The names of a command's options.
fn options(help: &str) -> String {
    let (_, list) = help.split_once("\n\nOptions:\n").expect("each command has options");
    let (list, _) = list.split_once("\n\n").unwrap_or((list, ""));
    let names = entries(list).into_iter().filter(|(name, _)| name != "--help");
    // The short form of an option stands before its name.
    let names = names.map(|(name, _)| ticks(name.rsplit(' ').next().unwrap_or_default()));
    names.collect::<Vec<_>>().join(", ")
}
