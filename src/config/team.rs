//! agents.toml: the agents of a project.
//!
//! The file comes with a repository, so no program of it is started before a person has agreed to it.
//! Everything unknown is an error, and everything has a limit.

use super::invalid::{Invalid, check_count};
use client::home::{
    ConfigError,
    parse::{self, Table},
};
use protocol::{
    name::{self, Name},
    topic::Pattern,
};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::{
    fmt,
    path::{Path, PathBuf},
};
use toml::Spanned;

/// The file's name in a project.
pub const FILE: &str = "agents.toml";

/// The longest file, in bytes. A person has to read it.
const FILE_BYTES_MAX: usize = 64 << 10;

/// The most agents of a file.
const AGENTS_MAX: usize = 64;

/// The most items of a list of an agent.
const ITEMS_MAX: usize = 64;

/// The longest text of a list, and the longest directory, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// The longest first prompt, in bytes.
const PROMPT_BYTES_MAX: usize = 16 << 10;

/// An agent of a project. docs/CONFIGURATION.md has the comments of the fields as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamAgent {
    /// The agent's name.
    pub name: String,
    /// The command: a program, or a list of the program and its arguments.
    pub command: Vec<String>,
    /// The working directory, relative to the directory of the file, which is the default.
    pub directory: Option<String>,
    /// Whether the agent gets a worktree of git for itself, on the branch `agents/NAME`.
    pub worktree: bool,
    /// A message that the agent gets from `@operator` when it begins a conversation.
    pub prompt: Option<String>,
    /// Patterns of the agent's topics, with `*` and `>` as wildcards.
    pub topics: Vec<String>,
    /// The agent's groups: a message to `@GROUP` goes to each of its agents.
    pub groups: Vec<String>,
    /// Agents of the file that have to run before this one is started.
    pub needs: Vec<String>,
    /// Whether the agent is told how to send messages: agent CLIs are, unless this is false; other
    /// programs only if it is true.
    pub brief: Option<bool>,
    /// Whether an agent CLI gets hooks for this run, as by default; without, messages only reach it
    /// typed.
    pub hooks: bool,
    /// Whether the agent's CLI is handed tools to talk to others (MCP).
    pub mcp: bool,
    /// Whether messages are typed into an unknown program, which must read text.
    pub accepts_text: bool,
}

/// Finds the file in a directory or above it.
#[must_use]
pub fn find(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().map(|above| above.join(FILE)).find(|file| file.is_file())
}

/// Parses the text of a file; `path` is for errors. Returns the agents in the order of their
/// starts: the file's order, but after the agents that they need.
///
/// # Errors
/// If the text is not TOML, or does not match the form that this module describes.
pub fn parse(path: &Path, text: &str) -> Result<Vec<TeamAgent>, ConfigError> {
    if text.len() > FILE_BYTES_MAX {
        let reason = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(ConfigError { path: path.to_owned(), line: None, reason });
    }
    let file: File = parse::parse(path, text)?;
    agents(file).map_err(|invalid| invalid.of_file(path, text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agent: Vec<Spanned<Table<Entry>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<Spanned<String>>,
    command: Option<Spanned<Command>>,
    directory: Option<Spanned<String>>,
    #[serde(default)]
    worktree: bool,
    prompt: Option<Spanned<String>>,
    #[serde(default)]
    topics: Texts,
    #[serde(default)]
    groups: Texts,
    #[serde(default)]
    needs: Texts,
    brief: Option<bool>,
    #[serde(default = "yes")]
    hooks: bool,
    #[serde(default)]
    mcp: bool,
    #[serde(default)]
    accepts_text: bool,
}

const fn yes() -> bool {
    true
}

/// A list of texts.
#[derive(Default)]
struct Texts(Vec<Spanned<String>>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts, such as [\"one\", \"two\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Texts, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(texts)).map(Texts)
    }
}

/// A program alone, or with its arguments.
enum Command {
    Program(String),
    Words(Vec<String>),
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CommandVisitor)
    }
}

struct CommandVisitor;

impl<'de> Visitor<'de> for CommandVisitor {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program, or a list such as [\"claude\", \"--model\", \"opus\"]")
    }

    fn visit_str<E>(self, program: &str) -> Result<Command, E> {
        Ok(Command::Program(program.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Command, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(words)).map(Command::Words)
    }
}

fn agents(file: File) -> Result<Vec<TeamAgent>, Invalid> {
    check_count(&file.agent, "agent", AGENTS_MAX)?;
    let mut agents = Vec::<TeamAgent>::new();
    for entry in &file.agent {
        let agent = agent(entry)?;
        if agents.iter().any(|other| other.name.eq_ignore_ascii_case(&agent.name)) {
            return Err(Invalid::at(entry, format!("there are two agents named {}", agent.name)));
        }
        agents.push(agent);
    }
    for entry in &file.agent {
        for needed in &entry.get_ref().0.needs.0 {
            let is_needed = |it: &&mut TeamAgent| it.name.eq_ignore_ascii_case(needed.get_ref());
            if agents.iter_mut().find(is_needed).is_none() {
                let reason = format!("`needs`: the file has no agent {:?}", needed.get_ref());
                return Err(Invalid::at(needed, reason));
            }
        }
    }
    in_order(agents, &file.agent)
}

