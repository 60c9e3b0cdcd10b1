//! The connection of a command to the wrapper of an agent.

use super::{
    failure::{DONE, Failure, TIMED_OUT, first_failure},
    groups,
    identity::{Wrapper, wrapper_around},
    print::Out,
};
use crate::wrap::control::client::{ControlClient, ControlError, names};
use client::home::{HomeOptions, agent_around};
use protocol::{
    control::{Answer, Ended, Request},
    name::Name,
    payload::LoopCount,
    secret::Secret,
    text::escaped,
};
use std::{iter, path::Path, time::Duration};

/// The directory in the home directory for the files of running wrappers.
pub(super) const RUN_DIRECTORY: &str = "run";

/// The prefix of each of a command's last lines.
const LAST_LINE: &str = "\n    | ";

/// The longest wait for an answer of a wrapper.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// The most names of wrapped agents that an error lists.
const NAMES_MAX: usize = 20;

/// Connects a person's command to the wrapper of an agent.
pub(super) fn connect(options: &HomeOptions, name: &str) -> Result<ControlClient, Failure> {
    check_is_person()?;
    check_name(name)?;
    let run_directory = options.home()?.join(RUN_DIRECTORY);
    ControlClient::connect(&run_directory, name).map_err(|error| match error {
        ControlError::NotRunning => not_wrapped(&run_directory, name),
        error => explain(name, &error),
    })
}

/// Returns the names of the agents that run without a terminal that shows them.
pub(super) fn in_background(home: &Path) -> impl Iterator<Item = String> {
    let run_directory = home.join(RUN_DIRECTORY);
    let is_unseen = move |name: &String| {
        let wrapper = ControlClient::connect(&run_directory, name);
        let state = wrapper.and_then(|wrapper| wrapper.request_state(&Request::State, ANSWER));
        state.is_ok_and(|state| !state.has_terminal && state.attached == 0)
    };
    names(&home.join(RUN_DIRECTORY)).into_iter().filter(is_unseen)
}

/// Refuses a person's command inside a wrapped agent.
pub(super) fn check_is_person() -> Result<(), Failure> {
    let Some(agent) = agent_around() else { return Ok(()) };
    Err(Failure::failed("this command is for a person at a terminal")
        .hint(format!("run it outside of {}", escaped(&agent))))
}

/// Returns the agents that a person's command is about, each once, with the agents of groups. With
/// a wrong name among them, the command ends before it has done anything.
pub(super) fn each_once(
    options: &HomeOptions,
    first: &str,
    others: &[String],
) -> Result<Vec<String>, Failure> {
    check_is_person()?;
    let names = iter::once(first).chain(others.iter().map(String::as_str));
    let agents = groups::expanded(options, names, None)?;
    agents.iter().try_for_each(|name| check_name(name))?;
    Ok(agents)
}

/// Checks that no wrapper of an agent runs.
pub(super) fn check_is_over(options: &HomeOptions, name: &str) -> Result<(), Failure> {
    let run_directory = options.home()?.join(RUN_DIRECTORY);
    match ControlClient::connect(&run_directory, name) {
        Ok(_) => {
            let failure = Failure::failed(format!("{} runs", escaped(name)));
            Err(failure.hint(format!("end it first: `agent-relay stop {}`", escaped(name))))
        }
        Err(_) => Ok(()),
    }
}

/// The answer of a wrapper to a command that takes messages.
pub(super) struct Taken {
    /// The messages in their frames.
    pub(super) text: Option<String>,
    /// The reason why messages that wait cannot be read now.
    pub(super) why: Option<String>,
}

/// Takes messages that wait from the wrapper of the agent that this command runs in: the one with
/// this beginning of its id, or as many as one command shows. `None` if there is no such wrapper.
pub(super) fn take(id: Option<&str>) -> Option<Taken> {
    match ask_around(|key| Request::Take { key, id: id.map(str::to_owned) })? {
        Answer::Taken { text, why } => Some(Taken { text, why }),
        _ => None,
    }
}

