//! A snapshot of an agent's screen, without attaching a terminal to it.

use crate::wrap::control::client::{ControlClient, ControlError};
use platform::pty::Size;
use protocol::control::{Answer, Request};
use std::time::Duration;
use terminal::screen::{NoObserver, Screen};

/// Returns at most `size` of an agent's screen. Neither the agent nor its size is changed.
///
/// # Errors
/// If the wrapper refuses, does not answer in time, or ends.
pub(crate) fn screen(
    control: &ControlClient,
    size: Size,
    timeout: Duration,
) -> Result<Vec<String>, ControlError> {
    let Size { rows, cols: columns } = size;
    let request = Request::Attach { drive: false, columns, rows, looks: true };
    match control.request(&request, timeout)? {
        Answer::Screen { columns, rows, bytes } => {
            let mut screen = Screen::new(columns.into(), rows.into());
            screen.feed(&bytes.0, &mut NoObserver);
            let text = screen.text();
            let rows = text.lines().map(|row| row.trim_end().to_owned());
            let mut rows: Vec<_> = rows.collect();
            while rows.last().is_some_and(String::is_empty) {
                rows.pop();
            }
            Ok(rows)
        }
        Answer::Ended(_) => Err(ControlError::Ended),
        _ => Err(ControlError::InvalidAnswer("it answers something else".to_owned())),
    }
}
