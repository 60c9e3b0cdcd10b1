//! `tap`: print all messages as they are routed, or with `--events` what happens to them.

use super::{
    ask,
    conversation::{Conversation, Several},
    events::Events,
    failure::Failure,
    join::join,
    messages::{first_lines, short_id},
    moment,
    notices::Notices,
    print::{Colour, Out, compact, counted, eprint_line},
    request::{call, data_of, parse},
    values::{count, event_kind, moment},
};
use argh::{ArgsInfo, FromArgs};
use client::{Answer, ConnectionState, Delivery, Event, home::HomeOptions};
use platform::clock;
use protocol::{
    name::RELAY,
    payload::MessagePayload,
    relay::{self, ChangeKind, RequestName, TapAnswer, TapCopy},
    text::{escaped, indented},
};
use std::collections::VecDeque;
use terminal::frame::Origin;

/// The most messages to several agents that are remembered, since further copies of them are not
/// shown.
const SHOWN_MAX: usize = 64;

/// Print all messages and answers as they are routed, or with --events what becomes of them.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "tap",
    help_triggers("--help"),
    example = "agent-relay tap",
    example = "agent-relay tap --events --since 1h --kind message",
    example = "agent-relay tap --events --follow --agent Ann",
    note = "Events are JSON, one object a line, and have no texts. Kinds are message (accepted, \
            acknowledged, dead), agent (joined, left, idle, working …), answer and lost. Only \
            --follow shows agents."
)]
pub(super) struct Tap {
    /// print one JSON object a line for each message
    #[argh(switch)]
    json: bool,

    /// print long texts whole, not only their first 10 lines
    #[argh(switch)]
    full: bool,

    /// print past events of messages and agents, and exit
    #[argh(switch)]
    events: bool,

    /// with --events: print new events until Ctrl-C, after those since --since
    #[argh(switch, short = 'f')]
    follow: bool,

    /// events since this moment: 2h, 14:00, yesterday, 2026-11-23 14:00
    #[argh(option, arg_name = "moment", from_str_fn(moment))]
    since: Option<u64>,

    /// only events of this agent, and of messages from or to it
    #[argh(option, arg_name = "agent")]
    agent: Option<String>,

    /// only events of messages from this agent
    #[argh(option, arg_name = "agent")]
    from: Option<String>,

    /// only events of messages to this agent
    #[argh(option, arg_name = "agent")]
    to: Option<String>,

    /// only events of messages on this topic
    #[argh(option, arg_name = "topic")]
    topic: Option<String>,

    /// only events of this kind: message, answer or agent
    #[argh(option, arg_name = "kind", from_str_fn(event_kind))]
    kind: Option<ChangeKind>,

    /// maximum number of past events, the newest ones (default 10000)
    #[argh(option, arg_name = "count", from_str_fn(count))]
    limit: Option<u64>,
}

