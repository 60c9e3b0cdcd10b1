//! `send`: say something to an agent.

use super::{
    DONE, Failure, NOT_DELIVERED, TIMED_OUT, argv,
    ask::{Aside, agent_name, ask, importance, label, milliseconds, nearest},
    identity::{Identity, check_name, key_of, or_print},
    input,
    launch::join_or_start,
    place::Asked,
    print::{Out, foreign_line, say},
};
use crate::{
    client::{Client, Event, Meta, Outgoing, SendId, Settings},
    protocol::{
        code::NackCode,
        name::{EVERYONE, RELAY},
        payload::{Capabilities, Nack},
        topic,
    },
};
use argh::{ArgsInfo, FromArgs};
use crossbeam_channel::RecvTimeoutError;
use platform::clock;
use serde::Serialize;
use std::time::Duration;

/// The longest body that is read; the daemon's own limit is usually far below.
pub(super) const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Send a message to an agent, to everyone (*), or to a topic's subscribers.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "send",
    help_triggers("--help"),
    example = "agent-relay send Bob \"The build is green.\"",
    example = "agent-relay send --topic build.linux \"*\" - < report.txt",
    note = "At least once by default: returns when the daemon has accepted the message.",
    note = "",
    note = "Standard input and files are UTF-8, or UTF-16 with a byte order mark, which is not sent; nor is the",
    note = "carriage return before a newline. How shells give more than a plain line:",
    note = "  bash, Git Bash   agent-relay send Bob - <<'END'   and the text, and END on a line of its own",
    note = "                   (Git Bash rewrites an argument that begins with a slash: use - or --file)",
    note = "  PowerShell       @'   the text on lines of its own   '@ | agent-relay send Bob -",
    note = "                   (Windows PowerShell 5.1: before it $OutputEncoding = [Text.UTF8Encoding]::new())",
    note = "  cmd              echo one line> text.txt   echo another>> text.txt   agent-relay send Bob - < text.txt",
    note = "                   (before it chcp 65001, if the text is more than ASCII)"
)]
pub(super) struct Send {
    /// in whose name; without it you are @operator, and inside a wrapped agent that agent
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    from: Option<String>,

    /// where the key is of the name, if it has one; keys/NAME in the home where absent
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    key_file: Option<String>,

    /// on which topic
    #[argh(option, from_str_fn(argv::text))]
    topic: Option<String>,

    /// a label for the conversation
    #[argh(option, from_str_fn(label))]
    thread: Option<String>,

    /// how long it may wait, such as 60s or 5m; a bare number is seconds
    #[argh(option, arg_name = "time", from_str_fn(milliseconds))]
    ttl: Option<u64>,

    /// how urgent, from 0 to 100; above 75 it is typed into an agent before what else waits
    #[argh(option, arg_name = "number", from_str_fn(importance))]
    importance: Option<u8>,

    /// read the body from this file
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    file: Option<String>,

    /// at most once: gone if it can't be delivered now
    #[argh(switch)]
    no_ack: bool,

    /// how long to wait for the daemon's word; 30s where absent
    #[argh(option, arg_name = "time", from_str_fn(milliseconds), default = "30_000")]
    timeout: u64,

    /// print JSON
    #[argh(switch)]
    json: bool,

    /// the agent's name, or *
    #[argh(positional, arg_name = "to", from_str_fn(argv::text))]
    to: String,

    /// the text; - reads standard input
    #[argh(positional, arg_name = "body", from_str_fn(argv::text))]
    pub(super) body: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    send_id: &'a str,
    state: &'a str,
    #[serde(flatten)]
    taken: Taken,
}

/// What the daemon said when it took the message.
#[derive(Clone, Copy, Default, Serialize)]
struct Taken {
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    away: bool,
}

impl Send {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        if let Some(topic) = &self.topic {
            topic::check(topic).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let body = self.read_body()?;
        let client = join_as(self.from.as_deref(), self.key_file.as_deref(), asked)?;
        let deadline = clock::monotonic_ms().saturating_add(self.timeout);
        let send_id = client.send(self.message(body))?;
        let sent = if self.no_ack {
            self.fence(&client, &send_id, deadline)?
        } else {
            self.wait(&client, &send_id, deadline)?
        };
        self.report(&send_id, sent)?;
        Ok(DONE)
    }

    fn message(&self, body: String) -> Outgoing {
        let meta = Meta {
            requires_ack: !self.no_ack,
            ttl_ms: self.ttl,
            importance: self.importance,
            ..Meta::default()
        };
        Outgoing {
            to: Some(self.to.clone()),
            topic: self.topic.clone(),
            thread: self.thread.clone(),
            body,
            meta,
            ..Outgoing::default()
        }
    }

    fn read_body(&self) -> Result<String, Failure> {
        match (self.body.as_deref(), self.file.as_deref()) {
            (Some(_), Some(_)) => {
                Err(Failure::usage("a body comes from the command line or from --file, not both"))
            }
            (None, None) => {
                Err(Failure::usage("no body: give a text, - for standard input, or --file PATH"))
            }
            (Some("-"), None) => input::read_text(None, BODY_BYTES_MAX),
            (Some(body), None) => Ok(body.to_owned()),
            (None, Some(path)) => input::read_text(Some(path), BODY_BYTES_MAX),
        }
    }

