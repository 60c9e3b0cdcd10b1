//! How Qwen Code resumes a conversation.

use crate::{
    resume::{Resume, option},
    words::Words,
};

pub(super) const RESUME: Resume = Resume {
    with_value: super::hooks::WITH_VALUE,
    with_values: super::hooks::WITH_VALUES,
    // The key is a secret, so it is not stored.
    left_out: Words(
        "--continue --fork-session --openai-api-key --prompt-interactive --resume --session-id -c \
         -i -r",
    ),
    resuming: Words("--resume -r"),
    arguments: |id| option("--resume", id),
};
