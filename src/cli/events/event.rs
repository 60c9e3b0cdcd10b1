//! An event, the filter for events, and the agents' activities.

use crate::cli::print;
use protocol::{
    payload::ANSWER,
    relay::{
        ACCEPTED, ACKNOWLEDGED, AgentRow, Change, ChangeKind, DEAD, JOINED, LEFT, MessageRow,
        RENAMED,
    },
    text::is_hidden,
};
use serde::Serialize;
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// The name of the schema of an event.
const SCHEMA: &str = "event";

/// The largest difference between the stated beginnings of one activity in two reports.
const SAME_MS: u64 = 1000;

/// An event. The members are documented in docs/CONFIGURATION.md.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) send_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requires_ack: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
}

impl From<Change<'_>> for Event {
    fn from(change: Change<'_>) -> Self {
        let owned = |text: Option<Cow<'_, str>>| text.map(Into::into);
        Self {
            time: change.at,
            kind: change.kind.into(),
            state: owned(change.state),
            id: owned(change.id),
            send_id: owned(change.send_id),
            from: owned(change.from),
            to: owned(change.to),
            topic: owned(change.topic),
            requires_ack: change.requires_ack,
            code: owned(change.code),
            why: owned(change.why),
            agent: owned(change.agent),
            since: change.since,
            source: owned(change.source),
            count: Some(change.lost).filter(|lost| *lost > 0),
        }
    }
}

impl Event {
    /// Returns the events of a message in the history, the newest first: its end, that it was
    /// accepted, and that a question was answered by it.
    pub(super) fn of_row(row: &MessageRow<'_>) -> [Option<Self>; 3] {
        let text = |text: &str| Some(text.to_owned());
        let accepted = Self {
            time: row.taken,
            kind: ChangeKind::Message.as_str().to_owned(),
            state: text(ACCEPTED),
            id: text(&row.id),
            send_id: text(&row.send_id),
            from: text(&row.from),
            to: text(&row.to),
            topic: row.topic.as_deref().and_then(text),
            requires_ack: Some(true),
            ..Self::default()
        };
        let progress = &row.delivery;
        let answer = answered_by(row).map(|question| Self {
            kind: ChangeKind::Answer.as_str().to_owned(),
            state: None,
            id: text(question),
            send_id: None,
            requires_ack: None,
            ..accepted.clone()
        });
        if answer.is_some() && progress.ended == Some(row.taken) {
            // The answer was handed out, and was no mail.
            return [None, None, answer];
        }
        let ended = progress.ended.filter(|_| [ACKNOWLEDGED, DEAD].contains(&&*progress.state));
        let ended = ended.map(|time| {
            let is_dead = progress.state == DEAD;
            Self {
                time,
                state: text(&progress.state),
                code: progress.code.as_deref().filter(|_| is_dead).and_then(text),
                why: progress.why.as_deref().filter(|_| is_dead).and_then(text),
                ..accepted.clone()
            }
        });
        [ended, Some(accepted), answer]
    }

    /// Returns the event that some events since a time may be missing.
    pub(super) fn gap(time: u64, since: u64, why: String) -> Self {
        Self {
            time,
            kind: ChangeKind::Lost.as_str().to_owned(),
            since: Some(since),
            why: Some(why),
            ..Self::default()
        }
    }

