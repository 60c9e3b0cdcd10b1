//! The thread that owns the bridge: it waits for all others and does what the bridge says.

mod people;

use super::{
    foreground::Foreground,
    mail,
    questions::Questions,
    sent::Sent,
    threads::{self, Channels, Ends, News, Threads, spawn},
    transcripts::{self, Follower},
    visitors::Visitors,
};
use crate::{
    bridge::{
        self, Bridge, DeliveryFailure, FailureCause, Input, OutgoingMessage, Output, Progress,
        SendHandle, keyboard::Reader, obstacle::Obstacle, recipe::Recipe, transcript::TranscriptId,
    },
    client::{Client, Ended, Event, Reply, SendId, State},
    protocol::{Moment, code::NackCode, control, payload::Nack, relay::ReportRequest},
};
use crossbeam_channel::{Receiver, bounded, never, select};
use platform::{
    clock, process,
    pty::{self, Pty, Size},
    stop::{self, Listening, Signal},
    terminal,
};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Write},
    mem,
    path::PathBuf,
    time::Duration,
};

/// Without a deadline, the loop turns once in this time.
const IDLE: Duration = Duration::from_secs(3600);

/// Each step from asking the command to end to ending it by force, when the terminal is gone.
const GRACE_GONE: Duration = Duration::from_millis(600);

/// And when we are asked to stop.
const GRACE_STOP: Duration = Duration::from_millis(2500);

/// How long the command's last messages may take to be read, and then to be accepted, after its end.
const LAST_WORDS_MS: u64 = 2000;

/// A message that can't be typed any more comes again after this time at the earliest.
const GIVE_BACK_MS: u64 = 1000;

/// Ctrl-Z, in each of the ways in which terminals send it.
const SUSPENDS: [&[u8]; 3] = [b"\x1a", b"\x1b[122;5u", b"\x1b[27;5;122~"];

/// From that to when a program that has suspended itself is to go on.
const RESUME_MS: u64 = 500;

/// While the command prints, the foreground is asked for this often at most: a wrapper in this one
/// takes longer to start.
const LOOK_MS: u64 = 2;

/// For so long after its start the foreground is also asked for while nothing is printed, and this
/// often: a launcher may erase its command line before it prints.
const START_MS: u64 = 2000;
const START_LOOK_MS: u64 = 5;

/// When another wrapper has come to the foreground, what arrives within this time, in so many
/// pieces, was printed before: it takes longer to start.
const PRINTED_BEFORE: Duration = Duration::from_millis(3);
const PRINTED_BEFORE_MAX: usize = 16;

/// An agent reads keys, and its terminal gathers lines.
const GATHERS_LINES: Reader = Reader::Barred(Obstacle::NotReading, None);

/// Signals that wait.
const SIGNALS_MAX: usize = 64;

/// What the system tells this process, from before the command begins until after it has ended.
pub(super) struct Signals {
    told: Receiver<Signal>,
    _listening: Option<Listening>,
}

impl Signals {
    /// Without signals a wrapper works all the same; a second one in a process has none.
    pub(super) fn listen() -> Self {
        let (sender, told) = bounded(SIGNALS_MAX);
        let listening = stop::listen(move |signal| {
            // Where so many wait already, another one changes nothing.
            let _ = sender.try_send(signal);
        });
        let _listening = listening.inspect_err(|error| tracing::warn!("{error}")).ok();
        Self { told, _listening }
    }
}

/// What a driver attends to beside the terminal and the relay.
pub(super) struct Beside {
    /// Who comes to the wrapper's own endpoint.
    pub(super) visitors: Visitors,
    /// What they are told of the command.
    pub(super) command: Vec<String>,
    /// Reads the transcript, where the command writes one.
    pub(super) follower: Option<Follower>,
    /// Looks at which program reads the terminal.
    pub(super) foreground: Foreground,
}

