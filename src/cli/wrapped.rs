//! What the commands for one wrapped agent have in common: finding its wrapper, and what it answers.

use super::{
    DONE, Failure, TIMED_OUT,
    identity::agent_around,
    place::Asked,
    print::{Out, foreign_line},
    run::RUN,
};
use crate::{
    protocol::{
        control::{Answer, Request, State},
        name::Name,
    },
    wrap::visit::{self, Visit, VisitError},
};
use std::{path::Path, time::Duration};

/// How long a wrapper may take to answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// Names of wrapped agents that an error lists.
const NAMES_MAX: usize = 20;

/// A person's connection to the wrapper of this agent.
pub(super) fn visit(asked: &Asked, name: &str) -> Result<Visit, Failure> {
    if let Some(agent) = agent_around() {
        return Err(Failure::failed(format!(
            "this is for a person at a terminal of his own, not for {} or what runs in it",
            foreign_line(&agent)
        )));
    }
    check_name(name)?;
    let run_directory = asked.home()?.join(RUN);
    Visit::to(&run_directory, name).map_err(|error| match error {
        VisitError::Nobody => nobody(&run_directory, name),
        error => explain(name, &error),
    })
}

pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    Name::parse(name)
        .map(drop)
        .map_err(|error| Failure::usage(format!("no agent can be called {name:?}: {error}")))
}

/// Names who is there instead.
fn nobody(run_directory: &Path, name: &str) -> Failure {
    let is_there = |name: &String| Visit::to(run_directory, name).is_ok();
    let mut there: Vec<_> = visit::names(run_directory).into_iter().filter(is_there).collect();
    let more = there.len().saturating_sub(NAMES_MAX);
    there.truncate(NAMES_MAX);
    let there = match (there.join(", "), more) {
        (none, _) if none.is_empty() => "none runs here".to_owned(),
        (names, 0) => format!("there are {names}"),
        (names, more) => format!("there are {names} and {more} more"),
    };
    Failure::failed(format!(
        "no wrapped agent {name}: {there} (`agent-relay agents` shows who is connected)"
    ))
}

pub(super) fn explain(name: &str, error: &VisitError) -> Failure {
    let sentence = format!("{name} can't be reached: {}", foreign_line(&error.to_string()));
    match error {
        VisitError::TimedOut => Failure::new(TIMED_OUT, sentence),
        VisitError::Refused(sentence) => Failure::failed(foreign_line(sentence)),
        _ => Failure::failed(sentence),
    }
}

/// Has an agent's messages wait, or typed again, and prints what came of it: in words, how many wait.
pub(super) fn change(
    asked: &Asked,
    name: &str,
    request: &Request,
    json: bool,
    words: impl FnOnce(usize) -> String,
) -> Result<i32, Failure> {
    let state = ask(&visit(asked, name)?, name, request)?;
    let mut out = Out::new();
    match json {
        true => out.json("wrapped", &state)?,
        false => out.line(words(state.waiting))?,
    }
    Ok(DONE)
}

/// Asks for something that is answered with how the agent stands.
pub(super) fn ask(visit: &Visit, name: &str, request: &Request) -> Result<State, Failure> {
    match visit.ask(request, ANSWER).map_err(|error| explain(name, &error))? {
        Answer::State(state) => Ok(state),
        _ => Err(explain(name, &VisitError::Misspoken("it answers something else".into()))),
    }
}
