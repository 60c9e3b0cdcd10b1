//! The day with five agents in docs/GUIDE.md. Each of its screens is what a terminal has shown.
//!
//! The day is played once, with a program under the name of Claude Code that begins conversations.
//! Ids, times, processes and directories differ from one day to the next, and are replaced by
//! examples. `UPDATE_EXPECT=1 cargo test --test it -- day::` writes the screens into the document.

use crate::document::tables;
use expect_test::{Expect, expect};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{env, ffi::OsString, fs, path::PathBuf};
use testkit::{
    programs::{copy_program, example_program, program},
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::{assert_success, output, until},
};

/// The command that writes the screens.
const COMMAND: &str = "UPDATE_EXPECT=1 cargo test --test it -- day::";

const SIZE: Size = Size { rows: 24, cols: 80 };

/// The size of a large terminal, which the document does not show.
const LARGE: Size = Size { rows: 40, cols: 140 };

/// The examples that replace values that differ from day to day.
const PERSON_HOME: &str = "/home/me";
const ENDPOINT: &str = "/tmp/agent-relay.sock";
const IDS: [&str; 4] = ["7438af3c", "91c2ab07", "5d1e7f30", "cb03e733"];
const FIRST_PROCESS: usize = 4120;
const AGE: &str = "6 s";
const TIME: &str = "09:10:07";

const AGENTS: [&str; 5] = ["web", "api", "text", "tests", "docs"];

/// Stands for Claude Code: notes where its hooks report to, gets its brief by one, and becomes a
/// program that shows an input line and dialogs. A hook gives up when its wrapper is slow.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import os, subprocess, sys

home, name, arguments = os.environ["HOME"], os.environ["AGENT_RELAY_AGENT"], sys.argv[1:]
settings = arguments[arguments.index("--settings") + 1]
wrapper = os.path.join(os.path.dirname(settings), "wrapper.json")
with open(f"{home}/{name}.hooks", "w") as noted:
    noted.write(wrapper)
hook = ["WRAP", "hook", "claude", "SessionStart", "--to", wrapper]
options = {"input": '{"session_id": "id-%s"}' % name, "text": True, "capture_output": True}
while arguments[0] != "--resume" and not subprocess.run(hook, **options).stdout:
    pass
os.execv(f"{home}/toy/claude", ["claude", *(["work"] if name in ["web", "text"] else [])])
"#;

/// The stand-in shows its work differently from Claude Code.
const RECIPE: &str = "[[recipe]]\nname = 'claude'\nbusy_status = ['^working']\n";

/// A day: the terminals of a person in the directory `shop`, and the screens so far.
struct Day {
    sandbox: Sandbox,
    screens: Vec<(&'static str, String)>,
    examples: Examples,
}

impl Day {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let toy = sandbox.directory().join("toy");
        fs::create_dir(&toy).unwrap();
        copy_program(example_program("toy"), &toy.join("claude"));
        fs::write(sandbox.home().join("recipes.toml"), RECIPE).unwrap();
        let bin = sandbox.directory().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("package.json"), r#"{"version": "2.1.330"}"#).unwrap();
        let wrap = program("agent-relay-wrap");
        fs::write(bin.join("claude"), CLAUDE.replace("WRAP", wrap.to_str().unwrap())).unwrap();
        let mut chmod = sandbox.program("chmod");
        chmod.arg("+x").arg(bin.join("claude"));
        assert_success(&output(chmod));
        let home = sandbox.directory().canonicalize().unwrap();
        let places = vec![
            (sandbox.endpoint().as_text().to_owned(), ENDPOINT),
            (home.to_str().unwrap().to_owned(), PERSON_HOME),
        ];
        let examples = Examples { places, ..Examples::default() };
        let day = Self { sandbox, screens: Vec::new(), examples };
        let shop = day.shop();
        for name in AGENTS {
            fs::create_dir_all(shop.join(name)).unwrap();
            let transcript = day.transcript(name);
            fs::create_dir_all(transcript.parent().unwrap()).unwrap();
            fs::write(transcript, "").unwrap();
        }
        let agent = |name| {
            format!("[[agent]]\nname = \"{name}\"\ncommand = \"claude\"\ndirectory = \"{name}\"\n")
        };
        fs::write(shop.join("agents.toml"), AGENTS.map(agent).join("\n")).unwrap();
        day
    }

