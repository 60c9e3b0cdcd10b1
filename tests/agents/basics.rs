//! What everything else rests on, for each CLI by its name: it starts, is asked, answers, writes it down.

use crate::{
    agent::{Household, Kind},
    model::{Model, Reply},
    sandbox::{Sandbox, until},
    transcript::Who,
};
use platform::pty::Size;

const SIZE: Size = Size { rows: 40, cols: 100 };

const PROMPT: &str = "First line\n\n```sh\nls *.rs | wc -l\n```\n- an item: 字, é, 🎉\nlast line";

/// With what the screens throw away: fences, list marks, the ends of lines.
const REPLY: &str = "An **exact** answer:\n\n```rust\nfn main() {\n    println!(\"->relay:Bob\");\n}\n```\n\n\
    - one\n- two\n\nA paragraph that is longer than the screen is wide, so that the CLI has to break it \
    somewhere in the middle of a sentence. 字 🎉\n\nTHE END";

fn is_asked_and_answers(kind: Kind) {
    let model = Model::with_replies([
        Reply::new().says(REPLY).in_pieces_of(7),
        Reply::new().says("Yes, again."),
    ]);
    let sandbox = Sandbox::empty();
    let household = Household::new(&sandbox, kind, &model, "ann");
    let mut agent = household.start(SIZE, &[]);
    agent.wait_until_idle();
    agent.submit(PROMPT);
    assert_eq!(model.asked(1)[0].prompt, PROMPT);
    agent.terminal.wait_for("THE END");
    until("the transcript has the answer", || household.has_said(Who::Model, REPLY));
    until("the transcript has the prompt", || household.has_said(Who::User, PROMPT));
    agent.wait_until_idle();
    agent.submit("Again?");
    agent.terminal.wait_for("Yes, again.");
    let asked = model.asked(2);
    assert_eq!(asked.len(), 2, "only what was typed is asked");
    assert_eq!(asked[1].prompt, "Again?");
    until("the transcript has both answers", || household.has_said(Who::Model, "Yes, again."));
    assert_eq!(household.transcripts().len(), 1);
}

#[test]
fn claude_is_asked_and_answers() {
    is_asked_and_answers(Kind::Claude);
}

#[test]
fn codex_is_asked_and_answers() {
    is_asked_and_answers(Kind::Codex);
}

#[test]
fn gemini_is_asked_and_answers() {
    is_asked_and_answers(Kind::Gemini);
}

fn asks_before_it_runs_a_command(kind: Kind) {
    let model = Model::start(|asked| match asked.result {
        None => Reply::new().says("I will run it.").runs("echo ran > made"),
        Some(_) => Reply::new().says("It has run."),
    });
    let sandbox = Sandbox::empty();
    let household = Household::new(&sandbox, kind, &model, "ann");
    let mut agent = household.start(SIZE, &[]);
    agent.wait_until_idle();
    agent.submit("Run it.");
    let (question, yes) = kind.permission();
    agent.terminal.wait_for(question);
    assert!(!household.project().join("made").exists(), "it ran without being allowed to");
    agent.answer(question, yes);
    agent.terminal.wait_for("It has run.");
    agent.wait_until_idle();
    let asked = model.asked(2);
    assert_eq!((asked.len(), asked[1].prompt.as_str()), (2, "Run it."));
    assert_eq!(std::fs::read_to_string(household.project().join("made")).unwrap(), "ran\n");
}

#[test]
fn claude_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Kind::Claude);
}

#[test]
fn codex_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Kind::Codex);
}

#[test]
fn gemini_asks_before_it_runs_a_command() {
    asks_before_it_runs_a_command(Kind::Gemini);
}

fn is_the_same_in_the_wrapper(kind: Kind) {
    let model = Model::start(|asked| Reply::new().says(asked.prompt.to_uppercase()));
    let sandbox = Sandbox::new();
    let household = Household::new(&sandbox, kind, &model, "ann");
    let mut agent = household.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    let mut asking = sandbox.join("Asking");
    assert!(asking.agents().iter().any(|agent| agent["name"] == "Ann" && agent["here"] == true));
    agent.submit("typed by a person");
    agent.terminal.wait_for("TYPED BY A PERSON");
    assert_eq!(model.asked(1)[0].prompt, "typed by a person");
}

#[test]
fn claude_is_the_same_in_the_wrapper() {
    is_the_same_in_the_wrapper(Kind::Claude);
}

#[test]
fn codex_is_the_same_in_the_wrapper() {
    is_the_same_in_the_wrapper(Kind::Codex);
}

#[test]
fn gemini_is_the_same_in_the_wrapper() {
    is_the_same_in_the_wrapper(Kind::Gemini);
}
