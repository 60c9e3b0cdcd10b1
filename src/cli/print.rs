//! What goes to the terminal: lines, JSON lines, colour, and other people's text made harmless.

use super::Failure;
use crate::protocol::text::is_hidden;
use platform::terminal::{self, Standard};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{
    env,
    fmt::{self, Display},
    io::{self, Write},
};

/// Standard output, and whether it is for a person who sees colours.
#[derive(Debug)]
pub(super) struct Out {
    stdout: io::Stdout,
    colours: bool,
}

impl Out {
    pub(super) fn new() -> Self {
        Self { stdout: io::stdout(), colours: has_colours(Standard::Output) }
    }

    /// One line, at once.
    pub(super) fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.stdout, "{line}")
            .and_then(|()| self.stdout.flush())
            .map_err(Failure::unwritten)
    }

    /// Bytes that need no line's end.
    pub(super) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.stdout.write_all(text.as_bytes());
        written.and_then(|()| self.stdout.flush()).map_err(Failure::unwritten)
    }

    /// One JSON object on one line, its schema's name first.
    pub(super) fn json(&mut self, schema: &str, value: &impl Serialize) -> Result<(), Failure> {
        let object = serde_json::to_string(value).expect("what commands print is JSON");
        self.json_text(schema, &object)
    }

    /// The same for an object that is JSON text already.
    pub(super) fn json_text(&mut self, schema: &str, object: &str) -> Result<(), Failure> {
        self.line(with_schema(schema, object))
    }

    /// A table with its heading; or the words for an empty one.
    pub(super) fn table(
        &mut self,
        heading: &[&str],
        rows: Vec<Vec<String>>,
        nothing: &str,
    ) -> Result<(), Failure> {
        self.table_with_notes(heading, rows.into_iter().map(|row| (row, None)).collect(), nothing)
    }

    /// The same, with a note on a line of its own below each row that has one.
    pub(super) fn table_with_notes(
        &mut self,
        heading: &[&str],
        rows: Vec<(Vec<String>, Option<String>)>,
        nothing: &str,
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.line(nothing);
        }
        let heading = heading.iter().map(|&word| word.to_owned()).collect();
        let (rows, notes): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let all: Vec<_> = std::iter::once(heading).chain(rows).collect();
        let mut lines = table(&all).into_iter();
        if let Some(heading) = lines.next() {
            let heading = self.paint(Colour::Bold, heading);
            self.line(heading)?;
        }
        for (line, note) in lines.zip(notes) {
            self.line(line)?;
            note.map_or(Ok(()), |note| self.line(format_args!("    {note}")))?;
        }
        Ok(())
    }

    pub(super) fn paint<T: Display>(&self, colour: Colour, text: T) -> Painted<T> {
        Painted { text, colour: Some(colour).filter(|_| self.colours) }
    }
}

/// One line for the person, beside what goes to standard output. Where nobody can read it any more,
/// that is no reason to stop.
pub(super) fn say(line: impl Display) {
    drop(writeln!(io::stderr(), "agent-relay: {line}"));
}

/// Help that nobody asked for, beside what goes to standard output.
pub(super) fn help(text: &str) {
    // As for a line.
    drop(io::stderr().write_all(text.as_bytes()));
}

/// Puts the schema's name in front of an object's other members.
fn with_schema(schema: &str, object: &str) -> String {
    let members = object.trim_start().strip_prefix('{').unwrap_or(object).trim_start();
    let comma = if members.starts_with('}') { "" } else { "," };
    // A frame may hold line breaks between its members, and nowhere else.
    let members = members.replace(['\n', '\r'], " ");
    format!("{{\"schema\":\"agent-relay.{schema}/1\"{comma}{members}")
}

/// A JSON value in one line, to be shown.
pub(super) fn compact(json: &RawValue) -> String {
    json.get().replace(['\n', '\r'], " ")
}

pub(super) fn has_colours(stream: Standard) -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && terminal::is_terminal(stream)
}

/// The few that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Bold,
    Faint,
    Green,
    Yellow,
    Red,
}

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

/// Text that somebody else wrote, with everything in it visible that could act on a terminal or
/// deceive a reader. Line breaks and tabs stay.
pub(super) fn foreign(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The same for what has to stay on its line: names, topics, sentences.
pub(super) fn foreign_line(text: &str) -> String {
    foreign(text).replace('\n', "\\u{a}").replace('\t', "\\u{9}")
}

/// A body below its first line's heading: no line of it can look like a heading.
pub(super) fn indented(body: &str) -> String {
    let body = foreign(body);
    let mut lines = body.trim_end_matches('\n').split('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push_str(if line.is_empty() { "\n" } else { "\n    " });
        text.push_str(line);
    }
    text
}

/// Rows in columns that are as wide as they have to be, the first row a heading.
fn table(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let row_text = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            format!("{cell:<width$}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(row_text).collect()
}

/// So long, in the two largest units.
pub(super) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_instead() {
        assert_eq!(
            foreign("plain \u{e4}\u{4e2d}\u{1f600}\n\tx"),
            "plain \u{e4}\u{4e2d}\u{1f600}\n\tx"
        );
        assert_eq!(foreign("a\x1b[31mb\r\x07\x7f"), "a\\u{1b}[31mb\\u{d}\\u{7}\\u{7f}");
        assert_eq!(foreign("\u{9b}\u{202e}\u{2066}\u{200f}"), "\\u{9b}\\u{202e}\\u{2066}\\u{200f}");
        assert_eq!(foreign("\u{2028}\u{e0041}\u{61c}"), "\\u{2028}\\u{e0041}\\u{61c}");
        assert_eq!(foreign_line("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(indented("one\n\nAnn: two\n"), "one\n\n    Ann: two");
        for code in (0..=0x10_ffff).filter_map(char::from_u32) {
            let shown = foreign(&code.to_string());
            assert!(!shown.chars().any(is_hidden), "{shown:?}");
        }
    }

    #[test]
    fn a_schema_stands_first_and_all_on_one_line() {
        assert_eq!(with_schema("x", "{}"), r#"{"schema":"agent-relay.x/1"}"#);
        assert_eq!(with_schema("x", "{ \"a\":\n1 }"), r#"{"schema":"agent-relay.x/1","a": 1 }"#);
    }

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let rows = [vec!["NAME".into(), "STATE".into()], vec!["Annabel".into(), "here".into()]];
        assert_eq!(table(&rows), ["NAME     STATE", "Annabel  here"]);
    }

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(59_999), "59 s");
        assert_eq!(duration(3_599_000), "59 min 59 s");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }
}
