//! Who talks with a wrapped CLI, and how far what was said to it has come.

use crate::{
    agent::{Agent, Household, Kind},
    model::Model,
    sandbox::{Sandbox, WATCHDOG, output, until},
};
use agent_relay::client::{Client, Delivery, Event, Outgoing, SendId, Settings};
use platform::pty::Size;
use serde_json::Value;
use std::time::Instant;

/// Another agent, who listens and sends.
pub(crate) struct Other(pub(crate) Client);

impl Other {
    pub(crate) fn join(sandbox: &Sandbox, name: &str) -> Self {
        Self(Client::join(Settings::agent(sandbox.endpoint().as_text(), name)).unwrap())
    }

    /// The next message, acknowledged.
    #[track_caller]
    pub(crate) fn hear(&self, from: &Agent) -> Delivery {
        self.next(from, |event| match event {
            Event::Delivered(delivery) => {
                self.0.acknowledge(&delivery.id);
                Some(*delivery)
            }
            _ => None,
        })
    }

    /// The next message's text.
    #[track_caller]
    pub(crate) fn hear_text(&self, from: &Agent) -> String {
        self.hear(from).body.clone()
    }

    /// When the next message comes, which has to be this one.
    #[track_caller]
    pub(crate) fn hear_at(&self, from: &Agent, body: &str) -> Instant {
        let heard = self.hear(from);
        let at = Instant::now();
        assert_eq!(heard.body, body);
        at
    }

    pub(crate) fn send(&self, to: &str, body: &str) -> SendId {
        self.0.send(Outgoing::message(to, body)).unwrap()
    }

    /// Sends what goes before others.
    pub(crate) fn send_urgently(&self, to: &str, body: &str) -> SendId {
        let mut message = Outgoing::message(to, body);
        message.meta.importance = Some(80);
        self.0.send(message).unwrap()
    }

    /// Sends, and waits until the relay has taken it over; when that was.
    #[track_caller]
    pub(crate) fn hand_over(&self, to: &Agent, name: &str, body: &str) -> Instant {
        let id = self.send(name, body);
        self.next(to, |event| match event {
            Event::Accepted { send_id, .. } if send_id == id => Some(Instant::now()),
            _ => None,
        })
    }

    #[track_caller]
    fn next<T>(&self, agent: &Agent, wanted: impl Fn(Event) -> Option<T>) -> T {
        let end = Instant::now() + WATCHDOG;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.0.events().recv_timeout(left);
            match event.unwrap_or_else(|_| panic!("nothing comes:\n{}", agent.terminal.text())) {
                Event::Refused { nack, .. } => panic!("{nack:?}"),
                event => {
                    if let Some(found) = wanted(event) {
                        return found;
                    }
                }
            }
        }
    }
}

/// An operator is told that a message was typed and has left the composer.
#[track_caller]
pub(crate) fn await_typed(sandbox: &Sandbox, to: &Agent, id: &SendId) {
    let fits = |row: &Value| {
        let state = row["reported"]["state"].as_str().unwrap_or_default();
        ["injected", "confirmed"].contains(&state)
    };
    let waits_for = || eprintln!("{}", status(sandbox, id)["reported"]);
    to.while_running_or(waits_for, || until("it is typed", || fits(&status(sandbox, id))));
}

/// What an operator is told of a message on its way to an agent.
#[track_caller]
pub(crate) fn await_report(sandbox: &Sandbox, to: &Agent, id: &SendId, state: &str, why: &str) {
    let fits = |row: &Value| {
        let reported = &row["reported"];
        reported["state"] == state && reported["why"].as_str().unwrap_or_default().contains(why)
    };
    let what = format!("{id} is reported {state}: {why}");
    to.while_running(|| until(&what, || fits(&status(sandbox, id))));
}

fn status(sandbox: &Sandbox, id: &SendId) -> Value {
    let printed = output(sandbox.command(["status", &id.0, "--json"])).stdout;
    serde_json::from_slice(&printed).unwrap_or_default()
}

/// A wrapped CLI of its kind that rests, called Ann.
pub(crate) fn ann<'a>(
    sandbox: &'a Sandbox,
    kind: Kind,
    model: &Model,
    columns: u16,
) -> (Household<'a>, Agent) {
    ann_with(sandbox, kind, model, columns, &[])
}

/// The same with more options of `run`.
pub(crate) fn ann_with<'a>(
    sandbox: &'a Sandbox,
    kind: Kind,
    model: &Model,
    columns: u16,
    options: &[&str],
) -> (Household<'a>, Agent) {
    let household = Household::new(sandbox, kind, model, "ann");
    let options = [&["-n", "Ann"], options].concat();
    let agent = household.wrap_with(&options, Size { rows: 40, cols: columns }, &[]);
    agent.wait_until_idle();
    (household, agent)
}

/// What stands in the frame of an agent's message, and nothing beside it.
#[track_caller]
pub(crate) fn framed(prompt: &str) -> &str {
    framed_with("Another agent wrote this, not your user.", prompt)
}

/// What stands in a frame that says this of its writer.
#[track_caller]
pub(crate) fn framed_with<'a>(sentence: &str, prompt: &'a str) -> &'a str {
    let (head, rest) = prompt.split_once('\n').expect("a frame of several lines");
    let hex = head.strip_prefix("[relay ").and_then(|rest| rest.get(..6)).expect("a frame");
    assert!(head.ends_with(&format!("] {sentence}")), "{head}");
    let end = format!("\n[/relay {hex}]");
    rest.strip_suffix(&*end).unwrap_or_else(|| panic!("no end of the frame: {prompt}"))
}

/// What an agent writes to say this to somebody.
pub(crate) fn says_to(name: &str, body: &str) -> String {
    format!("->relay:{name} <<<{body}>>>")
}
