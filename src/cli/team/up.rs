//! `team up`: start the agents of a project that do not run.

use super::{
    names::{Names, Refused},
    plan::{Plan, Planned, file_here},
    presence::{Presences, is_same},
};
use crate::{
    cli::{
        context::context,
        failure::{Failure, TIMED_OUT, first_failure},
        identity::Identity,
        input::confirm,
        join::join_or_start,
        launch::make_home,
        print::{Out, counted, eprint_line, eprint_text},
        request::{call_with, parse},
        send::not_delivered,
        spawn::{Agent, STARTED_MS, Started, Starting},
        wrapped::check_is_person,
    },
    config::{recipes, team::FILE},
    wrap::{
        self, Book, Prospect,
        agent_record::{self, AgentRecord},
        teams::{self, Member, TeamRecord},
    },
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, Event, Outgoing, SendId,
    home::{Context, HomeOptions},
};
use platform::clock;
use protocol::{
    relay::{MessageRequest, MessageRow, Messages, RequestName},
    text::escaped,
};
use serde::Serialize;
use std::{
    borrow::Cow,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// The longest wait until the daemon has accepted a first prompt.
const PROMPT_MS: u64 = 30_000;

/// Start a project's agents, except those that run.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "up",
    help_triggers("--help"),
    example = "agent-relay team up",
    example = "agent-relay team up --yes --json",
    note = "Shows agents.toml and asks whether you agree, the first time and after each change.",
    note = "An agent that was here before goes on with its own conversation."
)]
pub(super) struct Up {
    /// agree to the file without being asked
    #[argh(switch)]
    yes: bool,

    /// begin new conversations
    #[argh(switch)]
    fresh: bool,

    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,
}

/// The outcome of an agent's start.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    state: State,
    /// The process id of its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    directory: Cow<'a, str>,
}

impl<'a> Report<'a> {
    fn new(planned: &'a Planned, state: State) -> Self {
        let directory = planned.directory.to_string_lossy();
        Self { name: &planned.agent.name, state, pid: None, directory }
    }

