//! Names that are made up for agents, from the folder in which they start.
//!
//! A made-up name belongs to its folder for good, once a message has it: an agent in another folder
//! of the same name gets another one, and never the first one's messages. Agents in one folder at
//! the same time have names of their own, too.

use super::{
    failure::Failure,
    identity::{Identity, looking},
    join::join_or_start,
    launch::make_home,
    messages::each_row,
    request::{agent_row, call_with},
};
use crate::wrap::agent_record;
use client::{
    Client,
    home::{Context, is_absent},
};
use deunicode::deunicode_with_tofu;
use platform::{clock, lock::Lock, paths};
use protocol::{
    name::{LOCAL_NAME_BYTES_MAX, Name},
    relay::{ForgetRequest, HistoryRequest, Page, RequestName},
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
        for number in 1..=NAMES_MAX {
            let name = match number {
                1 => base.clone(),
                number => format!("{base}-{number}"),
            };
            if let Some(chosen) = Self::try_name(&directory, folder, name, &client)? {
                return Ok(chosen);
            }
        }
        let failure = Failure::failed(format!("{NAMES_MAX} names of this folder are in use"));
        Err(failure.hint("name the agent: `agent-relay run NAME -- COMMAND`"))
    }

    /// Returns `None` if the name belongs to another folder or to an agent that is running.
    fn try_name(
        directory: &Path,
        folder: &Path,
        name: String,
        client: &Client,
    ) -> Result<Option<Self>, Failure> {
        let file = directory.join(format!("{}.folder", name.to_ascii_lowercase()));
        let path = folder.to_string_lossy();
        let owner = match fs::read_to_string(&file) {
            Ok(owner) => Some(owner),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(failed(&file, &error)),
        };
        let is_connected = agent_row(client, &name, |row| row.map(|row| row.here))?;
        let is_new = owner.is_none();
        let is_free = match owner {
            // The daemon may know the name of an agent that somebody has named.
            None => is_connected.is_none(),
            Some(owner) => owner == path && is_connected != Some(true),
        };
        if !is_free {
            return Ok(None);
        }
        let lock = directory.join(format!("{}.lock", name.to_ascii_lowercase()));
        let Some(in_use) = Lock::take(&lock).map_err(Failure::because)? else { return Ok(None) };
        paths::write_private_file(&file, path.as_bytes()).map_err(Failure::because)?;
        Ok(Some(Self { name, file, is_new, _in_use: in_use }))
    }

    /// Forgets the name of an agent that has ended, if it is new, and neither a message nor a record
    /// has it: that of a run that only printed its version, say.
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

/// Returns the folder to which the name of an agent belongs, if the name was made up for it.
pub(super) fn folder_of(home: &Path, name: &str) -> Option<PathBuf> {
    let name = Name::parse(name).ok()?.folded();
    let file = home.join(DIRECTORY).join(format!("{name}.folder"));
    fs::read_to_string(file).ok().map(PathBuf::from)
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

/// Makes a valid name of a folder's name. Names have the letters of ASCII only, so that nobody's
/// looks like another's; letters of other scripts are written in those.
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
