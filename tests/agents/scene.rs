//! A CLI in the wrapper, as Ann, with its peer Bob, for CLIs that only a few tests are about.

use crate::{
    cli::{installed, search_path},
    peer::Peer,
    sandbox::{Sandbox, WATCHDOG, output, until},
    terminal::Terminal,
};
use agent_relay::{
    bridge::screen::Screen,
    client::{Event, SendId},
};
use platform::pty::Size;
use serde_json::Value;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{self, PathBuf},
    thread,
    time::Duration,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The time in which the CLI must end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A CLI, as far as the tests know it.
pub(crate) struct Kind {
    pub(crate) command: &'static str,
    /// The beginning of the row with the empty composer.
    pub(crate) composer: &'static str,
    /// Words that are on the screen while the agent works.
    pub(crate) busy: &'static str,
    /// The question that the CLI asks before it runs a command, and the key that allows the command
    /// once.
    pub(crate) permission: (&'static str, &'static str),
}

/// A CLI that runs.
pub(crate) struct Scene<'a> {
    sandbox: &'a Sandbox,
    kind: Kind,
    directory: PathBuf,
    pub(crate) terminal: Terminal,
    pub(crate) bob: Peer,
}

impl<'a> Scene<'a> {
    /// Writes files below the user's home, starts the CLI with more options of `run`, and waits for
    /// its empty composer.
    pub(crate) fn new(
        sandbox: &'a Sandbox,
        kind: Kind,
        options: &[&str],
        files: &[(&str, String)],
        variables: &[(&str, &str)],
    ) -> Self {
        let directory = sandbox.directory().to_owned();
        let (user_home, project) = (directory.join("person"), directory.join("project"));
        fs::create_dir_all(&project).unwrap();
        for (file, text) in files {
            let file = user_home.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let program = installed().join("node_modules/.bin").join(kind.command);
        assert!(program.exists(), "{} is missing: run ci/agents", program.display());
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words = [&["run", "-n", "Ann"], options, &["--"]].concat();
        let words = words.into_iter().map(OsString::from);
        let command = [relay.into_os_string()].into_iter().chain(words).chain([program.into()]);
        let command: Vec<OsString> = command.collect();
        let (endpoint, home, path) = (sandbox.endpoint(), sandbox.home(), search_path());
        let all: [(&str, &OsStr); 8] = [
            ("PATH", &path),
            ("HOME", user_home.as_ref()),
            ("TERM", "xterm-256color".as_ref()),
            ("COLORTERM", "truecolor".as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("SHELL", "/bin/bash".as_ref()),
            ("AGENT_RELAY_ENDPOINT", endpoint.as_text().as_ref()),
            ("AGENT_RELAY_HOME", home.as_ref()),
        ];
        let own = variables.iter().map(|&(name, value)| (name, value.as_ref()));
        let set = all.into_iter().chain(own);
        let removed = env::vars_os().map(|(name, _)| (name, None));
        let env: Vec<_> =
            removed.chain(set.map(|(name, value)| (name.into(), Some(value.to_owned())))).collect();
        let terminal = Terminal::start(&command, &env, &project, SIZE);
        let scene = Self { sandbox, kind, directory, terminal, bob: Peer::join(sandbox, "Bob") };
        scene.wait_until_idle();
        scene
    }

    /// Returns the path of a file in the project.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join("project").join(name)
    }

    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        self.terminal.wait_until_screen("an empty composer", |screen| {
            let row = screen.row(screen.cursor().row).text;
            row.starts_with(self.kind.composer) && !screen.text().contains(self.kind.busy)
        });
    }

    /// Types a text as the user, and submits it once the composer shows it.
    #[track_caller]
    pub(crate) fn submit(&mut self, text: &str) {
        self.terminal.press(text);
        self.terminal.wait_until_screen("the typed text", |screen: &Screen| {
            screen.row(screen.cursor().row).text.contains(text)
        });
        self.terminal.press("\r");
    }

    /// Allows a command.
    #[track_caller]
    pub(crate) fn permit(&mut self) {
        self.terminal.wait_for(self.kind.permission.0);
        self.terminal.press(self.kind.permission.1);
    }

    /// Waits for the next message to Bob, and returns its text.
    #[track_caller]
    pub(crate) fn receive(&self) -> String {
        loop {
            match self.bob.0.events().recv_timeout(WATCHDOG) {
                Ok(Event::Delivered(delivery)) => {
                    self.bob.0.acknowledge(&delivery.id);
                    return delivery.body.clone();
                }
                Ok(_) => {}
                Err(_) => panic!("no message arrives:\n{}", self.terminal.text()),
            }
        }
    }

    /// Waits until `status` reports this state and a reason that contains `why`.
    #[track_caller]
    pub(crate) fn await_report(&self, id: &SendId, state: &str, why: &str) {
        until(&format!("{id} is reported {state}: {why}"), || {
            let status = output(self.sandbox.command(["status", &id.0, "--json"])).stdout;
            let status: Value = serde_json::from_slice(&status).unwrap_or_default();
            let reported = &status["reported"];
            reported["state"] == state && reported["why"].as_str().unwrap_or_default().contains(why)
        });
    }
}

impl Drop for Scene<'_> {
    /// Ends the wrapper, which ends the CLI.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.terminal.text());
        }
        self.terminal.pty.end(GRACE).ok();
    }
}
