//! Where a transaction can fail, for tests: a disk that fails when it is told to.

use super::trouble::Trouble;

/// A place in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The file is opened.
    Open,
    /// Everything is written, nothing is committed.
    Commit,
    /// It is committed, but nobody is told: so it looks when a sync fails.
    Committed,
}

/// A disk that always works, as far as this program is to blame.
#[cfg(not(test))]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {}

#[cfg(not(test))]
impl Faults {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests have another one")]
    pub(super) const fn pass(&self, _: Place) -> Result<(), Trouble> {
        Ok(())
    }
}

/// A disk that fails at one place, in some way, until it is repaired.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(std::sync::Arc<parking_lot::Mutex<Option<Fault>>>);

#[cfg(test)]
pub(super) type Fault = (Place, fn() -> Trouble);

#[cfg(test)]
impl Faults {
    pub(super) fn pass(&self, place: Place) -> Result<(), Trouble> {
        match *self.0.lock() {
            Some((fails, trouble)) if fails == place => Err(trouble()),
            _ => Ok(()),
        }
    }

    pub(super) fn set(&self, fault: Option<Fault>) {
        *self.0.lock() = fault;
    }
}
