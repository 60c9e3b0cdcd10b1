//! An agent's activity, as its wrapper reports it to the daemon.

use super::wire_enum::wire_enum;

wire_enum! {
    /// The activity of an agent.
    Activity {
        /// The program starts, and has not shown its input line yet.
        Starting = "starting",
        /// The agent works on a prompt.
        Working = "working",
        /// The agent waits until its person allows the use of a tool.
        WaitsForPermission = "waits-for-permission",
        /// The agent has asked its person something.
        AsksPerson = "asks-person",
        /// The agent waits for a prompt.
        Idle = "idle",
        /// A shell reads its terminal.
        Shell = "shell",
        /// The program has ended.
        Ended = "ended",
    }
}

wire_enum! {
    /// The source of an agent's activity.
    ActivitySource {
        /// The hooks of the agent's CLI.
        Hooks = "hooks",
        /// The agent's screen, or the foreground of its terminal.
        Screen = "screen",
    }
}

impl Activity {
    /// The activity in words, to follow the agent's name.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Starting => "is starting",
            Self::Working => "is working",
            Self::WaitsForPermission => "waits for permission",
            Self::AsksPerson => "asks its person something",
            Self::Idle => "is idle",
            Self::Shell => "is in a shell",
            Self::Ended => "has ended",
        }
    }
}
