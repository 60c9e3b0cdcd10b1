//! Unix: termios.

use std::{io, mem::MaybeUninit};

use super::Size;

/// What the terminal's driver does with keys and output.
#[derive(Debug)]
pub(crate) struct Modes(libc::termios);

pub(crate) fn size() -> Option<Size> {
    [libc::STDOUT_FILENO, libc::STDIN_FILENO, libc::STDERR_FILENO].into_iter().find_map(|fd| {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointer is to a winsize of ours, which this request only fills in; what is
        // not a terminal answers with an error.
        let result = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &mut size) };
        (result == 0).then_some(Size { rows: size.ws_row, cols: size.ws_col })
    })
}

pub(crate) fn make_raw() -> io::Result<Modes> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the pointer is to room for one termios.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and so filled it in.
    let before = Modes(unsafe { before.assume_init() });
    let mut raw = before.0;
    // SAFETY: the pointer is to a termios of ours.
    unsafe { libc::cfmakeraw(&mut raw) };
    // SAFETY: as above; the call only reads it.
    if unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(before)
}

pub(crate) fn set(modes: &Modes) {
    // SAFETY: the pointer is to a termios of ours, which the call only reads. It fails if the
    // terminal is gone, and then there is nothing to restore.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &modes.0) };
}
