//! Extraction of messages from a program's output and from texts.
//!
//! ```text
//! bytes -> Screen -> rows -> RowScanner -> lines -> LineScanner -> findings -> new or repainted?
//! texts -----------------------------------------> LineScanner -> findings
//! ```
//!
//! The rules are in docs/WRAPPER.md, under "What an agent prints" and "How the grid is read".

mod block;
mod body;
mod body_row;
mod extracted;
mod fence;
mod finding;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod injected_frames;
mod line_scanner;
mod logical_line;
pub mod marks;
mod open_message;
mod opening_line;
mod overwritten;
mod rejoin;
mod row_scanner;
mod rules;
mod screen_reader;
mod scrolled_text;
mod seen;
mod stability;
mod target;
mod text;

pub use self::extracted::{Fault, Problem};
pub(crate) use self::{extracted::Extracted, text::TextExtractor};

use self::{
    injected_frames::InjectedFrames, rules::Rules, screen_reader::ScreenReader,
    stability::STABLE_MS,
};
use super::{outgoing::OutgoingMessage, recipe::CommandOutput, screen::Screen};
use protocol::Moment;

/// How long a turn must have no output before it is over.
pub(super) const SILENCE_MS: u64 = 60_000;

/// The time between two samples of the rows while there is output.
const SAMPLE_MS: u64 = 50;

/// How long a synchronized update may hide the screen. After this time, the rows are read in the
/// middle of the update.
pub(super) const UPDATE_MAX_MS: u64 = 1_000;

/// An extractor of messages from the screen that a program's output paints.
pub struct ScreenExtractor {
    screen: Screen,
    reader: ScreenReader,
    /// The time of the last output.
    output_at: Moment,
    /// When the rows were last sampled.
    sampled_at: Moment,
    /// Whether there was output since the last sample.
    is_changed: bool,
    /// When the next rows become stable.
    stable_at: Option<Moment>,
    /// When stable rows began to wait for the end of a synchronized update.
    waits_since: Option<Moment>,
    /// Whether there was output since the end of the last turn.
    is_turn_open: bool,
}

impl ScreenExtractor {
    /// Returns an extractor for a running program. Rows are final once they have scrolled off or
    /// have not changed for 250 ms.
    pub(crate) fn live(columns: usize, rows: usize) -> Self {
        Self::new(columns, rows, true, InjectedFrames::default())
    }

    /// Returns an extractor for recorded bytes, which have no timestamps. Rows are final once they
    /// have scrolled off, when the program leaves their alternate screen, and at the end.
    pub fn offline(columns: usize, rows: usize) -> Self {
        Self::new(columns, rows, false, InjectedFrames::with_any_digits())
    }

    fn new(columns: usize, rows: usize, is_live: bool, frames: InjectedFrames) -> Self {
        let screen = Screen::new(columns, rows);
        let (columns, _) = screen.size();
        let rules = Rules { columns: Some(columns), frames, ..Rules::default() };
        Self {
            screen,
            reader: ScreenReader::new(rules, is_live),
            output_at: Moment::default(),
            sampled_at: Moment::default(),
            is_changed: false,
            stable_at: None,
            waits_since: None,
            is_turn_open: false,
        }
    }

    /// Allows the one-line form `->relay:Bob hello`. The form is off by default, since ordinary
    /// output may resemble it.
    pub(crate) fn allow_inline(&mut self) {
        self.reader.rules.allows_inline = true;
    }

    /// Reports arrows after other text as problems, as in `so: ->relay:Bob <<<`. They begin no
    /// messages.
    pub(crate) fn report_misplaced(&mut self) {
        self.reader.rules.reports_misplaced = true;
    }

    /// Ignores this many blanks at the beginning of each row: the program's margin before its
    /// agent's text.
    pub fn skip_margin(&mut self, blanks: usize) {
        self.reader.rules.margin = blanks;
    }

    /// Skips the output of commands that the program runs.
    pub(crate) fn leave_out(&mut self, output: CommandOutput) {
        self.reader.rules.command_output = output;
    }

    /// Reads output of the program.
    pub(crate) fn feed(&mut self, now: Moment, bytes: &[u8], out: &mut Vec<Extracted>) {
        if self.reader.is_live {
            self.tick(now, out);
            let may_sample = self.is_changed && !self.screen.synchronizing();
            if may_sample && now >= self.sampled_at.plus(SAMPLE_MS) {
                self.sample(now);
            }
        }
        self.screen.feed(bytes, &mut self.reader);
        self.screen_changed(now);
        out.append(&mut self.reader.extracted);
    }