/// The driver of one bridge.
pub(super) struct Driver {
    bridge: Bridge,
    attached: bool,
    pty: Pty,
    threads: Threads,
    channels: Channels,
    signals: Receiver<Signal>,
    /// What waits to be typed, each piece in a write of its own.
    to_type: VecDeque<Vec<u8>>,
    is_typing: bool,
    client: Client,
    events: Receiver<Event>,
    sent: Sent,
    /// Others' messages that wait for an answer of the agent's.
    questions: Questions,
    /// Reads the transcript, where the command writes one.
    follower: Option<Follower>,
    recorded: Receiver<transcripts::Event>,
    /// The files that it reads.
    transcripts: BTreeMap<TranscriptId, PathBuf>,
    /// What the bridge is to hear before anything else.
    inputs: VecDeque<Input<'static>>,
    out: Vec<Output>,
    foreground: Foreground,
    /// The recipe for the command, which that for a program that it starts replaces where nothing
    /// depends on a transcript.
    chosen: Recipe,
    has_transcript: bool,
    started: Moment,
    /// When the terminal's foreground was last asked for, while the command prints.
    looked_at: Option<Moment>,
    visitors: Visitors,
    /// What visitors are told of the agent, but for what changes.
    about: control::State,
    /// A person has asked the command to suspend itself, and nobody else would have it go on.
    resume_at: Option<Moment>,
    ended: Option<i32>,
    is_ending: bool,
}

impl Driver {
    /// Starts the threads around a command that runs.
    pub(super) fn start(
        pty: Pty,
        ends: Ends,
        signals: &Signals,
        client: Client,
        settings: &bridge::Settings,
        beside: Beside,
    ) -> io::Result<Self> {
        let Beside { visitors, command, follower, foreground } = beside;
        let (threads, channels) = threads::start(&pty, ends)?;
        let mut inputs = VecDeque::new();
        inputs.push_back(Input::Connected(true));
        let about = people::about(client.name(), &pty, command);
        Ok(Self {
            bridge: Bridge::new(settings),
            attached: settings.attached,
            pty,
            threads,
            channels,
            signals: signals.told.clone(),
            to_type: VecDeque::new(),
            is_typing: false,
            events: client.events().clone(),
            client,
            sent: Sent::default(),
            questions: Questions::default(),
            recorded: follower.as_ref().map_or_else(never, |follower| follower.events.clone()),
            follower,
            transcripts: BTreeMap::new(),
            inputs,
            out: Vec::new(),
            foreground,
            chosen: settings.recipe.clone(),
            has_transcript: settings.transcript,
            started: now(),
            looked_at: None,
            visitors,
            about,
            resume_at: None,
            ended: None,
            is_ending: false,
        })
    }

    /// Until the command has ended and all it printed was read; says how it ended, and gives back who
    /// waits to hear that nothing of the agent is left.
    pub(super) fn run(mut self) -> (control::Ended, Visitors) {
        let mut printing = true;
        while printing || self.ended.is_none() {
            self.take_inputs();
            self.tick_if_due();
            self.resume_if_due();
            self.serve_visitors();
            printing &= self.wait(printing);
        }
        self.read_to_the_end();
        let reset = self.reset();
        let ended = self.end();
        self.say_last_words();
        self.see_visitors_off();
        let Self { attached, threads, channels, client, visitors, .. } = self;
        // Dropping its sender ends the thread that types.
        drop(channels);
        let screen = threads.join();
        client.close();
        if let Some(mut screen) = screen.filter(|_| attached)
            && let Err(error) = screen.write_all(reset.as_bytes()).and_then(|()| screen.flush())
        {
            tracing::debug!("the terminal is gone: {error}");
        }
        (ended, visitors)
    }

    /// What brings the terminal in order. What was broken off has left its cursor anywhere: what comes
    /// next stands below all that it shows.
    fn reset(&self) -> String {
        let screen = self.bridge.screen();
        let mut reset = screen.cleanup();
        let is_broken_off = self.is_ending || self.ended != Some(0);
        if is_broken_off && !screen.alternate() {
            let (_, rows) = screen.size();
            let below = screen.cursor().row..rows;
            let last = below.rev().find(|&row| !screen.row(row).text.trim().is_empty());
            if let Some(last) = last {
                // The real cursor may be elsewhere, but it is as far from there.
                let down = last - screen.cursor().row;
                reset.extend((down > 0).then(|| format!("\x1b[{down}B")));
                reset.push_str("\r\n");
            }
        }
        reset
    }

