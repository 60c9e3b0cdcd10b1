//! A transcript that is read as it grows.

use super::{
    DriverGone, Event, TranscriptId,
    named::{Refusal, check_file},
};
use crossbeam_channel::Sender;
use platform::{clock, foreground::FileId, paths::open_file_of_others};
use protocol::calendar;
use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};
use terminal::transcript::{Format, Reader};

/// A transcript file, and the position of the first unread byte.
pub(super) struct Followed {
    pub(super) id: TranscriptId,
    pub(super) path: PathBuf,
    file: Option<File>,
    /// The identity of the file that was read. The path may lead to another file by now.
    identity: Option<FileId>,
    offset: u64,
    reader: Reader,
    /// Lines dated before this moment belong to another run, in milliseconds since 1970.
    since_ms: u64,
    /// When reading last ended, in milliseconds since 1970. If another file is at the path by then,
    /// its lines dated before this moment are skipped.
    left_ms: u64,
    /// Whether the system names the transcript as the command's.
    pub(super) is_own: bool,
    /// Whether the last new bytes were not read, since others can write to the file.
    is_refused: bool,
}

/// A transcript that is no longer read, and the position of the first unread byte.
pub(super) struct Left {
    id: TranscriptId,
    identity: Option<FileId>,
    offset: u64,
    since_ms: u64,
    left_ms: u64,
    pub(super) is_own: bool,
}

impl Left {
    /// Moves the moments back by `lost_ms`, after the wall clock was set back.
    pub(super) fn set_back(&mut self, lost_ms: u64) {
        self.since_ms = self.since_ms.saturating_sub(lost_ms);
        self.left_ms = self.left_ms.saturating_sub(lost_ms);
    }
}

impl Followed {
    pub(super) fn new(id: TranscriptId, path: &Path, format: &Format, since_ms: u64) -> Self {
        let left =
            Left { id, identity: None, offset: 0, since_ms, left_ms: since_ms, is_own: false };
        Self::resume(left, path, format)
    }

    /// Resumes reading at the position where it ended.
    pub(super) fn resume(left: Left, path: &Path, format: &Format) -> Self {
        let Left { id, identity, offset, since_ms, left_ms, is_own } = left;
        let reader = Reader::new(format, calendar::utc(since_ms));
        let (path, file, is_refused) = (path.to_owned(), None, false);
        Self { id, path, file, identity, offset, reader, since_ms, left_ms, is_own, is_refused }
    }

    /// Ends reading. Only the position is kept, at the beginning of a line.
    pub(super) fn leave(self) -> (PathBuf, Left) {
        let Self { id, path, identity, since_ms, is_own, .. } = self;
        let offset = self.offset.saturating_sub(self.reader.unfinished_bytes());
        let left_ms = clock::unix_ms().max(since_ms);
        (path, Left { id, identity, offset, since_ms, left_ms, is_own })
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
        let metadata = fs::symlink_metadata(&self.path)?;
        let length = metadata.len();
        if self.file.is_some() && length == self.offset {
            return Ok(0);
        }
        self.check(&metadata)?;
        if let Some(file) = &mut self.file
            && length >= self.offset
        {
            let count = file.read(buffer)?;
            self.offset += count as u64;
            if count > 0 {
                return Ok(count);
            }
        }
        let mut file = open_file_of_others(&self.path)?;
        let identity = FileId::of(&self.path)?;
        let is_same = self.identity.replace(identity) == Some(identity);
        if self.file.is_none() && is_same && length >= self.offset {
            file.seek(SeekFrom::Start(self.offset))?;
        } else {
            self.offset = 0;
            self.reader.restart();
            if self.left_ms > self.since_ms {
                self.set_since(self.left_ms);
            }
        }
        let count = file.read(buffer)?;
        self.offset += count as u64;
        self.file = Some(file);
        Ok(count)
    }

    /// Checks that only this user, or the user's own group, can write to the file. Otherwise skips
    /// the bytes that are there, so that they are not read later.
    fn check(&mut self, metadata: &Metadata) -> io::Result<()> {
        let why = match check_file(&self.path) {
            Ok(_) => {
                self.is_refused = false;
                return Ok(());
            }
            Err(Refusal::Access(error)) if error.kind() != ErrorKind::PermissionDenied => {
                return Err(error);
            }
            Err(why) => why,
        };
        if !std::mem::replace(&mut self.is_refused, true) {
            tracing::warn!("new bytes of {} are skipped: {why}", self.path.display());
        }
        self.file = None;
        (self.identity, self.offset) = match metadata.is_file() {
            true => (FileId::of(&self.path).ok(), metadata.len()),
            false => (None, 0),
        };
        self.reader.restart();
        Err(io::Error::other(why.to_string()))
    }

    /// Makes the reader skip lines dated before `since_ms`.
    pub(super) fn set_since(&mut self, since_ms: u64) {
        self.since_ms = since_ms;
        self.reader.set_since(calendar::utc(since_ms));
    }

    /// Moves the start of counted records back by `lost_ms`, after the wall clock was set back.
    pub(super) fn set_back(&mut self, lost_ms: u64) {
        self.left_ms = self.left_ms.saturating_sub(lost_ms);
        self.set_since(self.since_ms.saturating_sub(lost_ms));
    }
}