    /// Changes the terminal's size, clamped to the allowed range.
    pub(crate) fn resize(
        &mut self,
        now: Moment,
        columns: usize,
        rows: usize,
        out: &mut Vec<Extracted>,
    ) {
        self.tick(now, out);
        let before = self.screen.size();
        self.screen.resize(columns, rows, &mut self.reader);
        if self.screen.size() != before {
            self.reader.resized(self.screen.size().0);
        }
        self.screen_changed(now);
        out.append(&mut self.reader.extracted);
    }

    /// Extracts messages from rows that have become stable by `now`. Call it at [`Self::deadline`].
    pub(crate) fn tick(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        if !self.reader.is_live {
            return;
        }
        if self.stable_at.is_some_and(|at| at <= now) {
            self.read_stable(now);
        }
        if self.is_turn_open && now >= self.output_at.plus(SILENCE_MS) {
            self.end_turn(now);
        }
        out.append(&mut self.reader.extracted);
    }

    /// Ends the agent's turn. The caller knows the program and has recognised the end.
    pub(crate) fn turn_over(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        self.end_turn(now);
        out.append(&mut self.reader.extracted);
    }

    /// Ends the output, so that all rows are final.
    pub(crate) fn finish(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        self.reader.is_finishing = true;
        self.screen.leave_alternate(&mut self.reader);
        self.end_turn(now);
        self.stable_at = None;
        out.append(&mut self.reader.extracted);
    }

    /// Extracts all messages and problems of a recording.
    pub fn read_recording(mut self, bytes: &[u8]) -> (Vec<OutgoingMessage>, Vec<Problem>) {
        let mut out = Vec::new();
        self.feed(Moment::default(), bytes, &mut out);
        self.finish(Moment::default(), &mut out);
        extracted::split(out)
    }

    /// Returns when `tick` must be called next.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let silence = self.is_turn_open.then(|| self.output_at.plus(SILENCE_MS));
        let deadline = [self.stable_at, silence].into_iter().flatten().min();
        deadline.filter(|_| self.reader.is_live)
    }

    /// Remembers that `body` is typed into the agent in a frame with these six digits, without
    /// escapes, so that the screen's echo of the frame is no message. Only for a screen that is not
    /// the source of messages; otherwise see [`Self::remember_escaped`].
    pub(crate) fn remember_injected(&mut self, hex: &str, body: &str) {
        self.reader.rules.frames.remember(hex, body);
    }

    /// Remembers that a frame with these digits is typed with its marks escaped.
    pub(crate) fn remember_escaped(&mut self, hex: &str) {
        self.reader.rules.frames.remember_escaped(hex);
    }

    /// Whether the agent is in the middle of a message. Text typed now would become a part of the
    /// message.
    pub(crate) fn is_in_message(&self) -> bool {
        self.reader.is_in_message
    }

    /// Returns the screen.
    pub(crate) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the screen for taking its answers.
    pub(crate) fn screen_mut(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn screen_changed(&mut self, now: Moment) {
        self.output_at = now;
        self.is_changed = true;
        self.is_turn_open = true;
        let stable_at = now.plus(STABLE_MS);
        self.stable_at = Some(self.stable_at.map_or(stable_at, |at| at.min(stable_at)));
    }

    fn sample(&mut self, now: Moment) {
        self.reader.sample(&self.screen, self.output_at);
        self.sampled_at = now;
        self.is_changed = false;
    }

    fn read_stable(&mut self, now: Moment) {
        if self.screen.synchronizing() {
            let end = self.waits_since.get_or_insert(now).plus(UPDATE_MAX_MS);
            if now < end {
                // Once all rows are stable, only new output can change the result, and output sets
                // a new time.
                let stable_at = Some(self.output_at.plus(STABLE_MS)).filter(|&at| at > now);
                self.stable_at = Some(stable_at.map_or(end, |at| at.min(end)));
                return;
            }
        }
        self.waits_since = None;
        self.sample(now);
        self.reader.read_visible(now, self.screen.cursor().row);
        self.stable_at = self.reader.stability.next_stable_at(now);
    }

    fn end_turn(&mut self, now: Moment) {
        self.is_turn_open = false;
        self.sample(now);
        self.reader.end_turn(now, self.screen.cursor().row);
    }
}

/// Extracts all messages and problems from the recording of a program without a margin.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn extract_recording(
    bytes: &[u8],
    columns: usize,
    rows: usize,
) -> (Vec<OutgoingMessage>, Vec<Problem>) {
    ScreenExtractor::offline(columns, rows).read_recording(bytes)
}

#[cfg(test)]
mod tests;
