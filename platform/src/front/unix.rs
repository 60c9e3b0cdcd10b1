//! Unix: fork, and a pair of sockets between the two processes.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::Arc,
};

use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM},
    low_level,
};

use crate::process::exit_code;

/// The byte that the child writes to report that it has left. The library that reports SIGCHLD
/// writes another one, and the front writes none.
const LEFT: u8 = b'L';

/// The child's end of the sockets. It is at its end once the front has ended.
#[derive(Clone, Debug)]
pub(super) struct Front(Arc<UnixStream>);

impl Front {
    /// Returns the exit code in the front.
    pub(super) fn fork() -> io::Result<Result<Self, i32>> {
        let (reports, front) = UnixStream::pair()?;
        // SAFETY: no pointers. The child continues as this process would, since there are no other
        // threads that could hold a lock.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(Ok(Self(Arc::new(front)))),
            // Waits for: the child (the wrapper), until it has ended or left.
            child => stand_for(child, &reports, front).map(Err),
        }
    }

    pub(super) fn wait(&self) {
        while (&*self.0)
            .read(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
        {}
    }

    pub(super) fn runs(&self) -> bool {
        let mut polled = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one value of ours.
        unsafe { libc::poll(&mut polled, 1, 0) };
        polled.revents == 0
    }

    pub(super) fn leave(&self, output: Option<File>) -> io::Result<()> {
        let redirected = redirect(output);
        // SAFETY: no pointers.
        let session = match unsafe { libc::setsid() } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        };
        // Without a session of its own, this process may be hung up when the front ends; but a
        // shell that waits without end would be worse. If the front has ended, the write fails.
        let _ = (&*self.0).write_all(&[LEFT]);
        redirected.and(session)
    }
}

fn redirect(output: Option<File>) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let output = output.as_ref().unwrap_or(&null);
    for (file, stream) in
        [(&null, libc::STDIN_FILENO), (output, libc::STDOUT_FILENO), (output, libc::STDERR_FILENO)]
    {
        // SAFETY: no pointers; both descriptors are open, and nobody owns the standard streams.
        if unsafe { libc::dup2(file.as_raw_fd(), stream) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until the child has ended or left, and returns the exit code for this process. `reports`
/// tells of both: the child writes to `reporter`, and so does this process at each SIGCHLD.
fn stand_for(child: libc::pid_t, reports: &UnixStream, reporter: UnixStream) -> io::Result<i32> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let pass_on = move || {
            // SAFETY: no pointers. The child has not been waited for, so its id is its own.
            unsafe { libc::kill(child, signal) };
        };
        // SAFETY: the closure makes one system call, which a signal handler may make.
        unsafe { low_level::register(signal, pass_on) }?;
    }
    low_level::pipe::register(SIGCHLD, reporter)?;
    loop {
        while let Some(status) = change(child)? {
            if libc::WIFSTOPPED(status) {
                // SAFETY: no pointers. This process resumes when it gets SIGCONT.
                unsafe {
                    libc::raise(libc::SIGSTOP);
                    libc::kill(child, libc::SIGCONT);
                }
            } else {
                return Ok(ended(status));
            }
        }
        let mut report = [0];
        match (&*reports).read(&mut report) {
            Ok(1) if report == [LEFT] => return Ok(0),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Returns the child's status if it has stopped or ended since the last call.
fn change(child: libc::pid_t) -> io::Result<Option<libc::c_int>> {
    let mut status = 0;
    // SAFETY: the pointer is to one value of ours.
    match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG | libc::WUNTRACED) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(status)),
    }
}

/// Ends this process by the signal that ended the child, or else returns the exit code.
fn ended(status: libc::c_int) -> i32 {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        // SAFETY: no pointers. The default action of the signal is that it ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    exit_code(std::os::unix::process::ExitStatusExt::from_raw(status))
}
