//! A person asks a wrapped CLI from a shell, and is answered as the header of the frame names them; and what an
//! agent's own shell sends comes from the agent.

use crate::{
    agent::Kind,
    model::{Asked, Model, Reply},
    other::{Other, ann, ann_with, framed_with},
    sandbox::{Sandbox, output},
};

const COLUMNS: u16 = 100;

/// What the frame says of a person at a command line.
const OF_OPERATOR: &str = "Written at a command line of your user's account.";

const QUESTION: &str = "Which port does the server use?";

/// What stands in a frame's header behind this word.
#[track_caller]
fn behind<'a>(asked: &'a Asked, word: &str) -> &'a str {
    let header = asked.prompt.lines().next().unwrap_or_default();
    let rest = header.split_once(word).unwrap_or_else(|| panic!("no {word:?} in {header}")).1;
    rest.split([',', ']']).next().unwrap_or_default()
}

/// Answers whoever asks, by the name and the id that the frame shows.
fn answers() -> Model {
    Model::start(|asked| {
        assert_eq!(framed_with(OF_OPERATOR, &asked.prompt), QUESTION);
        let (from, id) = (behind(asked, " from "), behind(asked, ", id "));
        Reply::new().says(format!("I say it.\n\n->relay:{from} [reply:{id}] <<<\n8080, {from}>>>"))
    })
}

fn answers_its_person(kind: Kind, options: &[&str]) {
    let (model, sandbox) = (answers(), Sandbox::new());
    let (_household, agent) = ann_with(&sandbox, kind, &model, COLUMNS, options);
    let ask = sandbox.command(["ask", "--timeout", "50s", "Ann", QUESTION]);
    let asked = agent.while_running(|| {
        let asked = output(ask);
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        asked
    });
    let answer = String::from_utf8(asked.stdout).unwrap();
    let name = if kind == Kind::Codex { "@operator" } else { r"\@operator" };
    let asked = &model.asked(1)[0];
    assert_eq!(behind(asked, " from "), name);
    assert_eq!(answer.replace('\\', ""), "8080, @operator\n");
}

fn answers_its_person_from_both_sources(kind: Kind) {
    answers_its_person(kind, &[]);
    answers_its_person(kind, &["--grid"]);
}

#[test]
fn claude_answers_its_person() {
    answers_its_person_from_both_sources(Kind::Claude);
}

#[test]
fn codex_answers_its_person() {
    answers_its_person_from_both_sources(Kind::Codex);
}

#[test]
fn gemini_answers_its_person() {
    answers_its_person_from_both_sources(Kind::Gemini);
}

/// Its person allows the command, where the CLI asks.
fn sends_from_its_own_shell(kind: Kind) {
    let relay = std::path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let command = format!("{} send Bob hello", relay.display());
    let model = Model::start(move |asked| match asked.result {
        None => Reply::new().says("I tell him.").runs(&*command),
        Some(_) => Reply::new().says("I have told him."),
    });
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, COLUMNS);
    agent.submit("Tell him.");
    let (question, yes) = kind.permission();
    agent.answer(question, yes);
    let asked = agent.while_running(|| model.asked(2));
    let heard = bob.hear(&agent);
    assert_eq!((&*heard.from, &*heard.body), ("Ann", "hello"), "{:?}", asked[1].result);
}

#[test]
fn the_shell_of_claude_speaks_in_its_agents_name() {
    sends_from_its_own_shell(Kind::Claude);
}

#[test]
fn the_shell_of_codex_speaks_in_its_agents_name() {
    sends_from_its_own_shell(Kind::Codex);
}

#[test]
fn the_shell_of_gemini_speaks_in_its_agents_name() {
    sends_from_its_own_shell(Kind::Gemini);
}
