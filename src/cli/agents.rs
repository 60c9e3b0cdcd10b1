//! `agents`: the agents that the daemon knows.

mod agent;
mod context;
mod here;
mod paint;
mod place;
mod watch;
mod why;

use super::{
    bridges,
    failure::{DONE, Failure},
    groups,
    join::join,
    mailbox::remind,
    print::Out,
    request::each_agent,
    table::Column,
    wrapped::RUN_DIRECTORY,
};
use crate::wrap::control::client::{self as control, ControlClient};
pub(super) use agent::{Agent, COLUMNS, Need, Rank};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client,
    home::{HomeOptions, agent_around},
};
use here::Here;
use machines::report::{Known, LastError, Report, State};
#[cfg(test)]
pub(super) use place::Place;
use platform::clock;
use protocol::{
    activity::Activity,
    calendar::duration,
    control::{AgentState, Collision, Dialog, Request, Source},
    relay::AgentRow,
    text::escaped,
};
use serde::Serialize;
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};
use terminal::transcript::ContextUse;

/// The longest wait for the answers of all wrappers together.
const ANSWERS_MS: u64 = 2000;

/// The columns of `--long` after the others.
const LONG_COLUMNS: [Column; 5] = [
    Column::cut("DIRECTORY", 12),
    Column::optional("CONTEXT"),
    Column::cut("READ FROM", 12),
    Column::optional("IN FLIGHT"),
    Column::optional("TOPICS"),
];

/// The most names of agents in a line.
const NAMES_MAX: usize = 8;

/// The table without agents.
const NONE: &str = "no agents yet; start one with `agent-relay run NAME -- COMMAND`";

/// The table without agents in this directory.
const NONE_HERE: &str = "no agents in this directory; `agent-relay agents` lists all";

/// List the agents, and the messages that wait for each.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "agents",
    help_triggers("--help"),
    example = "agent-relay agents",
    example = "agent-relay agents --here --watch",
    example = "agent-relay agents Ann --why",
    example = "agent-relay agents --json",
    note = "STATE of an agent CLI is starting, working, waits for permission, asks you, finished (idle, and you have not looked at it since), idle, in a shell, or ended.",
    note = "STATE of any other agent is here, away, or reconnecting, shortly after a start of the daemon; of an agent of another machine, on HOST or no link."
)]
pub(super) struct Agents {
    /// list only this agent
    #[argh(positional, arg_name = "agent")]
    name: Option<String>,

    /// say what the wrapper of this agent knows about its terminal, from what source, and what
    /// follows for the next message
    #[argh(switch)]
    why: bool,

    /// only agents that run in this directory or below it
    #[argh(switch)]
    here: bool,

    /// a row for each agent, and what is known about its connection
    #[argh(switch, short = 'l')]
    long: bool,

    /// list again when something changes, until Ctrl-C
    #[argh(switch, short = 'w')]
    watch: bool,

    /// print one JSON object a line for each agent; with --watch, for each that has changed
    #[argh(switch)]
    json: bool,
}

impl Agents {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.why {
            let name = self.name.ok_or_else(|| {
                Failure::usage("--why is about one agent").hint("`agent-relay agents NAME --why`")
            })?;
            if self.here || self.watch {
                return Err(Failure::usage("--why takes neither --here nor --watch"));
            }
            return why::run(options, &name, self.json);
        }
        let here = if self.here { Some(Here::new(options)?) } else { None };
        let only = self.name.as_deref();
        let list = |client: &Client| list(client, options, here.as_ref(), only);
        let empty = if self.here { NONE_HERE } else { NONE };
        let layout = Layout { empty, is_long: self.long, sums_up: !self.long && only.is_none() };
        if self.watch {
            return watch::run(options, self.json, layout, &list);
        }
        let client = join(options)?;
        let mut out = Out::new();
        let agents = list(&client)?;
        if let Some(name) = only.filter(|_| agents.is_empty()) {
            return Err(Failure::failed(format!("no agent {}", escaped(name)))
                .hint("`agent-relay agents` lists all"));
        }
        if self.json {
            return agents
                .iter()
                .try_for_each(|agent| out.json_text(SCHEMA, &agent.json))
                .map(|()| DONE);
        }
        layout.print(&agents, &mut out)?;
        if let Some(line) = groups::in_words(options)?.filter(|_| only.is_none()) {
            out.broken(&line)?;
        }
        remind(&client);
        Ok(DONE)
    }
}

