//! The driver: the thread that owns the terminal side, feeds it inputs and performs its outputs.

mod activity;
mod attention;
mod background;
mod clients;

use super::{
    agent_record::{End, RecordKeeper},
    background::Background,
    control::clients::ControlClients,
    edits::Edits,
    end_of_input::EndOfInput,
    foreground::Foreground,
    in_flight::InFlight,
    inner_mark::{InnerMarkFinder, InnerMarks},
    last_output::{LastOutput, Remedy},
    message,
    notifier::Notifier,
    now,
    paste::Paste,
    questions::Questions,
    signals::Signals,
    teams::{self, Sender},
    threads::{self, Channels, Streams, ThreadEvent, Threads, spawn},
    transcripts::{self, Follower},
    waker::Waker,
};
use activity::ActivityReports;
use attention::PersonWatch;
use client::{Client, ConnectionState, Ended, Event, Reply, SendId};
use crossbeam_channel::{Receiver, never, select};
use platform::{
    pty::{self, Pty, Size},
    stop_signals::Signal,
    tty::{self, RawMode, Standard},
};
use protocol::{
    Moment,
    activity::Activity,
    code::NackCode,
    control,
    name::{OPERATOR, RELAY},
    payload::{LoopCount, Nack},
    relay::{DeliveryState, ReportRequest, UNREAD},
};
use std::{
    collections::{BTreeMap, VecDeque},
    io, mem,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};
use terminal::{
    self, DeliveryFailure, FailureCause, Input, OutgoingMessage, Output, Progress, SendHandle,
    TerminalSide, agents, keys::find_ctrl, obstacle::Obstacle, transcript::TranscriptId,
};

/// The longest wait of the loop while there is no deadline.
const IDLE: Duration = Duration::from_secs(3600);

/// The time for each step of ending the command, from a request to force, after the terminal is
/// gone.
const GRACE_GONE: Duration = Duration::from_millis(600);

/// The time for each of these steps after the wrapper is asked to stop.
const GRACE_STOP: Duration = Duration::from_millis(2500);

/// The longest time for reading the command's last messages after its end, and once more for the
/// daemon to accept these messages.
const LAST_MESSAGES_MS: u64 = 2000;

/// The delay before a program that has suspended itself is resumed.
const RESUME_MS: u64 = 500;

/// The minimum interval between two queries of the foreground while the command prints.
const LOOK_MS: u64 = 2;

/// How long after the start the foreground is also queried while nothing is printed, and the
/// interval of these queries: a launcher may erase its command line before it prints.
const START_MS: u64 = 2000;
const START_LOOK_MS: u64 = 5;

/// The parts of a driver besides the terminal and the relay.
pub(super) struct Parts {
    /// The clients of the control endpoint.
    pub(super) clients: ControlClients,
    /// The command's directory, for the state that clients get.
    pub(super) directory: Option<String>,
    /// The reader of the transcript, if the command writes one.
    pub(super) follower: Option<Follower>,
    /// The observer of the program that reads the terminal.
    pub(super) foreground: Foreground,
    pub(super) hooks: HooksGiven,
    /// The finder of an inner `run`'s marks.
    pub(super) inner_marks: InnerMarkFinder,
    /// The marks for the `run` around this one, if there is one.
    pub(super) outer_marks: Option<InnerMarks>,
    /// The starter of processes that wake the agent.
    pub(super) waker: Waker,
    pub(super) end_of_input: EndOfInput,
    /// The way to notify the person.
    pub(super) notifier: Notifier,
    /// The way into the background; `None` if the agent ends with its terminal.
    pub(super) background: Option<Background>,
    /// The raw mode of the person's terminal.
    pub(super) raw: Option<RawMode>,
    /// Shows the person a line.
    pub(super) show_notice: fn(&str),
    /// The home, which has the groups of agents.
    pub(super) home: PathBuf,
    /// The keeper of the agent's record, if the agent can be started again.
    pub(super) agent_record: Option<RecordKeeper>,
}

