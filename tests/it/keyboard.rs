//! Programs that must not run harmful messages.
//!
//! Each test wraps one program in a terminal. Each message would create a different file if it were
//! run. A message may be typed in a harmless form, or wait for a reason; none of the files may
//! exist at any time.

mod agents;
mod disguises;
mod interpreters;
mod nested;
mod screens;
mod shells;

use crate::commands::{DONE, run};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{self, Path, PathBuf},
    thread,
};
use testkit::{
    programs::{copy_program, example_program},
    raw::Raw,
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{not_tried, output, until},
};

/// A program under test: how to start it, how to see that it is ready, and how to end it.
///
/// In its texts `{dir}` is the sandbox, `{name}` a name unique to the test, `{toy}` and `{lines}`
/// are programs of the tests, and `{relay}` is `agent-relay`.
struct Program {
    /// The programs that must be on the `PATH`; otherwise the test is skipped.
    needs: &'static [&'static str],
    /// The files in the sandbox before the start.
    files: &'static [(&'static str, File)],
    command: &'static [&'static str],
    /// The end of a row that shows that the program is ready.
    prompt: &'static str,
    /// Keys to press before the messages, each with a text that the program shows in answer.
    setup: &'static [(&'static str, &'static str)],
    /// Harmful bodies in the program's own language. `{mark}` is the path of the file to create.
    bodies: &'static [&'static str],
    expected: Expected,
    /// The keys that end the program. The program prints something after each key but the last.
    leave: &'static [&'static str],
    /// A command that ends processes which would outlive the terminal.
    cleanup: &'static [&'static str],
}