/// The name of the schema of an agent in JSON.
const SCHEMA: &str = "agent";

/// An agent, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    name: String,
    json: String,
    /// The cells of all columns, those of `--long` at the end.
    cells: Vec<String>,
    remarks: Vec<String>,
    /// The line about the bridge that links the agent's machine.
    link: Option<String>,
    rank: Rank,
    is_dormant: bool,
}

impl Shown {
    fn new(row: AgentRow<'_>, wrapper: Option<&AgentState>, link: Option<&Report>) -> Self {
        let agent = Agent::of(&row, wrapper);
        let listed = &Listed::new(row, wrapper, agent.context, link);
        let row = &listed.agent;
        let remarks = [
            reason_to_wait(row),
            question(&row.name, listed.dialog.as_ref()),
            collisions(listed),
            remark(&row.name, listed.source.as_ref()),
            hookless(listed),
        ];
        let mut cells = agent.cells(clock::unix_ms());
        cells.extend(long_cells(listed));
        Self {
            name: row.name.clone().into_owned(),
            json: serde_json::to_string(listed).expect("what commands print is JSON"),
            cells,
            remarks: remarks.into_iter().flatten().collect(),
            link: link.map(link_in_words),
            rank: agent.rank(),
            is_dormant: agent.is_dormant(),
        }
    }
}

/// The form of a list.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The text that replaces an empty list.
    empty: &'static str,
    is_long: bool,
    /// Whether agents that are away without mail have one line together.
    sums_up: bool,
}

impl Layout {
    fn print(self, agents: &[Shown], out: &mut Out) -> Result<(), Failure> {
        let (columns, rows, remarks) = self.table(agents);
        if !rows.is_empty() || agents.is_empty() {
            out.table(&columns, rows, self.empty)?;
        }
        remarks.iter().try_for_each(|remark| out.broken(remark))
    }

    /// The columns and the rows of the list, and the lines below them.
    fn table(self, agents: &[Shown]) -> (Vec<Column>, Vec<Vec<String>>, Vec<String>) {
        let (dormant, mut listed): (Vec<_>, Vec<_>) =
            agents.iter().partition(|agent| self.sums_up && agent.is_dormant);
        listed.sort_by(|one, other| one.rank.cmp(&other.rank));
        // The reasons are printed below, with their remedies. The mark needs a selected row.
        let mut columns = COLUMNS[1..COLUMNS.len() - 1].to_vec();
        let mut rows: Vec<_> =
            listed.iter().map(|agent| agent.cells[1..COLUMNS.len() - 1].to_vec()).collect();
        if self.is_long {
            columns.extend(LONG_COLUMNS);
            for (row, agent) in rows.iter_mut().zip(&listed) {
                row.extend_from_slice(&agent.cells[COLUMNS.len()..]);
            }
        }
        let names: Vec<_> = dormant.iter().map(|agent| &*agent.name).collect();
        let remarks = listed.iter().flat_map(|agent| &agent.remarks).cloned();
        let links: BTreeSet<_> = listed.iter().filter_map(|agent| agent.link.clone()).collect();
        (columns, rows, remarks.chain(links).chain(sum_of(&names)).collect())
    }
}

/// The line about a bridge that links agents of other machines.
fn link_in_words(report: &Report) -> String {
    let state = bridges::state(report, clock::unix_ms());
    let hosts = match &*bridges::hosts(report) {
        "" => String::new(),
        hosts => format!("; machines: {hosts}"),
    };
    format!("{}: {state}{hosts}", bridges::name(report))
}

/// The line about agents that are away without mail, if there are any.
pub(super) fn sum_of(names: &[&str]) -> Option<String> {
    let list = names_in_line(names);
    (!names.is_empty()).then(|| format!("{} away without mail: {list}", names.len()))
}

/// The first of several names, escaped, and the number of the others.
pub(super) fn names_in_line(names: &[&str]) -> String {
    let (shown, more) = names.split_at(names.len().min(NAMES_MAX));
    let mut list = shown.iter().map(|name| escaped(name)).collect::<Vec<_>>().join(", ");
    if !more.is_empty() {
        list.push_str(&format!(" and {} more", more.len()));
    }
    list
}

