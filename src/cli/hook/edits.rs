//! Files that an agent has edited, told to the wrappers of all agents of the home.
//!
//! Each wrapper remembers the edits of its own agent. So the hook of an edit asks the other
//! wrappers about collisions with their agents' edits, and reports these to its own wrapper.

use crate::wrap::{
    WrapperAddress,
    control::client::{ControlClient, names},
    hooks::Edited,
};
use protocol::{
    control::{Answer, EDITED_BYTES_MAX, Request},
    secret::Secret,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The time for telling all wrappers.
pub(super) const TIME: Duration = Duration::from_millis(200);

/// The part of that time for the answers of all other wrappers together.
const ANSWERS: Duration = Duration::from_millis(100);

/// Tells the wrappers which files the agent of this wrapper has edited.
pub(super) fn tell(address: &WrapperAddress, edited: &Edited) {
    let directory = PathBuf::from(edited.directory.as_deref().unwrap_or_default());
    let paths = edited.paths.iter().filter_map(|path| resolved(&directory.join(path)));
    let paths: Vec<_> = paths.collect();
    let WrapperAddress { run_directory, name, .. } = address;
    let Ok(own) = ControlClient::connect(run_directory, name) else { return };
    for path in &paths {
        note(&own, &request(Some(&address.key), None, path, 0));
    }
    let others = names(run_directory).into_iter().filter(|other| !other.eq_ignore_ascii_case(name));
    let connect =
        |other: String| Some((ControlClient::connect(run_directory, &other).ok()?, other));
    let others: Vec<_> = others.filter_map(connect).collect();
    for (wrapper, _) in &others {
        let tell = |path: &String| wrapper.begin(&request(None, Some(name), path, 0));
        paths.iter().for_each(tell);
    }
    let until = Instant::now() + ANSWERS;
    for (wrapper, other) in &others {
        for path in &paths {
            let left = until.saturating_duration_since(Instant::now());
            // The process may be stopped, for example. The others are asked anyway.
            let Ok(Answer::Edited { ago_ms }) = wrapper.receive(left) else { break };
            if let Some(ago_ms) = ago_ms {
                note(&own, &request(None, Some(other), path, ago_ms));
            }
        }
    }
}

/// Lets the hook's own wrapper note an edit.
fn note(own: &ControlClient, edit: &Request) {
    // If this fails, the hook's report does, too.
    drop(own.request(edit, TIME));
}

fn request(key: Option<&Secret>, by: Option<&str>, path: &str, ago_ms: u64) -> Request {
    let (key, by) = (key.cloned(), by.map(str::to_owned));
    Request::Edited { key, by, path: path.to_owned(), ago_ms }
}

/// Returns the one path of a file that agents may name differently, by links or, where the system
/// does not tell them apart, in upper and lower case. A file that was deleted has a path, too.
fn resolved(path: &Path) -> Option<String> {
    let deleted = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let path = path.canonicalize().ok().or_else(deleted)?.into_os_string().into_string().ok()?;
    // Windows begins a resolved path so.
    let path = path.strip_prefix(r"\\?\").map(str::to_owned).unwrap_or(path);
    (path.len() <= EDITED_BYTES_MAX).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, process};

    #[test]
    fn file_has_one_path() {
        let root = env::temp_dir().join(format!("ar-edits-{}", process::id()));
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        let file = resolved(&root.join("a/file")).unwrap();
        assert!(file.ends_with("file") && !file.starts_with(r"\\?\"), "{file}");
        assert_eq!(resolved(&root.join("a/../a/./file")).as_ref(), Some(&file));
        let deleted = resolved(&root.join("a/../a/gone")).unwrap();
        assert_eq!(deleted, file.replace("file", "gone"));
        assert_eq!(resolved(&root.join("none/gone")), None);
        fs::remove_dir_all(root).unwrap();
    }
}
