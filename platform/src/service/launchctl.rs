//! Parsers of launchctl's output.

use super::RunState;

/// The state, from lines such as `state = running`, `pid = 12` and `last exit code = 1`.
pub(super) fn state(shown: &str) -> RunState {
    let value = |name: &str| {
        let mut lines = shown.lines().filter_map(|line| line.trim().split_once(" = "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    if let Some(pid) = value("pid").and_then(|pid| pid.parse().ok()) {
        return RunState::Running(pid);
    }
    match (value("last exit code"), value("last terminating signal")) {
        (Some("0"), _) | (None | Some("(never exited)"), None) => RunState::Stopped,
        (_, Some(signal)) => RunState::Failed(signal.to_owned()),
        (Some(code), None) => RunState::Failed(format!("exit code {code}")),
    }
}

/// Whether the agent with this label is disabled, from a line such as `"LABEL" => disabled`, or,
/// before macOS 13, `=> true`.
pub(super) fn is_disabled(label: &str, shown: &str) -> bool {
    let of_ours = format!("\"{label}\" => ");
    let mut lines = shown.lines().filter_map(|line| line.trim().strip_prefix(&of_ours));
    lines.any(|value| matches!(value, "disabled" | "true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchctl_states_are_parsed() {
        let shown =
            |rows: &str| format!("gui/501/agent-relay = {{\n\tactive count = 1\n{rows}\n}}");
        for (rows, expected) in [
            (
                "\tstate = running\n\truns = 1\n\tpid = 812\n\tlast exit code = 1",
                RunState::Running(812),
            ),
            ("\tstate = not running\n\truns = 3\n\tlast exit code = 0", RunState::Stopped),
            ("\tstate = not running\n\tlast exit code = (never exited)", RunState::Stopped),
            (
                "\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG",
                RunState::Failed("exit code 78: EX_CONFIG".into()),
            ),
            (
                "\tstate = not running\n\tlast terminating signal = Killed: 9",
                RunState::Failed("Killed: 9".into()),
            ),
        ] {
            assert_eq!(state(&shown(rows)), expected, "{rows}");
        }
    }

    #[test]
    fn disabled_agent_is_detected() {
        let shown = |rows: &str| format!("\tdisabled services = {{\n{rows}\n\t}}");
        for (rows, is_off) in [
            ("\t\t\"agent-relay\" => disabled", true),
            ("\t\t\"agent-relay\" => true", true),
            ("\t\t\"agent-relay\" => enabled", false),
            ("\t\t\"agent-relay-other\" => disabled", false),
            ("", false),
        ] {
            assert_eq!(is_disabled("agent-relay", &shown(rows)), is_off, "{rows}");
        }
    }
}