    /// Until the daemon has accepted it.
    fn wait(&self, client: &Client, send_id: &SendId, deadline: u64) -> Result<Taken, Failure> {
        let (mut missed, mut aside) = (None, Aside::default());
        loop {
            match self.next(client, deadline)? {
                Event::Accepted { send_id: id, recipients, away } if id == *send_id => {
                    return missed.map_or(Ok(Taken { recipients, away }), Err);
                }
                Event::Refused { send_id: id, nack } if id == *send_id => {
                    let is_partial = nack.to.is_some() && self.is_for_several();
                    let failure = not_delivered(client, &self.to, &nack);
                    if !is_partial {
                        return Err(failure);
                    }
                    // The others may still get it; each that doesn't is named.
                    missed = Some(keep(missed, failure));
                }
                event => aside.note(event)?,
            }
        }
    }

    /// Until the daemon has answered something that was asked after it: by then it would have said so.
    fn fence(&self, client: &Client, send_id: &SendId, deadline: u64) -> Result<Taken, Failure> {
        let mut aside = Aside::default();
        loop {
            ask(client, "status", None)?;
            let mut again_after = None;
            for event in client.events().try_iter() {
                match event {
                    Event::Refused { send_id: id, nack } if id == *send_id => {
                        return Err(not_delivered(client, &self.to, &nack));
                    }
                    Event::Busy { send_id: id, wait_ms } if id == *send_id => {
                        again_after = Some(wait_ms);
                    }
                    event => aside.note(event)?,
                }
            }
            let Some(wait_ms) = again_after else { return Ok(Taken::default()) };
            if clock::monotonic_ms().saturating_add(wait_ms) > deadline {
                return Err(self.timed_out());
            }
            // The library sends it again by then; a request after that finds out what became of it.
            std::thread::sleep(Duration::from_millis(wait_ms + 1));
        }
    }

    fn next(&self, client: &Client, deadline: u64) -> Result<Event, Failure> {
        let left = Duration::from_millis(deadline.saturating_sub(clock::monotonic_ms()));
        client.events().recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.timed_out(),
            RecvTimeoutError::Disconnected => Failure::failed("the connection is over"),
        })
    }

    fn timed_out(&self) -> Failure {
        let to = foreign_line(&self.to);
        Failure::new(
            TIMED_OUT,
            format!(
                "{to} had no room for the message, or the daemon no word, within {} ms",
                self.timeout
            ),
        )
    }

    fn is_for_several(&self) -> bool {
        self.to == EVERYONE
    }

    fn report(&self, send_id: &SendId, taken: Taken) -> Result<(), Failure> {
        let state = if self.no_ack { "taken" } else { "accepted" };
        let mut out = Out::new();
        if self.json {
            return out.json("sent", &Report { send_id: &send_id.0, state, taken });
        }
        match taken.recipients {
            None if taken.away => out.line(format_args!(
                "{state} {send_id}; {} is away, and it waits until then",
                foreign_line(&self.to)
            )),
            None => out.line(format_args!("{state} {send_id}")),
            Some(1) => out.line(format_args!("{state} {send_id} for 1 recipient")),
            Some(count) => out.line(format_args!("{state} {send_id} for {count} recipients")),
        }
    }
}

/// Joins to say something: as the agent that was named, with its key if it has one, or as who this
/// process is.
pub(super) fn join_as(
    from: Option<&str>,
    key_file: Option<&str>,
    asked: &Asked,
) -> Result<Client, Failure> {
    join_named(from, key_file, asked).map_err(or_print)
}

fn join_named(
    from: Option<&str>,
    key_file: Option<&str>,
    asked: &Asked,
) -> Result<Client, Failure> {
    let mut place = asked.place()?;
    from.map_or(Ok(()), check_name)?;
    let identity = Identity::of_process(&place)?;
    if from.is_none() {
        identity.check_speaks()?;
    }
    let (Identity::Person(_), Some(name)) = (&identity, from) else {
        return join_or_start(&mut place, &|endpoint| identity.settings(endpoint));
    };
    let key = key_of(&place.home, name, key_file)?;
    // Its mail is not for this command.
    let capabilities = Capabilities { max_inflight: 0, ..Capabilities::default() };
    join_or_start(&mut place, &|endpoint| Settings {
        capabilities,
        key: key.clone(),
        ..Settings::agent(endpoint, name)
    })
}

/// What the daemon, or the recipient, said no to.
pub(super) fn not_delivered(client: &Client, to: &str, nack: &Nack) -> Failure {
    let mut words = format!("{}: {}", foreign_line(&nack.code), foreign_line(&nack.message));
    let is_unknown = nack.code == NackCode::UnknownAgent.as_str() && to != RELAY;
    if let Some(name) = is_unknown.then(|| nearest(to, client)).flatten() {
        words.push_str(&format!("; did you mean {}?", foreign_line(&name)));
    }
    Failure::new(NOT_DELIVERED, words)
}

fn keep(earlier: Option<Failure>, failure: Failure) -> Failure {
    if let Some(words) = earlier.and_then(|failure| failure.words) {
        say(words);
    }
    failure
}
