//! How opencode resumes a conversation.

use crate::{
    resume::{Resume, option},
    words::Words,
};

pub(super) const RESUME: Resume = Resume {
    with_value: super::hooks::WITH_VALUE,
    with_values: Words(""),
    left_out: Words("--continue --fork --prompt --session -c -s"),
    resuming: Words("--session -s"),
    arguments: |id| option("--session", id),
};