    /// Waits for whatever comes next. Says whether the command may print more.
    fn wait(&mut self, printing: bool) -> bool {
        let due = [self.bridge.deadline(), self.visitors.deadline(), self.resume_at];
        let due = due.into_iter().flatten().min();
        let idle = if self.is_starting() { Duration::from_millis(START_LOOK_MS) } else { IDLE };
        let timeout =
            due.map_or(idle, |deadline| Duration::from_millis(deadline.since(now())).min(idle));
        let wants_keys = self.bridge.wants_keys();
        let keys = if wants_keys { self.channels.keys.clone() } else { never() };
        let printed = if printing { self.channels.printed.clone() } else { never() };
        // What isn't heard fills the client's room and then the daemon's queue, which says BUSY.
        let events = if self.bridge.wants_messages() { self.events.clone() } else { never() };
        select! {
            recv(printed) -> bytes => match bytes {
                Ok(bytes) => self.printed(&bytes),
                Err(_) => return false,
            },
            recv(keys) -> bytes => match bytes {
                Ok(bytes) => self.keys(&bytes),
                // Nobody types any more; the agent goes on.
                Err(_) => self.channels.keys = never(),
            },
            recv(self.recorded) -> event => match event {
                Ok(event) => self.follow_transcript(event),
                // The thread that reads transcripts has made a mistake, which the panic hook told.
                Err(_) => self.recorded = never(),
            },
            recv(self.channels.news) -> news => match news {
                Ok(news) => self.hear(news),
                Err(_) => {
                    // The thread that waits for the command tells its end before it goes, unless it
                    // panics.
                    self.ended.get_or_insert(1);
                    self.channels.news = never();
                }
            },
            recv(self.signals) -> signal => match signal {
                Ok(signal) => self.signal(signal),
                // There is no listener.
                Err(_) => self.signals = never(),
            },
            recv(events) -> event => match event {
                Ok(event) => self.event(event),
                Err(_) => self.events = never(),
            },
            recv(self.visitors.calls()) -> call => match call {
                Ok((id, call)) => self.call(id, call),
                Err(_) => self.visitors.lose_calls(),
            },
            default(timeout) => {},
        }
        true
    }

    fn is_starting(&self) -> bool {
        now().since(self.started) < START_MS
    }

    fn tick_if_due(&mut self) {
        if self.is_starting() && self.reader_may_have_changed() {
            self.look_who_reads();
        }
        if self.bridge.deadline().is_some_and(|deadline| deadline <= now()) {
            let is_unseen = *self.bridge.reader() == Reader::Unseen;
            let is_asked = is_unseen || self.bridge.asks_for_reader(now());
            if is_asked || self.reader_may_have_changed() {
                self.look_who_reads();
            }
            self.input(Input::Tick);
            self.take_inputs();
        }
    }

    /// What a person has typed, here or elsewhere.
    fn keys(&mut self, keys: &[u8]) {
        if SUSPENDS.iter().any(|key| keys.windows(key.len()).any(|typed| typed == *key)) {
            self.resume_at = Some(now().plus(RESUME_MS));
        }
        self.input(Input::Keys(keys));
    }

    fn resume_if_due(&mut self) {
        if self.resume_at.take_if(|at| *at <= now()).is_some()
            && let Err(error) = self.pty.resume()
        {
            tracing::warn!("{error}");
        }
    }

    fn printed(&mut self, bytes: &[u8]) {
        if let Some(follower) = &self.follower {
            follower.wake();
        }
        let is_due = self.looked_at.is_none_or(|at| now().since(at) >= LOOK_MS);
        let has_changed = is_due && {
            self.looked_at = Some(now());
            self.reader_may_have_changed()
        };
        // What came before another wrapper had the terminal is not its program's, nor is what comes
        // after.
        let ends_relay = self.bridge.reader().is_relay();
        if has_changed && ends_relay {
            self.look_who_reads();
        }
        self.input(Input::Printed(bytes));
        self.visitors.printed(bytes);
        if has_changed && !ends_relay {
            self.look_who_reads();
        }
    }

    /// What was printed before another wrapper came to the foreground may still be on its way.
    fn take_what_was_printed(&mut self) {
        for _ in 0..PRINTED_BEFORE_MAX {
            let Ok(bytes) = self.channels.printed.recv_timeout(PRINTED_BEFORE) else { return };
            self.input(Input::Printed(&bytes));
            self.visitors.printed(&bytes);
        }
    }

    /// Whether a look may find another program, or that an agent reads again.
    fn reader_may_have_changed(&self) -> bool {
        let reads_again =
            || *self.bridge.reader() == GATHERS_LINES && self.pty.gathers_lines() != Some(true);
        self.foreground.may_have_changed() || reads_again()
    }

