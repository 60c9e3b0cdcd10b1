//! Determines which program reads the wrapped terminal, from the system's view of its foreground.

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
use terminal::{
    keyboard::{
        Judge, Member, Operand, Program, Reader, is_dangerous, is_launcher, name_of, operand,
    },
    obstacle::Obstacle,
    recipe::Book,
};

/// The maximum number of remembered comparisons of executables with shells.
const COPIES_MAX: usize = 1024;

/// The longest `#!` line that is read, in bytes.
const FIRST_LINE_MAX: u64 = 512;

/// Directories with shells, in addition to the search path.
const DIRECTORIES: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Observes a terminal's foreground.
pub(super) struct Foreground {
    observer: Observer,
    files: Files,
    command: u32,
    accepts: bool,
    /// The program that reads the terminal if the system does not report it: the wrapped one, if
    /// the person declared that it reads text.
    declared: Reader,
    book: Book,
    mark: Option<Mark>,
    /// The last reader, for the log.
    logged: Option<Reader>,
}

impl Foreground {
    /// Observes the terminal of a command that has just started.
    pub(super) fn new(
        pty: &Pty,
        member_server: Vec<OsString>,
        book: Book,
        wrapped: Option<&Wrapped>,
        accepts: bool,
    ) -> Self {
        let observer = Observer::new(pty, Some(member_server));
        let declared = declared(wrapped, &book, accepts);
        let wrapped = wrapped.and_then(|wrapped| wrapped.file);
        let files = Files { wrapped, ..Files::default() };
        Self {
            observer,
            files,
            command: pty.pid(),
            accepts,
            declared,
            book,
            mark: None,
            logged: None,
        }
    }

    /// Whether another program may have come to the foreground since the last query. This check is
    /// much cheaper than a query.
    pub(super) fn may_have_changed(&self) -> bool {
        let mark = self.observer.mark();
        mark.is_some() && mark != self.mark
    }

    /// Returns the program that reads the terminal now.
    pub(super) fn reader(&mut self) -> Reader {
        let reader = self.look();
        if self.logged.as_ref() != Some(&reader) {
            tracing::info!("the terminal is read by {reader:?}");
            self.logged = Some(reader.clone());
        }
        reader
    }

    fn look(&mut self) -> Reader {
        // The mark is read before the query, so that a change during the query causes another
        // query.
        self.mark = self.observer.mark();
        let processes = match self.observer.look() {
            Ok(processes) => processes,
            Err(error) => {
                tracing::debug!("the terminal's foreground is not known: {error}");
                return match error.kind() {
                    io::ErrorKind::Unsupported => self.declared.clone(),
                    _ => Reader::Barred(Obstacle::Unidentified, None),
                };
            }
        };
        let members: Vec<Member> =
            processes.iter().map(|process| self.files.member(process)).collect();
        judge(&self.book, self.command, self.accepts, &members)
    }
}

/// Returns the program to assume as the reader of the terminal if the system does not report it.
fn declared(wrapped: Option<&Wrapped>, book: &Book, accepts: bool) -> Reader {
    match wrapped.map(|wrapped| wrapped.reader(book)) {
        _ if !accepts => Reader::Barred(Obstacle::NoForegroundGroup, None),
        Some(agent @ Reader::Agent(_)) => agent,
        _ => Reader::Accepted,
    }
}

fn judge(book: &Book, command: u32, accepts: bool, members: &[Member]) -> Reader {
    let recognise = |path: &str| book.recognise(path, SYSTEM);
    Judge { command, accepts, recognise: &recognise, members }.reader()
}

/// A command that is about to be wrapped, with the file that determines its behaviour.
pub(super) struct Wrapped {
    pub(super) file: Option<FileId>,
    program: Program,
}