/// Whether the command was given hooks.
pub(super) struct HooksGiven {
    pub(super) are_given: bool,
    /// Whether hooks run only if the person has installed our extension.
    pub(super) need_extension: bool,
    /// The reason why there are no hooks, if the CLI could have some.
    pub(super) why_not: Option<String>,
}

impl HooksGiven {
    /// Returns whether a command with this recipe was given hooks, or the reason why not.
    pub(super) fn of(recipe: &str, are_given: bool, why_not: Option<String>) -> Self {
        let hooks = agents::named(recipe).and_then(|agent| agent.hooks);
        let need_extension = hooks.is_some_and(|hooks| hooks.extension.is_some());
        Self { are_given, need_extension, why_not }
    }
}

/// The remains of a command that has ended.
pub(super) struct Finished {
    /// How the command ended.
    pub(super) ended: control::Ended,
    /// The clients, to be closed when all of the agent's processes have ended.
    pub(super) clients: ControlClients,
    /// Whether the person's terminal takes no output, so that nothing more may be written to it.
    pub(super) is_terminal_stuck: bool,
    /// Whether the agent went on without its terminal.
    pub(super) outlived_terminal: bool,
}

/// The owner of one terminal side, its inputs and its outputs.
pub(super) struct Driver {
    side: TerminalSide,
    /// Whether the wrapper has a person's terminal.
    attached: bool,
    outlived_terminal: bool,
    /// The person's keys since the program reads none.
    held_keys: Vec<u8>,
    /// The thread that leaves the person's terminal.
    leaving: Option<JoinHandle<()>>,
    pty: Pty,
    threads: Threads,
    channels: Channels,
    signals: Receiver<Signal>,
    /// Pieces that wait for the terminal, each written by itself.
    to_type: VecDeque<Vec<u8>>,
    is_typing: bool,
    client: Client,
    events: Receiver<Event>,
    in_flight: InFlight,
    edits: Edits,
    /// Other agents' questions that wait for the agent's answer.
    questions: Questions,
    recorded: Receiver<transcripts::Event>,
    /// The transcripts that the wrapper reads.
    transcripts: BTreeMap<TranscriptId, PathBuf>,
    activity: ActivityReports,
    person: PersonWatch,
    /// Inputs for the terminal side that precede all others.
    inputs: VecDeque<Input<'static>>,
    out: Vec<Output>,
    parts: Parts,
    started: Moment,
    /// The moment of the last query of the foreground while the command printed.
    looked_at: Option<Moment>,
    /// The constant part of the agent's state, which clients ask for.
    constant_state: control::AgentState,
    /// The moment to resume the command after Ctrl-Z, since there is no shell to do it.
    resume_at: Option<Moment>,
    exit_code: Option<i32>,
    last_output: LastOutput,
    /// The paste of the person's own terminal.
    paste: Paste,
    is_ending: bool,
    /// Whether the system ends the wrapper, possibly against the person's will.
    is_cut_off: bool,
    /// Whether the agent has sent or received a message.
    has_messages: bool,
}

impl Driver {
    /// Starts the threads around a command that runs. `command` has its arguments, for the state
    /// that clients get.
    pub(super) fn start(
        pty: Pty,
        streams: Streams,
        signals: &Signals,
        client: Client,
        settings: &terminal::Settings,
        command: Vec<String>,
        parts: Parts,
    ) -> io::Result<Self> {
        let follower = parts.follower.as_ref();
        let (threads, channels) = threads::start(&pty, streams)?;
        let directory = parts.directory.clone();
        let constant_state = clients::constant_state(client.name(), &pty, command, directory);
        Ok(Self {
            side: TerminalSide::new(settings),
            attached: settings.attached,
            outlived_terminal: false,
            held_keys: Vec::new(),
            leaving: None,
            pty,
            threads,
            channels,
            signals: signals.received.clone(),
            to_type: VecDeque::new(),
            is_typing: false,
            events: client.events().clone(),
            client,
            in_flight: InFlight::default(),
            edits: Edits::default(),
            questions: Questions::default(),
            recorded: follower.map_or_else(never, |follower| follower.events.clone()),
            transcripts: BTreeMap::new(),
            activity: ActivityReports::default(),
            person: PersonWatch::new(now(), settings.attached),
            inputs: [Input::Connected(true)].into(),
            out: Vec::new(),
            parts,
            started: now(),
            looked_at: None,
            constant_state,
            resume_at: None,
            exit_code: None,
            last_output: LastOutput::default(),
            paste: Paste::default(),
            is_ending: false,
            is_cut_off: false,
            has_messages: false,
        })
    }