    /// Which program reads what is typed now. One that another command has started may have a
    /// recipe.
    fn look_who_reads(&mut self) {
        let mut reader = self.foreground.reader();
        if let Reader::Agent(name) = &reader {
            if !self.has_transcript && self.bridge.recipe().name != *name {
                let recipe = self.foreground.book().named(name, process::SYSTEM);
                self.input(Input::Recognised(Box::new(recipe)));
            }
            // An editor that it started has just ended, or it has not begun to read.
            if self.bridge.recipe().raw_mode && self.pty.gathers_lines() == Some(true) {
                reader = GATHERS_LINES;
            }
        }
        if reader == Reader::Shell && self.bridge.recipe().shows_composer() && !self.has_transcript
        {
            self.input(Input::Recognised(Box::new(self.chosen.clone())));
        }
        if *self.bridge.reader() != reader {
            if reader.is_relay() && !self.bridge.reader().is_relay() {
                self.take_what_was_printed();
            }
            tracing::info!("the terminal is read by {reader:?}");
            self.input(Input::Reads(reader));
        }
    }

    fn follow_transcript(&mut self, event: transcripts::Event) {
        use transcripts::Event;
        match event {
            Event::Opened(id, path) => drop(self.transcripts.insert(id, path)),
            Event::Closed(id) => drop(self.transcripts.remove(&id)),
            Event::Owned(id) => self.input(Input::Owned(id)),
            Event::Recorded(id, record) => self.input(Input::Recorded(id, record)),
            Event::Searched { at, is_alone } => self.input(Input::Searched { at, is_alone }),
        }
    }

    /// The transcript has the command's last words, too.
    fn read_to_the_end(&mut self) {
        let Some(follower) = self.follower.take() else { return };
        self.recorded = never();
        follower.finish(LAST_WORDS_MS, |event| {
            self.follow_transcript(event);
            self.take_inputs();
        });
    }

