//! The processes that would read what is typed, and the files they run.

use std::{fs, io};

use platform::{
    foreground::{FileId, Observer, Process, same_content, serve_console_members},
    pty::Pty,
};

use crate::{
    roles::PLAY,
    scene::{Folder, SIZE, Screen, role_command},
    system,
};

/// Plays a role in a terminal that is observed from the start.
fn observed(role: &str, arguments: &[&str]) -> (Screen, Observer) {
    observe(Pty::spawn(&role_command(role, arguments), &[], None, SIZE).unwrap())
}

fn observe(pty: Pty) -> (Screen, Observer) {
    let observer = Observer::new(&pty, Some(role_command("console-members", &[])));
    (Screen::new(pty), observer)
}

/// The process that plays a role. Under Wine, another process is a launcher of the tests, which
/// plays no role.
#[track_caller]
fn player<'a>(processes: &'a [Process], role: &str) -> &'a Process {
    let plays = |process: &&Process| {
        let arguments = process.arguments.as_deref().unwrap_or_default();
        arguments.len() > 2 && arguments[1] == PLAY && arguments[2] == role
    };
    processes.iter().find(plays).unwrap_or_else(|| panic!("no {role} in {processes:#?}"))
}

fn own_file() -> FileId {
    FileId::of(&std::env::current_exe().unwrap()).unwrap()
}

pub(crate) fn command_is_listed_with_executable_and_arguments() {
    let folder = Folder::new();
    let command = role_command("wait", &["an argument", "", "\"quoted\" \\"]);
    let (mut screen, mut observer) =
        observe(Pty::spawn(&command, &[], Some(&folder.path("")), SIZE).unwrap());
    screen.wait_for("pid=");
    let pid: u32 = screen.read_until(";").parse().unwrap();
    let processes = observer.look().unwrap();
    let process = player(&processes, "wait");
    assert_eq!(process.pid, pid);
    assert_eq!(process.executable.as_ref().unwrap().file, own_file());
    assert_eq!(process.arguments.as_ref(), Some(&command));
    let directory = process.directory.as_deref().unwrap();
    assert_eq!(FileId::of(directory).unwrap(), FileId::of(&folder.path("")).unwrap());
    assert!(!process.is_stopped);
    assert_eq!(process.reads_terminal, cfg!(unix).then_some(true));
    if cfg!(unix) {
        assert_eq!((pid, processes.len()), (screen.pty.pid(), 1));
        assert_eq!(process.parent, Some(std::process::id()));
    }
}

