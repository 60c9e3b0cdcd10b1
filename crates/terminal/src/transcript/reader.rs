//! A reader of one transcript. It takes bytes as they are appended and returns the records of whole
//! lines.

use super::{Format, Record, Row, known::KnownParts};
use crate::foreign_json::repaired;
use serde::Deserialize;
use std::{borrow::Cow, mem};

/// The maximum length of a line that is read, in bytes. Longer lines are skipped: no message is
/// that long, but a tool's output may be.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// The maximum length of a valid timestamp, in bytes.
const TIMESTAMP_BYTES_MAX: usize = 64;

/// A reader of one transcript from its beginning.
///
/// A conversation may continue in an older file. Lines dated before `since` belong to an earlier
/// run of the program and are skipped.
#[derive(Debug)]
pub struct Reader {
    row: fn(&str) -> Option<Row<'_>>,
    /// Lines before this time are skipped. It is a UTC timestamp as written in all formats, for
    /// example `2026-11-20T12:00:00.000Z`. Such timestamps can be compared as texts.
    since: String,
    /// The beginning of a line without its end yet.
    line: Vec<u8>,
    /// The number of bytes read of that line.
    unfinished: u64,
    is_overlong: bool,
    known: KnownParts,
    /// Whether a turn has begun and had no prompt so far. Only Codex records a turn's beginning.
    /// Its reply without a prompt is a summary and is skipped, since it may quote sent messages.
    is_unprompted: bool,
}

impl Reader {
    /// Returns a reader for a file of this format that skips lines dated before `since`.
    #[must_use]
    pub fn new(format: &Format, since: String) -> Self {
        Self {
            row: format.row,
            since,
            line: Vec::new(),
            unfinished: 0,
            is_overlong: false,
            known: KnownParts::default(),
            is_unprompted: false,
        }
    }

    /// Changes the `since` timestamp, because the system's clock was set.
    pub fn set_since(&mut self, since: String) {
        self.since = since;
        self.known.forget_timestamps();
    }

    /// Starts again at the file's first byte. Skips everything that was read before.
    pub fn restart(&mut self) {
        self.line.clear();
        self.unfinished = 0;
        self.is_overlong = false;
    }

    /// The number of bytes read of the unfinished line.
    #[must_use]
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished
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
            self.unfinished += piece.len() as u64;
            if pieces.peek().is_some() {
                self.unfinished = 0;
                let line = mem::take(&mut self.line);
                if !mem::take(&mut self.is_overlong) {
                    self.line(&line, records);
                }
            }
        }
    }

    fn line(&mut self, line: &[u8], records: &mut Vec<Record>) {
        #[derive(Deserialize)]
        struct Dated<'a> {
            #[serde(borrow)]
            timestamp: Option<Cow<'a, str>>,
        }
        let line = repaired(line);
        let dated: Result<Dated<'_>, _> = serde_json::from_str(&line);
        // A line without a timestamp does not belong to the conversation.
        let timestamp = dated.ok().and_then(|dated| dated.timestamp);
        let is_recent = |timestamp: &Cow<'_, str>| {
            timestamp.len() <= TIMESTAMP_BYTES_MAX && **timestamp >= *self.since
        };
        let Some(timestamp) = timestamp.filter(is_recent) else { return };
        let Some(row) = (self.row)(&line) else { return };
        for record in self.known.take_new(row, &timestamp) {
            match record {
                Record::TurnBegan => self.is_unprompted = true,
                Record::Prompt(_) => self.is_unprompted = false,
                Record::Reply(_) if self.is_unprompted => continue,
                Record::Reply(_) | Record::TurnOver => {}
            }
            records.push(record);
        }
    }
}
