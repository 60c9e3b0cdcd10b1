//! Lines in, messages out: openers, closes, fences, blocks, frames.
//!
//! The [`Scanner`] knows nothing of screens; it reads a terminal's lines and a transcript's alike. It is
//! a value that can be cloned, so that rows that may still change are read by a clone.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::body::{Stretch, before_close, closes, recover};
use super::fence::Fence;
use super::injected::{Frame, Injected};
use super::line::Line;
use super::marks;
use super::opener::{Opener, Reading};
use super::rejoin::MARGIN_MAX;
use super::target::{Target, shown};
use super::{Extracted, Fault, Problem, block};
use crate::bridge::outgoing::OutgoingMessage;
use crate::bridge::screen::Row;

/// What a message may take in an envelope of 1 MiB, as JSON text.
const BODY_BYTES_MAX: usize = (1 << 20) - (4 << 10);

/// Bytes of rows that are gathered before a message counts as too large.
const GATHERED_BYTES_MAX: usize = 2 << 20;

/// Letters of a second line that tell a message from others that begin like it.
const NEXT_LETTERS: usize = 16;

const HOW: &str =
    "write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>";

const ONE_LINE: &str = "`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`";

/// What holds for all lines of a source.
#[derive(Default)]
pub(super) struct Rules {
    /// The terminal's columns, where the lines were rows of one.
    pub(super) columns: Option<usize>,
    /// Blanks that stand in front of all that the agent says.
    pub(super) margin: usize,
    /// The one-line form counts.
    pub(super) inline: bool,
    /// Frames that were typed as they are, whose rows may stand on the screen.
    pub(super) injected: Injected,
    /// Lines in whole frames that the agent quotes.
    pub(super) quotes: Vec<Range<u64>>,
    /// Fences are all there: what stands in one that a body opens and closes is that body's text.
    pub(super) fenced_bodies: bool,
    /// But not in bodies that begin in these lines.
    pub(super) plain_bodies: Vec<u64>,
}

impl Rules {
    fn is_quoted(&self, line: &Line) -> bool {
        self.quotes.iter().any(|quote| quote.contains(&line.first))
    }

    /// Whether a line may go on the one above it, whose program found no room there for its first
    /// word.
    fn may_continue(&self, line: &Line) -> bool {
        let word = line.text.split_whitespace().next().map_or(0, UnicodeWidthStr::width);
        let full = line.above + 1 + word + MARGIN_MAX;
        line.above > 0 && self.width().is_some_and(|columns| full > columns)
    }

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
    /// How its first line begins.
    pub(super) row: String,
    /// And its second one, as far as there is one.
    pub(super) next: String,
    /// What more text on its last row would do.
    pub(super) more: More,
}

/// What more text on a row would do to what was found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    /// Nothing.
    Nothing,
    /// A message ends with `>>>` there, and would not end.
    Reopens,
    /// An arrow and a name stand there, and would become an opener.
    Completes,
}

/// Reads lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    state: State,
    frame: Option<Frame>,
    /// What a frame says that the agent quotes.
    quote: Option<Box<Self>>,
    /// Where what is open began.
    opened: u64,
}

