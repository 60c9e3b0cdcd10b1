//! Why a message is not typed now, and what ends that.

use std::fmt;

/// Why nothing is typed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The program has shown nothing yet.
    Starting,
    /// Its screen changes.
    Printing,
    /// A key was pressed a moment ago.
    Typing,
    /// A line was begun and not sent off.
    HalfTyped,
    /// It has not read what was typed before.
    NotReading,
    /// A full-screen program that takes keys.
    OtherScreen,
    /// A program in the terminal's foreground that is not known to read text.
    OtherProgram,
    /// The same, which was wrapped itself.
    Unaccepted,
    /// An interpreter, a debugger, an editor: what is typed is a command.
    Interpreter,
    /// A multiplexer, another machine, another user: what is typed goes on to another program.
    Session,
    /// Another wrapper.
    Nested,
    /// The system does not say which program reads.
    Unidentified,
    /// The program was suspended.
    Suspended,
    /// The program asks its person something.
    Dialog,
    /// Its agent is at work.
    Busy,
    /// No prompt is seen.
    NoPrompt,
    /// A shell: what is typed would be run.
    Shell,
    /// An agent CLI would run what is typed.
    ShellMode,
    /// Its person wants nothing typed for now.
    Held,
    /// What was typed stays, however often it is sent off.
    NoEnterTaken,
}

impl Obstacle {
    /// The reason, and behind a colon what ends it, where a person can: for `agent`, while
    /// `program` has the terminal.
    #[must_use]
    pub fn words(self, agent: &str, program: Option<&str>) -> String {
        let name = program.unwrap_or("the program");
        let remedy = match self {
            Self::HalfTyped => "send it off, or erase it".to_owned(),
            Self::OtherScreen | Self::ShellMode => "leave it".to_owned(),
            Self::OtherProgram => "end it".to_owned(),
            Self::Shell | Self::Interpreter | Self::Session => format!("leave {name}"),
            Self::Unidentified => "end all but one".to_owned(),
            Self::NoPrompt => format!("see `agent-relay attach {agent}`"),
            Self::Unaccepted => "run it with --accepts-text, if it does".to_owned(),
            Self::Nested => "write to the agent in it".to_owned(),
            Self::Suspended => "have it go on".to_owned(),
            Self::Dialog => "answer it".to_owned(),
            Self::Held => format!("`agent-relay release {agent}`"),
            Self::NoEnterTaken => "press Enter, or erase the text".to_owned(),
            Self::Starting | Self::Printing | Self::Typing | Self::NotReading | Self::Busy => {
                return self.to_string();
            }
        };
        format!("{}: {remedy}", self.reason(program))
    }

    /// The reason, about `program` if it is known.
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
            Self::Session => "the program hands what is typed to another one",
            Self::Nested => "another `run` has the terminal",
            Self::Unidentified => "several programs read the keyboard, or an unknown one",
            Self::Suspended => "the program is suspended",
            Self::Dialog => "the program asks something, which an Enter would answer",
            Self::Busy => "the agent is at work",
            Self::NoPrompt => "no empty input line is recognised",
            Self::Shell => "the program runs what is typed",
            Self::ShellMode => "the program is in its shell mode",
            Self::Held => "its person holds its messages",
            Self::NoEnterTaken => "it was typed, and the program does not take its Enter",
        })
    }
}
