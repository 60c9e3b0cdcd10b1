//! How Gemini CLI resumes a conversation.

use crate::{
    resume::{Resume, option},
    words::Words,
};

pub(super) const RESUME: Resume = Resume {
    with_value: Words(
        "--approval-mode --model --output-format --prompt-interactive --resume --session-file \
         --session-id --worktree -i -m -o -r -w",
    ),
    with_values: Words(
        "--admin-policy --allowed-mcp-server-names --allowed-tools --extensions --include-directories --policy -e",
    ),
    left_out: Words("--prompt-interactive --resume --session-file --session-id -i -r"),
    resuming: Words("--resume -r"),
    arguments: |id| option("--resume", id),
};
