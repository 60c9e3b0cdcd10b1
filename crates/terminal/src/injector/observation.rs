//! An observation: the facts that are known about an agent's terminal at a moment.

use super::interference::Interference;
use crate::{
    keyboard::Reader,
    obstacle::Obstacle,
    recipe::{Recipe, Shown},
};
use protocol::{Moment, control::Fact};

/// A source of a fact. If several sources say that the agent works, the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Hooks,
    Transcript,
    Processes,
    Screen,
    Keyboard,
    Person,
    Relay,
}

/// The facts that deliveries depend on.
#[derive(Clone, Debug)]
pub(super) struct Observation<'a> {
    /// The program's recipe, including its times.
    pub(super) recipe: &'a Recipe,
    /// The program that reads the terminal, according to its processes.
    pub(super) reader: &'a Reader,
    /// The composer, the question and the sign of work on the screen.
    pub(super) shown: Shown,
    /// Whether the program is in the middle of a synchronized update.
    pub(super) is_synchronizing: bool,
    /// The source that says that the agent works or is about to.
    pub(super) work: Option<Source>,
    /// Whether the screen has a sign of work that counts.
    pub(super) shows_work: bool,
    /// Whether a transcript says that the agent works.
    pub(super) is_recorded_at_work: bool,
    /// Whether the screen shows a message that the agent has not finished.
    pub(super) is_in_message: bool,
    /// Whether the agent may not have begun to work on the last prompt yet.
    pub(super) is_adopting: bool,
    /// Whether the program is known to record its prompts.
    pub(super) records_prompts: bool,
    /// Whether the program has printed nothing so far and may still be starting.
    pub(super) is_silent: bool,
    /// Whether the program has finished starting.
    pub(super) is_started: bool,
    /// When the program last printed.
    pub(super) printed_at: Option<Moment>,
    /// When the screen will be at rest, unless it changes before.
    pub(super) rests_at: Option<Moment>,
    /// When the person last pressed a key.
    pub(super) key_at: Option<Moment>,
    /// Whether the person's line is empty, according to keys and screen.
    pub(super) is_line_empty: bool,
    /// Whether the person has typed something since the last Enter, according to the keys.
    pub(super) has_draft: bool,
    /// Whether a key since the last Enter may have put a line editor into a mode for commands.
    pub(super) may_be_in_command_mode: bool,
    /// Whether the person holds the agent's messages.
    pub(super) is_held: bool,
    /// The number of bytes handed to the terminal.
    pub(super) handed_out: u64,
    /// Whether the terminal has not accepted all of them.
    pub(super) has_unwritten: bool,
    /// Whether a text waits to be typed.
    pub(super) has_next: bool,
    /// The text on its way, or the last one.
    pub(super) text: Option<TextFacts>,
}

/// The facts about the text on its way, or about the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextFacts {
    /// Whether the program that got the text still reads the terminal.
    pub(super) is_reader_here: bool,
    /// Whether no record has shown the text yet.
    pub(super) is_unconfirmed: bool,
    /// The person's keys that reached the program since.
    pub(super) interference: Interference,
    /// The person's keys that were kept back since.
    pub(super) kept: Interference,
}

impl TextFacts {
    fn words(self) -> String {
        let reader =
            if self.is_reader_here { "its program reads" } else { "another program reads" };
        let record = if self.is_unconfirmed { "not recorded" } else { "recorded" };
        let keys = |keys| match keys {
            Interference::None => "no keys",
            Interference::Keys => "keys",
            Interference::Enter => "an Enter",
        };
        let (passed, kept) = (keys(self.interference), keys(self.kept));
        format!("{reader}, {record}, {passed} of the person since, {kept} kept back")
    }
}

impl Observation<'_> {
    /// Whether the screen has been unchanged long enough for typing a text.
    pub(super) fn is_at_rest(&self, now: Moment) -> bool {
        self.rests_at.is_none_or(|at| at <= now)
    }

    /// Whether the program has printed within the last `ms` milliseconds.
    pub(super) fn printed_within(&self, now: Moment, ms: u64) -> bool {
        self.printed_at.is_some_and(|at| now.since(at) < ms)
    }

    /// Returns an obstacle if the program that got the text no longer reads the terminal.
    pub(super) fn reader_obstacle(&self) -> Option<Obstacle> {
        match self.reader {
            _ if self.text.is_none_or(|text| text.is_reader_here) => None,
            Reader::Barred(why, _) => Some(*why),
            _ => Some(Obstacle::OtherProgram),
        }
    }

    /// Returns the facts in words, each with its source, in the order that they are checked.
    pub(super) fn facts(&self, now: Moment) -> Vec<Fact> {
        let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
        let ago = |at: Option<Moment>| match at {
            Some(at) => format!("{} ms ago", now.since(at)),
            None => "never".to_owned(),
        };
        let form = match self.shown.form {
            Ok(_) => "empty".to_owned(),
            Err(why) => why.to_string(),
        };
        let (work, work_source) = match self.work {
            Some(source) => (true, source),
            None => (false, Source::Screen),
        };
        let text = self.text.map_or_else(|| "none".to_owned(), TextFacts::words);
        let busy = self.shown.busy.as_deref().unwrap_or("none").trim().to_owned();
        let fact = |name: &str, value, source: Source| {
            let source = format!("{source:?}").to_ascii_lowercase();
            Fact { name: name.to_owned(), value, source }
        };
        vec![
            fact("messages are held", yes(self.is_held), Source::Person),
            fact("reader", format!("{:?}", self.reader), Source::Processes),
            fact("program has started", yes(self.is_started && !self.is_silent), Source::Screen),
            fact("agent works", yes(work), work_source),
            fact("transcript shows work", yes(self.is_recorded_at_work), Source::Transcript),
            fact("sign of work", busy, Source::Screen),
            fact("sign of work counts", yes(self.shows_work), Source::Screen),
            fact("last prompt awaits its work", yes(self.is_adopting), Source::Relay),
            fact("question", yes(self.shown.asks), Source::Screen),
            fact("composer", form, Source::Screen),
            fact("composer holds our text", yes(self.shown.holds_own), Source::Screen),
            fact("agent is within a message", yes(self.is_in_message), Source::Screen),
            fact("last output", ago(self.printed_at), Source::Screen),
            fact("last key", ago(self.key_at), Source::Keyboard),
            fact("line is empty", yes(self.is_line_empty), Source::Keyboard),
            fact("person has a draft", yes(self.has_draft), Source::Keyboard),
            fact("line may be a command", yes(self.may_be_in_command_mode), Source::Keyboard),
            fact("screen is being painted", yes(self.is_synchronizing), Source::Screen),
            fact("prompts are recorded", yes(self.records_prompts), Source::Transcript),
            fact("terminal takes all", yes(!self.has_unwritten), Source::Relay),
            fact("last text", text, Source::Relay),
        ]
    }
}