/// The question that an agent's CLI asks its person.
fn question(name: &str, dialog: Option<&Dialog>) -> Option<String> {
    let Dialog { text, choices, .. } = dialog?;
    let choices = choices.iter().enumerate();
    let choices: Vec<_> =
        choices.map(|(at, choice)| format!("{} {}", at + 1, escaped(choice))).collect();
    let text = agent::on_one_line(text);
    Some(format!("{} asks: {text} ({})", escaped(name), choices.join(", ")))
}

/// A note about the files that the agent and others have edited.
fn collisions(listed: &Listed<'_>) -> Option<String> {
    let directory = listed.agent.directory.as_deref();
    let words = |collision: &Collision| {
        let ago = duration(clock::unix_ms().saturating_sub(collision.since));
        format!("{}, {ago} ago", agent::collision_words(collision, directory))
    };
    let all: Vec<_> = listed.collisions.iter().map(words).collect();
    (!all.is_empty())
        .then(|| format!("note: {} edits the {}", escaped(&listed.agent.name), all.join("; ")))
}

/// Lists the agents, the agents here, or only the one with this name.
fn list(
    client: &Client,
    options: &HomeOptions,
    here: Option<&Here>,
    only: Option<&str>,
) -> Result<Vec<Shown>, Failure> {
    let wrappers = Wrappers::new(options, ANSWERS_MS);
    let mut shown = Vec::new();
    each_agent(client, |agent| {
        if only.is_some_and(|only| !agent.name.eq_ignore_ascii_case(only)) {
            return Ok(());
        }
        let wrapper = wrappers.ask(&agent);
        let row = wrappers.completed(agent, wrapper.as_ref());
        if here.is_none_or(|here| here.includes(&row)) {
            let link = link_of(&row, &wrappers.bridges);
            shown.push(Shown::new(row, wrapper.as_ref(), link));
        }
        Ok(())
    })?;
    Ok(shown)
}

/// The report of the bridge that links an agent's machine: one that is linked, if there is one.
fn link_of<'a>(agent: &AgentRow<'_>, all: &'a [Known]) -> Option<&'a Report> {
    let host = agent.host.as_deref()?;
    let about = all.iter().map(|known| &known.report).filter(|report| report.is_about(host));
    about.min_by_key(|report| report.state != State::Linked)
}

/// The link of an agent of another machine, in JSON.
#[derive(Serialize)]
struct Link<'a> {
    kind: &'a str,
    name: &'a str,
    state: &'a str,
    since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a LastError>,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    agent: AgentRow<'a>,
    /// The source of the agent's messages, if the agent is wrapped on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    /// Whether the agent's messages are held.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    /// The reason why the agent's CLI reports nothing by hooks, although it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_hooks: Option<String>,
    /// The dialog on the agent's screen, if its choices are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialog: Option<Dialog>,
    /// The latest collisions with other agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    collisions: Vec<Collision>,
    /// How much of its model's context the agent's conversation takes, if known from its
    /// transcript.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<ContextUse>,
    /// The link to the agent's machine, if a bridge of this home has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Link<'a>>,
}

impl<'a> Listed<'a> {
    /// Combines a row with facts from the agent's wrapper or a bridge.
    fn new(
        agent: AgentRow<'a>,
        wrapper: Option<&AgentState>,
        context: Option<ContextUse>,
        link: Option<&'a Report>,
    ) -> Self {
        let AgentState { source, held, no_hooks, dialog, collisions, .. } =
            wrapper.cloned().unwrap_or_default();
        let link = link.map(|report| Link {
            kind: report.kind.as_str(),
            name: &report.name,
            state: report.state.as_str(),
            since: report.since,
            error: report.error.as_ref(),
        });
        Self { agent, source, held, no_hooks, dialog, collisions, context, link }
    }
}

