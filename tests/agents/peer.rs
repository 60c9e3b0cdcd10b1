//! Peers that exchange messages with a wrapped CLI, and the status of their messages.

use crate::cli::{Agent, Cli, Workspace};
use client::{Client, Delivery, Event, Outgoing, SendId, Settings};
use platform::pty::Size;
use serde_json::Value;
use std::time::Instant;
use testkit::{
    model::Model,
    sandbox::Sandbox,
    waiting::{WATCHDOG, output, until},
};

/// An agent run by the test, which exchanges messages with a wrapped CLI.
pub(crate) struct Peer(pub(crate) Client);

impl Peer {
    pub(crate) fn join(sandbox: &Sandbox, name: &str) -> Self {
        Self(Client::join(Settings::agent(sandbox.endpoint().as_text(), name)).unwrap())
    }

    /// Waits for the next message, and acknowledges it.
    #[track_caller]
    pub(crate) fn receive(&self, from: &Agent) -> Delivery {
        self.next(from, |event| match event {
            Event::Delivered(delivery) => {
                self.0.acknowledge(&delivery.id);
                Some(*delivery)
            }
            _ => None,
        })
    }

    /// Waits for the next message, and returns its text.
    #[track_caller]
    pub(crate) fn receive_text(&self, from: &Agent) -> String {
        self.receive(from).body.clone()
    }

    /// Waits for the next message, checks its text, and returns when it arrived.
    #[track_caller]
    pub(crate) fn receive_at(&self, from: &Agent, body: &str) -> Instant {
        let received = self.receive(from);
        let at = Instant::now();
        assert_eq!(received.body, body);
        at
    }

    pub(crate) fn send(&self, to: &str, body: &str) -> SendId {
        self.0.send(Outgoing::message(to, body)).unwrap()
    }

    /// Sends a message of high importance.
    pub(crate) fn send_urgently(&self, to: &str, body: &str) -> SendId {
        let mut message = Outgoing::message(to, body);
        message.meta.importance = Some(80);
        self.0.send(message).unwrap()
    }

    /// Sends a message, and returns when the relay accepted it.
    #[track_caller]
    pub(crate) fn send_accepted(&self, to: &Agent, name: &str, body: &str) -> Instant {
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
            match event.unwrap_or_else(|_| panic!("no event arrives:\n{}", agent.terminal.text())) {
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

/// Waits until `status` reports that a message was typed and submitted.
#[track_caller]
pub(crate) fn await_typed(sandbox: &Sandbox, to: &Agent, id: &SendId) {
    let fits = |row: &Value| {
        let state = row["reported"]["state"].as_str().unwrap_or_default();
        ["injected", "confirmed"].contains(&state)
    };
    let print_status = || eprintln!("{}", status(sandbox, id)["reported"]);
    to.with_details_on_panic(print_status, || {
        until("the message is typed", || fits(&status(sandbox, id)))
    });
}

/// Waits until `status` reports this state and a reason that contains `why`.
#[track_caller]
pub(crate) fn await_report(sandbox: &Sandbox, to: &Agent, id: &SendId, state: &str, why: &str) {
    let fits = |row: &Value| {
        let reported = &row["reported"];
        reported["state"] == state && reported["why"].as_str().unwrap_or_default().contains(why)
    };
    let expected = format!("{id} is reported {state}: {why}");
    let print_status = || eprintln!("{}", status(sandbox, id)["reported"]);
    to.with_details_on_panic(print_status, || until(&expected, || fits(&status(sandbox, id))));
}

fn status(sandbox: &Sandbox, id: &SendId) -> Value {
    let printed = output(sandbox.command(["status", &id.0, "--json"])).stdout;
    serde_json::from_slice(&printed).unwrap_or_default()
}

/// Starts a wrapped CLI named Ann, and waits until it is idle.
pub(crate) fn start_ann<'a>(
    sandbox: &'a Sandbox,
    cli: Cli,
    model: &Model,
    columns: u16,
) -> (Workspace<'a>, Agent) {
    start_ann_with(sandbox, cli, model, columns, &[])
}

/// Starts a wrapped CLI named Ann with more options of `run`, and waits until it is idle.
pub(crate) fn start_ann_with<'a>(
    sandbox: &'a Sandbox,
    cli: Cli,
    model: &Model,
    columns: u16,
    options: &[&str],
) -> (Workspace<'a>, Agent) {
    let workspace = Workspace::new(sandbox, cli, model, "ann");
    let options = [&["-n", "Ann"], options].concat();
    let agent = workspace.wrap_with(&options, Size { rows: 40, cols: columns }, &[]);
    agent.wait_until_idle();
    (workspace, agent)
}

/// Returns the body in the frame of an agent's message. Panics if the prompt has any other text.
#[track_caller]
pub(crate) fn frame_body(prompt: &str) -> &str {
    frame_body_from("Another agent wrote this, not your user.", prompt)
}

/// The body in a frame with a header that ends with `sentence`.
#[track_caller]
pub(crate) fn frame_body_from<'a>(sentence: &str, prompt: &'a str) -> &'a str {
    let (head, rest) = prompt.split_once('\n').expect("a frame of several lines");
    let hex = head.strip_prefix("[relay ").and_then(|rest| rest.get(..6)).expect("a frame");
    assert!(head.ends_with(&format!("] {sentence}")), "{head}");
    let end = format!("\n[/relay {hex}]");
    rest.strip_suffix(&*end).unwrap_or_else(|| panic!("no end of the frame: {prompt}"))
}

/// A message as written by the agent.
pub(crate) fn relay_line(name: &str, body: &str) -> String {
    format!("->relay:{name} <<<{body}>>>")
}
