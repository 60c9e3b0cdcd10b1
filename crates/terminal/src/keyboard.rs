//! Identification of the program that reads the keyboard, which decides what may be typed.
//!
//! A program is identified by its executable, and an interpreter by its script, but never by the
//! name in a command line, by a title or by the screen. The driver says which processes are in the
//! terminal's foreground. If it is not certain which program reads, nothing is typed.

mod names;
mod programs;

pub use programs::{Operand, is_dangerous, is_launcher, is_shell, name_of, operand};

use super::obstacle::Obstacle;
use programs::Kind;

/// A process in the terminal's foreground.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent: Option<u32>,
    /// The program that the process runs, if the operating system tells.
    pub program: Option<Program>,
    /// Whether job control has suspended the process.
    pub is_stopped: bool,
    /// Whether the terminal is the process's standard input, if the operating system tells.
    pub reads_terminal: Option<bool>,
}

/// A program, and the arguments that a process runs it with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The executable's path.
    pub path: String,
    /// If the executable is a renamed copy of a shell or interpreter, the original's name.
    pub copy_of: Option<String>,
    /// The command line, if the operating system tells.
    pub arguments: Option<Vec<String>>,
    /// An interpreter's script, with all symbolic links resolved.
    pub script: Option<String>,
    /// Whether the program is Agent Relay itself.
    pub is_relay: bool,
    /// Whether the executable or script is the file that the wrapper runs.
    pub is_wrapped: bool,
}

/// An agent CLI or a shell, recognised by name or path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// An agent CLI with a known input line. The string is the name of its recipe.
    Agent(String),
    /// A shell that can be given text in a form that it does not run.
    Shell,
}

/// The program that reads the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// An agent CLI. The string is the name of its recipe.
    Agent(String),
    /// A shell that is the wrapped command itself, and can be given text in a form that it does not
    /// run.
    Shell,
    /// A program that reads text, as declared by the person.
    Accepted,
    /// A program that gets no text, and why. The string is the program's name, if known.
    Barred(Obstacle, Option<String>),
    /// Not determined yet.
    #[default]
    Unseen,
}

impl Reader {
    /// Returns the program's name, for a message that says why nothing is typed.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Barred(_, name) => name.as_deref(),
            Self::Agent(name) => Some(name),
            Self::Shell | Self::Accepted | Self::Unseen => None,
        }
    }

    /// Whether another wrapper has the terminal and reads the output of the program in it.
    pub(crate) fn is_relay(&self) -> bool {
        matches!(self, Self::Barred(Obstacle::Nested, _))
    }
}

/// The rules that determine the reader among the terminal's foreground processes.
pub struct Judge<'a> {
    /// The wrapped process's id.
    pub command: u32,
    /// Whether the person declared, with `--accepts-text`, that the wrapped file reads text.
    pub accepts: bool,
    /// Recognises an executable or a script by its path.
    pub recognise: &'a dyn Fn(&str) -> Option<Recognised>,
    /// The processes in the foreground.
    pub members: &'a [Member],
}

