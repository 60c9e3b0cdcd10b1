//! The thread that finds the transcript which the command writes, and follows it as it grows.
//!
//! A program that writes one also prints, so each look follows something printed, and for a while a few
//! more do; a program that rests is looked at once a second. Whose a file is the system says where it
//! can: Claude Code lists its processes, and on Linux a process's open files are known. Else every file
//! of this directory that goes on is read, and the bridge decides by what is in it.

use super::threads::spawn;
use crate::{
    bridge::{
        File as Number,
        transcript::{Format, Reader, Record},
    },
    protocol::{Moment, calendar},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use platform::{clock, paths::open_file_of_others, process};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    cmp::Reverse,
    collections::HashMap,
    env,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// From one look to the next at least; so often after something was printed; and else.
const LOOK_APART: Duration = Duration::from_millis(15);
const LOOK_SOON: Duration = Duration::from_millis(20);
const LOOK_IDLY: Duration = Duration::from_millis(1000);

/// So long after something was printed what belongs to it may still be written.
const SOON_MS: u64 = 2000;

/// From one search for files to the next: while none is known to be the command's, and after that, since
/// it may begin another conversation.
const SEARCH_MS: u64 = 250;
const SEARCH_AGAIN_MS: u64 = 1000;

/// So long after something was printed or read it may turn out by that whose a file is.
const UNDECIDED_MS: u64 = 10_000;

/// When a file was changed may be said by a coarser clock, or in whole seconds. What counts of it says its
/// own time.
const CHANGED_MS: u64 = 2000;

/// What a program writes down may be so much older than what tells that the file is its own.
const TAKEN_UP_MS: u64 = 5000;

/// The wall clock, by which files tell what is new in them, was set back if it lost so much.
const SET_BACK_MS: u64 = 5000;

/// Records that wait for the driver, and files that are followed.
const RECORDS_MAX: usize = 256;
const FOLLOWED_MAX: usize = 32;

/// Read at a time, in bytes; and of a file's first line.
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// What the thread tells.
pub(super) enum Told {
    /// This file is read from now on.
    Found(Number, PathBuf),
    /// And this one no longer.
    Left(Number),
    /// This file is the command's.
    Owned(Number),
    /// A file that may be the command's goes on.
    Recorded(Number, Record),
    /// All that such files had at this moment is told.
    Searched {
        /// See there.
        at: Moment,
        /// No other process runs the command's program in its directory.
        is_alone: bool,
    },
}

/// The thread, and what is heard of it.
pub(super) struct Follower {
    /// Something was printed.
    wake: Sender<()>,
    /// The command is alive as long as this one is there.
    alive: Sender<()>,
    /// What it tells, until the command's end.
    pub(super) told: Receiver<Told>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Follows what the command with this process id writes in this directory, or this process's, since
    /// then: before it began.
    pub(super) fn start(
        format: Format,
        pid: u32,
        directory: Option<&Path>,
        since_ms: u64,
    ) -> io::Result<Self> {
        let (wake, woken) = bounded(1);
        let (alive, ended) = bounded(0);
        let (teller, told) = bounded(RECORDS_MAX);
        let mut search = Search::new(format, pid, directory, since_ms)?;
        let thread = spawn("transcript", move || {
            search.follow(&woken, &ended, &teller);
        })?;
        Ok(Self { wake, alive, told, thread })
    }

    /// Something was printed: it is worth a look.
    pub(super) fn wake(&self) {
        // One that waits already does for both.
        let _ = self.wake.try_send(());
    }

    /// The command has ended: tells what it wrote last, as far as that is found in this time. A file that
    /// can't be read to its end keeps nobody from going.
    pub(super) fn finish(self, at_most_ms: u64, mut tell: impl FnMut(Told)) {
        drop((self.wake, self.alive));
        let until = clock::monotonic_ms() + at_most_ms;
        loop {
            let left = until.saturating_sub(clock::monotonic_ms());
            match self.told.recv_timeout(Duration::from_millis(left)) {
                Ok(told) if left > 0 => tell(told),
                Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    return tracing::warn!("what the command wrote last is not read to its end");
                }
            }
        }
        // A panic of its was reported by the panic hook; what it did ends all the same.
        drop(self.thread.join());
    }
}

