//! The reasons why a message is not typed now, and the remedies.

use std::fmt;

/// A reason why no text is typed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The program has not shown its prompt yet.
    Starting,
    /// The screen is changing.
    Printing,
    /// The person pressed a key a moment ago.
    Typing,
    /// The person has typed a part of a line.
    HalfTyped,
    /// The program has not read all that was typed before.
    NotReading,
    /// A full-screen program is shown that takes keys as commands.
    OtherScreen,
    /// The program in the terminal's foreground is not known to read text.
    OtherProgram,
    /// The wrapped program is not known to read text.
    Unaccepted,
    /// An interpreter, a debugger or an editor reads commands.
    Interpreter,
    /// A multiplexer, or a session on another machine or of another user, passes keys on.
    Conduit,
    /// Another wrapper has the terminal.
    Nested,
    /// The system does not tell which program reads the terminal.
    Unidentified,
    /// The program was suspended.
    Suspended,
    /// The program asks the person something.
    Dialog,
    /// The agent is at work.
    Busy,
    /// No prompt is on the screen.
    NoPrompt,
    /// A shell would run the text.
    Shell,
    /// The agent CLI is in its shell mode, and would run the text.
    ShellMode,
    /// The person has put the messages on hold.
    Held,
    /// The agent and the message's sender answer each other without a prompt and without work.
    Looping,
    /// The typed text stays in the composer, although Enter was pressed.
    NoEnterTaken,
}

impl Obstacle {
    /// Returns the reason, followed by a colon and the remedy if a person has one. The text is
    /// about messages to `agent` while `program` has the terminal.
    #[must_use]
    pub fn words(self, agent: &str, program: Option<&str>) -> String {
        let name = program.unwrap_or("the program");
        let remedy = match self {
            Self::HalfTyped => "send it off, or erase it".to_owned(),
            Self::OtherScreen | Self::ShellMode => "leave it".to_owned(),
            Self::OtherProgram => "end it".to_owned(),
            Self::Shell | Self::Interpreter | Self::Conduit => format!("leave {name}"),
            Self::Unidentified => "end all but one".to_owned(),
            Self::NoPrompt => format!("see `agent-relay attach {agent}`"),
            Self::Unaccepted => "run it with --accepts-text, if it does".to_owned(),
            Self::Nested => "write to the agent in it".to_owned(),
            Self::Suspended => "have it go on".to_owned(),
            Self::Dialog => "answer it".to_owned(),
            Self::Held => format!("`agent-relay release {agent}`"),
            Self::Looping => format!("a prompt of their user's to {agent} lets them go on"),
            Self::NoEnterTaken => "press Enter, or erase the text".to_owned(),
            Self::Starting | Self::Printing | Self::Typing | Self::NotReading | Self::Busy => {
                return self.to_string();
            }
        };
        format!("{}: {remedy}", self.reason(program))
    }

    /// Returns the reason, with the program's name if it is known.
    #[must_use]
    pub fn reason(self, program: Option<&str>) -> String {
        self.to_string().replacen("the program", program.unwrap_or("the program"), 1)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "the program has not shown its prompt yet",
            Self::Printing => "the agent is printing",
            Self::Typing => "somebody is typing",
            Self::HalfTyped => "a line is half typed",
            Self::NotReading => "the program does not read what is typed",
            Self::OtherScreen => "a full-screen program is shown that takes keys, not text",
            Self::OtherProgram => "the program is in the terminal's foreground",
            Self::Unaccepted => "the program is not known to read text",
            Self::Interpreter => "the program takes what is typed for commands",
            Self::Conduit => "the program hands what is typed to another one",
            Self::Nested => "another `run` has the terminal",
            Self::Unidentified => "several programs read the keyboard, or an unknown one",
            Self::Suspended => "the program is suspended",
            Self::Dialog => "the program asks something, which an Enter would answer",
            Self::Busy => "the agent is at work",
            Self::NoPrompt => "no empty input line is recognised",
            Self::Shell => "the program runs what is typed",
            Self::ShellMode => "the program is in its shell mode",
            Self::Held => "its person holds its messages",
            Self::Looping => "the two agents only answer each other",
            Self::NoEnterTaken => "it was typed, and the program does not take its Enter",
        })
    }
}