    fn of_agent(time: u64, name: &str, state: &str) -> Self {
        Self {
            time,
            kind: ChangeKind::Agent.as_str().to_owned(),
            state: Some(state.to_owned()),
            agent: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Returns what identifies the event; `None` for an event that cannot be reported twice.
    pub(super) fn key(&self) -> Option<String> {
        let subject = self.id.as_ref().or(self.agent.as_ref())?;
        let time = self.since.unwrap_or(self.time);
        let state = self.state.as_deref().unwrap_or_default();
        Some(format!("{} {subject} {state} {time}", self.kind))
    }

    /// Returns the line of JSON. Characters that could control a terminal are escaped.
    pub(super) fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("what commands print is JSON");
        let line = print::with_schema(SCHEMA, &json);
        if !line.contains(is_hidden) {
            return line;
        }
        let mut escaped = String::with_capacity(line.len());
        for character in line.chars() {
            match is_hidden(character) {
                // In JSON, such a character occurs only in a string, and its escapes are UTF-16
                // units.
                true => escaped.extend(
                    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")),
                ),
                false => escaped.push(character),
            }
        }
        escaped
    }
}

/// Returns the id of the question's delivery if a message of the history is an answer.
fn answered_by<'a>(row: &'a MessageRow<'_>) -> Option<&'a str> {
    row.send_id.strip_prefix(ANSWER)?.strip_prefix('-')
}

/// The wanted events. Names are compared in any case.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) agent: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) kind: Option<ChangeKind>,
}

impl Filter {
    /// Whether an event is wanted. Lost changes are always wanted.
    pub(super) fn includes(&self, event: &Event) -> bool {
        if event.kind == ChangeKind::Lost.as_str() {
            return true;
        }
        let is = |wanted: &str, text: &Option<String>| {
            text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case(wanted))
        };
        let fits = |wanted: &Option<String>, text| wanted.as_deref().is_none_or(|it| is(it, text));
        let of_agent = self.agent.as_deref().is_none_or(|agent| {
            [&event.agent, &event.from, &event.to].into_iter().any(|name| is(agent, name))
        });
        let on_topic = self.topic.is_none() || self.topic == event.topic;
        of_agent
            && on_topic
            && fits(&self.from, &event.from)
            && fits(&self.to, &event.to)
            && self.kind.is_none_or(|kind| kind.as_str() == event.kind)
    }

    /// Returns a name that all wanted messages have as sender or recipient.
    pub(super) fn any_name(&self) -> Option<&str> {
        self.from.as_deref().or(self.to.as_deref()).or(self.agent.as_deref())
    }
}

/// The agents that are here, as they were last seen.
#[derive(Debug, Default)]
pub(super) struct Agents(HashMap<String, Known>);

#[derive(Debug, Default)]
struct Known {
    name: String,
    /// The activity, and its beginning.
    doing: Option<(String, u64)>,
}

impl Agents {
    /// Takes over how an agent is.
    pub(super) fn take_over(&mut self, row: &AgentRow<'_>) {
        if row.here {
            let doing = row.activity.as_deref().map(ToOwned::to_owned).zip(row.activity_since);
            let known = Known { name: row.name.to_string(), doing };
            self.0.insert(row.name.to_ascii_lowercase(), known);
        }
    }

    /// Records an agent's event. Returns false if it says nothing new: an agent reports its
    /// activity again after its connection was replaced.
    pub(super) fn note(&mut self, event: &Event) -> bool {
        let (Some(name), Some(state)) = (&event.agent, &event.state) else { return true };
        let folded = name.to_ascii_lowercase();
        // An agent is renamed while it is away.
        if [LEFT, RENAMED].contains(&&**state) {
            self.0.remove(&folded);
            return true;
        }
        let known = self.0.entry(folded).or_default();
        known.name.clone_from(name);
        if state == JOINED {
            known.doing = None;
            return true;
        }
        let since = event.since.unwrap_or(event.time);
        let before = known.doing.replace((state.clone(), since));
        before.is_none_or(|(word, at)| word != *state || at.abs_diff(since) > SAME_MS)
    }

