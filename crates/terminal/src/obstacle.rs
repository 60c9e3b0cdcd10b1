//! The reasons why a message is not typed now, and the remedies.

use std::fmt;

/// An obstacle to typing a text, and what removes it. docs/GUIDE.md lists the variants' second
/// paragraphs next to the reasons that a person reads.
///
/// `injector::decide` finds most obstacles, on the screen and among the facts of an `Observation`.
/// The wrapper finds those of the program that reads the keyboard (`Reader::Barred`), and
/// `injector::loop_guard` finds loops. Recipes set the times named here; where an agent's recipe
/// sets none, `generic.toml` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The program has not shown its prompt yet.
    ///
    /// It shows its first output, or `start_ms` are over. With a known input line: it has been
    /// there for `start_ms`, since some programs ask first whether a folder may be trusted.
    Starting,
    /// The screen is changing.
    ///
    /// The screen stands still for `quiet_ms`.
    Printing,
    /// The person pressed a key a moment ago.
    ///
    /// No key is pressed for `untouched_ms`.
    Typing,
    /// The person has typed a part of a line.
    ///
    /// Submit or erase it.
    HalfTyped,
    /// The program has not read all that was typed before.
    ///
    /// The program reads it. Bytes that the system has taken for it count as read.
    NotReading,
    /// A full-screen program is shown that takes keys as commands.
    ///
    /// Leave the pager or editor.
    OtherScreen,
    /// The program in the terminal's foreground is not known to read text.
    ///
    /// End it: an editor, or another program that is not known to read text.
    OtherProgram,
    /// The wrapped program is not known to read text.
    ///
    /// Run it with `--accepts-text`, if it does.
    Unaccepted,
    /// An interpreter, a debugger or an editor reads commands.
    ///
    /// Leave it.
    Interpreter,
    /// A multiplexer, or a session on another machine or of another user, passes keys on.
    ///
    /// Leave it.
    Conduit,
    /// Another wrapper has the terminal.
    ///
    /// Write to the agent in it: it has a name of its own.
    Nested,
    /// Several programs may read the terminal, or an unknown one.
    ///
    /// End all but one. An unknown one is another user's, or its executable cannot be read.
    Unidentified,
    /// The system does not tell which program reads the keyboard.
    ///
    /// Run it with `--accepts-text`, if everything in its terminal reads text: gVisor and the like
    /// tell no foreground process group.
    NoForegroundGroup,
    /// The program was suspended.
    ///
    /// Let it continue.
    Suspended,
    /// The program asks the person something.
    ///
    /// Answer it.
    Dialog,
    /// The agent is at work.
    ///
    /// The agent has finished, or looks idle for 2 s although hooks still report work. Once a text
    /// is submitted, the agent counts as at work until it is seen to have begun with it, for 3 s at
    /// most; for 20 s while its transcript does not have the text.
    Busy,
    /// No prompt is on the screen.
    ///
    /// The input line is seen again (`agent-relay attach NAME` shows it); in bash and zsh, a prompt
    /// that the shell has shown before, while no key had been pressed.
    NoPrompt,
    /// A shell would run the text.
    ///
    /// Leave it. Only a bash or zsh that is itself the wrapped command gets messages.
    Shell,
    /// The agent CLI is in its shell mode, and would run the text.
    ///
    /// Leave the agent CLI's shell mode.
    ShellMode,
    /// The person has put the messages on hold.
    ///
    /// Run `agent-relay release NAME`.
    Held,
    /// The agent and the message's sender answer each other without a prompt and without work.
    ///
    /// Prompt the agent that has messages waiting, or wait until it uses a tool: see
    /// [Loops](docs/GUIDE.md#loops).
    Looping,
    /// The typed text stays in the composer, although Enter was pressed.
    ///
    /// Press Enter, or erase the text.
    NoEnterTaken,
    /// The composer does not show the typed text, or not it alone.
    ///
    /// Press Enter, or erase the input line.
    NotShown,
}

impl Obstacle {
    /// Returns the reason, followed by a colon and the remedy if a person has one. The text is
    /// about messages to `agent` while `program` has the terminal.
    #[must_use]
    pub fn words(self, agent: &str, program: Option<&str>) -> String {
        let name = program.unwrap_or("the program");
        let remedy = match self {
            Self::HalfTyped => "submit or erase it".to_owned(),
            Self::OtherScreen | Self::ShellMode => "leave it".to_owned(),
            Self::OtherProgram => "end it".to_owned(),
            Self::Shell | Self::Interpreter | Self::Conduit => format!("leave {name}"),
            Self::Unidentified => "end all but one".to_owned(),
            Self::NoForegroundGroup => {
                "run it with --accepts-text, if every program in its terminal reads text".to_owned()
            }
            Self::NoPrompt => format!("see `agent-relay attach {agent}`"),
            Self::Unaccepted => "run it with --accepts-text, if it does".to_owned(),
            Self::Nested => "write to the agent in it".to_owned(),
            Self::Suspended => "resume it".to_owned(),
            Self::Dialog => "answer it".to_owned(),
            Self::Held => format!("`agent-relay release {agent}`"),
            Self::Looping => format!("prompt {agent} to let them continue"),
            Self::NoEnterTaken => "press Enter, or erase the text".to_owned(),
            Self::NotShown => "press Enter, or erase the input line".to_owned(),
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
            Self::NotReading => "the program is not reading its input",
            Self::OtherScreen => "a full-screen program reads keys as commands",
            Self::OtherProgram => "the program is in the terminal's foreground",
            Self::Unaccepted => "the program is not known to read text",
            Self::Interpreter => "the program reads commands",
            Self::Conduit => "the program passes keys on to another program",
            Self::Nested => "another `run` has the terminal",
            Self::NoForegroundGroup => "this system does not tell which program reads the keyboard",
            Self::Unidentified => "it is not certain which program reads the keyboard",
            Self::Suspended => "the program is suspended",
            Self::Dialog => "the program asks a question that Enter would answer",
            Self::Busy => "the agent is at work",
            Self::NoPrompt => "no empty input line is recognised",
            Self::Shell => "the program would run the text",
            Self::ShellMode => "the program is in its shell mode",
            Self::Held => "its messages are on hold",
            Self::Looping => "the two agents only answer each other",
            Self::NoEnterTaken => "the text was typed, but the program ignores Enter",
            Self::NotShown => "the input line has other text than the typed message",
        })
    }
}
