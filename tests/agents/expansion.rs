//! Tests that no received message makes a CLI attach a file or add text.
//!
//! The model gets exactly the sent text, except for the backslashes that docs/AGENTS.md specifies.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, frame_body},
    relay::typed,
};
use platform::pty::Size;
use std::{fs, path::Path};
use terminal::{
    frame::{Entry, Head, MessageFrame, Origin},
    recipe::{Book, Form},
};
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// Message bodies with placeholders for paths. Each body gets its own files, since a CLI may attach
/// a file only once.
const BODIES: [&str; 19] = [
    "@FILE",
    "mail x@FILE or ann@example.org",
    "look at @FILE now",
    "(@FILE), \"@FILE\" -@FILE:@FILE *@FILE*",
    "@\"FILE\" and 。@FILE！@FILE",
    "\\@FILE \\\\@FILE \\\\\\@FILE x",
    "\u{a0}@FILE \u{200b}@FILE",
    "a\n\n  @FILE\n\t@FILE#L1\n- @FILE",
    "@../FILE and @OUTSIDE",
    "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n@FILE\nten @FILE",
    "PICTURE",
    "see PICTURE\nand OTHER_PICTURE /etc/hosts",
    "\"PICTURE\"\n'OTHER_PICTURE'",
    "of PICTURE, too",
    "$help-me x$help-me, [$help-me](SKILL) and $skill-creator",
    "@helper @agent-helper @\"helper (agent)\" @server:resource",
    "Please Ultrathink, ultracode, ultraplan and ultrareview it",
    "- /help\n/help\n!ls\n#note\n&x {{args}} !{ls} @{FILE} $HOME ${HOME}",
    "[Pasted text #1 +2 lines] [Image #1] [Pasted Text: 5 lines] [Pasted Content 9 chars]",
];

/// How many bodies at the end of [`BODIES`] contain commands of a CLI.
const COMMANDS: usize = 2;

