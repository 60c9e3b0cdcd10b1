//! `demo`: two scripted agents in terminals of their own talk through a daemon of their own.
//!
//! Nothing of the person's is touched: endpoint and home are in a temporary directory. The agents
//! are this same program; each says its lines of [`SCRIPT`] and ends well only if it heard the
//! other's, word for word.

use super::{
    AS_AGENT_RELAY, DONE, Failure, TIMED_OUT,
    ask::ask,
    down,
    identity::Identity,
    launch,
    place::{Asked, Place},
    print::{Colour, Out, say},
    tap,
};
use crate::{
    client::{Client, Event},
    wrap,
};
use argh::{ArgsInfo, FromArgs};
use crossbeam_channel::{Receiver, bounded, select};
use platform::{
    clock,
    endpoint::Endpoint,
    paths,
    stop::{self, Signal},
    terminal::RawMode,
};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    time::Duration,
};

/// The word behind [`AS_AGENT_RELAY`] that makes this program one of the two.
pub(super) const AGENT: &str = wrap::DEMO_AGENT;

/// Who says what, in turns.
const SCRIPT: [(&str, &str); 4] = [
    ("Ann", "The parser is done. Can you take the tests?"),
    ("Bob", "Yes. What shall they cover?"),
    ("Ann", "Please test:\n\n- an empty file\n- one record\n\nTell me when they pass."),
    ("Bob", "All green: 2 passed."),
];

/// How long the whole of it may take.
const DEMO_MS: u64 = 60_000;

/// The longest line that an agent listens to.
const LINE_BYTES_MAX: usize = 4096;

/// Between two looks at whether an agent has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Let two scripted agents hold a short conversation, to see that everything works.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "demo",
    help_triggers("--help"),
    example = "agent-relay demo",
    note = "Uses a daemon of its own; nothing of yours is touched. Succeeds only if every message arrived."
)]
pub(super) struct Demo {
    /// print each message as one line of JSON
    #[argh(switch)]
    json: bool,
}

impl Demo {
    pub(super) fn run(self) -> Result<i32, Failure> {
        let stage = Stage::set()?;
        let result = self.play(&stage);
        let cleared = stage.clear();
        result.and(cleared)?;
        Ok(DONE)
    }

    fn play(&self, stage: &Stage) -> Result<(), Failure> {
        let (told, stopped) = bounded(1);
        let _listening = stop::listen(move |signal| {
            if signal != Signal::Resize {
                // Being told once is enough.
                let _ = told.try_send(());
            }
        })
        .map_err(Failure::because)?;
        let mut out = Out::new();
        self.tell(&mut out, "a daemon of its own is up")?;
        let client = stage.place.join(&|endpoint| stage.owner.settings(endpoint))?;
        ask(&client, "tap", None)?;
        self.tell(
            &mut out,
            "Ann and Bob run, each in a terminal of its own; this is what they say:",
        )?;
        let agents = [stage.start("Ann")?, stage.start("Bob")?];
        let heard = self.watch(&mut out, &client, &stopped, agents)?;
        if heard < SCRIPT.len() {
            return Err(Failure::failed(format!(
                "only {heard} of {} messages arrived: `agent-relay doctor` shows what may be in the way",
                SCRIPT.len()
            )));
        }
        self.tell(&mut out, &format!("{heard} of {heard} messages arrived, word for word"))
    }

    fn tell(&self, out: &mut Out, line: &str) -> Result<(), Failure> {
        if self.json {
            say(line);
            return Ok(());
        }
        let line = out.paint(Colour::Faint, line);
        out.line(line)
    }

    /// Shows what is said until both agents have ended; how many messages were heard as they were
    /// said.
    fn watch(
        &self,
        out: &mut Out,
        client: &Client,
        stopped: &Receiver<()>,
        mut agents: [Agent; 2],
    ) -> Result<usize, Failure> {
        let deadline = clock::monotonic_ms() + DEMO_MS;
        let tap = tap::Tap { json: self.json };
        loop {
            select! {
                recv(client.events()) -> event => match event {
                    Ok(Event::Delivered(delivery)) => tap.show(out, &delivery)?,
                    Ok(Event::Ended(ended)) => return Err(Failure::failed(ended.to_string())),
                    Ok(_) => {}
                    Err(_) => return Err(Failure::failed("the demo's own daemon is gone")),
                },
                recv(stopped) -> _ => return Err(Failure::failed("stopped")),
                default(LOOK_AGAIN) => if let Some(heard) = both_ended(&mut agents)? {
                    return Ok(heard);
                },
            }
            if clock::monotonic_ms() > deadline {
                let words = format!("the agents did not end within {} s", DEMO_MS / 1000);
                return Err(Failure::new(TIMED_OUT, words));
            }
        }
    }
}

