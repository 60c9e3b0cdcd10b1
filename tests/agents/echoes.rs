//! Agents that repeat a received text, to its sender and to another agent.

use crate::{
    cli::Cli,
    peer::{Peer, frame_body, relay_line, start_ann_with},
};
use testkit::{
    model::{Model, Reply},
    sandbox::Sandbox,
};

/// The bodies to repeat. A screen shows all of them completely.
fn bodies() -> Vec<String> {
    // Gemini CLI stops a model that repeats itself, so the parts of the long body differ.
    let long: Vec<String> =
        (100..).map(|number| format!("test {number} passes")).take(28).collect();
    let long = long.join(", ");
    ["y", "LGTM", "yes, tests pass", &*long, "LGTM"].map(str::to_owned).to_vec()
}

fn repeats_a_message_to_others(cli: Cli, options: &[&str]) {
    let model = Model::start(|asked| {
        let body = frame_body(&asked.prompt);
        Reply::new().says(["Bob", "Cid"].map(|name| relay_line(name, body)).join("\n\n"))
    });
    let sandbox = Sandbox::new();
    let (bob, cid) = (Peer::join(&sandbox, "Bob"), Peer::join(&sandbox, "Cid"));
    let (_workspace, agent) = start_ann_with(&sandbox, cli, &model, 100, options);
    for body in bodies() {
        bob.send("Ann", &body);
        for peer in [&bob, &cid] {
            let received = peer.receive_text(&agent);
            match options.is_empty() {
                true => assert_eq!(received, body),
                // A screen does not always show the text's blanks at the end of a wrapped line.
                false => {
                    assert!(received.split_whitespace().eq(body.split_whitespace()), "{received}")
                }
            }
        }
    }
    assert_eq!(model.wait_for_requests(0).len(), bodies().len(), "no message to the agent itself");
}

#[test]
fn claude_repeats_a_message_to_others() {
    repeats_a_message_to_others(Cli::Claude, &[]);
}

#[test]
fn claude_repeats_a_message_to_others_through_the_grid() {
    repeats_a_message_to_others(Cli::Claude, &["--grid"]);
}

#[test]
fn codex_repeats_a_message_to_others() {
    repeats_a_message_to_others(Cli::Codex, &[]);
}

#[test]
fn codex_repeats_a_message_to_others_through_the_grid() {
    repeats_a_message_to_others(Cli::Codex, &["--grid"]);
}

#[test]
fn gemini_repeats_a_message_to_others() {
    repeats_a_message_to_others(Cli::Gemini, &[]);
}

#[test]
fn gemini_repeats_a_message_to_others_through_the_grid() {
    repeats_a_message_to_others(Cli::Gemini, &["--grid"]);
}
