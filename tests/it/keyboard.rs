//! What programs do with messages that would do harm if one of them were run.
//!
//! Each test is one program in a terminal of its own. Every message it gets would create a file of
//! its own. A message may be typed in a form that does nothing, or wait with a reason; no file may
//! ever be there.

mod agents;
mod disguises;
mod interpreters;
mod nested;
mod screens;
mod shells;

use crate::{
    commands::{DONE, run},
    raw::Raw,
    sandbox::{Sandbox, not_tried, output, until},
    terminal::Terminal,
};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{self, Path, PathBuf},
    thread,
};

/// A program, how a person sees that it is ready, and how a person ends it.
///
/// In its texts `{dir}` is the sandbox, `{name}` a name for this test alone, `{toy}` and `{lines}`
/// are the tests' own programs, `{relay}` is `agent-relay`.
struct Program {
    /// The programs that it wants on the `PATH`.
    needs: &'static [&'static str],
    /// What is there before it starts.
    files: &'static [(&'static str, File)],
    command: &'static [&'static str],
    /// The end of a row that shows that it is ready.
    prompt: &'static str,
    /// What a person types then, and what shows that it was done.
    first: &'static [(&'static str, &'static str)],
    /// Bodies in its own language. `{mark}` is the file's path.
    bodies: &'static [&'static str],
    expected: Expected,
    /// What a person presses in the end. The program shows something for each but the last.
    leave: &'static [&'static str],
    /// A command that ends what would outlive the terminal.
    cleanup: &'static [&'static str],
}

/// A file in the sandbox, by its path there.
enum File {
    Text(&'static str),
    /// A text that can be run.
    Script(&'static str),
    /// The executable of this name, under another name.
    Copy(&'static str),
    /// The tests' own program under another name.
    Toy,
}

/// What becomes of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// All are typed.
    Typed,
    /// All are typed, or all wait: the program may have a harmless form.
    TypedOrWaiting,
    /// All wait, and nothing is typed.
    Waiting,
}

/// A program about which nothing was said.
const PROGRAM: Program = Program {
    needs: &[],
    files: &[],
    command: &[],
    prompt: "$",
    first: &[],
    bodies: &[],
    expected: Expected::Waiting,
    leave: &["\r", "\u{3}", "exit\r"],
    cleanup: &[],
};

/// What a shell would run, and what would end any form in which it is typed. `{mark}` is the file's
/// path, `{file}` its name in the program's directory.
const BODIES: [&str; 11] = [
    "touch {mark}",
    "touch {file}",
    "$(touch {mark}) `touch {mark}`",
    "\n\ntouch {mark}\n\n",
    "\u{1b}[201~\rtouch {mark}\r",
    "\u{1b}[20\u{1b}[201~1~\ntouch {mark}\n",
    "\u{9b}201~\ntouch {mark}\t\t\n",
    "'; touch {mark} #\n\"; touch {mark} #\n'\"; touch {mark} #",
    "!nosuchevent\n!!\ntouch {mark}\n!touch\n!!",
    "EOF\nrelay-000000\n[/relay 000000]\ntouch {mark}",
    "x\u{3}touch {mark}\r\u{4}x\u{16}\rtouch {mark}\r",
];

/// Ends of reasons that end by themselves, after which a message may still be typed.
const PASSING: [&str; 3] = ["has not shown its prompt yet", "is printing", "is typing"];

impl Program {
    /// Runs it from its start to its end.
    #[track_caller]
    fn runs_no_message(&self) {
        if let Some(mut stage) = Stage::start(self) {
            stage.send(&BODIES);
            stage.send(self.bodies);
            stage.settle(self.expected);
            // What waits does so for longer than a moment.
            if self.expected == Expected::Waiting {
                stage.send(&BODIES[..1]);
                stage.settle(Expected::Waiting);
            }
            stage.leave();
        }
    }

    fn missing(&self) -> Option<&'static str> {
        let path = env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &str| {
            env::split_paths(&path)
                .any(|folder| folder.join(format!("{name}{}", env::consts::EXE_SUFFIX)).is_file())
        };
        self.needs.iter().copied().find(|name| !is_there(name))
    }
}

/// A program in a terminal, as the agent Ann, and what was sent to her.
struct Stage<'a> {
    program: &'a Program,
    sandbox: Sandbox,
    terminal: Option<Terminal>,
    operator: Raw,
    bodies: Vec<String>,
    /// How they were when they were last looked at.
    told: Vec<State>,
}

impl<'a> Stage<'a> {
    /// Starts the program and waits until it is ready. `None` where this machine has none.
    #[track_caller]
    fn start(program: &'a Program) -> Option<Self> {
        if let Some(name) = program.missing() {
            not_tried(&format!("there is no {name}"));
            return None;
        }
        let sandbox = Sandbox::new();
        fs::write(sandbox.home().join("recipes.toml"), TOY_RECIPE).unwrap();
        write_files(&sandbox, program.files);
        let operator = sandbox.operator();
        let (terminal, bodies, told) = (None, Vec::new(), Vec::new());
        let mut stage = Self { program, sandbox, terminal, operator, bodies, told };
        let command: Vec<_> = program.command.iter().map(|word| stage.render(word)).collect();
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        stage.terminal = Some(Terminal::wrap(&stage.sandbox, "Ann", &command));
        until("Ann is here", || stage.operator.agents().iter().any(|agent| agent["name"] == "Ann"));
        stage.shows(program.prompt);
        for (keys, shown) in program.first {
            stage.press(keys, shown);
        }
        Some(stage)
    }

