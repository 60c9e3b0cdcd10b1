//! `agents`: who is here.

use super::{
    DONE, Failure,
    ask::{each_agent, join},
    identity::agent_around,
    place::Asked,
    print::{Out, duration, foreign_line},
    run::RUN,
};
use crate::{
    protocol::{
        control::{Answer, Request, Source, State},
        relay::AgentRow,
    },
    wrap::visit::{self, Visit},
};
use argh::{ArgsInfo, FromArgs};
use platform::clock;
use serde::Serialize;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long all wrappers together may take to say where they read what their agents say.
const ANSWERS_MS: u64 = 2000;

/// List the agents that the daemon knows, here or away, with how much waits for each, and why.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "agents",
    help_triggers("--help"),
    example = "agent-relay agents",
    example = "agent-relay agents --json"
)]
pub(super) struct Agents {
    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,
}

impl Agents {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let client = join(asked)?;
        let wrappers = Wrappers::new(asked);
        let mut out = Out::new();
        let (mut rows, mut remarks) = (Vec::new(), Vec::new());
        each_agent(&client, |agent| {
            let wrapper = wrappers.ask(&agent);
            let listed = Listed::new(agent, wrapper);
            if self.json {
                return out.json("agent", &listed);
            }
            rows.push(row(&listed));
            remarks.extend(why_it_waits(&listed.agent));
            remarks.extend(remark(&listed.agent.name, listed.source.as_ref()));
            Ok(())
        })?;
        if !self.json {
            let nobody = "nobody has been here yet: `agent-relay run -n NAME -- CMD` brings one";
            let heading = ["NAME", "STATE", "WAITING", "IN FLIGHT", "TOPICS", "READ FROM"];
            out.table(&heading, rows, nobody)?;
        }
        remarks.into_iter().try_for_each(|remark| out.line(remark))?;
        Ok(DONE)
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    agent: AgentRow<'a>,
    /// Where what it says is read, if it is wrapped here.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    /// Its messages are held.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held: bool,
}

impl<'a> Listed<'a> {
    /// The daemon's row, with what the agent's wrapper knows beyond that: where its words are read,
    /// and what it has that the daemon is done with, as answers and at-most-once messages.
    fn new(mut agent: AgentRow<'a>, wrapper: Option<State>) -> Self {
        let Some(State { waiting, why, source, held, .. }) = wrapper else {
            return Self { agent, source: None, held: false };
        };
        agent.waiting = agent.waiting.max(waiting as u64);
        if agent.waiting > 0 && agent.why.is_none() {
            agent.why = why.map(Into::into);
        }
        Self { agent, source, held }
    }
}

/// The wrappers that run here, as far as a person may ask them.
struct Wrappers {
    run_directory: PathBuf,
    names: HashSet<String>,
    until_ms: u64,
}

impl Wrappers {
    fn new(asked: &Asked) -> Self {
        // Where there is no home, none runs in it.
        let run_directory = asked.home().map(|home| home.join(RUN)).unwrap_or_default();
        let names = match agent_around() {
            None => visit::names(&run_directory).into_iter().collect(),
            Some(_) => HashSet::new(),
        };
        Self { run_directory, names, until_ms: clock::monotonic_ms() + ANSWERS_MS }
    }

    /// How this agent's wrapper stands: nothing where it isn't wrapped here, or its wrapper does not answer.
    fn ask(&self, agent: &AgentRow<'_>) -> Option<State> {
        if !agent.here || !self.names.contains(&*agent.name) {
            return None;
        }
        let left = self.until_ms.saturating_sub(clock::monotonic_ms());
        let visit = Visit::to(&self.run_directory, &agent.name).ok()?;
        match visit.ask(&Request::State, Duration::from_millis(left)).ok()? {
            Answer::State(state) => Some(state),
            _ => None,
        }
    }
}

fn row(listed: &Listed<'_>) -> Vec<String> {
    let Listed { agent, source, held } = listed;
    let state = match (agent.here, agent.reconnecting) {
        (true, _) => "here",
        (false, true) => "reconnecting",
        (false, false) => "away",
    };
    let held = if *held { ", held" } else { "" };
    let since = clock::unix_ms().saturating_sub(agent.since);
    vec![
        foreign_line(&agent.name),
        format!("{state} for {}{held}", duration(since)),
        agent.waiting.to_string(),
        agent.in_flight.to_string(),
        agent.subscriptions.to_string(),
        read_from(source.as_ref()),
    ]
}