    fn note_start(&mut self, agent: &Started) {
        self.pid = agent.pid;
        if agent.pid.is_none() {
            self.state = State::Ended;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It begins a conversation.
    Started,
    /// The agent continues its conversation.
    Resumed,
    /// It ran already.
    Running,
    /// Its command has ended already, with success.
    Ended,
}

impl Up {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        check_is_person()?;
        let mut context = context(options)?;
        let identity = Identity::of_process(&context)?;
        identity.check_is_person()?;
        let plan = Plan::read(file_here(&context.home)?)?;
        let known = teams::of(&context.home, &plan.file).map_err(Failure::because)?;
        self.agree(&plan, known.as_ref())?;
        make_home(&context.home)?;
        let client = join_or_start(&mut context, &|endpoint| identity.settings(endpoint))?;
        let presences = presences(&context.home, &plan, known.as_ref());
        let names = Names {
            home: &context.home,
            client: &client,
            presences: &presences,
            known: known.as_ref(),
        };
        let refused = names.refused(&plan);
        let record = record(&plan, known, &presences, &refused);
        record.write(&context.home).map_err(Failure::because)?;
        let recipes =
            recipes::load(&context.home).map_err(|error| Failure::because(error.to_string()))?;
        let (home, failed, unknown) = (context.home.clone(), Vec::new(), Vec::new());
        let mut starter = Starter {
            up: &self,
            home,
            client,
            presences,
            refused,
            record,
            recipes,
            failed,
            unknown,
        };
        let started: Vec<_> =
            plan.waves().flat_map(|wave| starter.start_all(&mut context, wave)).collect();
        if let Some(note) = note_about(&starter.unknown) {
            eprint_line(note);
        }
        let deadline = clock::monotonic_ms() + STARTED_MS;
        let checked = started.into_iter().map(|started| {
            let (mut report, agent) = started?;
            if let Some(mut agent) = agent {
                agent.check_until(report.name, deadline)?;
                report.note_start(&agent);
            }
            self.print(&report)
        });
        let mut runs = false;
        let code = first_failure(self.json, checked.inspect(|checked| runs |= checked.is_ok()));
        if runs && !self.json {
            eprint_line("`agent-relay attach NAME` shows one, `agent-relay top` all");
        }
        Ok(code)
    }

    /// Shows the person the requests of a file, unless the person has agreed to them before.
    fn agree(&self, plan: &Plan, known: Option<&TeamRecord>) -> Result<(), Failure> {
        if known.is_some_and(|known| known.agreed == plan.hash) {
            return Ok(());
        }
        let file = escaped(&plan.file.to_string_lossy());
        let has_changed = if known.is_some() { "has changed, and " } else { "" };
        eprint_text(&format!("{file} {has_changed}asks for this:\n{}", plan.in_words()));
        if self.yes {
            return Ok(());
        }
        let agents = counted(plan.agents.len() as u64, "agent");
        confirm(&format!("Start {agents}?"), "nothing was started")
    }

    fn print(&self, report: &Report<'_>) -> Result<(), Failure> {
        let mut out = Out::new();
        if self.json {
            return out.json("team-up", report);
        }
        let name = report.name;
        let pid = report.pid.unwrap_or_default();
        match report.state {
            State::Started => out.line(format_args!("{name} runs (process {pid})")),
            State::Resumed => out.line(format_args!("{name} goes on (process {pid})")),
            State::Running => out.line(format_args!("{name} runs already")),
            State::Ended => out.line(format_args!("{name} ran, and has ended already")),
        }
    }
}

/// Asks which agents run, among those of the plan and of the team's earlier start.
fn presences(home: &Path, plan: &Plan, known: Option<&TeamRecord>) -> Presences {
    let known = known.into_iter().flat_map(|known| &known.agents).map(|member| &member.name);
    Presences::ask(home, plan.agents.iter().map(|it| &it.agent.name).chain(known))
}

/// Returns the home's record of a team that is up: the agents of the plan without the refused ones,
/// and agents that still run from an earlier start of the team.
fn record(
    plan: &Plan,
    known: Option<TeamRecord>,
    presences: &Presences,
    refused: &Refused<'_>,
) -> TeamRecord {
    let known = known.map_or_else(Vec::new, |known| known.agents);
    let is = |member: &Member, name: &str| member.name.eq_ignore_ascii_case(name);
    let (planned, gone): (Vec<_>, Vec<_>) = known
        .into_iter()
        .partition(|member| plan.agents.iter().any(|it| is(member, &it.agent.name)));
    let runs = |member: &Member| presences.runs_in(&member.name, &member.directory);
    let own = plan.agents.iter().filter(|it| !refused.contains_key(&*it.agent.name));
    let of_plan = own.map(|it| {
        let before = planned.iter().find(|member| is(member, &it.agent.name));
        match before.filter(|member| member.directory != it.directory && runs(member)) {
            Some(member) => member.clone(),
            None => Member {
                prompt: before.and_then(|it| it.prompt.clone()),
                owes_prompt: before.is_some_and(|it| it.owes_prompt) && it.agent.prompt.is_some(),
                ..it.member()
            },
        }
    });
    let others = gone.iter().filter(|member| runs(member)).inspect(|member| {
        let name = &member.name;
        eprint_line(format_args!(
            "note: {name} runs and is not in the file any more: `agent-relay stop {name}` ends it"
        ));
    });
    let agents = of_plan.chain(others.cloned()).collect();
    TeamRecord { file: plan.file.clone(), agreed: plan.hash.clone(), is_up: true, agents }
}

/// The note about agents with programs that may not read text, if there are any.
fn note_about(unknown: &[&str]) -> Option<String> {
    let (starts, their, reads) = match unknown {
        [] => return None,
        [_] => ("it starts", "its program is", "it does"),
        _ => ("they start", "their programs are", "they do"),
    };
    let names = unknown.join(", ");
    Some(format!(
        "messages to {names} will wait unless {starts} an agent CLI: {their} not known to read text; \
         `accepts_text = true` in {FILE}, if {reads}"
    ))
}

/// Starts agents.
struct Starter<'a> {
    up: &'a Up,
    home: PathBuf,
    client: Client,
    presences: Presences,
    refused: Refused<'a>,
    /// The team's record for the home.
    record: TeamRecord,
    recipes: Book,
    /// The agents that were not started.
    failed: Vec<&'a str>,
    /// The agents with programs that may not read text.
    unknown: Vec<&'a str>,
}

