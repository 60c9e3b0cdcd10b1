//! An index of a CLI's transcripts. Each scan checks the entries modified last and, in rotation, a
//! few of the others, so its cost does not grow with the number of old transcripts.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The number of most recently modified entries that each scan checks.
const RECENT_MAX: usize = 128;

/// The number of other entries that each scan checks, in rotation.
const OTHERS_MAX: usize = 64;

/// The coarsest resolution of modification times. A folder modified within this time is listed
/// again, since it may have changed without a new time.
const COARSE: Duration = Duration::from_secs(2);

/// The transcripts below a folder, and the folders that hold them.
#[derive(Debug)]
pub(super) struct Catalogue {
    /// The names of the folders below the first one; `*` is any name.
    pattern: Vec<&'static str>,
    /// The known transcripts, last modified first.
    entries: Vec<Entry>,
    known: HashSet<PathBuf>,
    /// The index, among the other entries, where the next scan begins.
    turn: usize,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    /// The depth of a folder in the pattern, or of a transcript, which is one deeper.
    depth: usize,
    modified: SystemTime,
}

impl Catalogue {
    /// Returns an empty catalogue. `/` separates the folders of the pattern.
    pub(super) fn new(pattern: &'static str) -> Self {
        let pattern = pattern.split('/').collect();
        Self { pattern, entries: Vec::new(), known: HashSet::new(), turn: 0 }
    }

    /// Returns the transcripts below `home` that were modified at `since` or later, as far as the
    /// scan finds them. The first scan checks all.
    pub(super) fn look(&mut self, home: &Path, since: SystemTime) -> Vec<PathBuf> {
        let mut changed = self.entries.is_empty() || !self.known.contains(home);
        if changed {
            (self.entries, self.known) = (Vec::new(), HashSet::new());
            self.add(home.to_owned(), 0);
        }
        let recent = RECENT_MAX.min(self.entries.len());
        let others = self.entries.len() - recent;
        let turn = if others == 0 { 0 } else { self.turn % others };
        self.turn = turn + OTHERS_MAX;
        let others = turn..others.min(turn + OTHERS_MAX);
        let chosen: Vec<usize> = (0..recent).chain(others.map(|index| recent + index)).collect();
        for index in chosen {
            changed |= self.look_at(index, index >= recent);
        }
        if changed {
            self.entries.retain(|entry| self.known.contains(&entry.path));
            self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.modified));
        }
        let files = self.pattern.len() + 1;
        let recent = self.entries.iter().take_while(|entry| entry.modified >= since);
        recent.filter(|entry| entry.depth == files).map(|entry| entry.path.clone()).collect()
    }

    /// Checks an entry. Lists a folder if it has changed, or if `lists_always`. Returns whether the
    /// catalogue has changed.
    fn look_at(&mut self, index: usize, lists_always: bool) -> bool {
        let Entry { path, depth, modified: before } = &self.entries[index];
        let Some(modified) = modified(path) else { return self.known.remove(path) };
        let is_recent = modified.elapsed().is_ok_and(|age| age < COARSE);
        let has_changed = modified != *before;
        let is_folder = *depth <= self.pattern.len();
        let (path, depth) = (path.clone(), *depth);
        self.entries[index].modified = modified;
        let lists = is_folder && (has_changed || is_recent || lists_always);
        (lists && self.list(&path, depth)) || has_changed
    }

    /// Adds the new entries of a folder. Returns whether there are any.
    fn list(&mut self, folder: &Path, depth: usize) -> bool {
        let count = self.entries.len();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_wanted = match self.pattern.get(depth) {
                Some(pattern) => (*pattern == "*" || name == *pattern) && path.is_dir(),
                None => is_transcript(&path) && entry.file_type().is_ok_and(|kind| kind.is_file()),
            };
            if is_wanted && !self.known.contains(&path) {
                self.add(path, depth + 1);
            }
        }
        self.entries.len() > count
    }

    /// Adds an entry, and all that is below it.
    fn add(&mut self, path: PathBuf, depth: usize) {
        let Some(modified) = modified(&path) else { return };
        self.known.insert(path.clone());
        self.entries.push(Entry { path: path.clone(), depth, modified });
        if depth <= self.pattern.len() {
            self.list(&path, depth);
        }
    }
}

/// The time of a file's last modification.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Whether a file has the name of a transcript.
pub(super) fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs::File, process};

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let root = env::temp_dir().join(format!("ar-catalogue-{}-{name}", process::id()));
            fs::create_dir_all(&root).unwrap();
            Self(root)
        }

        /// Writes a file that was modified this many seconds after 2001.
        fn write(&self, path: &str, seconds: u64) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create(&path).unwrap().set_modified(at(seconds)).unwrap();
            path
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(978_307_200 + seconds)
    }

    #[test]
    fn only_transcripts_in_folders_of_the_pattern_are_found() {
        let home = Home::new("pattern");
        let mut catalogue = Catalogue::new("sessions/*/*");
        let found = home.write("sessions/a/b/1.jsonl", 5);
        for other in ["sessions/a/1.jsonl", "sessions/a/b/c/1.jsonl", "other/a/b/1.jsonl"] {
            home.write(other, 5);
        }
        home.write("sessions/a/b/1.json", 5);
        fs::create_dir(home.0.join("sessions/a/b/2.jsonl")).unwrap();
        assert_eq!(catalogue.look(&home.0, at(5)), [found]);
        assert!(catalogue.look(&home.0, at(6)).is_empty());
    }

    #[test]
    fn new_transcript_and_one_that_grows_are_found_among_many_old_ones() {
        let home = Home::new("many");
        let count = 2 * (RECENT_MAX + OTHERS_MAX);
        let old: Vec<_> =
            (0..count).map(|n| home.write(&format!("p/{}/{n}.jsonl", n % 7), 1)).collect();
        let mut catalogue = Catalogue::new("p/*");
        assert!(catalogue.look(&home.0, at(100)).is_empty());
        let new = [home.write("p/3/new.jsonl", 100), home.write("p/new/new.jsonl", 101)];
        let found = catalogue.look(&home.0, at(100));
        for found in [found, Catalogue::new("p/*").look(&home.0, at(100))] {
            assert!(new.iter().all(|path| found.contains(path)), "{found:?}");
        }
        // An old conversation continues. Its turn comes.
        let file = File::options().append(true).open(&old[count - 1]).unwrap();
        file.set_modified(at(102)).unwrap();
        let looks = count.div_ceil(OTHERS_MAX) + 1;
        assert!((0..looks).any(|_| catalogue.look(&home.0, at(102)).contains(&old[count - 1])));
        assert_eq!(catalogue.look(&home.0, at(102)), [old[count - 1].clone()]);
        fs::remove_dir_all(home.0.join("p/3")).unwrap();
        for _ in 0..looks {
            catalogue.look(&home.0, at(0));
        }
        let left = catalogue.look(&home.0, at(0));
        assert!(left.iter().all(|path| path.exists()) && left.len() > count / 2, "{}", left.len());
    }
}
