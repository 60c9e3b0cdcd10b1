//! Lines in, messages out: openers, closes, fences, blocks, frames.
//!
//! The [`Scanner`] knows nothing of screens; it reads a terminal's lines and a transcript's alike. It is
//! a value that can be cloned, so that rows that may still change are read by a clone.

use std::borrow::Cow;

use super::body::{Stretch, before_close, closes, recover, unescaped};
use super::fence::Fence;
use super::injected::{Frame, Injected};
use super::line::Line;
use super::opener::{Opener, Reading};
use super::target::{Target, shown};
use super::{Extracted, Fault, Message, Problem, block};
use crate::bridge::screen::Row;

/// What a message may take in an envelope of 1 MiB, as JSON text.
const BODY_BYTES_MAX: usize = (1 << 20) - (4 << 10);

/// Bytes of rows that are gathered before a message counts as too large.
const GATHERED_BYTES_MAX: usize = 2 << 20;

const HOW: &str =
    "write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>";

/// What holds for all lines of a source.
#[derive(Default)]
pub(super) struct Rules {
    /// The terminal's columns, where the lines were rows of one.
    pub(super) columns: Option<usize>,
    /// Blanks that stand in front of all that the agent says.
    pub(super) margin: usize,
    /// The one-line form counts.
    pub(super) inline: bool,
    /// What was injected lately.
    pub(super) injected: Injected,
    /// Fences are all there: what stands in one that a body opens and closes is that body's text.
    pub(super) fenced_bodies: bool,
    /// But not in bodies that begin in these lines.
    pub(super) plain_bodies: Vec<u64>,
}

impl Rules {
    /// The columns there are for what the agent says.
    fn width(&self) -> Option<usize> {
        self.columns.map(|columns| columns.saturating_sub(self.margin))
    }

    /// A row from behind the margin on, where there is one in this row.
    pub(super) fn without_margin<'a>(&self, row: &'a Row) -> Cow<'a, Row> {
        match row.text.split_at_checked(self.margin) {
            Some((margin, text)) if !margin.is_empty() && margin.bytes().all(|b| b == b' ') => {
                let width = row.width - self.margin;
                Cow::Owned(Row { text: text.to_owned(), width, wraps: row.wraps })
            }
            _ => Cow::Borrowed(row),
        }
    }
}

/// Something found, and the rows it stood on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// What.
    pub(super) what: Extracted,
    /// Its first row.
    pub(super) first: u64,
    /// Its last row.
    pub(super) last: u64,
    /// It ends with `>>>`, which more text on the row would undo.
    pub(super) closed: bool,
    /// A message that only repeats what was injected: this is told instead of sending it.
    pub(super) echo: Option<Problem>,
}

/// Reads lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    state: State,
    frame: Option<Frame>,
    /// Where what is open began.
    opened: u64,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Text,
    Fence(Fence),
    Body(Opener, Gathered, Option<Fence>),
    Block(usize, Gathered),
}

/// The lines of a message that is not closed yet.
#[derive(Debug, Clone, Default)]
struct Gathered {
    lines: Vec<Line>,
    bytes: usize,
    /// Rows of it may have been erased: that it was never closed is no mistake.
    torn: bool,
}

