//! Roles: the behaviour of this test program when a test starts it as another process.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Write as _},
    panic,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
};

use platform::{
    endpoint::Endpoint,
    foreground,
    front::{Forked, Front},
    lock::Lock,
    paths,
    peer::User,
    process::spawn_detached,
    stop_signals,
    transport::{Listener, Stream},
    tty::{self, Input, Output, RawMode, Standard},
};

use crate::{scene, system};

/// The first argument of a process that plays a role; the role and its own arguments follow.
pub(crate) const PLAY: &str = "--play";

pub(crate) fn play(role: &str, arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (role, &arguments[..]) {
        ("daemon", [lock, endpoint]) => daemon(lock, endpoint),
        ("daemon-for", [lock, endpoint, user]) => {
            let user = User::parse(user).unwrap();
            hold(lock, || system::listener_for(&parse(endpoint), &user));
        }
        ("as-another-user", [name, password, open, role @ ..]) => {
            return ExitCode::from(system::play_as(name, password, open, role) as u8);
        }
        ("rival", [lock, endpoint]) => rival(lock, endpoint),
        ("connect", [endpoint]) => connect(endpoint),
        ("writable", [directory]) => writable(directory),
        ("greet", [endpoint, server]) => greet(endpoint, server),
        ("exit", [code]) => return ExitCode::from(code.parse::<u8>().unwrap()),
        ("surroundings", [variable, without]) => surroundings(variable, without),
        ("echo", []) => echo(),
        ("size", []) => size(),
        ("keys", []) => keys(),
        ("key", []) => report_first_keys("ready;", "key", |_| true),
        ("attributes", []) => {
            report_first_keys("\x1b[c", "attributes", |keys| keys.ends_with(b"c"));
        }
        ("events", []) => events(),
        ("modifiers", []) => modifiers(),
        ("torn", []) => torn(),
        ("raw", [ending]) => raw(ending),
        ("signals", []) => signals(false),
        ("signals", ["self"]) => signals(true),
        ("raw-signals", []) => raw_signals(),
        ("wait", _) => wait(),
        ("parent", []) => parent(),
        ("fronted", [role, arguments @ ..]) => return fronted(role, arguments),
        ("deaf", []) => deaf(),
        ("deaf-wait", []) => {
            let _listening = stop_signals::listen(|_| ()).unwrap();
            wait();
        }
        ("leave-child", []) => leave_child(),
        ("background", [ends]) => background(ends == &"true"),
        ("leave-deaf", []) => leave_deaf(),
        ("start-deaf", []) => start_deaf(),
        ("launch", []) => launch(),
        ("arguments", arguments) => say_arguments(arguments),
        ("console-members", []) => foreground::serve_console_members().unwrap(),
        ("exec", []) => exec_at_a_line("exec-shell"),
        ("exec-shell", []) => exec_shell_at_a_line(),
        ("piped-child", []) => piped_child(),
        ("opener-parent", []) => opener_parent(),
        ("opener", []) => opener(),
        ("shell-like", []) => shell_like(),
        ("job", []) => job(),
        ("erase", arguments) => erase(arguments == ["fork"]),
        ("churn", []) => churn(),
        ("starter", [log, endpoint]) => starter(log, endpoint),
        ("detached", [endpoint]) => detached(endpoint),
        other => panic!("no such role: {other:?}"),
    }
    ExitCode::SUCCESS
}

/// Takes the lock and the endpoint, reports whether it has them, and ends with its standard input.
fn daemon(lock: &str, endpoint: &str) {
    hold(lock, || Listener::bind(&parse(endpoint)).unwrap());
}

fn hold(lock: &str, listen: impl FnOnce() -> Listener) {
    let lock = Lock::take(Path::new(lock)).unwrap();
    let listener = lock.as_ref().map(|_| listen());
    say(if listener.is_some() { "mine" } else { "taken" });
    io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
}

/// Waits for one byte of input, then takes the lock and the endpoint.
fn rival(lock: &str, endpoint: &str) {
    say("ready");
    io::stdin().read_exact(&mut [0]).unwrap();
    daemon(lock, endpoint);
}

fn connect(endpoint: &str) {
    match Stream::connect(&parse(endpoint)) {
        Ok(_) => say("connected"),
        Err(error) => say(&format!("{:?} {error}", error.kind())),
    }
}