/// Where the command's transcript may be.
struct Search {
    format: Format,
    pid: u32,
    /// Where the program has its files.
    home: PathBuf,
    /// Where the command runs.
    directory: PathBuf,
    started_ms: u64,
    /// The conversation that Claude Code names.
    session: Option<String>,
    /// When the system last said which conversation is the command's.
    told_ms: Option<u64>,
    /// Since when the one that it says now is: what was said in it before was another agent's.
    own_since_ms: u64,
    followed: Vec<Followed>,
    /// How many files there were so far.
    numbers: u32,
    /// Files that are followed no longer. If one goes on, it is the same to the bridge as before, and only
    /// what was not read of it is news.
    left: HashMap<PathBuf, Followed>,
    /// Files whose first lines were looked at.
    whose: HashMap<PathBuf, Whose>,
    searched_ms: Option<u64>,
    /// When something was printed last, or read.
    stirred_ms: u64,
    /// How far the wall clock is ahead of the one that is never set.
    ahead_ms: u64,
    buffer: Vec<u8>,
}

/// One file that is read as it grows.
struct Followed {
    number: Number,
    path: PathBuf,
    file: Option<File>,
    offset: u64,
    reader: Reader,
    /// What was written down before counts as another run's.
    since_ms: u64,
    is_own: bool,
}

/// Who leads the conversation that a file has, as its first line says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// An agent in the command's directory.
    Here,
    /// One in another.
    Elsewhere,
    /// One that the agent has started itself.
    Subagent,
}

/// There is nobody left to tell.
struct Unheard;

