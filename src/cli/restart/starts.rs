//! The file that counts a home's automatic starts: one line for each start of the last minute, with
//! its time in milliseconds since 1970. Readers and writers hold the home's start lock.

use client::home::is_absent;
use platform::paths;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The file's name in the home directory.
const FILE: &str = "starts";

/// The most starts within [`WINDOW_MS`].
const STARTS_MAX: usize = 5;

const WINDOW_MS: u64 = 60_000;

/// The longest part of the file that is read.
const FILE_BYTES_MAX: u64 = 4096;

/// Counts a start. Returns false, and counts nothing, if there were too many.
///
/// Only times less than a minute before or after `now` count. So after a change of the clock a few
/// more starts are allowed, but starts are not refused for longer than a minute.
///
/// # Errors
/// If the file cannot be read, parsed or written. The start is then not counted, and the caller
/// must not start a daemon.
pub(super) fn count(home: &Path, now: u64) -> io::Result<bool> {
    let path = home.join(FILE);
    let mut times = read(&path)?;
    times.retain(|time| time.abs_diff(now) < WINDOW_MS);
    if times.len() >= STARTS_MAX {
        return Ok(false);
    }
    times.push(now);
    let lines: String = times.iter().map(|time| format!("{time}\n")).collect();
    paths::write_private_file(&path, lines.as_bytes())?;
    Ok(true)
}

/// Forgets the starts that were counted.
///
/// # Errors
/// If the file cannot be removed. The error names it.
pub(super) fn forget(home: &Path) -> io::Result<()> {
    let path = home.join(FILE);
    match fs::remove_file(&path) {
        Err(error) if !is_absent(&error) => Err(named(&path, "remove", &error)),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> io::Result<Vec<u64>> {
    let file = match File::open(path) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        file => file.map_err(|error| named(path, "read", &error))?,
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| named(path, "read", &error))?;
    let times: Result<Vec<_>, _> = text.lines().map(str::parse).collect();
    times.map_err(|_| {
        io::Error::other(format!("{} does not hold times of starts; remove it", path.display()))
    })
}

fn named(path: &Path, action: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{action} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        env,
        path::PathBuf,
        process,
        sync::atomic::{AtomicU32, Ordering},
    };

    struct Home(PathBuf);

    impl Home {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let home = env::temp_dir().join(format!("ar-starts-{}-{number}", process::id()));
            paths::make_private_dir(&home).unwrap();
            Self(home)
        }

        /// Attempts starts at a time. Returns how many are allowed.
        fn allowed(&self, starts: usize, now: u64) -> usize {
            (0..starts).filter(|_| count(&self.0, now).unwrap()).count()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn five_starts_a_minute_are_allowed_in_each_home() {
        let (home, other) = (Home::new(), Home::new());
        assert_eq!(home.allowed(7, 100_000), STARTS_MAX);
        assert_eq!(home.allowed(1, 100_000 + WINDOW_MS - 1), 0);
        assert_eq!(other.allowed(7, 100_000), STARTS_MAX);
        assert_eq!(home.allowed(7, 100_000 + WINDOW_MS), STARTS_MAX);
    }

    #[test]
    fn changed_clock_refuses_starts_for_at_most_a_minute() {
        let home = Home::new();
        for now in [1_000_000_000, 0, u64::MAX, 500_000] {
            assert_eq!(home.allowed(7, now), STARTS_MAX, "{now}");
        }
    }

    #[test]
    fn unreadable_file_allows_no_start_until_it_is_forgotten() {
        let home = Home::new();
        for wrong in [&b"soon\n"[..], b"-1\n", &[0xff; 8], "9".repeat(5000).as_bytes()] {
            fs::write(home.0.join(FILE), wrong).unwrap();
            let why = count(&home.0, 0).unwrap_err().to_string();
            assert!(why.contains(FILE), "{why}");
            assert_eq!(fs::read(home.0.join(FILE)).unwrap(), wrong);
            forget(&home.0).unwrap();
            assert!(count(&home.0, 0).unwrap());
        }
    }

    #[test]
    fn unwritable_home_allows_no_start() {
        let home = Home::new();
        fs::create_dir(home.0.join(FILE)).unwrap();
        assert!(count(&home.0, 0).is_err());
        assert!(count(&home.0.join("gone"), 0).is_err());
    }
}
