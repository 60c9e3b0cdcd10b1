//! Names that are made up for agents, from their working directories.
//!
//! A made-up name belongs to its folder for good, once a message has it: an agent in another folder
//! of the same name gets another one, and never the first one's messages. Simultaneous agents in
//! one folder have different names, too.

use super::{
    failure::Failure,
    identity::{Identity, looking},
    join::join_or_start,
    launch::make_home,
    messages::each_row,
    print::eprint_line,
    request::{agent_row, call_with},
    wrapped::RUN_DIRECTORY,
};
use crate::wrap::{agent_record, control::client::ControlClient};
use client::{
    Client,
    home::{Context, is_absent},
};
use deunicode::deunicode_with_tofu;
use platform::{clock, lock::Lock, paths};
use protocol::{
    name::{LOCAL_NAME_BYTES_MAX, Name},
    relay::{ForgetRequest, HistoryRequest, Page, RequestName},
    text::escaped,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The directory in the home with a file for each name, which contains the path of its folder.
const DIRECTORY: &str = "folder-names";

/// The file that is locked while a name is chosen.
const LOCK_FILE: &str = "choosing.lock";

/// The longest wait for another process that chooses a name.
const CHOOSING_MS: u64 = 10_000;

/// The pause between two attempts to lock.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The most names of one folder.
const NAMES_MAX: usize = 1000;

/// A name, and the lock that keeps it from other processes.
#[derive(Debug)]
pub(super) struct FolderName {
    pub(super) name: String,
    /// The file with the path of the name's folder.
    file: PathBuf,
    /// Whether the name was no folder's before.
    is_new: bool,
    _in_use: Lock,
}

impl FolderName {
    /// Chooses the first name of a folder that no agent uses.
    pub(super) fn choose(context: &mut Context, folder: &Path) -> Result<Self, Failure> {
        make_home(&context.home)?;
        let directory = context.home.join(DIRECTORY);
        paths::make_private_dir(&directory).map_err(Failure::because)?;
        let looking = looking(context);
        let client = join_or_start(context, &looking)?;
        let _choosing = lock(&directory.join(LOCK_FILE))?;
        let base = base(folder);
        let made_up = || (1..=NAMES_MAX).map(|number| numbered(&base, number));
        let mut own = names_of(&directory, folder)?;
        let known: Vec<_> = made_up().filter(|name| take(&mut own, name)).collect();
        // The others have come by `rename`.
        let renamed = own.into_iter().map(|name| spelled(&client, name));
        let renamed = renamed.collect::<Result<Vec<_>, _>>()?;
        for name in known.into_iter().chain(renamed).chain(made_up()) {
            if let Some(chosen) = Self::try_name(&context.home, folder, name, &client)? {
                return Ok(chosen);
            }
        }
        let failure = Failure::failed(format!("{NAMES_MAX} names of this folder are in use"));
        Err(failure.hint("name the agent: `agent-relay run NAME -- COMMAND`"))
    }

    /// Returns `None` if the name belongs to another folder, or to an agent that runs or was cut
    /// off.
    fn try_name(
        home: &Path,
        folder: &Path,
        name: String,
        client: &Client,
    ) -> Result<Option<Self>, Failure> {
        let directory = &home.join(DIRECTORY);
        let file = file_of(directory, &name);
        let path = folder.to_string_lossy();
        let owner = read(&file)?;
        let is_connected = agent_row(client, &name, |row| row.map(|row| row.here))?;
        let is_new = owner.is_none();
        let is_free = match owner {
            // The daemon may know the name of an agent that somebody has named.
            None => is_connected.is_none(),
            Some(owner) => owner == path && is_connected != Some(true),
        };
        // An agent that has just lost its connection runs, too.
        if !is_free || ControlClient::connect(&home.join(RUN_DIRECTORY), &name).is_ok() {
            return Ok(None);
        }
        if agent_record::is_cut_off(home, &name) {
            eprint_line(format_args!(
                "note: {name} was cut off here; `agent-relay restore {name}` lets it go on"
            ));
            return Ok(None);
        }
        let lock = directory.join(format!("{}.lock", name.to_ascii_lowercase()));
        let Some(in_use) = Lock::take(&lock).map_err(Failure::because)? else { return Ok(None) };
        paths::write_private_file(&file, path.as_bytes()).map_err(Failure::because)?;
        Ok(Some(Self { name, file, is_new, _in_use: in_use }))
    }

    /// Forgets the name of an agent that has ended, if the name is new and neither a message nor a
    /// record has it. A run that only printed its version leaves such a name, for example.
    pub(super) fn give_back(&self, context: &Context) -> Result<(), Failure> {
        let identity = Identity::of_process(context)?;
        // Only its person's commands make a daemon forget a name.
        let is_person = matches!(identity, Identity::Person(_));
        if !self.is_new || !is_person || agent_record::exists(&context.home, &self.name) {
            return Ok(());
        }
        let _choosing = lock(&self.file.with_file_name(LOCK_FILE))?;
        let client = context.try_join(&|endpoint| identity.settings(endpoint))?;
        if agent_row(&client, &self.name, |row| row.is_some())? {
            if self.has_messages(&client)? {
                return Ok(());
            }
            call_with(&client, RequestName::Forget, &ForgetRequest { name: self.name.clone() })?;
        }
        fs::remove_file(&self.file).map_err(|error| failed(&self.file, &error))
    }

    fn has_messages(&self, client: &Client) -> Result<bool, Failure> {
        let of_name = |Page { cursor, limit }| HistoryRequest {
            of: Some(self.name.clone()),
            cursor,
            limit,
            ..HistoryRequest::default()
        };
        let mut has_any = false;
        each_row(client, RequestName::History, 1, of_name, |_, _| {
            has_any = true;
            Ok(false)
        })?;
        Ok(has_any)
    }
}

/// Moves the folder's name to a new one, for an agent that `rename` gives another name. If this
/// ends early, the folder has both names or the old one, and the same command completes it.
pub(super) fn rename(
    home: &Path,
    [before, after]: [&str; 2],
    carry_out: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let directory = home.join(DIRECTORY);
    let [old, new] = [before, after].map(|name| file_of(&directory, name));
    if old == new || !directory.try_exists().map_err(|error| failed(&directory, &error))? {
        return carry_out();
    }
    let _choosing = lock(&directory.join(LOCK_FILE))?;
    let (folder, taken) = (read(&old)?, read(&new)?);
    if let Some(other) = taken.as_ref().filter(|taken| folder.as_ref() != Some(taken)) {
        let failure = format!("{after} is the name of the directory {}", escaped(other));
        return Err(Failure::failed(failure).hint(format!("remove {} to free it", new.display())));
    }
    let Some(folder) = folder else { return carry_out() };
    paths::write_private_file(&new, folder.as_bytes()).map_err(Failure::because)?;
    let renamed = carry_out();
    let gone = if renamed.is_ok() { &old } else { &new };
    let removed = fs::remove_file(gone).map_err(|error| failed(gone, &error));
    renamed.and(removed)
}

/// Returns the folder that the name of an agent was made up for, if it was.
pub(super) fn folder_of(home: &Path, name: &str) -> Option<PathBuf> {
    let name = Name::parse(name).ok()?.folded();
    fs::read_to_string(file_of(&home.join(DIRECTORY), &name)).ok().map(PathBuf::from)
}

/// The extension of the file of a name.
const FILE: &str = ".folder";

fn file_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{}{FILE}", name.to_ascii_lowercase()))
}

