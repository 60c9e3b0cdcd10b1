//! `demo`: a conversation of two scripted agents, each in a separate terminal.
//!
//! The command starts a daemon only for the demo, with its endpoint and home in a temporary
//! directory. The agents are processes of this program. Each sends its lines of [`SCRIPT`], and
//! succeeds only if it receives the lines of the other, word for word.

use super::{
    context::{context, join},
    down,
    failure::{DONE, Failure, TIMED_OUT},
    identity::Identity,
    join::start_for_person,
    print::{Colour, Out, eprint_line},
    program::AS_AGENT_RELAY,
    request::call,
    tap,
};
use crate::{daemon, wrap};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, Event,
    home::{Context, HomeOptions},
};
use crossbeam_channel::{Receiver, bounded, select};
use platform::{
    clock,
    endpoint::Endpoint,
    paths,
    stop_signals::{self, Signal},
    tty::RawMode,
};
use protocol::relay::{RequestName, TapCopy};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    time::Duration,
};

/// The argument after [`AS_AGENT_RELAY`] that makes this program one of the agents.
pub(super) const AGENT: &str = wrap::DEMO_AGENT;

/// The messages, in turns, with their senders.
const SCRIPT: [(&str, &str); 4] = [
    ("Ann", "The parser is done. Can you take the tests?"),
    ("Bob", "Yes. What should they cover?"),
    ("Ann", "Please test:\n\n- an empty file\n- one record\n\nTell me when they pass."),
    ("Bob", "All green: 2 passed."),
];

/// The longest time of the whole conversation.
const DEMO_MS: u64 = 60_000;

/// The longest line that an agent reads.
const LINE_BYTES_MAX: usize = 4096;

/// The pause between two checks whether the agents have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Run a short conversation of two scripted agents, to see that everything works.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "demo",
    help_triggers("--help"),
    example = "agent-relay demo",
    note = "It uses a daemon and a home of its own. Succeeds only if every message arrives."
)]
pub(super) struct Demo {
    /// print each message as one line of JSON
    #[argh(switch)]
    json: bool,
}

impl Demo {
    pub(super) fn run(self) -> Result<i32, Failure> {
        let stage = Stage::start()?;
        let result = self.play(&stage);
        let stopped = stage.stop();
        result.and(stopped)?;
        Ok(DONE)
    }

    fn play(&self, stage: &Stage) -> Result<(), Failure> {
        let (stop, stopped) = bounded(1);
        let _listening = stop_signals::listen(move |signal| {
            if signal != Signal::Resize {
                // A full channel already holds a signal, which is enough.
                let _ = stop.try_send(());
            }
        })
        .map_err(Failure::because)?;
        let mut out = Out::new();
        self.print_step(&mut out, "a daemon of its own is up")?;
        let client = join(&stage.context, &|endpoint| stage.owner.settings(endpoint))?;
        call(&client, RequestName::Tap, None)?;
        self.print_step(
            &mut out,
            "Ann and Bob run, each in a terminal of its own; this is what they say:",
        )?;
        let agents = [stage.wrap("Ann")?, stage.wrap("Bob")?];
        let received = self.show_messages(&mut out, &client, &stopped, agents)?;
        if received < SCRIPT.len() {
            return Err(Failure::failed(format!(
                "only {received} of {} messages arrived",
                SCRIPT.len()
            ))
            .hint("`agent-relay doctor` shows possible reasons"));
        }
        self.print_step(
            &mut out,
            &format!("{received} of {received} messages arrived, word for word"),
        )
    }

    fn print_step(&self, out: &mut Out, line: &str) -> Result<(), Failure> {
        if self.json {
            eprint_line(line);
            return Ok(());
        }
        let line = out.paint(Colour::Faint, line);
        out.line(line)
    }

    /// Shows the messages until both agents have ended. Returns the number of messages that arrived
    /// word for word.
    fn show_messages(
        &self,
        out: &mut Out,
        client: &Client,
        stopped: &Receiver<()>,
        mut agents: [Agent; 2],
    ) -> Result<usize, Failure> {
        let deadline = clock::monotonic_ms() + DEMO_MS;
        loop {
            select! {
                recv(client.events()) -> event => match event {
                    Ok(Event::Delivered(delivery)) => {
                        let shown = &mut tap::Shown::default();
                        let stamp = |_: &TapCopy<'_>, text| (String::new(), text);
                        tap::show(out, shown, &delivery, self.json, stamp)?;
                    },
                    Ok(Event::Ended(ended)) => return Err(Failure::failed(ended.to_string())),
                    Ok(_) => {}
                    Err(_) => return Err(Failure::failed("the daemon of the demo has ended")),
                },
                recv(stopped) -> _ => return Err(Failure::failed("stopped")),
                default(POLL_INTERVAL) => if let Some(received) = received_by(&mut agents)? {
                    return Ok(received);
                },
            }
            if clock::monotonic_ms() > deadline {
                let message = format!("the agents did not end within {} s", DEMO_MS / 1000);
                return Err(Failure::new(TIMED_OUT, message));
            }
        }
    }
}

/// Counts the messages that the successful agents have received. `None` until both agents have
/// ended.
fn received_by(agents: &mut [Agent; 2]) -> Result<Option<usize>, Failure> {
    let mut received = 0;
    for agent in agents {
        match agent.child.try_wait().map_err(Failure::because)? {
            None => return Ok(None),
            Some(status) if status.success() => {
                received += SCRIPT.iter().filter(|(from, _)| *from != agent.name).count();
            }
            Some(_) => {}
        }
    }
    Ok(Some(received))
}