/// How many lines those who ended well have heard, once both have ended.
fn both_ended(agents: &mut [Agent; 2]) -> Result<Option<usize>, Failure> {
    let mut heard = 0;
    for agent in agents {
        match agent.child.try_wait().map_err(Failure::because)? {
            None => return Ok(None),
            Some(status) if status.success() => {
                heard += SCRIPT.iter().filter(|(from, _)| *from != agent.name).count();
            }
            Some(_) => {}
        }
    }
    Ok(Some(heard))
}

/// A place of its own, with a daemon.
struct Stage {
    directory: PathBuf,
    place: Place,
    /// Who runs it, whatever agent this process is a part of elsewhere.
    owner: Identity,
    exe: PathBuf,
}

impl Stage {
    fn set() -> Result<Self, Failure> {
        let directory = env::temp_dir().join(format!("agent-relay-demo-{}", process::id()));
        paths::make_private_dir(&directory).map_err(Failure::because)?;
        let endpoint = Endpoint::inside(&directory, "relay").map_err(Failure::because)?;
        let asked = Asked {
            endpoint: Some(endpoint.as_text().to_owned()),
            home: Some(directory.join("home").display().to_string()),
        };
        let exe = env::current_exe().map_err(Failure::because)?;
        let place = asked.place()?;
        let owner = Identity::of_person(&place);
        let mut stage = Self { directory, place, owner, exe };
        match launch::start(&mut stage.place) {
            Ok(_) => Ok(stage),
            Err(failure) => {
                stage.clear()?;
                Err(failure)
            }
        }
    }

    /// Wraps one of the two.
    fn start(&self, name: &'static str) -> Result<Agent, Failure> {
        let endpoint = self.place.sources.option.clone().unwrap_or_default();
        let home = self.place.home.clone().into_os_string();
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

    fn clear(self) -> Result<(), Failure> {
        down::stop(&self.place, &self.owner)?;
        fs::remove_dir_all(&self.directory).map_err(|error| {
            Failure::failed(format!("{} stays: {error}", self.directory.display()))
        })
    }
}

/// A wrapper with its agent, ended when dropped.
struct Agent {
    name: &'static str,
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Whatever is left of it then is not ours to end.
            drop(self.child.kill().and_then(|()| self.child.wait()));
        }
    }
}

/// One of the two: says its lines, hears the other's. This is what runs in the terminal, key by key
/// as agents' programs do.
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
        let heard = hear(&mut keys).map_err(Failure::because)?;
        if heard.as_deref() != Some(text) {
            return Err(Failure::failed(format!("{name} heard {heard:?}, not {text:?}")));
        }
        print(&mut out, &format!("{name} understood.\n"))?;
    }
    Ok(DONE)
}

/// A terminal that is read key by key moves down only where it is told to.
fn print(out: &mut Out, text: &str) -> Result<(), Failure> {
    out.raw(&text.replace('\n', "\r\n"))
}

/// The next message that the wrapper types: what stands between its frame's two lines.
fn hear(keys: &mut impl BufRead) -> io::Result<Option<String>> {
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

/// What is typed up to an Enter or a line feed; nothing once there are no more keys.
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
    fn a_frame_is_heard_and_nothing_around_it() {
        let text = "x\n[relay 7f3a9c from Bob, id 1a2b3c4d] words\none\n\ntwo\n[/relay 7f3a9c]\r";
        let mut keys = text.as_bytes();
        assert_eq!(hear(&mut keys).unwrap().as_deref(), Some("one\n\ntwo"));
        assert_eq!(hear(&mut keys).unwrap(), None);
    }

    #[test]
    fn both_have_something_to_say_and_to_hear() {
        assert_eq!(SCRIPT.iter().filter(|(from, _)| *from == "Ann").count(), 2);
        assert!(SCRIPT.iter().all(|(from, _)| ["Ann", "Bob"].contains(from)));
    }
}
