//! Two real CLIs that work on one task each and write to each other, while a person drafts prompts
//! in both. A full run (`ci/agents --long`) plays 20 turns with 40 messages.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::relay_line,
    routes::{is_full, lock, relay, told_ids},
};
use platform::pty::Size;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};
use terminal::screen::Screen;
use testkit::{
    model::{
        Asked, Model, Reply,
        frames::{Frame, frames},
    },
    sandbox::Sandbox,
    waiting::until,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The number of each agent's turns, and of the messages that it sends.
const TURNS: usize = 2;
const TURNS_ALL: usize = 20;

/// The number of commands that an agent runs in a turn.
const COMMANDS: usize = 4;

/// A half-typed prompt of the person.
const DRAFT: &str = "a half written (prompt) of theirs,  with two blanks";

/// The content of all requests to a model so far.
#[derive(Default)]
struct Seen {
    frames: BTreeMap<String, Frame>,
    has_draft: bool,
}

impl Seen {
    fn note(&mut self, asked: &Asked) {
        self.frames.extend(frames(&asked.request).into_iter().map(|f| (f.hex.clone(), f)));
        self.has_draft |= asked.request.to_string().contains(DRAFT);
    }

    fn count(&self, body: &str) -> usize {
        self.frames.values().filter(|frame| frame.body == body).count()
    }
}

/// The message that an agent sends in a turn.
fn body(from: &str, turn: usize) -> String {
    format!("{from} has done part {turn}.")
}

/// Answers each prompt of the person with a few commands, first reports what was done, and reads
/// the messages that the agent is notified of.
fn script(
    name: &'static str,
    other: &'static str,
    seen: Arc<Mutex<Seen>>,
) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let (mut prompt, mut steps, mut read) = (String::new(), 0, HashSet::new());
    move |asked| {
        lock(&seen).note(asked);
        if asked.prompt != prompt {
            (prompt, steps) = (asked.prompt.clone(), 0);
        }
        let mut told = told_ids(&asked.request);
        told.retain(|id| read.insert(id.clone()));
        if !told.is_empty() {
            let commands = told.iter().map(|id| format!("{} read {id}", relay()));
            return Reply::new().runs(commands.collect::<Vec<_>>().join("; "));
        }
        let turn = prompt.strip_prefix("Work, part ").and_then(|rest| rest.strip_suffix('.'));
        let Some(turn) = turn.and_then(|turn| turn.parse().ok()) else {
            return Reply::new().says("Noted.");
        };
        steps += 1;
        match steps {
            1 => Reply::new().says(relay_line(other, &body(name, turn))).runs("sleep 0.7"),
            2..=COMMANDS => Reply::new().runs("sleep 0.7"),
            _ => Reply::new().says("I am done."),
        }
    }
}

/// An agent, and the content of the requests to its model.
struct Side {
    name: &'static str,
    agent: Agent,
    seen: Arc<Mutex<Seen>>,
}

impl Side {
    fn start(workspace: &Workspace<'_>, name: &'static str, seen: Arc<Mutex<Seen>>) -> Self {
        let allowed: &[&str] = match workspace.cli {
            Cli::Claude => &["--permission-mode=default", "--allowedTools=Bash"],
            _ => &["--sandbox", "danger-full-access", "--ask-for-approval", "never"],
        };
        let mut side = Self { name, agent: workspace.wrap(name, SIZE, allowed), seen };
        side.agent.wait_until_idle();
        // Codex is only woken after its first turn.
        side.agent.submit("Hello.");
        side.agent.terminal.wait_for("Noted.");
        side.agent.wait_until_idle();
        side
    }

    fn work(&mut self, turn: usize) {
        self.agent.submit(&format!("Work, part {turn}."));
    }

    fn draft(&mut self) {
        self.agent.terminal.press(DRAFT);
        self.agent.terminal.wait_until_screen("the draft", shows_draft);
    }

    /// Waits until the agent has finished its work, and erases the draft, which must still be
    /// there.
    #[track_caller]
    fn erase(&mut self) {
        self.agent.terminal.wait_until_screen("the draft of an idle agent", |screen| {
            shows_draft(screen) && !screen.text().contains("esc to interrupt")
        });
        self.agent.wait_until_still();
        self.agent.terminal.press(&"\u{7f}".repeat(DRAFT.len()));
        self.agent.wait_until_idle();
    }

    #[track_caller]
    fn await_message(&self, body: &str) {
        self.agent.with_screen_on_panic(|| until(body, || lock(&self.seen).count(body) > 0));
    }
}

fn shows_draft(screen: &Screen) -> bool {
    let row = screen.row(screen.cursor().row).text.replace('\u{a0}', " ");
    row.trim_end().ends_with(&format!(" {DRAFT}"))
}

/// Both agents work, while the person drafts a prompt for each.
fn work_at_once(sides: &mut [Side; 2], turn: usize) {
    for side in &mut *sides {
        side.work(turn);
    }
    for side in &mut *sides {
        side.draft();
    }
    let names = [sides[1].name, sides[0].name];
    for (side, other) in sides.iter_mut().zip(names) {
        side.await_message(&body(other, turn));
        side.erase();
    }
}

/// Each agent works while the other one is idle, and has a draft in its line.
fn work_in_turns(sides: &mut [Side; 2], turn: usize) {
    for _ in 0..2 {
        let [worker, other] = sides;
        other.draft();
        worker.work(turn);
        other.await_message(&body(worker.name, turn));
        other.erase();
        worker.agent.wait_until_idle();
        sides.reverse();
    }
}

#[test]
fn two_agents_at_work_get_each_message_once_and_no_draft_is_touched() {
    let turns = if is_full() { TURNS_ALL } else { TURNS };
    let seen: [Arc<Mutex<Seen>>; 2] = Default::default();
    let [ann, cid] = &seen;
    let models = [
        Model::start(script("Ann", "Cid", Arc::clone(ann))),
        Model::start(script("Cid", "Ann", Arc::clone(cid))),
    ];
    let sandbox = Sandbox::new();
    let workspaces = [
        Workspace::new(&sandbox, Cli::Claude, &models[0], "ann"),
        Workspace::new(&sandbox, Cli::Codex, &models[1], "cid"),
    ];
    let mut sides = [
        Side::start(&workspaces[0], "Ann", Arc::clone(ann)),
        Side::start(&workspaces[1], "Cid", Arc::clone(cid)),
    ];
    for turn in 1..=turns {
        match turn % 2 {
            0 => work_at_once(&mut sides, turn),
            _ => work_in_turns(&mut sides, turn),
        }
    }
    for (side, other) in [(&sides[0], "Cid"), (&sides[1], "Ann")] {
        let seen = lock(&side.seen);
        assert!(!seen.has_draft, "the draft was submitted to {}", side.name);
        let counts: Vec<_> = (1..=turns).map(|turn| seen.count(&body(other, turn))).collect();
        assert_eq!(counts, vec![1; turns], "{} got {:?}", side.name, seen.frames);
    }
}
