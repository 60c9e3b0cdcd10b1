//! Tests with snapshots of real programs' screens, and the form for typing a text at each.
//!
//! A snapshot's first line states the cursor and the screen's modes. Rows follow. The line below a
//! row may state its dim or inverse columns.

use super::super::{Book, Shown, Spot, Typed};
use crate::{
    dialog,
    keyboard::Reader,
    obstacle::Obstacle,
    screen::{NoObserver, Screen},
};
use std::{fmt::Write as _, fs, path::Path};
use testkit::foreign_words::BODIES;

/// Returns the screen for a snapshot.
fn screen(snapshot: &str) -> Screen {
    let mut lines = snapshot.lines();
    let head = lines.next().unwrap();
    let word = |name: &str| head.split(' ').skip_while(|word| *word != name).nth(1).unwrap();
    let (columns, rows) = word("size").split_once('x').unwrap();
    let mut bytes = String::from("\x1b[?2004h");
    if word("alternate") == "true" {
        bytes.push_str("\x1b[?1049h");
    }
    let mut row: Option<(usize, Vec<char>)> = None;
    for line in lines {
        if let Some((number, text)) =
            line.split_once(['|', '>']).filter(|_| !line.starts_with("    "))
        {
            let text = text.strip_prefix('|').unwrap_or(text);
            row = Some((number.trim().parse().unwrap(), text.chars().collect()));
            let number = number.trim().parse::<usize>().unwrap() + 1;
            write!(bytes, "\x1b[{number};1H{text}").unwrap();
        } else if let Some((look, ranges)) = line.trim().split_once(": ") {
            let (number, text) = row.as_ref().unwrap();
            let code = if look == "dim" { 2 } else { 7 };
            for range in ranges.split(' ') {
                let (from, to) = range.split_once("..").unwrap();
                let (from, to) = (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap());
                let part: String = (from..to).map(|at| text.get(at).unwrap_or(&' ')).collect();
                write!(bytes, "\x1b[{};{}H\x1b[{code}m{part}\x1b[0m", number + 1, from + 1)
                    .unwrap();
            }
        }
    }
    if word("visible") == "false" {
        bytes.push_str("\x1b[?25l");
    }
    let coordinate = |name| word(name).parse::<usize>().unwrap() + 1;
    write!(bytes, "\x1b[{};{}H", coordinate("row"), coordinate("column")).unwrap();
    let mut screen = Screen::new(columns.parse().unwrap(), rows.parse().unwrap());
    screen.feed(bytes.as_bytes(), &mut NoObserver);
    screen
}

/// The screens with a dialog.
const DIALOGS: [&str; 42] = [
    "aider-dialog",
    "claude-dialog-bash",
    "claude-dialog-choices",
    "claude-dialog-fetch",
    "claude-dialog-model",
    "claude-dialog-question",
    "claude-dialog-resume",
    "claude-dialog-theme",
    "claude-dialog-write",
    "codex-dialog-command",
    "codex-dialog-command-at-left",
    "codex-dialog-command-at-menu",
    "codex-dialog-command-in-menu",
    "codex-dialog-experimental",
    "codex-dialog-model",
    "codex-dialog-permissions",
    "codex-dialog-resume",
    "codex-dialog-theme",
    "copilot-dialog-create",
    "copilot-dialog-model",
    "copilot-dialog-permission",
    "copilot-dialog-question",
    "copilot-dialog-resume",
    "copilot-dialog-theme",
    "gemini-dialog-fetch",
    "gemini-dialog-model",
    "gemini-dialog-question",
    "gemini-dialog-settings",
    "gemini-dialog-shell",
    "gemini-dialog-theme",
    "gemini-dialog-write",
    "opencode-dialog-models",
    "opencode-dialog-permission",
    "opencode-dialog-question",
    "opencode-dialog-themes",
    "opencode-dialog-write",
    "qwen-dialog-approval",
    "qwen-dialog-fetch",
    "qwen-dialog-question",
    "qwen-dialog-shell",
    "qwen-dialog-theme",
    "qwen-dialog-write",
];

const SCREENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/screens");

/// Reads a screen of an agent CLI.
fn shown(command: &str, snapshot: &str) -> Shown {
    let recipe = Book::default().choose(&[command.to_owned()], "linux", None);
    let reader = Reader::Agent(recipe.name.clone());
    recipe.read(&Spot::of(&screen(snapshot)), &reader, &[], &Typed::default())
}

#[track_caller]
fn snapshot(name: &str) -> String {
    fs::read_to_string(Path::new(SCREENS).join(format!("{name}.txt"))).unwrap()
}

#[track_caller]
fn check(name: &str, expected: &str) {
    let shown = shown(name.split('-').next().unwrap(), &snapshot(name));
    let state = match shown.form {
        Ok(_) if shown.busy.is_some() => "Busy".to_owned(),
        Ok(form) => format!("{form:?}"),
        Err(why) => format!("{why:?}"),
    };
    assert_eq!(state, expected, "{name}");
}

#[test]
fn empty_composer_takes_text() {
    for name in [
        "claude-idle",
        "claude-plan-mode",
        "codex-idle",
        "codex-start",
        "gemini-idle",
        "gemini-interrupted",
        "opencode-idle",
        "opencode-idle-again",
        "aider-idle",
        "qwen-idle",
        "qwen-idle-yolo",
        "gemini-idle-yolo",
        "copilot-idle",
    ] {
        check(name, "Plain");
    }
}

