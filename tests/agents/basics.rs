//! Basic behaviour of each CLI: it starts, is asked, answers, and writes a transcript.

use crate::{
    cli::{Cli, Workspace},
    peer::{Peer, await_typed, frame_body},
    transcript::Speaker,
};
use platform::pty::Size;
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::until,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

const PROMPT: &str = "First line\n\n```sh\nls *.rs | wc -l\n```\n- an item: 字, é, 🎉\nlast line";

/// A reply with fences, list marks and line ends. A screen does not show all of them.
const REPLY: &str = "An **exact** answer:\n\n```rust\nfn main() {\n    println!(\"->relay:Bob\");\n}\n```\n\n\
    - one\n- two\n\nA paragraph that is longer than the screen is wide, so that the CLI has to break it \
    somewhere in the middle of a sentence. 字 🎉\n\nTHE END";

fn answers_and_records_both_sides(cli: Cli) {
    let model = Model::with_replies([
        Reply::new().says(REPLY).in_pieces_of(7),
        Reply::new().says("Yes, again."),
    ]);
    let sandbox = Sandbox::empty();
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let mut agent = workspace.start(SIZE, &[]);
    agent.wait_until_idle();
    agent.submit(PROMPT);
    assert_eq!(model.wait_for_requests(1)[0].prompt, PROMPT);
    agent.terminal.wait_for("THE END");
    until("the transcript has the answer", || workspace.has_recorded(Speaker::Model, REPLY));
    until("the transcript has the prompt", || workspace.has_recorded(Speaker::User, PROMPT));
    agent.wait_until_idle();
    agent.submit("Again?");
    agent.terminal.wait_for("Yes, again.");
    let asked = model.wait_for_requests(2);
    assert_eq!(asked.len(), 2, "only the typed prompts are asked");
    assert_eq!(asked[1].prompt, "Again?");
    until("the transcript has both answers", || {
        workspace.has_recorded(Speaker::Model, "Yes, again.")
    });
    assert_eq!(workspace.transcripts().len(), 1);
}

#[test]
fn claude_answers_and_records_both_sides() {
    answers_and_records_both_sides(Cli::Claude);
}

#[test]
fn codex_answers_and_records_both_sides() {
    answers_and_records_both_sides(Cli::Codex);
}

#[test]
fn gemini_answers_and_records_both_sides() {
    answers_and_records_both_sides(Cli::Gemini);
}

fn asks_before_it_runs_a_command(cli: Cli) {
    let model = Model::start(|asked| match asked.result {
        None => Reply::new().says("I will run it.").runs("echo ran > made"),
        Some(_) => Reply::new().says("It has run."),
    });
    let sandbox = Sandbox::empty();
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let mut agent = workspace.start(SIZE, &[]);
    agent.wait_until_idle();
    agent.submit("Run it.");
    let (question, yes) = cli.permission();
    agent.terminal.wait_for(question);
    assert!(!workspace.project().join("made").exists(), "the command ran without permission");
    agent.answer(question, yes);
    agent.terminal.wait_for("It has run.");
    agent.wait_until_idle();
    let asked = model.wait_for_requests(2);
    assert_eq!((asked.len(), asked[1].prompt.as_str()), (2, "Run it."));
    assert_eq!(std::fs::read_to_string(workspace.project().join("made")).unwrap(), "ran\n");
}

#[test]
fn claude_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Cli::Claude);
}

#[test]
fn codex_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Cli::Codex);
}

#[test]
fn gemini_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Cli::Gemini);
}

/// In each CLI, the first choice allows the command once.
fn question_is_answered_from_top(cli: Cli) {
    let model = Model::start(|asked| match asked.result {
        None => Reply::new().says("I will run it.").runs("echo ran > made"),
        Some(_) => Reply::new().says("It has run."),
    });
    let sandbox = Sandbox::new();
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    agent.submit("Run it.");
    agent.terminal.wait_for(cli.permission().0);
    let mut top = Terminal::command_in(&sandbox, SIZE, &["top"]);
    top.wait_for("1-9 answer");
    assert!(!workspace.project().join("made").exists(), "the command ran without permission");
    top.press("1");
    agent.terminal.wait_for("It has run.");
    assert_eq!(std::fs::read_to_string(workspace.project().join("made")).unwrap(), "ran\n");
    top.wait_until("no question", |text| !text.contains("1-9 answer"));
    if !matches!(cli, Cli::Qwen | Cli::Copilot) {
        // The scripted model counts 100 tokens for each request and 10 for its answer.
        top.wait_for("; context: 110");
    }
    top.press("q");
    assert_eq!(top.finish(), 0);
}

#[test]
fn claude_is_answered_from_top() {
    question_is_answered_from_top(Cli::Claude);
}

#[test]
fn codex_is_answered_from_top() {
    question_is_answered_from_top(Cli::Codex);
}

#[test]
fn gemini_is_answered_from_top() {
    question_is_answered_from_top(Cli::Gemini);
}

#[test]
fn qwen_is_answered_from_top() {
    question_is_answered_from_top(Cli::Qwen);
}

#[test]
fn copilot_is_answered_from_top() {
    question_is_answered_from_top(Cli::Copilot);
}

fn works_in_the_wrapper(cli: Cli) {
    let model = Model::start(|asked| Reply::new().says(asked.prompt.to_uppercase()));
    let sandbox = Sandbox::new();
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let mut asking = sandbox.join("Asking");
    assert!(asking.agents().iter().any(|agent| agent["name"] == "Ann" && agent["here"] == true));
    agent.submit("typed by a person");
    agent.terminal.wait_for("TYPED BY A PERSON");
    assert_eq!(model.wait_for_requests(1)[0].prompt, "typed by a person");
}

#[test]
fn claude_works_in_the_wrapper() {
    works_in_the_wrapper(Cli::Claude);
}

#[test]
fn codex_works_in_the_wrapper() {
    works_in_the_wrapper(Cli::Codex);
}

#[test]
fn gemini_works_in_the_wrapper() {
    works_in_the_wrapper(Cli::Gemini);
}

/// In the mode without questions, Gemini CLI's composer has a star as its mark.
#[test]
fn gemini_receives_messages_in_its_mode_without_questions() {
    let (model, sandbox) = (Model::with_replies([Reply::new().says("Noted.")]), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, Cli::Gemini, &model, "ann");
    let agent = workspace.wrap("Ann", SIZE, &["--yolo"]);
    agent.terminal.wait_for(" *   Type your message");
    let id = bob.send("Ann", "hello");
    await_typed(&sandbox, &agent, &id);
    assert_eq!(frame_body(&model.wait_for_requests(1)[0].prompt), "hello");
}