/// Puts each agent behind those that it needs.
fn in_order(
    mut waiting: Vec<TeamAgent>,
    entries: &[Spanned<Table<Entry>>],
) -> Result<Vec<TeamAgent>, Invalid> {
    let mut ordered = Vec::<TeamAgent>::new();
    while !waiting.is_empty() {
        let is_started =
            |name: &String| ordered.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        let Some(next) = waiting.iter().position(|agent| agent.needs.iter().all(is_started)) else {
            let names: Vec<_> = waiting.iter().map(|agent| &*agent.name).collect();
            let reason = format!("`needs` has a cycle: {}", names.join(", "));
            let is_first = |entry: &&Spanned<Table<Entry>>| {
                let name = entry.get_ref().0.name.as_ref();
                name.is_some_and(|name| name.get_ref() == names[0])
            };
            let first = entries.iter().find(is_first).unwrap_or(&entries[0]);
            return Err(Invalid::at(first, reason));
        };
        ordered.push(waiting.remove(next));
    }
    Ok(ordered)
}

fn agent(table: &Spanned<Table<Entry>>) -> Result<TeamAgent, Invalid> {
    let missing = |key: &str| Invalid::at(table, format!("[[agent]] has no `{key}`"));
    let Table(entry) = table.get_ref();
    let name = entry.name.as_ref().ok_or_else(|| missing("name"))?;
    Name::parse(name.get_ref()).map_err(|why| Invalid::at(name, format!("`name`: {why}")))?;
    let command = entry.command.as_ref().ok_or_else(|| missing("command"))?;
    for (key, text, most) in [
        ("directory", &entry.directory, TEXT_BYTES_MAX),
        ("prompt", &entry.prompt, PROMPT_BYTES_MAX),
    ] {
        text.as_ref().map_or(Ok(()), |text| check_text(text, key, most))?;
    }
    let topic = |text: &str| Pattern::parse(text).map(drop).map_err(|why| why.to_string());
    let group = |text: &str| name::check_group(text).map_err(|why| why.to_string());
    Ok(TeamAgent {
        name: name.get_ref().clone(),
        command: words(command)?,
        directory: entry.directory.as_ref().map(|it| it.get_ref().clone()),
        worktree: entry.worktree,
        prompt: entry.prompt.as_ref().map(|it| it.get_ref().clone()),
        topics: list("topics", &entry.topics, &topic)?,
        groups: list("groups", &entry.groups, &group)?,
        needs: list("needs", &entry.needs, &|_| Ok(()))?,
        brief: entry.brief,
        hooks: entry.hooks,
        mcp: entry.mcp,
        accepts_text: entry.accepts_text,
    })
}

