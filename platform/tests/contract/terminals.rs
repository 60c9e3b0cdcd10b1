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

/// A terminal's answer to the question for its attributes, as that of a wrapper.
const ATTRIBUTES: &str = "\x1b[?62;22c";

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

pub(crate) fn command_gets_its_environment() {
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

pub(crate) fn typed_text_reaches_the_command() {
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

/// Windows's pseudo console asks for the cursor's position, and holds the command until the answer.
pub(crate) fn cursor_position_is_answered() {
    let screen = Screen::play("exit", &["3"]);
    let (code, output) = screen.finish();
    assert_eq!(code, 3);
    assert!(!output.contains("\x1b[6n"), "{output:?}");
}

/// The terminal is asked by the command, or by Windows's pseudo console, which waits for parameters.
pub(crate) fn device_attributes_reach_the_command() {
    let mut screen = Screen::play("attributes", &[]);
    screen.answer("\x1b[c", ATTRIBUTES, "attributes=1b5b3f");
    assert!(screen.read_until(";").ends_with("63"));
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn paste_marks_reach_the_command() {
    keys_arrive("\x1b[200~a /b\x1b[201~X");
}

/// A program that reads keys can tell the line breaks of a text from an Enter.
pub(crate) fn line_feed_is_no_enter() {
    keys_arrive("a\nbX");
}

fn keys_arrive(keys: &str) {
    let mut screen = Screen::play("keys", &[]);
    screen.wait_for("ready;");
    screen.type_keys(keys);
    screen.wait_for(&format!("keys={};", hex(keys.as_bytes())));
    screen.wait_for("then=0;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn lone_escape_is_a_key() {
    let mut screen = Screen::play("key", &[]);
    screen.wait_for("ready;");
    screen.type_keys("\x1b");
    screen.wait_for("key=1b;");
    assert_eq!(screen.finish().0, 0);
}

/// The marks may arrive or not. The text does, and presses neither Enter nor Escape.
pub(crate) fn paste_is_text_without_virtual_terminal_input() {
    let mut screen = Screen::play("events", &[]);
    screen.wait_for("ready;");
    screen.type_keys("\x1b[200~a /b\nc\x1b[201~X");
    screen.wait_for("events=");
    let seen = screen.read_until(";").replace(&hex(b"\x1b[200~"), "");
    assert_eq!(seen.replace(&hex(b"\x1b[201~"), ""), hex(b"a /b\ncX"));
    assert_eq!(screen.finish().0, 0);
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

/// A background job has a process group of its own. It is hung up when the command is ended, and by
/// `leave` after the command has ended by itself.
pub(crate) fn background_group_is_hung_up() {
    for ends_by_itself in [false, true] {
        let mut screen = Screen::play("background", &[&ends_by_itself.to_string()]);
        screen.wait_for("pid=");
        let pid = screen.read_until(";").parse().unwrap();
        if ends_by_itself {
            assert_eq!(screen.pty.wait().unwrap(), 0);
            screen.pty.leave().unwrap();
        } else {
            screen.pty.end(Duration::from_secs(5)).unwrap();
        }
        system::wait_for_end(pid);
    }
}

/// A process is not the command's any more if it ignores hang-ups and its parent has ended.
pub(crate) fn daemon_is_not_ended_by_force() {
    let mut screen = Screen::play("leave-deaf", &[]);
    screen.wait_for("pid=");
    let pid: u32 = screen.read_until(";").parse().unwrap();
    screen.wait_for("orphaned;");
    screen.pty.end(Duration::ZERO).unwrap();
    assert!(system::is_alive(pid));
    system::signal("KILL", pid);
    system::wait_for_end(pid);
}

/// A descendant without the terminal is still in the command's job.
pub(crate) fn orphans_of_a_launcher_end_with_the_command() {
    let mut screen = Screen::play("launch", &[]);
    screen.wait_for("pid=");
    let pid = screen.read_until(";").parse().unwrap();
    assert_eq!(screen.finish().0, 0);
    system::wait_for_end(pid);
}

pub(crate) fn batch_file_gets_its_arguments_unchanged() {
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

pub(crate) fn batch_file_gets_variable_names_unexpanded() {
    batch_file_gets(&["100%", "%CONTRACT%", "a%", "%%", "%cd:~,%"]);
}

/// Checks that a batch file gets these arguments. It passes them on to another program, as most
/// batch files do.
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

pub(crate) fn batch_file_arguments_with_line_breaks_or_too_long_are_refused() {
    let folder = Folder::new();
    for refused in ["a\nb", "a\rb"] {
        let error = spawn_batch_file(&folder, &["a", refused]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("{refused:?}")), "{error}");
    }
    let error = spawn_batch_file(&folder, &["a".repeat(9000).as_str()]).unwrap_err();
    assert!(error.to_string().contains("is longer than the"), "{error}");
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
    keys_arrive("\x1a\x04a\u{e9}\u{20ac}X");
}

/// An interrupted read must not block after events of a key such as Shift alone.
pub(crate) fn modifier_keys_do_not_block_a_read() {
    let mut screen = Screen::play("modifiers", &[]);
    screen.wait_for("read=0;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn split_character_does_not_garble_later_output() {
    let mut screen = Screen::play("torn", &[]);
    screen.wait_for("\u{20ac}");
    screen.wait_for("whole;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn ctrl_c_is_reported() {
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

pub(crate) fn typed_ctrl_break_is_reported() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    screen.keys.write_all(pty::CTRL_BREAK).unwrap();
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn interrupt_is_reported() {
    let mut screen = Screen::play("signals", &["self"]);
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn termination_is_reported() {
    let mut screen = Screen::play("signals", &[]);
    screen.wait_for("ready;");
    system::signal("TERM", screen.pty.pid());
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn hang_up_of_the_terminal_is_reported() {
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
