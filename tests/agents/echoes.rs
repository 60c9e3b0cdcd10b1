//! An agent may say just what it has received, back to its sender and on to another one.

use crate::{
    agent::Kind,
    model::{Model, Reply},
    other::{Other, ann_with, framed, says_to},
    sandbox::Sandbox,
};

/// What was received, and is said again. None has what a screen or a program takes away.
fn bodies() -> Vec<String> {
    // Gemini CLI does not let its model say the same over and over.
    let long: Vec<String> =
        (100..).map(|number| format!("test {number} passes")).take(28).collect();
    let long = long.join(", ");
    ["y", "LGTM", "yes, tests pass", &*long, "LGTM"].map(str::to_owned).to_vec()
}

fn says_what_it_has_received(kind: Kind, options: &[&str]) {
    let model = Model::start(|asked| {
        let body = framed(&asked.prompt);
        Reply::new().says(["Bob", "Cid"].map(|name| says_to(name, body)).join("\n\n"))
    });
    let sandbox = Sandbox::new();
    let (bob, cid) = (Other::join(&sandbox, "Bob"), Other::join(&sandbox, "Cid"));
    let (_household, agent) = ann_with(&sandbox, kind, &model, 100, options);
    for body in bodies() {
        bob.send("Ann", &body);
        for other in [&bob, &cid] {
            let heard = other.hear_text(&agent);
            match options.is_empty() {
                true => assert_eq!(heard, body),
                // Where lines end that were wrapped, a screen does not always tell.
                false => assert!(heard.split_whitespace().eq(body.split_whitespace()), "{heard}"),
            }
        }
    }
    assert_eq!(model.asked(0).len(), bodies().len(), "the agent is told of none that was not sent");
}

#[test]
fn claude_says_what_it_has_received() {
    says_what_it_has_received(Kind::Claude, &[]);
}

#[test]
fn claude_says_what_it_has_received_also_where_the_grid_is_read() {
    says_what_it_has_received(Kind::Claude, &["--grid"]);
}

#[test]
fn codex_says_what_it_has_received() {
    says_what_it_has_received(Kind::Codex, &[]);
}

#[test]
fn codex_says_what_it_has_received_also_where_the_grid_is_read() {
    says_what_it_has_received(Kind::Codex, &["--grid"]);
}

#[test]
fn gemini_says_what_it_has_received() {
    says_what_it_has_received(Kind::Gemini, &[]);
}

#[test]
fn gemini_says_what_it_has_received_also_where_the_grid_is_read() {
    says_what_it_has_received(Kind::Gemini, &["--grid"]);
}
