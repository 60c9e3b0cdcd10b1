//! Agents in windows and panes of tmux: their titles distinguish them, and the focus decides which
//! of them notify the person.

use platform::{clock, pty::Size};
use std::{ffi::OsString, fs, io, process::Command};
use testkit::{
    programs::{copy_program, example_program, program},
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::{assert_success, not_tried, output, until},
};

/// A person's terminal reports that it has got the focus, or lost it.
const FOCUSED: &str = "\x1b[I";
const UNFOCUSED: &str = "\x1b[O";

/// The time a question stands before its notice would have come.
const NOTICE_MS: u64 = 2000;

const SIZE: Size = Size { rows: 30, cols: 100 };

/// Whether there is tmux. Without it, the test is not tried.
pub(crate) fn is_installed() -> bool {
    match Command::new("tmux").arg("-V").output() {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            not_tried("tmux is not installed (ci/setup does it)");
            false
        }
        version => {
            assert_success(&version.unwrap());
            true
        }
    }
}

/// A tmux server of the test, with its socket in the sandbox. Each agent is a copy of `toy` under
/// the name of Claude Code, in a window or a pane with the agent's name as its user option `@name`.
struct Tmux {
    sandbox: Sandbox,
}

impl Tmux {
    /// Starts a server with one window, which runs `cat`, and with focus reports. `None` if there
    /// is no tmux.
    fn start(config: &str) -> Option<Self> {
        let sandbox = Sandbox::with_config(&format!("on_hangup = 'end'\n{config}"));
        copy_program(example_program("toy"), &sandbox.directory().join("claude"));
        if !is_installed() {
            return None;
        }
        let tmux = Self { sandbox };
        let (cols, rows) = (SIZE.cols.to_string(), SIZE.rows.to_string());
        tmux.run(&["new-session", "-d", "-x", &cols, "-y", &rows, "cat"]);
        tmux.run(&["set-option", "-g", "focus-events", "on"]);
        tmux.run(&["set-option", "-g", "remain-on-exit", "on"]);
        Some(tmux)
    }