    fn take_inputs(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            self.input(input);
        }
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = mem::take(&mut self.out);
        self.bridge.handle(now(), input, &mut out);
        for output in out.drain(..) {
            self.perform(output);
        }
        self.out = out;
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Write(bytes) => {
                self.to_type.push_back(bytes);
                self.type_next();
            }
            Output::Send(handle, message) => self.say(handle, message),
            Output::Report(id, progress) => self.report(id, progress),
            Output::Acknowledge(id) => self.client.acknowledge(&id),
            Output::Return(id) => {
                let why = "the agent takes no more messages now";
                self.client.return_delivery(&id, NackCode::AgentOffline, why, Some(GIVE_BACK_MS));
            }
            Output::Log(line) => tracing::info!("{line}"),
        }
    }

    fn report(&self, id: String, progress: Progress) {
        let (state, why) = match progress {
            Progress::Waiting(why) => ("waiting", Some(self.words(why))),
            Progress::Unhindered => ("waiting", None),
            Progress::Injected => ("injected", None),
            Progress::Confirmed => ("confirmed", None),
        };
        let report = ReportRequest { id, state: state.to_owned(), why };
        if let Err(error) = self.client.report(&report) {
            tracing::debug!("nobody hears how far a message is: {error}");
        }
    }

    /// Why nothing is typed, and what ends that.
    fn words(&self, why: Obstacle) -> String {
        why.words(self.client.name(), self.bridge.reader().name())
    }

    /// What the agent says is the answer to a question that waits for it, or a message.
    fn say(&mut self, handle: SendHandle, said: OutgoingMessage) {
        let sent = match self.questions.answer(now(), &said) {
            Some(reply) => self.reply(handle, reply),
            None => mail::outgoing(said)
                .and_then(|message| self.client.send(message).map_err(|e| e.to_string()))
                .map(|id| self.sent.add(id, handle)),
        };
        if let Err(why) = sent {
            let (handle, cause) = (Some(handle), FailureCause::Unsent);
            let refusal = DeliveryFailure { handle, id: None, to: None, cause, why };
            self.inputs.push_back(Input::Undelivered(refusal));
        }
    }

    /// An answer is not answered, unless it can't be passed on.
    fn reply(&mut self, handle: SendHandle, reply: Reply) -> Result<(), String> {
        let id = SendId(reply.delivery_id.clone());
        self.client.reply(reply).map_err(|error| error.to_string())?;
        self.sent.settle(id, handle);
        Ok(())
    }

    /// Hands over the next piece; its thread has room for one.
    fn type_next(&mut self) {
        if !self.is_typing
            && let Some(bytes) = self.to_type.pop_front()
        {
            // Where the thread has ended, so has the command's terminal.
            self.is_typing = self.channels.typing.try_send(bytes).is_ok();
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Typed(bytes) => {
                self.is_typing = false;
                self.type_next();
                self.input(Input::Written(bytes));
            }
            News::Ended(code) => self.ended = Some(code),
            News::ScreenGone => self.end_command(GRACE_GONE),
        }
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::HangUp => self.end_command(GRACE_GONE),
            Signal::Stop => self.end_command(GRACE_STOP),
            Signal::Resize => self.resize(),
            Signal::Break if self.bridge.wants_keys() => self.keys(pty::CTRL_BREAK),
            Signal::Break => tracing::warn!("Ctrl-Break is lost: the command reads no keys"),
        }
    }

    fn resize(&mut self) {
        if let Some(size) = terminal::size().filter(|_| self.attached) {
            self.resize_to(size);
        }
    }

    fn resize_to(&mut self, size: Size) {
        if let Err(error) = self.pty.resize(size) {
            tracing::warn!("{error}");
        }
        let Size { cols, rows } = size;
        self.input(Input::Resized { columns: cols.into(), rows: rows.into() });
        self.visitors.resized(size);
    }

    /// Ends the command beside the loop, which has to go on reading meanwhile.
    fn end_command(&mut self, grace: Duration) {
        if mem::replace(&mut self.is_ending, true) {
            return;
        }
        let pty = self.pty.clone();
        let ended = spawn("end of the command", move || {
            if let Err(error) = pty.end(grace) {
                tracing::error!("{error}");
            }
        });
        // The thread ends with the command, for which this driver waits anyway.
        if let Err(error) = ended {
            tracing::error!("the command can't be ended: {error}");
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Delivered(delivery) => {
                self.questions.note(now(), &delivery);
                self.input(Input::Delivered(mail::incoming(&delivery)));
            }
            Event::Accepted { send_id, away, .. } => {
                if let Some(handle) = self.sent.handle(&send_id) {
                    self.sent.settle(send_id, handle);
                    self.input(Input::Accepted { handle, away });
                }
            }
            Event::Refused { send_id, nack } => self.refused(send_id, nack),
            Event::Answered { send_id, answer } => {
                self.input(Input::Delivered(mail::answered(&send_id, &answer)));
            }
            Event::State(state) => {
                self.input(Input::Connected(matches!(state, State::Ready(_))));
            }
            Event::Ended(ended) => {
                self.input(Input::Rejected { why: ended.to_string(), is_permanent: true });
                self.give_up();
            }
            Event::Error(fault) if fault.fatal => {
                self.input(Input::Rejected {
                    why: Ended::Error(fault).to_string(),
                    is_permanent: false,
                });
            }
            Event::Missed { why } => tracing::warn!("messages may be missing: {why}"),
            Event::Error(fault) => tracing::warn!("the daemon complains: {}", fault.message),
            Event::Busy { .. } | Event::Subscribed { .. } => {}
        }
    }

    fn refused(&mut self, id: SendId, nack: Nack) {
        let handle = self.sent.handle(&id);
        // Of a broadcast, one recipient's refusal is not its answer.
        if let Some(handle) = handle.filter(|_| nack.to.is_none()) {
            self.sent.settle(id, handle);
        }
        self.input(Input::Undelivered(mail::refusal(handle, nack)));
    }

    /// The relay is gone for good, and with it the answers to what was handed over.
    fn give_up(&mut self) {
        for (id, handle) in self.sent.give_up() {
            self.input(Input::Undelivered(DeliveryFailure {
                handle: Some(handle),
                id: Some(id.0),
                to: None,
                cause: FailureCause::Unanswered,
                why: "the relay went away and had not answered for it".to_owned(),
            }));
        }
    }

    /// Lets the command's last messages reach the daemon.
    fn say_last_words(&mut self) {
        let until = now().plus(LAST_WORDS_MS);
        // Without a daemon, too: one may be about to come.
        while !self.sent.is_settled() {
            let left = Duration::from_millis(until.since(now()));
            match self.events.recv_timeout(left) {
                Ok(event) => self.event(event),
                Err(_) => return,
            }
        }
    }
}

fn now() -> Moment {
    Moment(clock::monotonic_ms())
}