/// An agent that runs, or has begun to start.
type Begun<'p> = (Report<'p>, Option<Starting>);

impl<'a> Starter<'a> {
    /// Starts agents that do not need each other, at the same time.
    fn start_all(
        &mut self,
        context: &mut Context,
        wave: &'a [Planned],
    ) -> Vec<Result<(Report<'a>, Option<Started>), Failure>> {
        let begun: Vec<_> = wave.iter().map(|planned| self.begin(context, planned)).collect();
        let finish = |(planned, begun): (&'a Planned, Result<Begun<'a>, Failure>)| {
            let started = begun.and_then(|begun| self.finish(context, planned, begun));
            if started.is_err() {
                self.failed.push(&planned.agent.name);
            }
            started
        };
        wave.iter().zip(begun).map(finish).collect()
    }

    /// Begins to start an agent, unless it runs.
    fn begin(&mut self, context: &mut Context, planned: &'a Planned) -> Result<Begun<'a>, Failure> {
        let Planned { agent, directory, worktree } = planned;
        let name = &*agent.name;
        let is_missing =
            |need: &&String| self.failed.iter().any(|it| it.eq_ignore_ascii_case(need));
        if let Some(need) = agent.needs.iter().find(is_missing) {
            return Err(Failure::failed(format!("{name} is not started, since it needs {need}")));
        }
        if let Some(failure) = self.refused.get(name) {
            return Err(failure.clone());
        }
        if let Some(running) = self.presences.of(name)? {
            let Some(other) = running.elsewhere(directory) else {
                return Ok((Report::new(planned, State::Running), None));
            };
            let failure = Failure::failed(format!("{name} still runs in {}", escaped(other)));
            return Err(failure.hint(format!("end it first: `agent-relay stop {name}`")));
        }
        let record = self.resumed(&context.home, planned);
        if let Some(tree) = worktree {
            let path = escaped(&tree.path.to_string_lossy());
            tree.make(|| eprint_line(format_args!("making the worktree {path}")))?;
        }
        if !directory.is_dir() {
            let failure = format!("{name}: there is no directory {}", directory.display());
            return Err(Failure::failed(escaped(&failure)));
        }
        if record.is_none() && agent.prompt.is_some() {
            self.owe_prompt(name)?;
        }
        let starting = self.spawn(context, planned, record.as_ref())?;
        let state = if record.is_some() { State::Resumed } else { State::Started };
        Ok((Report::new(planned, state), Some(starting)))
    }

    /// Waits until an agent has started, and sends it the first prompt that it has not got yet.
    fn finish<'p>(
        &mut self,
        context: &Context,
        planned: &Planned,
        (report, starting): Begun<'p>,
    ) -> Result<(Report<'p>, Option<Started>), Failure> {
        let started = starting.map(|starting| starting.finish(context)).transpose()?;
        let runs = started.as_ref().is_none_or(|started| started.pid.is_some());
        if let Some(prompt) = planned.agent.prompt.as_ref().filter(|_| runs) {
            let name = report.name;
            self.send(name, prompt).map_err(|failure| {
                let why = failure.line().unwrap_or_default();
                Failure::new(failure.code, format!("{name} runs without its first prompt: {why}"))
            })?;
        }
        Ok((report, started))
    }

    /// Returns the record of an agent that continues its conversation: it was here before, with the
    /// same CLI.
    fn resumed(&self, home: &Path, planned: &Planned) -> Option<AgentRecord> {
        let Planned { agent, directory, .. } = planned;
        let record = agent_record::of(home, &agent.name)?;
        let is_resumed = !self.up.fresh
            && is_same(&record.directory, directory)
            && wrap::agent_cli(&words(&agent.command), &self.recipes).as_ref() == Some(&record.cli);
        Some(record).filter(|record| is_resumed && record.conversation.is_some())
    }

