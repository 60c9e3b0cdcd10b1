//! Output of the commands: lines, tables, JSON lines and colours.

use super::{
    failure::Failure,
    frames::{framed, json_for_script},
    identity::is_in_agent,
    table::{self, Column},
};
use platform::tty::{self, Standard};
use protocol::text::is_hidden;
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    env,
    fmt::{self, Display},
    io::{self, Write},
};
use terminal::frame::Origin;

/// Standard output, with colours if it is a terminal.
#[derive(Debug)]
pub(super) struct Out {
    stdout: io::Stdout,
    colours: bool,
    /// The text that is collected for a frame.
    framed: Option<String>,
}

impl Out {
    pub(super) fn new() -> Self {
        Self { stdout: io::stdout(), colours: has_colours(Standard::Output), framed: None }
    }

    /// Prints text that may contain other agents' words, in a frame if an agent runs this command.
    pub(super) fn of_others(
        &mut self,
        origin: Origin<'_>,
        print: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !is_in_agent() {
            return print(self);
        }
        self.framed = Some(String::new());
        let printed = print(self);
        let text = self.framed.take().unwrap_or_default();
        if !text.is_empty() {
            self.line(framed(origin, text.trim_end_matches('\n'))?)?;
        }
        printed
    }

    /// Prints one line, and flushes it.
    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        if let Some(framed) = &mut self.framed {
            framed.push_str(&format!("{line}\n"));
            return Ok(());
        }
        writeln!(self.stdout, "{line}")
            .and_then(|()| self.stdout.flush())
            .map_err(Failure::unwritten)
    }

    /// Prints a text as it is, without a line break after it.
    pub(super) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.stdout.write_all(text.as_bytes());
        written.and_then(|()| self.stdout.flush()).map_err(Failure::unwritten)
    }

    /// Prints one JSON object on one line. Its first member is the name of its schema.
    pub(super) fn json(&mut self, schema: &str, value: &impl Serialize) -> Result<(), Failure> {
        let object = serde_json::to_string(value).expect("what commands print is JSON");
        self.json_text(schema, &object)
    }

    /// Prints a JSON object that is serialized already, as [`Self::json`] does.
    pub(super) fn json_text(&mut self, schema: &str, object: &str) -> Result<(), Failure> {
        self.line(with_schema(schema, &json_for_script(object)))
    }

    /// The columns of the terminal; `usize::MAX` if standard output is not one.
    pub(super) fn width(&self) -> usize {
        if !tty::is_terminal(Standard::Output) {
            return usize::MAX;
        }
        let columns = tty::size().map(|size| usize::from(size.cols));
        columns.filter(|columns| *columns > 0).unwrap_or(HELP_COLUMNS).max(COLUMNS_MIN)
    }

    /// Prints a table with its heading, or `empty` if it has no rows.
    pub(super) fn table(
        &mut self,
        columns: &[Column],
        rows: Vec<Vec<String>>,
        empty: &str,
    ) -> Result<(), Failure> {
        self.table_with_notes(columns, rows.into_iter().map(|row| (row, None)).collect(), empty)
    }

    /// Prints a table as [`Self::table`] does, with the notes of rows on separate lines below them.
    pub(super) fn table_with_notes(
        &mut self,
        columns: &[Column],
        rows: Vec<(Vec<String>, Option<String>)>,
        empty: &str,
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.broken(empty);
        }
        let width = self.width();
        let (rows, notes): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let mut lines = table::lines(columns, &rows, width).into_iter();
        if let Some(heading) = lines.next() {
            let heading = self.paint(Colour::Bold, heading);
            self.line(heading)?;
        }
        for (line, note) in lines.zip(notes) {
            self.line(line)?;
            note.map_or(Ok(()), |note| self.broken(&format!("    {note}")))?;
        }
        Ok(())
    }

    /// Prints a text, which is broken where it is wider than the terminal.
    pub(super) fn broken(&mut self, text: &str) -> Result<(), Failure> {
        let width = self.width();
        self.line(table::broken(text, width, NOTE_INDENT))
    }

    pub(super) fn paint<T: Display>(&self, colour: Colour, text: T) -> Painted<T> {
        Painted { text, colour: Some(colour).filter(|_| self.colours) }
    }
}

/// The prefix of the lines that this program writes to standard error.
pub(super) const LINE_PREFIX: &str = "agent-relay: ";

/// Prints one line to standard error. A failure is ignored: a command must not end because its
/// messages cannot be printed.
pub(super) fn eprint_line(line: impl Display) {
    drop(writeln!(io::stderr(), "{LINE_PREFIX}{line}"));
}

/// Prints a question to standard error, without a line break.
pub(super) fn eprint_question(question: impl Display) {
    let mut stderr = io::stderr();
    drop(write!(stderr, "{LINE_PREFIX}{question} ").and_then(|()| stderr.flush()));
}

