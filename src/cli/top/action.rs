//! The actions of a person in `top`, and their effects.

use super::{editor::Edit, message_list::List};
use protocol::control::Dialog;
use ratatui::layout::Position;

/// The number of rows of the help, without its heading.
pub(super) const HELP_ROWS: usize = 21;

/// A step in a list, or in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl Step {
    /// The number of rows of the step, in a pane of this height.
    pub(super) fn rows(self, height: usize) -> isize {
        let page = isize::try_from(height.max(2) - 1).unwrap_or(isize::MAX);
        match self {
            Self::Up => -1,
            Self::Down => 1,
            Self::PageUp => -page,
            Self::PageDown => page,
            Self::First => isize::MIN,
            Self::Last => isize::MAX,
        }
    }
}

/// An action of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Step(Step),
    /// Selects the next agent that waits for its person.
    Next,
    /// Attaches to the selected agent, or shows the chosen message.
    Open,
    /// Begins a message to the selected agent, or to the sender of the chosen message.
    Message,
    Hold,
    /// Presses the key of a choice in the selected agent's dialog.
    Choose(usize),
    /// Begins to ask whether the selected agent is to be stopped.
    Stop,
    /// Begins the command line of a new agent.
    Spawn,
    /// Starts the agents again that were cut off.
    Restore,
    /// Hides the agents that are away, or shows them again.
    HideAway,
    Redeliver,
    /// Takes the chosen message out of the mailbox.
    Take,
    Filter,
    Help,
    /// Goes to the other pane.
    SwitchPane,
    /// Shows a list of messages, or the conversation again if it is shown.
    Show(List),
    /// Leaves the current mode, the pane of messages, or the filter.
    Back,
    Edit(Edit),
    /// Ends the line that is typed, or says yes.
    Submit,
    Click(Position),
    Wheel {
        at: Position,
        up: bool,
    },
    Resize(u16, u16),
}

/// An effect of an action outside of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    /// Attaches this terminal to an agent.
    Attach(String),
    Order(Order),
}

/// An order that a thread carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Sends a message as the person.
    Send { to: String, text: String },
    /// Holds the messages of an agent, or releases them if they are held.
    Hold(String),
    /// Presses the key of a choice, if the agent still shows this dialog.
    Choose { name: String, dialog: Dialog, choice: usize },
    /// Ends the command of an agent.
    Stop(String),
    /// Runs `agent-relay spawn` with this command line.
    Spawn(String),
    /// Starts the agents again that were cut off.
    Restore,
    /// Delivers the dead letter with this id again.
    Redeliver(String),
    /// Takes the message with this id out of the mailbox.
    Take(String),
}
