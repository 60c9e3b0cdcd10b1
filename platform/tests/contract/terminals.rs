//! Commands in pseudo-terminals, and a process's own terminal.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    time::Duration,
};

use platform::pty::{self, Pty, Size};

use crate::{
    roles::PLAY,
    scene::{Folder, SIZE, Screen, hex, role_command},
    system,
};

pub(crate) fn an_exit_code_is_reported() {
    for code in [0, 7, 255] {
        let screen = Screen::play("exit", &[&code.to_string()]);
        let pty = screen.pty.clone();
        assert_eq!(screen.finish().0, code);
        assert_eq!(pty.wait().unwrap(), code);
        assert_eq!(pty.try_wait().unwrap(), Some(code));
        assert_eq!(pty.end(Duration::ZERO).unwrap(), code);
        pty.kill().unwrap();
    }
}

pub(crate) fn a_signal_is_an_exit_code() {
    let mut screen = Screen::play("wait", &[]);
    screen.wait_for("pid=");
    assert_eq!(screen.pty.try_wait().unwrap(), None);
    system::signal("TERM", screen.pty.pid());
    assert_eq!(screen.finish().0, 128 + 15);
}

pub(crate) fn a_missing_command_is_named() {
    let folder = Folder::new();
    let spawn = |command: &str, cwd| Pty::spawn(&[OsString::from(command)], &[], cwd, SIZE);
    for missing in ["no-such-command-anywhere", "./no-such-command-here"] {
        let error = spawn(missing, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(missing), "{error}");
    }
    let error = spawn("anything", Some(&folder.path("nowhere"))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("nowhere"), "{error}");
    let error = Pty::spawn(&[], &[], None, SIZE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

pub(crate) fn a_command_sees_its_surroundings() {
    let folder = Folder::new();
    let here = folder.path("here");
    std::fs::create_dir(&here).unwrap();
    let env = [
        ("CONTRACT_SET".into(), Some("a value".into())),
        ("PATH_TO_NOTHING".into(), Some("x".into())),
        ("PATH_TO_NOTHING".into(), None),
    ];
    let command = role_command("surroundings", &["CONTRACT_SET", "PATH_TO_NOTHING"]);
    let mut screen = Screen::new(Pty::spawn(&command, &env, Some(&here), SIZE).unwrap());
    screen.wait_for("value=a value;");
    screen.wait_for("without=true;");
    screen.wait_for("here=here;");
    screen.wait_for("terminal=true;");
    screen.wait_for("size=30x90;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn what_is_typed_is_read() {
    let mut screen = Screen::play("echo", &[]);
    screen.wait_for("ready;");
    screen.type_keys("hello\r");
    screen.wait_for("got=hello;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn a_resize_reaches_the_command() {
    let mut screen = Screen::play("size", &[]);
    screen.wait_for("size=30x90;");
    screen.pty.resize(Size { rows: 41, cols: 123 }).unwrap();
    screen.wait_for("size=41x123;");
    assert_eq!(screen.finish().0, 0);
}

/// Windows's pseudo console asks where the cursor is, and holds the command until it is told.
pub(crate) fn the_cursor_is_told() {
    let screen = Screen::play("exit", &["3"]);
    let (code, output) = screen.finish();
    assert_eq!(code, 3);
    assert!(!output.contains("\x1b[6n"), "{output:?}");
}

pub(crate) fn a_closed_terminal_ends_its_reader() {
    // The command's child keeps the terminal open after the command is gone.
    let mut screen = Screen::play("leave-child", &[]);
    screen.wait_for("pid=");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn a_command_ends_with_what_it_started() {
    for by_force in [false, true] {
        let mut screen = Screen::play("parent", &[]);
        let pids: Vec<u32> = (0..2)
            .map(|_| {
                screen.wait_for("pid=");
                screen.read_until(";").parse().unwrap()
            })
            .collect();
        if by_force {
            screen.pty.kill().unwrap();
            assert_ne!(screen.pty.wait().unwrap(), 0);
        } else {
            screen.pty.end(Duration::from_secs(5)).unwrap();
        }
        screen.finish();
        for pid in pids {
            system::wait_for_end(pid);
        }
    }
}

/// Whoever is in no terminal and no family of the command's is in its job.
pub(crate) fn what_a_launcher_left_ends_as_well() {
    let mut screen = Screen::play("launch", &[]);
    screen.wait_for("pid=");
    let pid = screen.read_until(";").parse().unwrap();
    assert_eq!(screen.finish().0, 0);
    system::wait_for_end(pid);
}

pub(crate) fn a_batch_file_gets_what_it_is_given() {
    batch_file_gets(&[
        "plain",
        "",
        "a b",
        "a&echo b",
        "a|b",
        "a<b>c",
        "^a^",
        "a!b!",
        "a=b,c;d",
        "(a)",
        "--x=\"y z\"",
        "a\"&echo b",
        "a\"b\"&c",
        r"c:\d\",
        r#"\""#,
        "Größe 字",
    ]);
}

pub(crate) fn a_batch_file_gets_names_of_variables() {
    batch_file_gets(&["100%", "%CONTRACT%", "a%", "%%", "%cd:~,%"]);
}

/// As it passes them on to another program, which is what most batch files are for.
fn batch_file_gets(arguments: &[&str]) {
    let folder = Folder::new();
    let spawned = spawn_batch_file(&folder, &[&[PLAY, "arguments"], arguments].concat());
    let mut screen = Screen::new(spawned.unwrap());
    for argument in arguments {
        screen.wait_for("argument=");
        assert_eq!(screen.read_until(";"), hex(argument.as_bytes()), "{argument}");
    }
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn a_batch_file_gets_no_line_break_and_not_too_much() {
    let folder = Folder::new();
    for refused in ["a\nb", "a\rb"] {
        let error = spawn_batch_file(&folder, &["a", refused]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("{refused:?}")), "{error}");
    }
    let error = spawn_batch_file(&folder, &["a".repeat(9000).as_str()]).unwrap_err();
    assert!(error.to_string().contains("can't be given so much"), "{error}");
}

fn spawn_batch_file(folder: &Folder, arguments: &[&str]) -> io::Result<Pty> {
    let script = folder.path("a b&c.cmd");
    std::fs::write(&script, "@echo off\r\n\"%CONTRACT%\" %*\r\n")?;
    let env = [("CONTRACT".into(), Some(std::env::current_exe()?.into_os_string()))];
    let arguments = arguments.iter().map(OsString::from);
    let command: Vec<_> = [script.into_os_string()].into_iter().chain(arguments).collect();
    Pty::spawn(&command, &env, None, SIZE)
}

pub(crate) fn raw_mode_ends_when_dropped() {
    raw_mode("drop");
}

pub(crate) fn raw_mode_ends_in_a_panic() {
    raw_mode("panic");
}

fn raw_mode(ending: &str) {
    let mut screen = Screen::play("raw", &[ending]);
    screen.wait_for("ready;");
    assert_eq!(screen.pty.gathers_lines(), cfg!(unix).then_some(false));
    screen.type_keys("x");
    screen.wait_for("key=120;");
    if ending == "panic" {
        screen.wait_for("hook;");
    }
    screen.wait_for("cooked;");
    assert_eq!(screen.pty.gathers_lines(), cfg!(unix).then_some(true));
    screen.type_keys("abX\x7fc\r");
    screen.wait_for("line=abc;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn every_key_arrives() {
    let mut screen = Screen::play("keys", &[]);
    screen.wait_for("ready;");
    let keys = "\x1a\x04a\u{e9}\u{20ac}X";
    screen.type_keys(keys);
    screen.wait_for(&format!("keys={};", hex(keys.as_bytes())));
    screen.wait_for("then=0;");
    assert_eq!(screen.finish().0, 0);
}

/// A person who presses Shift alone is no reason to wait for what comes after it.
pub(crate) fn what_types_nothing_holds_nobody_up() {
    let mut screen = Screen::play("modifiers", &[]);
    screen.wait_for("read=0;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn a_torn_character_harms_nothing_after_it() {
    let mut screen = Screen::play("torn", &[]);
    screen.wait_for("\u{20ac}");
    screen.wait_for("whole;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn ctrl_c_is_told() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    screen.type_keys("\x03");
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn ctrl_break_is_a_key_in_raw_mode() {
    let mut screen = Screen::play("raw-signals", &[]);
    screen.wait_for("raw=Break;");
    screen.wait_for("cooked=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn ctrl_break_is_typed() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    screen.keys.write_all(pty::CTRL_BREAK).unwrap();
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn an_interrupt_is_told() {
    let mut screen = Screen::play("signals", &["self"]);
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn termination_is_told() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    system::signal("TERM", screen.pty.pid());
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn a_hang_up_is_told() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    system::signal("HUP", screen.pty.pid());
    screen.wait_for("signal=HangUp;");
    system::signal("WINCH", screen.pty.pid());
    screen.wait_for("signal=Resize;");
    screen.type_keys("\x03");
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}