fn writable(directory: &str) {
    match paths::check_writable(Path::new(directory)) {
        Ok(()) => say("writable"),
        Err(error) => say(&format!("{:?} {error}", error.kind())),
    }
}

/// Sends a byte to a listener of the user `server`.
fn greet(endpoint: &str, server: &str) {
    let server = [User::parse(server).unwrap()];
    let stream = Stream::connect_among(&parse(endpoint), &server).unwrap();
    (&stream).write_all(b"x").unwrap();
    let _ = (&stream).read(&mut [0]);
}

fn surroundings(variable: &str, without: &str) {
    say(&format!("value={};", env::var(variable).unwrap()));
    say(&format!("without={};", env::var_os(without).is_none()));
    let here = env::current_dir().unwrap();
    say(&format!("here={};", here.file_name().unwrap().display()));
    let terminals = [Standard::Input, Standard::Output, Standard::Error];
    say(&format!("terminal={};", terminals.into_iter().all(tty::is_terminal)));
    let size = tty::size().unwrap();
    say(&format!("size={}x{};", size.rows, size.cols));
}

fn echo() {
    say("ready;");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    say(&format!("got={};", line.trim_end()));
}

/// Prints the terminal's size at the start, and again after a notification of a change.
fn size() {
    let (sender, told) = mpsc::channel();
    let _listening = stop_signals::listen(move |signal| sender.send(signal).unwrap()).unwrap();
    let say_size = || {
        let size = tty::size().unwrap();
        say(&format!("size={}x{};", size.rows, size.cols));
    };
    say_size();
    while told.recv().unwrap() != stop_signals::Signal::Resize {}
    say_size();
}

/// Reads a key in raw mode, where no Enter is needed. After raw mode, which ends as `ending` says,
/// reads a line, which can be corrected before Enter.
fn raw(ending: &str) {
    panic::set_hook(Box::new(|_| say("hook;")));
    let play = || {
        let raw = RawMode::enter().unwrap();
        assert_eq!(RawMode::enter().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        say("ready;");
        let mut key = [0];
        Input::new().unwrap().read_exact(&mut key).unwrap();
        say(&format!("key={};", key[0]));
        if ending == "panic" {
            std::mem::forget(raw);
            panic!("on purpose");
        }
    };
    assert_eq!(panic::catch_unwind(play).is_err(), ending == "panic");
    say("cooked;");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    say(&format!("line={};", line.trim_end()));
}

/// Prints typed bytes up to an X. Then reads until it interrupts the read.
fn keys() {
    let _raw = RawMode::enter().unwrap();
    let mut input = Input::new().unwrap();
    let interrupter = input.interrupter();
    let mut output = Output::new().unwrap();
    output.write_all(b"ready;").unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&b'X') {
        let mut buffer = [0; 3];
        let length = input.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..length]);
    }
    // All in a single write, because a console redraws each write in its own way.
    output.write_all(format!("keys={};", scene::hex(&seen)).as_bytes()).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| input.read(&mut [0; 16]).unwrap());
        interrupter.interrupt();
        output.write_all(format!("then={};", reader.join().unwrap()).as_bytes()).unwrap();
    });
    assert_eq!(input.read(&mut [0; 16]).unwrap(), 0);
}

/// Prints `before`, reads keys in raw mode until there are enough, and prints them.
fn report_first_keys(before: &str, word: &str, is_enough: fn(&[u8]) -> bool) {
    let _raw = RawMode::enter().unwrap();
    let (mut input, mut output) = (Input::new().unwrap(), Output::new().unwrap());
    output.write_all(before.as_bytes()).unwrap();
    let mut seen = Vec::new();
    while seen.is_empty() || !is_enough(&seen) {
        let mut buffer = [0; 64];
        let length = input.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..length]);
    }
    output.write_all(format!("{word}={};", scene::hex(&seen)).as_bytes()).unwrap();
}

/// Prints the characters of keys that are pressed until `X`, read without virtual terminal input.
fn events() {
    system::without_virtual_terminal_input();
    say("ready;");
    let mut input = Input::new().unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&b'X') {
        let mut buffer = [0; 64];
        let length = input.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..length]);
    }
    say(&format!("events={};", scene::hex(&seen)));
}