/// A temporary directory with a daemon.
struct Stage {
    directory: PathBuf,
    endpoint: Endpoint,
    context: Context,
    /// A person's identity, even if this process runs in an agent.
    owner: Identity,
    exe: PathBuf,
}

impl Stage {
    fn start() -> Result<Self, Failure> {
        let directory = env::temp_dir().join(format!("agent-relay-demo-{}", process::id()));
        paths::make_private_dir(&directory).map_err(Failure::because)?;
        let endpoint = Endpoint::inside(&directory, "relay").map_err(Failure::because)?;
        let options = HomeOptions {
            endpoint: Some(endpoint.as_text().to_owned()),
            home: Some(directory.join("home").display().to_string()),
        };
        let exe = env::current_exe().map_err(Failure::because)?;
        let context = context(&options)?;
        let owner = Identity::of_person(&context);
        let mut stage = Self { directory, endpoint, context, owner, exe };
        match start_for_person(&mut stage.context) {
            Ok(_) => Ok(stage),
            Err(failure) => {
                stage.stop()?;
                Err(failure)
            }
        }
    }

    /// Starts a wrapper with one of the agents.
    fn wrap(&self, name: &'static str) -> Result<Agent, Failure> {
        let endpoint = self.context.sources.option.clone().unwrap_or_default();
        let home = self.context.home.clone().into_os_string();
        let exe = self.exe.clone().into_os_string();
        let relay = OsString::from(AS_AGENT_RELAY);
        let wrapper: [OsString; 9] = [
            relay.clone(),
            "--endpoint".into(),
            endpoint.into(),
            "--home".into(),
            home,
            "run".into(),
            "-n".into(),
            name.into(),
            "--accepts-text".into(),
        ];
        let agent: [OsString; 5] = ["--".into(), exe, relay, AGENT.into(), name.into()];
        let child = Command::new(&self.exe)
            .args(wrapper)
            .args(agent)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::failed(format!("start {name}: {error}")))?;
        Ok(Agent { name, child })
    }

    fn stop(self) -> Result<(), Failure> {
        down::stop(&self.context, &self.owner)?;
        // No other daemon has this endpoint.
        daemon::remove_endpoint_lock(&self.endpoint).map_err(Failure::because)?;
        fs::remove_dir_all(&self.directory).map_err(|error| {
            Failure::failed(format!("{} is not removed: {error}", self.directory.display()))
        })
    }
}

/// A wrapper with its agent, killed when dropped.
struct Agent {
    name: &'static str,
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Ignored: no other way to end the child is left.
            drop(self.child.kill().and_then(|()| self.child.wait()));
        }
    }
}

/// Runs one of the agents: sends its lines, and receives those of the other agent. The terminal is
/// read key by key, as agent CLIs do.
pub(super) fn agent(name: &str) -> Result<i32, Failure> {
    let _raw = RawMode::enter().map_err(Failure::because)?;
    let mut out = Out::new();
    let mut keys = BufReader::new(io::stdin());
    for (from, text) in SCRIPT {
        if from == name {
            let other = if name == "Ann" { "Bob" } else { "Ann" };
            print(&mut out, &format!("->relay:{other} <<<\n{text}>>>\n{name} waits.\n"))?;
            continue;
        }
        let received = receive(&mut keys).map_err(Failure::because)?;
        if received.as_deref() != Some(text) {
            return Err(Failure::failed(format!("{name} received {received:?}, not {text:?}")));
        }
        print(&mut out, &format!("{name} understood.\n"))?;
    }
    Ok(DONE)
}

/// Prints to a terminal in raw mode, which needs a carriage return before each newline.
fn print(out: &mut Out, text: &str) -> Result<(), Failure> {
    out.raw(&text.replace('\n', "\r\n"))
}

/// Returns the next message that the wrapper types, without the first and last line of its frame.
fn receive(keys: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut body: Option<Vec<String>> = None;
    while let Some(line) = read_line(keys)? {
        if line.starts_with("[relay ") {
            body = Some(Vec::new());
        } else if line.starts_with("[/relay ") {
            if let Some(body) = body.take() {
                return Ok(Some(body.join("\n")));
            }
        } else if let Some(body) = &mut body {
            body.push(line);
        }
    }
    Ok(None)
}

/// Reads a line up to an Enter or a line feed. `None` at the end of input.
fn read_line(keys: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let Some(key) = keys.fill_buf()?.first().copied() else { return Ok(None) };
        keys.consume(1);
        match key {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            _ if line.len() < LINE_BYTES_MAX => line.push(key),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_in_a_frame_is_received() {
        let text = "x\n[relay 7f3a9c from Bob, id 1a2b3c4d] words\none\n\ntwo\n[/relay 7f3a9c]\r";
        let mut keys = text.as_bytes();
        assert_eq!(receive(&mut keys).unwrap().as_deref(), Some("one\n\ntwo"));
        assert_eq!(receive(&mut keys).unwrap(), None);
    }

    #[test]
    fn both_agents_send_and_receive() {
        assert_eq!(SCRIPT.iter().filter(|(from, _)| *from == "Ann").count(), 2);
        assert!(SCRIPT.iter().all(|(from, _)| ["Ann", "Bob"].contains(from)));
    }
}
