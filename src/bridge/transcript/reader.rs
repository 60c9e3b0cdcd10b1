//! A reader of one transcript: bytes as they are appended, records of whole lines.

use super::{DedupWindow, Format, Parser, Record};
use serde::Deserialize;

/// Longer lines are skipped, in bytes: no message is that long, but a tool's output may be.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// Longer timestamps are invalid, in bytes.
const TIMESTAMP_BYTES_MAX: usize = 64;

/// A reader of one transcript from its beginning.
///
/// A conversation may go on in an older file: lines dated before `since` belong to another run and
/// are skipped.
#[derive(Debug)]
pub struct Reader {
    parser: Box<dyn Parser>,
    /// A UTC timestamp as all formats write it, `2026-11-20T12:00:00.000Z`: timestamps compare as
    /// texts.
    since: String,
    /// After a restart, lines dated until then were read before, and their hashes are forgotten.
    read_until: String,
    /// The beginning of a line whose end is not written yet.
    line: Vec<u8>,
    is_overlong: bool,
    lines: DedupWindow,
}

impl Reader {
    /// A reader of a file of this format that skips lines dated before `since`.
    #[must_use]
    pub fn new(format: &Format, since: String) -> Self {
        Self {
            parser: (format.parser)(),
            since,
            read_until: String::new(),
            line: Vec::new(),
            is_overlong: false,
            lines: DedupWindow::default(),
        }
    }

    /// Changes the timestamp before which lines are skipped: the clock was set.
    pub fn set_since(&mut self, since: String) {
        self.since = since;
    }

    /// Begins at the file's first byte again. Lines that were read before are skipped.
    pub fn restart(&mut self) {
        self.line.clear();
        self.is_overlong = false;
        self.read_until.clear();
        self.read_until.push_str(self.lines.forgotten());
    }

    /// Reads the file's next bytes.
    pub fn feed(&mut self, bytes: &[u8], records: &mut Vec<Record>) {
        let mut pieces = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                self.is_overlong = true;
                self.line.clear();
            }
            if !self.is_overlong {
                self.line.extend_from_slice(piece);
            }
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.is_overlong) {
                    self.line(&line, records);
                }
            }
        }
    }

    fn line(&mut self, line: &[u8], records: &mut Vec<Record>) {
        #[derive(Deserialize)]
        struct Dated<'a> {
            timestamp: Option<&'a str>,
        }
        let Ok(line) = std::str::from_utf8(line) else { return };
        let dated: Result<Dated<'_>, _> = serde_json::from_str(line);
        // A line without a timestamp belongs to no moment of the conversation.
        let timestamp = dated.ok().and_then(|dated| dated.timestamp);
        let timestamp = timestamp.filter(|timestamp| timestamp.len() <= TIMESTAMP_BYTES_MAX);
        let Some(timestamp) = timestamp else { return };
        let is_new = timestamp >= &*self.since && timestamp > &*self.read_until;
        if is_new && self.lines.insert(line, timestamp) {
            self.parser.read(line, timestamp, records);
        }
    }
}