#[test]
fn agent_at_work_gets_no_text() {
    for name in [
        "claude-busy",
        "claude-queued",
        "gemini-busy",
        "gemini-queued",
        "opencode-busy",
        "qwen-busy",
        "copilot-busy",
    ] {
        check(name, "Busy");
    }
    check("aider-busy", "NoPrompt");
}

#[test]
fn dialog_gets_no_text() {
    for name in DIALOGS {
        check(name, "Dialog");
    }
}

/// The text and the numbered choices of a snapshot's dialog.
fn dialog_of(name: &str) -> String {
    let recipe = Book::default().named(name.split('-').next().unwrap(), "linux");
    let spot = Spot::of(&screen(&snapshot(name)));
    let rows: Vec<&str> = spot.rows.iter().map(String::as_str).collect();
    let choices = dialog::choices(&rows).filter(|_| recipe.digits_choose);
    let Some((text, choices)) = choices else { return format!("{name}: none\n") };
    let mut lines = format!("{name}\n");
    for line in text.lines() {
        writeln!(lines, "    {line}").unwrap();
    }
    for (number, choice) in choices.iter().enumerate() {
        writeln!(lines, "  {} {choice}", number + 1).unwrap();
    }
    lines
}

#[test]
fn choices_of_dialogs_are_read() {
    let dialogs: String = DIALOGS.iter().map(|name| dialog_of(name)).collect();
    expect_test::expect_file!["../../../data/dialogs.txt"].assert_eq(&dialogs);
}

/// A message above a dialog does not hide any of it, whatever its words.
#[test]
fn dialog_below_a_frame_gets_no_key() {
    for name in DIALOGS {
        let command = name.split('-').next().unwrap();
        let snapshot = snapshot(name);
        for body in BODIES {
            let text = format!("[relay 1a2b3c from Bob, id 1]\n{body}\n[/relay 1a2b3c]");
            let recipe = Book::default().choose(&[command.to_owned()], "linux", None);
            let reader = Reader::Agent(recipe.name.clone());
            let typed = Typed { frames: vec!["1a2b3c"], own: Some("1a2b3c") };
            let spot = Spot::of(&screen(&beginning_with(&text, &snapshot)));
            let shown = recipe.read(&spot, &reader, &[], &typed);
            assert!(shown.asks && !shown.holds_own, "{name} below {body:?}: {shown:?}");
            assert_eq!(shown.form, Err(Obstacle::Dialog), "{name} below {body:?}");
            // Some programs leave the cursor at the last painted position.
            let row = text.lines().count() - 1;
            let before = "[/relay 1a2b3c]".to_owned();
            let behind = Spot { before, after: String::new(), at: ' ', row, ..spot };
            let shown = recipe.read(&behind, &reader, &[], &typed);
            assert!(!shown.holds_own, "{name} below {body:?}: {shown:?}");
        }
    }
}

/// Returns a snapshot with these rows added at its beginning.
fn beginning_with(text: &str, snapshot: &str) -> String {
    let mut lines = snapshot.lines();
    let mut rows = vec![lines.next().unwrap().to_owned()];
    rows.extend(text.lines().enumerate().map(|(row, text)| format!("{row:3} |{text}")));
    let first = text.lines().count();
    let row = |line: &str| line.get(..3).and_then(|number| number.trim().parse::<usize>().ok());
    let rest = lines.skip_while(|line| row(line).is_none_or(|row| row < first));
    rows.extend(rest.map(str::to_owned));
    rows.join("\n")
}

#[test]
fn half_typed_line_gets_no_text() {
    for name in [
        "claude-half-typed",
        "claude-slash-menu",
        "codex-half-typed",
        "codex-slash-menu",
        "gemini-half-typed",
        "gemini-slash-menu",
        "opencode-half-typed",
        "opencode-slash-menu",
        "aider-half-typed",
        "qwen-half-typed",
        "copilot-half-typed",
        "copilot-slash-menu",
    ] {
        check(name, "HalfTyped");
    }
}

#[test]
fn shell_mode_gets_no_text() {
    for name in [
        "claude-shell-mode",
        "codex-shell-mode",
        "gemini-shell-mode",
        "qwen-shell-mode",
        "copilot-shell-mode",
    ] {
        check(name, "ShellMode");
    }
    // The composer of opencode looks the same in both modes, so another word on the screen decides.
    check("opencode-shell-mode", "Busy");
}

/// Screens of other CLIs, and a composer with another mark, imitate a new version's screens.
#[test]
fn unknown_screen_gets_no_text() {
    let mut tried = 0;
    for file in fs::read_dir(SCREENS).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        let snapshot = fs::read_to_string(file.path()).unwrap();
        let row_of_cursor = snapshot.lines().find(|line| line.contains(">|"));
        let (number, _) = row_of_cursor.unwrap_or(" 0>|").split_once('|').unwrap();
        let marked = |line: &str| match row_of_cursor == Some(line) {
            true => format!("{number}|» Write to the agent\n"),
            false => format!("{line}\n"),
        };
        let with_another_mark: String = snapshot.lines().map(marked).collect();
        for command in ["claude", "codex", "gemini", "opencode", "aider", "qwen", "copilot"] {
            // These two have the same mark.
            if ["claude", "copilot"].iter().all(|cli| command == *cli || name.starts_with(cli)) {
                continue;
            }
            let rows = match name.starts_with(command) {
                true => &with_another_mark,
                false => &snapshot,
            };
            // An empty line after `> ` is the empty composer of both.
            if command == "qwen" && name.starts_with("aider-idle") {
                continue;
            }
            let form = shown(command, rows).form;
            assert!(form.is_err(), "{command} at the screen of {name}: {form:?}");
            tried += 1;
        }
    }
    assert!(tried >= 6 * 35, "{tried}");
}
