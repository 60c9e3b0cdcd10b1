//! The reason of a process's end, from a log that other processes write, too.

use super::{LINE_PREFIX, Log, text_since};
use crate::cli::failure::Failure;
use protocol::text::escaped;
use std::{
    io::{self, Write},
    path::Path,
};

/// The lines of a process that has ended.
#[derive(Debug)]
pub(in crate::cli) struct Ended<'a> {
    log: &'a Path,
    pid: u32,
    /// The failure in the last line of the process's log.
    conclusion: Option<String>,
    /// The process's other lines.
    text: String,
    /// The last line that bears no process's mark, such as one of the system's loader.
    unmarked: Option<String>,
}

impl<'a> Ended<'a> {
    /// Reads the lines of a process since the log was `start` bytes long.
    pub(in crate::cli) fn read(log: &'a Path, start: u64, pid: u32) -> Self {
        Self::of(log, pid, &text_since(log, start).unwrap_or_default())
    }

    fn of(log: &'a Path, pid: u32, text: &str) -> Self {
        let mut ended = Self { log, pid, conclusion: None, text: String::new(), unmarked: None };
        let mut of = None;
        for line in text.split_inclusive('\n').filter(|line| !line.trim().is_empty()) {
            let mark = Mark::of(line);
            // A line without a mark continues the one before.
            of = mark.as_ref().map(|mark| mark.pid).or(of);
            match mark {
                // A full disk may have taken a part of the line only.
                Some(mark) if mark.is_conclusion => {
                    if mark.pid == pid && line.ends_with('\n') {
                        ended.conclusion = Some(escaped(mark.text.trim()));
                    }
                    of = None;
                }
                Some(mark) if mark.pid == pid => ended.text.push_str(mark.text),
                None if of == Some(pid) => ended.text.push_str(line),
                None if of.is_none() => {
                    let line = line.trim().trim_start_matches(LINE_PREFIX);
                    ended.unmarked = Some(escaped(line));
                }
                Some(_) | None => {}
            }
        }
        ended
    }

    /// Whether the process logged something, and did not conclude with a failure.
    pub(in crate::cli) const fn has_own_end(&self) -> bool {
        self.conclusion.is_none() && !self.text.is_empty()
    }

    /// The lines of the process, without their marks.
    pub(in crate::cli) fn text(&self) -> &str {
        &self.text
    }

    /// The reason why the process ended with this exit code. If it has stated none, the log is
    /// asked whether it still takes a line.
    pub(in crate::cli) fn reason(&self, code: i32) -> String {
        if let Some(conclusion) = &self.conclusion {
            return conclusion.clone();
        }
        let ended = format!("process {} ended with code {code}", self.pid);
        if let Err(error) = self.note(&ended) {
            return Failure::of_file("write", self.log, &error).into_message();
        }
        let last = self.text.lines().next_back().map(|line| escaped(line.trim()));
        last.or_else(|| self.unmarked.clone())
            .unwrap_or_else(|| format!("{ended}, and logged nothing"))
    }

    fn note(&self, line: &str) -> io::Result<()> {
        Log::open(self.log)?.write_all(format!("{LINE_PREFIX}{line}\n").as_bytes())
    }
}

/// The beginning of the last line in the log of a process with this id.
pub(super) fn conclusion_prefix(pid: u32) -> String {
    format!("{}[{pid}]: ", LINE_PREFIX.trim_end_matches(": "))
}

/// The mark of a process in a line of a log.
struct Mark<'a> {
    pid: u32,
    is_conclusion: bool,
    /// The line after the mark.
    text: &'a str,
}

impl<'a> Mark<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let concluded = line.strip_prefix(LINE_PREFIX.trim_end_matches(": "));
        if let Some(rest) = concluded.and_then(|rest| rest.strip_prefix('[')) {
            let (pid, text) = rest.split_once("]: ")?;
            return Some(Self { pid: pid.parse().ok()?, is_conclusion: true, text });
        }
        let (time, rest) = line.split_once(' ')?;
        let is_time = time.ends_with('Z') && time.starts_with(|first: char| first.is_ascii_digit());
        let (pid, text) = rest.split_once(' ').filter(|_| is_time)?;
        Some(Self { pid: pid.parse().ok()?, is_conclusion: false, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-30T10:51:24.123456Z 7  WARN Ann: the daemon had died
2026-11-30T10:51:24.123456Z 9  INFO Bob ended with code 3; the last lines on its screen:
    | why
agent-relay[8]: a daemon is already running
2026-11-30T10:51:25.123456Z 7  INFO stopped
    | of 7
";

    fn of(pid: u32, text: &str) -> Ended<'_> {
        Ended::of(Path::new("/nowhere/x.log"), pid, text)
    }

    #[test]
    fn each_process_has_its_own_reason() {
        assert_eq!(of(8, LOG).reason(1), "a daemon is already running");
        assert!(!of(8, LOG).has_own_end());
        let bob = of(9, LOG);
        assert!(bob.has_own_end());
        assert_eq!(
            bob.text(),
            " INFO Bob ended with code 3; the last lines on its screen:\n    | why\n"
        );
    }

    #[test]
    fn log_that_takes_no_line_is_the_reason_of_a_process_without_one() {
        for text in [LOG, "agent-relay[6]: a daemon is alre"] {
            let reason = of(6, text).reason(1);
            assert!(reason.starts_with("write /nowhere/x.log: "), "{reason}");
        }
    }

    #[test]
    fn unmarked_line_is_the_reason_of_last_resort() {
        let log = std::env::temp_dir().join(format!("ar-ended-{}.log", std::process::id()));
        std::fs::write(&log, "").unwrap();
        let reason = |text| Ended::of(&log, 6, text).reason(127);
        assert_eq!(reason("agent-relay: wrong\nno library x\n"), "no library x");
        assert_eq!(reason(LOG), "process 6 ended with code 127, and logged nothing");
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(logged.contains("agent-relay: process 6 ended with code 127\n"), "{logged}");
        std::fs::remove_file(log).unwrap();
    }
}
