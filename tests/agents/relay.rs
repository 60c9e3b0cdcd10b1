//! Exact transfer of the corpus, from a CLI's model to a peer and from a peer to the model.

use crate::{
    cli::{Cli, Workspace},
    expansion::escaped,
    loops::set_wake_budget,
    peer::{Peer, frame_body, start_ann},
};
use platform::pty::Size;
use terminal::{brief, frame::clean};
use testkit::{
    bodies::{Body, bodies},
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
};

/// The number of messages in one reply of an agent, and of messages that wait for the agent at the
/// same time.
const AT_A_TIME: usize = 5;

/// A message to Bob as written by the agent.
fn relay_message(body: &str) -> String {
    let body =
        body.replace("<<<", "\\<<<").replace(">>>", "\\>>>").replace("->relay:", "\\->relay:");
    // A backslash directly before the close would escape it.
    let end = if body.ends_with('\\') { "\n>>>" } else { ">>>" };
    format!("->relay:Bob <<<\n{body}{end}")
}

/// A text as the CLI records it: Gemini CLI drops some invisible characters.
fn recorded(cli: Cli, text: &str) -> String {
    let left_out = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
    text.chars().filter(|&c| cli != Cli::Gemini || !left_out(c)).collect()
}

fn messages_arrive_exactly(cli: Cli, columns: u16, bodies: &[Body]) {
    let turns: Vec<&[Body]> = bodies.chunks(AT_A_TIME).collect();
    let replies = turns.iter().map(|turn| {
        let messages: Vec<String> = turn.iter().map(|body| relay_message(&body.text)).collect();
        Reply::new().says(format!("I tell Bob.\n\n{}\n\nDone.", messages.join("\n\n")))
    });
    let (model, sandbox) = (Model::with_replies(replies), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, columns);
    let mut wrong = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        agent.wait_until_idle();
        agent.submit(&format!("Tell him part {number}"));
        for body in *turn {
            let received = bob.receive(&agent);
            if received.body != recorded(cli, &body.text) {
                wrong.push(format!("{}: {:?}", body.name, received.body));
            }
        }
    }
    assert!(wrong.is_empty(), "{} sent\n{}", cli.name(), wrong.join("\n"));
}