/// Returns the content of a name's file, which is the path of the folder that has the name.
fn read(file: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(file) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(file, &error)),
    }
}

/// Returns the names that a folder has, in lower case and sorted.
fn names_of(directory: &Path, folder: &Path) -> Result<Vec<String>, Failure> {
    let path = folder.to_string_lossy();
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| failed(directory, &error))? {
        let file = entry.map_err(|error| failed(directory, &error))?.path();
        let name = file.file_name().and_then(|name| name.to_str()?.strip_suffix(FILE));
        if let Some(name) = name
            && read(&file)?.is_some_and(|owner| owner == path)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Removes a name from a list of names in lower case. Returns whether it was there.
fn take(names: &mut Vec<String>, name: &str) -> bool {
    let at = names.iter().position(|own| own.eq_ignore_ascii_case(name));
    at.map(|at| names.remove(at)).is_some()
}

/// Returns a name as its agent spells it.
fn spelled(client: &Client, name: String) -> Result<String, Failure> {
    let known = agent_row(client, &name, |row| row.map(|row| row.name.to_string()))?;
    Ok(known.unwrap_or(name))
}

/// The name with this number that is made up for a folder.
fn numbered(base: &str, number: usize) -> String {
    match number {
        1 => base.to_owned(),
        number => format!("{base}-{number}"),
    }
}

fn failed(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", file.display()))
}

fn lock(path: &Path) -> Result<Lock, Failure> {
    let deadline = clock::monotonic_ms() + CHOOSING_MS;
    loop {
        if let Some(lock) = Lock::take(path).map_err(Failure::because)? {
            return Ok(lock);
        }
        if clock::monotonic_ms() > deadline {
            return Err(Failure::failed(format!("another process holds {}", path.display())));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Makes a valid name from a folder's name. Names have only ASCII letters, so that no two names
/// look alike; other scripts are transliterated.
fn base(folder: &Path) -> String {
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let folder = deunicode_with_tofu(&folder, "-");
    let valid = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' => character,
        _ => '-',
    };
    let mut name: String = folder.chars().map(valid).collect();
    name.truncate(LOCAL_NAME_BYTES_MAX - "-1000".len());
    let name = name.trim_matches(['-', '_', '.']);
    let prefixed = || format!("agent-{name}");
    let names = [name.to_owned(), prefixed()];
    let found = names.into_iter().find(|name| Name::parse(name).is_ok());
    found.unwrap_or_else(|| "agent".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_gives_a_valid_name() {
        let long = "x".repeat(200);
        for (folder, name) in [
            ("/home/me/api", "api"),
            ("/home/me/my project (2)", "my-project--2"),
            ("/home/me/.config", "config"),
            ("/home/me/root", "agent-root"),
            ("/home/me/Bücher", "Bucher"),
            ("/home/me/мой сайт", "moi-sait"),
            ("/home/me/我的项目", "Wo-De-Xiang-Mu"),
            ("/home/me/プロジェクト", "puroziekuto"),
            ("/home/me/프로젝트", "peurojegteu"),
            ("/home/me/فروع", "frw"),
            ("/home/me/🚀", "rocket"),
            ("/home/me/\u{e000}", "agent"),
            ("/", "agent"),
            (&long, &"x".repeat(59)),
        ] {
            assert_eq!(base(Path::new(folder)), name);
            assert!(Name::parse(&format!("{name}-1000")).is_ok());
        }
    }
}
