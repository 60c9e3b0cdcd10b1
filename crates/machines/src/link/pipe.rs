//! The threads between a link and a pipe: one reads frames, one writes them.

use crate::exports::Exported;
use crossbeam_channel::{Receiver, Sender, bounded};
use protocol::frame::{self, Batch, Decoder};
use std::{
    io::{self, Read, Write},
    mem, thread,
    time::Duration,
};

/// The maximum number of first bytes that an error shows of a side that does not speak this
/// protocol.
const SHOWN_BYTES_MAX: usize = 60;

/// The most bytes that are written before that is reported.
const PIECE_BYTES: usize = 16 << 10;

/// The longest wait at the end until all is written.
const END_TIME: Duration = Duration::from_secs(1);

/// An event on a pipe.
#[derive(Debug)]
pub enum Event {
    /// Bytes came, which completed these frames.
    Read(Option<Batch>),
    /// So many bytes were written.
    Written(usize),
    /// The other side's first bytes are not a frame.
    NoFrames(Vec<u8>),
    /// The pipe has ended, for this reason.
    Closed(String),
    /// This side exports other agents, or their details have changed.
    Exported(Box<Exported>),
}

/// The writing end of a pipe. Dropping it closes the pipe once the writer's batch is written. Later
/// frames are lost, unless the link leaves.
#[derive(Debug)]
pub struct Pipe {
    /// The writer's batch, and at the end the last one.
    batches: Sender<Vec<u8>>,
    /// Disconnected when the writer has ended.
    writer: Receiver<()>,
    /// Frames that wait until the writer has written its batch.
    waiting: Vec<u8>,
    /// The bytes that the writer has.
    writing: usize,
}

impl Pipe {
    /// Starts the two threads of a pipe, which end with it. The events go to `events`.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        frame_bytes_max: usize,
        events: Sender<Event>,
    ) -> io::Result<Self> {
        let (pipe, writer) = Self::new();
        let written = events.clone();
        // Waits for: the system, then the link's channel. Not joined: ends with its source.
        thread::Builder::new()
            .name("link reader".to_owned())
            .spawn(move || read(input, frame_bytes_max, &events))?;
        // Waits for: its channel, the system, then the link's channel. Not joined: the main thread
        // waits 1 s for its end.
        thread::Builder::new()
            .name("link writer".to_owned())
            .spawn(move || writer.run(output, &written))?;
        Ok(pipe)
    }

    /// The writing end, and its writer.
    pub(super) fn new() -> (Self, Writer) {
        let (batches, to_write) = bounded(2);
        let (runs, writer) = bounded(0);
        let pipe = Self { batches, writer, waiting: Vec::new(), writing: 0 };
        (pipe, Writer { batches: to_write, _runs: runs })
    }

    /// The bytes that are not written yet.
    pub(super) const fn unwritten(&self) -> usize {
        self.waiting.len() + self.writing
    }

    /// Queues a frame. `append` appends its JSON. The link limits the queue.
    pub(super) fn write(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        frame::append(&mut self.waiting, append);
        if self.writing == 0 {
            self.written(0);
        }
    }

    /// Handles [`Event::Written`]: gives the writer the waiting frames, once it has written the
    /// earlier ones.
    pub(super) fn written(&mut self, bytes: usize) {
        self.writing -= bytes;
        if self.writing > 0 {
            return;
        }
        self.writing = self.waiting.len();
        if self.writing > 0 {
            // If the writer has ended, the pipe has ended, too. The reader reports that.
            let _ = self.batches.try_send(mem::take(&mut self.waiting));
        }
    }

    /// Closes the pipe, and waits until everything is written, at most a second. The pipe's events
    /// are no longer received, so that its writer does not wait for room among them.
    pub(super) fn end(self, events: Receiver<Event>) {
        let Self { batches, writer, waiting, .. } = self;
        drop(events);
        // The writer may have ended.
        let _ = batches.try_send(waiting);
        drop(batches);
        let _ = writer.recv_timeout(END_TIME);
    }
}

/// Reads frames until the pipe ends, or until there is no receiver.
fn read(mut input: impl Read, frame_bytes_max: usize, events: &Sender<Event>) {
    let mut decoder = Decoder::new(frame_bytes_max);
    let mut first = Vec::new();
    let mut has_frames = false;
    loop {
        let space = decoder.space();
        let event = match input.read(space) {
            Ok(0) => Event::Closed("the connection ended".to_owned()),
            Ok(count) => {
                if !has_frames {
                    let shown = SHOWN_BYTES_MAX.saturating_sub(first.len()).min(count);
                    first.extend_from_slice(&space[..shown]);
                }
                decoder.filled(count);
                match decoder.batch() {
                    Ok(batch) => {
                        has_frames |= batch.is_some();
                        Event::Read(batch)
                    }
                    Err(_) if !has_frames => Event::NoFrames(mem::take(&mut first)),
                    Err(violation) => Event::Closed(violation.to_string()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Event::Closed(format!("the connection failed: {error}")),
        };
        let is_last = matches!(event, Event::Closed(_) | Event::NoFrames(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

/// The pipe's end in the writer's thread.
pub(super) struct Writer {
    pub(super) batches: Receiver<Vec<u8>>,
    /// Dropped when the writer ends.
    _runs: Sender<()>,
}

impl Writer {
    /// Writes batches until no more come, or the pipe ends, which the reader reports.
    fn run(self, mut output: impl Write, events: &Sender<Event>) {
        while let Ok(batch) = self.batches.recv() {
            // On a slow link, each piece shows that the other side still reads.
            for piece in batch.chunks(PIECE_BYTES) {
                if output.write_all(piece).and_then(|()| output.flush()).is_err() {
                    return;
                }
                // Without a receiver, the pipe is at its end, and the rest is still written.
                let _ = events.send(Event::Written(piece.len()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_written_before_the_end() {
        let (mut reader, output) = io::pipe().unwrap();
        // There is no room for a second event.
        let (sender, events) = bounded(1);
        let mut pipe = Pipe::start(io::empty(), output, 100, sender).unwrap();
        for text in ["first", "second", "third"] {
            pipe.write(|frame| frame.extend_from_slice(text.as_bytes()));
        }
        pipe.end(events);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).unwrap();
        assert_eq!(written, b"\0\0\0\x05first\0\0\0\x06second\0\0\0\x05third");
    }
}
