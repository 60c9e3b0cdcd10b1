//! Tests of the terminal side's invariants under random inputs.

use crate::{
    Caller, DeliveryFailure, FailureCause, IncomingMessage, Input, Output, SendHandle, Settings,
    Taken, TerminalSide,
    keyboard::Reader,
    keys::InputLine,
    obstacle::Obstacle,
    oracle::{Fate, Fates, Ticks, is_terminal_answer, typed_lines},
    tests::script::{frames_in, reader, settings},
};
use proptest::prelude::*;
use protocol::{
    Moment,
    code::NackCode,
    hook::{Frame, Point, Report},
};
use std::collections::HashSet;

/// An input for a terminal side, sensible or not.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Print(Vec<u8>),
    Keys(&'static str),
    Message(String),
    Refuse(u64, String),
    Stall,
    Drain,
    Resize(usize, usize),
    /// Whether the command has the terminal's foreground, rather than a shell.
    Foreground(bool),
    Hold(bool),
    /// A hook reports, with or without the frames that were handed over so far.
    Hook(Point, bool),
    /// The last answered hook had ended.
    HookGone,
    HookUnconfirmed,
    /// A command of the agent takes all messages.
    Take,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let printed = prop_oneof![
        Just(b"\x1b[?2004h> ".to_vec()),
        Just(b"\x1b[?2004l$ ".to_vec()),
        Just(b"\r\n$ ".to_vec()),
        Just(b"\r\n>>> ".to_vec()),
        Just(b"\x1b[?1049h".to_vec()),
        Just(b"\x1b[?1049l".to_vec()),
        Just(b"\x1b[c\x1b[6n\x1b[>c\x1b[18t\x1b]11;?\x07\x1bP$qm\x1b\\\x1b[21t".to_vec()),
        Just(b"\r\n->relay:Bob <<<\r\nhi>>>\r\n> ".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let keys = prop_oneof![
        Just("x"),
        Just("\r"),
        Just("\n"),
        Just("\x1b[A"),
        Just("\x1b[5;5R"),
        Just("\x03"),
        Just("\x1b"),
        Just("\x1b_"),
        Just("P"),
    ];
    let body =
        prop_oneof![Just("hello".to_owned()), Just("\x1b[201~\rrm\r".to_owned()), any::<String>()];
    let point = prop_oneof![
        Just(Point::PromptSubmitted),
        Just(Point::ToolEnded),
        Just(Point::TurnEnded),
        Just(Point::SessionEnded),
        Just(Point::SessionCompacts),
        Just(Point::Waits),
    ];
    let event = prop_oneof![
        3 => (0_u64..3000).prop_map(Event::Wait),
        3 => printed.prop_map(Event::Print),
        2 => keys.prop_map(Event::Keys),
        2 => body.clone().prop_map(Event::Message),
        2 => (0_u64..3, body).prop_map(|(number, why)| Event::Refuse(number, why)),
        1 => Just(Event::Stall),
        2 => Just(Event::Drain),
        1 => (1_usize..200, 1_usize..60).prop_map(|(c, r)| Event::Resize(c, r)),
        1 => any::<bool>().prop_map(Event::Foreground),
        1 => any::<bool>().prop_map(Event::Hold),
        2 => (point, any::<bool>()).prop_map(|(point, shows)| Event::Hook(point, shows)),
        1 => Just(Event::HookGone),
        1 => Just(Event::HookUnconfirmed),
        1 => Just(Event::Take),
    ];
    prop::collection::vec(event, 0..60)
}

/// A checker that runs events on a terminal side, and checks every write against the earlier ones.
struct Checker {
    side: TerminalSide,
    attached: bool,
    now: Moment,
    /// The reader while the command has the foreground.
    command_reader: Reader,
    stalled: Option<usize>,
    /// Keys that were pressed and have not reached the child's terminal.
    keys: Vec<u8>,
    awaits_enter: bool,
    messages: Fates,
    /// The frames that were handed over without typing.
    frames: Vec<Frame>,
    last_caller: u64,
    /// The hooks and commands without an answer.
    waiting: HashSet<u64>,
}

impl Checker {
    fn new(command: &str, attached: bool) -> Self {
        let settings = Settings { attached, ..settings(command) };
        let mut side = TerminalSide::new(&settings);
        let command_reader = reader(&settings.recipe);
        side.injector.assume_reader(command_reader.clone());
        let (now, messages, keys) = (Moment(0), Fates::default(), Vec::new());
        Self {
            side,
            attached,
            now,
            command_reader,
            stalled: None,
            keys,
            awaits_enter: false,
            messages,
            frames: Vec::new(),
            last_caller: 0,
            waiting: HashSet::new(),
        }
    }

    fn run(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Wait(ms) => self.advance(self.now.plus(ms)),
            Event::Print(bytes) => self.input(Input::Printed(&bytes)),
            Event::Keys(keys) => {
                self.keys.extend_from_slice(keys.as_bytes());
                self.input(Input::Keys(keys.as_bytes()))
            }
            Event::Message(body) => {
                let id = format!("id-{}", self.messages.len());
                self.messages.deliver(&id);
                self.input(Input::Delivered(IncomingMessage {
                    id,
                    body,
                    from: "Ann".into(),
                    ..IncomingMessage::default()
                }))
            }
            Event::Refuse(number, why) => self.input(Input::Undelivered(DeliveryFailure {
                handle: Some(SendHandle(number)),
                id: Some(why.clone()),
                to: Some(why.clone()),
                cause: FailureCause::Nack(NackCode::Refused),
                why,
            })),
            Event::Stall => {
                self.stalled.get_or_insert(0);
                Ok(())
            }
            Event::Drain => {
                let bytes = self.stalled.take().unwrap_or(0);
                self.input(Input::Written(bytes))
            }
            Event::Resize(columns, rows) => self.input(Input::Resized { columns, rows }),
            Event::Foreground(true) => self.reads(self.command_reader.clone()),
            Event::Foreground(false) => {
                self.reads(Reader::Barred(Obstacle::Shell, Some("bash".to_owned())))
            }
            Event::Hold(held) => self.input(Input::Held(held)),
            Event::Hook(point, shows) => {
                let frames = if shows { self.frames.clone() } else { Vec::new() };
                let caller = self.next_caller();
                let report = Report { forgets: shows, ..Report::new(point, frames) };
                self.input(Input::Hooked(caller, report))
            }
            Event::HookUnconfirmed => self.input(Input::HookUnconfirmed(Caller(self.last_caller))),
            Event::HookGone => self.input(Input::HookGone(Caller(self.last_caller))),
            Event::Take => {
                let caller = self.next_caller();
                self.input(Input::Take(caller, None))
            }
        }
    }

    fn next_caller(&mut self) -> Caller {
        self.last_caller += 1;
        self.waiting.insert(self.last_caller);
        Caller(self.last_caller)
    }

    fn answered(&mut self, caller: Caller, text: Option<String>) -> Result<(), TestCaseError> {
        prop_assert!(self.waiting.remove(&caller.0), "two answers for {caller:?}");
        self.frames.extend(text.iter().flat_map(|text| frames_in(text)));
        Ok(())
    }

    fn advance(&mut self, until: Moment) -> Result<(), TestCaseError> {
        let mut ticks = Ticks::default();
        while ticks.next(&self.side, &mut self.now, until) {
            self.input(Input::Tick)?;
        }
        Ok(())
    }

    fn input(&mut self, input: Input<'_>) -> Result<(), TestCaseError> {
        let mut out = Vec::new();
        self.side.handle(self.now, input, &mut out);
        let (mut written, mut identifies) = (0, false);
        for output in out {
            match output {
                Output::Write(bytes) => {
                    self.check_write(&bytes)?;
                    match &mut self.stalled {
                        Some(stalled) => *stalled += bytes.len(),
                        None => written += bytes.len(),
                    }
                }
                Output::Acknowledge(id) => self.messages.decide(&id, Fate::Acknowledged),
                Output::Return(id, _) => self.messages.decide(&id, Fate::Returned),
                Output::Hooked(caller, text) => self.answered(caller, text)?,
                Output::Taken(caller, Taken::Text(text)) => self.answered(caller, Some(text))?,
                Output::Taken(caller, _) => self.answered(caller, None)?,
                Output::Wake { .. } => prop_assert!(false, "no conversation is known"),
                Output::Send(..)
                | Output::Report(..)
                | Output::Activity(_)
                | Output::Counted(..)
                | Output::Expand(..)
                | Output::Log(_) => {}
                Output::Identify => identifies = true,
            }
        }
        if identifies {
            self.reads(self.side.reader().clone())?;
        }
        if written > 0 { self.input(Input::Written(written)) } else { Ok(()) }
    }

    fn reads(&mut self, reader: Reader) -> Result<(), TestCaseError> {
        self.input(Input::Reads { reader, gathers_lines: false })
    }

    fn check_write(&mut self, bytes: &[u8]) -> Result<(), TestCaseError> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let is_barred = *self.side.reader() != self.command_reader;
        let is_enter = self.awaits_enter && bytes == b"\r" && !is_barred;
        if self.keys.starts_with(bytes) && !is_enter {
            let no_key = !InputLine::default().press(self.now, bytes, "", false).any;
            prop_assert!(
                !self.awaits_enter || no_key || is_barred,
                "{text:?} between a text and its Enter"
            );
            self.keys.drain(..bytes.len());
        } else if self.awaits_enter && bytes == b"\r" {
            prop_assert_eq!(self.side.reader(), &self.command_reader, "an Enter for a shell");
            self.awaits_enter = false;
        } else if text.contains("[relay ") {
            prop_assert_eq!(self.side.reader(), &self.command_reader, "a frame for a shell");
            prop_assert!(!self.awaits_enter, "two frames, one Enter");
            self.awaits_enter = true;
            typed_lines(&text);
        } else {
            prop_assert!(!self.attached, "{text:?} is no key, frame or answer");
            prop_assert!(is_terminal_answer(bytes), "{text:?}");
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn only_keys_frames_and_answers_reach_the_child(
        events in events(),
        command in prop_oneof![Just("agent"), Just("bash"), Just("claude")],
        attached in any::<bool>(),
    ) {
        let mut checker = Checker::new(command, attached);
        for event in events {
            checker.run(event)?;
        }
        checker.run(Event::Drain)?;
        checker.advance(checker.now.plus(200_000))?;
        prop_assert!(checker.keys.is_empty(), "keys were held back: {:?}", checker.keys);
        prop_assert!(checker.waiting.len() <= 1, "hooks got no answer: {:?}", checker.waiting);
        checker.input(Input::ChildGone)?;
        checker.messages.check_end();
    }
}
