//! The line scanner, which finds messages, blocks, code fences and frames in lines.
//!
//! The scanner reads lines of a terminal and lines of a transcript in the same way. A clone of the
//! scanner reads rows that may still change.

use super::block;
use super::body::{before_close, closes};
use super::extracted::Fault;
use super::fence::Fence;
use super::finding::{Finding, IfExtended};
use super::injected_frames::OpenFrame;
use super::logical_line::LogicalLine;
use super::open_message::{Form, HOW, OpenMessage};
use super::opening_line::{ParsedLine, is_misplaced};
use super::rules::Rules;
use super::target::shorten;

const ONE_LINE_FORM: &str = "`->relay:NAME text` alone counts only where your user starts you with \
                             `agent-relay run --inline`";

/// A scanner, with its state after the lines read so far.
#[derive(Debug, Clone, Default)]
pub(super) struct LineScanner {
    state: State,
    frame: Option<OpenFrame>,
    /// The scanner of the lines in a frame that the agent quotes.
    quote: Option<Box<Self>>,
    /// The first row of the open message, block, fence or frame.
    opened: u64,
}

#[derive(Debug, Clone, Default)]
enum State {
    /// Outside of messages, blocks and fences.
    #[default]
    Text,
    /// In a code fence. The line is the first in the fence that would begin a message outside of
    /// it.
    Fence(Fence, Option<LogicalLine>),
    /// In a message or block.
    Open(OpenMessage),
}

