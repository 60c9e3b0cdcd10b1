//! A reader of one transcript, which takes bytes as they are appended and returns the records of
//! whole lines.

use super::{DedupWindow, Format, Parser, Record};
use serde::Deserialize;

/// The longest line that is read, in bytes. Longer lines are skipped: no message is that long, but
/// the output of a tool may be.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// The longest valid timestamp, in bytes.
const TIMESTAMP_BYTES_MAX: usize = 64;

/// A reader of one transcript from its beginning.
///
/// A conversation may continue in an older file. Lines dated before `since` belong to an earlier
/// run of the program and are skipped.
#[derive(Debug)]
pub struct Reader {
    parser: Box<dyn Parser>,
    /// The time before which lines are skipped: a UTC timestamp as all formats write it, for
    /// example `2026-11-20T12:00:00.000Z`. Such timestamps can be compared as texts.
    since: String,
    /// The timestamp up to which, after a restart, lines count as read before although their hashes
    /// are forgotten.
    read_until: String,
    /// The beginning of a line whose end has not been read yet.
    line: Vec<u8>,
    is_overlong: bool,
    lines: DedupWindow,
}

impl Reader {
    /// Returns a reader for a file of this format that skips lines dated before `since`.
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

    /// Changes the timestamp before which lines are skipped, because the system's clock was set.
    pub fn set_since(&mut self, since: String) {
        self.since = since;
    }

    /// Begins again at the file's first byte. Lines that were read before are skipped.
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
        // A line without a timestamp is no part of the conversation.
        let timestamp = dated.ok().and_then(|dated| dated.timestamp);
        let timestamp = timestamp.filter(|timestamp| timestamp.len() <= TIMESTAMP_BYTES_MAX);
        let Some(timestamp) = timestamp else { return };
        let is_new = timestamp >= &*self.since && timestamp > &*self.read_until;
        if is_new && self.lines.insert(line, timestamp) {
            self.parser.read(line, timestamp, records);
        }
    }
}
