//! Records of agents, for starting an agent again with its own conversation.
//!
//! A record has no environment, no key and no prompt. It is written once an agent CLI takes
//! prompts, and again when its conversation changes and when it ends.

use super::{records, threads::spawn};
use crossbeam_channel::{Sender, bounded};
use platform::clock;
use protocol::hook;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread::JoinHandle,
};
use terminal::{agents, resume::Resume};

/// The directory in the home with a file for each record.
const DIRECTORY: &str = "agents";

/// The most records that are kept. Beyond that, the oldest record of an ended agent is removed, or
/// else the oldest one.
const RECORDS_MAX: usize = 256;

/// The most versions of a record that wait to be written.
const WAITING_MAX: usize = 4;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentRecord {
    /// The agent's name.
    pub(crate) name: String,
    /// The name of the agent's CLI.
    pub(crate) cli: String,
    /// The command's working directory.
    pub(crate) directory: PathBuf,
    /// The command's program.
    pub(crate) program: String,
    /// The command's arguments that are kept for a later start.
    pub(crate) arguments: Vec<String>,
    /// The options of `run`.
    pub(crate) options: Vec<String>,
    /// The CLI's id of the conversation, once a prompt was submitted in it.
    #[serde(default)]
    pub(crate) conversation: Option<String>,
    /// The time of the start, in milliseconds since 1970.
    pub(crate) started: u64,
    /// The time when the CLI ended by itself or was stopped. `None` while the agent runs, and after
    /// an unintended end.
    #[serde(default)]
    pub(crate) ended: Option<u64>,
}

impl AgentRecord {
    /// Returns the record of a command that is about to start: `None` if it is not an agent CLI
    /// that can resume conversations, or if a word is not valid text.
    pub(super) fn new(
        name: &str,
        cli: &str,
        command: &[OsString],
        directory: PathBuf,
        options: Vec<String>,
        conversation: Option<String>,
    ) -> Option<Self> {
        let resume = resume_of(cli)?;
        let words: Option<Vec<_>> =
            command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let words = words?;
        let (program, arguments) = words.split_first()?;
        Some(Self {
            name: name.to_owned(),
            cli: cli.to_owned(),
            directory,
            program: program.clone(),
            arguments: resume.kept(arguments),
            options,
            conversation: conversation.or_else(|| resume.conversation(arguments)),
            started: clock::unix_ms(),
            ended: None,
        })
    }

    /// Returns the command that starts the agent again.
    pub(crate) fn command(&self) -> Vec<String> {
        self.resuming(&self.program, &self.arguments)
    }

    /// Returns the command that continues the recorded conversation, with the CLI's given program
    /// and arguments.
    pub(crate) fn resuming(&self, program: &str, arguments: &[String]) -> Vec<String> {
        let arguments = match resume_of(&self.cli) {
            Some(it) => it.start(&it.kept(arguments), self.conversation.as_deref()),
            None => arguments.to_vec(),
        };
        [vec![program.to_owned()], arguments].concat()
    }

    fn write(&self, home: &Path) -> io::Result<()> {
        records::write(&path(home, &self.name), self)?;
        remove_oldest(home)
    }
}

fn resume_of(cli: &str) -> Option<&'static Resume> {
    agents::named(cli).and_then(|agent| agent.resume)
}

/// The path of a record. Names that differ only in case are one name.
fn path(home: &Path, name: &str) -> PathBuf {
    home.join(DIRECTORY).join(format!("{}.json", name.to_ascii_lowercase()))
}

/// Reads the record of an agent, if there is one. An invalid record is logged and ignored.
pub(crate) fn of(home: &Path, name: &str) -> Option<AgentRecord> {
    let read = records::read(&path(home, name));
    read.inspect_err(|error| tracing::warn!("{error}")).ok().flatten()
}

/// Whether an agent of this name can be started again.
pub(crate) fn exists(home: &Path, name: &str) -> bool {
    path(home, name).exists()
}

/// Whether an agent of this name was cut off, unless it runs.
pub(crate) fn is_cut_off(home: &Path, name: &str) -> bool {
    let read = records::read::<AgentRecord>(&path(home, name));
    read.is_ok_and(|record| record.is_some_and(|record| record.ended.is_none()))
}