/// Returns the count that goes with a message of the agent that this command runs in, if the
/// agent's wrapper knows it.
pub(super) fn hops(to: &str) -> Option<LoopCount> {
    match ask_around(|key| Request::Count { key, to: to.to_owned() })? {
        Answer::Counted { hops } => hops,
        _ => None,
    }
}

/// Tells the wrapper of the agent that this command runs in that a message to the agent's person
/// was accepted.
pub(super) fn wrote_to_person() {
    // The wrapper hangs up once it has read this. An older wrapper refuses this, and got the report
    // earlier.
    drop(ask_around(|key| Request::Wrote { key }));
}

/// Asks the wrapper of the agent that this command runs in, with the key of the agent's commands.
/// `None` if there is no such wrapper, or if it does not answer.
fn ask_around(request: impl FnOnce(Secret) -> Request) -> Option<Answer> {
    let Wrapper { run_directory, agent, key } = wrapper_around()?;
    let wrapper = ControlClient::connect(&run_directory, &agent).ok()?;
    wrapper.request(&request(key), ANSWER).ok()
}

/// Checks that a name is valid for an agent.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    Name::parse(name)
        .map(drop)
        .map_err(|error| Failure::usage(format!("an agent cannot have the name {name:?}: {error}")))
}

/// Returns the failure for an agent without a wrapper, with the names of wrapped agents.
fn not_wrapped(run_directory: &Path, name: &str) -> Failure {
    let is_wrapped = |name: &String| ControlClient::connect(run_directory, name).is_ok();
    let mut names: Vec<_> = names(run_directory).into_iter().filter(is_wrapped).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    let others = match (names.join(", "), more) {
        (none, _) if none.is_empty() => "none runs".to_owned(),
        (names, 0) => format!("running: {names}"),
        (names, more) => format!("running: {names} and {more} more"),
    };
    Failure::failed(format!("no wrapped agent {name} ({others})"))
        .hint("`agent-relay agents` shows who is connected")
}

/// Returns the failure of a command after its request to a wrapper has failed.
pub(super) fn explain(name: &str, error: &ControlError) -> Failure {
    let sentence = format!("cannot reach {name}: {}", escaped(&error.to_string()));
    match error {
        ControlError::TimedOut => Failure::new(TIMED_OUT, sentence),
        ControlError::Refused(sentence) => Failure::failed(escaped(sentence)),
        _ => Failure::failed(sentence),
    }
}

/// Changes whether agents' messages are held, and prints a line for each: as JSON, or as a sentence
/// about an agent and the number of its messages that wait.
pub(super) fn change(
    options: &HomeOptions,
    names: &[String],
    request: &Request,
    json: bool,
    sentence: impl Fn(&str, usize) -> String,
) -> Result<i32, Failure> {
    let change = |name: &str| {
        let wrapper = connect(options, name)?;
        let state =
            wrapper.request_state(request, ANSWER).map_err(|error| explain(name, &error))?;
        let mut out = Out::new();
        match json {
            true => out.json("wrapped", &state),
            false => out.line(sentence(name, state.waiting)),
        }
    };
    Ok(first_failure(json, names.iter().map(|name| change(name))))
}

/// The last lines on the screen of a command that failed.
pub(super) fn last_lines(ended: &Ended) -> String {
    match ended.code {
        DONE => String::new(),
        _ => indented(ended.last_lines.iter().map(String::as_str)),
    }
}

/// The last lines on a screen, each indented on a separate line.
fn indented<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: String = lines.map(|line| format!("{LAST_LINE}{}", escaped(line))).collect();
    let heading = if lines.is_empty() { "" } else { "; the last lines on its screen:" };
    format!("{heading}{lines}")
}

/// The last lines that [`last_lines`] put into a log.
pub(super) fn last_lines_of_log(log: &str) -> String {
    let prefix = LAST_LINE.trim_start_matches('\n');
    indented(log.lines().filter_map(|line| line.strip_prefix(prefix)))
}
