//! Questions from an operator's shell to a wrapped CLI, and messages from an agent's own shell.
//!
//! The agent answers to the name in the frame's header. A message from the agent's shell has the
//! agent's name as its sender.

use crate::{
    cli::Cli,
    peer::{Peer, frame_body_from, start_ann, start_ann_with},
};
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
    waiting::output,
};

const COLUMNS: u16 = 100;

/// The sentence in the frame of a message from an operator.
const OPERATOR_SENTENCE: &str = "Written at a command line of your user's account.";

const QUESTION: &str = "Which port does the server use?";

/// The value after `word` in a frame's header.
#[track_caller]
fn header_value<'a>(asked: &'a Asked, word: &str) -> &'a str {
    let header = asked.prompt.lines().next().unwrap_or_default();
    let rest = header.split_once(word).unwrap_or_else(|| panic!("no {word:?} in {header}")).1;
    rest.split([',', ']']).next().unwrap_or_default()
}

/// A model that addresses its answer with the name and the id in the frame.
fn answering_model() -> Model {
    Model::start(|asked| {
        assert_eq!(frame_body_from(OPERATOR_SENTENCE, &asked.prompt), QUESTION);
        let (from, id) = (header_value(asked, " from "), header_value(asked, ", id "));
        Reply::new().says(format!("I say it.\n\n->relay:{from} [reply:{id}] <<<\n8080, {from}>>>"))
    })
}

fn answers_an_operator(cli: Cli, options: &[&str]) {
    let (model, sandbox) = (answering_model(), Sandbox::new());
    let (_workspace, agent) = start_ann_with(&sandbox, cli, &model, COLUMNS, options);
    let ask = sandbox.command(["ask", "--timeout", "50s", "Ann", QUESTION]);
    let asked = agent.with_screen_on_panic(|| {
        let asked = output(ask);
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        asked
    });
    let answer = String::from_utf8(asked.stdout).unwrap();
    let name = if cli == Cli::Codex { "@operator" } else { r"\@operator" };
    let asked = &model.wait_for_requests(1)[0];
    assert_eq!(header_value(asked, " from "), name);
    assert_eq!(answer.replace('\\', ""), "8080, @operator\n");
}

fn answers_an_operator_from_both_sources(cli: Cli) {
    answers_an_operator(cli, &[]);
    answers_an_operator(cli, &["--grid"]);
}

#[test]
fn claude_answers_an_operator() {
    answers_an_operator_from_both_sources(Cli::Claude);
}

#[test]
fn codex_answers_an_operator() {
    answers_an_operator_from_both_sources(Cli::Codex);
}

#[test]
fn gemini_answers_an_operator() {
    answers_an_operator_from_both_sources(Cli::Gemini);
}

/// Checks `agent-relay send` when the model runs it in the CLI's shell tool and the user allows the
/// command.
fn shell_command_sends_as_its_agent(cli: Cli) {
    let relay = std::path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let command = format!("{} send Bob hello", relay.display());
    let model = Model::start(move |asked| match asked.result {
        None => Reply::new().says("I tell him.").runs(&*command),
        Some(_) => Reply::new().says("I have told him."),
    });
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, COLUMNS);
    agent.submit("Tell him.");
    let (question, yes) = cli.permission();
    agent.answer(question, yes);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(2));
    let received = bob.receive(&agent);
    assert_eq!((&*received.from, &*received.body), ("Ann", "hello"), "{:?}", asked[1].result);
}

#[test]
fn claude_shell_command_sends_as_its_agent() {
    shell_command_sends_as_its_agent(Cli::Claude);
}

#[test]
fn codex_shell_command_sends_as_its_agent() {
    shell_command_sends_as_its_agent(Cli::Codex);
}

#[test]
fn gemini_shell_command_sends_as_its_agent() {
    shell_command_sends_as_its_agent(Cli::Gemini);
}