impl LineScanner {
    /// Whether no message, block, fence or frame is open.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Text) && self.frame.is_none()
    }

    /// The first row of the open message, block, fence or frame.
    pub(super) fn open_since(&self) -> Option<u64> {
        (!self.is_idle()).then_some(self.opened)
    }

    /// Whether a message or block is open.
    pub(super) fn is_in_message(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Reads the next line, and appends the findings that it completes. Text after the end of a
    /// typed frame counts as a separate line, since a program may answer before the Enter.
    pub(super) fn read(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        match rules.frames.end_of_escaped(&line.text) {
            Some(end) if !line.text[end..].trim().is_empty() => {
                let (frame, rest) = line.split_at(end);
                self.read_line(frame, rules, out);
                self.read_line(rest, rules, out);
            }
            _ => self.read_line(line, rules, out),
        }
    }

    fn read_line(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        if self.is_idle() {
            self.opened = line.first_row;
        }
        if rules.is_quoted(&line) {
            return self.read_quoted(line, rules, out);
        }
        self.quote = None;
        if self.is_in_frame(&line.text, rules) {
            // A message's body may quote such a line; its marks have no effect there.
            return self.push(line);
        }
        self.read_own(line, rules, out);
    }

    /// Reads a line of the agent's own text.
    fn read_own(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        match &mut self.state {
            State::Text => self.read_text(line, rules, out),
            State::Fence(fence, first) => {
                if fence.closed_by(&line.text) || rules.frames.ends_escaped_frame(&line.text) {
                    self.state = State::Text;
                } else if first.is_none() && begins_message(&line.text) {
                    *first = Some(line);
                }
            }
            State::Open(_) => self.collect(line, rules, out),
        }
    }

    /// Reads a line of a frame that the agent quotes. In an open message the line is text.
    /// Otherwise, a message in the frame is reported as a problem.
    fn read_quoted(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        if !matches!(self.state, State::Text) {
            return self.push(line);
        }
        let mut findings = Vec::new();
        self.quote.get_or_insert_default().read_own(line, rules, &mut findings);
        let messages = findings.into_iter().filter(Finding::is_message);
        out.extend(messages.map(Finding::into_quoted));
    }

    /// Ends the turn, and reports an open message, block or fence.
    pub(super) fn end_turn(&mut self, out: &mut Vec<Finding>) {
        self.frame = None;
        match std::mem::take(&mut self.state) {
            State::Text | State::Fence(_, None) => {}
            State::Fence(_, Some(line)) => {
                let reason = "is inside an unclosed code fence; close the fence before it";
                out.push(Finding::not_sent(Fault::Fenced, &line, reason));
            }
            State::Open(open) => out.push(open.unclosed()),
        }
    }

    /// Notes that rows were erased or moved, so that an open message may begin again without having
    /// ended.
    pub(super) fn rows_disturbed(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.may_be_overwritten = true;
        }
    }

    /// Drops the open message or block. Returns it as an overwritten finding.
    pub(super) fn drop_open(&mut self) -> Option<Finding> {
        let State::Open(open) = &self.state else { return None };
        let finding = open.overwritten();
        self.state = State::Text;
        Some(finding)
    }

    fn is_in_frame(&mut self, line: &str, rules: &Rules) -> bool {
        let frame = self.frame.take().or_else(|| rules.frames.opened_by(line));
        // The last line of a frame may close the message that quotes it.
        self.frame = frame.and_then(|frame| frame.after(line));
        self.frame.is_some()
    }

    fn read_text(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        if let Some(fence) = Fence::opened_by(&line.text) {
            self.state = State::Fence(fence, None);
        } else if let Some(json_at) = block::begin(&line.text) {
            self.state = State::Open(OpenMessage::new(Form::Block(json_at)));
            self.add(line, rules, out);
        } else {
            match ParsedLine::parse(&line.text, rules.allows_inline) {
                ParsedLine::Text if rules.reports_misplaced && is_misplaced(&line.text) => {
                    let reason = format!("has other text before the arrow; {HOW}");
                    out.push(Finding::not_sent(Fault::Misplaced, &line, &reason));
                }
                ParsedLine::Text => {}
                ParsedLine::Opening(opening) => self.open(Form::Message(opening), line, rules, out),
                ParsedLine::Malformed(reason) => {
                    out.push(Finding::malformed(&line, &format!("{reason}; {HOW}")));
                }
                ParsedLine::WithoutOpen if rules.may_continue_above(&line) => {}
                ParsedLine::WithoutOpen => out.push(without_open(&line, rules)),
            }
        }
    }

    fn open(&mut self, form: Form, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        self.opened = line.first_row;
        self.state = State::Open(OpenMessage::new(form));
        self.add(line, rules, out);
    }

    /// Reads a line of an open message or block. An opening line begins another message.
    fn collect(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        if self.is_in_body_fence(&line, rules) {
            return self.push(line);
        }
        if let ParsedLine::Opening(opening) = ParsedLine::parse(&line.text, false) {
            if let State::Open(open) = &self.state {
                out.push(open.unclosed());
            }
            return self.open(Form::Message(opening), line, rules, out);
        }
        self.add(line, rules, out);
    }

    /// Adds a line to the open message or block. Closes it if the line is its end.
    fn add(&mut self, line: LogicalLine, rules: &Rules, out: &mut Vec<Finding>) {
        let State::Open(open) = &mut self.state else { return };
        let is_closed = open.is_closed_by(&line.text);
        open.push(line);
        if is_closed {
            out.push(open.close(rules));
            self.state = State::Text;
        }
    }

    /// Adds a line to the open message or block, without parsing it.
    fn push(&mut self, line: LogicalLine) {
        if let State::Open(open) = &mut self.state {
            open.push(line);
        }
    }

    /// Whether a line is text because it belongs to a code fence in the open message's body.
    fn is_in_body_fence(&mut self, line: &LogicalLine, rules: &Rules) -> bool {
        let State::Open(OpenMessage { form: Form::Message(_), fence, .. }) = &mut self.state else {
            return false;
        };
        if !rules.has_body_fences || rules.bodies_without_fences.contains(&self.opened) {
            return false;
        }
        match fence {
            Some(open) if open.closed_by(&line.text) => *fence = None,
            // The line closes both the fence and the body.
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

/// Returns the problem of a line with the arrow and a name, but without `<<<`.
fn without_open(line: &LogicalLine, rules: &Rules) -> Finding {
    let text = shorten(line.text.trim());
    let reason = match rules.allows_inline {
        true => format!("`{text}` has no text; {HOW}"),
        false => format!("`{text}` has no <<< after the name; {HOW} ({ONE_LINE_FORM})"),
    };
    Finding { if_extended: IfExtended::Completed, ..Finding::malformed(line, &reason) }
}

/// Whether a line would begin a message or block outside of code fences.
fn begins_message(line: &str) -> bool {
    matches!(ParsedLine::parse(line, false), ParsedLine::Opening(_)) || block::begin(line).is_some()
}