fn words(command: &Spanned<Command>) -> Result<Vec<String>, Invalid> {
    let invalid = |why: &str| Err(Invalid::at(command, format!("`command`: {why}")));
    let words = match command.get_ref() {
        Command::Program(program) if program.contains(char::is_whitespace) => {
            return invalid("write arguments as a list, such as [\"claude\", \"--continue\"]");
        }
        Command::Program(program) => vec![program.clone()],
        Command::Words(words) => words.clone(),
    };
    if words.first().is_none_or(String::is_empty) {
        return invalid("there is no program");
    }
    if words.len() > ITEMS_MAX || words.iter().any(|word| word.len() > TEXT_BYTES_MAX) {
        return invalid(&format!("at most {ITEMS_MAX} words, of {TEXT_BYTES_MAX} bytes each"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return invalid("a word has a NUL character");
    }
    Ok(words)
}

fn check_text(text: &Spanned<String>, key: &str, most: usize) -> Result<(), Invalid> {
    let why = match text.get_ref() {
        it if it.trim().is_empty() => "a text that is not empty".to_owned(),
        it if it.len() > most => format!("a text of at most {most} bytes"),
        it if it.contains('\0') => "a text without NUL characters".to_owned(),
        _ => return Ok(()),
    };
    Err(Invalid::at(text, format!("`{key}`: expected {why}")))
}

fn list(
    key: &str,
    Texts(texts): &Texts,
    check: &dyn Fn(&str) -> Result<(), String>,
) -> Result<Vec<String>, Invalid> {
    if let Some(first) = texts.get(ITEMS_MAX) {
        return Err(Invalid::at(first, format!("`{key}` has more than {ITEMS_MAX} items")));
    }
    for text in texts {
        check(text.get_ref()).map_err(|why| Invalid::at(text, format!("`{key}`: {why}")))?;
    }
    Ok(texts.iter().map(|text| text.get_ref().clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let error = parse(Path::new(FILE), text).unwrap_err();
        assert_eq!(error.to_string(), format!("agents.toml:{words}"), "{text}");
    }

    fn names(text: &str) -> Vec<String> {
        let agents = parse(Path::new(FILE), text).unwrap();
        agents.into_iter().map(|agent| agent.name).collect()
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            [[agent]]
            name = "web"
            command = ["claude", "--model", "opus"]
            directory = "web"
            worktree = true
            prompt = "Fix the tests."
            topics = ["build.>"]
            groups = ["reviewers", "front"]
            needs = ["API"]
            brief = false
            hooks = false
            mcp = true
            accepts_text = true

            [[agent]]
            name = "api"
            command = "codex"
        "#;
        let agents = parse(Path::new(FILE), text).unwrap();
        let texts = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let api = TeamAgent {
            name: "api".to_owned(),
            command: texts(&["codex"]),
            directory: None,
            worktree: false,
            prompt: None,
            topics: texts(&[]),
            groups: texts(&[]),
            needs: texts(&[]),
            brief: None,
            hooks: true,
            mcp: false,
            accepts_text: false,
        };
        let web = TeamAgent {
            name: "web".to_owned(),
            command: texts(&["claude", "--model", "opus"]),
            directory: Some("web".to_owned()),
            worktree: true,
            prompt: Some("Fix the tests.".to_owned()),
            topics: texts(&["build.>"]),
            groups: texts(&["reviewers", "front"]),
            needs: texts(&["API"]),
            brief: Some(false),
            hooks: false,
            mcp: true,
            accepts_text: true,
        };
        assert_eq!(agents, [api, web]);
    }

    #[test]
    fn needed_agents_come_first_and_others_in_the_order_of_the_file() {
        let agent = |name: &str, needs: &str| {
            format!("[[agent]]\nname = '{name}'\ncommand = 'x'\nneeds = [{needs}]\n")
        };
        let file = [agent("c", "'A', 'b'"), agent("d", ""), agent("b", "'a'"), agent("a", "")];
        assert_eq!(names(&file.concat()), ["d", "a", "b", "c"]);
        assert_eq!(names(""), [""; 0]);
        let circle = [agent("a", ""), agent("b", "'c'"), agent("c", "'b'")].concat();
        refused(&circle, "5: `needs` has a cycle: b, c");
        refused(&agent("a", "'a'"), "1: `needs` has a cycle: a");
        refused(&agent("a", "\n'b'"), "5: `needs`: the file has no agent \"b\"");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let agent = |lines: &str| format!("[[agent]]\nname = 'a'\ncommand = 'x'\n{lines}");
        let long = "x".repeat(PROMPT_BYTES_MAX + 1);
        for (text, words) in [
            ("[agents]", "1: unknown key \"agents\" (did you mean \"agent\"?)"),
            ("[[agent]]\ncommand = 'x'", "1: [[agent]] has no `name`"),
            ("[[agent]]\nname = 'a'", "1: [[agent]] has no `command`"),
            ("[[agent]]\nname = 'root'", "2: `name`: this name is reserved; choose another"),
            (&agent("[[agent]]\nname = 'A'\ncommand = 'y'"), "4: there are two agents named A"),
            (&agent("prompts = ''"), "4: unknown key \"prompts\" (did you mean \"prompt\"?)"),
            (&agent("prompt = ' '"), "4: `prompt`: expected a text that is not empty"),
            (
                &agent(&format!("prompt = '{long}'")),
                "4: `prompt`: expected a text of at most 16384 bytes",
            ),
            (&agent("brief = 1"), "4: `brief`: expected true or false, without quotes"),
            (&agent("worktree = 'yes'"), "4: `worktree`: expected true or false, without quotes"),
            (
                &agent("topics = 'x'"),
                "4: `topics`: expected a list of texts, such as [\"one\", \"two\"]",
            ),
            (
                &agent("topics = ['a..b']"),
                "4: `topics`: a topic is one or more tokens split by '.', none of them empty",
            ),
            (
                &agent("groups = ['a', 'guests']"),
                "4: `groups`: this name is reserved; choose another",
            ),
            (&agent("groups = ['relay']"), "4: `groups`: this name is reserved; choose another"),
            (
                "[[agent]]\nname = 'a'\ncommand = 'claude -c'",
                "3: `command`: write arguments as a list, such as [\"claude\", \"--continue\"]",
            ),
            ("[[agent]]\nname = 'a'\ncommand = []", "3: `command`: there is no program"),
            (
                "[[agent]]\nname = 'a'\ncommand = 1",
                "3: `command`: expected a program, or a list such as \
                 [\"claude\", \"--model\", \"opus\"]",
            ),
        ] {
            refused(text, words);
        }
        let many = "[[agent]]\nname = 'a'\ncommand = 'x'\n".repeat(AGENTS_MAX + 1);
        refused(&many, "193: there are more than 64 [[agent]]");
        refused(&"#".repeat(FILE_BYTES_MAX + 1), " it has more than 65536 bytes");
    }
}
