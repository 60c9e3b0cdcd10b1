//! Which program reads the wrapped terminal: what the system says of it, judged by [`keyboard`].

use crate::bridge::{
    keyboard::{Judge, Member, Operand, Program, Reader, interpreters, name_of, operand},
    recipe::{Book, Obstacle},
};
use platform::{
    foreground::{Executable, FileId, Mark, Observer, Process, same_content},
    process::{SYSTEM, find_program},
    pty::{self, Pty},
};
use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// Executables of which it is remembered whether they are copies of a shell.
const COPIES_MAX: usize = 1024;

/// The longest first line of a script that is read.
const FIRST_LINE_MAX: u64 = 512;

/// Directories with shells, beside the search path.
const DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Looks at a terminal's foreground.
pub(super) struct Foreground {
    observer: Observer,
    files: Files,
    command: u32,
    accepts: bool,
    book: Book,
    mark: Option<Mark>,
}

impl Foreground {
    /// Right after the command was started.
    pub(super) fn new(
        pty: &Pty,
        member_server: Vec<OsString>,
        book: Book,
        wrapped: Option<FileId>,
        accepts: bool,
    ) -> Self {
        let observer = Observer::new(pty, Some(member_server));
        let files = Files { wrapped, ..Files::default() };
        Self { observer, files, command: pty.pid(), accepts, book, mark: None }
    }

    /// Whether another program may have come to the foreground since the last look, as far as that can
    /// be said without a look.
    pub(super) fn may_have_changed(&self) -> bool {
        let mark = self.observer.mark();
        mark.is_some() && mark != self.mark
    }

    /// The program that reads the terminal now.
    pub(super) fn reader(&mut self) -> Reader {
        // What changes meanwhile is looked at again.
        self.mark = self.observer.mark();
        let processes = match self.observer.look() {
            Ok(processes) => processes,
            Err(error) => {
                tracing::debug!("the terminal's foreground is not known: {error}");
                return Reader::Barred(Obstacle::Unidentified, None);
            }
        };
        let members: Vec<Member> = processes.iter().map(|it| self.files.member(it)).collect();
        judge(&self.book, self.command, self.accepts, &members)
    }

    /// The recipe for an agent CLI that another command has started.
    pub(super) fn book(&self) -> &Book {
        &self.book
    }
}

fn judge(book: &Book, command: u32, accepts: bool, members: &[Member]) -> Reader {
    let recognise = |path: &str| book.recognise(path, SYSTEM);
    Judge { command, accepts, recognise: &recognise }.reader(members)
}

/// The file of a command that is about to be wrapped: its script, where it is an interpreter with one.
pub(super) struct Wrapped {
    pub(super) file: Option<FileId>,
    program: Program,
}

impl Wrapped {
    pub(super) fn of(command: &[OsString], directory: Option<&Path>) -> Option<Self> {
        let arguments = command.get(1..)?;
        let found = pty::find(command, directory).ok()?;
        let path = found.canonicalize().unwrap_or(found);
        let arguments: Vec<String> = arguments.iter().map(|it| text(it)).collect();
        let (path, arguments) = match shebang(&path) {
            Some((interpreter, first)) => {
                let script = path.to_string_lossy().into_owned();
                (interpreter, first.into_iter().chain([script]).chain(arguments).collect())
            }
            None => (path, arguments),
        };
        let file = file_of(&path, &arguments, directory);
        let script = script(&path, &arguments, directory);
        let mut files = Files { wrapped: file, ..Files::default() };
        let executable = FileId::of(&path).ok().map(|file| Executable { path: path.clone(), file });
        let copy_of = executable.as_ref().and_then(|it| files.copy_of(it));
        let words = [text(path.as_os_str())].into_iter().chain(arguments).collect();
        let words: Vec<String> = words;
        let program = Program {
            path: text(path.as_os_str()),
            copy_of,
            is_relay: executable.is_some_and(|it| is_relay(&it, &words)),
            arguments: Some(words),
            script,
            is_wrapped: true,
        };
        Some(Self { file, program })
    }

    /// The program that will read the terminal, as far as its file says.
    pub(super) fn reader(&self, book: &Book) -> Reader {
        let member = Member { program: Some(self.program.clone()), ..Member::default() };
        judge(book, 0, false, &[member])
    }
}