/// Reads all records, in the order of their names. Invalid records are logged and omitted.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn all(home: &Path) -> io::Result<Vec<AgentRecord>> {
    let mut agents: Vec<AgentRecord> = records::all(&home.join(DIRECTORY))?;
    agents.sort_by_key(|record| record.name.to_ascii_lowercase());
    Ok(agents)
}

/// Removes the record of an agent, if there is one.
pub(crate) fn remove(home: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(path(home, name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Renames the record of an agent, if there is one.
pub(crate) fn rename(home: &Path, before: &str, after: &str) -> io::Result<()> {
    let Some(record) = records::read::<AgentRecord>(&path(home, before))? else {
        // A record left by an earlier agent of that name does not belong to this one.
        return remove(home, after);
    };
    AgentRecord { name: after.to_owned(), ..record }.write(home)?;
    match path(home, before) == path(home, after) {
        true => Ok(()),
        false => remove(home, before),
    }
}

fn remove_oldest(home: &Path) -> io::Result<()> {
    let records = all(home)?;
    if records.len() <= RECORDS_MAX {
        return Ok(());
    }
    let oldest = records.iter().find(|record| record.ended.is_some()).unwrap_or(&records[0]);
    remove(home, &oldest.name)
}

/// The end of an agent's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A person has stopped the agent.
    Stopped,
    /// The system has ended the wrapper.
    CutOff,
    /// The command has ended with this exit code.
    Exited(i32),
}

/// Writes an agent's record whenever it changes, on a separate thread, since the disk may be slow.
pub(super) struct RecordKeeper {
    home: PathBuf,
    record: AgentRecord,
    /// Whether the CLI has taken prompts.
    takes_prompts: bool,
    /// The thread, once the record is written.
    writer: Option<(Sender<AgentRecord>, JoinHandle<()>)>,
}

impl RecordKeeper {
    pub(super) fn new(home: PathBuf, record: AgentRecord) -> Self {
        Self { home, record, takes_prompts: false, writer: None }
    }

    /// Notes that the CLI takes prompts, and writes the record for the first time. A command that
    /// only prints its version does not replace the record of an earlier agent.
    pub(super) fn take_prompts(&mut self) {
        self.takes_prompts = true;
        self.begin();
    }

    /// Writes the record for the first time.
    pub(super) fn begin(&mut self) {
        if self.writer.is_none() {
            let (versions, to_write) = bounded::<AgentRecord>(WAITING_MAX);
            let home = self.home.clone();
            // Waits for: its channel, the disk. The wrapper joins it at its end.
            let thread = spawn("agent record", move || {
                for version in to_write {
                    if let Err(error) = version.write(&home) {
                        tracing::warn!("`agent-relay restore` may not know this agent: {error}");
                    }
                }
            });
            match thread {
                Ok(thread) => self.writer = Some((versions, thread)),
                Err(error) => tracing::error!("the agent's record cannot be written: {error}"),
            }
            self.write();
        }
    }

    /// Notes the conversation that a hook reports. A conversation counts once a prompt was
    /// submitted: before that the CLI does not keep it.
    pub(super) fn note(&mut self, report: &hook::Report) {
        let has_begun = report.point != hook::Point::SessionBegan;
        let session = report.session.as_ref().filter(|_| has_begun);
        if session.is_some_and(|id| self.record.conversation.as_ref() != Some(id)) {
            self.record.conversation = session.cloned();
            self.take_prompts();
            self.write();
        }
    }

    /// Records the CLI's end, and waits until that is written.
    pub(super) fn end(mut self, end: End) {
        let Some((versions, thread)) = self.writer else { return };
        let is_wanted = match end {
            End::Stopped => true,
            End::CutOff => false,
            End::Exited(0) => true,
            // The CLI may not have found its conversation, or was killed. 130 is Ctrl-C.
            End::Exited(code) => self.takes_prompts && (code <= 128 || code == 130),
        };
        if is_wanted {
            self.record.ended = Some(clock::unix_ms());
            // This fails only after a panic of the thread, which the panic hook reported.
            drop(versions.send(self.record));
        }
        drop(versions);
        drop(thread.join());
    }

    fn write(&self) {
        let Some((versions, _)) = &self.writer else { return };
        if versions.try_send(self.record.clone()).is_err() {
            tracing::warn!("the agent's record is not written: the disk is too slow");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::paths;
    use protocol::hook::{Point, Report};
    use std::{env, process};

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("ar-records-{}-{name}", process::id()));
            paths::make_private_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn record(name: &str) -> AgentRecord {
        let command = ["claude", "--model", "opus", "Fix the tests."].map(OsString::from);
        let options = vec!["--mcp".to_owned()];
        AgentRecord::new(name, "claude", &command, "/src/web".into(), options, None).unwrap()
    }

    #[test]
    fn record_follows_the_conversation_and_has_no_prompt() {
        let home = Home::new("follows");
        let only = || all(&home.0).unwrap().into_iter().next();
        let mut keeper = RecordKeeper::new(home.0.clone(), record("Web"));
        let reported = |point, id: &str| Report {
            session: Some(id.to_owned()),
            ..Report::new(point, Vec::new())
        };
        keeper.note(&reported(Point::SessionBegan, "empty"));
        assert_eq!(only(), None, "no prompt was submitted");
        keeper.note(&reported(Point::PromptSubmitted, "first"));
        keeper.note(&reported(Point::TurnEnded, "second"));
        keeper.end(End::CutOff);
        let cut_off = only().unwrap();
        assert_eq!((cut_off.ended, cut_off.conversation.as_deref()), (None, Some("second")));
        assert_eq!(cut_off.command(), ["claude", "--resume", "second", "--model", "opus"]);

        let mut keeper = RecordKeeper::new(home.0.clone(), record("WEB"));
        keeper.begin();
        keeper.end(End::Stopped);
        let ended = only().unwrap();
        assert_eq!((ended.ended.is_some(), &*ended.name), (true, "WEB"));
        assert_eq!(ended.command(), ["claude", "--model", "opus"]);
        remove(&home.0, "web").unwrap();
        remove(&home.0, "web").unwrap();
        assert_eq!(only(), None);
    }

    #[test]
    fn only_a_wanted_end_is_recorded() {
        let home = Home::new("ended");
        for (takes_prompts, end, is_wanted) in [
            (true, End::Exited(0), true),
            (true, End::Exited(1), true),
            (true, End::Exited(130), true),
            (true, End::Exited(137), false),
            (false, End::Exited(0), true),
            (false, End::Exited(1), false),
            (false, End::Stopped, true),
            (true, End::CutOff, false),
        ] {
            let mut keeper = RecordKeeper::new(home.0.clone(), record("Web"));
            keeper.begin();
            if takes_prompts {
                keeper.take_prompts();
            }
            keeper.end(end);
            assert_eq!(is_cut_off(&home.0, "web"), !is_wanted, "{takes_prompts} {end:?}");
        }
    }

    #[test]
    fn record_follows_its_agent_to_another_name() {
        let home = Home::new("renamed");
        let names = || -> Vec<_> { all(&home.0).unwrap().into_iter().map(|r| r.name).collect() };
        rename(&home.0, "Web", "Eve").unwrap();
        assert_eq!(names(), [""; 0]);
        record("Web").write(&home.0).unwrap();
        for after in ["Eve", "eve", "Web"] {
            rename(&home.0, &names()[0], after).unwrap();
            assert_eq!(names(), [after]);
        }
        // Another agent gets the name.
        rename(&home.0, "Other", "web").unwrap();
        assert_eq!(names(), [""; 0]);
    }

    #[test]
    fn oldest_ended_record_makes_room() {
        let home = Home::new("oldest");
        for n in 0..=RECORDS_MAX as u64 {
            let ended = (n == 7).then_some(1);
            let record = AgentRecord { started: n, ended, ..record(&format!("a{n}")) };
            record.write(&home.0).unwrap();
        }
        let names: Vec<_> = all(&home.0).unwrap().into_iter().map(|r| r.name).collect();
        assert_eq!(names.len(), RECORDS_MAX);
        assert!(names.contains(&"a0".to_owned()) && !names.contains(&"a7".to_owned()));
    }

    #[test]
    fn invalid_record_is_omitted() {
        let home = Home::new("broken");
        record("Web").write(&home.0).unwrap();
        fs::write(home.0.join(DIRECTORY).join("x.json"), "{").unwrap();
        assert_eq!(all(&home.0).unwrap().len(), 1);
    }

    #[test]
    fn command_without_a_way_to_resume_has_no_record() {
        let new = |cli: &str| {
            let command = [OsString::from("x")];
            AgentRecord::new("A", cli, &command, "/".into(), Vec::new(), None)
        };
        assert!(new("bash").is_none() && new("aider").is_none() && new("codex").is_some());
    }
}