/// The minimum width that output is fitted to.
const COLUMNS_MIN: usize = 20;

/// The indent of the lines of a long note.
const NOTE_INDENT: usize = 4;

/// The width of help texts, and the assumed width of a terminal if the system does not report it.
const HELP_COLUMNS: usize = 80;

/// Breaks the long lines of a help text between words. Examples are commands and stay whole.
pub(super) fn fit(help: &str) -> String {
    let mut fitted = String::with_capacity(help.len());
    for line in help.lines() {
        let indent = match line.starts_with("Usage: ") {
            true => "    ".to_owned(),
            false => line.chars().take_while(|character| *character == ' ').collect(),
        };
        let mut columns = 0;
        let fits = line.chars().count() <= HELP_COLUMNS || line.starts_with("  agent-relay ");
        for word in line.split_inclusive(' ').filter(|_| !fits) {
            let width = word.chars().count();
            let is_too_long = columns + word.trim_end().chars().count() > HELP_COLUMNS;
            if is_too_long && columns > indent.len() {
                fitted.truncate(fitted.trim_end().len());
                fitted.extend(["\n", &indent]);
                columns = indent.len();
            }
            fitted.push_str(word);
            columns += width;
        }
        fitted.push_str(if fits { line.trim_end() } else { "" });
        fitted.push('\n');
    }
    fitted
}

/// Prints a text of several lines to standard error. A failure is ignored, as in [`eprint_line`].
pub(super) fn eprint_text(text: &str) {
    drop(io::stderr().write_all(text.as_bytes()));
}

/// Puts the name of the schema before an object's other members.
pub(super) fn with_schema(schema: &str, object: &str) -> String {
    let members = object.trim_start().strip_prefix('{').unwrap_or(object).trim_start();
    let comma = if members.starts_with('}') { "" } else { "," };
    // In JSON, line breaks can only be between members: inside a string they are escaped.
    let members = members.replace(['\n', '\r'], " ");
    let members = escaped_json(&members);
    format!("{{\"schema\":\"agent-relay.{schema}/1\"{comma}{members}")
}

/// Escapes the characters of JSON on one line that could control a terminal. They can only be in
/// its strings, which stay the same for programs.
fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_hidden) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hidden(character) {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units).iter();
            shown.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

/// Returns a JSON value on one line.
pub(super) fn compact(json: &RawValue) -> String {
    json.get().replace(['\n', '\r'], " ")
}

/// Reports whether colours may be printed to a stream.
pub(super) fn has_colours(stream: Standard) -> bool {
    let are_off = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || env::var_os("TERM").is_some_and(|term| term == "dumb");
    !are_off && tty::is_terminal(stream)
}

/// A colour or weight of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Bold,
    Faint,
    Green,
    Yellow,
    Red,
}

/// A text with the escape sequences of its colour.
#[derive(Debug)]
pub(super) struct Painted<T> {
    text: T,
    colour: Option<Colour>,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.colour {
            None => return self.text.fmt(f),
            Some(Colour::Bold) => 1,
            Some(Colour::Faint) => 2,
            Some(Colour::Green) => 32,
            Some(Colour::Yellow) => 33,
            Some(Colour::Red) => 31,
        };
        write!(f, "\x1b[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

/// Returns a number with a noun, in the plural unless it is one.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_the_first_member_and_all_is_on_one_line() {
        assert_eq!(with_schema("x", "{}"), r#"{"schema":"agent-relay.x/1"}"#);
        assert_eq!(with_schema("x", "{ \"a\":\n1 }"), r#"{"schema":"agent-relay.x/1","a": 1 }"#);
    }

    #[test]
    fn json_lines_have_no_hidden_characters_and_the_same_texts() {
        let text = "\u{1b}[2J \u{7f}\u{9b}31m \u{202e}\u{e0041} \u{e4}\u{1f600}";
        let json = with_schema("x", &serde_json::json!({ "a": text }).to_string());
        let texts = "\\u001b[2J \\u007f\\u009b31m \\u202e\\udb40\\udc41 \u{e4}\u{1f600}";
        assert_eq!(json, format!("{{\"schema\":\"agent-relay.x/1\",\"a\":\"{texts}\"}}"));
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["a"], text);
    }

    #[test]
    fn long_lines_of_help_are_broken_between_words() {
        let words = "word ".repeat(20);
        let broken = format!("{}\n{}\n", ["word"; 16].join(" "), ["word"; 4].join(" "));
        assert_eq!(fit(words.trim_end()), broken);
        let example = format!("  agent-relay {}", "x ".repeat(80));
        assert_eq!(fit(&example), format!("{}\n", example.trim_end()));
        let note = fit(&format!("  {words}"));
        assert!(note.lines().all(|line| line.starts_with("  word")), "{note}");
    }
}
