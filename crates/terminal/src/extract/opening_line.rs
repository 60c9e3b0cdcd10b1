//! The line that opens a message: `->relay:TARGET [thread:ID] [topic:T] [reply:ID] <<<`.

use super::{
    logical_line::{ARROW, LineStart},
    target::{Target, shorten},
};
use crate::outgoing::OutgoingMessage;
use protocol::topic;

const OPEN: &str = "<<<";

/// The maximum size of a tag's value, in bytes. The limit of topics also holds for threads; ids of
/// deliveries are shorter.
const TAG_BYTES_MAX: usize = topic::TOPIC_BYTES_MAX;

/// A parsed line: whether it opens a message, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParsedLine {
    /// Opens no message.
    Text,
    /// Opens a message.
    Opening(Box<OpeningLine>),
    /// Has the arrow and `<<<`, but is malformed. The string is a clause that says why.
    Malformed(String),
    /// Has the arrow and a target, but no `<<<`.
    WithoutOpen,
}

/// A line that opens a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpeningLine {
    /// The message, still without its body.
    pub(super) message: OutgoingMessage,
    /// The arrow's column.
    pub(super) column: usize,
    /// The columns of the hanging indent below a bullet.
    pub(super) hang: usize,
    /// The byte of the line where the body begins: after `<<<`, or after the name in the one-line
    /// form.
    pub(super) body_at: usize,
    /// Whether the line has the one-line form and so is the whole message.
    pub(super) is_inline: bool,
}

impl ParsedLine {
    /// Parses a line. `allows_inline` permits the one-line form.
    pub(super) fn parse(line: &str, allows_inline: bool) -> Self {
        let Some(start) = LineStart::of(line) else { return Self::Text };
        let Some(rest) = start.rest.strip_prefix(ARROW) else { return Self::Text };
        let opens = rest.match_indices(OPEN).any(|(at, _)| !rest[..at].ends_with('\\'));
        if !opens && (!allows_inline || rest.trim_end() == target(rest)) {
            let is_text = rest.contains(OPEN) || Target::parse(name(rest)).is_err();
            return if is_text { Self::Text } else { Self::WithoutOpen };
        }
        match parse_header(rest, opens) {
            Ok((mut opening, body)) => {
                opening.column = start.column;
                opening.hang = start.hang;
                opening.body_at = line.len() - body.len();
                opening.is_inline = !opens;
                Self::Opening(Box::new(opening))
            }
            Err(_) if !opens => Self::Text,
            Err(reason) => Self::Malformed(reason),
        }
    }
}

/// Whether a line has an opening line after other text, unless that text ends with a quotation
/// mark.
pub(super) fn is_misplaced(line: &str) -> bool {
    line.match_indices(ARROW).any(|(at, _)| {
        let before = line[..at].trim_end();
        let is_quoted = before.ends_with(['`', '\\', '"', '\'', '>', '|', '│']);
        let opens = matches!(ParsedLine::parse(&line[at..], false), ParsedLine::Opening(_));
        !before.is_empty() && !is_quoted && opens
    })
}

/// Parses the target and the tags. Also returns the rest of the text, where the body begins.
fn parse_header(text: &str, opens: bool) -> Result<(OpeningLine, &str), String> {
    let end = target(text).len();
    if end == 0 {
        let found = if text.starts_with(OPEN) { "no name" } else { "a blank" };
        return Err(format!("{found} follows the colon"));
    }
    let Target { to, topic } = Target::parse(name(text))?;
    let message = OutgoingMessage { to, kind: "message".to_owned(), ..OutgoingMessage::default() };
    let mut opening = OpeningLine { message, column: 0, hang: 0, body_at: 0, is_inline: false };
    let mut rest = &text[end..];
    let body = loop {
        let next = rest.trim_start_matches(' ');
        let blanks = rest.len() - next.len();
        if let Some(body) = next.strip_prefix(OPEN) {
            break body;
        }
        match next.strip_prefix('[').and_then(|tag| tag.split_once(']')) {
            Some((tag, after)) if blanks > 0 && opening.set_tag(tag)? => rest = after,
            _ if !opens && blanks > 0 => break next,
            _ => {
                let word = next.split([' ', '<']).next().unwrap_or(next);
                return Err(format!("`{}` stands between the name and `<<<`", shorten(word)));
            }
        }
    };
    opening.message.topic = topic.or(opening.message.topic);
    Ok((opening, body))
}

/// Returns the text after the arrow, up to a blank or `<<<`.
fn target(text: &str) -> &str {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    &text[..text.find(OPEN).map_or(end, |at| at.min(end))]
}

/// Returns the target without a colon or comma at its end.
fn name(text: &str) -> &str {
    let target = target(text);
    target.strip_suffix([':', ',']).unwrap_or(target)
}

impl OpeningLine {
    /// Sets a tag, given the text between its brackets. Returns `false` if the text is no tag.
    ///
    /// # Errors
    ///
    /// If the tag's value is not allowed: a clause that says why.
    fn set_tag(&mut self, text: &str) -> Result<bool, String> {
        let Some((key, value)) = text.split_once(':') else { return Ok(false) };
        let is_valid = !value.is_empty()
            && value.len() <= TAG_BYTES_MAX
            && !value.contains(|c: char| c.is_control() || c.is_whitespace());
        let (field, is_valid) = match key {
            "thread" => (&mut self.message.thread, is_valid),
            "reply" => (&mut self.message.reply_to, is_valid),
            "topic" => (&mut self.message.topic, is_valid && topic::check(value).is_ok()),
            _ => return Ok(false),
        };
        if !is_valid {
            return Err(format!("`[{}]` is not a tag that can be sent", shorten(text)));
        }
        *field = Some(value.to_owned());
        Ok(true)
    }
}