    /// Runs until the command has ended and all its output was read.
    pub(super) fn run(mut self) -> Finished {
        let mut printing = true;
        let mut is_given_up = false;
        while !is_given_up && (printing || self.exit_code.is_none()) {
            self.take_inputs();
            self.tick_if_due();
            self.resume_if_due();
            self.pass_held_key_if_due();
            self.pass_end_of_input_if_due();
            self.serve_clients();
            self.call_person();
            printing &= self.wait(printing);
            is_given_up = self.last_output_is_given_up();
        }
        self.read_to_the_end();
        self.leave();
        let reset = self.reset();
        self.parts.waker.end();
        if let Some(record) = self.parts.agent_record.take() {
            record.end(match self.exit_code {
                _ if self.is_cut_off => End::CutOff,
                _ if self.is_ending => End::Stopped,
                code => End::Exited(code.unwrap_or(1)),
            });
        }
        let ended = self.end();
        self.await_answers();
        self.flush_clients();
        let Self { attached, outlived_terminal, leaving, threads, channels, client, parts, .. } =
            self;
        // Dropping the channel to the thread that types ends that thread.
        drop(channels);
        let screen = threads.screen.clone();
        if !is_given_up {
            threads.join();
            // A panic was reported by the panic hook.
            drop(leaving.map(JoinHandle::join));
        }
        client.close();
        let is_terminal_stuck = screen.is_busy();
        if attached
            && !is_terminal_stuck
            && let Err(error) = screen.end(reset.as_bytes())
        {
            tracing::debug!("the terminal is gone: {error}");
        }
        let Parts { clients, raw, .. } = parts;
        if let Some(raw) = raw.filter(|_| is_terminal_stuck) {
            raw.end_at_once();
        }
        Finished { ended, clients, is_terminal_stuck, outlived_terminal }
    }

    /// Returns the bytes that restore the terminal's modes, and the mark of the output's end.
    ///
    /// If the command was interrupted, or a line will tell of its messages, these bytes also move
    /// the cursor below all that is shown.
    fn reset(&self) -> String {
        let screen = self.side.screen();
        let mut reset = screen.cleanup();
        let is_interrupted = self.is_ending || self.exit_code != Some(0);
        if (is_interrupted || self.has_messages) && !screen.alternate() {
            let (_, rows) = screen.size();
            let below = screen.cursor().row..rows;
            let last = below.rev().find(|&row| !screen.row(row).text.trim().is_empty());
            if let Some(last) = last {
                // The person's terminal may be scrolled differently, but the distance is the same.
                let down = last - screen.cursor().row;
                reset.extend((down > 0).then(|| format!("\x1b[{down}B")));
                reset.push_str("\r\n");
            }
        }
        reset.extend(self.parts.outer_marks.as_ref().map(InnerMarks::end));
        reset
    }