#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Text,
    /// A fence, and the first line in it that would begin a message elsewhere.
    Fence(Fence, Option<Line>),
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

    /// A message or block is open.
    pub(super) fn gathers(&self) -> bool {
        matches!(self.state, State::Body(..) | State::Block(..))
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if self.is_idle() {
            self.opened = line.first;
        }
        if rules.is_quoted(&line) {
            return self.quoted(line, rules, out);
        }
        self.quote = None;
        if self.in_frame(&line.text, rules) {
            // A body may quote one; nothing in it opens or closes.
            return self.push(line);
        }
        self.read(line, rules, out);
    }

    fn read(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        match &mut self.state {
            State::Text => self.text(line, rules, out),
            State::Fence(fence, first) => {
                if fence.closed_by(&line.text) || rules.injected.ends_escaped(&line.text) {
                    self.state = State::Text;
                } else if first.is_none() && begins_message(&line.text) {
                    *first = Some(line);
                }
            }
            State::Body(..) | State::Block(..) => self.gather(line, rules, out),
        }
    }

    /// A line of a frame that the agent quotes: text of what is open. Else what would be a message
    /// in it is told.
    fn quoted(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if !matches!(self.state, State::Text) {
            return self.push(line);
        }
        let mut items = Vec::new();
        self.quote.get_or_insert_default().read(line, rules, &mut items);
        let messages = items.into_iter().filter(Item::is_message);
        out.extend(messages.map(Item::into_quoted));
    }

    /// The turn is over: what is open stays unsaid.
    pub(super) fn end_turn(&mut self, out: &mut Vec<Item>) {
        self.frame = None;
        match std::mem::take(&mut self.state) {
            State::Text | State::Fence(_, None) => {}
            State::Fence(_, Some(first)) => {
                let why = "stands in a code fence that was never closed; close the fence before it";
                let (problem, last) = (not_sent(Fault::Fenced, &first, why), first.last);
                out.push(Item::of(problem, first.first, last));
            }
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
    pub(super) fn drop_open(&mut self) -> Option<Item> {
        match std::mem::take(&mut self.state) {
            State::Body(_, gathered, _) | State::Block(_, gathered) => Some(gathered.torn_item()),
            state => {
                self.state = state;
                None
            }
        }
    }

    fn in_frame(&mut self, line: &str, rules: &Rules) -> bool {
        match self.frame.take().or_else(|| rules.injected.frame(line)) {
            None => false,
            Some(mut frame) => {
                let goes_on = frame.goes_on(line);
                self.frame = Some(frame).filter(|_| goes_on);
                // Its last line may close what quotes it.
                goes_on
            }
        }
    }

    fn text(&mut self, line: Line, rules: &Rules, out: &mut Vec<Item>) {
        if let Some(fence) = Fence::opened_by(&line.text) {
            self.state = State::Fence(fence, None);
        } else if let Some(at) = block::begins(&line.text) {
            self.state = State::Block(at, Gathered::default());
            self.gather(line, rules, out);
        } else {
            match Reading::of(&line.text, rules.inline) {
                Reading::Text => {}
                Reading::Opener(opener) => self.open(opener, line, rules, out),
                Reading::Wrong(reason) => {
                    let problem = wrong(&line, &format!("{reason}; {HOW}"));
                    out.push(Item::of(problem, line.first, line.last));
                }
                Reading::NoText if rules.may_continue(&line) => {}
                Reading::NoText => {
                    let row = shown(line.text.trim());
                    let why = match rules.inline {
                        true => format!("`{row}` has no text; {HOW}"),
                        false => format!("`{row}` has no <<< behind the name; {HOW} ({ONE_LINE})"),
                    };
                    let item = Item::of(wrong(&line, &why), line.first, line.last);
                    out.push(Item { more: More::Completes, ..item });
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
            State::Text | State::Fence(..) => return,
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
        match self.torn {
            true => out.push(self.torn_item()),
            false => self.complain(Fault::Unclosed, &format!("was never closed; {HOW}"), out),
        }
    }

    fn torn_item(&self) -> Item {
        self.item(
            self.problem(Fault::Torn, "was painted over before its end was seen; send it again"),
        )
    }

    fn item(&self, problem: Problem) -> Item {
        Item { next: self.next(), ..Item::of(problem, self.first().first, self.last()) }
    }

    /// How the second line begins, in letters, which no other size of the screen changes.
    fn next(&self) -> String {
        let letters =
            self.lines.get(1).map(|line| line.text.chars().filter(|c| c.is_alphanumeric()));
        letters.into_iter().flatten().take(NEXT_LETTERS).collect()
    }

    fn said_too_much(&self, out: &mut Vec<Item>) {
        let why = format!("is longer than {BODY_BYTES_MAX} bytes; send it in parts");
        self.complain(Fault::TooLarge, &why, out);
    }

    fn give(&self, message: OutgoingMessage, more: More, out: &mut Vec<Item>) {
        if json_bytes(&message.body) > BODY_BYTES_MAX {
            return self.said_too_much(out);
        }
        let row = shown(self.first().text.trim());
        let what = Extracted::Found(message);
        let (first, last, next) = (self.first().first, self.last(), self.next());
        out.push(Item { what, first, last, row, next, more });
    }

    fn says_nothing(&self, out: &mut Vec<Item>) {
        self.complain(Fault::Empty, "says nothing; write its text before the end", out);
    }

    fn complain(&self, what: Fault, why: &str, out: &mut Vec<Item>) {
        out.push(self.item(self.problem(what, why)));
    }

    fn problem(&self, what: Fault, why: &str) -> Problem {
        not_sent(what, self.first(), why)
    }
}

impl Item {
    /// It tells of a message that was never closed.
    pub(super) fn is_unclosed(&self) -> bool {
        matches!(&self.what, Extracted::Problem(problem) if problem.what == Fault::Unclosed)
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.what, Extracted::Found(_))
    }

    /// It tells of a message that may be painted again, and may have been read before.
    pub(super) fn is_torn(&self) -> bool {
        matches!(&self.what, Extracted::Problem(problem) if problem.what == Fault::Torn)
    }

    fn of(problem: Problem, first: u64, last: u64) -> Self {
        let (row, next) = (problem.row.clone(), String::new());
        Self { what: Extracted::Problem(problem), first, last, row, next, more: More::Nothing }
    }

    /// The message is another one's, in a frame that the agent quotes.
    fn into_quoted(self) -> Self {
        let why = "stands in a frame that you quote; to send it, write it outside of the frame";
        let sentence = format!("Not sent: the message that begins with `{}` {why}.", self.row);
        let problem = Problem { what: Fault::Quoted, sentence, row: self.row };
        Self::of(problem, self.first, self.last)
    }
}

fn not_sent(what: Fault, first: &Line, why: &str) -> Problem {
    let row = shown(first.text.trim());
    let sentence = format!("Not sent: the message that begins with `{row}` {why}.");
    Problem { what, sentence, row }
}

fn wrong(line: &Line, why: &str) -> Problem {
    let row = shown(line.text.trim());
    Problem { what: Fault::Opener, sentence: format!("Not sent: {why}."), row }
}

/// Whether a line would begin a message where no fence is open.
fn begins_message(line: &str) -> bool {
    matches!(Reading::of(line, false), Reading::Opener(_)) || block::begins(line).is_some()
}

/// A closed message, which has to say something.
fn message(opener: &Opener, gathered: &Gathered, rules: &Rules, out: &mut Vec<Item>) {
    if gathered.too_large() {
        return gathered.said_too_much(out);
    }
    let end = |text: &str| if opener.inline { text.len() } else { before_close(text).len() };
    let stretches = gathered.stretches(opener.body_at, opener.column, end);
    let body = recover(&stretches, opener.hang, rules.width());
    let body = marks::unescape(&body, rules.columns.is_some());
    if body.is_empty() {
        return gathered.says_nothing(out);
    }
    let Target { to, topic } = opener.target.clone();
    let found = OutgoingMessage {
        to,
        kind: "message".to_owned(),
        body,
        thread: opener.thread.clone(),
        topic: topic.or_else(|| opener.topic.clone()),
        reply_to: opener.reply.clone(),
        data: None,
        meta: None,
    };
    let more = if opener.inline { More::Nothing } else { More::Reopens };
    gathered.give(found, more, out);
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
        Ok(found) if found.body.is_empty() && found.data.is_none() => gathered.says_nothing(out),
        Ok(found) => gathered.give(found, More::Nothing, out),
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
