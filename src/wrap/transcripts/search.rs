//! The search for the transcripts of one command, and the transcripts that are read.

use super::{
    DriverGone, Event, TranscriptId,
    catalogue::{Catalogue, is_transcript, modified},
    followed::{Followed, Left},
    named::{self, Named, Refusal},
};
use crossbeam_channel::Sender;
use platform::{clock, paths::open_file_of_others, process};
use protocol::Moment;
use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};
use terminal::transcript::{Format, Home, Leader, Location, ProcessSession, ProjectList};

/// The time between two searches while no transcript is known to be the command's.
const SEARCH_MS: u64 = 250;

/// The time between two searches once the command's transcript is known, since the command may
/// begin another conversation.
const SEARCH_AGAIN_MS: u64 = 1000;

/// How long after an output or a record the terminal side may still decide whether a transcript is
/// the command's.
const UNDECIDED_MS: u64 = 10_000;

/// The tolerance of a file's modification time, which may come from a coarser clock or be in whole
/// seconds. Lines have their own timestamps.
const MODIFIED_TOLERANCE_MS: u64 = 2000;

/// The longest time from a record until the system names its transcript as the command's.
const IDENTIFIED_LATE_MS: u64 = 5000;

/// The smallest step back of the wall clock that counts. Lines are dated by that clock.
const SET_BACK_MS: u64 = 5000;

/// The most transcripts that are read at a time.
const FOLLOWED_MAX: usize = 32;

/// The most bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The most bytes that are read of a first line, and of a file that is not a transcript.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// The search for the transcripts of one command.
pub(super) struct Search {
    format: &'static Format,
    pid: u32,
    /// The folder of the CLI's files.
    home: PathBuf,
    /// The command's working directory.
    directory: PathBuf,
    /// The wall clock time of the command's start.
    started_ms: u64,
    /// The name of the transcript that the process file names.
    session_file: Option<String>,
    /// The transcripts of that name.
    session_paths: Vec<PathBuf>,
    /// The wall clock time when the system last named a transcript of the command.
    identified_ms: Option<u64>,
    /// The wall clock time when the command took over the conversation that the system names now.
    /// Earlier records are another agent's.
    own_since_ms: u64,
    /// The transcript that a hook has named last, until it exists.
    named: Option<Named>,
    /// Whether hooks name the command's transcripts, so that no search for candidates is needed.
    is_named_by_hooks: bool,
    followed: Vec<Followed>,
    /// Transcripts that are not being read. A transcript that grows again keeps its id, and only
    /// its new lines are read.
    closed: HashMap<PathBuf, Left>,
    catalogue: Catalogue,
    /// The transcripts with a logged refusal, so that each is logged once.
    refused: HashSet<PathBuf>,
    next_id: u32,
    /// The leaders of conversations that the first lines of transcripts name, by path.
    leaders: HashMap<PathBuf, Leader>,
    searched_ms: Option<u64>,
    /// The moment of the last output or record.
    active_ms: u64,
    /// The time that the wall clock is ahead of the monotonic clock.
    wall_ahead_ms: u64,
    buffer: Vec<u8>,
}