/// Adds the facts of the agent's wrapper to a row: the messages that wait there, and a directory
/// that is too long for the daemon. The wrapper also counts messages that the daemon has finished
/// with (answers, at-most-once messages).
fn completed<'a>(mut agent: AgentRow<'a>, wrapper: Option<&AgentState>) -> AgentRow<'a> {
    let Some(wrapper) = wrapper else { return agent };
    if agent.directory.is_none() {
        agent.directory = wrapper.directory.clone().map(Into::into);
    }
    agent.waiting = agent.waiting.max(wrapper.waiting as u64);
    if agent.waiting > 0 && agent.why.is_none() {
        agent.why = wrapper.why.clone().map(Into::into);
    }
    agent
}

/// The running wrappers of this home; none inside a wrapped agent.
pub(super) struct Wrappers {
    run_directory: PathBuf,
    names: HashSet<String>,
    /// The bridges, which know something about agents of other machines.
    bridges: Vec<Known>,
    until_ms: u64,
}

impl Wrappers {
    /// Lists the wrappers. `time` limits all their answers together.
    pub(super) fn new(options: &HomeOptions, answers_ms: u64) -> Self {
        // If the home is unknown, the empty path is used, where no wrapper is found.
        let run_directory = options.home().map(|home| home.join(RUN_DIRECTORY)).unwrap_or_default();
        let names = match agent_around() {
            None => control::names(&run_directory).into_iter().collect(),
            Some(_) => HashSet::new(),
        };
        let bridges = options.home().map(|home| bridges::known(&home)).unwrap_or_default();
        Self { run_directory, names, bridges, until_ms: clock::monotonic_ms() + answers_ms }
    }

    /// Completes a row as [`completed`] does, for an agent of another machine with the data that it
    /// states.
    pub(super) fn completed<'a>(
        &self,
        mut agent: AgentRow<'a>,
        wrapper: Option<&AgentState>,
    ) -> AgentRow<'a> {
        let link = link_of(&agent, &self.bridges).filter(|_| agent.here);
        if let Some(details) = link.and_then(|report| report.details_of(&agent.name)) {
            agent.program = details.program.clone().map(Into::into);
            agent.directory = details.directory.clone().map(Into::into);
        }
        completed(agent, wrapper)
    }

    /// Asks an agent's wrapper for its state. `None` if the agent has no wrapper in this home, or
    /// the wrapper does not answer.
    pub(super) fn ask(&self, agent: &AgentRow<'_>) -> Option<AgentState> {
        if !agent.here || !self.names.contains(&*agent.name) {
            return None;
        }
        let left = self.until_ms.saturating_sub(clock::monotonic_ms());
        let wrapper = ControlClient::connect(&self.run_directory, &agent.name).ok()?;
        wrapper.request_state(&Request::State, Duration::from_millis(left)).ok()
    }
}

/// The cells of an agent for [`LONG_COLUMNS`].
fn long_cells(listed: &Listed<'_>) -> [String; LONG_COLUMNS.len()] {
    let Listed { agent, source, .. } = listed;
    [
        agent.directory.as_deref().map(escaped).unwrap_or_default(),
        listed.context.map(context::words).unwrap_or_default(),
        read_from(source.as_ref()),
        agent.in_flight.to_string(),
        agent.subscriptions.to_string(),
    ]
}

fn read_from(source: Option<&Source>) -> String {
    match source {
        Some(Source::Screen) => "its screen".to_owned(),
        Some(Source::Transcript { path }) => {
            let name = Path::new(path).file_name().unwrap_or_default();
            escaped(&name.to_string_lossy())
        }
        Some(Source::Missing { .. }) => "nothing yet".to_owned(),
        None => String::new(),
    }
}

/// Returns where an agent is, in words.
pub(super) fn presence(agent: &AgentRow<'_>) -> String {
    match agent.host.as_deref() {
        Some(host) if agent.here => format!("on {}", escaped(host)),
        Some(_) => "no link".to_owned(),
        None if agent.here => "here".to_owned(),
        None if agent.reconnecting => "reconnecting".to_owned(),
        None => "away".to_owned(),
    }
}

/// Returns an agent's activity, in words that follow its name, and its beginning, if known.
pub(super) fn activity(agent: &AgentRow<'_>) -> Option<(String, u64)> {
    let (text, since) = (agent.activity.as_deref()?, agent.activity_since?);
    if is_finished(agent) {
        return Some(("has finished".to_owned(), since));
    }
    let words = Activity::parse(text).map_or_else(|| escaped(text), |known| known.words().into());
    Some((words, since))
}