fn text(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// The interpreter and its argument in a script's first line.
fn shebang(path: &Path) -> Option<(PathBuf, Option<String>)> {
    let mut line = String::new();
    let file = File::open(path).ok()?.take(FIRST_LINE_MAX);
    BufReader::new(file).read_line(&mut line).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let interpreter = PathBuf::from(words.next()?);
    if interpreter.file_name() != Some("env".as_ref()) {
        return Some((
            interpreter.canonicalize().unwrap_or(interpreter),
            words.next().map(str::to_owned),
        ));
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let found = find_program(name.as_ref())?;
    Some((found.canonicalize().unwrap_or(found), None))
}

/// The file that makes the program what it is.
fn file_of(path: &Path, arguments: &[String], directory: Option<&Path>) -> Option<FileId> {
    let script = match operand(&path.to_string_lossy(), arguments) {
        None => path.to_owned(),
        Some(Operand::Script(script)) => within(directory, &script),
        // No file says what it does.
        Some(Operand::Prompt | Operand::Module(_) | Operand::Inline) => return None,
    };
    FileId::of(&script).ok()
}

/// The script that the program runs, with all links followed.
fn script(path: &Path, arguments: &[String], directory: Option<&Path>) -> Option<String> {
    match operand(&path.to_string_lossy(), arguments) {
        Some(Operand::Script(script)) => {
            within(directory, &script).canonicalize().ok().map(|it| text(it.as_os_str()))
        }
        _ => None,
    }
}

fn within(directory: Option<&Path>, path: &str) -> PathBuf {
    directory.map_or_else(|| PathBuf::from(path), |directory| directory.join(path))
}

/// Whether it is Agent Relay, and not the part of it that is an agent.
fn is_relay(executable: &Executable, arguments: &[String]) -> bool {
    const NAMES: [&str; 3] = ["agent-relay", "agent-relay-wrap", "agent-relayw"];
    let is_own = || {
        let own = env::current_exe().and_then(|own| FileId::of(&own));
        own.is_ok_and(|own| own == executable.file)
    };
    let is_named = NAMES.contains(&&*name_of(&executable.path.to_string_lossy()));
    (is_named || is_own()) && arguments.get(2).is_none_or(|word| word != super::DEMO_AGENT)
}

/// What is known of files.
#[derive(Default)]
struct Files {
    /// The file that was wrapped.
    wrapped: Option<FileId>,
    /// Shells and interpreters of this machine: name, path and size.
    shells: Option<Vec<(&'static str, PathBuf, u64)>>,
    copies: HashMap<FileId, Option<String>>,
}

impl Files {
    fn member(&mut self, process: &Process) -> Member {
        Member {
            pid: process.pid,
            parent: process.parent,
            program: process.executable.as_ref().map(|it| self.program(it, process)),
            is_stopped: process.is_stopped,
            reads_terminal: process.reads_terminal,
        }
    }

    fn program(&mut self, executable: &Executable, process: &Process) -> Program {
        let arguments = process.arguments.as_ref();
        let arguments: Option<Vec<String>> =
            arguments.map(|all| all.iter().map(|it| text(it)).collect());
        let own = arguments.as_deref().and_then(|all| all.get(1..)).unwrap_or_default();
        let directory = process.directory.as_deref();
        let file = match operand(&executable.path.to_string_lossy(), own) {
            None => Some(executable.file),
            Some(_) => file_of(&executable.path, own, directory),
        };
        Program {
            path: text(executable.path.as_os_str()),
            copy_of: self.copy_of(executable),
            is_relay: is_relay(executable, arguments.as_deref().unwrap_or_default()),
            script: script(&executable.path, own, directory),
            is_wrapped: file.is_some() && file == self.wrapped,
            arguments,
        }
    }

    /// The shell or interpreter that an executable is a copy of.
    fn copy_of(&mut self, executable: &Executable) -> Option<String> {
        if let Some(known) = self.copies.get(&executable.file) {
            return known.clone();
        }
        let found = self.find_original(executable).unwrap_or_else(|error| {
            // What can't be read can't be run either, unless by somebody else.
            tracing::debug!("{}: {error}", executable.path.display());
            None
        });
        if self.copies.len() == COPIES_MAX {
            self.copies.clear();
        }
        self.copies.insert(executable.file, found.clone());
        found
    }

    fn find_original(&mut self, executable: &Executable) -> io::Result<Option<String>> {
        let size = executable.path.metadata()?.len();
        for (name, path, _) in self.shells().iter().filter(|(_, _, known)| *known == size) {
            if FileId::of(path)? == executable.file || same_content(path, &executable.path)? {
                return Ok(Some((*name).to_owned()));
            }
        }
        Ok(None)
    }

    fn shells(&mut self) -> &[(&'static str, PathBuf, u64)] {
        self.shells.get_or_insert_with(|| {
            let path = env::var_os("PATH").unwrap_or_default();
            let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
            directories.extend(DIRECTORIES.iter().map(PathBuf::from));
            directories.dedup();
            let all = interpreters().flat_map(|name| {
                let name_of = move |directory: &PathBuf| {
                    directory.join(format!("{name}{}", env::consts::EXE_SUFFIX))
                };
                directories.iter().map(name_of).filter_map(move |path| {
                    let path = path.canonicalize().ok()?;
                    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
                    Some((name, path, size))
                })
            });
            all.collect()
        })
    }
}
