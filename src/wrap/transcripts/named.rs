//! A transcript that a hook has named, and the check whether a transcript may be used.
//!
//! A valid key proves that the agent's hook or one of its commands reports, but either may name any
//! file. So the file is checked here, whatever the hook itself has checked. Transcripts found in
//! another way are checked, too.

use super::catalogue::is_transcript;
use platform::paths;
use protocol::hook::TRANSCRIPT_BYTES_MAX;
use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
};
use terminal::transcript::Format;

/// A transcript that a hook has named.
#[derive(Debug)]
pub(super) struct Named {
    /// The path, as the hook states it.
    pub(super) path: PathBuf,
    /// The moment, by the wall clock, when the agent's words begin to count.
    pub(super) since_ms: u64,
}

/// A reason why a transcript that a hook has named is not used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The path is too long, relative, or does not end in the name of a transcript.
    Path,
    /// The file is in none of the CLI's transcript folders.
    Folder,
    /// The file is a link, a directory or the like.
    Kind,
    /// The file is another user's, or others can change it, or it cannot be examined.
    Access(io::Error),
    /// The transcript is a subagent's.
    Subagent,
}

/// Returns the real path of a transcript that a hook has named, if it is a regular file that only
/// this user, or the user's own group, can change, in a folder of the format below `home`, which is
/// a real path. `None` if it does not exist yet.
pub(super) fn check(path: &Path, home: &Path, format: &Format) -> Result<Option<PathBuf>, Refusal> {
    let Some(path) = real_path(path)? else { return Ok(None) };
    let is_in_place = path.parent().is_some_and(|folder| is_folder_of(folder, home, format));
    if is_in_place { Ok(Some(path)) } else { Err(Refusal::Folder) }
}

/// Returns the real path of a transcript, if it is a regular file that only this user, or the
/// user's own group, can change. `None` if it does not exist yet.
pub(super) fn real_path(path: &Path) -> Result<Option<PathBuf>, Refusal> {
    let parts = path.parent().zip(path.file_name());
    let is_short = path.as_os_str().len() <= TRANSCRIPT_BYTES_MAX;
    let parts = parts.filter(|_| is_transcript(path) && is_short && path.is_absolute());
    let (folder, name) = parts.ok_or(Refusal::Path)?;
    let Some(folder) = existing(fs::canonicalize(folder))? else { return Ok(None) };
    let path = folder.join(name);
    Ok(check_file(&path)?.then_some(path))
}

/// Checks that a path is a regular file and no symbolic link, and that only this user, or the
/// user's own group, can write to it. Returns whether the file exists.
pub(super) fn check_file(path: &Path) -> Result<bool, Refusal> {
    match existing(fs::symlink_metadata(path))? {
        None => return Ok(false),
        Some(metadata) if !metadata.is_file() => return Err(Refusal::Kind),
        Some(_) => {}
    }
    paths::check_only_owner_or_own_group_writes(path).map_err(Refusal::Access)?;
    Ok(true)
}

/// Returns the value found; `None` if it does not exist.
fn existing<T>(found: io::Result<T>) -> Result<Option<T>, Refusal> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Refusal::Access(error)),
    }
}

/// Whether a folder is one of the CLI's transcript folders.
fn is_folder_of(folder: &Path, home: &Path, format: &Format) -> bool {
    let Ok(below) = folder.strip_prefix(home) else { return false };
    let (mut names, mut patterns) = (below.components(), format.folders.split('/'));
    loop {
        match (names.next(), patterns.next()) {
            (None, None) => return true,
            (Some(Component::Normal(name)), Some(pattern)) if pattern == "*" || name == pattern => {
            }
            _ => return false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("it is not an absolute path of a transcript"),
            Self::Folder => f.write_str("it is not where the program keeps transcripts"),
            Self::Kind => f.write_str("it is not a regular file"),
            Self::Access(error) => error.fmt(f),
            Self::Subagent => f.write_str("it is a subagent's"),
        }
    }
}