    fn shop(&self) -> PathBuf {
        self.sandbox.directory().join("shop")
    }

    /// A terminal with a shell in the project.
    fn terminal(&self) -> Terminal {
        let mut environment = terminal::environment(&self.sandbox);
        let of_agents = env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            ["CLAUDE", "CODEX", "GEMINI"].iter().any(|begin| name.starts_with(begin))
        });
        environment.extend(of_agents.map(|name| (name, None)));
        let relay = program("agent-relay");
        let own = [self.sandbox.directory().join("bin"), relay.parent().unwrap().to_owned()];
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(own.into_iter().chain(env::split_paths(&path))).unwrap();
        environment.extend([
            ("PATH".into(), Some(path)),
            ("NO_COLOR".into(), Some("1".into())),
            ("AGENT_RELAY_AGENT".into(), None),
        ] as [(OsString, Option<OsString>); 3]);
        let terminal = Terminal::start(&["sh"], &environment, &self.shop(), SIZE);
        terminal.wait_for_row("$");
        terminal
    }

    /// Types a command into a shell, and waits until it has ended.
    #[track_caller]
    fn enter(&self, terminal: &mut Terminal, command: &str) {
        terminal.press(&format!("{command}\r"));
        terminal.wait_until(&format!("the end of {command}"), |screen| {
            screen.contains(command) && screen.trim_end().ends_with("\n$")
        });
    }

    /// Keeps a screen under the name that the document gives it.
    fn keep(&mut self, name: &'static str, terminal: &Terminal) {
        let screen = self.screen(terminal);
        self.screens.push((name, screen));
    }

    /// The screen of a terminal, with examples for values that differ from day to day.
    fn screen(&mut self, terminal: &Terminal) -> String {
        let text = terminal.text();
        let rows: Vec<_> = text.trim_end().lines().collect();
        // A prompt for the next command tells nothing.
        let rows = rows.strip_suffix(&["$"]).unwrap_or(&rows);
        self.examples.screen(rows)
    }

    /// Runs a hook of an agent until the agent is in a state. A hook gives up when its wrapper is slow.
    #[track_caller]
    fn report(&self, name: &str, event: &str, activity: &str) {
        self.report_prompt(name, event, "Work.", activity);
    }

    #[track_caller]
    fn report_prompt(&self, name: &str, event: &str, prompt: &str, activity: &str) {
        let payload = self.sandbox.directory().join("payload");
        let json = json!({
            "session_id": format!("id-{name}"), "prompt": prompt,
            "transcript_path": self.transcript(name),
        });
        fs::write(&payload, json.to_string()).unwrap();
        let to = self.sandbox.directory().join(format!("{name}.hooks"));
        until(&format!("{name} is {activity}"), || {
            let to = fs::read_to_string(&to).unwrap_or_default();
            let mut hook = self.sandbox.program(program("agent-relay-wrap"));
            hook.args(["hook", "claude", event, "--to", to.trim_end()]);
            hook.stdin(fs::File::open(&payload).unwrap());
            drop(output(hook));
            self.activity(name) == activity
        });
    }

    /// The file with an agent's conversation.
    fn transcript(&self, name: &str) -> PathBuf {
        self.sandbox.directory().join(format!(".claude/projects/shop/id-{name}.jsonl"))
    }

    /// Lets an agent say something, as Claude Code writes it into its conversation.
    fn says(&self, name: &str, text: &str) {
        let line = json!({
            "type": "assistant", "timestamp": "2999-01-01T00:00:00.000Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
        });
        fs::write(self.transcript(name), format!("{line}\n")).unwrap();
    }

    /// An agent's activity, or `finished` if its person has not looked at it since.
    fn activity(&self, name: &str) -> String {
        let listed = self.sandbox.run(["agents", name, "--json"]);
        let row: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let is_finished = row["activity"] == "idle" && row["unseen"] == true;
        let activity =
            if is_finished { "finished" } else { row["activity"].as_str().unwrap_or("") };
        activity.to_owned()
    }

    /// Waits until each agent shows its input line.
    #[track_caller]
    fn all_are_ready(&self) {
        for name in AGENTS {
            until(&format!("{name} is ready"), || {
                ["idle", "finished", "working"].contains(&&*self.activity(name))
            });
        }
    }

    /// Kills the daemon, the agents and their wrappers, as the end of the machine would.
    fn lose_power(&mut self, screen: &str) {
        let agents = processes(screen);
        assert_eq!(agents.len(), AGENTS.len(), "{screen}");
        self.sandbox.kill();
        for agent in agents {
            let mut ps = self.sandbox.program("ps");
            ps.args(["-o", "ppid=", "-p", &agent.to_string()]);
            let wrapper = String::from_utf8(output(ps).stdout).unwrap();
            self.sandbox.kill_process(wrapper.trim().parse().unwrap());
            // It may have ended with its terminal.
            drop(self.sandbox.program("kill").args(["-KILL", &agent.to_string()]).output());
        }
    }
}