/// Whether an agent has finished its work, and its person has not looked since.
fn is_finished(agent: &AgentRow<'_>) -> bool {
    agent.unseen && agent.activity.as_deref() == Some(Activity::Idle.as_str())
}

/// A note about an agent whose CLI could report by hooks but does not.
fn hookless(listed: &Listed<'_>) -> Option<String> {
    let (name, why) = (escaped(&listed.agent.name), escaped(listed.no_hooks.as_deref()?));
    Some(format!("note: {name} has no hooks, so messages are only typed: {why}"))
}

/// The reason why messages wait for an agent, with a remedy.
fn reason_to_wait(agent: &AgentRow<'_>) -> Option<String> {
    let (name, why) = (escaped(&agent.name), escaped(agent.why.as_deref()?));
    let wait = if agent.waiting == 1 { "waits" } else { "wait" };
    let since = agent.why_since.map(|at| duration(clock::unix_ms().saturating_sub(at)));
    let since = since.map(|since| format!(", for {since}")).unwrap_or_default();
    Some(format!("{name}: {} {wait}{since}: {why}", agent.waiting))
}

/// How long after the first prompt a program may take to create its transcript.
const MISSED_MS: u64 = 10_000;

/// A note about an agent if its messages are not read.
fn remark(name: &str, source: Option<&Source>) -> Option<String> {
    let Some(Source::Missing { since }) = source else { return None };
    let missed_ms = clock::unix_ms().saturating_sub(*since);
    let (name, missed) = (escaped(name), duration(missed_ms));
    (missed_ms >= MISSED_MS).then(|| {
        format!(
            "note: no message of {name} is sent so far: its program got a prompt {missed} ago, but \
             no transcript was found; `run --grid` reads the screen instead"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent with two waiting messages.
    pub(super) fn ann() -> AgentRow<'static> {
        let json = r#"{"name":"Ann","here":true,"since":1,"queued":2,"queued_bytes":9,"in_flight":0,
            "subscriptions":0,"waiting":2,"why":"a line is half typed: send it off","why_since":1}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn reason_to_wait_is_shown() {
        let since = AgentRow { why_since: Some(clock::unix_ms()), ..ann() };
        let shown = reason_to_wait(&since).unwrap();
        assert!(shown.starts_with("Ann: 2 wait, for "), "{shown}");
        assert!(shown.ends_with(" s: a line is half typed: send it off"), "{shown}");
        let once = AgentRow { waiting: 1, why_since: None, ..ann() };
        assert_eq!(
            reason_to_wait(&once).unwrap(),
            "Ann: 1 waits: a line is half typed: send it off"
        );
        assert_eq!(reason_to_wait(&AgentRow { why: None, ..ann() }), None);
    }

    #[test]
    fn wrapper_adds_messages_that_are_done_for_the_daemon() {
        let counted = |row, waiting| {
            let why = (waiting > 0).then(|| "the agent is printing".to_owned());
            let wrapper = AgentState { waiting, why, ..AgentState::default() };
            let row = completed(row, Some(&wrapper));
            (row.waiting, row.why.map(|why| why.into_owned()))
        };
        let reported = ann().why.map(|why| why.into_owned());
        assert_eq!(counted(ann(), 1), (2, reported.clone()));
        assert_eq!(counted(ann(), 3), (3, reported));
        let none = || AgentRow { waiting: 0, why: None, why_since: None, ..ann() };
        assert_eq!(counted(none(), 1), (1, Some("the agent is printing".to_owned())));
        assert_eq!(counted(none(), 0), (0, None));
    }

    #[test]
    fn activity_stands_in_place_of_the_connection() {
        let doing = |text: &'static str| AgentRow {
            activity: Some(text.into()),
            activity_since: Some(1),
            ..ann()
        };
        let held = AgentState { held: true, ..AgentState::default() };
        let shown = |row| Agent::of(&row, Some(&held)).cells(1)[4].clone();
        assert_eq!(shown(doing("waits-for-permission")), "waits for permission, held");
        assert_eq!(shown(doing("shell")), "in a shell, held");
        assert_eq!(shown(doing("\u{1b}later")), "\\u{1b}later, held");
        assert_eq!(shown(ann()), "here, held");
    }

    #[test]
    fn agents_that_wait_for_their_person_are_first() {
        let doing = |name: &'static str, activity: &'static str, unseen| {
            let (activity, activity_since) = (Some(activity.into()), Some(1));
            let row = AgentRow { name: name.into(), activity, activity_since, unseen, ..ann() };
            Shown::new(AgentRow { waiting: 0, why: None, ..row }, None, None)
        };
        let agents = [
            doing("Ann", "idle", false),
            doing("Bob", "working", false),
            doing("Cid", "idle", true),
            doing("Dora", "asks-person", false),
        ];
        let layout = Layout { empty: "", is_long: false, sums_up: true };
        let (_, rows, _) = layout.table(&agents);
        let names: Vec<_> = rows.iter().map(|row| &*row[0]).collect();
        assert_eq!(names, ["Dora", "Cid", "Bob", "Ann"]);
    }

    /// `--long` and a list of one agent have one row for each agent.
    #[test]
    fn agents_away_without_mail_have_one_line() {
        let away = |name: String, waiting| {
            let row = AgentRow { name: name.into(), here: false, waiting, ..ann() };
            Shown::new(AgentRow { why: None, ..row }, None, None)
        };
        let agents: Vec<_> = (0..10).map(|number| away(format!("A{number}"), 0)).collect();
        let agents = [agents, vec![away("Bob".to_owned(), 1)]].concat();
        let layout = Layout { empty: "", is_long: false, sums_up: true };
        let (columns, rows, remarks) = layout.table(&agents);
        assert_eq!(rows.iter().map(|row| &*row[0]).collect::<Vec<_>>(), ["Bob"]);
        assert_eq!(rows[0].len(), columns.len());
        let names = "A0, A1, A2, A3, A4, A5, A6, A7 and 2 more";
        assert_eq!(remarks, [format!("10 away without mail: {names}")]);
        let (columns, rows, remarks) =
            Layout { is_long: true, sums_up: false, ..layout }.table(&agents);
        assert_eq!((rows.len(), rows[0].len(), remarks.len()), (11, columns.len(), 0));
    }

    #[test]
    fn question_is_told_with_its_choices() {
        let dialog = Dialog {
            text: "Bash\nrm \u{1b}x".to_owned(),
            choices: vec!["Yes".to_owned(), "No".to_owned()],
            typed: 0,
        };
        let told = question("Ann", Some(&dialog)).unwrap();
        assert_eq!(told, "Ann asks: Bash · rm \\u{1b}x (1 Yes, 2 No)");
    }

    #[test]
    fn missing_hooks_are_noted() {
        let listed = |no_hooks| {
            let wrapper = AgentState { no_hooks, ..AgentState::default() };
            hookless(&Listed::new(ann(), Some(&wrapper), None, None))
        };
        let note = listed(Some("they are off".to_owned())).unwrap();
        assert_eq!(note, "note: Ann has no hooks, so messages are only typed: they are off");
        assert_eq!(listed(None), None);
    }

    #[test]
    fn unread_agent_is_noted() {
        let missing = |for_ms| Source::Missing { since: clock::unix_ms() - for_ms };
        let path = "/home/me/.codex/sessions/rollout-1.jsonl".to_owned();
        let found = Source::Transcript { path };
        assert_eq!(read_from(Some(&found)), "rollout-1.jsonl");
        assert_eq!(read_from(Some(&Source::Screen)), "its screen");
        assert_eq!(read_from(None), "");
        assert_eq!(read_from(Some(&missing(0))), "nothing yet");
        let remark_of = |source: Option<&Source>| remark("Ann", source);
        assert_eq!(
            [remark_of(Some(&found)), remark_of(Some(&Source::Screen)), remark_of(None)],
            [None, None, None]
        );
        assert_eq!(remark_of(Some(&missing(MISSED_MS / 2))), None);
        let note = remark_of(Some(&missing(2 * MISSED_MS))).unwrap();
        assert!(
            note.starts_with("note: no message of Ann is sent so far: its program got a prompt"),
            "{note}"
        );
        assert!(note.contains("`run --grid`"), "{note}");
    }
}
