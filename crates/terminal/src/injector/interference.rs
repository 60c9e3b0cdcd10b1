//! The person's keys that reached the program while a text was in its composer.

/// The kinds of such keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interference {
    #[default]
    None,
    Keys,
    /// Keys with an Enter among them, which may have submitted the text.
    Enter,
}

impl Interference {
    /// Returns the kind of keys among which there is an Enter, or none.
    pub(super) fn of(has_submit: bool) -> Self {
        if has_submit { Self::Enter } else { Self::Keys }
    }
}
