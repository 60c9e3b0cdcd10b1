//! Manual pages of the programs and of each command, from the commands' own descriptions. Packages
//! contain them.

use super::{failure::Failure, help, program::VERSION};
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};
use chrono::DateTime;
use platform::clock;
use std::{env, fs, path::Path};

/// The argument after [`AS_AGENT_RELAY`](super::program::AS_AGENT_RELAY) that makes this program
/// write the pages into a directory.
pub(super) const MANUAL: &str = "manual";

/// The names of the programs.
const RELAY: &str = "agent-relay";
const WRAP: &str = "agent-relay-wrap";

/// Characters that mean something else in roff, and their escapes.
const ESCAPES: [(char, &str); 7] = [
    ('\\', r"\e"),
    ('-', r"\-"),
    ('\'', r"\(aq"),
    ('`', r"\(ga"),
    ('^', r"\(ha"),
    ('~', r"\(ti"),
    ('…', r"\[u2026]"),
];

/// The width of the lines of paragraphs. Longer lines are bad style in roff.
const COLUMNS: usize = 78;

/// The descriptions of both programs, and of the command of `agent-relay-wrap`.
pub(super) struct Programs {
    pub(super) relay: CommandInfoWithArgs,
    pub(super) wrap: CommandInfoWithArgs,
    pub(super) extract: CommandInfoWithArgs,
}

/// Writes the pages. They have the date of SOURCE_DATE_EPOCH, or else today's.
pub(super) fn write(directory: &Path, programs: &Programs) -> Result<i32, Failure> {
    let epoch = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = || i64::try_from(clock::unix_ms() / 1000).unwrap_or_default();
    let date = DateTime::from_timestamp(epoch.unwrap_or_else(now), 0).unwrap_or_default();
    for (name, text) in pages(programs, &date.format("%Y-%m-%d").to_string()) {
        let path = directory.join(format!("{name}.1"));
        fs::write(&path, text)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    }
    Ok(super::failure::DONE)
}

/// Returns the names and texts of all pages.
fn pages(programs: &Programs, date: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let extract = [WRAP.to_owned(), "extract".to_owned()];
    add(&mut pages, &[RELAY.to_owned()], &programs.relay, &[WRAP.to_owned()], date);
    add(&mut pages, &[WRAP.to_owned()], &programs.wrap, &[extract.join("-"), RELAY.into()], date);
    add(&mut pages, &extract, &programs.extract, &[], date);
    pages
}

/// Adds the page of a command, and the pages of its subcommands.
fn add(
    pages: &mut Vec<(String, String)>,
    words: &[String],
    info: &CommandInfoWithArgs,
    others: &[String],
    date: &str,
) {
    let name = words.join("-");
    let commands = info.commands.iter().map(|known| format!("{name}-{}", known.name));
    let parent = words.split_last().filter(|(_, parent)| !parent.is_empty());
    let parent = parent.map(|(_, parent)| parent.join("-"));
    let see: Vec<_> = parent.into_iter().chain(commands).chain(others.iter().cloned()).collect();
    pages.push((name, page(words, info, &see, date)));
    for known in &info.commands {
        let words = [words, &[known.name.to_owned()]].concat();
        add(pages, &words, &known.command, &[], date);
    }
}

fn page(words: &[String], info: &CommandInfoWithArgs, see: &[String], date: &str) -> String {
    let name = words.join("-");
    let description = info.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = description.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let mut first = short.chars();
    let short: String =
        first.next().into_iter().flat_map(char::to_lowercase).chain(first).collect();
    let mut page = Page(String::new());
    let title = name.to_uppercase();
    page.line(&format!(".TH {title} 1 {date} \"Agent Relay {VERSION}\" \"Agent Relay\""));
    page.section("NAME");
    page.filled(&format!("{} \\- {}", escaped(&name), escaped(&short)));
    page.section("SYNOPSIS");
    page.filled(&synopsis(words, info));
    page.section("DESCRIPTION");
    page.filled(&escaped(&description));
    let arguments = info.positionals.iter().filter(|argument| !argument.hidden);
    let arguments = arguments.filter(|argument| !argument.description.is_empty());
    page.items(
        "ARGUMENTS",
        arguments.map(|argument| (italic(argument.name), argument.description)),
    );
    let flags = info.flags.iter().filter(|flag| !flag.hidden);
    page.items("OPTIONS", flags.map(|flag| (option(flag, ", "), flag.description)));
    page.commands(&name, words.len() == 1, info);
    if !info.examples.is_empty() {
        page.section("EXAMPLES");
        page.verbatim(info.examples);
    }
    page.notes(info.notes);
    let codes = info.error_codes.iter();
    page.items("EXIT STATUS", codes.map(|code| (code.code.to_string(), code.description)));
    page.section("SEE ALSO");
    let see = see.iter().map(|other| format!("{}(1)", bold(other)));
    page.line(&see.collect::<Vec<_>>().join(",\n"));
    page.0
}

/// The words of a command with its options and arguments.
fn synopsis(words: &[String], info: &CommandInfoWithArgs) -> String {
    let mut synopsis = vec![bold(&words.join(" "))];
    let bracketed = |text: String, optionality: &Optionality| match optionality {
        Optionality::Required => text,
        Optionality::Optional => format!("[{text}]"),
        Optionality::Repeating | Optionality::Greedy => format!("[{text} ...]"),
    };
    for flag in info.flags.iter().filter(|flag| !flag.hidden) {
        synopsis.push(bracketed(option(flag, "|"), &flag.optionality));
    }
    for argument in info.positionals.iter().filter(|argument| !argument.hidden) {
        synopsis.push(bracketed(italic(argument.name), &argument.optionality));
    }
    if !info.commands.is_empty() {
        synopsis.extend([italic("command"), format!("[{} ...]", italic("argument"))]);
    }
    synopsis.join(" ")
}