impl Search {
    pub(super) fn new(
        format: &'static Format,
        pid: u32,
        directory: Option<&Path>,
        started_ms: u64,
    ) -> io::Result<Self> {
        let directory = directory.map_or_else(env::current_dir, |path| Ok(path.to_owned()));
        let directory = directory.and_then(fs::canonicalize)?;
        Ok(Self {
            format,
            pid,
            home: path_of(&format.home, env::var_os(format.home.variable), &directory)?,
            directory,
            started_ms,
            session_file: None,
            session_paths: Vec::new(),
            identified_ms: None,
            own_since_ms: started_ms,
            named: None,
            is_named_by_hooks: false,
            followed: Vec::new(),
            closed: HashMap::new(),
            catalogue: Catalogue::new(format.folders),
            refused: HashSet::new(),
            next_id: 0,
            leaders: HashMap::new(),
            searched_ms: None,
            active_ms: clock::monotonic_ms(),
            wall_ahead_ms: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Returns the folder of the CLI's files.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Notes that something was printed.
    pub(super) fn note_activity(&mut self, now_ms: u64) {
        self.active_ms = now_ms;
    }

    /// Notes that a hook has named a transcript, which may not exist yet.
    pub(super) fn name(&mut self, named: Named) {
        self.named = Some(named);
        self.make_due();
    }

    /// Makes the next scan search for transcripts, even if no search is due.
    pub(super) fn make_due(&mut self) {
        self.searched_ms = None;
    }

    /// Searches for transcripts if a search is due, and reads all known transcripts to their ends.
    pub(super) fn look(&mut self, events: &Sender<Event>) -> Result<(), DriverGone> {
        let now_ms = clock::monotonic_ms();
        self.follow_clock(now_ms, clock::unix_ms());
        let is_identified = self.followed.iter().any(|followed| followed.is_own);
        let every_ms = if is_identified { SEARCH_AGAIN_MS } else { SEARCH_MS };
        let is_due = self.searched_ms.is_none_or(|at| now_ms.saturating_sub(at) >= every_ms);
        if is_due {
            self.searched_ms = Some(now_ms);
            self.search(events)?;
        }
        for followed in &mut self.followed {
            if followed.read(&mut self.buffer, events)? {
                self.active_ms = now_ms;
            }
        }
        // The search for other agents inspects all processes, so it happens only if the result
        // matters.
        let is_undecided = now_ms.saturating_sub(self.active_ms) < UNDECIDED_MS
            && self.followed.iter().any(|followed| !followed.is_own);
        if is_due && is_undecided {
            let is_alone = process::is_alone(self.pid);
            events.send(Event::Searched { at: Moment(now_ms), is_alone })?;
        }
        Ok(())
    }

    /// Follows the wall clock. If it was set back, the limits for skipping older lines are set
    /// back, too.
    fn follow_clock(&mut self, now_ms: u64, wall_ms: u64) {
        let ahead_ms = wall_ms.saturating_sub(now_ms);
        let lost_ms = self.wall_ahead_ms.saturating_sub(ahead_ms);
        self.wall_ahead_ms = ahead_ms;
        if lost_ms < SET_BACK_MS {
            return;
        }
        tracing::info!("the clock was set back by {} s", lost_ms / 1000);
        let moments = [&mut self.started_ms, &mut self.own_since_ms];
        let named = self.named.as_mut().map(|named| &mut named.since_ms);
        for moment_ms in moments.into_iter().chain(&mut self.identified_ms).chain(named) {
            *moment_ms = moment_ms.saturating_sub(lost_ms);
        }
        self.followed.iter_mut().for_each(|followed| followed.set_back(lost_ms));
        self.closed.values_mut().for_each(|left| left.set_back(lost_ms));
    }

    fn search(&mut self, events: &Sender<Event>) -> Result<(), DriverGone> {
        // The system lists open files by paths without symbolic links. The folder may have been
        // created only now, on the CLI's first run.
        if let Ok(home) = fs::canonicalize(&self.home) {
            self.home = home;
        }
        self.adopt_named(events)?;
        let mut identified = match &self.format.location {
            Location::ByProcess => self.named_by_process(),
            Location::ByFirstLine { is_kept_open: true, .. } => self.open_files(),
            Location::ByFirstLine { .. } => Vec::new(),
        };
        if self.is_named_by_hooks {
            // The system may name a conversation for a while that the command has left.
            identified.retain(|path| !self.closed.get(path).is_some_and(|closed| closed.is_own));
        }
        let is_own = !identified.is_empty();
        let mut paths = match is_own || self.is_named_by_hooks {
            true => identified,
            false => self.candidates(),
        };
        paths.retain_mut(|path| self.is_usable(path));
        // Each path above the limit would close another one, which the next search would open
        // again.
        if paths.len() > FOLLOWED_MAX {
            paths.sort_by_cached_key(|path| Reverse(modified(path)));
            paths.truncate(FOLLOWED_MAX);
        }
        paths.iter().try_for_each(|path| self.add(path, is_own, &paths, events))
    }

    /// Whether a found transcript may be used. Its path is replaced by the real one, since the user
    /// may have put a link in place of a folder.
    fn is_usable(&mut self, path: &mut PathBuf) -> bool {
        match named::real_path(path) {
            Ok(Some(real)) => *path = real,
            Ok(None) => return false,
            Err(why) => {
                if self.refused.insert(path.clone()) {
                    tracing::warn!("{} is not read: {why}", path.display());
                }
                return false;
            }
        }
        true
    }

    /// Reads the transcript that a hook has named, and no other one, once it is there.
    fn adopt_named(&mut self, events: &Sender<Event>) -> Result<(), DriverGone> {
        let Some(named) = self.named.take() else { return Ok(()) };
        match self.check_named(&named.path) {
            Ok(None) => self.named = Some(named),
            Ok(Some(path)) => {
                self.is_named_by_hooks = true;
                let since_ms = named.since_ms.saturating_sub(IDENTIFIED_LATE_MS);
                self.own_since_ms = since_ms.max(self.started_ms);
                self.add(&path, true, std::slice::from_ref(&path), events)?;
                self.close_others(&path, events)?;
            }
            Err(why) => {
                tracing::warn!("{}, which a hook names, is not read: {why}", named.path.display());
            }
        }
        Ok(())
    }

    /// Returns the real path of a transcript that a hook has named; `None` until the file and its
    /// first line exist.
    fn check_named(&mut self, path: &Path) -> Result<Option<PathBuf>, Refusal> {
        let Some(path) = named::check(path, &self.home, self.format)? else { return Ok(None) };
        if let Location::ByProcess = self.format.location {
            return Ok(Some(path));
        }
        match self.leader(&path) {
            None => Ok(None),
            Some(Leader::Subagent) => Err(Refusal::Subagent),
            // A conversation may be continued in another directory.
            Some(_) => Ok(Some(path)),
        }
    }

    /// Closes all transcripts but this one, after they were read to their ends.
    fn close_others(&mut self, path: &Path, events: &Sender<Event>) -> Result<(), DriverGone> {
        while let Some(index) = self.followed.iter().position(|followed| followed.path != path) {
            self.close(index, events)?;
        }
        Ok(())
    }

    /// Starts to read this transcript. `wanted` are all transcripts that the search has found.
    fn add(
        &mut self,
        path: &Path,
        is_own: bool,
        wanted: &[PathBuf],
        events: &Sender<Event>,
    ) -> Result<(), DriverGone> {
        if is_own && self.own_since_ms > self.started_ms {
            self.forget_unowned(path, events)?;
        }
        if let Some(followed) = self.followed.iter_mut().find(|followed| followed.path == path) {
            let is_news = is_own && !followed.is_own;
            followed.is_own |= is_own;
            let owned = Event::Owned(followed.id);
            return if is_news { events.send(owned) } else { Ok(()) };
        }
        if self.followed.len() == FOLLOWED_MAX && !self.close_one(is_own, wanted, events)? {
            return Ok(());
        }
        let mut followed = match self.closed.remove(path) {
            Some(left) => Followed::resume(left, path, self.format),
            None => self.begin(path, is_own),
        };
        if is_own {
            // Another agent may have continued the conversation meanwhile.
            followed.set_since(self.own_since_ms);
        }
        followed.is_own |= is_own;
        tracing::info!("reading {}", path.display());
        let id = followed.id;
        events.send(Event::Opened(id, path.to_owned()))?;
        self.followed.push(followed);
        if is_own { events.send(Event::Owned(id)) } else { Ok(()) }
    }

    /// Starts to follow a transcript that was not read before.
    fn begin(&mut self, path: &Path, is_own: bool) -> Followed {
        let id = TranscriptId(self.next_id);
        self.next_id += 1;
        let since_ms = if is_own { self.own_since_ms } else { self.started_ms };
        Followed::new(id, path, self.format, since_ms)
    }

    /// Forgets a transcript that was not the command's, when the command continues another agent's
    /// conversation. The records read from it so far do not count.
    fn forget_unowned(&mut self, path: &Path, events: &Sender<Event>) -> Result<(), DriverGone> {
        if self.closed.get(path).is_some_and(|closed| !closed.is_own) {
            self.closed.remove(path);
        }
        let is_unowned = |followed: &Followed| followed.path == path && !followed.is_own;
        let Some(index) = self.followed.iter().position(is_unowned) else { return Ok(()) };
        events.send(Event::Closed(self.followed.remove(index).id))
    }

    /// Closes a transcript that is not wanted, so that another one can be read. A transcript of the
    /// command is closed only for another transcript of the command. Returns whether there was one
    /// to close.
    fn close_one(
        &mut self,
        is_own: bool,
        wanted: &[PathBuf],
        events: &Sender<Event>,
    ) -> Result<bool, DriverGone> {
        let is_spare = |followed: &Followed| !wanted.contains(&followed.path);
        let unowned =
            self.followed.iter().position(|followed| !followed.is_own && is_spare(followed));
        let any = || self.followed.iter().position(is_spare).filter(|_| is_own);
        let Some(index) = unowned.or_else(any) else { return Ok(false) };
        self.close(index, events)?;
        Ok(true)
    }

    /// Closes a transcript after it was read to its end.
    fn close(&mut self, index: usize, events: &Sender<Event>) -> Result<(), DriverGone> {
        let mut closed = self.followed.remove(index);
        closed.read(&mut self.buffer, events)?;
        tracing::info!("no longer reading {}", closed.path.display());
        events.send(Event::Closed(closed.id))?;
        let (path, left) = closed.leave();
        self.closed.insert(path, left);
        Ok(())
    }

    /// The transcripts of the session that the CLI's process file names.
    fn named_by_process(&mut self) -> Vec<PathBuf> {
        let asked_ms = clock::unix_ms();
        let session = |pid| {
            let file_of_process = self.home.join(ProcessSession::path(pid));
            let ProcessSession { file_name, started_ms } =
                ProcessSession::read(&read_head(&file_of_process)?)?;
            // A killed process leaves its file behind, and another process may have its id now.
            (started_ms >= self.started_ms).then_some(file_name)
        };
        // The nearest process with a file is the agent; its descendants with files are its tools.
        let Some(name) = process::family(self.pid).into_iter().find_map(session) else {
            return Vec::new();
        };
        if self.session_file.as_ref() != Some(&name) {
            self.own_since_ms = self.newly_own_since();
            self.session_file = Some(name.clone());
            self.session_paths.clear();
        }
        self.identified_ms = Some(asked_ms);
        // The CLI may have many folders, so they are not listed again once the transcript is found.
        self.session_paths.retain(|path| path.is_file());
        if self.session_paths.is_empty() {
            let paths = self.folders().into_iter().map(|folder| folder.join(&name));
            self.session_paths = paths.filter(|path| path.is_file()).collect();
        }
        self.session_paths.clone()
    }

    /// The transcripts that the command has open. There are none if the system does not list open
    /// files, or if a daemon of the CLI writes the transcripts.
    fn open_files(&mut self) -> Vec<PathBuf> {
        let asked_ms = clock::unix_ms();
        let mut family = process::family(self.pid).into_iter();
        let open = |pid| {
            let mut files = process::written_files(pid)?;
            files.retain(|path| path.starts_with(&self.home) && is_transcript(path));
            // The command also has the transcripts of its subagents open.
            files.retain(|path| self.leader(path).is_some_and(|leader| leader != Leader::Subagent));
            Some(files).filter(|files| !files.is_empty())
        };
        // The nearest process with open transcripts is the agent; farther processes are its tools.
        let files = family.find_map(open).unwrap_or_default();
        self.own_since_ms = self.newly_own_since();
        if !files.is_empty() || self.identified_ms.is_some() {
            self.identified_ms = Some(asked_ms);
        }
        files
    }

    /// The moment when a newly named conversation begins to count as the command's.
    fn newly_own_since(&self) -> u64 {
        let identified_ms = self.identified_ms.unwrap_or(self.started_ms);
        identified_ms.saturating_sub(IDENTIFIED_LATE_MS).max(self.started_ms)
    }

    /// The transcripts of agents in the command's directory that have grown since it started.
    fn candidates(&mut self) -> Vec<PathBuf> {
        if let Location::ByProcess = self.format.location {
            return Vec::new();
        }
        let since_ms = self.started_ms.saturating_sub(MODIFIED_TOLERANCE_MS);
        let since = UNIX_EPOCH + Duration::from_millis(since_ms);
        let grown = self.catalogue.look(&self.home, since);
        grown.into_iter().filter(|path| self.leader(path) == Some(Leader::Here)).collect()
    }

    /// The folders that may hold transcripts.
    fn folders(&self) -> Vec<PathBuf> {
        self.format.folders.split('/').fold(vec![self.home.clone()], |folders, name| match name {
            "*" => folders.iter().flat_map(|folder| directories(folder)).collect(),
            name => folders.into_iter().map(|folder| folder.join(name)).collect(),
        })
    }

    /// The leader of the conversation in a transcript: `Subagent`, `Here` or `Elsewhere`. `None`
    /// while the transcript's first line is incomplete.
    fn leader(&mut self, path: &Path) -> Option<Leader> {
        if let Some(leader) = self.leaders.get(path) {
            return Some(leader.clone());
        }
        let Location::ByFirstLine { leader, project_list, .. } = &self.format.location else {
            return None;
        };
        let is_here = match leader(&first_line(path)?, &self.directory) {
            Leader::Subagent => None,
            Leader::Here => Some(true),
            Leader::Elsewhere => Some(false),
            Leader::In(directory) => {
                Some(fs::canonicalize(directory).is_ok_and(|path| path == self.directory))
            }
            Leader::Unknown => {
                Some(project_list.as_ref().is_some_and(|list| self.is_listed(list, path)))
            }
        };
        let leader = match is_here {
            None => Leader::Subagent,
            Some(true) => Leader::Here,
            Some(false) => Leader::Elsewhere,
        };
        self.leaders.insert(path.to_owned(), leader.clone());
        Some(leader)
    }

    /// Whether a transcript lies in the folder that the CLI lists for the command's directory.
    fn is_listed(&self, list: &ProjectList, path: &Path) -> bool {
        let folder = path.ancestors().nth(2).and_then(Path::file_name);
        let listed = || (list.folder)(&read_head(&self.home.join(list.path))?, &self.directory);
        listed().is_some_and(|name| folder == Some(name.as_ref()))
    }
}

/// The path of the CLI's files, for a CLI that runs in `directory` and this value of the variable
/// of its home.
fn path_of(home: &Home, value: Option<OsString>, directory: &Path) -> io::Result<PathBuf> {
    let value = value.filter(|value| !value.is_empty());
    match value.map(|value| directory.join(value)) {
        Some(path) if home.variable_names_parent => Ok(path.join(home.folder)),
        Some(path) => Ok(path),
        None => {
            let user = env::home_dir();
            let user = user.ok_or_else(|| io::Error::other("there is no home directory"))?;
            Ok(user.join(home.folder))
        }
    }
}

/// The paths in a directory; none if the directory does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    entries(directory).into_iter().filter(|path| path.is_dir()).collect()
}

/// The first line of a file; `None` while the line is incomplete.
fn first_line(path: &Path) -> Option<String> {
    let mut line = String::new();
    let file = open_file_of_others(path).ok()?.take(HEAD_BYTES_MAX);
    BufReader::new(file).read_line(&mut line).ok()?;
    line.ends_with('\n').then_some(line)
}

/// The bytes of a file, up to a limit.
fn read_head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_file_of_others(path).ok()?;
    file.take(HEAD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests;