    /// Waits for the next event and handles it. Returns whether the command may print more.
    fn wait(&mut self, printing: bool) -> bool {
        let due = [
            self.side.deadline(),
            self.parts.clients.deadline(),
            self.resume_at,
            self.last_output.deadline(),
            self.paste.deadline(),
            self.parts.end_of_input.deadline(),
            self.person.deadline(),
        ];
        let due = due.into_iter().flatten().min();
        let idle = if self.is_starting() { Duration::from_millis(START_LOOK_MS) } else { IDLE };
        let timeout =
            due.map_or(idle, |deadline| Duration::from_millis(deadline.since(now())).min(idle));
        let takes_keys = self.side.wants_keys() && !self.parts.clients.is_pasting();
        if takes_keys && self.type_held_keys() {
            return true;
        }
        let keys =
            if takes_keys || self.holds_keys() { self.channels.keys.clone() } else { never() };
        let printed = if printing { self.channels.printed.clone() } else { never() };
        let activity_answer = self.activity.answer.clone().unwrap_or_else(never);
        // Unread events fill the client's channel and then the daemon's queue, so senders get BUSY.
        let events = if self.side.wants_messages() { self.events.clone() } else { never() };
        // Waits for: its channels and that of `client`, until a deadline. Before it types: the
        // system, for which program reads (on Windows a console's member server: 1 s, at first 5
        // s).
        select! {
            recv(printed) -> bytes => match bytes {
                Ok(bytes) => self.printed(&bytes),
                Err(_) => return false,
            },
            recv(keys) -> bytes => match bytes {
                Ok(bytes) if takes_keys => self.person_keys(&bytes),
                Ok(bytes) => self.hold_keys(&bytes),
                Err(_) => {
                    self.channels.keys = never();
                    self.parts.end_of_input.begin(now());
                }
            },
            recv(self.recorded) -> event => match event {
                Ok(event) => self.follow_transcript(event),
                // The thread that reads transcripts panicked, which the panic hook reported.
                Err(_) => self.recorded = never(),
            },
            recv(activity_answer) -> answer => {
                self.activity.answered(now(), &self.client, answer.ok());
            }
            recv(self.channels.events) -> event => match event {
                Ok(event) => self.thread_event(event),
                Err(_) => {
                    // The thread that waits for the command reports its end, unless it panics.
                    self.exit_code.get_or_insert(1);
                    self.channels.events = never();
                }
            },
            recv(self.signals) -> signal => match signal {
                Ok(signal) => self.signal(signal),
                // This wrapper does not listen for signals.
                Err(_) => self.signals = never(),
            },
            recv(events) -> event => match event {
                Ok(event) => self.event(event),
                Err(_) => self.events = never(),
            },
            recv(self.parts.waker.failed) -> id => {
                self.inputs.extend(id.ok().map(Input::NotWoken));
            },
            recv(self.parts.clients.events) -> event => match event {
                Ok((id, event)) => self.client_event(id, event),
                // The server's threads have panicked.
                Err(_) => self.parts.clients.events = never(),
            },
            default(timeout) => {},
        }
        true
    }

    fn is_starting(&self) -> bool {
        now().since(self.started) < START_MS
    }

    fn tick_if_due(&mut self) {
        if self.is_starting() && self.parts.foreground.may_have_changed() {
            self.update_reader();
        }
        if self.side.deadline().is_some_and(|deadline| deadline <= now()) {
            if self.parts.foreground.may_have_changed() {
                self.update_reader();
            }
            self.input(Input::Tick);
            self.take_inputs();
        }
    }

