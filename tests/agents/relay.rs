//! Wrapped CLIs talk to others: what an agent says is what its listener hears, and what is sent to it is what
//! its model is asked.

use crate::{
    agent::{Agent, Household, Kind},
    corpus::{Body, bodies},
    model::{Model, Reply},
    sandbox::{Sandbox, WATCHDOG},
};
use agent_relay::{
    bridge::inject::clean,
    client::{Client, Delivery, Event, Outgoing, Settings},
};
use platform::pty::Size;
use std::time::Instant;

/// Messages that an agent says in one reply, and that wait for it at a time.
const AT_A_TIME: usize = 5;

/// Another agent, who listens and sends.
pub(crate) struct Other(pub(crate) Client);

impl Other {
    pub(crate) fn join(sandbox: &Sandbox, name: &str) -> Self {
        Self(Client::join(Settings::agent(sandbox.endpoint().as_text(), name)).unwrap())
    }

    /// The next message, acknowledged.
    #[track_caller]
    pub(crate) fn hear(&self, from: &Agent) -> Delivery {
        let end = Instant::now() + WATCHDOG;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.0.events().recv_timeout(left);
            let event = event.unwrap_or_else(|_| panic!("no message:\n{}", from.terminal.text()));
            match event {
                Event::Delivered(delivery) => {
                    self.0.acknowledge(&delivery.id);
                    return delivery;
                }
                Event::Refused { nack, .. } => panic!("{nack:?}"),
                _ => {}
            }
        }
    }

    pub(crate) fn send(&self, to: &str, body: &str) {
        let mut message = Outgoing::message(to, body);
        message.meta.requires_ack = true;
        self.0.send(message).unwrap();
    }
}

/// A wrapped CLI of its kind that rests, called Ann.
fn ann<'a>(
    sandbox: &'a Sandbox,
    kind: Kind,
    model: &Model,
    columns: u16,
) -> (Household<'a>, Agent) {
    let household = Household::new(sandbox, kind, model, "ann");
    let agent = household.wrap("Ann", Size { rows: 40, cols: columns }, &[]);
    agent.wait_until_idle();
    (household, agent)
}

/// What an agent writes to say a body.
fn said(body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    // A backslash before the close would be the close's.
    let end = if body.ends_with('\\') { "\n>>>" } else { ">>>" };
    format!("->relay:Bob <<<\n{body}{end}")
}

fn says_exactly(kind: Kind, columns: u16, bodies: &[Body]) {
    let turns: Vec<&[Body]> = bodies.chunks(AT_A_TIME).collect();
    let replies = turns.iter().map(|turn| {
        let messages: Vec<String> = turn.iter().map(|body| said(&body.text)).collect();
        Reply::new().says(format!("I tell Bob.\n\n{}\n\nDone.", messages.join("\n\n")))
    });
    let (model, sandbox) = (Model::playing(replies), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, columns);
    let mut wrong = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        agent.wait_until_idle();
        agent.submit(&format!("Tell him part {number}"));
        for body in *turn {
            let heard = bob.hear(&agent);
            if heard.spoken().body != body.text {
                wrong.push(format!("{}: {:?}", body.name, heard.spoken().body));
            }
        }
    }
    assert!(wrong.is_empty(), "{} said\n{}", kind.name(), wrong.join("\n"));
}

fn is_asked_exactly(kind: Kind, columns: u16, bodies: &[Body]) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, agent) = ann(&sandbox, kind, &model, columns);
    let (mut count, mut wrong) = (0, Vec::new());
    for turn in bodies.chunks(AT_A_TIME) {
        turn.iter().for_each(|body| bob.send("Ann", &body.text));
        count += turn.len();
        let asked = agent.while_running(|| model.asked(count));
        for (asked, body) in asked[count - turn.len()..].iter().zip(turn) {
            let expected = typed(kind, &body.text);
            if framed(&asked.prompt) != expected {
                wrong.push(format!("{}: {:?}", body.name, framed(&asked.prompt)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} was asked\n{}", kind.name(), wrong.join("\n"));
}

/// What stands in a frame, and nothing beside it.
#[track_caller]
fn framed(prompt: &str) -> &str {
    let (head, rest) = prompt.split_once('\n').expect("a frame of several lines");
    let hex = head.strip_prefix("[relay ").and_then(|rest| rest.get(..6)).expect("a frame");
    assert!(head.ends_with("Another agent wrote this, not your user."), "{head}");
    let end = format!("\n[/relay {hex}]");
    rest.strip_suffix(&*end).unwrap_or_else(|| panic!("no end of the frame: {prompt}"))
}

/// A body as it is typed: without what a terminal acts on, and forged frames marked. And as the CLI passes it on:
/// Claude Code makes blanks of tabs and composes letters, Gemini CLI takes out what has no width.
fn typed(kind: Kind, body: &str) -> String {
    let body = match kind {
        Kind::Claude => {
            let composed =
                [("\t", "    "), ("e\u{301}", "é"), ("a\u{30a}", "å"), ("n\u{303}", "ñ")];
            composed.iter().fold(body.to_owned(), |body, (from, to)| body.replace(from, to))
        }
        Kind::Codex => body.to_owned(),
        Kind::Gemini => body.replace(['\u{200b}', '\u{feff}'], ""),
    };
    let forged = |line: &str| line.starts_with("[relay ") || line.starts_with("[/relay ");
    let clean = clean(&body);
    let lines = clean
        .split('\n')
        .map(|line| if forged(line) { format!("\\{line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

macro_rules! each_kind {
    ($($name:ident: $kind:expr, $play:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let play: fn(Kind, u16, &[Body]) = $play;
                for (columns, bodies) in bodies() {
                    play($kind, columns, &bodies);
                }
            }
        )*
    };
}

each_kind! {
    what_claude_says_is_heard_exactly: Kind::Claude, says_exactly;
    what_codex_says_is_heard_exactly: Kind::Codex, says_exactly;
    what_gemini_says_is_heard_exactly: Kind::Gemini, says_exactly;
    what_is_sent_to_claude_is_asked_exactly: Kind::Claude, is_asked_exactly;
    what_is_sent_to_codex_is_asked_exactly: Kind::Codex, is_asked_exactly;
    what_is_sent_to_gemini_is_asked_exactly: Kind::Gemini, is_asked_exactly;
}