impl Drop for Day {
    /// Ends the agents of a test that has failed.
    fn drop(&mut self) {
        drop(self.sandbox.run([&["stop"], &AGENTS[..]].concat()));
    }
}

/// The numbers of the processes that a screen names.
fn processes(screen: &str) -> Vec<u64> {
    let after = screen.split("(process ").skip(1);
    after.map(|rest| rest.split(')').next().unwrap().parse().unwrap()).collect()
}

/// Examples that replace values that differ from day to day.
#[derive(Default)]
struct Examples {
    /// Directories and endpoints, the longest first, with their examples.
    places: Vec<(String, &'static str)>,
    ids: Vec<String>,
    processes: Vec<String>,
}

impl Examples {
    /// The rows of a screen, with the cells of a table under its headings.
    fn screen(&mut self, rows: &[&str]) -> String {
        let (mut made, mut rows) = (String::new(), rows.iter().peekable());
        while let Some(row) = rows.next() {
            let starts = if is_heading(row) { starts(row) } else { vec![0] };
            let mut table = vec![self.cells(row, &starts)];
            while let Some(row) = rows.next_if(|row| starts.len() > 1 && is_under(row, &starts)) {
                table.push(self.cells(row, &starts));
            }
            let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
            let widths: Vec<_> = (0..table[0].len()).map(|column| width(column).unwrap()).collect();
            for row in &table {
                let mut line = String::new();
                for ((cell, width), start) in row.iter().zip(&widths).zip(&starts) {
                    // A second pane begins at the same column in all rows.
                    if cell.starts_with('│') {
                        line = format!("{line:start$}");
                    }
                    line.push_str(&format!("{cell:width$}  "));
                }
                made.push_str(line.trim_end());
                made.push('\n');
            }
        }
        made
    }