impl Scanner {
    /// Nothing is open.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Text) && self.frame.is_none()
    }

    /// The row where what is open began.
    pub(super) fn open_since(&self) -> Option<u64> {
        (!self.is_idle()).then_some(self.opened)
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if self.is_idle() {
            self.opened = line.first;
        }
        if self.in_frame(&line.text, rules) {
            // A body may quote one; nothing in it opens or closes.
            return self.push(line);
        }
        match &self.state {
            State::Text => self.text(line, rules, out),
            State::Fence(fence) => {
                if fence.closed_by(&line.text) {
                    self.state = State::Text;
                }
            }
            State::Body(..) | State::Block(..) => self.gather(line, rules, out),
        }
    }

    /// The turn is over: what is open stays unsaid.
    pub(super) fn end_turn(&mut self, out: &mut Vec<Item>) {
        self.frame = None;
        match std::mem::take(&mut self.state) {
            State::Text | State::Fence(_) => {}
            State::Body(_, gathered, _) | State::Block(_, gathered) => gathered.unclosed(out),
        }
    }

    /// Rows were erased or moved: what is open may begin again without ever having been closed.
    pub(super) fn tear(&mut self) {
        if let State::Body(_, gathered, _) | State::Block(_, gathered) = &mut self.state {
            gathered.torn = true;
        }
    }

    /// The terminal has another size: rows of what is open may be gone, and others in their place.
    pub(super) fn drop_open(&mut self) {
        if matches!(self.state, State::Body(..) | State::Block(..)) {
            self.state = State::Text;
        }
    }

    fn in_frame(&mut self, line: &str, rules: &Rules) -> bool {
        match self.frame.take().or_else(|| rules.injected.frame(line)) {
            None => false,
            Some(mut frame) => {
                if frame.goes_on(line) {
                    self.frame = Some(frame);
                }
                true
            }
        }
    }

    fn text(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if let Some(fence) = Fence::opened_by(&line.text) {
            self.state = State::Fence(fence);
        } else if let Some(at) = block::begins(&line.text) {
            self.state = State::Block(at, Gathered::default());
            self.gather(line, rules, out);
        } else {
            match Reading::of(&line.text, rules.inline) {
                Reading::Text => {}
                Reading::Opener(opener) => self.open(opener, line, rules, out),
                Reading::Wrong(reason) => {
                    let sentence = format!("Not sent: {reason}; {HOW}.");
                    let row = shown(line.text.trim());
                    let problem = Problem { what: Fault::Opener, sentence, row };
                    out.push(Item::of(problem, line.first, line.last));
                }
            }
        }
    }

    fn open(&mut self, opener: Opener, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        self.opened = line.first;
        let ends = opener.inline || closes(&line.text[opener.body_at..]);
        let mut gathered = Gathered::default();
        gathered.push(line);
        match ends {
            true => message(&opener, &gathered, rules, out),
            false => self.state = State::Body(opener, gathered, None),
        }
    }

    /// Takes a line of an open message or block; an opener begins another one instead.
    fn gather(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if self.in_body_fence(&line, rules) {
            return self.push(line);
        }
        if let Reading::Opener(opener) = Reading::of(&line.text, false) {
            if let State::Body(_, gathered, _) | State::Block(_, gathered) =
                std::mem::take(&mut self.state)
            {
                gathered.unclosed(out);
            }
            return self.open(opener, line, rules, out);
        }
        match &mut self.state {
            State::Text | State::Fence(_) => return,
            State::Body(opener, gathered, _) => {
                let ends = closes(&line.text);
                gathered.push(line);
                if !ends {
                    return;
                }
                message(opener, gathered, rules, out);
            }
            State::Block(at, gathered) => {
                let ends = block::ends(&line.text).is_some();
                gathered.push(line);
                if !ends {
                    return;
                }
                block_message(*at, gathered, rules, out);
            }
        }
        self.state = State::Text;
    }

    /// The line is text of what is open.
    fn push(&mut self, line: Line) {
        if let State::Body(_, gathered, _) | State::Block(_, gathered) = &mut self.state {
            gathered.push(line);
        }
    }

    /// Whether a line is a fence's in a body, where that makes it text.
    fn in_body_fence(&mut self, line: &Line, rules: &Rules) -> bool {
        let State::Body(_, _, fence) = &mut self.state else { return false };
        if !rules.fenced_bodies || rules.plain_bodies.contains(&self.opened) {
            return false;
        }
        match fence {
            Some(open) if open.closed_by(&line.text) => *fence = None,
            // It ends the body as well.
            Some(open) if closes(&line.text) && open.closed_by(before_close(&line.text)) => {
                *fence = None;
                return false;
            }
            Some(_) => {}
            None => {
                *fence = Fence::opened_by(&line.text);
                return fence.is_some();
            }
        }
        true
    }
}

impl Gathered {
    /// The line is the message's, or too much for it.
    fn push(&mut self, mut line: Line) {
        self.bytes = self.bytes.saturating_add(line.text.len() + 1);
        if self.too_large() {
            // What names the message stays; the rest would only take room.
            self.lines.truncate(1);
            line.text = String::new();
        }
        self.lines.push(line);
    }

    fn too_large(&self) -> bool {
        self.bytes > GATHERED_BYTES_MAX
    }

    fn first(&self) -> &Line {
        self.lines.first().expect("a message is made of at least its opener")
    }