fn messages_reach_it_exactly(cli: Cli, columns: u16, bodies: &[Body]) {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    set_wake_budget(&sandbox, bodies.len());
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, agent) = start_ann(&sandbox, cli, &model, columns);
    let (mut count, mut wrong) = (0, Vec::new());
    for turn in bodies.chunks(AT_A_TIME) {
        for body in turn {
            bob.send("Ann", &body.text);
        }
        count += turn.len();
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count));
        for (asked, body) in asked[count - turn.len()..].iter().zip(turn) {
            let expected = typed(cli, &body.text);
            if frame_body(&asked.prompt) != expected {
                wrong.push(format!("{}: {:?}", body.name, frame_body(&asked.prompt)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} was asked\n{}", cli.name(), wrong.join("\n"));
}

/// Checks that the brief arrives first, unchanged and once, and that an agent sends no message by
/// repeating the brief.
fn gets_the_brief_first(cli: Cli) {
    let text = brief::first_words(&brief::text(Some("Ann")));
    let repeats = format!("I have read this:\n\n{}", brief::text(Some("Ann")));
    let model = Model::start(move |asked| match asked.prompt.contains("second") {
        true => Reply::new().says(relay_message("all")),
        false => Reply::new().says(&*repeats),
    });
    let sandbox = Sandbox::new();
    let (bob, workspace) =
        (Peer::join(&sandbox, "Bob"), Workspace::new(&sandbox, cli, &model, "ann"));
    // Ann is known from an earlier session, so the relay queues messages for her.
    drop(Peer::join(&sandbox, "Ann"));
    bob.send("Ann", "first");
    let agent = workspace.wrap_with(&["-n", "Ann", "--brief"], Size { rows: 40, cols: 100 }, &[]);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(2));
    let (brief_prompt, mail) = (&asked[0].prompt, &asked[1].prompt);
    let text =
        escaped(cli, &format!(" from @relay] The relay wrote this, not your user.\n{text}\n"));
    assert!(brief_prompt.contains(&format!("{text}[/relay ")), "{brief_prompt}");
    assert_eq!(frame_body(mail), "first");
    bob.send("Ann", "second");
    assert_eq!(
        frame_body(&agent.with_screen_on_panic(|| model.wait_for_requests(3))[2].prompt),
        "second"
    );
    assert_eq!(bob.receive(&agent).body, "all");
}

/// Checks that a hook delivers the brief with the first prompt, and again after the conversation
/// was cleared, and that only the message is typed.
fn gets_the_brief_from_its_hook(cli: Cli) {
    let text = serde_json::to_string(brief::text(Some("Ann")).trim_end()).unwrap();
    let briefs = |asked: &Asked| asked.request.to_string().matches(text.trim_matches('"')).count();
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let (bob, workspace) =
        (Peer::join(&sandbox, "Bob"), Workspace::new(&sandbox, cli, &model, "ann"));
    let size = Size { rows: 40, cols: 100 };
    let mut agent = workspace.wrap_with(&["-n", "Ann", "--brief"], size, &[]);
    agent.wait_until_idle();
    bob.send("Ann", "first");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(1));
    assert_eq!((frame_body(&asked[0].prompt), briefs(&asked[0])), ("first", 1));
    agent.wait_until_idle();
    agent.enter_command("/clear");
    agent.terminal.wait_until("an empty screen", |text| !text.contains("Noted."));
    agent.wait_until_idle();
    agent.submit("second");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(2));
    assert_eq!((&*asked[1].prompt, briefs(&asked[1])), ("second", 1));
}

#[test]
fn claude_gets_the_brief_from_its_hook() {
    gets_the_brief_from_its_hook(Cli::Claude);
}

#[test]
fn codex_gets_the_brief_from_its_hook() {
    gets_the_brief_from_its_hook(Cli::Codex);
}

#[test]
fn gemini_gets_the_brief_first() {
    gets_the_brief_first(Cli::Gemini);
}

/// A body as received by the model: without control characters, and with escapes.
///
/// Claude Code also replaces tabs with blanks and composes letters; Gemini CLI drops characters
/// without width.
pub(crate) fn typed(cli: Cli, body: &str) -> String {
    let body = escaped(cli, body);
    let body = match cli {
        Cli::Claude => {
            let composed =
                [("\t", "    "), ("e\u{301}", "é"), ("a\u{30a}", "å"), ("n\u{303}", "ñ")];
            composed.iter().fold(body, |body, (from, to)| body.replace(from, to))
        }
        Cli::Codex => body,
        Cli::Gemini => body.replace(['\u{200b}', '\u{feff}'], ""),
        _ => cli.is_unknown_here(),
    };
    let forged = |line: &str| line.starts_with("[relay ") || line.starts_with("[/relay ");
    let clean = clean(&body);
    let lines = clean
        .split('\n')
        .map(|line| if forged(line) { format!("\\{line}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

macro_rules! each_cli {
    ($($name:ident: $cli:expr, $play:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let play: fn(Cli, u16, &[Body]) = $play;
                for (columns, bodies) in bodies() {
                    play($cli, columns, &bodies);
                }
            }
        )*
    };
}

each_cli! {
    claude_messages_arrive_exactly: Cli::Claude, messages_arrive_exactly;
    codex_messages_arrive_exactly: Cli::Codex, messages_arrive_exactly;
    gemini_messages_arrive_exactly: Cli::Gemini, messages_arrive_exactly;
    messages_reach_claude_exactly: Cli::Claude, messages_reach_it_exactly;
    messages_reach_codex_exactly: Cli::Codex, messages_reach_it_exactly;
    messages_reach_gemini_exactly: Cli::Gemini, messages_reach_it_exactly;
}
