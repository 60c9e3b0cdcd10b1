//! The person's keys that reached the program while its composer held a text.

/// The kinds of interference by such keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interference {
    #[default]
    None,
    Keys,
    /// Keys including an Enter, which may have submitted the text.
    Enter,
}

impl Interference {
    /// Returns the kind of these keys: with an Enter among them or without.
    pub(super) fn of(has_submit: bool) -> Self {
        if has_submit { Self::Enter } else { Self::Keys }
    }
}
