//! The line that begins a message: `->relay:TARGET [thread:ID] [topic:T] [reply:ID] <<<`.

use super::line::Start;
use super::target::{Target, shown};
use crate::protocol::topic;

pub(super) const ARROW: &str = "->relay:";
const OPEN: &str = "<<<";

/// Bytes of a thread; an id of a delivery is shorter.
const TAG_BYTES_MAX: usize = topic::TOPIC_BYTES_MAX;

/// What the beginning of a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing of a message.
    Text,
    /// A message begins.
    Opener(Opener),
    /// It looks like an opener and is none, for this reason.
    Wrong(String),
    /// The arrow and a target, with nothing that begins a text.
    NoText,
}

/// How a message begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opener {
    /// For whom.
    pub(super) target: Target,
    /// `[thread:ID]`.
    pub(super) thread: Option<String>,
    /// `[topic:T]`.
    pub(super) topic: Option<String>,
    /// `[reply:ID]`.
    pub(super) reply: Option<String>,
    /// The arrow's column.
    pub(super) column: usize,
    /// How far a bullet pushed the arrow in.
    pub(super) hang: usize,
    /// Where in the line the text after `<<<` (or, of the one-line form, the text) begins.
    pub(super) body_at: usize,
    /// The one-line form: the line is all there is.
    pub(super) inline: bool,
}

impl Reading {
    /// Reads a line; `inline` lets the one-line form count.
    pub(super) fn of(line: &str, inline: bool) -> Self {
        let Some(start) = Start::of(line) else { return Self::Text };
        let Some(rest) = start.rest.strip_prefix(ARROW) else { return Self::Text };
        let opens = rest.match_indices(OPEN).any(|(at, _)| !rest[..at].ends_with('\\'));
        if !opens && (!inline || rest.trim_end() == target(rest)) {
            let is_none = rest.contains(OPEN) || Target::parse(name(rest)).is_err();
            return if is_none { Self::Text } else { Self::NoText };
        }
        match read(rest, opens) {
            Ok((mut opener, body)) => {
                opener.column = start.column;
                opener.hang = start.hang;
                opener.body_at = line.len() - body.len();
                opener.inline = !opens;
                Self::Opener(opener)
            }
            Err(_) if !opens => Self::Text,
            Err(reason) => Self::Wrong(reason),
        }
    }
}

/// Reads target and tags; what is left is the body's beginning.
fn read(text: &str, opens: bool) -> Result<(Opener, &str), String> {
    let end = target(text).len();
    if end == 0 {
        let what = if text.starts_with(OPEN) { "no name" } else { "a blank" };
        return Err(format!("{what} stands behind the colon"));
    }
    let mut opener = Opener::to(Target::parse(name(text))?);
    let mut rest = &text[end..];
    loop {
        let next = rest.trim_start_matches(' ');
        let blanks = rest.len() - next.len();
        if let Some(body) = next.strip_prefix(OPEN) {
            return Ok((opener, body));
        }
        match next.strip_prefix('[').and_then(|tag| tag.split_once(']')) {
            Some((tag, after)) if blanks > 0 && opener.tag(tag, opens)? => rest = after,
            _ if !opens && blanks > 0 => return Ok((opener, next)),
            _ => {
                let word = next.split([' ', '<']).next().unwrap_or(next);
                return Err(format!("`{}` stands between the name and `<<<`", shown(word)));
            }
        }
    }
}

/// What stands behind the arrow, up to a blank or the text's beginning.
fn target(text: &str) -> &str {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    &text[..text.find(OPEN).map_or(end, |at| at.min(end))]
}

/// The target without what may follow it.
fn name(text: &str) -> &str {
    let target = target(text);
    target.strip_suffix([':', ',']).unwrap_or(target)
}

impl Opener {
    fn to(target: Target) -> Self {
        let (thread, topic, reply) = (None, None, None);
        Self { target, thread, topic, reply, column: 0, hang: 0, body_at: 0, inline: false }
    }

    /// Takes what stands between brackets. Whether it was a tag; an error where it is one and wrong.
    fn tag(&mut self, text: &str, opens: bool) -> Result<bool, String> {
        let Some((key, value)) = text.split_once(':') else { return Ok(false) };
        let sound = !value.is_empty()
            && value.len() <= TAG_BYTES_MAX
            && !value.contains(|c: char| c.is_control() || c.is_whitespace());
        let (place, sound) = match key {
            "thread" => (&mut self.thread, sound),
            "reply" => (&mut self.reply, sound),
            "topic" => (&mut self.topic, sound && topic::check(value).is_ok()),
            _ => return Ok(false),
        };
        if !sound {
            let what = if opens { "is not a tag that can be sent" } else { "is no tag" };
            return Err(format!("`[{}]` {what}", shown(text)));
        }
        *place = Some(value.to_owned());
        Ok(true)
    }
}
