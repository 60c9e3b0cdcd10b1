//! A queue of log lines, and the thread that writes them.
//!
//! A terminal, a pipe or a disk may take lines late or never. A thread that logs never waits for
//! it: lines that exceed the queue are dropped, counted, and reported once lines are written again.
//! (`tracing-appender` has such a queue, but does not report dropped lines, and at its end it
//! prints to the same terminal without a time limit.)

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The most lines that wait to be written.
const LINES_MAX: usize = 4_096;

/// The most bytes that wait to be written.
const BYTES_MAX: usize = 1 << 20;

/// The longest wait until all lines are written.
const FLUSH: Duration = Duration::from_secs(1);

/// The queue of a log. Each write to it is one line.
#[derive(Debug)]
pub(super) struct LogQueue {
    entries: Sender<Entry>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of the lines in the queue.
    waiting_bytes: AtomicUsize,
    /// Lines that were dropped since the last report.
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Entry {
    /// A line, and the number of lines that were dropped before it.
    Line(Vec<u8>, u64),
    /// A mark: its sender is dropped once all lines before it are written.
    Flush(Sender<()>),
}

impl LogQueue {
    /// Starts the thread that writes to `target`. The thread ends with the process, since it may
    /// wait for its target until then.
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, waiting) = bounded(LINES_MAX);
        let counts = Arc::new(Counts::default());
        let of_thread = Arc::clone(&counts);
        // Waits for: its channel, then its target, perhaps without end. Not joined: lines beyond
        // the channel are dropped and counted, and the process's end waits at most a second.
        thread::Builder::new()
            .name("log".into())
            .spawn(move || Drain { target, counts: of_thread }.run(&waiting))?;
        Ok(Self { entries, counts })
    }

    /// Adds a line, or counts it as dropped.
    pub(super) fn push(&self, line: &[u8]) {
        let counts = &self.counts;
        let waiting = counts.waiting_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let dropped = counts.dropped.swap(0, Ordering::Relaxed);
        let has_room = waiting.saturating_add(line.len()) <= BYTES_MAX;
        if !has_room || self.entries.try_send(Entry::Line(line.to_vec(), dropped)).is_err() {
            counts.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            counts.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, for a limited time.
    pub(super) fn flush(&self) {
        let deadline = Instant::now() + FLUSH;
        let (written, is_written) = bounded(1);
        let mut flush = Entry::Flush(written);
        while let Err(TrySendError::Full(entry)) = self.entries.try_send(flush) {
            if Instant::now() >= deadline {
                return;
            }
            flush = entry;
            thread::sleep(Duration::from_millis(5));
        }
        // The sender is dropped, so the result is an error in any case: all lines are written, or
        // the time is over.
        let _ = is_written.recv_deadline(deadline);
    }
}

impl Write for &LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of the thread.
struct Drain<W> {
    target: W,
    counts: Arc<Counts>,
}

impl<W: Write> Drain<W> {
    fn run(mut self, waiting: &Receiver<Entry>) {
        for entry in waiting {
            match entry {
                Entry::Line(line, dropped) => {
                    self.report(dropped);
                    self.write(&line, 1);
                    self.counts.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                }
                Entry::Flush(written) => {
                    self.report_dropped();
                    drop(written);
                }
            }
            if waiting.is_empty() {
                self.report_dropped();
            }
        }
    }

    fn report_dropped(&mut self) {
        let dropped = self.counts.dropped.swap(0, Ordering::Relaxed);
        self.report(dropped);
    }

    fn report(&mut self, dropped: u64) {
        if dropped > 0 {
            let (lines, were) = if dropped == 1 { ("line", "was") } else { ("lines", "were") };
            self.write(
                format!("{dropped} {lines} of the log {were} dropped\n").as_bytes(),
                dropped,
            );
        }
    }

    /// Writes text. If that fails, counts `lines` lines as dropped.
    fn write(&mut self, text: &[u8], lines: u64) {
        if self.target.write_all(text).and_then(|()| self.target.flush()).is_err() {
            self.counts.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// A target that takes a write only when it is allowed one more.
    struct Gated {
        allowed: Receiver<()>,
        begun: Sender<()>,
        text: Arc<Mutex<String>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.begun.try_send(()).ok();
            if self.allowed.recv().is_err() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.text.lock().push_str(str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Scene {
        queue: LogQueue,
        allow: Sender<()>,
        begun: Receiver<()>,
        text: Arc<Mutex<String>>,
    }

    fn scene() -> Scene {
        let (allow, allowed) = bounded(2 * LINES_MAX);
        let (begin, begun) = bounded(1);
        let text = Arc::new(Mutex::new(String::new()));
        let target = Gated { allowed, begun: begin, text: Arc::clone(&text) };
        Scene { queue: LogQueue::start(target).unwrap(), allow, begun, text }
    }

    #[test]
    fn lines_beyond_the_queue_are_dropped_and_reported() {
        let scene = scene();
        scene.queue.push(b"first\n");
        scene.begun.recv().unwrap();
        for _ in 0..LINES_MAX + 7 {
            scene.queue.push(b"x\n");
        }
        for _ in 0..2 * LINES_MAX {
            scene.allow.send(()).unwrap();
        }
        scene.queue.flush();
        let text = scene.text.lock().clone();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 1 + LINES_MAX + 1);
        assert_eq!((lines[0], lines[LINES_MAX]), ("first", "x"));
        assert_eq!(lines[LINES_MAX + 1], "7 lines of the log were dropped");
    }

    #[test]
    fn lines_are_dropped_beyond_the_bytes_of_the_queue() {
        let scene = scene();
        scene.queue.push(b"first\n");
        scene.begun.recv().unwrap();
        let long = vec![b'y'; BYTES_MAX - 16];
        scene.queue.push(&long);
        scene.queue.push(&long);
        scene.queue.push(b"short\n");
        for _ in 0..8 {
            scene.allow.send(()).unwrap();
        }
        scene.queue.flush();
        let text = scene.text.lock().clone();
        let rest =
            text.strip_prefix("first\n").unwrap().strip_prefix(str::from_utf8(&long).unwrap());
        assert_eq!(rest, Some("1 line of the log was dropped\nshort\n"));
    }

    #[test]
    fn flush_ends_while_writes_fail() {
        let scene = scene();
        for _ in 0..2 * LINES_MAX {
            scene.queue.push(b"x\n");
        }
        scene.queue.flush();
        assert_eq!(*scene.text.lock(), "");
    }

    #[test]
    fn lines_that_cannot_be_written_count_as_dropped() {
        let Scene { queue, allow, begun, text } = scene();
        allow.send(()).unwrap();
        queue.push(b"first\n");
        begun.recv().unwrap();
        drop(allow);
        queue.push(b"x\n");
        queue.flush();
        assert_eq!(*text.lock(), "first\n");
        assert_eq!(queue.counts.dropped.load(Ordering::Relaxed), 1);
    }
}
