//! sim
/// A bug planted on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Canary {}
