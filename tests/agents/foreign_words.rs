//! Messages with words like those of a dialog or of a working agent. Each arrives once, and so does
//! the next message, although the agent's own text also has such words.

use crate::{
    cli::Cli,
    peer::{Peer, start_ann},
};
use testkit::{
    foreign_words::BODIES,
    model::{Model, Reply},
    sandbox::Sandbox,
    waiting::until,
};

fn messages_with_foreign_words_arrive(cli: Cli) {
    let model = Model::start(|asked| match asked.prompt.contains("say it") {
        true => Reply::new().says(BODIES.join("\n\n")),
        false => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, agent) = start_ann(&sandbox, cli, &model, 100);
    agent.wait_until_idle();
    let arrivals = |words: &str| {
        let asked = model.wait_for_requests(0);
        let last =
            |prompt: &str| prompt.rsplit("[relay ").next().is_some_and(|p| p.contains(words));
        asked.iter().filter(|asked| asked.result.is_none() && last(&asked.prompt)).count()
    };
    let bodies = BODIES.into_iter().chain(["say it", "and on"]);
    for (number, body) in (1..).zip(bodies) {
        for (words, text) in [
            (format!("number {number}."), format!("{body}\nThis is number {number}.")),
            (format!("after {number}."), format!("This is the one after {number}.")),
        ] {
            bob.send("Ann", &text);
            agent.with_screen_on_panic(|| {
                until(&format!("{text} arrives"), || arrivals(&words) > 0)
            });
            assert_eq!(arrivals(&words), 1, "{text}");
        }
    }
}

#[test]
fn claude_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Claude);
}

#[test]
fn codex_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Codex);
}

#[test]
fn gemini_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Gemini);
}

#[test]
fn qwen_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Qwen);
}

#[test]
fn copilot_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Copilot);
}

#[test]
fn opencode_gets_messages_with_foreign_words() {
    messages_with_foreign_words_arrive(Cli::Opencode);
}
