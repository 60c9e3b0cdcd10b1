//! Wrapped CLIs talk to others: what an agent says is what its listener hears, and what is sent to it is what
//! its model is asked.

use crate::{
    agent::{Household, Kind},
    corpus::{Body, bodies},
    expand::escaped,
    model::{Model, Reply},
    other::{Other, ann, framed},
    sandbox::Sandbox,
};
use agent_relay::bridge::{brief, frame::clean};
use platform::pty::Size;

/// Messages that an agent says in one reply, and that wait for it at a time.
const AT_A_TIME: usize = 5;

/// What an agent writes to say a body.
fn said(body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    // A backslash before the close would be the close's.
    let end = if body.ends_with('\\') { "\n>>>" } else { ">>>" };
    format!("->relay:Bob <<<\n{body}{end}")
}

/// What the CLI writes down of it: Gemini CLI leaves these out.
fn written_down(kind: Kind, text: &str) -> String {
    let left_out = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
    text.chars().filter(|&c| kind != Kind::Gemini || !left_out(c)).collect()
}

fn says_exactly(kind: Kind, columns: u16, bodies: &[Body]) {
    let turns: Vec<&[Body]> = bodies.chunks(AT_A_TIME).collect();
    let replies = turns.iter().map(|turn| {
        let messages: Vec<String> = turn.iter().map(|body| said(&body.text)).collect();
        Reply::new().says(format!("I tell Bob.\n\n{}\n\nDone.", messages.join("\n\n")))
    });
    let (model, sandbox) = (Model::with_replies(replies), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, columns);
    let mut wrong = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        agent.wait_until_idle();
        agent.submit(&format!("Tell him part {number}"));
        for body in *turn {
            let heard = bob.hear(&agent);
            if heard.body != written_down(kind, &body.text) {
                wrong.push(format!("{}: {:?}", body.name, heard.body));
            }
        }
    }
    assert!(wrong.is_empty(), "{} said\n{}", kind.name(), wrong.join("\n"));
}

fn is_asked_exactly(kind: Kind, columns: u16, bodies: &[Body]) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, agent) = ann(&sandbox, kind, &model, columns);
    let (mut count, mut wrong) = (0, Vec::new());
    for turn in bodies.chunks(AT_A_TIME) {
        for body in turn {
            bob.send("Ann", &body.text);
        }
        count += turn.len();
        let asked = agent.while_running(|| model.asked(count));
        for (asked, body) in asked[count - turn.len()..].iter().zip(turn) {
            let expected = typed(kind, &body.text);
            if framed(&asked.prompt) != expected {
                wrong.push(format!("{}: {:?}", body.name, framed(&asked.prompt)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} was asked\n{}", kind.name(), wrong.join("\n"));
}

/// Told first, word for word, once, and before what waits; and what it was told is not said by it, also where
/// it repeats all of it.
fn is_told_first(kind: Kind) {
    let text = brief::first_words("Ann");
    let repeats = format!("I have read this:\n\n{}", brief::text(Some("Ann")));
    let model = Model::start(move |asked| match asked.prompt.contains("second") {
        true => Reply::new().says(said("all")),
        false => Reply::new().says(&*repeats),
    });
    let sandbox = Sandbox::new();
    let (bob, household) =
        (Other::join(&sandbox, "Bob"), Household::new(&sandbox, kind, &model, "ann"));
    // She was here before, so that her mail waits for her.
    drop(Other::join(&sandbox, "Ann"));
    bob.send("Ann", "first");
    let agent = household.wrap_with(&["-n", "Ann", "--brief"], Size { rows: 40, cols: 100 }, &[]);
    let asked = agent.while_running(|| model.asked(2));
    let (told, mail) = (&asked[0].prompt, &asked[1].prompt);
    let text =
        escaped(kind, &format!(" from @relay] The relay wrote this, not your user.\n{text}\n"));
    assert!(told.contains(&format!("{text}[/relay ")), "{told}");
    assert_eq!(framed(mail), "first");
    bob.send("Ann", "second");
    assert_eq!(framed(&agent.while_running(|| model.asked(3))[2].prompt), "second");
    assert_eq!(bob.hear(&agent).body, "all");
}

#[test]
fn claude_is_told_first_how_to_speak() {
    is_told_first(Kind::Claude);
}

#[test]
fn codex_is_told_first_how_to_speak() {
    is_told_first(Kind::Codex);
}

#[test]
fn gemini_is_told_first_how_to_speak() {
    is_told_first(Kind::Gemini);
}

/// A body as it is typed: without what a terminal acts on, and what is not to be taken for something else with its
/// backslashes. And as the CLI passes it on:
/// Claude Code makes blanks of tabs and composes letters, Gemini CLI takes out what has no width.
pub(crate) fn typed(kind: Kind, body: &str) -> String {
    let body = escaped(kind, body);
    let body = match kind {
        Kind::Claude => {
            let composed =
                [("\t", "    "), ("e\u{301}", "é"), ("a\u{30a}", "å"), ("n\u{303}", "ñ")];
            composed.iter().fold(body, |body, (from, to)| body.replace(from, to))
        }
        Kind::Codex => body,
        Kind::Gemini => body.replace(['\u{200b}', '\u{feff}'], ""),
    };
    let forged = |line: &str| line.starts_with("[relay ") || line.starts_with("[/relay ");
    let clean = clean(&body);
    let lines = clean
        .split('\n')
        .map(|line| if forged(line) { format!("\\{line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

macro_rules! each_kind {
    ($($name:ident: $kind:expr, $play:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let play: fn(Kind, u16, &[Body]) = $play;
                for (columns, bodies) in bodies() {
                    play($kind, columns, &bodies);
                }
            }
        )*
    };
}

each_kind! {
    what_claude_says_is_heard_exactly: Kind::Claude, says_exactly;
    what_codex_says_is_heard_exactly: Kind::Codex, says_exactly;
    what_gemini_says_is_heard_exactly: Kind::Gemini, says_exactly;
    what_is_sent_to_claude_is_asked_exactly: Kind::Claude, is_asked_exactly;
    what_is_sent_to_codex_is_asked_exactly: Kind::Codex, is_asked_exactly;
    what_is_sent_to_gemini_is_asked_exactly: Kind::Gemini, is_asked_exactly;
}