impl Wrapped {
    pub(super) fn of(command: &[OsString], directory: Option<&Path>) -> Option<Self> {
        let arguments = command.get(1..)?;
        let found = pty::find(command, directory).ok()?;
        let path = found.canonicalize().unwrap_or(found);
        let arguments: Vec<String> = arguments.iter().map(|argument| text(argument)).collect();
        let (path, arguments) = match shebang(&path) {
            Some((interpreter, first)) => {
                let script = path.to_string_lossy().into_owned();
                (interpreter, first.into_iter().chain([script]).chain(arguments).collect())
            }
            None => (path, arguments),
        };
        let own = FileId::of(&path).ok();
        let (file, script) = code_of(&path, own, &arguments, directory);
        let executable = own.map(|file| Executable { path: path.clone(), file });
        let copy_of = |executable| Files::default().copy_of(executable).ok()?;
        let copy_of = executable.as_ref().and_then(copy_of);
        let words: Vec<_> = [text(path.as_os_str())].into_iter().chain(arguments).collect();
        let program = Program {
            path: text(path.as_os_str()),
            copy_of,
            is_relay: executable.is_some_and(|executable| is_relay(&executable, &words)),
            arguments: Some(words),
            script,
            is_wrapped: true,
        };
        Some(Self { file, program })
    }

    /// Whether the command may start the program that will read the terminal.
    pub(super) fn may_launch(&self) -> bool {
        is_launcher(&self.program)
    }

    /// Whether the command runs code from its arguments or input, so that no file determines its
    /// behaviour.
    pub(super) fn is_inline(&self) -> bool {
        self.file.is_none()
    }

    /// Returns the program that will read the terminal, as known from the file.
    pub(super) fn reader(&self, book: &Book) -> Reader {
        let member = Member { program: Some(self.program.clone()), ..Member::default() };
        judge(book, 0, false, &[member])
    }
}

fn text(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Returns the interpreter and its argument in a script's `#!` line.
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

/// Returns the file that determines a program's behaviour, its script or its executable, and the
/// path of its script, with all symbolic links resolved.
fn code_of(
    path: &Path,
    executable: Option<FileId>,
    arguments: &[String],
    directory: Option<&Path>,
) -> (Option<FileId>, Option<String>) {
    match operand(&path.to_string_lossy(), arguments) {
        None => (executable, None),
        Some(Operand::Script(script)) => {
            let script = within(directory, &script);
            let resolved = script.canonicalize().ok();
            (FileId::of(&script).ok(), resolved.map(|script| text(script.as_os_str())))
        }
        // No file determines the program's behaviour.
        Some(Operand::Prompt | Operand::Module(_) | Operand::Inline) => (None, None),
    }
}

fn within(directory: Option<&Path>, path: &str) -> PathBuf {
    directory.map_or_else(|| PathBuf::from(path), |directory| directory.join(path))
}

/// Whether a program is a wrapper, or an `attach` that shows a wrapper's agent. Other commands of
/// Agent Relay do not read the terminal.
fn is_relay(executable: &Executable, arguments: &[String]) -> bool {
    let name = name_of(&executable.path.to_string_lossy());
    let is_own = || {
        let own = env::current_exe().and_then(|own| FileId::of(&own));
        own.is_ok_and(|own| own == executable.file)
    };
    match &*name {
        "agent-relay-wrap" => {
            let word = arguments.get(1).filter(|word| *word != "--as-agent-relay");
            let word = word.or_else(|| arguments.get(2)).map(String::as_str);
            !matches!(word, Some("extract" | "hook"))
        }
        "agent-relay" | "agent-relayw" => is_wrapping(arguments),
        _ => is_wrapping(arguments) && is_own(),
    }
}

fn is_wrapping(arguments: &[String]) -> bool {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--home" | "--endpoint" => drop(words.next()),
            word if word.starts_with('-') => {}
            command => return ["run", "attach"].contains(&command),
        }
    }
    false
}

/// A cache of facts about files.
#[derive(Default)]
struct Files {
    /// The file that was wrapped.
    wrapped: Option<FileId>,
    /// Paths and sizes of the shells, interpreters and similar programs of this machine.
    dangerous: Option<Vec<(PathBuf, u64)>>,
    copies: HashMap<FileId, Option<String>>,
}