    fn last(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.last)
    }

    /// What of the lines belongs to the message: the first from byte `from` on, which counts as standing
    /// in `column`, the last up to where `end` says.
    fn stretches(
        &self,
        from: usize,
        column: usize,
        end: impl Fn(&str) -> usize,
    ) -> Vec<Stretch<'_>> {
        let whole = |line| Stretch { line, text: &line.text, column: None };
        let mut stretches: Vec<_> = self.lines.iter().map(whole).collect();
        if let Some(last) = stretches.last_mut() {
            last.text = &last.text[..end(last.text)];
        }
        if let Some(first) = stretches.first_mut() {
            first.text = first.text.get(from..).unwrap_or_default();
            first.column = Some(column);
        }
        stretches
    }

    fn unclosed(self, out: &mut Vec<Item>) {
        if !self.torn && !self.lines.is_empty() {
            self.complain(Fault::Unclosed, &format!("was never closed; {HOW}"), out);
        }
    }

    fn said_too_much(&self, out: &mut Vec<Item>) {
        let why = format!("is longer than {BODY_BYTES_MAX} bytes; send it in parts");
        self.complain(Fault::TooLarge, &why, out);
    }

    fn give(
        &self,
        message: Message,
        closed: bool,
        source: &str,
        rules: &Rules,
        out: &mut Vec<Item>,
    ) {
        if json_bytes(&message.body) > BODY_BYTES_MAX {
            return self.said_too_much(out);
        }
        let repeats = rules.injected.holds(&message.body) || rules.injected.holds(source);
        let why = "only repeats what you received; say it in your own words";
        let echo = repeats.then(|| self.problem(Fault::Echo, why));
        let what = Extracted::Found(message);
        out.push(Item { what, first: self.first().first, last: self.last(), closed, echo });
    }

    fn complain(&self, what: Fault, why: &str, out: &mut Vec<Item>) {
        out.push(Item::of(self.problem(what, why), self.first().first, self.last()));
    }

    fn problem(&self, what: Fault, why: &str) -> Problem {
        let row = shown(self.first().text.trim());
        let sentence = format!("Not sent: the message that begins with `{row}` {why}.");
        Problem { what, sentence, row }
    }
}

impl Item {
    /// It tells of a message that was never closed.
    pub(super) fn is_unclosed(&self) -> bool {
        matches!(&self.what, Extracted::Problem(problem) if problem.what == Fault::Unclosed)
    }

    fn of(problem: Problem, first: u64, last: u64) -> Self {
        Self { what: Extracted::Problem(problem), first, last, closed: false, echo: None }
    }
}

/// A closed message; none where it says nothing.
fn message(opener: &Opener, gathered: &Gathered, rules: &Rules, out: &mut Vec<Item>) {
    if gathered.too_large() {
        return gathered.said_too_much(out);
    }
    let end = |text: &str| if opener.inline { text.len() } else { before_close(text).len() };
    let stretches = gathered.stretches(opener.body_at, opener.column, end);
    let body = unescaped(&recover(&stretches, opener.hang, rules.width()));
    if body.is_empty() {
        return;
    }
    let Target { to, topic } = opener.target.clone();
    let found = Message {
        to,
        kind: "message".to_owned(),
        body,
        thread: opener.thread.clone(),
        topic: topic.or_else(|| opener.topic.clone()),
        reply: opener.reply.clone(),
        data: None,
        meta: None,
    };
    let source: Vec<&str> = gathered.lines.iter().map(|line| line.text.as_str()).collect();
    gathered.give(found, !opener.inline, &source.join("\n"), rules, out);
}

/// A closed block.
fn block_message(at: usize, gathered: &Gathered, rules: &Rules, out: &mut Vec<Item>) {
    if gathered.too_large() {
        return gathered.said_too_much(out);
    }
    let end = |text: &str| block::ends(text).unwrap_or(text.len());
    let stretches = gathered.stretches(at, 0, end);
    let rows: Vec<&str> = stretches.iter().map(|stretch| stretch.text.trim()).collect();
    let texts = [recover(&stretches, 0, rules.width()), rows.join(" "), rows.concat()];
    match block::read(&texts) {
        Ok(found) if found.body.is_empty() && found.data.is_none() => {}
        Ok(found) => gathered.give(found, false, &rows.join("\n"), rules, out),
        Err(reason) => {
            let sentence = format!(
                "Not sent: the [[RELAY]] block can't be read ({reason}); it has to be JSON with to, type and body, between [[RELAY]] and [[/RELAY]]."
            );
            let row = shown(gathered.first().text.trim());
            let problem = Problem { what: Fault::Block, sentence, row };
            out.push(Item::of(problem, gathered.first().first, gathered.last()));
        }
    }
}

/// Bytes of a text as JSON writes it.
fn json_bytes(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\t' => 2,
            0..0x20 => 6,
            _ => 1,
        })
        .sum()
}