fn read_from(source: Option<&Source>) -> String {
    match source {
        Some(Source::Screen) => "its screen".to_owned(),
        Some(Source::Transcript { path }) => {
            let name = Path::new(path).file_name().unwrap_or_default();
            foreign_line(&name.to_string_lossy())
        }
        Some(Source::Missing { .. }) => "nothing yet".to_owned(),
        None => String::new(),
    }
}

/// Why messages wait for an agent, and what a person can do about it.
fn why_it_waits(agent: &AgentRow<'_>) -> Option<String> {
    let (name, why) = (foreign_line(&agent.name), foreign_line(agent.why.as_deref()?));
    let wait = if agent.waiting == 1 { "waits" } else { "wait" };
    let since = agent.why_since.map(|at| duration(clock::unix_ms().saturating_sub(at)));
    let since = since.map(|since| format!(", for {since}")).unwrap_or_default();
    Some(format!("{name}: {} {wait}{since}: {why}", agent.waiting))
}

/// What a person has to know, and do, where nobody reads what an agent says.
fn remark(name: &str, source: Option<&Source>) -> Option<String> {
    let Some(Source::Missing { since }) = source else { return None };
    let (name, looked) = (foreign_line(name), duration(clock::unix_ms().saturating_sub(*since)));
    Some(format!(
        "note: nothing that {name} says is sent so far: the transcript of its program, which is often made with \
         the first prompt, was not found in {looked}; `run --grid` reads the screen instead"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ann, of whose messages two wait.
    fn ann() -> AgentRow<'static> {
        let json = r#"{"name":"Ann","here":true,"since":1,"queued":2,"queued_bytes":9,"in_flight":0,
            "subscriptions":0,"waiting":2,"why":"a line is half typed: send it off","why_since":1}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn reason_to_wait_is_remarked_on() {
        let since = AgentRow { why_since: Some(clock::unix_ms()), ..ann() };
        let shown = why_it_waits(&since).unwrap();
        assert!(shown.starts_with("Ann: 2 wait, for "), "{shown}");
        assert!(shown.ends_with(" s: a line is half typed: send it off"), "{shown}");
        let once = AgentRow { waiting: 1, why_since: None, ..ann() };
        assert_eq!(why_it_waits(&once).unwrap(), "Ann: 1 waits: a line is half typed: send it off");
        assert_eq!(why_it_waits(&AgentRow { why: None, ..ann() }), None);
    }

    #[test]
    fn wrapper_adds_what_the_daemon_is_done_with() {
        let counted = |row, waiting| {
            let why = (waiting > 0).then(|| "the agent is printing".to_owned());
            let listed = Listed::new(row, Some(State { waiting, why, ..State::default() }));
            (listed.agent.waiting, listed.agent.why.map(|why| why.into_owned()))
        };
        let reported = ann().why.map(|why| why.into_owned());
        assert_eq!(counted(ann(), 1), (2, reported.clone()));
        assert_eq!(counted(ann(), 3), (3, reported));
        let none = || AgentRow { waiting: 0, why: None, why_since: None, ..ann() };
        assert_eq!(counted(none(), 1), (1, Some("the agent is printing".to_owned())));
        assert_eq!(counted(none(), 0), (0, None));
    }

    #[test]
    fn who_is_read_nowhere_is_remarked_on() {
        let missing = Source::Missing { since: clock::unix_ms() };
        let path = "/home/me/.codex/sessions/rollout-1.jsonl".to_owned();
        let found = Source::Transcript { path };
        assert_eq!(read_from(Some(&found)), "rollout-1.jsonl");
        assert_eq!(read_from(Some(&Source::Screen)), "its screen");
        assert_eq!(read_from(None), "");
        assert_eq!(read_from(Some(&missing)), "nothing yet");
        let remark_of = |source| remark("Ann", source);
        assert_eq!(
            [remark_of(Some(&found)), remark_of(Some(&Source::Screen)), remark_of(None)],
            [None, None, None]
        );
        let told = remark_of(Some(&missing)).unwrap();
        assert!(
            told.starts_with("note: nothing that Ann says is sent so far: the transcript"),
            "{told}"
        );
        assert!(told.contains("`run --grid`"), "{told}");
    }
}