impl Files {
    fn member(&mut self, process: &Process) -> Member {
        Member {
            pid: process.pid,
            parent: process.parent,
            program: process
                .executable
                .as_ref()
                .and_then(|executable| self.program(executable, process)),
            is_stopped: process.is_stopped,
            reads_terminal: process.reads_terminal,
        }
    }

    /// Returns the program that a process runs, or `None` if its executable cannot be read.
    fn program(&mut self, executable: &Executable, process: &Process) -> Option<Program> {
        let arguments = process.arguments.as_ref();
        let arguments: Option<Vec<String>> =
            arguments.map(|all| all.iter().map(|argument| text(argument)).collect());
        let own = arguments.as_deref().and_then(|all| all.get(1..)).unwrap_or_default();
        let directory = process.directory.as_deref();
        let (file, script) = code_of(&executable.path, Some(executable.file), own, directory);
        Some(Program {
            path: text(executable.path.as_os_str()),
            copy_of: self.copy_of(executable).ok()?,
            is_relay: is_relay(executable, arguments.as_deref().unwrap_or_default()),
            script,
            is_wrapped: file.is_some() && file == self.wrapped,
            arguments,
        })
    }

    /// Returns the name of the shell or similar program that this executable is a copy of.
    fn copy_of(&mut self, executable: &Executable) -> io::Result<Option<String>> {
        if let Some(known) = self.copies.get(&executable.file) {
            return Ok(known.clone());
        }
        let found = self.find_original(executable);
        let found = found.inspect_err(|error| tracing::debug!("{error}"))?;
        if self.copies.len() == COPIES_MAX {
            self.copies.clear();
        }
        self.copies.insert(executable.file, found.clone());
        Ok(found)
    }

    fn find_original(&mut self, executable: &Executable) -> io::Result<Option<String>> {
        if is_dangerous(&name_of(&executable.path.to_string_lossy())) {
            return Ok(None);
        }
        let size = executable.path.metadata()?.len();
        for (path, _) in self.dangerous().iter().filter(|(_, known)| *known == size) {
            let is_same = FileId::of(path).is_ok_and(|file| file == executable.file);
            if is_same || same_content(path, &executable.path)? {
                return Ok(Some(name_of(&path.to_string_lossy())));
            }
        }
        Ok(None)
    }

    /// Returns all files on the search path and in `DIRECTORIES` that are named like a shell, an
    /// interpreter or a similar program, in any version.
    fn dangerous(&mut self) -> &[(PathBuf, u64)] {
        self.dangerous.get_or_insert_with(|| {
            let path = env::var_os("PATH").unwrap_or_default();
            let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
            directories.extend(DIRECTORIES.iter().map(PathBuf::from));
            directories.sort();
            directories.dedup();
            let files =
                directories.iter().flat_map(|directory| directory.read_dir()).flatten().flatten();
            let named =
                files.filter(|file| is_dangerous(&name_of(&file.file_name().to_string_lossy())));
            let sized = named.filter_map(|file| {
                let metadata = file.path().metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((file.path(), metadata.len()))
            });
            sized.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_is_declared_where_the_system_does_not_tell() {
        let book = Book::default();
        let untold = Reader::Barred(Obstacle::NoForegroundGroup, None);
        assert_eq!(declared(None, &book, false), untold);
        assert_eq!(declared(None, &book, true), Reader::Accepted);
        let wrapped = |path: &str| Wrapped {
            file: None,
            program: Program { path: path.to_owned(), is_wrapped: true, ..Program::default() },
        };
        let claude = wrapped("/usr/bin/claude");
        assert_eq!(declared(Some(&claude), &book, false), untold);
        assert_eq!(declared(Some(&claude), &book, true), Reader::Agent("claude".to_owned()));
        assert_eq!(declared(Some(&wrapped("/opt/agent")), &book, true), Reader::Accepted);
    }
}
