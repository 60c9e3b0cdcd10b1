//! Unix: termios.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::AsFd as _,
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    sync::Arc,
};

use super::Size;
use crate::poll::Stop;

/// Standard input.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    stop: Interrupter,
}

impl Input {
    pub(crate) fn new() -> io::Result<Self> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { file, stop: Interrupter(Arc::new(Stop::new()?)) })
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        self.stop.clone()
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.0.wait(&self.file, libc::POLLIN)?.stopped {
                return Ok(0);
            }
            match self.file.read(buffer) {
                // Another process with the same terminal may have made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

/// Ends reads.
#[derive(Clone, Debug)]
pub(crate) struct Interrupter(Arc<Stop>);

impl Interrupter {
    pub(crate) fn interrupt(&self) {
        self.0.stop();
    }
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// Never stopped; only needed to wait.
    never: Stop,
}

impl Output {
    pub(crate) fn new() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self { file, never: Stop::new()? })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                // Another process with the same terminal may have made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.never.wait(&self.file, libc::POLLOUT)?;
                }
                result => return result,
            }
        }
    }
}

/// The settings of the terminal's driver.
#[derive(Debug)]
pub(crate) struct Modes(libc::termios);

pub(crate) fn is_input_piped() -> bool {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let kind = input.and_then(|input| File::from(input).metadata()).map(|input| input.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file() || kind.is_socket())
}

pub(crate) fn is_output_discarded() -> bool {
    let output = io::stdout().as_fd().try_clone_to_owned();
    let output = output.and_then(|output| File::from(output).metadata());
    let Some((output, null)) = output.ok().zip(fs::metadata("/dev/null").ok()) else {
        return false;
    };
    output.file_type().is_char_device() && output.rdev() == null.rdev()
}

pub(crate) fn wait_until_output_is_closed() -> bool {
    let mut polled = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    loop {
        // SAFETY: the pointer is to one value of ours.
        match unsafe { libc::poll(&mut polled, 1, -1) } {
            ..=0 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            ..=0 => return false,
            _ => return polled.revents & (libc::POLLERR | libc::POLLHUP) != 0,
        }
    }
}

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
    // SAFETY: the call has succeeded and filled the value in.
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
    set_when(modes, libc::TCSADRAIN);
}

pub(crate) fn set_at_once(modes: &Modes) {
    set_when(modes, libc::TCSANOW);
}

fn set_when(modes: &Modes, when: libc::c_int) {
    // SAFETY: no pointers. A terminal that is gone, or is another session's, has no group here.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(libc::STDIN_FILENO), libc::getpgrp()) };
    // In the background, the terminal is the shell's, and the system would stop this process.
    if foreground != -1 && foreground != own {
        return;
    }
    // SAFETY: the pointer is to a termios of ours, which the call only reads. It fails if the
    // terminal is gone, and then there is nothing to restore.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, when, &modes.0) };
}