pub(crate) fn executed_program_replaces_the_one_before() {
    let (mut screen, mut observer) = observed("exec", &[]);
    screen.wait_for("ready;");
    let first = observer.mark().unwrap();
    player(&observer.look().unwrap(), "exec");
    screen.type_keys("\r");
    screen.wait_for("ready;");
    let second = observer.mark().unwrap();
    let processes = observer.look().unwrap();
    let player_again = player(&processes, "exec-shell");
    assert_eq!(player_again.pid, screen.pty.pid());
    assert_eq!(player_again.executable.as_ref().unwrap().file, own_file());
    screen.type_keys("\r");
    screen.wait_for("shell ready;");
    let third = observer.mark().unwrap();
    let shell = observer.look().unwrap().remove(0);
    assert_eq!(shell.arguments.unwrap()[0], "sh");
    assert_ne!(shell.executable.as_ref().unwrap().file, own_file());
    assert_ne!(first, second);
    assert_ne!(second, third);
    screen.type_keys("\r");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn child_on_the_terminal_is_listed_with_its_parent() {
    let (mut screen, mut observer) = observed("parent", &[]);
    for _ in 0..2 {
        screen.wait_for("pid=");
    }
    let processes = observer.look().unwrap();
    let (parent, child) = (player(&processes, "parent"), player(&processes, "deaf-wait"));
    assert_eq!(child.parent, Some(parent.pid));
    assert_eq!(child.reads_terminal, cfg!(unix).then_some(true));
}

pub(crate) fn child_on_a_pipe_does_not_read_the_terminal() {
    let (mut screen, mut observer) = observed("piped-child", &[]);
    screen.wait_for("pid=");
    let processes = observer.look().unwrap();
    assert_eq!(player(&processes, "piped-child").reads_terminal, Some(true));
    assert_eq!(player(&processes, "wait").reads_terminal, Some(false));
}

pub(crate) fn process_that_opened_the_terminal_reads_it() {
    let (mut screen, mut observer) = observed("opener-parent", &[]);
    screen.wait_for("opened;");
    let processes = observer.look().unwrap();
    assert_eq!(player(&processes, "opener").reads_terminal, Some(true));
}

pub(crate) fn foreground_group_of_a_child_is_listed_alone() {
    let (mut screen, mut observer) = observed("shell-like", &[]);
    screen.wait_for("ready;");
    let before = observer.mark().unwrap();
    assert_eq!(observer.mark(), Some(before));
    screen.type_keys("\r");
    screen.wait_for("pid=");
    let child: u32 = screen.read_until(";").parse().unwrap();
    screen.wait_for("ready;");
    let processes = observer.look().unwrap();
    assert_eq!(processes.len(), 1, "{processes:#?}");
    assert_eq!(player(&processes, "job").pid, child);
    assert_eq!(processes[0].parent, Some(screen.pty.pid()));
    let meanwhile = observer.mark().unwrap();
    assert_ne!(meanwhile, before);
    screen.type_keys("\r");
    screen.wait_for("back;");
    player(&observer.look().unwrap(), "shell-like");
    assert_eq!(observer.mark(), Some(before));
}

pub(crate) fn suspended_process_is_stopped() {
    let (mut screen, mut observer) = observed("wait", &[]);
    screen.wait_for("pid=");
    assert!(!player(&observer.look().unwrap(), "wait").is_stopped);
    let pid = screen.pty.pid();
    for (signal, is_stopped) in [("STOP", true), ("CONT", false)] {
        system::signal(signal, pid);
        system::until(|| player(&observer.look().unwrap(), "wait").is_stopped == is_stopped);
    }
}

pub(crate) fn erased_command_line_is_remembered() {
    let (mut screen, mut observer) = observed("erase", &[]);
    screen.wait_for("ready;");
    player(&observer.look().unwrap(), "erase");
    screen.type_keys("\r");
    screen.wait_for("erased;");
    assert_eq!(
        player(&observer.look().unwrap(), "erase").arguments.as_ref(),
        Some(&role_command("erase", &[]))
    );
    let mut late = Observer::new(&screen.pty, Some(role_command("console-members", &[])));
    let unknown = |process: &Process| process.arguments != Some(role_command("erase", &[]));
    assert!(late.look().unwrap().iter().all(unknown));
}

pub(crate) fn fork_has_its_parents_command_line() {
    let (mut screen, mut observer) = observed("erase", &["fork"]);
    screen.wait_for("ready;");
    screen.type_keys("\r");
    screen.wait_for("erased;");
    screen.wait_for("forked;");
    let processes = observer.look().unwrap();
    let line = Some(role_command("erase", &["fork"]));
    let lines: Vec<_> = processes.iter().map(|process| &process.arguments).collect();
    assert_eq!(lines, [&line, &line]);
}

pub(crate) fn look_survives_ending_processes() {
    let (mut screen, mut observer) = observed("churn", &[]);
    screen.wait_for("ready;");
    for _ in 0..20 {
        match observer.look() {
            Ok(processes) => drop(player(&processes, "churn").clone()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    screen.type_keys("\r");
    assert_eq!(screen.finish().0, 0);
}

pub(crate) fn observer_does_not_keep_the_terminal_open() {
    let (mut screen, mut observer) = observed("echo", &[]);
    screen.wait_for("ready;");
    player(&observer.look().unwrap(), "echo");
    screen.type_keys("\r");
    assert_eq!(screen.finish().0, 0);
    assert_eq!(observer.look().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(observer.mark(), None);
}

pub(crate) fn hard_link_is_the_same_file_and_a_copy_has_its_content() {
    let folder = Folder::new();
    let [file, link, copy, other] = ["file", "link", "copy", "other"].map(|it| folder.path(it));
    fs::write(&file, vec![7; 200_000]).unwrap();
    fs::hard_link(&file, &link).unwrap();
    fs::copy(&file, &copy).unwrap();
    let mut bytes = vec![7; 200_000];
    bytes[199_999] = 8;
    fs::write(&other, bytes).unwrap();
    let id = |path| FileId::of(path).unwrap();
    assert_eq!(id(&file), id(&link));
    assert_ne!(id(&file), id(&copy));
    assert!(same_content(&file, &link).unwrap() && same_content(&file, &copy).unwrap());
    assert!(!same_content(&file, &other).unwrap());
    fs::write(&other, "").unwrap();
    assert!(!same_content(&file, &other).unwrap());
    let missing = folder.path("missing");
    for error in [FileId::of(&missing).unwrap_err(), same_content(&file, &missing).unwrap_err()] {
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("missing"), "{error}");
    }
    let error = same_content(&folder.path(""), &folder.path("")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

pub(crate) fn symbolic_link_is_the_file_it_leads_to() {
    let folder = Folder::new();
    let (file, link) = (folder.path("file"), folder.path("link"));
    fs::write(&file, "x").unwrap();
    system::symbolic_link(&file, &link);
    assert_eq!(FileId::of(&file).unwrap(), FileId::of(&link).unwrap());
}

pub(crate) fn removed_executable_is_known() {
    let folder = Folder::new();
    let copy = folder.path("a program");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let file = FileId::of(&copy).unwrap();
    let command = [&[copy.clone().into_os_string()], &role_command("wait", &[])[1..]].concat();
    let (mut screen, mut observer) = observe(Pty::spawn(&command, &[], None, SIZE).unwrap());
    screen.wait_for("pid=");
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "another").unwrap();
    let processes = observer.look().unwrap();
    let executable = player(&processes, "wait").executable.as_ref().unwrap();
    assert_eq!((&executable.path, executable.file), (&fs::canonicalize(&copy).unwrap(), file));
}

pub(crate) fn member_server_is_unsupported_elsewhere() {
    assert_eq!(serve_console_members().unwrap_err().kind(), io::ErrorKind::Unsupported);
}

pub(crate) fn member_server_is_not_a_member() {
    let (mut screen, mut observer) = observed("wait", &[]);
    screen.wait_for("pid=");
    let processes = observer.look().unwrap();
    let mut other = Observer::new(&screen.pty, Some(role_command("console-members", &[])));
    assert_eq!(other.look().unwrap(), processes);
    assert_eq!(observer.look().unwrap(), processes);
}

pub(crate) fn look_without_a_member_server_fails() {
    let screen = Screen::play("wait", &[]);
    let error = Observer::new(&screen.pty, None).look().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

pub(crate) fn member_server_restarts_are_limited() {
    let screen = Screen::play("wait", &[]);
    let mut observer = Observer::new(&screen.pty, Some(role_command("exit", &["1"])));
    let errors: Vec<String> = (0..10).map(|_| observer.look().unwrap_err().to_string()).collect();
    assert!(errors[0].contains("ended"), "{errors:#?}");
    assert!(errors[9].contains("failed repeatedly"), "{errors:#?}");
    let mut other = Observer::new(&screen.pty, Some(role_command("wait", &[])));
    let error = other.look().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}
