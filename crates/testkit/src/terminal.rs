//! A person's terminal: a program in it, a screen that shows its output, and keys.

use crate::programs::program;
use crate::{sandbox::Sandbox, waiting::WATCHDOG};
use ::terminal::screen::{NoObserver, Screen};
use platform::pty::{OUTLIVES_TERMINAL, Pty, Reader, Size, Writer};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The initial size of a terminal.
pub const SIZE: Size = Size { rows: 30, cols: 100 };

/// The variable that is set where tests run with the consoles of `ci/cross/shim`, and the one that
/// names a file for all that the program writes to its console. Wine's consoles garble escape
/// sequences.
pub(crate) const SHIM: &str = "AGENT_RELAY_TEST_CONSOLE";
const WRITTEN: &str = "AGENT_RELAY_TEST_CONSOLE_OUTPUT";

/// The pause between two reads of that file.
const WRITTEN_PAUSE: Duration = Duration::from_millis(5);

/// A program in a terminal.
pub struct Terminal {
    pub pty: Pty,
    keys: Writer,
    state: Arc<(Mutex<State>, Condvar)>,
    is_closed_by_person: bool,
}

struct State {
    screen: Screen,
    bytes: Vec<u8>,
    last_output: Instant,
    ended: bool,
}

impl Terminal {
    /// Runs `agent-relay-wrap -n NAME -- COMMAND` in the sandbox.
    pub fn wrap(sandbox: &Sandbox, name: &str, command: &[&str]) -> Self {
        Self::wrap_with(sandbox, &["-n", name], command)
    }

    pub fn wrap_with(sandbox: &Sandbox, options: &[&str], command: &[&str]) -> Self {
        let wrap = program("agent-relay-wrap");
        let mut line = vec![wrap.to_str().unwrap()];
        line.extend_from_slice(options);
        // No recipe tells the wrapper that the tests' own programs accept text.
        let program = command.first().map(Path::new);
        let stem = program.and_then(Path::file_stem).unwrap_or_default();
        let is_own = stem == "lines" || stem == "fullscreen";
        if is_own && !options.contains(&"--accepts-text") {
            line.push("--accepts-text");
        }
        if !options.contains(&"--brief") {
            line.push("--no-brief");
        }
        line.push("--");
        line.extend_from_slice(command);
        Self::run(sandbox, &line)
    }

    pub fn run(sandbox: &Sandbox, command: &[&str]) -> Self {
        Self::run_in(sandbox, command, SIZE)
    }

    pub fn run_in(sandbox: &Sandbox, command: &[&str], size: Size) -> Self {
        Self::start(command, &environment(sandbox), sandbox.directory(), size)
    }

    /// Runs `agent-relay ARGUMENTS` in a terminal of this size.
    pub fn command_in(sandbox: &Sandbox, size: Size, arguments: &[&str]) -> Self {
        let program = program("agent-relay");
        let mut line = vec![program.to_str().unwrap()];
        line.extend_from_slice(arguments);
        Self::start(&line, &environment(sandbox), sandbox.directory(), size)
    }

    /// Runs a command in this process's environment, changed by `environment`.
    pub fn start(
        command: &[impl AsRef<OsStr>],
        environment: &[(OsString, Option<OsString>)],
        directory: &Path,
        size: Size,
    ) -> Self {
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        let written = env::var_os(SHIM).map(|_| unused_file(directory));
        let variable = written.iter().map(|file| (WRITTEN.into(), Some(file.into())));
        let environment: Vec<_> = environment.iter().cloned().chain(variable).collect();
        let pty = Pty::spawn(&command, &environment, Some(directory), size).unwrap();
        let screen = Screen::new(size.cols.into(), size.rows.into());
        let state = State { screen, bytes: Vec::new(), last_output: Instant::now(), ended: false };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let (reader, answers) = (pty.reader().unwrap(), pty.writer().unwrap());
        let shared = Arc::clone(&state);
        thread::spawn(move || match written {
            None => show(reader, &shared, answers),
            Some(file) => show(Written::of(reader, file), &shared, answers),
        });
        let keys = pty.writer().unwrap();
        Self { pty, keys, state, is_closed_by_person: false }
    }

