//! A process that a shell waits for, and its child, which does the work.

use std::fs;

use platform::{foreground::Observer, pty::Pty};

use crate::{
    scene::{Folder, SIZE, Screen, role_command},
    system,
};

/// Starts a role behind a front. Returns its screen and its process id.
fn play(role: &str) -> (Screen, u32) {
    let mut screen = Screen::play("fronted", &[role]);
    screen.wait_for("pid=");
    let pid = screen.read_until(";").parse().unwrap();
    assert_ne!(pid, screen.pty.pid());
    (screen, pid)
}

pub(crate) fn front_ends_as_its_child_does() {
    for code in [0, 7, 255] {
        let screen = Screen::play("fronted", &["exit", &code.to_string()]);
        assert_eq!(screen.finish().0, code);
    }
    for (signal, number) in [("KILL", 9), ("ALRM", 14)] {
        let (screen, child) = play("wait");
        system::signal(signal, child);
        assert_eq!(screen.finish().0, 128 + number);
    }
}

pub(crate) fn front_passes_signals_on() {
    let mut screen = Screen::play("fronted", &["signals"]);
    screen.wait_for("ready;");
    system::signal("HUP", screen.pty.pid());
    screen.wait_for("signal=HangUp;");
    system::signal("TERM", screen.pty.pid());
    screen.wait_for("signal=Stop;");
    assert_eq!(screen.finish().0, 0);
    let (screen, child) = play("wait");
    system::signal("INT", screen.pty.pid());
    assert_eq!(screen.finish().0, 128 + 2);
    assert!(!system::is_alive(child));
}

pub(crate) fn front_stops_with_its_child() {
    let (screen, child) = play("wait");
    let front = screen.pty.pid();
    let mut observer = Observer::new(&screen.pty, None);
    let mut stopped = || {
        let mut all = observer.look().unwrap();
        all.retain(|process| process.is_stopped);
        all.len()
    };
    for _ in 0..3 {
        system::signal("STOP", child);
        system::until(|| stopped() == 2);
        system::signal("CONT", front);
        system::until(|| stopped() == 0);
    }
    system::signal("TERM", front);
    assert_eq!(screen.finish().0, 128 + 15);
}

pub(crate) fn child_leaves_its_front_and_the_terminal() {
    let folder = Folder::new();
    let log = folder.path("log");
    let mut screen = Screen::play("fronted", &["leave", log.to_str().unwrap()]);
    screen.wait_for("pid=");
    let child = screen.read_until(";");
    screen.type_keys("\r");
    // The output ends although the child continues.
    assert_eq!(screen.finish().0, 0);
    let session = format!("session={};", system::detached_session(&child));
    system::until(|| fs::read_to_string(&log).is_ok_and(|text| text.contains(&session)));
    let child = child.parse().unwrap();
    assert!(system::is_alive(child));
    system::signal("TERM", child);
    system::wait_for_end(child);
}

pub(crate) fn child_learns_of_the_end_of_its_front() {
    let folder = Folder::new();
    let ended = folder.path("ended");
    let variable = ("CONTRACT_FRONT_ENDED".into(), Some(ended.clone().into_os_string()));
    let command = role_command("fronted", &["deaf-wait"]);
    let mut screen = Screen::new(Pty::spawn(&command, &[variable], None, SIZE).unwrap());
    screen.wait_for("pid=");
    let child = screen.read_until(";").parse().unwrap();
    system::signal("KILL", screen.pty.pid());
    system::until(|| ended.exists());
    assert!(system::is_alive(child));
    system::signal("KILL", child);
    system::wait_for_end(child);
    assert_eq!(screen.finish().0, 128 + 9);
}
