//! The thread that finds the transcripts of the command and follows them as they grow.
//!
//! A CLI that writes a transcript also prints, so the files are scanned after each output and for a
//! while after it, and otherwise once a second. Where it can, the system says which transcript is
//! the command's: Claude Code lists its processes, and Linux lists a process's open files. The
//! hooks of the command's CLI name it, too. Otherwise every transcript that grows in the command's
//! directory is read, and the terminal side decides by its content.

mod catalogue;
mod followed;
mod named;
mod search;

use super::threads::spawn;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, bounded};
use named::Named;
use platform::clock;
use protocol::{
    Moment,
    hook::{Point, Report},
};
use search::Search;
use std::{
    io,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};
use terminal::transcript::{Format, Record, TranscriptId};

/// The shortest time between two scans of the files.
const LOOK_AT_MOST: Duration = Duration::from_millis(15);

/// The time between two scans soon after an output.
const LOOK_SOON: Duration = Duration::from_millis(20);

/// The time between two scans at other times.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_millis(1000);

/// How long after an output its records may still be written.
const SOON_MS: u64 = 2000;

/// The capacity of the channel of events for the driver.
const EVENTS_MAX: usize = 256;

/// The capacity of the channel of transcripts that hooks name.
const NAMED_MAX: usize = 16;

/// An event for the driver.
pub(super) enum Event {
    /// The transcript with this id and path is now being read.
    Opened(TranscriptId, PathBuf),
    /// The transcript with this id is no longer read.
    Closed(TranscriptId),
    /// The system has named this transcript as the command's.
    Owned(TranscriptId),
    /// A transcript that may be the command's has another record.
    Recorded(TranscriptId, Record),
    /// All records that the transcripts had at `at` have been sent.
    Searched {
        /// The moment when the scan of the files began.
        at: Moment,
        /// Whether no other process runs the command's program in its directory.
        is_alone: bool,
    },
}

/// The error when the driver has ended.
type DriverGone = SendError<Event>;

/// The thread that follows the transcripts, and its events.
pub(super) struct Follower {
    format: &'static Format,
    /// The folder of the CLI's files.
    home: PathBuf,
    /// Wakes the thread after an output.
    wake: Sender<()>,
    /// A channel that ends the thread when it is dropped.
    alive: Sender<()>,
    /// The transcripts that hooks name.
    named: Sender<Named>,
    /// The path that a hook named last, its conversation's id if known, and the wall clock time of
    /// that.
    last_named: Option<(String, u64)>,
    /// The thread's events. The channel is disconnected when the thread has ended.
    pub(super) events: Receiver<Event>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Starts to follow the transcripts of the command with this process id, which runs in
    /// `directory`, or in this process's directory. Records written before `since_ms`, in
    /// milliseconds since 1970, belong to another run.
    pub(super) fn start(
        format: &'static Format,
        pid: u32,
        directory: Option<&Path>,
        since_ms: u64,
    ) -> io::Result<Self> {
        let (wake, woken) = bounded(1);
        let (alive, ended) = bounded(0);
        let (named, names) = bounded(NAMED_MAX);
        let (sender, events) = bounded(EVENTS_MAX);
        let mut search = Search::new(format, pid, directory, since_ms)?;
        let home = search.home().to_owned();
        // Waits for: its channel until the next look, files, then the terminal side's channel.
        let thread =
            spawn("transcript", move || follow(&mut search, &woken, &names, &ended, &sender))?;
        Ok(Self { format, home, wake, alive, named, last_named: None, events, thread })
    }

    /// Notes that a hook has named the conversation or its transcript at a point of the agent's
    /// work.
    ///
    /// A waiting hook may report a conversation before the hook that reports its beginning, and an
    /// ended conversation is no longer the agent's. So these points name none.
    pub(super) fn name(&mut self, report: &Report) {
        let point = report.point;
        if matches!(point, Point::Waits | Point::SessionEnded) {
            return;
        }
        let path_of_session = report.session.as_deref().and_then(|session| self.path_of(session));
        let Some(path) = report.transcript.clone().or_else(|| path_of_session.clone()) else {
            return;
        };
        let now_ms = clock::unix_ms();
        // The CLI may state another path of the same file.
        let named = path_of_session.unwrap_or_else(|| path.clone());
        let before = self.last_named.replace((named.clone(), now_ms));
        let before_ms = match before {
            Some((before, _)) if before == named => return,
            before => before.map_or(0, |(_, at_ms)| at_ms.min(now_ms)),
        };
        // At these points the agent has said nothing since it took over the conversation.
        let begins = matches!(point, Point::SessionBegan | Point::PromptSubmitted);
        let since_ms = if begins { now_ms } else { before_ms };
        if self.named.try_send(Named { path: path.into(), since_ms }).is_err() {
            // The next report names it again.
            self.last_named = None;
        }
        self.wake();
    }

    /// Returns the path of a conversation's transcript, if it is known by the conversation's id.
    fn path_of(&self, session: &str) -> Option<String> {
        let below = (self.format.path_of_session?)(session);
        self.home.join(below).into_os_string().into_string().ok()
    }

    /// Makes the thread scan the files soon, since something was printed.
    pub(super) fn wake(&self) {
        // A wake-up that is still pending serves this one, too.
        let _ = self.wake.try_send(());
    }

    /// Hands over the last records of a command that has ended, for at most this time: a file that
    /// cannot be read to its end must not keep the wrapper from ending.
    pub(super) fn finish(self, at_most_ms: u64, mut handle: impl FnMut(Event)) {
        drop((self.wake, self.alive, self.named));
        let until = clock::monotonic_ms() + at_most_ms;
        loop {
            let left_ms = until.saturating_sub(clock::monotonic_ms());
            match self.events.recv_timeout(Duration::from_millis(left_ms)) {
                Ok(event) if left_ms > 0 => handle(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    return tracing::warn!("the command's transcript was not read to its end");
                }
            }
        }
        // The panic hook has reported a panic of the thread.
        drop(self.thread.join());
    }
}

