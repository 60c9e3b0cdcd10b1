//! The working directory of an agent, as people write it.

use protocol::{relay::AgentRow, text::escaped};
use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// The most bytes that are read of a file of git.
const GIT_BYTES_MAX: u64 = 4096;

/// The digits of a commit that are shown while no branch is checked out.
const COMMIT_DIGITS: usize = 8;

/// The place of an agent, escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Place {
    /// The whole path, with `~` for the home directory.
    pub(in crate::cli) path: String,
    /// The last part of the path, and the branch of git that is checked out there.
    pub(in crate::cli) short: String,
}

impl Place {
    /// The place that an agent states. Another machine's files are not examined.
    pub(super) fn of(agent: &AgentRow<'_>) -> Self {
        let Some(path) = agent.directory.as_deref() else { return Self::default() };
        let home = env::home_dir().filter(|_| agent.host.is_none());
        let branch = match agent.host {
            None => branch(Path::new(path)),
            Some(_) => None,
        };
        Self::new(Path::new(path), home.as_deref(), branch.as_deref())
    }

    fn new(path: &Path, home: Option<&Path>, branch: Option<&str>) -> Self {
        let path = match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(below) if below.as_os_str().is_empty() => PathBuf::from("~"),
            Some(below) => Path::new("~").join(below),
            None => path.to_owned(),
        };
        let last = path.file_name().unwrap_or(path.as_os_str());
        let branch = branch.map(|branch| format!(" ({})", escaped(branch))).unwrap_or_default();
        Self {
            path: escaped(&path.to_string_lossy()),
            short: format!("{}{branch}", escaped(&last.to_string_lossy())),
        }
    }
}

/// Returns the branch that is checked out in a directory or above it, or else the commit.
fn branch(directory: &Path) -> Option<String> {
    let git = directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    // In another worktree, this is a file that names the directory.
    let head = match read(&git) {
        Some(text) => above_of(&git).join(text.strip_prefix("gitdir: ")?).join("HEAD"),
        None => git.join("HEAD"),
    };
    let head = read(&head)?;
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()),
        None => Some(head.chars().take(COMMIT_DIGITS).collect()),
    }
}

fn above_of(git: &Path) -> PathBuf {
    git.parent().map(Path::to_owned).unwrap_or_default()
}

/// Reads the line of a small file. `None` if it is not one.
fn read(path: &Path) -> Option<String> {
    // Opening a pipe would wait.
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(GIT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_short() {
        let home = Path::new("/home/me");
        let below = format!("~{}src/web", std::path::MAIN_SEPARATOR);
        for (path, whole, short) in [
            ("/home/me/src/web", &*below, "web (main)"),
            ("/home/me", "~", "~ (main)"),
            ("/", "/", "/ (main)"),
            ("/srv/x\u{1b}y", "/srv/x\\u{1b}y", "x\\u{1b}y (main)"),
        ] {
            let place = Place::new(Path::new(path), Some(home), Some("main"));
            assert_eq!((&*place.path, &*place.short), (whole, short));
        }
        assert_eq!(Place::new(Path::new("/srv/web"), None, None).short, "web");
    }

    #[test]
    fn branch_is_that_of_the_repository_or_worktree_around() {
        let root = env::temp_dir().join(format!("ar-place-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("web/.git/HEAD", "ref: refs/heads/fix/tests\n");
        write("web/.git/worktrees/two/HEAD", "0123456789abcdef\n");
        write("two/.git", "gitdir: ../web/.git/worktrees/two\n");
        write("none/.git", "anything");
        fs::create_dir_all(root.join("web/src")).unwrap();
        let branch = |path: &str| branch(&root.join(path));
        assert_eq!(branch("web/src").as_deref(), Some("fix/tests"));
        assert_eq!(branch("two").as_deref(), Some("01234567"));
        assert_eq!(branch("none"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