    pub fn resize(&self, size: Size) {
        lock(&self.state.0).screen.resize(size.cols.into(), size.rows.into(), &mut NoObserver);
        self.pty.resize(size).unwrap();
    }

    /// Closes the window as a person does: the system informs the programs in it, and the test
    /// kills none of them. On Windows, where they end then, waits for that.
    #[track_caller]
    pub fn close_window(mut self) {
        self.is_closed_by_person = true;
        self.pty.close();
        if !OUTLIVES_TERMINAL {
            let code = wait_for_end(&self.pty, WATCHDOG);
            assert!(code.is_some(), "the program does not end:\n{}", self.text());
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?}"), |screen| screen.contains(text));
    }

    /// Waits until the screen shows a row with exactly this text, trailing blanks aside.
    #[track_caller]
    pub fn wait_for_row(&self, row: &str) {
        self.wait_until(&format!("the row {row:?}"), |screen| {
            screen.lines().any(|line| line == row)
        });
    }

    /// Waits until the text of the screen satisfies `condition`.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) {
        self.wait_until_screen(what, |screen| condition(&screen.text()));
    }

    /// Waits until the screen, with its cursor and colours, satisfies `condition`.
    #[track_caller]
    pub fn wait_until_screen(&self, what: &str, condition: impl Fn(&Screen) -> bool) {
        let state = lock(&self.state.0);
        let waiting = |state: &mut State| !condition(&state.screen) && !state.ended;
        let (state, _) = self
            .state
            .1
            .wait_timeout_while(state, WATCHDOG, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        let shown = state.screen.text();
        let ended = if state.ended { " (the program has ended)" } else { "" };
        assert!(condition(&state.screen), "{what} is not shown{ended}:\n{shown}");
    }

    /// Waits until the program has printed this text, even if the screen no longer shows it.
    #[track_caller]
    pub fn wait_for_bytes(&self, text: &str) {
        let state = lock(&self.state.0);
        let is_printed = |state: &State| String::from_utf8_lossy(&state.bytes).contains(text);
        let waiting = |state: &mut State| !is_printed(state) && !state.ended;
        let (state, _) = self
            .state
            .1
            .wait_timeout_while(state, WATCHDOG, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(is_printed(&state), "{text:?} does not come:\n{}", state.screen.text());
    }

    /// Passes the screen to `look`.
    pub fn look<T>(&self, look: impl FnOnce(&Screen) -> T) -> T {
        look(&lock(&self.state.0).screen)
    }

    /// The text of the screen.
    pub fn text(&self) -> String {
        lock(&self.state.0).screen.text()
    }

    /// All bytes printed so far.
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.state.0).bytes.clone()
    }

    /// The time of the last output.
    pub fn painted(&self) -> Instant {
        lock(&self.state.0).last_output
    }

    /// Waits for the end of the program, and shows all its output.
    #[track_caller]
    pub fn wait_until_end(&self) {
        let code = wait_for_end(&self.pty, WATCHDOG);
        assert!(code.is_some(), "the program does not end:\n{}", self.text());
        self.pty.close();
        let state = lock(&self.state.0);
        let waited = self.state.1.wait_timeout_while(state, WATCHDOG, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(state.ended, "the output does not end:\n{}", state.screen.text());
    }

    /// Waits for the program's end. Returns its exit code.
    #[track_caller]
    pub fn finish(self) -> i32 {
        let code = wait_for_end(&self.pty, WATCHDOG);
        self.pty.close();
        code.unwrap_or_else(|| panic!("the program does not end:\n{}", self.text()))
    }
}