/// Interrupts a read after only Shift, Ctrl and Alt were pressed.
fn modifiers() {
    let _raw = RawMode::enter().unwrap();
    let mut input = Input::new().unwrap();
    let interrupter = input.interrupter();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| input.read(&mut [0; 16]).unwrap());
        system::press_modifiers();
        interrupter.interrupt();
        say(&format!("read={};", reader.join().unwrap()));
    });
}

/// Writes a character in two pieces, and a text after half of a character.
fn torn() {
    let mut output = Output::new().unwrap();
    for piece in [&b"\xe2\x82"[..], b"\xac", b"\xe2\x82", b"whole;"] {
        output.write_all(piece).unwrap();
    }
}

/// Prints each signal until one requests a stop. With `interrupt`, raises the signal of Ctrl-C
/// itself.
fn signals(interrupt: bool) {
    let (sender, told) = mpsc::channel();
    let listening = stop_signals::listen(move |signal| sender.send(signal).unwrap()).unwrap();
    assert_eq!(stop_signals::listen(|_| ()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    say("ready;");
    if interrupt {
        system::interrupt();
    }
    loop {
        let signal = told.recv().unwrap();
        say(&format!("signal={signal:?};"));
        if signal == stop_signals::Signal::Stop {
            break;
        }
    }
    drop(listening);
    drop(stop_signals::listen(|_| ()).unwrap());
}

/// Presses Ctrl-Break in raw mode and after it, and prints the signals.
fn raw_signals() {
    let (sender, told) = mpsc::channel();
    let _listening = stop_signals::listen(move |signal| sender.send(signal).unwrap()).unwrap();
    let raw = RawMode::enter().unwrap();
    system::press_ctrl_break();
    say(&format!("raw={:?};", told.recv().unwrap()));
    drop(raw);
    system::press_ctrl_break();
    say(&format!("cooked={:?};", told.recv().unwrap()));
}

/// Waits until it is killed.
fn wait() {
    say(&format!("pid={};", std::process::id()));
    loop {
        std::thread::park();
    }
}

/// Starts a child that waits in the same terminal, and waits too.
fn parent() {
    let mut child = scene::role("deaf-wait", &[]).spawn().unwrap();
    say(&format!("pid={};", std::process::id()));
    child.wait().unwrap();
    wait();
}

/// Starts a child that ignores hang-ups and waits in the same terminal, and ends before the child.
#[allow(clippy::zombie_processes, reason = "the child is to outlive this process")]
fn leave_child() {
    let mut child = scene::role("deaf", &[]).stdout(Stdio::piped()).spawn().unwrap();
    say(&scene::first_line(&mut child));
}

/// Starts a child in a process group of its own, and then ends, or waits like the child.
#[allow(clippy::zombie_processes, reason = "the child is to outlive this process")]
fn background(ends: bool) {
    let mut child = scene::role("wait", &[]);
    say(&format!("pid={};", system::in_own_group(&mut child).spawn().unwrap().id()));
    if !ends {
        wait();
    }
}

/// Leaves behind a process that ignores hang-ups, and waits.
fn leave_deaf() {
    scene::role("start-deaf", &[]).status().unwrap();
    say("orphaned;");
    wait();
}

/// Starts a process that ignores hang-ups, and ends.
#[allow(clippy::zombie_processes, reason = "the child is to outlive this process")]
fn start_deaf() {
    let mut child = scene::role("deaf-wait", &[]).stdout(Stdio::piped()).spawn().unwrap();
    say(&scene::first_line(&mut child));
}

/// Starts a process without a terminal, and ends at once.
#[allow(clippy::zombie_processes, reason = "the child is to outlive this process")]
fn launch() {
    let mut child = scene::role("wait", &[]);
    system::without_terminal(&mut child).stdin(Stdio::null()).stdout(Stdio::null());
    say(&format!("pid={};", child.stderr(Stdio::null()).spawn().unwrap().id()));
}

/// Prints `ready` and waits for a line of input.
fn wait_for_a_line() {
    say("ready;");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
}

fn exec_at_a_line(next: &str) {
    wait_for_a_line();
    panic!("{}", system::exec(&mut scene::role(next, &[])));
}

fn exec_shell_at_a_line() {
    wait_for_a_line();
    let mut shell = Command::new("sh");
    panic!("{}", system::exec(shell.args(["-c", "echo 'shell ready;'; read line"])));
}

/// Starts a child with a pipe as its input.
fn piped_child() {
    let mut child = scene::role("wait", &[]).stdin(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
}

/// Starts a child without standard input, which opens the terminal itself.
fn opener_parent() {
    let mut child = scene::role("opener", &[]).stdin(Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
}

fn opener() {
    let _terminal = File::open("/dev/tty").unwrap();
    say("opened;");
    wait();
}

/// Waits for a line of input, starts a child that takes the terminal for a process group of its
/// own, and takes the terminal back after the child's end.
fn shell_like() {
    wait_for_a_line();
    let mut child = scene::role("job", &[]);
    system::in_own_group(&mut child).status().unwrap();
    system::give_terminal(std::process::id());
    say("back;");
    wait();
}

/// Takes the terminal for its process group, prints its process id, and waits for a line of input.
fn job() {
    system::give_terminal(std::process::id());
    say(&format!("pid={};", std::process::id()));
    wait_for_a_line();
}

/// Waits for a line of input and erases its command line. With `has_fork`, also forks.
fn erase(has_fork: bool) {
    wait_for_a_line();
    system::erase_command_line();
    say("erased;");
    if has_fork && !system::fork() {
        say("forked;");
    }
    wait();
}

/// Starts processes that end at once, until there is a line of input.
fn churn() {
    let line = std::thread::spawn(wait_for_a_line);
    while !line.is_finished() {
        scene::role("exit", &[Path::new("0")]).status().unwrap();
    }
}

/// Prints arguments in hex, since a console shows some characters in its own way.
fn say_arguments(arguments: &[&str]) {
    for argument in arguments {
        say(&format!("argument={};", scene::hex(argument.as_bytes())));
    }
}

/// Ignores hang-ups and waits until its standard input ends.
fn deaf() {
    let _listening = stop_signals::listen(|_| ()).unwrap();
    say(&format!("pid={};", std::process::id()));
    io::copy(&mut io::stdin(), &mut io::sink()).unwrap_or_default();
}

/// Starts a detached process, waits until nobody else has an inheritable pipe open, and ends.
fn starter(log: &str, endpoint: &str) {
    let arguments = [PLAY, "detached", endpoint].map(Into::into);
    let exe = env::current_exe().unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    system::make_inheritable(&writer);
    let mut detached = spawn_detached(&exe, &arguments, Path::new(log)).unwrap();
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert!(detached.exited().unwrap().is_none());
    say(&format!("started {} from {}", detached.pid(), system::session()));
}

/// Connects, reports its process and directory, and waits until the other side hangs up.
fn detached(endpoint: &str) {
    let mut typed = String::new();
    io::stdin().read_to_string(&mut typed).unwrap();
    say("a line for the log");
    let stream = Stream::connect(&parse(endpoint)).unwrap();
    let here = env::current_dir().unwrap();
    let here = here.file_name().unwrap().display();
    writeln!(&stream, "{} in {} at {here}{typed}", std::process::id(), system::session()).unwrap();
    scene::read_to_end(&stream);
}

/// Plays a role behind a front. Reports the end of the front if that comes first.
fn fronted(role: &str, arguments: &[&str]) -> ExitCode {
    let front = match Front::fork().unwrap() {
        Forked::Child(front) => front,
        Forked::Front(code) => return ExitCode::from(u8::try_from(code).unwrap()),
    };
    let reports = front.clone();
    std::thread::spawn(move || {
        reports.wait();
        assert!(!reports.runs());
        // The output may be a terminal that ends with the front.
        if let Some(file) = env::var_os("CONTRACT_FRONT_ENDED") {
            std::fs::write(file, "").unwrap();
        }
    });
    if role == "leave" {
        say(&format!("pid={};", std::process::id()));
        io::stdin().read_exact(&mut [0]).unwrap();
        assert!(front.runs());
        let log = File::options().append(true).create(true).open(arguments[0]).unwrap();
        front.leave(Some(log)).unwrap();
        assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0);
        say(&format!("session={};", system::session()));
        return play("wait", &[]);
    }
    let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    play(role, &arguments)
}

fn parse(endpoint: &str) -> Endpoint {
    Endpoint::parse(endpoint.as_ref()).unwrap()
}

/// Prints a line. Errors are ignored, since the reader may be gone.
fn say(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
