//! An open message or block: the lines from its opening line to its end.

use super::{
    block,
    body::{before_close, closes, recover_body},
    body_row::BodyLine,
    extracted::{Extracted, Fault},
    fence::Fence,
    finding::{Finding, IfExtended},
    logical_line::LogicalLine,
    marks,
    opening_line::OpeningLine,
    rules::Rules,
    target::shorten,
};
use crate::outgoing::OutgoingMessage;

/// The maximum size of a body as JSON text: an envelope of 1 MiB, less 4 KiB for its header.
const BODY_BYTES_MAX: usize = (1 << 20) - (4 << 10);

/// A message with more bytes of lines than this counts as too large while it is collected.
const COLLECTED_BYTES_MAX: usize = 2 << 20;

/// How many letters of the second line distinguish messages with the same opening line.
const SECOND_LINE_LETTERS: usize = 16;

/// The correct form of a message, to end a sentence about a mistake.
pub(super) const HOW: &str =
    "write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>";

/// The form of a message.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// A message with this opening line.
    Message(Box<OpeningLine>),
    /// A block, with the byte of its first line where the JSON begins.
    Block(usize),
}

/// The lines of a message or block that have been read so far.
#[derive(Debug, Clone)]
pub(super) struct OpenMessage {
    pub(super) form: Form,
    /// The open code fence in the body.
    pub(super) fence: Option<Fence>,
    lines: Vec<LogicalLine>,
    bytes: usize,
    /// Whether rows of the message may have been erased. If so, a missing end may not be the
    /// agent's mistake.
    pub(super) may_be_overwritten: bool,
}

impl OpenMessage {
    /// Returns a message without lines.
    pub(super) fn new(form: Form) -> Self {
        Self { form, fence: None, lines: Vec::new(), bytes: 0, may_be_overwritten: false }
    }

    /// Whether this line, as the next one, ends the message.
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        match &self.form {
            Form::Message(opening) if self.lines.is_empty() => {
                opening.is_inline || closes(&line[opening.body_at..])
            }
            Form::Message(_) => closes(line),
            Form::Block(_) => block::end(line).is_some(),
        }
    }

    /// Adds a line. Once the message is too large, only its opening line's text is kept.
    pub(super) fn push(&mut self, mut line: LogicalLine) {
        self.bytes = self.bytes.saturating_add(line.text.len() + 1);
        if self.is_too_large() {
            self.lines.truncate(1);
            line.text = String::new();
        }
        self.lines.push(line);
    }

    /// Returns the finding for a message that is still open at the end of the turn or text.
    pub(super) fn unclosed(&self) -> Finding {
        match self.may_be_overwritten {
            true => self.overwritten(),
            false => self.fault(Fault::Unclosed, &format!("was never closed; {HOW}")),
        }
    }

    /// Returns the finding for a message with overwritten rows.
    pub(super) fn overwritten(&self) -> Finding {
        let reason = "was overwritten on the screen before its end was read; send it again";
        self.fault(Fault::Overwritten, reason)
    }

    /// Returns the finding for a closed message.
    pub(super) fn close(&self, rules: &Rules) -> Finding {
        match &self.form {
            _ if self.is_too_large() => self.too_large(),
            Form::Message(opening) => self.close_message(opening, rules),
            Form::Block(json_at) => self.close_block(*json_at, rules),
        }
    }

    fn close_message(&self, opening: &OpeningLine, rules: &Rules) -> Finding {
        let end =
            |text: &str| if opening.is_inline { text.len() } else { before_close(text).len() };
        let lines = self.body_lines(opening.body_at, opening.column, end);
        let body = recover_body(&lines, opening.hang, rules.text_columns());
        let body = marks::unescape(&body, rules.columns.is_some());
        if body.is_empty() {
            return self.empty();
        }
        let if_extended =
            if opening.is_inline { IfExtended::Unchanged } else { IfExtended::Reopened };
        self.finish(OutgoingMessage { body, ..opening.message.clone() }, if_extended)
    }

    fn close_block(&self, json_at: usize, rules: &Rules) -> Finding {
        let end = |text: &str| block::end(text).unwrap_or(text.len());
        let lines = self.body_lines(json_at, 0, end);
        let rows: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        let texts = [recover_body(&lines, 0, rules.text_columns()), rows.join(" "), rows.concat()];
        match block::parse(&texts) {
            Ok(message) if message.body.is_empty() && message.data.is_none() => self.empty(),
            Ok(message) => self.finish(message, IfExtended::Unchanged),
            Err(reason) => {
                let sentence = format!(
                    "Not sent: the [[RELAY]] block cannot be read ({reason}); it has to be JSON \
                     with to, type, and body or data, between [[RELAY]] and [[/RELAY]]."
                );
                let finding = Finding::problem(Fault::Block, self.opening(), sentence);
                Finding { last_row: self.last_row(), ..finding }
            }
        }
    }

    fn is_too_large(&self) -> bool {
        self.bytes > COLLECTED_BYTES_MAX
    }

    fn opening(&self) -> &LogicalLine {
        self.lines.first().expect("a message has at least its opening line")
    }

    fn last_row(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.last_row)
    }

    /// Returns the parts of the lines that belong to the body. The first line counts from byte
    /// `from` on, and begins in `column`. The last line counts up to the byte that `end` returns.
    fn body_lines(
        &self,
        from: usize,
        column: usize,
        end: impl Fn(&str) -> usize,
    ) -> Vec<BodyLine<'_>> {
        let whole = |line| BodyLine { line, text: &line.text, column: None };
        let mut lines: Vec<_> = self.lines.iter().map(whole).collect();
        if let Some(last) = lines.last_mut() {
            last.text = &last.text[..end(last.text)];
        }
        if let Some(first) = lines.first_mut() {
            first.text = first.text.get(from..).unwrap_or_default();
            first.column = Some(column);
        }
        lines
    }

    /// Returns the first letters of the second line. They do not depend on the screen's size.
    fn second_line(&self) -> String {
        let text = self.lines.get(1).map_or("", |line| &line.text);
        text.chars().filter(|c| c.is_alphanumeric()).take(SECOND_LINE_LETTERS).collect()
    }

    fn finish(&self, message: OutgoingMessage, if_extended: IfExtended) -> Finding {
        if json_bytes(&message.body) > BODY_BYTES_MAX {
            return self.too_large();
        }
        Finding {
            extracted: Extracted::Message(message),
            first_row: self.opening().first_row,
            last_row: self.last_row(),
            first_line: shorten(self.opening().text.trim()),
            second_line: self.second_line(),
            if_extended,
        }
    }

    fn too_large(&self) -> Finding {
        let reason = format!("is longer than {BODY_BYTES_MAX} bytes; send it in parts");
        self.fault(Fault::TooLarge, &reason)
    }

    fn empty(&self) -> Finding {
        self.fault(Fault::Empty, "is empty; write its text before its end")
    }

    fn fault(&self, fault: Fault, reason: &str) -> Finding {
        let finding = Finding::not_sent(fault, self.opening(), reason);
        Finding { last_row: self.last_row(), second_line: self.second_line(), ..finding }
    }
}

/// Returns the number of bytes that a text takes in JSON.
fn json_bytes(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            0..0x20 => 6,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_bytes_count_characters_in_their_escaped_form() {
        for text in ["", "plain é", "\"\\", "two\r\nlines\t", "\u{1}\u{8}\u{c}\u{1f}"] {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(json_bytes(text) + "\"\"".len(), json.len(), "{text:?}");
        }
    }
}
