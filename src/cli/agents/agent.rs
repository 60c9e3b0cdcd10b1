//! An agent as people see it, in `agents` and `top`.

use super::{activity, context, is_finished, place::Place, presence};
use crate::cli::table::Column;
use protocol::{
    activity::{Activity, ActivitySource},
    control::{AgentState, Collision, Dialog},
    relay::AgentRow,
    text::escaped,
};
use std::path::Path;
use terminal::transcript::ContextUse;

/// The need of an agent for its person, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Need {
    /// The agent waits for the permission to use a tool.
    Permission,
    /// The agent waits for the answer to its question.
    Answer,
    /// A message for the agent cannot be typed, for a reason that its person can end.
    Message,
    /// The agent has finished its work, and its person has not looked since.
    Look,
    /// The agent needs nothing.
    Nothing,
}

/// The sort key of an agent in the list, compared field by field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct Rank {
    need: Need,
    is_away: bool,
    is_idle: bool,
    lower_name: String,
}

/// The text of a dialog on one line, escaped.
pub(super) fn on_one_line(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join(" · ")
}

/// A collision in words, escaped. A path in the agent's directory is relative to it.
pub(super) fn collision_words(collision: &Collision, directory: Option<&str>) -> String {
    let Collision { with, path, .. } = collision;
    let inside = directory.and_then(|base| Path::new(path).strip_prefix(base).ok()?.to_str());
    format!("same file as {}: {}", escaped(with), escaped(inside.unwrap_or(path)))
}

/// The columns of an agent's row. The first column marks agents that wait for their person, or have
/// finished unseen.
pub(in crate::cli) const COLUMNS: [Column; 8] = [
    Column::whole(" "),
    Column::cut("NAME", 10),
    Column::cut("PROGRAM", 8),
    Column::cut("WHERE", 10),
    Column::cut("STATE", 18),
    Column::whole("FOR"),
    Column::whole("MAIL"),
    Column::cut("WHY", 12),
];

/// An agent in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Agent {
    pub(in crate::cli) name: String,
    pub(in crate::cli) is_here: bool,
    /// Whether the agent is away, not expected back, and not on another machine.
    pub(in crate::cli) is_away: bool,
    /// The program that it runs, escaped; empty if it is not known.
    pub(in crate::cli) program: String,
    pub(in crate::cli) place: Place,
    pub(in crate::cli) is_working: bool,
    /// The state in words, escaped.
    pub(in crate::cli) state: String,
    /// The start of that state, in milliseconds since 1970.
    pub(in crate::cli) since: u64,
    /// The number of messages that wait.
    pub(in crate::cli) waiting: u64,
    /// The time when the oldest waiting message was accepted, if it is known.
    pub(in crate::cli) oldest: Option<u64>,
    /// The route of messages to the agent, in words.
    pub(in crate::cli) route: &'static str,
    /// The reason why messages wait, or a collision, escaped, and the time of that report.
    pub(in crate::cli) why: Option<(String, Option<u64>)>,
    /// Whether the person holds the agent's messages.
    pub(in crate::cli) is_held: bool,
    pub(in crate::cli) need: Need,
    /// The dialog of its CLI, if its choices are numbered.
    pub(in crate::cli) dialog: Option<Dialog>,
    /// How much of its model's context its conversation takes, if known from its transcript.
    pub(in crate::cli) context: Option<ContextUse>,
}

impl Agent {
    /// Builds the entry of an agent from its row, which is [`completed`](super::completed), and the
    /// state of its wrapper.
    pub(in crate::cli) fn of(row: &AgentRow<'_>, wrapper: Option<&AgentState>) -> Self {
        let is_held = wrapper.is_some_and(|wrapper| wrapper.held);
        let known = row.activity.as_deref().and_then(Activity::parse);
        let (state, since) = match activity(row) {
            Some((_, since)) if known == Some(Activity::AsksPerson) => {
                ("asks you".to_owned(), since)
            }
            Some((words, since)) => {
                let short = words.strip_prefix("is ").or_else(|| words.strip_prefix("has "));
                (short.unwrap_or(&words).to_owned(), since)
            }
            None => (presence(row), row.since),
        };
        let why = row.why.as_deref().filter(|_| row.waiting > 0);
        let collision = wrapper.and_then(|wrapper| wrapper.collisions.first()).map(|collision| {
            (collision_words(collision, row.directory.as_deref()), Some(collision.since))
        });
        let dialog = wrapper.and_then(|wrapper| wrapper.dialog.clone());
        let source = wrapper.and_then(|wrapper| wrapper.source.as_ref());
        let context = context::of(row.program.as_deref().unwrap_or_default(), source);
        let need = match known {
            Some(Activity::WaitsForPermission) => Need::Permission,
            Some(Activity::AsksPerson) => Need::Answer,
            _ if dialog.is_some() => Need::Answer,
            _ if why.is_some() && !is_held => Need::Message,
            _ if is_finished(row) => Need::Look,
            _ => Need::Nothing,
        };
        Self {
            name: row.name.clone().into_owned(),
            is_here: row.here,
            is_away: !row.here && !row.reconnecting && row.host.is_none(),
            program: row.program.as_deref().map(escaped).unwrap_or_default(),
            place: Place::of(row),
            is_working: known == Some(Activity::Working),
            state,
            since,
            waiting: row.waiting,
            oldest: None,
            route: route(row, wrapper.is_some()),
            why: why.map(|why| (escaped(why), row.why_since)).or(collision),
            is_held,
            need,
            dialog,
            context,
        }
    }

