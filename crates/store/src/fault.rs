//! Fault injection for tests: a disk that fails at a given point of a transaction.

use super::error::StoreError;

/// A point at which a transaction can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultPoint {
    /// Before the file is opened.
    Open,
    /// After all changes are written, before the commit.
    Commit,
    /// After the commit, before it is reported: the effect of a failed sync.
    Committed,
    /// Before the content is written into a new file, since the open one was replaced.
    Save,
    /// Before a slice of a query.
    Query,
    /// Before the index of words begins.
    Index,
}

/// The injected faults outside tests: none.
#[cfg(not(test))]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {}

#[cfg(not(test))]
impl Faults {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests have another one")]
    pub(super) const fn fail_if_due(&self, _: FaultPoint) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A disk that fails at one point, with one error, until it is repaired.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(std::sync::Arc<parking_lot::Mutex<Option<Fault>>>);

#[cfg(test)]
pub(super) type Fault = (FaultPoint, fn() -> StoreError);

#[cfg(test)]
impl Faults {
    pub(super) fn fail_if_due(&self, point: FaultPoint) -> Result<(), StoreError> {
        // The error's function may wait, and other threads must not wait for it.
        let fault = *self.0.lock();
        match fault {
            Some((fails, error)) if fails == point => Err(error()),
            _ => Ok(()),
        }
    }

    pub(super) fn set(&self, fault: Option<Fault>) {
        *self.0.lock() = fault;
    }
}
