//! Two wrapped CLIs that only answer each other.

use crate::{
    cli::{Cli, Workspace},
    peer::{frame_body, relay_line},
};
use platform::pty::Size;
use std::fs;
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
    waiting::{output, until},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// Sets how many messages two agents may exchange before further ones wait.
pub(crate) fn set_wake_budget(sandbox: &Sandbox, budget: usize) {
    let recipe =
        |cli: Cli| format!("[[recipe]]\nname = {:?}\nwake_budget = {budget}\n", cli.name());
    let recipes: String = [Cli::Claude, Cli::Codex, Cli::Gemini].map(recipe).concat();
    fs::write(sandbox.home().join("recipes.toml"), recipes).unwrap();
}

/// A script that answers each message from the other agent, and does nothing else.
fn answers(other: &'static str) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    move |asked| {
        let is_told = asked.prompt.contains(" without a prompt of a user");
        let is_over = is_told || asked.prompt == "Go on.";
        Reply::new().says(if is_over { "I see.".to_owned() } else { relay_line(other, "Yes.") })
    }
}

/// A prompt from either agent's person lets the messages go on.
fn agents_that_only_answer_each_other_are_stopped(cli: Cli) {
    let models = [Model::start(answers("Cid")), Model::start(answers("Ann"))];
    let sandbox = Sandbox::new();
    set_wake_budget(&sandbox, 4);
    let workspaces = [("ann", &models[0]), ("cid", &models[1])]
        .map(|(name, model)| Workspace::new(&sandbox, cli, model, name));
    let mut ann = workspaces[0].wrap("Ann", SIZE, &[]);
    let mut cid = workspaces[1].wrap("Cid", SIZE, &[]);
    ann.wait_until_idle();
    cid.wait_until_idle();
    ann.submit("Begin.");
    // Ann has sent messages 1, 3 and 5, and received 2 and 4. Message 5 waits.
    let asked = ann.with_screen_on_panic(|| models[0].wait_for_requests(4));
    assert!(asked[3].prompt.contains("Cid and you have sent each other 4 messages"), "{asked:?}");
    let asked = cid.with_screen_on_panic(|| models[1].wait_for_requests(3));
    assert!(asked[2].prompt.contains("Ann and you have sent each other 4 messages"), "{asked:?}");
    let why = "the two agents only answer each other: prompt Cid to let them continue";
    cid.with_screen_on_panic(|| {
        until("`agents` says why the message waits", || {
            let printed = output(sandbox.command(["agents"])).stdout;
            String::from_utf8(printed).unwrap().contains(why)
        });
    });
    cid.wait_until_idle();
    cid.submit("Go on.");
    let asked = cid.with_screen_on_panic(|| models[1].wait_for_requests(5));
    assert_eq!(asked[3].prompt, "Go on.");
    assert_eq!(frame_body(&asked[4].prompt), "Yes.");
}

#[test]
fn claude_agents_that_only_answer_each_other_are_stopped() {
    agents_that_only_answer_each_other_are_stopped(Cli::Claude);
}

#[test]
fn codex_agents_that_only_answer_each_other_are_stopped() {
    agents_that_only_answer_each_other_are_stopped(Cli::Codex);
}