/// A file in the sandbox, by its path there.
enum File {
    Text(&'static str),
    /// An executable script.
    Script(&'static str),
    /// A copy of an executable on the `PATH`.
    Copy(&'static str),
    /// A copy of the tests' program `toy`.
    Toy,
}

/// The expected fate of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// All are typed.
    Typed,
    /// All are typed, or all wait, since the wrapper may know a harmless form for the program.
    TypedOrWaiting,
    /// All wait, and nothing is typed.
    Waiting,
}

/// The defaults for each test's program.
const PROGRAM: Program = Program {
    needs: &[],
    files: &[],
    command: &[],
    prompt: "$",
    setup: &[],
    bodies: &[],
    expected: Expected::Waiting,
    leave: &["\r", "\u{3}", "exit\r"],
    cleanup: &[],
};

/// Bodies that a shell would run. Some first end the harmless form that they are typed in.
///
/// `{mark}` is the path of the file to create, `{file}` its name in the program's directory.
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

/// The last words of temporary reasons. After these, a message may still be typed.
const TRANSIENT_REASONS: [&str; 3] = ["has not shown its prompt yet", "is printing", "is typing"];

impl Program {
    /// Starts the program, sends all bodies, and checks that none is run until its end.
    #[track_caller]
    fn runs_no_message(&self) {
        if let Some(mut stage) = Stage::start(self) {
            stage.send(&BODIES);
            stage.send(self.bodies);
            stage.settle(self.expected);
            // Later messages wait, too.
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

/// A program in a terminal, wrapped as the agent Ann, and the messages sent to Ann.
struct Stage<'a> {
    program: &'a Program,
    sandbox: Sandbox,
    terminal: Option<Terminal>,
    operator: Raw,
    bodies: Vec<String>,
    /// The states of the messages at the last check.
    last_states: Vec<State>,
}

impl<'a> Stage<'a> {
    /// Starts the program, and waits until it is ready. `None` if this machine lacks it.
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
        let (terminal, bodies, last_states) = (None, Vec::new(), Vec::new());
        let mut stage = Self { program, sandbox, terminal, operator, bodies, last_states };
        let command: Vec<_> = program.command.iter().map(|word| stage.render(word)).collect();
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        stage.terminal = Some(Terminal::wrap(&stage.sandbox, "Ann", &command));
        until("Ann is connected", || {
            stage.operator.agents().iter().any(|agent| agent["name"] == "Ann")
        });
        stage.wait_for_row_end(program.prompt);
        for (keys, shown) in program.setup {
            stage.press(keys, shown);
        }
        Some(stage)
    }

    /// Fills in the placeholders of a text.
    fn render(&self, text: &str) -> String {
        let directory = self.sandbox.directory();
        let name = directory.file_name().unwrap().to_str().unwrap();
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        text.replace("{dir}", directory.to_str().unwrap())
            .replace("{name}", name)
            .replace("{toy}", &example_program("toy"))
            .replace("{lines}", &example_program("lines"))
            .replace("{relay}", relay.to_str().unwrap())
    }

    fn terminal(&self) -> &Terminal {
        self.terminal.as_ref().expect("the terminal is open")
    }

    #[track_caller]
    fn wait_for_row_end(&self, end: &str) {
        let end = self.render(end);
        self.terminal().wait_until(&format!("a row that ends with {end:?}"), |screen| {
            screen.lines().any(|row| row.trim_end().ends_with(&end))
        });
    }

    /// Presses keys as the user, and waits until the program has shown a text since.
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

    /// Sends each body under its own topic, so that none waits for another.
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
        // The answer is not awaited: Ann's acknowledgements may arrive before it.
        sender.send_json(&json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}}));
    }

    /// The state of each message, as `status ID` reports it.
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
        why.map_or_else(|| State::Undecided(row.clone()), |why| State::Waiting(why.to_owned()))
    }

    /// Waits until all messages are typed, or all wait for a lasting reason. Checks that none ran.
    #[track_caller]
    fn settle(&mut self, expected: Expected) {
        self.last_states.clear();
        self.settle_for_another_reason(expected);
    }

    /// Like [`Stage::settle`], but waiting messages must have changed their reason.
    #[track_caller]
    fn settle_for_another_reason(&mut self, expected: Expected) {
        let previous = std::mem::take(&mut self.last_states);
        until(&format!("the messages settle as {expected:?}"), || {
            // Ann's wrapper tries the messages in order: the last one gets its state last.
            let is_undecided = matches!(self.state(self.bodies.len() - 1), State::Undecided(_));
            self.last_states = if is_undecided { Vec::new() } else { self.states() };
            let all = |decided: &dyn Fn(&State) -> bool| {
                self.last_states.iter().all(decided) && !is_undecided
            };
            let typed = all(&|state| *state == State::Typed);
            let waiting = all(&|state| state.is_lasting_wait() && !previous.contains(state));
            let decided = match expected {
                Expected::Typed => typed,
                Expected::TypedOrWaiting | Expected::Waiting => typed || waiting,
            };
            decided || self.has_run() || self.has_ended()
        });
        self.check_nothing_ran();
        assert!(!self.has_ended(), "the messages ended {:?}", self.program.command);
        let text = self.terminal().text();
        if expected == Expected::Waiting {
            assert_ne!(self.last_states[0], State::Typed, "all are typed:\n{text}");
            assert!(!self.shows_frames(), "a frame is typed:\n{text}");
            self.check_status_names_the_reason();
        }
    }

    /// Checks that `status` reports why the first message waits.
    #[track_caller]
    fn check_status_names_the_reason(&mut self) {
        let row = self.operator.ask("message", &json!({"id": id(0)}))["messages"][0].take();
        let status = run(&self.sandbox, &["status", row["id"].as_str().unwrap(), "--json"], DONE);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(status["reported"]["state"], "waiting", "{status}");
        assert_ne!(status["reported"]["why"].as_str().unwrap_or_default(), "", "{status}");
    }

    /// Whether the terminal has ever shown a frame. A typed frame is shown, since the terminal
    /// echoes it.
    fn shows_frames(&self) -> bool {
        String::from_utf8_lossy(&self.terminal().bytes()).contains("[relay ")
    }

    /// The numbers of the messages that were run.
    fn messages_run(&self) -> Vec<usize> {
        let mut found = Vec::new();
        visit_files(self.sandbox.directory(), &mut |path| {
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
        !self.messages_run().is_empty()
    }

    #[track_caller]
    fn check_nothing_ran(&self) {
        let ran: Vec<_> = self.messages_run().iter().map(|number| &self.bodies[*number]).collect();
        let screen = self.terminal.as_ref().map(Terminal::text).unwrap_or_default();
        assert!(ran.is_empty(), "{:?} ran {ran:#?}:\n{screen}", self.program.command);
    }

    /// Ends the program with its keys. Waiting messages stay queued, and no message ran.
    #[track_caller]
    fn leave(&mut self) {
        let keys = self.program.leave.iter().map(|keys| self.render(keys)).collect::<Vec<_>>();
        let (last, before) = keys.split_last().expect("every program has keys to end it");
        for keys in before {
            self.press_and_see(keys);
        }
        let mut terminal = self.terminal.take().expect("the terminal is open");
        terminal.press(last);
        terminal.finish();
        self.check_nothing_ran();
        let states = self.states();
        let waiting = states.iter().filter(|state| **state != State::Typed).count();
        let has_to_wait = self.program.expected == Expected::Waiting;
        assert!(!has_to_wait || waiting == states.len(), "{states:#?}");
        let mut agents = self.operator.agents();
        agents.retain(|agent| agent["name"] == "Ann");
        assert_eq!(agents[0]["queued"], waiting, "{agents:?}");
    }

    /// Presses keys, and waits until the program shows something, or has ended. A program that is
    /// to be interrupted must show its prompt, since it loses earlier input.
    fn press_and_see(&mut self, keys: &str) {
        // The terminal itself echoes Ctrl-C. A shell without a line editor loses input that it
        // reads before it handles the signal.
        const ECHO: &[u8] = b"^C";
        let text = self.terminal().text();
        // A shell may be in the middle of a quote, and an agent may have ended in it.
        let prompts = [text.split_whitespace().last().unwrap_or_default(), self.program.prompt]
            .map(|prompt| self.render(prompt));
        let is_interrupted = self.program.leave.contains(&"\u{3}");
        let before = self.terminal().bytes().len();
        self.terminal.as_mut().expect("the terminal is open").press(keys);
        until("the program shows something", || {
            let bytes = self.terminal().bytes();
            let shown = &bytes[before..];
            let is_shown = match is_interrupted {
                true => {
                    let shown = String::from_utf8_lossy(shown);
                    prompts.iter().any(|prompt| shown.contains(prompt))
                }
                false => !ECHO.starts_with(shown),
            };
            is_shown || self.has_ended()
        });
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let screen = self.terminal.as_ref().map(Terminal::text).unwrap_or_default();
            eprintln!("--- ran {:?}; the screen\n{screen}\n---", self.messages_run());
        }
        self.terminal = None;
        if let Some((program, arguments)) = self.program.cleanup.split_first() {
            let mut cleanup = self.sandbox.program(program);
            cleanup.args(arguments.iter().map(|word| self.render(word)));
            // In most cases the process has already ended.
            output(cleanup);
        }
    }
}

