//! Programs that use the whole screen and read keys instead of lines.

use super::{File, PROGRAM, Program};

#[test]
fn vim_runs_no_message() {
    Program {
        needs: &["vim.tiny"],
        command: &["vim.tiny", "-u", "NONE", "-i", "NONE", "-n"],
        prompt: "~",
        bodies: &[":!touch {mark}", "\u{1b}:w {mark}\r", "i\nx\n\u{1b}\n:w! {mark}\n"],
        leave: &[":\r", "\u{1b}:q!\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn nano_runs_no_message() {
    Program {
        needs: &["nano"],
        command: &["nano", "--ignorercfiles"],
        prompt: "Ctrl+G. ]",
        bodies: &["\u{12}\u{18}touch {mark}\r", "x\u{f}{mark}\r"],
        leave: &["\u{c}", "\u{18}"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn less_runs_no_message() {
    Program {
        needs: &["less"],
        files: &[("long", File::Text("one\ntwo\nthree\n"))],
        command: &["less", "long"],
        prompt: "three",
        bodies: &["!touch {mark}", "\n!touch {mark}\n", "s{mark}\n", "|.touch {mark}"],
        leave: &["\r", "q"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn more_runs_no_message() {
    Program {
        needs: &["more", "seq"],
        command: &["sh", "-c", "seq 1000 >long; exec more long"],
        prompt: "%)",
        bodies: &["!touch {mark}", "\n!touch {mark}\n"],
        leave: &["\r", "q"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn midnight_commander_runs_no_message() {
    Program {
        needs: &["mc"],
        command: &["mc", "--nosubshell", "--nomouse"],
        prompt: "10Quit",
        leave: &["\u{c}", "\u{1b}[21~"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn midnight_commander_with_a_shell_runs_no_message() {
    Program {
        needs: &["mc", "bash"],
        command: &["env", "SHELL=/bin/bash", "mc", "--nomouse"],
        prompt: "10Quit",
        leave: &["\u{c}", "\u{1b}[21~"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn top_runs_no_message() {
    Program {
        needs: &["top"],
        command: &["top"],
        prompt: "COMMAND",
        leave: &["\r", "q"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn watch_runs_no_message() {
    Program {
        needs: &["watch"],
        command: &["watch", "-t", "echo watched"],
        prompt: "watched",
        leave: &["\u{3}"],
        ..PROGRAM
    }
    .runs_no_message();
}
