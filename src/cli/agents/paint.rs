//! The repainted screen of `agents --watch`: the frames, and the terminal's modes.

use crate::cli::{
    print::{Colour, Out},
    table,
};
use platform::stop_signals;
use ratatui::crossterm::{
    cursor::{Hide, Show},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen},
};
use std::{
    io::{self, Write as _},
    process,
};

/// The assumed size of a terminal if the system does not report it.
const SIZE: (usize, usize) = (80, 24);

/// The terminal while it is repainted: its alternate screen, without a cursor. Dropping this
/// restores it.
#[derive(Debug)]
pub(super) struct Screen {
    /// The last frame, which need not be painted again.
    last: String,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        Self::set_up()?;
        Ok(Self { last: String::new() })
    }

    fn set_up() -> io::Result<()> {
        // On Windows, this also lets the console take escape sequences.
        execute!(io::stdout(), EnterAlternateScreen, Hide)
    }

    /// Paints lines, the first of them as a heading, and a status below them.
    pub(super) fn paint(
        &mut self,
        out: &Out,
        lines: &[String],
        status: Option<&str>,
    ) -> io::Result<()> {
        let size = platform::tty::size();
        let size = size.map(|size| (usize::from(size.cols), usize::from(size.rows)));
        let size = size.filter(|(cols, rows)| *cols > 0 && *rows > 0).unwrap_or(SIZE);
        let shown = fitted(lines, status, size);
        let heading = |line: &String| out.paint(Colour::Bold, line).to_string();
        let painted = shown.iter().enumerate().map(|(number, line)| {
            let line = if number == 0 { heading(line) } else { line.clone() };
            // The row is cleared first: after its last column is written, clearing would remove
            // that.
            format!("\x1b[2K{line}")
        });
        let frame = format!("\x1b[H{}\x1b[J", painted.collect::<Vec<_>>().join("\r\n"));
        if frame != self.last {
            // All at once, so that nothing flickers.
            write(&frame)?;
            self.last = frame;
        }
        Ok(())
    }

    /// Leaves the screen, suspends this process, and enters the screen again once it continues.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave(&mut io::stdout());
        stop_signals::suspend()?;
        self.forget();
        Self::set_up()
    }

    /// Forces painting of the next frame, even an equal one, since a change of size clears the
    /// screen.
    pub(super) fn forget(&mut self) {
        self.last.clear();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave(&mut io::stdout());
    }
}

/// Restores the terminal. If it is gone, there is nothing to restore.
fn leave(terminal: &mut impl io::Write) {
    drop(execute!(terminal, Show, LeaveAlternateScreen));
}

/// Restores the terminal and ends this process, whatever its other threads do.
pub(super) fn leave_and_exit(code: i32) -> ! {
    // The lock keeps the main thread from painting after this.
    let mut terminal = io::stdout().lock();
    leave(&mut terminal);
    process::exit(code)
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Returns the lines that fit a terminal of this size.
fn fitted(lines: &[String], status: Option<&str>, (cols, rows): (usize, usize)) -> Vec<String> {
    let room = rows - usize::from(status.is_some()).min(rows - 1);
    let mut shown: Vec<_> = lines.iter().take(room).map(|line| table::cut(line, cols)).collect();
    if lines.len() > room && room > 1 {
        shown.pop();
        let more = lines.len() - shown.len();
        shown.push(table::cut(&format!("… and {more} more"), cols));
    }
    if let Some(status) = status.filter(|_| rows > 1) {
        shown.push(table::cut(status, cols));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_terminal() {
        let lines: Vec<_> = (0..6).map(|number| format!("line {number}")).collect();
        let fit = |status, size| fitted(&lines, status, size);
        assert_eq!(fit(None, (80, 24)), lines);
        assert_eq!(fit(None, (80, 6)), lines);
        assert_eq!(fit(None, (80, 3)), ["line 0", "line 1", "… and 4 more"]);
        assert_eq!(fit(Some("away"), (80, 3)), ["line 0", "… and 5 more", "away"]);
        assert_eq!(fit(Some("away"), (80, 7))[5..], ["line 5", "away"]);
        assert_eq!(fit(Some("away"), (4, 2)), ["lin…", "away"]);
        assert_eq!(fit(Some("away"), (80, 1)), ["line 0"]);
        assert_eq!(fit(None, (1, 1)), ["…"]);
    }
}
