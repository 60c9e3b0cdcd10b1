//! The count of bytes on their way into the terminal.

/// The number of bytes handed to the driver, and of bytes that the terminal has accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteCount {
    handed_out: u64,
    written: u64,
}

impl WriteCount {
    pub(super) fn hand_out(&mut self, bytes: usize) {
        self.handed_out += bytes as u64;
    }

    pub(super) fn add_written(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Returns the count of written bytes at which all bytes handed out so far are written.
    pub(super) fn end(self) -> u64 {
        self.handed_out
    }

    pub(super) fn written(self) -> u64 {
        self.written
    }

    pub(super) fn unwritten(self) -> u64 {
        self.handed_out - self.written
    }
}