    /// Returns the events that lead from an agent's earlier state, last seen at `last`, to its
    /// present one.
    pub(super) fn changes_to(&self, row: &AgentRow<'_>, last: u64) -> Vec<Event> {
        let before = self.0.get(&row.name.to_ascii_lowercase());
        if !row.here {
            return before
                .map(|_| Event::of_agent(row.since, &row.name, LEFT))
                .into_iter()
                .collect();
        }
        let has_joined = before.is_none() || row.since > last;
        let joined = has_joined.then(|| Event::of_agent(row.since, &row.name, JOINED));
        let doing = row.activity.as_deref().zip(row.activity_since);
        let doing = doing.filter(|(word, since)| {
            let before = before.and_then(|known| known.doing.as_ref());
            has_joined || *since > last || before.is_none_or(|(before, _)| before != word)
        });
        let doing = doing.map(|(word, since)| Event {
            since: Some(since),
            source: row.activity_source.as_deref().map(ToOwned::to_owned),
            ..Event::of_agent(since.max(row.since), &row.name, word)
        });
        joined.into_iter().chain(doing).collect()
    }

    /// Returns events that report the agents missing in `names` as left.
    pub(super) fn missing_in(&self, names: &HashSet<String>, now: u64) -> Vec<Event> {
        let missing = self.0.iter().filter(|(folded, _)| !names.contains(&**folded));
        missing.map(|(_, known)| Event::of_agent(now, &known.name, LEFT)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, members: &'static str) -> AgentRow<'static> {
        let json = format!(
            r#"{{"name":"{name}","queued":0,"queued_bytes":0,"in_flight":0,"subscriptions":0,
            {members}}}"#
        );
        let row: AgentRow<'_> = serde_json::from_str(&json).unwrap();
        let owned = |text: Option<Cow<'_, str>>| text.map(|it| it.into_owned().into());
        AgentRow {
            name: name.into(),
            host: None,
            session: None,
            why: None,
            activity: owned(row.activity),
            activity_source: owned(row.activity_source),
            unseen: row.unseen,
            ..row
        }
    }

    fn states(events: &[Event]) -> Vec<(&str, u64)> {
        events.iter().map(|event| (event.state.as_deref().unwrap(), event.time)).collect()
    }

    #[test]
    fn filter_selects_by_names_topic_and_kind() {
        let message = Event {
            from: Some("Ann".to_owned()),
            to: Some("Bob".to_owned()),
            topic: Some("a.b".to_owned()),
            kind: "message".to_owned(),
            ..Event::default()
        };
        let joined = Event::of_agent(1, "Ann", JOINED);
        let text = |text: &str| Some(text.to_owned());
        let any = Filter::default;
        for (filter, expected) in [
            (any(), (true, true)),
            (Filter { agent: text("ann"), ..any() }, (true, true)),
            (Filter { agent: text("BOB"), ..any() }, (true, false)),
            (Filter { agent: text("Cid"), ..any() }, (false, false)),
            (Filter { from: text("ann"), ..any() }, (true, false)),
            (Filter { from: text("bob"), ..any() }, (false, false)),
            (Filter { to: text("bob"), topic: text("a.b"), ..any() }, (true, false)),
            (Filter { topic: text("a"), ..any() }, (false, false)),
            (Filter { kind: Some(ChangeKind::Agent), ..any() }, (false, true)),
        ] {
            assert_eq!(
                (filter.includes(&message), filter.includes(&joined)),
                expected,
                "{filter:?}"
            );
            assert!(filter.includes(&Event::gap(1, 0, String::new())), "{filter:?}");
        }
    }