impl Judge<'_> {
    /// Returns the program that reads the terminal. If several programs may read it, the strictest
    /// verdict counts.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let readers = self.members.iter().filter(|member| self.is_reader(member));
        let strictest = readers.map(|member| self.verdict(member)).reduce(stricter);
        strictest.unwrap_or(Reader::Barred(Obstacle::Unidentified, None))
    }

    /// Whether this process may read typed text. A launcher does not read if a program that it
    /// started may read.
    fn is_reader(&self, member: &Member) -> bool {
        member.reads_terminal != Some(false)
            && !(self.may_launch(member)
                && self.members.iter().any(|other| self.is_launched_by(other, member)))
            && !self.belongs_to_agent(member)
    }

    fn is_launched_by(&self, other: &Member, launcher: &Member) -> bool {
        other.reads_terminal != Some(false) && self.descends(other, |it| it.pid == launcher.pid)
    }

    /// Whether a process may be a launcher: scripts, package managers and shims start a program and
    /// wait for it. If the system does not say who reads, an unknown program may be a launcher only
    /// if it is the wrapped command.
    fn may_launch(&self, member: &Member) -> bool {
        let kind = member.program.as_ref().map(Kind::of);
        let is_known = matches!(kind, Some(Kind::ShellScript(_) | Kind::Launcher));
        let is_near = member.reads_terminal.is_some() || member.pid == self.command;
        is_known
            || (is_near
                && matches!(
                    self.verdict(member),
                    Reader::Accepted
                        | Reader::Barred(Obstacle::OtherProgram | Obstacle::Unaccepted, _)
                ))
    }

    /// Whether the program is the wrapped file, or was started by a wrapped batch file.
    fn is_wrapped(&self, member: &Member, program: &Program) -> bool {
        let is_batch_file = |it: &Program| it.is_wrapped && Kind::of(it).runs_batch_file(it);
        let starter = self.parent(member).and_then(|it| it.program.as_ref());
        program.is_wrapped || starter.is_some_and(is_batch_file)
    }

    /// Whether the process is an agent's tool server, on systems that do not tell which process
    /// reads the terminal.
    fn belongs_to_agent(&self, member: &Member) -> bool {
        member.reads_terminal.is_none()
            && matches!(self.verdict(member), Reader::Barred(Obstacle::OtherProgram, _))
            && self.descends(member, |it| matches!(self.verdict(it), Reader::Agent(_)))
    }

    fn descends(&self, member: &Member, from: impl Fn(&Member) -> bool) -> bool {
        let ancestors = std::iter::successors(self.parent(member), |it| self.parent(it));
        // Process ids are reused, so parents may form a cycle.
        ancestors.take(self.members.len()).any(from)
    }

    fn parent(&self, member: &Member) -> Option<&Member> {
        self.members.iter().find(|it| Some(it.pid) == member.parent)
    }

    fn verdict(&self, member: &Member) -> Reader {
        let Some(program) = &member.program else {
            return Reader::Barred(Obstacle::Unidentified, None);
        };
        let kind = Kind::of(program);
        let name = kind.name(program);
        let barred = |why| Reader::Barred(why, Some(name.clone()));
        let is_wrapped = self.is_wrapped(member, program);
        match &kind {
            Kind::Relay => barred(Obstacle::Nested),
            Kind::Shell if member.is_stopped => barred(Obstacle::Suspended),
            Kind::Shell => match (self.recognise)(&name) {
                Some(Recognised::Shell) if member.pid == self.command => Reader::Shell,
                _ => barred(Obstacle::Shell),
            },
            Kind::Interpreter => barred(Obstacle::Interpreter),
            Kind::Conduit => barred(Obstacle::Conduit),
            _ if member.is_stopped => barred(Obstacle::Suspended),
            Kind::Script(path) | Kind::Other(path) => {
                let mut paths = [Some(path), program.script.as_ref()].into_iter().flatten();
                let agent = paths.find_map(|path| match (self.recognise)(path) {
                    Some(Recognised::Agent(recipe)) => Some(recipe),
                    _ => None,
                });
                agent.map_or_else(|| self.accepted_or(is_wrapped, barred), Reader::Agent)
            }
            Kind::ShellScript(_) | Kind::Inline | Kind::Launcher => {
                self.accepted_or(is_wrapped, barred)
            }
        }
    }

    fn accepted_or(&self, is_wrapped: bool, barred: impl Fn(Obstacle) -> Reader) -> Reader {
        match is_wrapped {
            true if self.accepts => Reader::Accepted,
            true => barred(Obstacle::Unaccepted),
            false => barred(Obstacle::OtherProgram),
        }
    }
}

/// Returns the stricter of two verdicts about programs that may both read.
fn stricter(first: Reader, second: Reader) -> Reader {
    let rank = |reader: &Reader| match reader {
        Reader::Barred(Obstacle::Nested, _) => 0,
        Reader::Barred(Obstacle::Conduit | Obstacle::Interpreter, _) => 1,
        Reader::Barred(Obstacle::Shell, _) => 2,
        Reader::Barred(Obstacle::Unidentified, _) => 3,
        Reader::Barred(..) | Reader::Unseen => 4,
        Reader::Shell => 5,
        Reader::Accepted => 6,
        Reader::Agent(_) => 7,
    };
    match (&first, &second) {
        // If there are two different agents, or an agent and a shell, either may be the reader.
        (Reader::Agent(name), Reader::Agent(other)) if name == other => first,
        (Reader::Accepted, Reader::Accepted)
        | (Reader::Barred(..), _)
        | (_, Reader::Barred(..)) => {
            if rank(&second) < rank(&first) {
                second
            } else {
                first
            }
        }
        _ => Reader::Barred(Obstacle::Unidentified, None),
    }
}

#[cfg(test)]
mod tests;
