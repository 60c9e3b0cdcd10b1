//! A transcript that is read as it grows.

use super::{DriverGone, Event, TranscriptId};
use crossbeam_channel::Sender;
use platform::paths::open_file_of_others;
use protocol::calendar;
use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};
use terminal::transcript::{Format, Reader};

/// A transcript file, and the position up to which it was read.
pub(super) struct Followed {
    pub(super) id: TranscriptId,
    pub(super) path: PathBuf,
    file: Option<File>,
    offset: u64,
    reader: Reader,
    /// Lines dated before this moment belong to another run, in milliseconds since 1970.
    since_ms: u64,
    /// Whether the system names the transcript as the command's.
    pub(super) is_own: bool,
}

impl Followed {
    pub(super) fn new(id: TranscriptId, path: &Path, format: &Format, since_ms: u64) -> Self {
        let reader = Reader::new(format, calendar::utc(since_ms));
        Self { id, path: path.to_owned(), file: None, offset: 0, reader, since_ms, is_own: false }
    }

    /// Reads to the file's end and sends the records. Returns whether the file had grown.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        events: &Sender<Event>,
    ) -> Result<bool, DriverGone> {
        let mut records = Vec::new();
        let mut has_grown = false;
        loop {
            let count = self.read_piece(buffer).unwrap_or_else(|error| {
                tracing::debug!("{} cannot be read: {error}", self.path.display());
                0
            });
            self.reader.feed(&buffer[..count], &mut records);
            for record in records.drain(..) {
                events.send(Event::Recorded(self.id, record))?;
            }
            if count == 0 {
                return Ok(has_grown);
            }
            has_grown = true;
        }
    }

    /// Reads the next bytes. A file that was replaced or has become shorter is read from its
    /// beginning, and the reader skips the lines that it has read before.
    fn read_piece(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = fs::metadata(&self.path)?.len();
        if let Some(file) = &mut self.file
            && length >= self.offset
        {
            let count = file.read(buffer)?;
            self.offset += count as u64;
            if count > 0 || length == self.offset {
                return Ok(count);
            }
        }
        if self.file.is_some() {
            self.reader.restart();
        }
        let mut file = open_file_of_others(&self.path)?;
        let count = file.read(buffer)?;
        (self.file, self.offset) = (Some(file), count as u64);
        Ok(count)
    }

    /// Closes the file. The next read starts at the beginning, since another file may have replaced
    /// this one by then. The reader skips the lines that it has read before.
    pub(super) fn close(&mut self) {
        (self.file, self.offset) = (None, 0);
        self.reader.restart();
    }

    /// Skips lines dated before `since_ms` from now on.
    pub(super) fn set_since(&mut self, since_ms: u64) {
        self.since_ms = since_ms;
        self.reader.set_since(calendar::utc(since_ms));
    }

    /// Moves the time from which records count back by `lost_ms`, after the wall clock was set
    /// back.
    pub(super) fn set_back(&mut self, lost_ms: u64) {
        self.set_since(self.since_ms.saturating_sub(lost_ms));
    }
}
