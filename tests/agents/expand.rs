//! What somebody sends makes a CLI attach nothing and add nothing: it is asked what was sent, but for the
//! backslashes of docs/WRAPPER.md.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Asked, Model, Reply},
    other::{Other, framed},
    relay::typed,
    sandbox::Sandbox,
};
use agent_relay::bridge::{
    frame::{Entry, Frame, Origin},
    recipe::{Book, Form},
};
use platform::pty::Size;
use std::{fs, path::Path};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// Each with files of its own, since a CLI may attach one only once.
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

/// The last of them have what gives commands.
const COMMANDS: usize = 2;

/// A picture that is one.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0Km)\xdc\0\0\0\x12IDATx\
    \x9cc\xf8\xcf\xc0\x80\x15a\x17\x1d\xb4\x12\0(\xff?\xc1n\xec\xdfa\0\0\0\0IEND\xaeB`\x82";

/// What stands in the files and in what the CLIs add.
const ADDED: [&str; 6] = [
    "VALUE",
    "included the keyword",
    "desire to invoke the agent",
    "image/png",
    "<skill>\\n<name>",
    "Content from @",
];

/// Words after which Claude Code says more in its person's name.
const WORDS: [&str; 4] = ["ultrathink", "ultracode", "ultraplan", "ultrareview"];

/// Puts everything there that could be attached; the bodies then name it.
fn furnish(household: &Household<'_>) -> Vec<String> {
    let (project, person) = (household.project(), household.person());
    let write = |file: &Path, text: &[u8]| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let described = |name: &str| format!("---\nname: {name}\ndescription: for tests\n---\nVALUE\n");
    write(&person.join(".claude/agents/helper.md"), described("helper").as_bytes());
    for skill in ["help-me", "control"] {
        let file = person.join(".codex/skills").join(skill).join("SKILL.md");
        write(&file, described(skill).as_bytes());
    }
    write(&project.join("control.txt"), b"VALUE\n");
    write(&project.join("control.png"), PICTURE);
    write(&project.join("relay"), b"VALUE\n");
    let named = |(number, body): (usize, &&str)| {
        let file = format!("f{number}.txt");
        let outside = project.parent().unwrap().join(format!("o{number}.txt"));
        let pictures =
            [project.join(format!("p{number}.png")), person.join(format!("{number}.JPG"))];
        for file in [&project.join(&file), &project.parent().unwrap().join(&file), &outside] {
            write(file, b"VALUE\n");
        }
        pictures.iter().for_each(|picture| write(picture, PICTURE));
        let skill = person.join(".codex/skills/help-me/SKILL.md");
        body.replace("FILE", &file)
            .replace("OUTSIDE", outside.to_str().unwrap())
            .replace("OTHER_PICTURE", pictures[1].to_str().unwrap())
            .replace("PICTURE", pictures[0].to_str().unwrap())
            .replace("SKILL", skill.to_str().unwrap())
    };
    BODIES.iter().enumerate().map(named).collect()
}

/// What was added to a question, or to any before it.
fn added(asked: &Asked) -> Vec<&'static str> {
    // Not what it is told of its tools.
    let said = ["messages", "input", "contents"].map(|key| asked.request[key].to_string()).concat();
    ADDED.into_iter().filter(|added| said.contains(added)).collect()
}

/// Its person's own words are expanded, so that this would have been seen.
#[track_caller]
fn expands_its_persons_words(
    agent: &mut Agent,
    household: &Household<'_>,
    model: &Model,
    count: usize,
) {
    agent.wait_until_idle();
    let picture = household.project().join("control.png");
    let (words, expanded): (_, &[&str]) = match agent.kind {
        Kind::Claude => {
            let words = format!("See @control.txt ultracode @agent-helper\n{}", picture.display());
            (words, &["VALUE", "included the keyword", "desire to invoke the agent", "image/png"])
        }
        Kind::Codex => ("Use $control for it".to_owned(), &["VALUE", "<skill>\\n<name>"]),
        Kind::Gemini => ("Look, x@control.txt here".to_owned(), &["VALUE", "Content from @"]),
    };
    agent.submit(&words);
    let asked = agent.while_running(|| model.asked(count + 1));
    assert_eq!(added(&asked[count]), expanded);
}

fn is_asked_nothing_else(kind: Kind) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let household = Household::new(&sandbox, kind, &model, "ann");
    let bodies = furnish(&household);
    let mut agent = household.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let mut wrong = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        bob.send("Ann", body);
        let asked = agent.while_running(|| model.asked(number + 1));
        let (asked, expected) = (&asked[number], typed(kind, body));
        if framed(&asked.prompt) != expected {
            wrong.push(format!("{expected:?} was {:?}", asked.prompt));
        }
        if !added(asked).is_empty() {
            wrong.push(format!("{expected:?} has {:?}", added(asked)));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", kind.name(), wrong.join("\n"));
    expands_its_persons_words(&mut agent, &household, &model, bodies.len());
}

/// Nor where what is sent is not marked as pasted, as on Windows.
fn is_asked_nothing_else_key_by_key(kind: Kind) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let household = Household::new(&sandbox, kind, &model, "ann");
    let bodies = furnish(&household);
    let expands = Book::default().choose(&[kind.name().to_owned()], "windows", None).expands;
    let origin = Origin::Delivery { from: "Bob", id: "1a2b3c4d", again: false, auth: None };
    let mut agent = household.start(SIZE, &[]);
    // Commands are another matter: as keys, they may be ones.
    let bodies = &bodies[..bodies.len() - COMMANDS];
    for (number, body) in bodies.iter().enumerate() {
        agent.wait_until_idle();
        let origin = origin.clone();
        let frame = Frame { hex: "7f3a9c", origin, body, expands: &expands, escapes_marks: false };
        let frame = String::from_utf8(frame.bytes(Form::Plain, Entry::Typed)).unwrap();
        agent.terminal.press(&frame);
        agent.terminal.wait_until_screen("what was typed", |screen| !kind.is_idle(screen));
        agent.stand_still();
        agent.terminal.press("\r");
        let asked = agent.while_running(|| model.asked(number + 1));
        assert!(added(&asked[number]).is_empty(), "{:?}: {:?}", body, added(&asked[number]));
    }
    expands_its_persons_words(&mut agent, &household, &model, bodies.len());
}

/// A text with the backslashes that docs/WRAPPER.md says it gets.
pub(crate) fn escaped(kind: Kind, text: &str) -> String {
    let lines = text.split('\n').map(|line| match kind {
        Kind::Claude => claude(line),
        Kind::Codex => codex(line),
        Kind::Gemini => gemini(line),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn gemini(line: &str) -> String {
    let mut escaped = String::new();
    for character in line.chars() {
        let before = escaped.chars().rev().take_while(|&it| it == '\\').count();
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
            || before.ends_with(|it: char| it.is_whitespace() || "。、？！".contains(it));
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
        for behind in ["", "\"", "'"] {
            if let Some(rest) = escaped.strip_suffix(&format!("{end}{behind}")) {
                escaped = format!("{rest}{end}\\{behind}");
            }
        }
        escaped = escaped.replace(&format!("{end} /"), &format!("{end}\\ /"));
    }
    escaped
}

#[test]
fn claude_is_asked_nothing_else() {
    is_asked_nothing_else(Kind::Claude);
}

#[test]
fn codex_is_asked_nothing_else() {
    is_asked_nothing_else(Kind::Codex);
}

#[test]
fn gemini_is_asked_nothing_else() {
    is_asked_nothing_else(Kind::Gemini);
}

#[test]
fn claude_is_asked_nothing_else_key_by_key() {
    is_asked_nothing_else_key_by_key(Kind::Claude);
}

#[test]
fn codex_is_asked_nothing_else_key_by_key() {
    is_asked_nothing_else_key_by_key(Kind::Codex);
}

#[test]
fn gemini_is_asked_nothing_else_key_by_key() {
    is_asked_nothing_else_key_by_key(Kind::Gemini);
}