    /// Types a person's keys, from this terminal or an attached one.
    fn keys(&mut self, keys: &[u8]) {
        if find_ctrl(keys, b'z').is_some() {
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

    /// Passes the end of piped input on to a program that reads lines.
    fn pass_end_of_input_if_due(&mut self) {
        if self.parts.end_of_input.take_due(now())
            && !self.side.recipe().raw_mode
            && let Some(keys) = self.pty.end_of_input()
        {
            self.keys(&keys);
        }
    }

    /// Whether to stop waiting for the output of the ended command. The driver waits for a terminal
    /// that takes no output, unless the wrapper was asked to end.
    fn last_output_is_given_up(&mut self) -> bool {
        let is_blocked = self.threads.screen.is_busy();
        if is_blocked && !self.is_ending {
            self.last_output.blocked(now());
        } else if !self.channels.printed.is_empty() {
            self.last_output.printed(now());
        }
        match self.last_output.remedy(now()) {
            None => return false,
            Some(Remedy::HangUp) if !is_blocked => {}
            Some(Remedy::HangUp | Remedy::GiveUp) => {
                tracing::warn!("the command has ended, but its output has not");
                return true;
            }
        }
        self.leave();
        false
    }

    /// Hangs up the processes that the command has left behind in its terminal.
    fn leave(&self) {
        if let Err(error) = self.pty.leave() {
            tracing::warn!("{error}");
        }
    }

    fn printed(&mut self, bytes: &[u8]) {
        self.last_output.printed(now());
        if let Some(follower) = &self.parts.follower {
            follower.wake();
        }
        let is_due = self.looked_at.is_none_or(|at| now().since(at) >= LOOK_MS);
        let mut rest = bytes;
        while let Some(mark) = self.parts.inner_marks.find(rest) {
            let (until_mark, behind) = rest.split_at(mark.length);
            self.input(Input::Printed(until_mark));
            self.input(Input::InnerOutput(mark.begins));
            rest = behind;
        }
        self.input(Input::Printed(rest));
        self.parts.clients.printed(bytes);
        if is_due {
            self.looked_at = Some(now());
            if self.parts.foreground.may_have_changed() {
                self.update_reader();
            }
        }
    }

    /// Determines the program that reads the terminal, and tells the terminal side.
    fn update_reader(&mut self) {
        self.identify();
        self.take_inputs();
    }

    /// Determines the program that reads the terminal, for the next input.
    fn identify(&mut self) {
        let reader = self.parts.foreground.reader();
        let gathers_lines = self.pty.gathers_lines() == Some(true);
        self.inputs.push_back(Input::Reads { reader, gathers_lines });
    }

    fn follow_transcript(&mut self, event: transcripts::Event) {
        match event {
            transcripts::Event::Opened(id, path) => drop(self.transcripts.insert(id, path)),
            transcripts::Event::Closed(id) => drop(self.transcripts.remove(&id)),
            transcripts::Event::Owned(id) => self.input(Input::Owned(id)),
            transcripts::Event::Recorded(id, record) => self.input(Input::Recorded(id, record)),
            transcripts::Event::Searched { at, is_alone } => {
                self.input(Input::Searched { at, is_alone })
            }
        }
    }

    /// Reads the rest of the transcript, after the command's end.
    fn read_to_the_end(&mut self) {
        let Some(follower) = self.parts.follower.take() else { return };
        self.recorded = never();
        follower.finish(LAST_MESSAGES_MS, |event| {
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
        self.side.handle(now(), input, &mut out);
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
            Output::Identify => self.identify(),
            Output::Send(handle, message, hops) => self.send(handle, message, hops),
            Output::Expand(mut message) => {
                let directory = self.parts.directory.as_deref().map(Path::new);
                let sender = Sender { name: Some(self.client.name()), directory };
                let mut members = teams::members(&self.parts.home, &message.to, &sender);
                if let Ok(names) = &members
                    && names.len() > 1
                {
                    match message::meta_of_several(&message, names.len()) {
                        Ok(meta) => message.meta = Some(meta),
                        Err(why) => members = Err(why),
                    }
                }
                // Sent at once, so that no later message of the agent's overtakes this one.
                self.input(Input::Expanded(message, members));
            }
            Output::Report(id, progress) => self.report(id, progress),
            Output::Acknowledge(id) => self.client.acknowledge(&id),
            Output::Return(id, after_ms) => {
                let why = "the agent takes no more messages now";
                self.client.return_delivery(&id, NackCode::AgentOffline, why, Some(after_ms));
            }
            Output::Hooked(caller, text) => self.answer_hook(caller, text),
            Output::Wake { arguments, session, text, id } => {
                self.parts.waker.wake(arguments, session, text, id);
            }
            Output::Taken(caller, taken) => self.answer_taker(caller, taken),
            Output::Activity(doing) => {
                self.person.does(now(), doing.activity);
                if !matches!(doing.activity, Activity::Starting | Activity::Ended)
                    && let Some(record) = &mut self.parts.agent_record
                {
                    record.take_prompts();
                }
                self.activity.does(now(), &self.client, doing);
            }
            Output::Counted(caller, hops) => {
                self.parts.clients.answer(now(), caller.0, &control::Answer::Counted { hops });
            }
            Output::Log(line) => tracing::info!("{line}"),
        }
    }

    fn report(&self, id: String, progress: Progress) {
        let (state, why) = match progress {
            Progress::Waiting(why) => (DeliveryState::Waiting, Some(self.explain(why))),
            Progress::Unhindered => (DeliveryState::Waiting, None),
            Progress::Injected => (DeliveryState::Injected, None),
            Progress::Confirmed => (DeliveryState::Confirmed, None),
        };
        let report = ReportRequest { id, state: state.to_string(), why };
        if let Err(error) = self.client.report(&report) {
            tracing::debug!("a message's progress cannot be reported: {error}");
        }
    }

    /// Returns a sentence about an obstacle, with the remedy.
    fn explain(&self, why: Obstacle) -> String {
        why.words(self.client.name(), self.side.reader().name())
    }

    /// Sends the agent's message, as an answer if a question waits for it.
    fn send(&mut self, handle: SendHandle, outgoing: OutgoingMessage, hops: Option<LoopCount>) {
        self.has_messages = true;
        let is_to_person = outgoing.to == OPERATOR;
        let sent = match self.questions.answer(now(), &outgoing) {
            Some(reply) => self.reply(handle, reply),
            None => message::to_send(outgoing, hops)
                .and_then(|message| self.client.send(message).map_err(|e| e.to_string()))
                .map(|id| {
                    self.in_flight.add(id, handle);
                    self.person.sent(handle, is_to_person);
                }),
        };
        if let Err(why) = sent {
            let (handle, cause) = (Some(handle), FailureCause::Unsent);
            let refusal = DeliveryFailure { handle, id: None, to: None, cause, why };
            self.inputs.push_back(Input::Undelivered(refusal));
        }
    }

    /// Sends an answer to a question. The daemon does not confirm answers; it only reports
    /// failures.
    fn reply(&mut self, handle: SendHandle, reply: Reply) -> Result<(), String> {
        let id = SendId(reply.delivery_id.clone());
        self.client.reply(reply).map_err(|error| error.to_string())?;
        self.in_flight.settle(id, handle);
        Ok(())
    }

    /// Hands the next piece to the thread that types, which holds one at a time.
    fn type_next(&mut self) {
        if !self.is_typing
            && let Some(bytes) = self.to_type.pop_front()
        {
            // If the thread has ended, the command's terminal has ended, too.
            self.is_typing = self.channels.typing.try_send(bytes).is_ok();
        }
    }

    fn thread_event(&mut self, event: ThreadEvent) {
        match event {
            ThreadEvent::Typed(bytes) => {
                self.is_typing = false;
                self.type_next();
                self.input(Input::Written(bytes));
            }
            ThreadEvent::Added => self.person.added(&self.channels.additions),
            ThreadEvent::Ended(code) => {
                self.exit_code = Some(code);
                self.last_output.command_ended(now());
            }
            ThreadEvent::ScreenGone => self.hang_up(),
            ThreadEvent::FrontEnded => self.front_ended(),
        }
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            // The signal may come from a person, and not from a terminal that is gone.
            Signal::HangUp if self.attached && tty::is_terminal(Standard::Input) => {
                self.is_cut_off = true;
                self.end_command(GRACE_STOP);
            }
            Signal::HangUp => self.hang_up(),
            Signal::Stop => {
                self.is_cut_off = true;
                self.end_command(GRACE_STOP);
            }
            Signal::Resize => {
                if let Some(size) = tty::size().filter(|_| self.attached) {
                    self.resize_to(size);
                }
            }
            Signal::Break if self.side.wants_keys() => self.keys(pty::CTRL_BREAK),
            // In raw mode, Ctrl-Z is a key.
            Signal::Suspend => {}
            Signal::Break => tracing::warn!("Ctrl-Break is lost: the command reads no keys"),
        }
    }

    fn resize_to(&mut self, size: Size) {
        if let Err(error) = self.pty.resize(size) {
            tracing::warn!("{error}");
        }
        let Size { cols, rows } = size;
        self.input(Input::Resized { columns: cols.into(), rows: rows.into() });
        self.parts.clients.resized(size);
    }

    /// Ends the command on another thread, since the loop must continue to read the output.
    fn end_command(&mut self, grace: Duration) {
        if mem::replace(&mut self.is_ending, true) {
            return;
        }
        let pty = self.pty.clone();
        // Waits for: the command. Not joined: ends with it.
        let ended = spawn("end of the command", move || {
            if let Err(error) = pty.end(grace) {
                tracing::error!("{error}");
            }
        });
        // The thread is not joined: it ends with the command, and this driver waits for the command
        // anyway.
        if let Err(error) = ended {
            tracing::error!("the command cannot be ended: {error}");
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Delivered(delivery) if delivery.from == RELAY && delivery.kind == UNREAD => {
                let handle = delivery.reply_to.clone().map(SendId);
                let handle = handle.and_then(|id| self.in_flight.handle(&id));
                self.inputs.extend(message::unread(handle, &delivery).map(Input::Unread));
            }
            Event::Delivered(delivery) => {
                self.has_messages = true;
                self.questions.note(now(), &delivery);
                self.input(Input::Delivered(message::to_type(&delivery)));
            }
            Event::Accepted { send_id, away, .. } => {
                if let Some(handle) = self.in_flight.handle(&send_id) {
                    self.in_flight.settle(send_id, handle);
                    if self.person.accepted(handle) {
                        self.agent_wrote();
                    }
                    self.input(Input::Accepted { handle, away });
                }
            }
            Event::Refused { send_id, nack } => self.refused(send_id, nack),
            Event::Answered { send_id, answer, .. } => {
                self.input(Input::Delivered(message::answer_to_type(&send_id, &answer)));
            }
            Event::State(state) => {
                let is_connected = matches!(state, ConnectionState::Ready(_));
                self.activity.connected(is_connected);
                self.input(Input::Connected(is_connected));
            }
            Event::Ended(ended) => {
                self.input(Input::Rejected { why: ended.to_string(), is_permanent: true });
                self.fail_in_flight();
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
        let handle = self.in_flight.handle(&id);
        // One recipient's refusal does not settle a message to several recipients.
        if let Some(handle) = handle.filter(|_| nack.to.is_none()) {
            self.in_flight.settle(id, handle);
            self.person.accepted(handle);
        }
        self.input(Input::Undelivered(message::failure(handle, nack)));
    }

    /// Fails all messages without an answer, after the connection has ended for good.
    fn fail_in_flight(&mut self) {
        for (id, handle) in self.in_flight.take_unanswered() {
            self.input(Input::Undelivered(DeliveryFailure {
                handle: Some(handle),
                id: Some(id.0),
                to: None,
                cause: FailureCause::Unanswered,
                why: "the relay went away and had not answered for it".to_owned(),
            }));
        }
    }

    /// Waits until the daemon has answered for the command's last messages, for a limited time.
    fn await_answers(&mut self) {
        let until = now().plus(LAST_MESSAGES_MS);
        // The wait also happens while there is no daemon, since one may be starting.
        while !self.in_flight.is_settled() {
            let left = Duration::from_millis(until.since(now()));
            match self.events.recv_timeout(left) {
                Ok(event) => self.event(event),
                Err(_) => return,
            }
        }
    }
}