    /// A command of tmux, with the environment that the server and its panes get.
    fn line(&self, arguments: &[&str]) -> Vec<OsString> {
        let socket = self.sandbox.directory().join("tmux");
        let options = ["-u", "-f", "/dev/null", "-S"].map(OsString::from);
        let arguments = arguments.iter().map(OsString::from);
        ["tmux".into()].into_iter().chain(options).chain([socket.into()]).chain(arguments).collect()
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let line = self.line(arguments);
        let mut command = self.sandbox.program(&line[0]);
        command.args(&line[1..]);
        for (name, value) in terminal::environment(&self.sandbox) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ended = output(command);
        assert_success(&ended);
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Starts an agent by `new-window` or `split-window`, and waits until it is idle.
    #[track_caller]
    fn agent(&self, place: &str, name: &str) {
        let (relay, toy) = (program("agent-relay"), self.sandbox.directory().join("claude"));
        let line =
            [relay.to_str().unwrap(), "run", "--no-brief", name, "--", toy.to_str().unwrap()];
        let pane = self.run(&[&[place, "-P", "-F", "#{pane_id}"], &line[..]].concat());
        self.run(&["set-option", "-p", "-t", pane.trim(), "@name", name]);
        self.await_activity(name, "idle");
    }

    /// The id of an agent's pane.
    #[track_caller]
    fn pane(&self, name: &str) -> String {
        let panes = self.run(&["list-panes", "-s", "-F", "#{@name} #{pane_id}"]);
        let pane = panes.lines().find_map(|row| row.strip_prefix(name)?.strip_prefix(' '));
        pane.unwrap_or_else(|| panic!("{name} has a pane: {panes}")).to_owned()
    }

    /// A format of tmux for each agent's pane, in their order.
    #[track_caller]
    fn each(&self, format: &str) -> Vec<String> {
        let format = format!("#{{@name}}\t{format}");
        let panes = self.run(&["list-panes", "-s", "-F", &format]);
        let of_agents = panes.lines().filter_map(|row| row.split_once('\t'));
        of_agents.filter(|(name, _)| !name.is_empty()).map(|(_, value)| value.to_owned()).collect()
    }

    #[track_caller]
    fn await_each(&self, format: &str, expected: &[&str]) {
        until(&format!("{format} is {expected:?}"), || self.each(format) == expected);
    }

    /// Types a line into an agent's pane.
    #[track_caller]
    fn enter(&self, name: &str, line: &str) {
        self.run(&["send-keys", "-t", &self.pane(name), "-l", line]);
        self.run(&["send-keys", "-t", &self.pane(name), "Enter"]);
    }

    /// Lets an agent ask its person something, and answers after the time for a notice.
    #[track_caller]
    fn ask_and_answer(&self, name: &str) {
        self.enter(name, "menu");
        self.sandbox.wait_until(&format!("{name} has asked for a while"), |agents| {
            agents.iter().filter(|agent| agent["activity"] == "asks-person").any(|agent| {
                let since = agent["activity_since"].as_u64().unwrap();
                agent["name"] == name && clock::unix_ms().saturating_sub(since) >= NOTICE_MS
            })
        });
        self.run(&["send-keys", "-t", &self.pane(name), "-l", "1"]);
        self.await_activity(name, "idle");
    }

    #[track_caller]
    fn await_activity(&self, name: &str, activity: &str) {
        self.sandbox.wait_until(&format!("{name} is {activity}"), |agents| {
            agents.iter().any(|agent| agent["name"] == name && agent["activity"] == activity)
        });
    }

    fn told(&self) -> String {
        fs::read_to_string(self.sandbox.directory().join("told")).unwrap_or_default()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let line = self.line(&["kill-server"]);
        let mut command = self.sandbox.program(&line[0]);
        command.args(&line[1..]);
        // A test that failed early has no server.
        drop(output(command));
    }
}

#[test]
fn five_windows_are_told_apart_and_the_waiting_one_is_marked() {
    let Some(tmux) = Tmux::start("") else { return };
    let names = ["web", "api", "text", "tests", "docs"];
    for name in names {
        tmux.agent("new-window", name);
    }
    tmux.await_each("#{pane_title}", &names);
    assert_eq!(tmux.each("#{window_bell_flag}"), ["0"; 5]);
    tmux.enter("text", "menu");
    tmux.await_each("#{pane_title}", &["web", "api", "! text", "tests", "docs"]);
    // The default notice is the bell, which tmux shows in its list of windows.
    tmux.await_each("#{window_bell_flag}", &["0", "0", "1", "0", "0"]);
    tmux.run(&["send-keys", "-t", &tmux.pane("text"), "-l", "1"]);
    tmux.await_each("#{pane_title}", &names);
    // A window that stays gets back the title that it had before its agent.
    let before = tmux.run(&["display-message", "-p", "-t", ":0", "#{pane_title}"]);
    tmux.enter("text", "quit");
    tmux.await_each("#{pane_title}", &["web", "api", before.trim(), "tests", "docs"]);
}

#[test]
fn person_is_called_once_and_never_to_the_pane_with_the_focus() {
    let notify = r#"notify = ['sh', '-c', 'echo "$0 $1" >> "$HOME/told"', '{agent}', '{text}']"#;
    let Some(tmux) = Tmux::start(notify) else { return };
    let attach = tmux.line(&["attach-session"]);
    let environment = terminal::environment(&tmux.sandbox);
    let mut person = Terminal::start(&attach, &environment, tmux.sandbox.directory(), SIZE);
    person.wait_for_bytes("\x1b[?1004h");
    person.press(FOCUSED);
    tmux.agent("new-window", "Ann");
    tmux.agent("split-window", "Bob");
    tmux.run(&["select-pane", "-t", &tmux.pane("Ann")]);
    tmux.ask_and_answer("Bob");
    until("Bob calls", || !tmux.told().is_empty());
    tmux.ask_and_answer("Ann");
    tmux.run(&["select-pane", "-t", &tmux.pane("Bob")]);
    tmux.ask_and_answer("Bob");

    // A terminal in the background and a session without a terminal have no viewer.
    person.press(UNFOCUSED);
    until("tmux knows", || {
        !tmux.run(&["list-clients", "-F", "#{client_flags}"]).contains("focused")
    });
    tmux.ask_and_answer("Bob");
    until("Bob calls", || tmux.told().lines().count() == 2);
    tmux.run(&["detach-client", "-s", "0"]);
    tmux.ask_and_answer("Ann");
    until("Ann calls", || tmux.told().lines().count() == 3);
    let told = "Bob asks you something\nBob asks you something\nAnn asks you something\n";
    assert_eq!(tmux.told(), told);
}