    fn render(&self, text: &str) -> String {
        let directory = self.sandbox.directory();
        let name = directory.file_name().unwrap().to_str().unwrap();
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        text.replace("{dir}", directory.to_str().unwrap())
            .replace("{name}", name)
            .replace("{toy}", stand_in("toy").to_str().unwrap())
            .replace("{lines}", stand_in("lines").to_str().unwrap())
            .replace("{relay}", relay.to_str().unwrap())
    }

    fn terminal(&self) -> &Terminal {
        self.terminal.as_ref().expect("the terminal is open")
    }

    /// Waits for a row that ends so.
    #[track_caller]
    fn shows(&self, end: &str) {
        let end = self.render(end);
        self.terminal().wait_until(&format!("a row that ends with {end:?}"), |screen| {
            screen.lines().any(|row| row.trim_end().ends_with(&end))
        });
    }

    /// Types as a person, and waits until the program has shown this since.
    #[track_caller]
    fn press(&mut self, keys: &str, shown: &str) {
        let keys = self.render(keys);
        let terminal = self.terminal.as_mut().expect("the terminal is open");
        let before = terminal.bytes().len();
        terminal.press(&keys);
        until(&format!("{shown:?} is shown after {keys:?}"), || {
            String::from_utf8_lossy(&self.terminal().bytes()[before..]).contains(shown)
        });
    }

    /// Sends each of them, in a stream of its own, so that none waits for another.
    #[track_caller]
    fn send(&mut self, bodies: &[&str]) {
        let mut sender = self.sandbox.join("Cyd");
        for body in bodies {
            let number = self.bodies.len();
            let file = format!("pwned-{number}");
            let mark = self.sandbox.directory().join(&file);
            let body = body.replace("{mark}", mark.to_str().unwrap()).replace("{file}", &file);
            sender.send_json(&json!({
                "v": 1, "type": "SEND", "id": id(number), "ts": 0, "to": "Ann",
                "topic": format!("body-{number}"),
                "payload": {"kind": "message", "body": body},
                "payload_meta": {"requires_ack": true},
            }));
            self.bodies.push(body);
        }
        for _ in bodies {
            let answer = sender.expect("ACK");
            assert_eq!(answer["payload"]["state"], "accepted", "{answer}");
        }
        // An acknowledgement may come before the goodbye.
        sender.send_json(&json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}}));
    }

    /// How each message is, as `status ID` says it.
    fn states(&mut self) -> Vec<State> {
        (0..self.bodies.len()).map(|number| self.state(number)).collect()
    }

    fn state(&mut self, number: usize) -> State {
        let row = self.operator.ask("message", &json!({"id": id(number)}))["messages"][0].take();
        if row["state"] == "acknowledged" {
            return State::Typed;
        }
        let reported = &row["reported"];
        let why = reported["why"].as_str().filter(|_| reported["state"] == "waiting");
        why.map_or_else(|| State::Open(row.clone()), |why| State::Waiting(why.to_owned()))
    }

    /// Waits until all messages are typed, or all wait for a reason that does not pass by itself;
    /// and checks that none ran.
    #[track_caller]
    fn settle(&mut self, expected: Expected) {
        self.told.clear();
        self.settle_anew(expected);
    }

    /// The same where they have waited before: the reason has to be another one.
    #[track_caller]
    fn settle_anew(&mut self, expected: Expected) {
        let told = std::mem::take(&mut self.told);
        until(&format!("the messages are as they should be: {expected:?}"), || {
            // The last one is the last to be decided.
            let is_open = matches!(self.state(self.bodies.len() - 1), State::Open(_));
            self.told = if is_open { Vec::new() } else { self.states() };
            let is = |decided: &dyn Fn(&State) -> bool| self.told.iter().all(decided) && !is_open;
            let typed = is(&|state| *state == State::Typed);
            let waiting = is(&|state| state.lasts() && !told.contains(state));
            let decided = match expected {
                Expected::Typed => typed,
                Expected::TypedOrWaiting | Expected::Waiting => typed || waiting,
            };
            decided || self.has_run() || self.has_ended()
        });
        self.nothing_ran();
        assert!(!self.has_ended(), "the messages ended {:?}", self.program.command);
        let text = self.terminal().text();
        if expected == Expected::Waiting {
            assert_ne!(self.told[0], State::Typed, "all are typed:\n{text}");
            assert!(!self.shows_frames(), "a part is typed:\n{text}");
            self.status_says_why();
        }
    }

    /// A person's command says of the first message why it waits.
    #[track_caller]
    fn status_says_why(&mut self) {
        let row = self.operator.ask("message", &json!({"id": id(0)}))["messages"][0].take();
        let status = run(&self.sandbox, &["status", row["id"].as_str().unwrap(), "--json"], DONE);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(status["reported"]["state"], "waiting", "{status}");
        assert_ne!(status["reported"]["why"].as_str().unwrap_or_default(), "", "{status}");
    }

    /// Whether a frame was ever shown, as the terminal's echo does with what is typed.
    fn shows_frames(&self) -> bool {
        String::from_utf8_lossy(&self.terminal().bytes()).contains("[relay ")
    }

    fn marks(&self) -> Vec<usize> {
        let mut found = Vec::new();
        find(self.sandbox.directory(), &mut |path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            found.extend(
                name.strip_prefix("pwned-").and_then(|number| number.parse::<usize>().ok()),
            );
        });
        found.sort_unstable();
        found
    }

    fn has_ended(&self) -> bool {
        self.terminal().pty.try_wait().unwrap().is_some()
    }

    fn has_run(&self) -> bool {
        !self.marks().is_empty()
    }

    #[track_caller]
    fn nothing_ran(&self) {
        let ran: Vec<_> = self.marks().iter().map(|number| &self.bodies[*number]).collect();
        let screen = self.terminal.as_ref().map(Terminal::text).unwrap_or_default();
        assert!(ran.is_empty(), "{:?} ran {ran:#?}:\n{screen}", self.program.command);
    }

    /// Ends the program as a person does. What waited waits on, and nothing ran.
    #[track_caller]
    fn leave(&mut self) {
        let keys = self.program.leave.iter().map(|keys| self.render(keys)).collect::<Vec<_>>();
        let (last, before) = keys.split_last().expect("a program is left somehow");
        for keys in before {
            self.press_and_see(keys);
        }
        let mut terminal = self.terminal.take().expect("the terminal is open");
        terminal.press(last);
        terminal.finish();
        self.nothing_ran();
        let states = self.states();
        let waiting = states.iter().filter(|state| **state != State::Typed).count();
        let has_to_wait = self.program.expected == Expected::Waiting;
        assert!(!has_to_wait || waiting == states.len(), "{states:#?}");
        let mut agents = self.operator.agents();
        agents.retain(|agent| agent["name"] == "Ann");
        assert_eq!(agents[0]["queued"], waiting, "{agents:?}");
    }

    /// Presses keys, and waits until the program shows something, or has ended.
    fn press_and_see(&mut self, keys: &str) {
        let before = self.terminal().bytes().len();
        self.terminal.as_mut().expect("the terminal is open").press(keys);
        until("the program shows something", || {
            self.terminal().bytes().len() > before || self.has_ended()
        });
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let screen = self.terminal.as_ref().map(Terminal::text).unwrap_or_default();
            eprintln!("--- ran {:?}; the screen\n{screen}\n---", self.marks());
        }
        self.terminal = None;
        if let Some((program, arguments)) = self.program.cleanup.split_first() {
            let mut cleanup = self.sandbox.program(program);
            cleanup.args(arguments.iter().map(|word| self.render(word)));
            // It has ended by itself in most cases.
            output(cleanup);
        }
    }
}

