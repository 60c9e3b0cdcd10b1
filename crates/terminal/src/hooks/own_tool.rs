//! Recognises the relay's own commands and tools among the tools that an agent uses.

use crate::keyboard::name_of;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::VecDeque, iter::Peekable, str::Chars};

/// The name of the relay's command and of its MCP server.
const OWN: &str = "agent-relay";

/// Commands that are no work if they accompany a relay command.
const IDLE: &[&str] = &["cd", "echo", "export", "printf", "sleep", "true"];

/// The members of a tool's input that are used.
#[derive(Deserialize)]
struct ToolInput {
    command: Command,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Line(String),
    /// A shell and its arguments; the last argument is the line.
    Words(Vec<String>),
}

/// Whether a tool is one of the relay's own, judged by its name and input.
pub(super) fn is_relays(name: &str, input: Option<&RawValue>) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let is_servers = name.strip_prefix(OWN).is_some_and(|tool| tool.starts_with('-'));
    if is_servers || name.starts_with("mcp-") && name.contains(OWN) {
        return true;
    }
    let input = input.and_then(|json| serde_json::from_str(json.get()).ok());
    let line = input.and_then(|ToolInput { command }| match command {
        Command::Line(line) => Some(line),
        Command::Words(mut words) => words.pop(),
    });
    line.is_some_and(|line| runs_only_ours(&line))
}

/// Whether a shell's line runs a relay command and no other work. A line that is not understood
/// counts as work.
fn runs_only_ours(line: &str) -> bool {
    let script = Script {
        rest: line.chars().peekable(),
        word: String::new(),
        programs: Vec::new(),
        has_program: false,
        awaits_end: false,
        ends: VecDeque::new(),
    };
    let programs = script.programs().unwrap_or_default();
    let names: Vec<_> = programs.iter().map(|program| name_of(program)).collect();
    let is_idle = |name: &String| name == OWN || IDLE.contains(&name.as_str());
    names.iter().any(|name| name == OWN) && names.iter().all(is_idle)
}

/// A reader of a shell script that understands enough to find the names of its programs.
struct Script<'a> {
    rest: Peekable<Chars<'a>>,
    word: String,
    programs: Vec<String>,
    /// Whether the current command's program was read.
    has_program: bool,
    /// Whether the next word ends a here-document.
    awaits_end: bool,
    /// The words that end the current line's here-documents.
    ends: VecDeque<String>,
}

impl Script<'_> {
    /// Returns the first word of each command. `None` if a quotation is not closed, or if a word
    /// contains a command.
    fn programs(mut self) -> Option<Vec<String>> {
        let mut before = '\n';
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.word.extend(self.rest.next().filter(|next| *next != '\n')),
                '\'' | '"' => self.quoted(character)?,
                '`' => return None,
                '$' if self.rest.peek() == Some(&'(') => return None,
                '#' if before.is_whitespace() => {
                    while self.rest.next_if(|c| *c != '\n').is_some() {}
                }
                '<' if self.rest.next_if_eq(&'<').is_some() => self.here_document(),
                '&' if before == '>' => {}
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                ';' | '|' | '&' | '(' | ')' => self.end_command(),
                blank if blank.is_whitespace() => self.end_word(),
                other => self.word.push(other),
            }
            before = character;
        }
        self.end_command();
        Some(self.programs)
    }

    /// Reads a quoted part of a word.
    fn quoted(&mut self, quote: char) -> Option<()> {
        loop {
            match self.rest.next()? {
                end if end == quote => return Some(()),
                '\\' if quote == '"' => self.word.extend(self.rest.next()),
                '`' if quote == '"' => return None,
                '$' if quote == '"' && self.rest.peek() == Some(&'(') => return None,
                other => self.word.push(other),
            }
        }
    }

    /// Reads the rest of the operator `<<` or `<<<`.
    fn here_document(&mut self) {
        self.end_word();
        if self.rest.next_if_eq(&'<').is_none() {
            self.rest.next_if_eq(&'-');
            self.awaits_end = true;
        }
    }

    fn skip_here_documents(&mut self) {
        while let Some(end) = self.ends.pop_front() {
            loop {
                let line: String =
                    std::iter::from_fn(|| self.rest.next_if(|c| *c != '\n')).collect();
                if self.rest.next().is_none() || line.trim() == end {
                    break;
                }
            }
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        if std::mem::take(&mut self.awaits_end) {
            self.ends.push_back(word);
        } else if !self.has_program && !is_assignment(&word) {
            self.has_program = true;
            self.programs.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.has_program = false;
    }
}

/// Whether a word before a command sets a variable for it.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, value::to_raw_value};

    fn command_is_relays(command: &str) -> bool {
        let input = to_raw_value(&json!({"command": command, "description": "x"})).unwrap();
        is_relays("Bash", Some(&input))
    }

    #[test]
    fn commands_of_the_relay_are_its_own() {
        for command in [
            "agent-relay read 1a2b3c4d",
            "/opt/bin/agent-relay inbox --take",
            r"C:/relay/agent-relay.exe inbox",
            "  cd /tmp && X=1 agent-relay send Bob 'it; rm -rf | works' 2>&1",
            "agent-relay send Bob - <<'END'\ncargo test | tee \"x\nEND\necho sent",
            "agent-relay send Bob - <<-END\n\tmake\n\tEND\n",
            "printf 'a\\n' | agent-relay send Bob -",
            "agent-relay send Bob - <<< 'make; ls'",
            "sleep 5; agent-relay inbox --take # make it so; ls",
            "agent-relay send Bob \\\n  hello",
            "(agent-relay agents)",
        ] {
            assert!(command_is_relays(command), "{command}");
        }
    }

    #[test]
    fn other_commands_are_work() {
        for command in [
            "",
            "echo agent-relay",
            "cargo test && agent-relay send Bob done",
            "agent-relay send Bob done\ncargo test",
            "agent-relay send Bob \"$(cargo test)\"",
            "agent-relay send Bob `cargo test`",
            "agent-relay send Bob - <<END\nx\nEND\nmake",
            "agent-relay send Bob 'open",
            "cargo test | agent-relay send Bob -",
            "agent-relay-x",
        ] {
            assert!(!command_is_relays(command), "{command}");
        }
    }

    #[test]
    fn tools_are_known_by_name_and_other_inputs_are_work() {
        for (name, own) in [
            ("mcp__agent-relay__send", true),
            ("mcp__agent_relay__read", true),
            ("agent-relay_read", true),
            ("mcp__other__agent", false),
            ("agent-relay", false),
            ("Bash", false),
        ] {
            assert_eq!(is_relays(name, None), own, "{name}");
        }
        let input = |json: serde_json::Value| to_raw_value(&json).unwrap();
        let words = input(json!({"command": ["bash", "-lc", "agent-relay agents"]}));
        assert!(is_relays("shell", Some(&words)));
        for other in [json!([]), json!({"command": 7}), json!({"file": "agent-relay"})] {
            assert!(!is_relays("Edit", Some(&input(other.clone()))), "{other}");
        }
    }
}