    #[test]
    fn line_has_a_schema_and_no_hidden_characters() {
        let why = "a\u{1b}[2J\u{9b}\u{202e}\u{e0041}\u{5e9} \"b\"\n".to_owned();
        let line = Event::gap(7, 5, why.clone()).line();
        assert!(line.starts_with(r#"{"schema":"agent-relay.event/1","time":7,"kind":"lost""#));
        assert!(!line.contains(is_hidden), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["why"], why);
    }

    #[test]
    fn row_has_the_events_of_its_delivery() {
        let events_of = |send_id: &str, members: &str| {
            let json = format!(
                r#"{{"id":"i","send_id":"{send_id}","from":"Ann","auth":"claim","to":"Bob","seq":1,"taken":1,
                "durability":"disk","attempts":1,"failures":0,{members}}}"#
            );
            Event::of_row(&serde_json::from_str(&json).unwrap())
        };
        let events = |members: &str| events_of("s", members);
        let [none, accepted, _] = events(r#""state":"waiting","why":"a dialog is open""#);
        assert_eq!((none, states(&[accepted.unwrap()])), (None, vec![(ACCEPTED, 1)]));
        let [ended, ..] = events(r#""state":"acknowledged","ended":2"#);
        assert_eq!(states(&[ended.unwrap()]), [(ACKNOWLEDGED, 2)]);
        let [ended, ..] = events(r#""state":"dead","ended":3,"code":"EXPIRED","why":"it ran out""#);
        let ended = ended.unwrap();
        assert_eq!(
            (ended.code.as_deref(), ended.why.as_deref()),
            (Some("EXPIRED"), Some("it ran out"))
        );
        // Its end is not stored yet.
        assert_eq!(events(r#""state":"over","ended":3"#)[0], None);
        let [None, None, Some(answer)] =
            events_of("answer-q", r#""state":"acknowledged","ended":1"#)
        else {
            panic!("an answer in time is no mail")
        };
        assert_eq!(
            (&*answer.kind, answer.id.as_deref(), answer.state),
            ("answer", Some("q"), None)
        );
        let late = events_of("answer-q", r#""state":"acknowledged","ended":2"#);
        assert_eq!(late.into_iter().flatten().count(), 3);
    }

    #[test]
    fn repeated_activity_is_not_an_event() {
        let mut agents = Agents::default();
        let doing =
            |word: &str, since| Event { since: Some(since), ..Event::of_agent(9, "Ann", word) };
        assert!(agents.note(&Event::of_agent(1, "Ann", JOINED)));
        assert!(agents.note(&doing("idle", 5_000)));
        assert!(!agents.note(&doing("idle", 5_001)));
        assert!(agents.note(&doing("working", 6_000)));
        assert!(agents.note(&doing("idle", 7_000)));
        assert!(agents.note(&doing("idle", 9_000)));
        assert!(agents.note(&Event::of_agent(9, "ANN", LEFT)));
        // An agent is renamed while it is away, so it is not among those that are here.
        assert!(agents.note(&Event::of_agent(9, "Eve", RENAMED)));
        assert!(agents.0.is_empty());
    }

    #[test]
    fn changes_of_agents_in_a_gap_are_found() {
        let mut agents = Agents::default();
        let idle = r#""here":true,"since":10,"activity":"idle","activity_since":20"#;
        agents.take_over(&row("Ann", idle));
        agents.take_over(&row("Bob", r#""here":true,"since":10"#));
        agents.take_over(&row("Cid", r#""here":false,"since":10"#));
        let changes = |row| agents.changes_to(&row, 50);
        assert_eq!(states(&changes(row("Ann", idle))), []);
        let working = r#""here":true,"since":10,"activity":"working","activity_since":60"#;
        assert_eq!(states(&changes(row("Ann", working))), [("working", 60)]);
        let back = r#""here":true,"since":70,"activity":"idle","activity_since":20"#;
        assert_eq!(states(&changes(row("Ann", back))), [(JOINED, 70), ("idle", 70)]);
        assert_eq!(states(&changes(row("Bob", r#""here":false,"since":60"#))), [(LEFT, 60)]);
        assert_eq!(states(&changes(row("Cid", r#""here":false,"since":60"#))), []);
        assert_eq!(states(&changes(row("Cid", r#""here":true,"since":60"#))), [(JOINED, 60)]);
        let missing = agents.missing_in(&HashSet::from(["ann".to_owned()]), 99);
        assert_eq!(
            (states(&missing), missing[0].agent.as_deref()),
            (vec![(LEFT, 99)], Some("Bob"))
        );
    }
}