#[derive(Debug, PartialEq)]
enum State {
    Typed,
    /// The message waits for this reason.
    Waiting(String),
    /// Neither typed nor waiting; the row of its status.
    Undecided(Value),
}

impl State {
    /// Whether the message waits for a reason that does not pass by itself.
    fn is_lasting_wait(&self) -> bool {
        let Self::Waiting(why) = self else { return false };
        !why.is_empty() && !TRANSIENT_REASONS.iter().any(|end| why.ends_with(end))
    }
}

fn id(number: usize) -> String {
    format!("hostile-{number}")
}

/// A recipe that makes the program `toy` a known agent.
const TOY_RECIPE: &str = r#"
[[recipe]]
name = "toy"
commands = ["toy"]
composer = ["❯ "]
busy_status = ["^working"]
"#;

fn write_files(sandbox: &Sandbox, files: &[(&str, File)]) {
    for (name, file) in files {
        let path = sandbox.directory().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file {
            File::Text(text) => fs::write(&path, text).unwrap(),
            File::Script(text) => {
                let toy = example_program("toy");
                let text = text.replace("{dir}", sandbox.directory().to_str().unwrap());
                fs::write(&path, text.replace("{toy}", &toy)).unwrap();
                let mut chmod = sandbox.program("chmod");
                chmod.arg("+x").arg(&path);
                assert!(output(chmod).status.success());
            }
            File::Copy(program) => copy_program(find_on_path(program), &path),
            File::Toy => copy_program(example_program("toy"), &path),
        }
    }
}

fn find_on_path(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).map(|folder| folder.join(program));
    folders.find(|path| path.is_file()).expect("`needs` lists the program")
}

/// Calls `found` for all files below a directory. Files that vanish meanwhile are skipped.
fn visit_files(directory: &Path, found: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit_files(&entry.path(), found),
            _ => found(&entry.path()),
        }
    }
}
