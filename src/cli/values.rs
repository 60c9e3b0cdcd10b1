//! Kinds of values on the command line. The placeholder of a value in help texts determines its
//! kind, and the kind determines how the value is described, checked and completed.

use super::moment;
use crate::wrap::attach::DetachKey;
use machines::selector::Selector;
use platform::clock;
use protocol::{
    name::{Host, Name},
    payload::{IMPORTANCE_MAX, THREAD_BYTES_MAX},
    relay::ChangeKind,
    topic::Pattern,
};

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The name of another agent. The command or the daemon checks it.
    Agent,
    /// Agents of one machine: a name or a pattern.
    Agents,
    /// A message's body, or `-` for standard input.
    Body,
    /// A command to run, with its arguments.
    Command,
    /// The number of messages to show or to send.
    Count,
    /// The key that detaches from an attached agent.
    DetachKey,
    Directory,
    Duration,
    Endpoint,
    /// The kind of an event.
    Event,
    File,
    Importance,
    /// A machine.
    Host,
    /// A label of a conversation.
    Label,
    /// A moment in the past.
    Moment,
    MessageId,
    /// A name that the command itself joins under.
    Name,
    /// A name of an agent or of a file.
    NameOrFile,
    /// A number of rows or columns.
    Size,
    Recipient,
    Shell,
    Topic,
    TopicPattern,
    /// A state of an agent that `wait` waits for.
    State,
    /// A user of the system.
    User,
    /// Words to search for.
    Words,
}

/// The kind of each placeholder.
const KINDS: [(&str, Kind); 26] = [
    ("agent", Kind::Agent),
    ("body", Kind::Body),
    ("command", Kind::Command),
    ("agents", Kind::Agents),
    ("count", Kind::Count),
    ("key", Kind::DetachKey),
    ("dir", Kind::Directory),
    ("time", Kind::Duration),
    ("endpoint", Kind::Endpoint),
    ("kind", Kind::Event),
    ("file", Kind::File),
    ("number", Kind::Importance),
    ("host", Kind::Host),
    ("label", Kind::Label),
    ("moment", Kind::Moment),
    ("id", Kind::MessageId),
    ("name", Kind::Name),
    ("name-or-file", Kind::NameOrFile),
    ("size", Kind::Size),
    ("to", Kind::Recipient),
    ("shell", Kind::Shell),
    ("state", Kind::State),
    ("topic", Kind::Topic),
    ("pattern", Kind::TopicPattern),
    ("user", Kind::User),
    ("words", Kind::Words),
];

/// The shells with completions.
pub(super) const SHELLS: [&str; 4] = ["bash", "zsh", "fish", "powershell"];

/// The values that a shell offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Files,
    Directories,
    /// A word of a fixed list.
    Words(&'static [&'static str]),
    /// No words: only the user knows the value.
    Nothing,
}

impl Kind {
    /// The kind of value that a placeholder means.
    pub(super) fn of(placeholder: &str) -> Option<Self> {
        KINDS.iter().find(|(known, _)| *known == placeholder).map(|(_, kind)| *kind)
    }

    /// Describes a value, with its article.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Agent | Self::Name => "the name of an agent",
            Self::Agents => "the name of an agent, or a pattern such as web-*",
            Self::Body => "a text, or - for standard input",
            Self::Command => "a command and its arguments",
            Self::Count => "a number of messages",
            Self::DetachKey => "a key, such as ctrl-]",
            Self::Directory => "a directory",
            Self::Duration => "a time, such as 60s or 5m",
            Self::Endpoint => "the path of a socket, or the name of a pipe",
            Self::Event => "message, answer or agent",
            Self::File => "a file",
            Self::Importance => "a number from 0 to 100",
            Self::Host => "a name for a machine",
            Self::Label => "a label",
            Self::Moment => "a moment, such as 2h, 14:00, yesterday, or 2026-11-23 14:00",
            Self::MessageId => "the id of a message",
            Self::NameOrFile => "the name of an agent, or a file",
            Self::Size => "a number of columns or rows",
            Self::Recipient => "the name of an agent, or *",
            Self::Shell => "bash, zsh, fish or powershell",
            Self::State => "idle, ended or message",
            Self::Topic => "a topic",
            Self::TopicPattern => "a topic, with * and > as wildcards",
            Self::User => "the name of a user",
            Self::Words => "words to search for",
        }
    }

    /// Returns how shells complete a value.
    pub(super) const fn completion(self) -> Completion {
        match self {
            Self::File | Self::NameOrFile | Self::Endpoint | Self::Command => Completion::Files,
            Self::Directory => Completion::Directories,
            Self::Shell => Completion::Words(&SHELLS),
            Self::State => Completion::Words(&Awaited::WORDS),
            Self::Event => Completion::Words(&EVENT_KINDS),
            _ => Completion::Nothing,
        }
    }

    /// Checks a value as far as that is possible without a daemon or a file.
    pub(super) fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Agents => selector(value).map(drop),
            Self::Count => count(value).map(drop),
            Self::DetachKey => value.parse::<DetachKey>().map(drop),
            Self::Duration => milliseconds(value).map(drop),
            Self::Event => event_kind(value).map(drop),
            Self::Importance => importance(value).map(drop),
            Self::Host => host(value).map(drop),
            Self::Label => label(value).map(drop),
            Self::Moment => moment(value).map(drop),
            Self::Name => agent_name(value).map(drop),
            Self::Size => size(value).map(drop),
            Self::State => awaited(value).map(drop),
            Self::TopicPattern => topic_pattern(value).map(drop),
            _ => Ok(()),
        }
    }
}

