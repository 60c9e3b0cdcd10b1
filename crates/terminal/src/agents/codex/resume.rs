//! How Codex resumes a conversation.

use crate::{
    resume::{Resume, option},
    words::Words,
};

pub(super) const RESUME: Resume = Resume {
    with_value: super::hooks::WITH_VALUE,
    with_values: Words(""),
    left_out: Words("--all --image --last -i"),
    resuming: Words("resume"),
    arguments: |id| option("resume", id),
};
