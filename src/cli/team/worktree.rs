//! A worktree of git for an agent, so that agents of one repository do not change the same files.
//!
//! It stands next to the repository. The worktree of the agent `web` of `/src/shop` is
//! `/src/shop.worktrees/web`, on the branch `agents/web`.

use super::presence::resolved;
use crate::cli::failure::Failure;
use platform::process::find_program;
use protocol::text::escaped;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// Variables that make git use another repository than the directory's.
const VARIABLES: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// The worktree of an agent.
pub(super) struct Worktree {
    /// The root of the repository's own files.
    repository: PathBuf,
    pub(super) path: PathBuf,
    pub(super) branch: String,
}

impl Worktree {
    /// Returns the worktree for an agent of the repository around a directory, and the place of that
    /// directory in it.
    pub(super) fn of(directory: &Path, name: &str) -> Result<(Self, PathBuf), Failure> {
        let below = git(directory, &["rev-parse", "--show-prefix"])?;
        let repository = PathBuf::from(git(directory, &["rev-parse", "--show-toplevel"])?);
        let (Some(parent), Some(folder)) = (repository.parent(), repository.file_name()) else {
            let failure =
                format!("no worktree fits next to {}: it has no parent", repository.display());
            return Err(Failure::failed(escaped(&failure)));
        };
        let folder = format!("{}.worktrees", folder.to_string_lossy());
        let path = parent.join(folder).join(name);
        let branch = format!("agents/{name}");
        let below = below.split('/').filter(|part| !part.is_empty());
        let directory = below.fold(path.clone(), |directory, part| directory.join(part));
        Ok((Self { repository, path, branch }, directory))
    }

    /// Makes the worktree, unless it is there.
    pub(super) fn make(&self, notice: impl FnOnce()) -> Result<(), Failure> {
        let Self { repository, path, branch } = self;
        if path.exists() {
            return self.check();
        }
        notice();
        let path = path.to_string_lossy();
        let full = format!("refs/heads/{branch}");
        let is_known = run(repository, &["show-ref", "--verify", "--quiet", &full])?;
        match is_known.status.success() {
            true => git(repository, &["worktree", "add", "--quiet", "--", &path, branch])?,
            false => git(repository, &["worktree", "add", "--quiet", "-b", branch, "--", &path])?,
        };
        Ok(())
    }

    /// Refuses a directory that is not a worktree of this repository.
    fn check(&self) -> Result<(), Failure> {
        let resolved_common = |path: &Path| common(path).map(|common| resolved(&common)).ok();
        let is_ours = resolved_common(&self.path) == resolved_common(&self.repository)
            && git(&self.path, &["rev-parse", "--show-prefix"]).is_ok_and(|it| it.is_empty());
        if is_ours {
            return Ok(());
        }
        let [path, repository] = [&self.path, &self.repository].map(|path| path.display());
        let failure = format!("{path} is there, and is no worktree of {repository}");
        Err(Failure::failed(escaped(&failure)).hint("move it away"))
    }
}

/// Removes a worktree, unless it has changes or new files. The branch stays. Returns whether there
/// was one.
pub(super) fn remove(path: &Path) -> Result<bool, Failure> {
    if !path.exists() {
        return Ok(false);
    }
    let common = common(path)?;
    git(&common, &["--git-dir=.", "worktree", "remove", "--", &path.to_string_lossy()])
        .map_err(|failure| failure.hint("it stays; commit what is in it first"))?;
    // The folder of all worktrees is removed with the last one.
    if let Some(folder) = path.parent() {
        drop(fs::remove_dir(folder));
    }
    Ok(true)
}

/// The directory that all worktrees of a repository share.
fn common(directory: &Path) -> Result<PathBuf, Failure> {
    let common = git(directory, &["rev-parse", "--git-common-dir"])?;
    Ok(directory.join(common))
}

/// Runs git in a directory. Returns the line that it prints.
fn git(directory: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let ended = run(directory, arguments)?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.lines().map(|line| line.trim_start_matches("fatal: "));
    let why = said.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let command = arguments.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let failure = format!("git {command} in {}: {why}", directory.display());
    Err(Failure::failed(escaped(&failure)))
}

fn run(directory: &Path, arguments: &[&str]) -> Result<Output, Failure> {
    let program = find_program("git".as_ref())
        .ok_or_else(|| Failure::failed("`worktree = true` needs git, which is not found"))?;
    let mut command = Command::new(program);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    // A repository can hold a directory that git takes for a bare repository, with hooks to run.
    command.args(["-c", "safe.bareRepository=explicit"]);
    let command = command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.output().map_err(|error| Failure::failed(format!("git: {error}")))
}