/// The kinds of events that can be selected.
const EVENT_KINDS: [&str; 3] =
    [ChangeKind::Message.as_str(), ChangeKind::Answer.as_str(), ChangeKind::Agent.as_str()];

/// Parses the kind of an event.
pub(super) fn event_kind(text: &str) -> Result<ChangeKind, String> {
    let known = ChangeKind::parse(text).filter(|kind| EVENT_KINDS.contains(&kind.as_str()));
    known.ok_or_else(|| format!("give {}", Kind::Event.description()))
}

/// A state of an agent that `wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Idle,
    Ended,
    /// A message waits for the agent.
    Message,
}

impl Awaited {
    const ALL: [Self; 3] = [Self::Idle, Self::Ended, Self::Message];
    const WORDS: [&'static str; 3] = [Self::Idle.word(), Self::Ended.word(), Self::Message.word()];

    /// Returns the word on the command line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ended => "ended",
            Self::Message => "message",
        }
    }
}

/// Parses a state that `wait` waits for.
pub(super) fn awaited(text: &str) -> Result<Awaited, String> {
    let found = Awaited::ALL.into_iter().find(|state| state.word() == text);
    found.ok_or_else(|| format!("give {}", Kind::State.description()))
}

/// Parses the name of an agent of this machine or another one.
pub(super) fn agent_of_any_machine(text: &str) -> Result<String, String> {
    Name::parse_any(text)
        .map(|name| name.as_str().to_owned())
        .map_err(|error| format!("{text:?}: {error}"))
}

/// Parses the name of an agent of this machine.
pub(super) fn agent_name(text: &str) -> Result<String, String> {
    let name = Name::parse(text).map_err(|error| error.to_string())?;
    Ok(name.as_str().to_owned())
}

/// Parses the name of an agent of one machine, or a pattern of such names.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    Selector::parse(text)
}

/// Parses a topic in which `*` and `>` are wildcards.
pub(super) fn topic_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

/// Parses the name of a machine.
pub(super) fn host(text: &str) -> Result<Host, String> {
    Host::parse(text).map_err(|error| error.to_string())
}

/// Parses a number of messages.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "give a whole number of messages, 1 at least".to_owned())
}

/// Parses the label of a conversation.
pub(super) fn label(text: &str) -> Result<String, String> {
    let is_short = text.len() <= THREAD_BYTES_MAX;
    is_short
        .then(|| text.to_owned())
        .ok_or_else(|| format!("give a label of at most {THREAD_BYTES_MAX} bytes"))
}

/// Parses a moment in the past into milliseconds since 1970: a time ago (`2h`), or a text for
/// [`moment::parse`].
pub(super) fn moment(text: &str) -> Result<u64, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_lowercase());
    let ago = milliseconds(text).ok().filter(|_| has_unit);
    let moment = ago.map(|ago| clock::unix_ms().saturating_sub(ago));
    let moment = moment.or_else(|| moment::parse(text));
    moment.ok_or_else(|| format!("give {}", Kind::Moment.description()))
}

/// Parses the importance of a message.
pub(super) fn importance(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| *number <= IMPORTANCE_MAX);
    number.ok_or_else(|| format!("give a whole number from 0 to {IMPORTANCE_MAX}"))
}

/// Parses a number of columns or rows.
pub(super) fn size(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u16::MAX))
}

/// Parses a time into milliseconds: `500ms`, `60s`, `5m`, `2h`, `1d`; a bare number is seconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    const NO_TIME: &str =
        "give a whole number and ms, s, m, h or d, such as 60s; a bare number is seconds";
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(NO_TIME.to_owned()),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NO_TIME.to_owned());
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(0) => Err("give more than 0".to_owned()),
        Some(ms) => Ok(ms),
        None => Err("the time is too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn placeholders_are_unique_and_have_kinds() {
        let placeholders: BTreeSet<_> = KINDS.iter().map(|(placeholder, _)| placeholder).collect();
        assert_eq!(placeholders.len(), KINDS.len());
        for (placeholder, kind) in KINDS {
            assert_eq!(Kind::of(placeholder), Some(kind));
            assert!(!kind.description().is_empty());
        }
        assert_eq!(Kind::of("nonsense"), None);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(milliseconds("60"), Ok(60_000));
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("2h"), Ok(7_200_000));
        for (wrong, reason) in [
            ("", "such as 60s"),
            ("s", "such as 60s"),
            ("-1s", "such as 60s"),
            ("+1s", "such as 60s"),
            ("1.5s", "such as 60s"),
            ("1w", "a bare number is seconds"),
            ("0s", "more than 0"),
            ("0", "more than 0"),
            ("99999999999999999999d", "too long"),
            ("999999999999999999d", "too long"),
        ] {
            let error = milliseconds(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