impl Tap {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.events {
            return self.into_events().run(options);
        }
        if let Some(option) = self.option_of_events() {
            let failure = Failure::usage(format!("{option} selects events"));
            return Err(failure.hint("add --events"));
        }
        let client = join(options)?;
        let (mut out, mut notices) = (Out::new(), Notices::default());
        let mut shown = Shown::default();
        call(&client, RequestName::Tap, None)?;
        eprint_line(format_args!(
            "showing all messages that the daemon at {} routes; Ctrl-C ends this",
            escaped(client.endpoint())
        ));
        loop {
            match client.events().recv() {
                Ok(Event::Delivered(delivery)) => self.show(&mut out, &mut shown, &delivery)?,
                // After a reconnect, the daemon sends copies only once they are requested again.
                Ok(event @ Event::State(ConnectionState::Ready(_))) => {
                    call(&client, RequestName::Tap, None)?;
                    notices.print(event)?;
                }
                Ok(event) => notices.print(event)?,
                Err(_) => return Err(Failure::failed("the connection has ended")),
            }
        }
    }

    fn into_events(self) -> Events {
        let Self { follow, since, agent, from, to, topic, kind, limit, .. } = self;
        Events { follow, since, agent, from, to, topic, kind, limit }
    }

    /// Returns an option that was given and needs `--events`.
    fn option_of_events(&self) -> Option<&'static str> {
        let given = [
            ("--follow", self.follow),
            ("--since", self.since.is_some()),
            ("--agent", self.agent.is_some()),
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--topic", self.topic.is_some()),
            ("--kind", self.kind.is_some()),
            ("--limit", self.limit.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    fn show(&self, out: &mut Out, shown: &mut Shown, delivery: &Delivery) -> Result<(), Failure> {
        show(out, shown, delivery, self.json, |copy, text| {
            let id = short_id(id(copy));
            let text = if self.full { text } else { first_lines(&text) };
            (format!("{} {id} ", moment::time(clock::unix_ms())), text)
        })
    }
}

/// Prints a copy of a message, and nothing for other deliveries. `stamp` returns the text before
/// the sender, and the message's shown text.
pub(super) fn show(
    out: &mut Out,
    shown: &mut Shown,
    delivery: &Delivery,
    as_json: bool,
    stamp: impl FnOnce(&TapCopy<'_>, String) -> (String, String),
) -> Result<(), Failure> {
    let Some(json) = data_of(delivery).filter(|_| is_copy(delivery)) else { return Ok(()) };
    if as_json {
        return out.json_text("tap", json);
    }
    let copy: TapCopy<'_> = parse(RequestName::Tap, json)?;
    if copy.lost > 0 {
        let verb = if copy.lost == 1 { "was" } else { "were" };
        let lost = counted(copy.lost, "message");
        eprint_line(format_args!("{lost} {verb} routed too fast to be shown"));
    }
    let several = Several::of_copy(&copy);
    if several.as_ref().is_some_and(|several| !shown.add(&several.key)) {
        return Ok(());
    }
    let (before, text) = stamp(&copy, text(&copy));
    let before = out.paint(Colour::Faint, before);
    let to = several.map_or_else(|| copy.to.to_string(), |several| several.recipients(&copy.to));
    let heading = out.paint(Colour::Bold, heading(&copy, &to));
    out.of_others(Origin::Others, |out| out.line(format_args!("{before}{heading}: {text}")))
}

/// The messages to several agents that were shown last, by their keys.
#[derive(Debug, Default)]
pub(super) struct Shown(VecDeque<String>);

impl Shown {
    /// Adds a message. Returns false if it was shown.
    fn add(&mut self, key: &str) -> bool {
        if self.0.iter().any(|known| known == key) {
            return false;
        }
        if self.0.len() == SHOWN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(key.to_owned());
        true
    }
}

/// The sender, the recipients, the topic and the conversation of a copy.
fn heading(copy: &TapCopy<'_>, to: &str) -> String {
    let topic = copy.topic.as_deref().map(escaped);
    let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
    let (from, to) = (escaped(&copy.from), escaped(to));
    format!("{from} -> {to}{topic}{}", Conversation::of_copy(copy).words())
}

/// Whether a delivery carries a copy of a message.
pub(super) fn is_copy(delivery: &Delivery) -> bool {
    delivery.from == RELAY && delivery.kind == relay::TAP
}

/// The id for a query of a copy's message or answer.
pub(super) fn id<'a>(copy: &'a TapCopy<'_>) -> &'a str {
    let of_answer = copy.answer.as_ref().and_then(|answer| answer.id.as_deref());
    of_answer.or(copy.id.as_deref()).unwrap_or(&copy.send_id)
}

/// The text of a copy, indented.
pub(super) fn text(copy: &TapCopy<'_>) -> String {
    if let Some(TapAnswer { response, response_data: data, .. }) = copy.answer {
        let data = data.map(ToOwned::to_owned);
        return indented(&ask::answer_text(&Answer {
            from: copy.from.to_string(),
            response,
            data,
        }));
    }
    let Some(payload) = copy.payload else { return "(too large to be shown)".to_owned() };
    match serde_json::from_str::<MessagePayload<'_>>(payload.get()) {
        Ok(spoken) => indented(&spoken.body),
        Err(_) => escaped(&compact(payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_copy<T>(members: &str, show: impl Fn(&TapCopy<'_>) -> T) -> T {
        let copy = format!(
            r#"{{"send_id":"a","from":"Bob","to":"Ann","recipients":1,"requires_ack":false{members}}}"#
        );
        show(&serde_json::from_str(&copy).unwrap())
    }

    #[test]
    fn copy_has_its_id_and_its_conversation() {
        let shown = |members: &str| {
            with_copy(members, |copy| (id(copy).to_owned(), heading(copy, &copy.to)))
        };
        let of = |id: &str, heading: &str| (id.to_owned(), heading.to_owned());
        assert_eq!(shown(r#","topic":"t""#), of("a", "Bob -> Ann on t"));
        let answer = r#","id":"1a2b3c4d-55f7","answer":{"id":"5e6f7a8b-55f7"}"#;
        assert_eq!(shown(answer), of("5e6f7a8b-55f7", "Bob -> Ann, an answer to 1a2b3c4d"));
        let message =
            r#","id":"1a2b3c4d","payload":{"thread":"port"},"payload_meta":{"replyTo":"9c"}"#;
        assert_eq!(shown(message), of("1a2b3c4d", "Bob -> Ann, an answer to 9c, thread port"));
    }

    #[test]
    fn message_to_several_agents_is_shown_once() {
        let part = |of: &str| {
            let group = format!(r#"{{"group":{{"id":"{of}","name":"@all","size":2}}}}"#);
            let members = format!(r#","payload":{{"body":"x"}},"payload_meta":{group}"#);
            with_copy(&members, Several::of_copy).unwrap()
        };
        let mut shown = Shown::default();
        assert!(shown.add(&part("g").key) && !shown.add(&part("g").key));
        assert!(shown.add(&part("h").key));
        let to = part("g").recipients("Ann");
        assert_eq!(with_copy("", |copy| heading(copy, &to)), "Bob -> Ann and 1 more (@all)");
        for number in 0..SHOWN_MAX {
            shown.add(&number.to_string());
        }
        assert_eq!((shown.0.len(), shown.add(&part("h").key)), (SHOWN_MAX, true));
        assert_eq!(
            with_copy(r#","payload":{},"payload_meta":{"group":"@all"}"#, Several::of_copy),
            None
        );
    }

    #[test]
    fn messages_and_answers_are_shown() {
        let shown = |members: &str| with_copy(members, text);
        assert_eq!(shown(r#","payload":{"kind":"message","body":"one\ntwo"}"#), "one\n    two");
        let answer = r#","answer":{"response":true,"responseData":{"body":"one\n\u001b[2J"}}"#;
        assert_eq!(shown(answer), "one\n    \\u{1b}[2J");
        assert_eq!(shown(r#","answer":{"response":false}"#), "no");
        assert_eq!(shown(""), "(too large to be shown)");
    }
}