/// A valid PNG picture.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0Km)\xdc\0\0\0\x12IDATx\
    \x9cc\xf8\xcf\xc0\x80\x15a\x17\x1d\xb4\x12\0(\xff?\xc1n\xec\xdfa\0\0\0\0IEND\xaeB`\x82";

/// Texts that a request contains only if the CLI has attached a file or added text.
const ADDED: [&str; 6] = [
    "VALUE",
    "included the keyword",
    "desire to invoke the agent",
    "image/png",
    "<skill>\\n<name>",
    "Content from @",
];

/// Words that make Claude Code add text to the user's prompt.
const WORDS: [&str; 4] = ["ultrathink", "ultracode", "ultraplan", "ultrareview"];

/// Creates all files that could be attached, and returns the bodies with these files' paths.
fn write_attachable_files(workspace: &Workspace<'_>) -> Vec<String> {
    let (project, user_home) = (workspace.project(), workspace.user_home());
    let write = |file: &Path, text: &[u8]| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let described = |name: &str| format!("---\nname: {name}\ndescription: for tests\n---\nVALUE\n");
    write(&user_home.join(".claude/agents/helper.md"), described("helper").as_bytes());
    for skill in ["help-me", "control"] {
        let file = user_home.join(".codex/skills").join(skill).join("SKILL.md");
        write(&file, described(skill).as_bytes());
    }
    write(&project.join("control.txt"), b"VALUE\n");
    write(&project.join("control.png"), PICTURE);
    write(&project.join("relay"), b"VALUE\n");
    let named = |(number, body): (usize, &&str)| {
        let file = format!("f{number}.txt");
        let outside = project.parent().unwrap().join(format!("o{number}.txt"));
        let pictures =
            [project.join(format!("p{number}.png")), user_home.join(format!("{number}.JPG"))];
        for file in [&project.join(&file), &project.parent().unwrap().join(&file), &outside] {
            write(file, b"VALUE\n");
        }
        pictures.iter().for_each(|picture| write(picture, PICTURE));
        let skill = user_home.join(".codex/skills/help-me/SKILL.md");
        body.replace("FILE", &file)
            .replace("OUTSIDE", outside.to_str().unwrap())
            .replace("OTHER_PICTURE", pictures[1].to_str().unwrap())
            .replace("PICTURE", pictures[0].to_str().unwrap())
            .replace("SKILL", skill.to_str().unwrap())
    };
    BODIES.iter().enumerate().map(named).collect()
}

/// Returns the texts of [`ADDED`] in a request.
fn added(asked: &Asked) -> Vec<&'static str> {
    // Only the conversation counts, not the descriptions of tools.
    let conversation =
        ["messages", "input", "contents"].map(|key| asked.request[key].to_string()).concat();
    ADDED.into_iter().filter(|added| conversation.contains(added)).collect()
}

/// Checks that the CLI does expand the user's own text, so that the test would notice the expansion
/// of a message.
#[track_caller]
fn check_user_text_is_expanded(
    agent: &mut Agent,
    workspace: &Workspace<'_>,
    model: &Model,
    count: usize,
) {
    agent.wait_until_idle();
    let picture = workspace.project().join("control.png");
    let (words, expanded): (_, &[&str]) = match agent.cli {
        Cli::Claude => {
            let words = format!("See @control.txt ultracode @agent-helper\n{}", picture.display());
            (words, &["VALUE", "included the keyword", "desire to invoke the agent", "image/png"])
        }
        Cli::Codex => ("Use $control for it".to_owned(), &["VALUE", "<skill>\\n<name>"]),
        Cli::Gemini => ("Look, x@control.txt here".to_owned(), &["VALUE", "Content from @"]),
        cli => cli.is_unknown_here(),
    };
    agent.submit(&words);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count + 1));
    assert_eq!(added(&asked[count]), expanded);
}

fn expands_nothing_in_a_pasted_message(cli: Cli) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let bodies = write_attachable_files(&workspace);
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let mut wrong = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        bob.send("Ann", body);
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(number + 1));
        let (asked, expected) = (&asked[number], typed(cli, body));
        if frame_body(&asked.prompt) != expected {
            wrong.push(format!("{expected:?} was {:?}", asked.prompt));
        }
        if !added(asked).is_empty() {
            wrong.push(format!("{expected:?} has {:?}", added(asked)));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", cli.name(), wrong.join("\n"));
    check_user_text_is_expanded(&mut agent, &workspace, &model, bodies.len());
}

/// Checks messages that are typed without paste marks, as on Windows.
fn expands_nothing_in_a_typed_message(cli: Cli) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let bodies = write_attachable_files(&workspace);
    let expands = Book::default().choose(&[cli.name().to_owned()], "windows", None).expands;
    let head = Head { from: "Bob", id: "1a2b3c4d", ..Head::default() };
    let origin = Origin::Delivery(head);
    let mut agent = workspace.start(SIZE, &[]);
    // Without paste marks, a command in a body may act as a command of the CLI.
    let bodies = &bodies[..bodies.len() - COMMANDS];
    for (number, body) in bodies.iter().enumerate() {
        agent.wait_until_idle();
        let origin = origin.clone();
        let frame =
            MessageFrame { hex: "7f3a9c", origin, body, expands: &expands, escapes_marks: false };
        let frame = String::from_utf8(frame.bytes(Form::Plain, Entry::Typed)).unwrap();
        agent.terminal.press(&frame);
        agent.terminal.wait_until_screen("the typed text", |screen| !cli.is_idle(screen));
        agent.wait_until_still();
        agent.terminal.press("\r");
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(number + 1));
        assert!(added(&asked[number]).is_empty(), "{:?}: {:?}", body, added(&asked[number]));
    }
    check_user_text_is_expanded(&mut agent, &workspace, &model, bodies.len());
}

/// A text with the backslashes that docs/AGENTS.md specifies.
pub(crate) fn escaped(cli: Cli, text: &str) -> String {
    let lines = text.split('\n').map(|line| match cli {
        Cli::Claude => claude(line),
        Cli::Codex => codex(line),
        Cli::Gemini => gemini(line),
        _ => cli.is_unknown_here(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn gemini(line: &str) -> String {
    let mut escaped = String::new();
    for character in line.chars() {
        let before = escaped.chars().rev().take_while(|&c| c == '\\').count();
        if character == '@' && before % 2 == 0 {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn codex(line: &str) -> String {
    let mut escaped = String::new();
    for character in line.chars() {
        let named = character.is_alphanumeric() || "_-:".contains(character);
        if named && (escaped.ends_with('$') || escaped.ends_with("[@")) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn claude(line: &str) -> String {
    let mut escaped = String::new();
    for character in line.chars() {
        let before = escaped.trim_end_matches(['\u{200b}', '\u{feff}']);
        let begins = before.is_empty()
            || before.ends_with(|c: char| c.is_whitespace() || "。、？！".contains(c));
        if character == '@' && begins {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    for word in WORDS {
        while let Some(at) = escaped.to_ascii_lowercase().find(word) {
            escaped.insert(at + 1, '\\');
        }
    }
    for end in [".png", ".JPG"] {
        for quote in ["", "\"", "'"] {
            if let Some(rest) = escaped.strip_suffix(&format!("{end}{quote}")) {
                escaped = format!("{rest}{end}\\{quote}");
            }
        }
        escaped = escaped.replace(&format!("{end} /"), &format!("{end}\\ /"));
    }
    escaped
}

#[test]
fn claude_expands_nothing_in_a_pasted_message() {
    expands_nothing_in_a_pasted_message(Cli::Claude);
}

#[test]
fn codex_expands_nothing_in_a_pasted_message() {
    expands_nothing_in_a_pasted_message(Cli::Codex);
}

#[test]
fn gemini_expands_nothing_in_a_pasted_message() {
    expands_nothing_in_a_pasted_message(Cli::Gemini);
}

#[test]
fn claude_expands_nothing_in_a_typed_message() {
    expands_nothing_in_a_typed_message(Cli::Claude);
}

#[test]
fn codex_expands_nothing_in_a_typed_message() {
    expands_nothing_in_a_typed_message(Cli::Codex);
}

#[test]
fn gemini_expands_nothing_in_a_typed_message() {
    expands_nothing_in_a_typed_message(Cli::Gemini);
}