    fn spawn(
        &mut self,
        context: &mut Context,
        planned: &'a Planned,
        record: Option<&AgentRecord>,
    ) -> Result<Starting, Failure> {
        let Planned { agent, directory, .. } = planned;
        let options = planned.options();
        let command = match (record, agent.command.split_first()) {
            (Some(record), Some((program, arguments))) => record.resuming(program, arguments),
            _ => agent.command.clone(),
        };
        let command = words(&command);
        options.check(&command, Some(directory), &self.recipes).map_err(|failure| {
            let why = failure.line().unwrap_or_default();
            Failure::new(failure.code, format!("{}: {why}", agent.name))
        })?;
        let prospect = wrap::prospect(&command, Some(directory), &self.recipes);
        match prospect {
            Prospect::Unknown(_) if options.accepts_text => {}
            Prospect::Unknown(_) => self.unknown.push(&agent.name),
            prospect => prospect
                .startup_notice(&agent.name)
                .iter()
                .map(|it| escaped(it))
                .for_each(eprint_line),
        }
        let agent = Agent {
            name: &agent.name,
            directory: directory.clone(),
            options: options.to_arguments()?,
            command,
            restored: record.map(|record| record.conversation.as_deref()),
        };
        agent.begin(context)
    }

    /// Notes that an agent is to get a first prompt: if this command is interrupted before it has
    /// sent that, the next one does. A prompt that still waits because the agent ended earlier is
    /// not sent twice.
    fn owe_prompt(&mut self, name: &str) -> Result<(), Failure> {
        let Some(member) = self.record.member(name).filter(|it| !it.owes_prompt) else {
            return Ok(());
        };
        let earlier = member.prompt.as_ref().map(|id| progress(&self.client, id)).transpose()?;
        if earlier != Some(Progress::Open) {
            member.prompt = Some(SendId::random()?.0);
            member.owes_prompt = true;
            self.record.write(&self.home).map_err(Failure::because)?;
        }
        Ok(())
    }

    /// Sends an agent the first prompt that it is to get, if there is one, and waits until the
    /// daemon has accepted it.
    fn send(&mut self, name: &str, prompt: &str) -> Result<(), Failure> {
        let Some(member) = self.record.member(name).filter(|it| it.owes_prompt) else {
            return Ok(());
        };
        let id = member.prompt.clone().unwrap_or_default();
        // An earlier command may have been interrupted after it sent the prompt.
        if progress(&self.client, &id)? == Progress::Unknown {
            let id = Some(SendId(id));
            let message = Outgoing { id, ..Outgoing::message(name, prompt) };
            await_accepted(&self.client, name, message)?;
        }
        member.owes_prompt = false;
        self.record.write(&self.home).map_err(Failure::because)
    }
}

fn await_accepted(client: &Client, name: &str, message: Outgoing) -> Result<(), Failure> {
    let id = client.send(message)?;
    let deadline = clock::monotonic_ms().saturating_add(PROMPT_MS);
    loop {
        let left = Duration::from_millis(deadline.saturating_sub(clock::monotonic_ms()));
        match client.events().recv_timeout(left) {
            Ok(Event::Accepted { send_id, .. }) if send_id == id => return Ok(()),
            Ok(Event::Refused { send_id, nack }) if send_id == id => {
                return Err(not_delivered(client, name, &nack));
            }
            Ok(_) => {}
            Err(_) => return Err(Failure::new(TIMED_OUT, "the daemon did not accept it")),
        }
    }
}

/// The progress of a message, as far as the daemon knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It was never accepted, or ended long ago.
    Unknown,
    /// It is not delivered yet.
    Open,
    Ended,
}

fn progress(client: &Client, id: &str) -> Result<Progress, Failure> {
    let request = MessageRequest { id: id.into(), limit: Some(1), ..MessageRequest::default() };
    let json = match call_with(client, RequestName::Message, &request) {
        Err(failure) if failure.is_refused() => return Ok(Progress::Unknown),
        json => json?,
    };
    let found: Messages<MessageRow<'_>> = parse(RequestName::Message, &json)?;
    let is_open = found.messages.iter().any(|row| row.delivery.expires.is_some());
    Ok(if is_open { Progress::Open } else { Progress::Ended })
}

fn words(command: &[String]) -> Vec<OsString> {
    command.iter().map(OsString::from).collect()
}