    /// Whether the agent is away and has no mail, so that lists summarize it with others.
    pub(in crate::cli) fn is_dormant(&self) -> bool {
        self.is_away && self.waiting == 0
    }

    /// The most important fact for a person, escaped: the question that the agent's CLI asks, or
    /// else the reason why messages wait, or a collision.
    fn reason(&self, now: u64) -> Option<String> {
        if let Some(dialog) = &self.dialog {
            return Some(on_one_line(&dialog.text));
        }
        let (why, since) = self.why.as_ref()?;
        Some(match since {
            Some(since) => format!("{}: {why}", age(*since, now)),
            None => why.clone(),
        })
    }

    /// Whether the agent waits for its person.
    pub(in crate::cli) fn needs_person(&self) -> bool {
        self.need < Need::Look
    }

    /// Whether the agent asks its person something, or for permission.
    pub(in crate::cli) fn asks_person(&self) -> bool {
        matches!(self.need, Need::Permission | Need::Answer)
    }

    /// Whether the agent's row contains a text, in any case.
    pub(in crate::cli) fn contains(&self, lower: &str) -> bool {
        let shown = [&self.name, &self.program, &self.place.path, &self.place.short, &self.state];
        let why = self.why.as_ref().map(|(why, _)| why);
        let mut texts = shown.into_iter().chain(why);
        lower.is_empty() || texts.any(|text| text.to_lowercase().contains(lower))
    }

    /// The place in the list: agents that wait for their person come first, then agents that have
    /// finished unseen, working agents, and the other connected ones.
    pub(in crate::cli) fn rank(&self) -> Rank {
        Rank {
            need: self.need,
            is_away: !self.is_here,
            is_idle: !self.is_working,
            lower_name: self.name.to_lowercase(),
        }
    }

    /// The cells of the agent's row at a moment, for [`COLUMNS`].
    pub(in crate::cli) fn cells(&self, now: u64) -> Vec<String> {
        let mark = match self.need {
            Need::Permission | Need::Answer | Need::Message => "!",
            Need::Look => "✓",
            Need::Nothing => "",
        };
        let held = if self.is_held { ", held" } else { "" };
        let waiting = Some(self.waiting).filter(|count| *count > 0);
        vec![
            mark.to_owned(),
            escaped(&self.name),
            self.program.clone(),
            self.place.short.clone(),
            format!("{}{held}", self.state),
            age(self.since, now),
            waiting.map(|count| count.to_string()).unwrap_or_default(),
            self.reason(now).unwrap_or_default(),
        ]
    }

    /// The agent's directory, the route of its messages, and the waiting ones.
    pub(in crate::cli) fn details(&self, now: u64) -> String {
        let place = match &*self.place.path {
            "" => String::new(),
            path => format!("{path}; "),
        };
        let mut details = format!("{}: {place}{}", escaped(&self.name), self.route);
        if self.waiting > 0 {
            details.push_str(&format!("; {} waiting", self.waiting));
        }
        if let Some(oldest) = self.oldest.filter(|_| self.waiting > 0) {
            details.push_str(&format!(", the oldest for {}", age(oldest, now)));
        }
        if let Some(context) = self.context {
            details.push_str(&format!("; context: {}", context::words(context)));
        }
        details
    }

    /// Whether the agent's row shows different ages at another moment.
    pub(in crate::cli) fn ages_differ(&self, before: u64, now: u64) -> bool {
        let reported = self.why.as_ref().and_then(|(_, since)| *since);
        [Some(self.since), self.oldest, reported]
            .into_iter()
            .flatten()
            .any(|since| age(since, before) != age(since, now))
    }
}