/// The names of an option, and the placeholder of its value.
fn option(flag: &FlagInfo<'_>, between: &str) -> String {
    let short = flag.short.map(|short| format!("{}{between}", bold(&format!("-{short}"))));
    let value = match flag.kind {
        FlagInfoKind::Option { arg_name } => format!(" {}", italic(arg_name)),
        FlagInfoKind::Switch => String::new(),
    };
    format!("{}{}{value}", short.unwrap_or_default(), bold(flag.long))
}

/// The text of a page in roff.
struct Page(String);

impl Page {
    fn line(&mut self, line: &str) {
        self.0.extend([line, "\n"]);
    }

    fn section(&mut self, title: &str) {
        self.line(&format!(".SH {title}"));
    }

    /// Adds a paragraph with escaped text. Bold and italic words stay on one line.
    fn filled(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let is_open = line.matches("\\fB").count() + line.matches("\\fI").count()
                > line.matches("\\fR").count();
            let fits = line.chars().count() + word.chars().count() < COLUMNS;
            if !line.is_empty() && !fits && !is_open {
                self.text_line(&line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.text_line(&line);
        }
    }

    /// Adds a line of text, also one that begins with a dot and would be a request.
    fn text_line(&mut self, line: &str) {
        let guard = if line.starts_with('.') { "\\&" } else { "" };
        self.line(&format!("{guard}{line}"));
    }

    /// Adds a section with headings and their descriptions, if there are any.
    fn items<'a>(&mut self, title: &str, items: impl Iterator<Item = (String, &'a str)>) {
        let mut items = items.peekable();
        if items.peek().is_some() {
            self.section(title);
        }
        items.for_each(|(heading, text)| self.item(&heading, text));
    }

    fn item(&mut self, heading: &str, text: &str) {
        self.line(".TP");
        self.line(heading);
        self.filled(&escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")));
    }

    /// Adds the commands, those of a program in groups.
    fn commands(&mut self, name: &str, is_program: bool, info: &CommandInfoWithArgs) {
        if info.commands.is_empty() {
            return;
        }
        self.section("COMMANDS");
        let heading = |command: &str| format!("{}(1)", bold(&format!("{name}-{command}")));
        if is_program {
            for (title, commands) in help::groups(info) {
                self.line(&format!(".SS {title}"));
                commands.iter().for_each(|(command, text)| self.item(&heading(command), text));
            }
        } else {
            for known in &info.commands {
                self.item(&heading(known.name), known.command.description);
            }
        }
    }

    fn verbatim(&mut self, lines: &[&str]) {
        self.line(".nf");
        lines.iter().for_each(|line| self.text_line(&escaped(line)));
        self.line(".fi");
    }

    /// Adds notes. Their indented lines stay as they are.
    fn notes(&mut self, notes: &[&str]) {
        if !notes.is_empty() {
            self.section("NOTES");
        }
        let notes = notes.join("\n");
        let lines: Vec<_> = notes.trim_end().lines().collect();
        for block in lines.chunk_by(|line, next| kind_of(line) == kind_of(next)) {
            match kind_of(block[0]) {
                LineKind::Empty => self.line(".PP"),
                LineKind::Indented => self.verbatim(block),
                LineKind::Text => self.filled(&escaped(&block.join(" "))),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Empty,
    Indented,
    Text,
}

fn kind_of(line: &str) -> LineKind {
    match line {
        "" => LineKind::Empty,
        line if line.starts_with(' ') => LineKind::Indented,
        _ => LineKind::Text,
    }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

fn escaped(text: &str) -> String {
    let mut roff = String::with_capacity(text.len());
    for character in text.chars() {
        match ESCAPES.iter().find(|(special, _)| *special == character) {
            Some((_, escape)) => roff.push_str(escape),
            None => roff.push(character),
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manual_programs;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let programs = manual_programs();
        let pages = pages(&programs, "2026-11-23");
        for command in &programs.relay.commands {
            let name = format!("agent-relay-{}", command.name);
            let (_, page) = pages.iter().find(|(page, _)| *page == name).expect(&name);
            for flag in command.command.flags.iter().filter(|flag| !flag.hidden) {
                assert!(page.contains(&escaped(flag.long)), "{}: {page}", flag.long);
                assert!(page.is_ascii(), "a character that roff writes longer: {page}");
            }
            assert!(page.contains(".SH EXAMPLES"), "{page}");
        }
        for name in ["agent-relay", "agent-relay-wrap-extract", "agent-relay-policy-key"] {
            assert!(pages.iter().any(|(page, _)| page == name), "{name}");
        }
    }

    #[test]
    fn text_is_escaped_for_roff() {
        let mut page = Page(String::new());
        page.filled(&escaped(".x a-b 'c' \\d"));
        page.notes(&["One,", "two.", "", "  .a", "  b", "Three."]);
        let lines = [
            r"\&.x a\-b \(aqc\(aq \ed",
            ".SH NOTES",
            "One, two.",
            ".PP",
            ".nf",
            "  .a",
            "  b",
            ".fi",
            "Three.",
        ];
        assert_eq!(page.0.lines().collect::<Vec<_>>(), lines);
    }
}
