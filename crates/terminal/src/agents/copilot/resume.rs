//! How GitHub Copilot CLI resumes a conversation.

use crate::{resume::Resume, words::Words};

pub(super) const RESUME: Resume = Resume {
    with_value: super::hooks::WITH_VALUE,
    with_values: super::hooks::WITH_VALUES,
    left_out: Words("--attachment --connect --continue --interactive --resume --session-id -i -r"),
    resuming: Words("--resume --session-id -r"),
    // The value is optional, so it must be in the same word.
    arguments: |id| vec![format!("--resume={id}")],
};