/// What has become of a message.
#[derive(Debug, PartialEq)]
enum State {
    Typed,
    /// It waits for this reason.
    Waiting(String),
    /// Nothing is known.
    Open(Value),
}

impl State {
    fn lasts(&self) -> bool {
        let Self::Waiting(why) = self else { return false };
        !why.is_empty() && !PASSING.iter().any(|passing| why.ends_with(passing))
    }
}

fn id(number: usize) -> String {
    format!("hostile-{number}")
}

/// A program of the tests' own, which `cargo test` builds beside them.
fn stand_in(name: &str) -> PathBuf {
    let tests = env::current_exe().unwrap();
    let built = tests.parent().and_then(Path::parent).unwrap().join("examples");
    let program = built.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: run cargo build --examples", program.display());
    program
}

/// Makes the tests' own program an agent that is known.
const TOY_RECIPE: &str = r#"
[[recipe]]
name = "toy"
commands = ["toy"]
composer = ["❯ "]
busy = ["^working"]
"#;

fn write_files(sandbox: &Sandbox, files: &[(&str, File)]) {
    for (name, file) in files {
        let path = sandbox.directory().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file {
            File::Text(text) => fs::write(&path, text).unwrap(),
            File::Script(text) => {
                let toy = stand_in("toy");
                let text = text.replace("{dir}", sandbox.directory().to_str().unwrap());
                fs::write(&path, text.replace("{toy}", toy.to_str().unwrap())).unwrap();
                let mut chmod = sandbox.program("chmod");
                chmod.arg("+x").arg(&path);
                assert!(output(chmod).status.success());
            }
            File::Copy(program) => drop(fs::copy(on_path(program), &path).unwrap()),
            File::Toy => drop(fs::copy(stand_in("toy"), &path).unwrap()),
        }
    }
}

fn on_path(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).map(|folder| folder.join(program));
    folders.find(|path| path.is_file()).expect("`needs` names it")
}

/// All files below a directory. What goes away meanwhile is passed over.
fn find(directory: &Path, found: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(&entry.path(), found),
            _ => found(&entry.path()),
        }
    }
}
