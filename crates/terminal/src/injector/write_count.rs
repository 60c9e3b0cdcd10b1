//! The count of bytes on their way into the terminal.

/// The number of bytes handed to the driver, and of bytes that the terminal has accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteCount {
    pub(super) handed_out: u64,
    pub(super) written: u64,
}

impl WriteCount {
    pub(super) fn unwritten(self) -> u64 {
        self.handed_out - self.written
    }
}
