//! How Claude Code resumes a conversation.

use crate::{
    resume::{Resume, option},
    words::Words,
};

pub(super) const RESUME: Resume = Resume {
    with_value: Words(
        "--agent --agents --append-system-prompt --debug-file --effort --fallback-model --from-pr \
         --input-format --json-schema --max-budget-usd --model --name --output-format \
         --permission-mode --plugin-dir --plugin-url --prompt-suggestions \
         --remote-control-session-name-prefix --resume --session-id --setting-sources --settings \
         --system-prompt -n -r",
    ),
    with_values: Words(
        "--add-dir --allowed-tools --allowedTools --betas --disallowed-tools --disallowedTools \
         --file --mcp-config --tools",
    ),
    left_out: Words("--continue --fork-session --from-pr --resume --session-id -c -r"),
    resuming: Words("--resume -r"),
    arguments: |id| option("--resume", id),
};
