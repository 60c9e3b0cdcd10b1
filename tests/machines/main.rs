//! Two machines, each with a home of its own, that are joined by ssh or NATS: wrapped agents on
//! both talk while the way between them is cut.
//!
//! Only `ci/machines --all`, which installs sshd and nats-server, runs these tests.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

mod nats;
mod ssh;

use testkit::{
    programs::example_program,
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{self, until},
};

/// Wraps a program that reads lines, as an agent.
fn wrap(sandbox: &Sandbox, name: &str) -> Terminal {
    let program = example_program("lines");
    let terminal = Terminal::wrap(sandbox, name, &[&program, "--keys"]);
    terminal.wait_for_row("ready");
    terminal
}

/// Waits until an agent is listed as connected, or as away.
fn await_presence(sandbox: &Sandbox, name: &str, is_here: bool) {
    let mut operator = sandbox.operator();
    until(&format!("{name} is here: {is_here}"), || {
        operator.agents().iter().any(|agent| agent["name"] == name && agent["here"] == is_here)
    });
}

/// Two wrapped agents: Ann on a laptop, and Bob on a pi.
struct Pair<'a> {
    laptop: &'a Sandbox,
    ann: Terminal,
    bob: Terminal,
}

impl<'a> Pair<'a> {
    fn wrap(laptop: &'a Sandbox, pi: &'a Sandbox) -> Self {
        Self { laptop, ann: wrap(laptop, "Ann"), bob: wrap(pi, "Bob") }
    }

    /// Ann says something to which Bob replies, to which Ann replies, to which Bob replies with the
    /// text.
    fn begin(&mut self, text: &str) {
        let replies = "reply Ann@laptop reply Bob@pi reply Ann@laptop";
        self.ann.press(&format!("say Bob@pi {replies} {text}\r"));
    }

    /// Waits for the end of what [`Self::begin`] has begun.
    fn await_end(&self, text: &str) {
        self.ann.wait_for(&format!("heard: {text}\nheard: [/relay "));
    }

    fn check_frames(&self) {
        self.bob.wait_for("from Ann@laptop, id ");
        self.ann.wait_for("from Bob@pi, id ");
        let history = waiting::output(self.laptop.command(["history"]));
        let history = String::from_utf8(history.stdout).unwrap();
        assert!(!history.contains("dead") && !history.contains("waiting"), "{history}");
    }
}