impl Search {
    fn new(
        format: Format,
        pid: u32,
        directory: Option<&Path>,
        started_ms: u64,
    ) -> io::Result<Self> {
        let directory = directory.map_or_else(env::current_dir, |path| Ok(path.to_owned()));
        Ok(Self {
            format,
            pid,
            home: home(format)?,
            directory: directory.and_then(fs::canonicalize)?,
            started_ms,
            session: None,
            told_ms: None,
            own_since_ms: started_ms,
            followed: Vec::new(),
            numbers: 0,
            left: HashMap::new(),
            whose: HashMap::new(),
            searched_ms: None,
            stirred_ms: clock::monotonic_ms(),
            ahead_ms: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Until the command has ended.
    fn follow(&mut self, woken: &Receiver<()>, ended: &Receiver<()>, teller: &Sender<Told>) {
        let mut woken_ms = self.stirred_ms;
        loop {
            if self.look(teller).is_err() {
                return;
            }
            if let Err(RecvTimeoutError::Disconnected) = ended.recv_timeout(LOOK_APART) {
                break;
            }
            let soon = clock::monotonic_ms().saturating_sub(woken_ms) < SOON_MS;
            match woken.recv_timeout(if soon { LOOK_SOON } else { LOOK_IDLY }) {
                Ok(()) => {
                    woken_ms = clock::monotonic_ms();
                    self.stirred_ms = woken_ms;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.searched_ms = None;
        // Where nobody hears it, nobody wants to know.
        drop(self.look(teller));
    }

    fn look(&mut self, teller: &Sender<Told>) -> Result<(), Unheard> {
        let now = clock::monotonic_ms();
        self.compare_clocks(now, clock::unix_ms());
        let is_known = self.followed.iter().any(|followed| followed.is_own);
        let every_ms = if is_known { SEARCH_AGAIN_MS } else { SEARCH_MS };
        let searches = self.searched_ms.is_none_or(|at| now.saturating_sub(at) >= every_ms);
        if searches {
            self.searched_ms = Some(now);
            self.search(teller)?;
        }
        for followed in &mut self.followed {
            if followed.read(&mut self.buffer, teller)? {
                self.stirred_ms = now;
            }
        }
        // To ask who else is at work here is a look at all processes.
        let is_open = now.saturating_sub(self.stirred_ms) < UNDECIDED_MS;
        let is_of_use = is_open && self.followed.iter().any(|followed| !followed.is_own);
        if !searches || !is_of_use {
            return Ok(());
        }
        let told = Told::Searched { at: Moment(now), is_alone: process::is_alone(self.pid) };
        teller.send(told).map_err(|_| Unheard)
    }

    /// Where the wall clock was set back, so is what counts as new, or nothing would be for that long.
    fn compare_clocks(&mut self, now_ms: u64, wall_ms: u64) {
        let ahead_ms = wall_ms.saturating_sub(now_ms);
        let lost_ms = self.ahead_ms.saturating_sub(ahead_ms);
        self.ahead_ms = ahead_ms;
        if lost_ms < SET_BACK_MS {
            return;
        }
        tracing::info!("the clock was set back by {} s", lost_ms / 1000);
        let told = self.told_ms.iter_mut();
        for since_ms in [&mut self.started_ms, &mut self.own_since_ms].into_iter().chain(told) {
            *since_ms = since_ms.saturating_sub(lost_ms);
        }
        for followed in self.followed.iter_mut().chain(self.left.values_mut()) {
            followed.since_ms = followed.since_ms.saturating_sub(lost_ms);
            followed.reader.count_since(calendar::utc(followed.since_ms));
        }
    }

    fn search(&mut self, teller: &Sender<Told>) -> Result<(), Unheard> {
        // The system tells open files by their real names. The program's first run makes its home only now.
        if let Ok(home) = fs::canonicalize(&self.home) {
            self.home = home;
        }
        let known = match self.format {
            Format::Claude => self.claude_lists(),
            Format::Codex => self.codex_has_open(),
            Format::Gemini => Vec::new(),
        };
        let is_own = !known.is_empty();
        let mut paths = if is_own { known } else { self.candidates() };
        // Of more than are followed, each would push out another one, which the next search finds again.
        if paths.len() > FOLLOWED_MAX {
            paths.sort_by_cached_key(|path| Reverse(changed(path)));
            paths.truncate(FOLLOWED_MAX);
        }
        paths.iter().try_for_each(|path| self.add(path, is_own, &paths, teller))
    }

    /// Follows a file that is among the wanted ones.
    fn add(
        &mut self,
        path: &Path,
        is_own: bool,
        wanted: &[PathBuf],
        teller: &Sender<Told>,
    ) -> Result<(), Unheard> {
        if is_own && self.own_since_ms > self.started_ms {
            self.forget_stranger(path, teller)?;
        }
        if let Some(followed) = self.followed.iter_mut().find(|followed| followed.path == path) {
            let is_news = is_own && !followed.is_own;
            followed.is_own |= is_own;
            let owned = Told::Owned(followed.number);
            return if is_news { teller.send(owned).map_err(|_| Unheard) } else { Ok(()) };
        }
        if self.followed.len() == FOLLOWED_MAX && !self.leave_one(is_own, wanted, teller)? {
            return Ok(());
        }
        let mut followed = self.left.remove(path).unwrap_or_else(|| self.begin(path, is_own));
        followed.is_own |= is_own;
        tracing::info!("reading {}", path.display());
        let number = followed.number;
        teller.send(Told::Found(number, path.to_owned())).map_err(|_| Unheard)?;
        self.followed.push(followed);
        if is_own { teller.send(Told::Owned(number)).map_err(|_| Unheard) } else { Ok(()) }
    }

    /// A file that was not read before.
    fn begin(&mut self, path: &Path, is_own: bool) -> Followed {
        let number = Number(self.numbers);
        self.numbers += 1;
        let since_ms = if is_own { self.own_since_ms } else { self.started_ms };
        let reader = Reader::new(self.format, calendar::utc(since_ms));
        let path = path.to_owned();
        Followed { number, path, file: None, offset: 0, reader, since_ms, is_own }
    }

    /// The command goes on in a conversation that was another agent's: what was read of it doesn't count.
    fn forget_stranger(&mut self, path: &Path, teller: &Sender<Told>) -> Result<(), Unheard> {
        if self.left.get(path).is_some_and(|left| !left.is_own) {
            self.left.remove(path);
        }
        let place = self.followed.iter().position(|it| it.path == path && !it.is_own);
        let Some(place) = place else { return Ok(()) };
        teller.send(Told::Left(self.followed.remove(place).number)).map_err(|_| Unheard)
    }

    /// From when on a conversation is the command's that the system did not name before.
    fn since_told(&self) -> u64 {
        let told_ms = self.told_ms.unwrap_or(self.started_ms);
        told_ms.saturating_sub(TAKEN_UP_MS).max(self.started_ms)
    }

    /// Makes room for another file, if any is followed that is not wanted: a stranger's, or for one of the
    /// command's another of these.
    fn leave_one(
        &mut self,
        is_own: bool,
        wanted: &[PathBuf],
        teller: &Sender<Told>,
    ) -> Result<bool, Unheard> {
        let is_spare = |followed: &Followed| !wanted.contains(&followed.path);
        let stranger = self.followed.iter().position(|it| !it.is_own && is_spare(it));
        let any = || self.followed.iter().position(is_spare).filter(|_| is_own);
        let Some(place) = stranger.or_else(any) else { return Ok(false) };
        let mut left = self.followed.remove(place);
        left.read(&mut self.buffer, teller)?;
        tracing::info!("no longer reading {}", left.path.display());
        teller.send(Told::Left(left.number)).map_err(|_| Unheard)?;
        left.close();
        self.left.insert(left.path.clone(), left);
        Ok(true)
    }

    /// Claude Code writes a file for each of its processes, named by the process, with its session.
    fn claude_lists(&mut self) -> Vec<PathBuf> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Process {
            session_id: String,
            started_at: u64,
        }
        let session = |pid: u32| {
            let path = self.home.join("sessions").join(format!("{pid}.json"));
            let file = open_file_of_others(&path).ok()?.take(HEAD_BYTES_MAX);
            let process: Process = serde_json::from_reader(BufReader::new(file)).ok()?;
            // A process that was killed leaves its file, and another may have its number now.
            if process.started_at < self.started_ms {
                return None;
            }
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            process.session_id.chars().all(is_plain).then(|| process.session_id + ".jsonl")
        };
        let asked_ms = clock::unix_ms();
        // One further away is a tool's of the agent.
        let Some(name) = process::family(self.pid).into_iter().find_map(session) else {
            return Vec::new();
        };
        if self.session.as_ref() != Some(&name) {
            self.own_since_ms = self.since_told();
            self.session = Some(name.clone());
        }
        self.told_ms = Some(asked_ms);
        let all = directories(&self.home.join("projects"));
        all.iter().map(|directory| directory.join(&name)).filter(|path| path.is_file()).collect()
    }

    /// Codex has its file open, but where a daemon of its own writes it; and not every system tells.
    fn codex_has_open(&mut self) -> Vec<PathBuf> {
        let asked_ms = clock::unix_ms();
        let mut family = process::family(self.pid).into_iter();
        let open = |pid| {
            let mut files = process::written_files(pid)?;
            files.retain(|path| path.starts_with(&self.home) && is_transcript(path));
            // Its subagents' files it has open, too.
            files.retain(|path| self.whose(path).is_some_and(|whose| whose != Whose::Subagent));
            Some(files).filter(|files| !files.is_empty())
        };
        // One further away is a tool's of the agent.
        let files = family.find_map(open).unwrap_or_default();
        self.own_since_ms = self.since_told();
        if !files.is_empty() || self.told_ms.is_some() {
            self.told_ms = Some(asked_ms);
        }
        files
    }

    /// Files of this directory that go on since the command began.
    fn candidates(&mut self) -> Vec<PathBuf> {
        let places = match self.format {
            Format::Claude => Vec::new(),
            Format::Codex => {
                let years = directories(&self.home.join("sessions"));
                let months: Vec<_> = years.iter().flat_map(|year| directories(year)).collect();
                months.iter().flat_map(|month| directories(month)).collect()
            }
            Format::Gemini => {
                let projects = directories(&self.home.join("tmp"));
                projects.into_iter().map(|project| project.join("chats")).collect()
            }
        };
        let all = places.iter().flat_map(|place| entries(place));
        let since = UNIX_EPOCH + Duration::from_millis(self.started_ms.saturating_sub(CHANGED_MS));
        let goes_on = |path: &PathBuf| {
            is_transcript(path) && changed(path).is_some_and(|changed| changed >= since)
        };
        let all: Vec<PathBuf> = all.filter(goes_on).collect();
        all.into_iter().filter(|path| self.whose(path) == Some(Whose::Here)).collect()
    }

    /// Whether a file lies where Gemini CLI says that it keeps this directory's.
    fn is_in_project(&self, path: &Path) -> bool {
        #[derive(Deserialize)]
        struct Register {
            projects: HashMap<PathBuf, String>,
        }
        let register = || {
            let file = open_file_of_others(&self.home.join("projects.json")).ok()?;
            serde_json::from_reader(BufReader::new(file.take(HEAD_BYTES_MAX))).ok()
        };
        let folder = path.ancestors().nth(2).and_then(Path::file_name);
        register().is_some_and(|register: Register| {
            let name = register.projects.get(&self.directory);
            name.is_some_and(|name| folder == Some(name.as_ref()))
        })
    }

    /// Nobody knows as long as its first line isn't written.
    fn whose(&mut self, path: &Path) -> Option<Whose> {
        if let Some(whose) = self.whose.get(path) {
            return Some(*whose);
        }
        let head = first_line(path)?;
        let is_here = match self.format {
            Format::Claude | Format::Codex => directory_in(&head).is_some_and(|directory| {
                fs::canonicalize(directory).is_ok_and(|directory| directory == self.directory)
            }),
            // A Gemini CLI that begins removes the files of others that have said nothing yet; these go on
            // without a first line.
            Format::Gemini if !head.contains("\"projectHash\"") => self.is_in_project(path),
            Format::Gemini => head.contains(&hash_of(&self.directory)),
        };
        let whose = match (self.format.is_of_subagent(&head), is_here) {
            (true, _) => Whose::Subagent,
            (false, true) => Whose::Here,
            (false, false) => Whose::Elsewhere,
        };
        self.whose.insert(path.to_owned(), whose);
        Some(whose)
    }
}

impl Followed {
    /// Reads on to the file's end. Says whether it had more.
    fn read(&mut self, buffer: &mut [u8], teller: &Sender<Told>) -> Result<bool, Unheard> {
        let mut records = Vec::new();
        let mut had_more = false;
        loop {
            let count = self.more(buffer).unwrap_or_else(|error| {
                tracing::debug!("{} can't be read: {error}", self.path.display());
                0
            });
            self.reader.feed(&buffer[..count], &mut records);
            for record in records.drain(..) {
                teller.send(Told::Recorded(self.number, record)).map_err(|_| Unheard)?;
            }
            if count == 0 {
                return Ok(had_more);
            }
            had_more = true;
        }
    }

    /// What the file has more. One that was put in its place, or is shorter now, is read from its
    /// beginning; the reader knows again what it has read.
    fn more(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = fs::metadata(&self.path)?.len();
        if let Some(file) = &mut self.file
            && length >= self.offset
        {
            let count = file.read(buffer)?;
            self.offset += count as u64;
            if count > 0 || length == self.offset {
                return Ok(count);
            }
        }
        if self.file.is_some() {
            self.reader.restart();
        }
        let mut file = open_file_of_others(&self.path)?;
        let count = file.read(buffer)?;
        (self.file, self.offset) = (Some(file), count as u64);
        Ok(count)
    }

    /// If it is followed again, it may be another file: it is read from its beginning then, and the reader
    /// knows again what it has read.
    fn close(&mut self) {
        (self.file, self.offset) = (None, 0);
        self.reader.restart();
    }
}

/// Where a program has its files.
fn home(format: Format) -> io::Result<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || env::home_dir().ok_or_else(|| io::Error::other("there is no home directory"));
    match format {
        Format::Claude => {
            named("CLAUDE_CONFIG_DIR").map_or_else(|| Ok(user()?.join(".claude")), Ok)
        }
        Format::Codex => named("CODEX_HOME").map_or_else(|| Ok(user()?.join(".codex")), Ok),
        Format::Gemini => {
            named("GEMINI_CLI_HOME").map_or_else(user, Ok).map(|home| home.join(".gemini"))
        }
    }
}

/// When a file was changed last.
fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// What is in a directory; nothing where it isn't there.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    entries(directory).into_iter().filter(|path| path.is_dir()).collect()
}

/// A file's first line, once it is whole.
fn first_line(path: &Path) -> Option<String> {
    let mut line = String::new();
    let file = open_file_of_others(path).ok()?.take(HEAD_BYTES_MAX);
    BufReader::new(file).read_line(&mut line).ok()?;
    line.ends_with('\n').then_some(line)
}

/// The directory that the first line of one of Codex's files names.
fn directory_in(head: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        payload: Payload,
    }
    #[derive(Deserialize)]
    struct Payload {
        cwd: String,
    }
    serde_json::from_str::<Head>(head).ok().map(|head| head.payload.cwd)
}

/// What Gemini CLI calls a directory.
fn hash_of(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