/// Shows output until its end, and answers its questions.
fn show(mut output: impl Read, shared: &(Mutex<State>, Condvar), mut answers: Writer) {
    let mut buffer = [0; 1 << 16];
    loop {
        let count = output.read(&mut buffer).unwrap_or(0);
        let mut state = lock(&shared.0);
        state.screen.feed(&buffer[..count], &mut NoObserver);
        let replies = state.screen.take_answers();
        state.bytes.extend_from_slice(&buffer[..count]);
        state.last_output = Instant::now();
        state.ended = count == 0;
        shared.1.notify_all();
        if count == 0 {
            return;
        }
        drop(state);
        // This write fails once the program has ended.
        answers.write_all(&replies).ok();
    }
}

/// The output of a program to its console, from the file that gets it.
struct Written {
    path: PathBuf,
    file: Option<File>,
    has_ended: Arc<AtomicBool>,
}

impl Written {
    /// The console's own output is read only for its end.
    fn of(mut console: Reader, path: PathBuf) -> Self {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        thread::spawn(move || {
            // An error is an end, too.
            io::copy(&mut console, &mut io::sink()).ok();
            ended.store(true, Ordering::SeqCst);
        });
        Self { path, file: None, has_ended }
    }
}

impl Read for Written {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Looked at first: afterwards, nothing is added.
            let has_ended = self.has_ended.load(Ordering::SeqCst);
            if self.file.is_none() {
                self.file = File::open(&self.path).ok();
            }
            let count = self.file.as_mut().map_or(Ok(0), |file| file.read(buffer))?;
            if count > 0 || has_ended {
                return Ok(count);
            }
            thread::sleep(WRITTEN_PAUSE);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if !self.is_closed_by_person {
            self.pty.kill().ok();
        }
        self.pty.close();
    }
}

/// The path of a file that is not there.
fn unused_file(directory: &Path) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    directory.join(format!("written-{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
}

fn wait_for_end(pty: &Pty, at_most: Duration) -> Option<i32> {
    let (sender, ended) = std::sync::mpsc::channel();
    let waited = pty.clone();
    thread::spawn(move || sender.send(waited.wait().unwrap()));
    ended.recv_timeout(at_most).ok()
}

/// Runs a command in a terminal of 60 rows, and returns the rows of its screen with text.
///
/// There are no colours, since Wine's console counts their sequences as columns.
pub fn rows(sandbox: &Sandbox, arguments: &[&str], cols: u16) -> Vec<String> {
    let program = program("agent-relay");
    let line = [&[program.to_str().unwrap()], arguments].concat();
    let mut environment = environment(sandbox);
    environment.push(("NO_COLOR".into(), Some("1".into())));
    let terminal =
        Terminal::start(&line, &environment, sandbox.directory(), Size { rows: 60, cols });
    terminal.wait_until_end();
    let text = terminal.text();
    assert_eq!(terminal.finish(), 0, "{arguments:?}");
    text.lines().map(str::trim_end).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

pub fn environment(sandbox: &Sandbox) -> Vec<(OsString, Option<OsString>)> {
    let set = [
        ("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text().into()),
        ("AGENT_RELAY_HOME", sandbox.home().into_os_string()),
        // The default is ~/.bash_history, which a shell writes when its terminal closes, perhaps
        // while the sandbox is being removed.
        ("HISTFILE", "".into()),
        ("HOME", sandbox.directory().as_os_str().to_owned()),
        ("PS1", "$ ".into()),
        ("TERM", "xterm-256color".into()),
    ];
    let removed = ["ENV", "BASH_ENV", "PROMPT_COMMAND", "PYTHONSTARTUP", "INPUTRC"];
    let set = set.into_iter().map(|(name, value): (&str, OsString)| (name.into(), Some(value)));
    set.chain(removed.map(|name| (name.into(), None))).collect()
}

/// The text of a screen that has received these bytes.
pub fn shown(bytes: &[u8]) -> String {
    let mut screen = Screen::new(SIZE.cols.into(), SIZE.rows.into());
    screen.feed(bytes, &mut NoObserver);
    screen.text()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
