//! Which program reads what is typed into the terminal, and so what may be typed.
//!
//! A program is judged by its executable, and an interpreter by the script that it runs: never by
//! the name that a command line gives it, a title, or what the screen shows. The driver says which
//! processes are in the terminal's foreground; where that is in doubt, nothing is typed.

mod programs;

pub use programs::{Operand, is_dangerous, is_launcher, name_of, operand};

use super::obstacle::Obstacle;
use programs::Kind;

/// A process of the terminal's foreground.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The process.
    pub pid: u32,
    /// The process that started it.
    pub parent: Option<u32>,
    /// What it runs; `None` where the system does not say.
    pub program: Option<Program>,
    /// Suspended by job control.
    pub is_stopped: bool,
    /// Whether the terminal is its input, where the system says.
    pub reads_terminal: Option<bool>,
}

/// What a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The executable's path.
    pub path: String,
    /// The shell or interpreter that the executable is a copy of, whatever its name.
    pub copy_of: Option<String>,
    /// The command line, where the system says.
    pub arguments: Option<Vec<String>>,
    /// An interpreter's script, with all links followed.
    pub script: Option<String>,
    /// It is Agent Relay itself.
    pub is_relay: bool,
    /// It is the file that was wrapped.
    pub is_wrapped: bool,
}

/// What is known of an agent CLI or a shell by its name or path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// An agent CLI whose composer is known; its recipe's name.
    Agent(String),
    /// A shell for whose input there is a harmless form.
    Shell,
}

/// The program that reads the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// An agent CLI; its recipe's name.
    Agent(String),
    /// A shell that was wrapped itself, for whose input there is a harmless form.
    Shell,
    /// A program that is said to read text.
    Accepted,
    /// A program into which nothing is typed, for this reason; its name, where it has one.
    Barred(Obstacle, Option<String>),
    /// Not looked at so far.
    #[default]
    Unseen,
}

impl Reader {
    /// The program's name, where it may be the reason why nothing is typed.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Barred(_, name) => name.as_deref(),
            Self::Agent(name) => Some(name),
            Self::Shell | Self::Accepted | Self::Unseen => None,
        }
    }

    /// Another wrapper has the terminal, and reads what is printed.
    #[must_use]
    pub fn is_relay(&self) -> bool {
        matches!(self, Self::Barred(Obstacle::Nested, _))
    }
}

/// By what a terminal's foreground is judged.
pub struct Judge<'a> {
    /// The wrapped process.
    pub command: u32,
    /// The file that was wrapped is said to read text: see `--accepts-text`.
    pub accepts: bool,
    /// What an executable or a script is known as.
    pub recognise: &'a dyn Fn(&str) -> Option<Recognised>,
}

impl Judge<'_> {
    /// The program that reads the terminal.
    #[must_use]
    pub fn reader(&self, members: &[Member]) -> Reader {
        let scene = Scene { judge: self, members };
        let readers = members.iter().filter(|member| scene.is_reader(member));
        let worst = readers.map(|member| scene.verdict(member)).reduce(worse);
        worst.unwrap_or(Reader::Barred(Obstacle::Unidentified, None))
    }
}

struct Scene<'a> {
    judge: &'a Judge<'a>,
    members: &'a [Member],
}

impl Scene<'_> {
    /// Whether what is typed may go to this process. One that has launched another reader counts as
    /// that.
    fn is_reader(&self, member: &Member) -> bool {
        member.reads_terminal != Some(false)
            && !(self.may_launch(member)
                && self.members.iter().any(|other| self.is_launched_by(other, member)))
            && !self.belongs_to_agent(member)
    }

    fn is_launched_by(&self, other: &Member, launcher: &Member) -> bool {
        other.reads_terminal != Some(false) && self.descends(other, |it| it.pid == launcher.pid)
    }

    /// Scripts, package managers and shims start a program and wait for it. Where the system does
    /// not say who reads, only the wrapped command may be one of which nothing is known.
    fn may_launch(&self, member: &Member) -> bool {
        let kind = member.program.as_ref().map(Kind::of);
        let is_known = matches!(kind, Some(Kind::ShellScript(_) | Kind::Launcher));
        let is_near = member.reads_terminal.is_some() || member.pid == self.judge.command;
        is_known
            || (is_near
                && matches!(
                    self.verdict(member),
                    Reader::Accepted
                        | Reader::Barred(Obstacle::OtherProgram | Obstacle::Unaccepted, _)
                ))
    }

    /// It is the file that was wrapped, or the program of a batch file that was.
    fn is_wrapped(&self, member: &Member, program: &Program) -> bool {
        let is_batch_file = |it: &Program| it.is_wrapped && Kind::of(it).runs_batch_file(it);
        let starter = self.members.iter().find(|it| Some(it.pid) == member.parent);
        program.is_wrapped || starter.and_then(|it| it.program.as_ref()).is_some_and(is_batch_file)
    }

    /// Where the system does not say who reads, an agent's tool servers are no readers of their
    /// own.
    fn belongs_to_agent(&self, member: &Member) -> bool {
        member.reads_terminal.is_none()
            && matches!(self.verdict(member), Reader::Barred(Obstacle::OtherProgram, _))
            && self.descends(member, |it| matches!(self.verdict(it), Reader::Agent(_)))
    }

    fn descends(&self, member: &Member, from: impl Fn(&Member) -> bool) -> bool {
        let mut at = member;
        // Process ids are reused, so that parents may form a circle.
        for _ in 0..self.members.len() {
            let parent = self.members.iter().find(|it| Some(it.pid) == at.parent);
            match parent {
                Some(parent) if from(parent) => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
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
            Kind::Shell => match (self.judge.recognise)(&name) {
                Some(Recognised::Shell) if member.pid == self.judge.command => Reader::Shell,
                _ => barred(Obstacle::Shell),
            },
            Kind::Interpreter => barred(Obstacle::Interpreter),
            Kind::Session => barred(Obstacle::Session),
            _ if member.is_stopped => barred(Obstacle::Suspended),
            Kind::Script(path) | Kind::Other(path) => {
                let mut paths = [Some(path), program.script.as_ref()].into_iter().flatten();
                let agent = paths.find_map(|path| match (self.judge.recognise)(path) {
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
            true if self.judge.accepts => Reader::Accepted,
            true => barred(Obstacle::Unaccepted),
            false => barred(Obstacle::OtherProgram),
        }
    }
}

/// Of two programs that may both read, the one that forbids more.
fn worse(one: Reader, other: Reader) -> Reader {
    let rank = |reader: &Reader| match reader {
        Reader::Barred(Obstacle::Nested, _) => 0,
        Reader::Barred(Obstacle::Session | Obstacle::Interpreter, _) => 1,
        Reader::Barred(Obstacle::Shell, _) => 2,
        Reader::Barred(Obstacle::Unidentified, _) => 3,
        Reader::Barred(..) | Reader::Unseen => 4,
        Reader::Shell => 5,
        Reader::Accepted => 6,
        Reader::Agent(_) => 7,
    };
    match (&one, &other) {
        // Two agents, or an agent and a shell: nobody knows which of them reads.
        (Reader::Agent(first), Reader::Agent(second)) if first == second => one,
        (Reader::Accepted, Reader::Accepted)
        | (Reader::Barred(..), _)
        | (_, Reader::Barred(..)) => {
            if rank(&other) < rank(&one) {
                other
            } else {
                one
            }
        }
        _ => Reader::Barred(Obstacle::Unidentified, None),
    }
}

#[cfg(test)]
mod tests;