/// The route of messages to an agent, in words.
fn route(row: &AgentRow<'_>, has_wrapper: bool) -> &'static str {
    let has_hooks = row.activity_source.as_deref() == Some(ActivitySource::Hooks.as_str());
    match (row.here, has_wrapper) {
        (false, _) => "gets its messages once it is here",
        (true, true) if has_hooks => "its hooks tell it of messages, or they are typed",
        (true, true) => "its messages are typed",
        (true, false) if row.host.is_some() => "a bridge carries its messages to its machine",
        (true, false) => "gets its messages over its own connection",
    }
}

/// The time since a moment, in its largest unit.
fn age(since: u64, now: u64) -> String {
    let seconds = now.saturating_sub(since) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(members: &str, is_held: bool) -> Agent {
        let json = format!(
            r#"{{"name":"Ann","here":true,"since":1000,"queued":2,"queued_bytes":9,"in_flight":0,
            "subscriptions":0{members}}}"#
        );
        let wrapper = AgentState { held: is_held, ..AgentState::default() };
        Agent::of(&serde_json::from_str(&json).unwrap(), Some(&wrapper))
    }

    #[test]
    fn need_follows_from_activity_and_reason() {
        let doing = |activity: &str| {
            agent(&format!(r#","activity":"{activity}","activity_since":5000"#), false)
        };
        for (activity, need, state) in [
            ("waits-for-permission", Need::Permission, "waits for permission"),
            ("asks-person", Need::Answer, "asks you"),
            ("working", Need::Nothing, "working"),
            ("ended", Need::Nothing, "ended"),
        ] {
            let agent = doing(activity);
            assert_eq!((agent.need, &*agent.state, agent.since), (need, state, 5000));
        }
        let idle = |unseen| {
            agent(&format!(r#","activity":"idle","activity_since":5000,"unseen":{unseen}"#), false)
        };
        assert_eq!((idle(false).need, &*idle(false).state), (Need::Nothing, "idle"));
        let finished = idle(true);
        assert_eq!((finished.need, &*finished.state), (Need::Look, "finished"));
        assert_eq!(finished.cells(5000)[0], "✓");
        assert!(!finished.needs_person() && finished.rank() < doing("working").rank());
        assert!(finished.rank() > doing("asks-person").rank());
        let again = agent(r#","activity":"working","activity_since":6000,"unseen":true"#, false);
        assert_eq!((again.need, &*again.state), (Need::Nothing, "working"));
        let waits = r#","waiting":2,"why":"a line is\u001b half typed","why_since":2000"#;
        assert_eq!(agent(waits, false).need, Need::Message);
        assert_eq!(agent(waits, true).need, Need::Nothing, "held by its person");
        assert_eq!(agent(r#","waiting":2"#, false).need, Need::Nothing);
        let waiting = Agent { oldest: Some(1000), ..agent(waits, false) };
        let details = waiting.details(62_000);
        assert_eq!(details, "Ann: its messages are typed; 2 waiting, the oldest for 1 min");
        let by_hooks = r#","activity":"idle","activity_since":1,"activity_source":"hooks""#;
        assert!(agent(by_hooks, false).details(1).contains("its hooks tell it"));
        let cells = agent(waits, false).cells(62_000);
        let why = "1 min: a line is\\u{1b} half typed";
        assert_eq!(cells, ["!", "Ann", "", "", "here", "1 min", "2", why]);
    }

    #[test]
    fn collision_is_a_reason_unless_messages_wait() {
        let collided = |members: &str| {
            let collision = Collision {
                with: "Bob".to_owned(),
                path: "/w/src/\u{1b}.rs".to_owned(),
                since: 2000,
            };
            let wrapper = AgentState { collisions: vec![collision], ..AgentState::default() };
            let json = format!(
                r#"{{"name":"Ann","here":true,"since":1000,"queued":0,"queued_bytes":0,"in_flight":0,
                "subscriptions":0{members}}}"#
            );
            Agent::of(&serde_json::from_str(&json).unwrap(), Some(&wrapper))
        };
        let ann = collided(r#","directory":"/w""#);
        assert_eq!(ann.cells(62_000)[7], r"1 min: same file as Bob: src/\u{1b}.rs");
        assert_eq!((ann.need, ann.cells(62_000)[0].as_str()), (Need::Nothing, ""));
        let elsewhere = collided(r#","directory":"/other""#).why.unwrap().0;
        assert_eq!(elsewhere, r"same file as Bob: /w/src/\u{1b}.rs");
        let waits = collided(r#","waiting":1,"why":"a line is half typed""#);
        assert_eq!(waits.why.unwrap().0, "a line is half typed");
    }

    #[test]
    fn ages_have_one_unit() {
        let shown = |ms: u64| age(0, ms);
        assert_eq!(shown(59_999), "59 s");
        assert_eq!(shown(60_000), "1 min");
        assert_eq!(shown(7_200_000), "2 h");
        assert_eq!(shown(200_000_000), "2 d");
        assert_eq!(age(5, 0), "0 s");
        let ann = agent("", false);
        assert!(ann.ages_differ(1000, 2000));
        assert!(!ann.ages_differ(61_000, 62_000));
    }
}