    /// The parts of a row that begin at these columns, without the blanks between them.
    fn cells(&mut self, row: &str, starts: &[usize]) -> Vec<String> {
        let ends = starts[1..].iter().copied().chain([usize::MAX]);
        let spans = starts.iter().zip(ends);
        let cell = |(start, end): (&usize, usize)| {
            let cell: String = row.chars().skip(*start).take(end - start).collect();
            self.text(cell.trim_end())
        };
        spans.map(cell).collect()
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (place, example) in &self.places {
            text = text.replace(place, example);
        }
        let mut words: Vec<String> = Vec::new();
        for word in text.split(' ') {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let before = words.last().map_or("", String::as_str);
            let example = match bare {
                _ if is_id(bare) => IDS[number_of(&mut self.ids, bare)].to_owned(),
                _ if is_number(bare) && before == "(process" => {
                    (FIRST_PROCESS + 11 * number_of(&mut self.processes, bare)).to_string()
                }
                _ if is_clock(bare) => TIME[..bare.len()].to_owned(),
                "ms" | "s" | "min" | "h" if is_number(before) => {
                    words.pop();
                    words.pop_if(|before| before == AGE);
                    AGE.to_owned()
                }
                _ => bare.to_owned(),
            };
            words.push(word.replacen(bare, &example, usize::from(!bare.is_empty())));
        }
        words.join(" ")
    }
}

/// The place of a value among those seen so far.
fn number_of(seen: &mut Vec<String>, value: &str) -> usize {
    let known = seen.iter().position(|known| known == value);
    known.unwrap_or_else(|| {
        seen.push(value.to_owned());
        seen.len() - 1
    })
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_id(word: &str) -> bool {
    word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reports whether a word is a time of day, with or without seconds.
fn is_clock(word: &str) -> bool {
    let mut parts = word.split(':');
    [5, 8].contains(&word.len()) && parts.all(|part| part.len() == 2 && is_number(part))
}

fn is_heading(row: &str) -> bool {
    ["NAME  ", "SENT  "].iter().any(|first| row.trim_start().starts_with(first))
}

/// The columns where the headings of a table begin; the first column includes the text before it.
fn starts(heading: &str) -> Vec<usize> {
    let blanks = |at: usize| heading[..at].ends_with("  ");
    let later = heading.char_indices().filter(|&(at, c)| c != ' ' && blanks(at));
    let later = later.map(|(at, _)| at).filter(|at| !heading[..*at].trim().is_empty());
    [0].into_iter().chain(later).collect()
}

/// Reports whether the cells of a row begin at these columns.
fn is_under(row: &str, starts: &[usize]) -> bool {
    let blank = |at: usize| row.chars().nth(at).is_none_or(|c| c == ' ');
    row.chars().count() > starts[1] && starts[1..].iter().all(|at| blank(at - 1) && blank(at - 2))
}

/// The first id that a terminal shows, once there is one.
#[track_caller]
fn first_id(terminal: &Terminal) -> String {
    let found =
        |screen: &str| screen.split_whitespace().find(|word| is_id(word)).map(str::to_owned);
    terminal.wait_until("an id", |screen| found(screen).is_some());
    found(&terminal.text()).expect("an id")
}

/// Asks `tests`, which answers.
#[track_caller]
fn ask_which_test_is_slow(day: &Day, window: &mut Terminal, of_tests: &Terminal) {
    window.press("agent-relay ask tests \"Which test is slow?\"\r");
    of_tests.wait_for("heard ");
    let text = of_tests.text();
    let frame = &text[text.find("[relay ").expect("a frame")..text.find("heard ").unwrap()];
    day.report_prompt("tests", "UserPromptSubmit", frame, "working");
    let id = first_id(window);
    day.says("tests", &format!("->relay:@operator [reply:{id}] <<<\nOnly parse_large.\n>>>"));
    window.wait_for_row("Only parse_large.");
    day.report("tests", "Stop", "idle");
}

/// Reports whether `top` has drawn its last row, with the keys for a question.
fn is_drawn(screen: &str, size: Size) -> bool {
    let last = screen.lines().nth(usize::from(size.rows) - 1);
    last.is_some_and(|row| row.starts_with("1-9 answer"))
}

/// Kills every process, and starts the agents again. `first` is the screen that names them.
fn lose_all_and_restore(day: &mut Day, first: &str) {
    day.lose_power(first);
    let mut window = day.terminal();
    until("the agents are away", || {
        let listed = day.sandbox.run(["restore"]);
        AGENTS.iter().all(|name| String::from_utf8_lossy(&listed.stdout).contains(name))
    });
    day.enter(&mut window, "agent-relay restore");
    day.keep("cut off", &window);
    let mut window = day.terminal();
    day.enter(&mut window, "agent-relay restore --all");
    day.keep("back", &window);
    day.all_are_ready();
}

/// The list of agents in a large terminal.
fn large_agents() -> Expect {
    expect![[r#"
        $ agent-relay agents
        NAME   PROGRAM  WHERE  STATE     FOR  MAIL
        api    claude   api    finished  6 s
        docs   claude   docs   finished  6 s
        text   claude   text   working   6 s
        web    claude   web    working   6 s
        tests  claude   tests  idle      6 s
    "#]]
}

/// The screen of `top` in a large terminal.
fn large_top() -> Expect {
    expect![[r#"
        5 agents, 5 here  1 waits for you  2 finished  /tmp/agent-relay.sock
           NAME   PROGRAM  WHERE  STATE                 FOR  MAIL  WHY                      │ SCREEN of tests
        !  tests  claude   tests  waits for permission  6 s        Run the tests?           │ Run the tests?
        ✓  api    claude   api    finished              6 s                                 │ ❯ 1. Yes
        ✓  docs   claude   docs   finished              6 s                                 │   2. No
           text   claude   text   working               6 s                                 │
           web    claude   web    working               6 s                                 │
        tests: ~/shop/tests; its hooks tell it of messages, or they are typed               │
          Run the tests?                                                                    │
          1 Yes                                                                             │
          2 No                                                                              │
        MESSAGES                                                                            │
        09:10:07 7438af3c  @operator -> tests: Which test is slow?                          │
        09:10:07 91c2ab07  tests -> @operator: re 7438af3c: Only parse_large.               │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
                                                                                            │
        1-9 answer  n next  Enter attach  m send  h hold  Tab messages  / filter  ? help  q quit
    "#]]
}

#[test]
fn screens_of_the_document_are_those_of_the_day() {
    let mut day = Day::new();
    let mut window = day.terminal();
    window.press("agent-relay team up\r");
    window.wait_for_bytes("Start 5 agents? [y/N] ");
    day.enter(&mut window, "y");
    day.all_are_ready();
    day.keep("morning", &window);
    let first = window.text();

    for name in AGENTS {
        day.report(name, "UserPromptSubmit", "working");
    }
    let mut of_tests = day.terminal();
    of_tests.press("agent-relay attach tests\r");
    of_tests.wait_for("ready");
    day.report("tests", "Stop", "idle");
    for name in ["api", "docs"] {
        day.report(name, "Stop", "finished");
    }
    let mut window = day.terminal();
    ask_which_test_is_slow(&day, &mut window, &of_tests);
    day.enter(&mut window, "agent-relay agents");
    day.keep("agents", &window);
    let mut window = day.terminal();
    window.resize(LARGE);
    day.enter(&mut window, "agent-relay agents");
    large_agents().assert_eq(&day.screen(&window));

    of_tests.press("menu\r");
    of_tests.wait_for("Run the tests?");
    day.report("tests", "PermissionRequest", "waits-for-permission");
    let mut top = day.terminal();
    top.press("agent-relay top\r");
    top.wait_until("its question, and the messages", |screen| {
        screen.contains("Only parse_large.") && is_drawn(screen, SIZE)
    });
    day.keep("top", &top);
    top.resize(LARGE);
    top.wait_until("the agent's screen", |screen| {
        screen.contains("│ Run the tests?") && is_drawn(screen, LARGE)
    });
    large_top().assert_eq(&day.screen(&top));
    top.press("1");
    of_tests.wait_until("the dialog is over", |screen| !screen.contains("Run the tests?"));
    top.press("q");
    top.wait_until("the shell", |screen| screen.trim_end().ends_with('$'));

    // A window is closed while its agent works.
    of_tests.press("work\r");
    day.report("tests", "PostToolUse", "working");
    of_tests.close_window();
    let mut window = day.terminal();
    day.enter(&mut window, "agent-relay agents tests");
    day.keep("window", &window);

    lose_all_and_restore(&mut day, &first);

    let mut window = day.terminal();
    day.enter(&mut window, "agent-relay history --search slow");
    let id = first_id(&window);
    day.enter(&mut window, &format!("agent-relay ask --resume {id}"));
    day.keep("found", &window);

    let mut window = day.terminal();
    day.enter(&mut window, "agent-relay team down");
    day.keep("evening", &window);
    for (name, screen) in std::mem::take(&mut day.screens) {
        tables::check("GUIDE.md", name, &format!("```text\n{screen}```\n"), COMMAND);
    }
}
