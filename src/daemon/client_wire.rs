//! The wire of a client's lane: its stream, and a writer thread that is started when it is needed
//! for the first time. Most clients never need one, and a thread takes more memory than a lane.

use client::link::{STACK_BYTES, Wire, write_batches};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use platform::transport::{Stream, Written};
use std::{
    fmt, io,
    sync::Arc,
    thread::{self, Builder, JoinHandle},
    time::Duration,
};

/// The number of batches that wait for a writer besides the one it writes.
const WRITER_BATCHES: usize = 1;

/// A report of a writer thread.
#[derive(Debug)]
pub(super) enum WriterReport {
    /// This buffer was written.
    Written(Vec<u8>),
    /// A write failed, which ends the thread.
    Failed,
}

/// The time for a batch after which a writer whose client has ended is given up. Such a client may
/// have closed only its sending half, and never read. In unit tests, no writer takes that long.
const STALLED_AFTER: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 5 });

/// A writer thread, which reports each batch.
pub(super) struct Writer {
    thread: JoinHandle<()>,
    /// Disconnected at the thread's end.
    progress: Receiver<()>,
}

impl Writer {
    /// Waits for the end of a writer whose client has ended. Hangs up once the router's thread has
    /// ended, or if the system does not take a whole batch within [`STALLED_AFTER`], because the
    /// client reads nothing or reads slowly.
    pub(super) fn join(self, stream: &Stream, router_ended: &Receiver<()>) -> thread::Result<()> {
        loop {
            select! {
                recv(self.progress) -> written => {
                    if written.is_err() {
                        break;
                    }
                }
                recv(router_ended) -> _ => break stream.hang_up(),
                default(STALLED_AFTER) => break stream.hang_up(),
            }
        }
        self.thread.join()
    }
}

/// The receiver of a writer thread's reports.
type Reports = Arc<dyn Fn(WriterReport) + Send + Sync>;

/// The wire of one client. When the wire is dropped, everything handed over is still written, and
/// then the stream is hung up.
pub(super) struct ClientWire {
    /// The client's number, by which its writer thread is named.
    number: u64,
    stream: Stream,
    reports: Reports,
    /// The channel to the writer thread, if it runs.
    writer: Option<Sender<Vec<u8>>>,
    /// The channel to the thread that joins the writer.
    threads: Sender<Writer>,
}

impl ClientWire {
    /// A wire without a writer, and the receiver of its writer thread, which is to be joined. The
    /// receiver is disconnected when the wire is dropped.
    pub(super) fn new(
        number: u64,
        stream: Stream,
        reports: impl Fn(WriterReport) + Send + Sync + 'static,
    ) -> (Self, Receiver<Writer>) {
        let (threads, started) = bounded(1);
        (Self { number, stream, reports: Arc::new(reports), writer: None, threads }, started)
    }

    fn start_writer(&self) -> io::Result<Sender<Vec<u8>>> {
        let (batches, to_write) = bounded(WRITER_BATCHES);
        let (stream, reports) = (self.stream.clone(), Arc::clone(&self.reports));
        let (written, progress) = bounded(1);
        // Waits for: its channel, the system, then the inbox. Started when a stream does not take
        // at once what is written to it; the reader joins it.
        let thread = Builder::new().name(format!("writer-{}", self.number)).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            let report = |buffer| {
                // If the channel is full, the report in it already shows progress.
                let _ = written.try_send(());
                reports(WriterReport::Written(buffer));
            };
            if write_batches(&stream, &to_write, report).is_err() {
                reports(WriterReport::Failed);
            }
        })?;
        // There is room, since a wire has one writer, and a receiver that waits for the wire.
        drop(self.threads.send(Writer { thread, progress }));
        Ok(batches)
    }
}

impl Drop for ClientWire {
    fn drop(&mut self) {
        // A writer hangs up itself, after it has written everything.
        if self.writer.is_none() {
            self.stream.hang_up();
        }
    }
}

impl fmt::Debug for ClientWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientWire").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Wire for ClientWire {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write_now(bytes)? {
            Written::Bytes(count) => Ok(count),
            Written::Unsupported => Ok(0),
        }
    }

    fn hand_over(&mut self, bytes: Vec<u8>) -> io::Result<Result<(), Vec<u8>>> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.start_writer()?,
        };
        Ok(match self.writer.insert(writer).try_send(bytes) {
            Ok(()) => Ok(()),
            // A writer that has ended has failed, which it has reported.
            Err(TrySendError::Full(bytes) | TrySendError::Disconnected(bytes)) => Err(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{endpoint::Endpoint, paths, transport::Listener};
    use std::{env, fs, process};

    #[test]
    fn end_of_the_router_ends_a_writer_whose_client_does_not_read() {
        let folder = env::temp_dir().join(format!("ar-writer-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let _client = Stream::connect(&endpoint).unwrap();
        let stream = listener.accept().unwrap();
        let (mut wire, writers) = ClientWire::new(1, stream.clone(), drop);
        // No system takes that much at once.
        wire.hand_over(vec![0; 64 << 20]).unwrap().unwrap();
        drop(wire);
        let (router, router_ended) = bounded(1);
        let (done, is_done) = bounded(1);
        let joiner = thread::spawn(move || {
            let joined = writers.into_iter().try_for_each(|it| it.join(&stream, &router_ended));
            done.send(joined.is_ok()).unwrap();
        });
        drop(router);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true));
        joiner.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