/// Scans the files until the command has ended, and then once more.
fn follow(
    search: &mut Search,
    woken: &Receiver<()>,
    named: &Receiver<Named>,
    ended: &Receiver<()>,
    events: &Sender<Event>,
) {
    let mut woken_ms = clock::monotonic_ms();
    loop {
        named.try_iter().for_each(|named| search.name(named));
        if search.look(events).is_err() {
            return;
        }
        if let Err(RecvTimeoutError::Disconnected) = ended.recv_timeout(LOOK_AT_MOST) {
            break;
        }
        let is_soon = clock::monotonic_ms().saturating_sub(woken_ms) < SOON_MS;
        match woken.recv_timeout(if is_soon { LOOK_SOON } else { IDLE_LOOK_INTERVAL }) {
            Ok(()) => {
                woken_ms = clock::monotonic_ms();
                search.note_activity(woken_ms);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    named.try_iter().for_each(|named| search.name(named));
    search.make_due();
    // Sending fails only if the driver has ended, which needs no more events.
    drop(search.look(events));
}

#[cfg(test)]
mod tests {
    use super::*;
    use terminal::agents;

    /// Returns a follower of transcripts of this format with this thread, and its channel of names.
    fn follower(
        format: &str,
        (wake, alive): (Sender<()>, Sender<()>),
        (events, thread): (Receiver<Event>, JoinHandle<()>),
    ) -> (Follower, Receiver<Named>) {
        let (named, names) = bounded(NAMED_MAX);
        let format = agents::format(format).unwrap();
        let (home, last_named) = ("/home".into(), None);
        (Follower { format, home, wake, alive, named, last_named, events, thread }, names)
    }

    /// Returns a follower of transcripts of this format without a thread, and its channel of names.
    fn idle_follower(format: &str) -> (Follower, Receiver<Named>) {
        let thread = spawn("transcript", || {}).unwrap();
        follower(format, (bounded(1).0, bounded(0).0), (bounded(0).1, thread))
    }

    /// Words of a resumed conversation must not count, whichever hook reports first.
    #[test]
    fn waiting_or_ending_hook_names_no_transcript() {
        let (mut follower, names) = idle_follower("claude");
        let before_ms = clock::unix_ms();
        for point in [Point::Waits, Point::SessionEnded, Point::SessionBegan, Point::ToolEnded] {
            let transcript = Some("/resumed.jsonl".to_owned());
            follower.name(&Report { transcript, ..Report::new(point, Vec::new()) });
        }
        let named: Vec<_> = names.try_iter().collect();
        assert_eq!(named.len(), 1, "{named:?}");
        assert!(named[0].since_ms >= before_ms, "{named:?}");
    }

    #[test]
    fn conversation_names_its_transcript_only_where_that_is_known() {
        for (format, path) in
            [("claude", None), ("copilot", Some("session-state/1-a/events.jsonl"))]
        {
            let (mut follower, names) = idle_follower(format);
            let session = Some("1-a".to_owned());
            let report = Report { session, ..Report::new(Point::SessionBegan, Vec::new()) };
            follower.name(&report);
            let transcript = path.map(|path| Path::new("/home").join(path));
            let stated = transcript.as_ref().map(|path| path.to_str().unwrap().to_owned());
            follower.name(&Report { transcript: stated, ..report });
            let named: Vec<_> = names.try_iter().map(|named| named.path).collect();
            assert_eq!(named, transcript.into_iter().collect::<Vec<_>>(), "{format}");
        }
    }

    /// Two paths that differ, one of them with `..`, may lead to the same file.
    #[test]
    fn conversation_with_its_id_is_named_once() {
        let (mut follower, names) = idle_follower("copilot");
        let report = Report {
            session: Some("1-a".to_owned()),
            ..Report::new(Point::PromptSubmitted, Vec::new())
        };
        follower.name(&report);
        for path in ["/x/../home/session-state/1-a/events.jsonl", "/home/other.jsonl"] {
            follower.name(&Report { transcript: Some(path.to_owned()), ..report.clone() });
        }
        follower.name(&Report { session: Some("2-b".to_owned()), ..report });
        let named: Vec<_> = names.try_iter().map(|named| named.path).collect();
        let folder = Path::new("/home/session-state");
        assert_eq!(named, ["1-a", "2-b"].map(|id| folder.join(id).join("events.jsonl")));
    }

    /// The transcript has no end, or cannot be read.
    #[test]
    fn finish_gives_up_in_time() {
        for grows in [true, false] {
            let (wake, _woken) = bounded(1);
            let (alive, _ended) = bounded(0);
            let (sender, events) = bounded(EVENTS_MAX);
            let (begin, begun) = bounded(1);
            let (stop, stopped) = bounded::<()>(0);
            let record = || Event::Recorded(TranscriptId(0), Record::TurnOver);
            let thread = spawn("transcript", move || {
                if grows {
                    sender.send(record()).unwrap();
                }
                begin.send(()).unwrap();
                while grows && sender.send(record()).is_ok() {}
                assert!(stopped.recv().is_err());
                drop(sender);
            });
            let (follower, _names) = follower("claude", (wake, alive), (events, thread.unwrap()));
            begun.recv().unwrap();
            let mut received = 0;
            follower.finish(50, |_| received += 1);
            assert_eq!(received > 0, grows);
            drop(stop);
        }
    }
}
