//! A wrapped CLI named Ann, with its peer Bob, for CLIs with only a few tests.

use crate::{
    cli::{Agent, Workspace},
    peer::{Peer, await_report},
    state::await_activity,
};
use client::SendId;
use platform::pty::Size;
use std::{fs, path::PathBuf};
use testkit::{
    model::{Asked, Model},
    sandbox::Sandbox,
    waiting::until,
};

/// At this width, opencode shows no column next to the conversation.
const SIZE: Size = Size { rows: 40, cols: 100 };

/// A CLI that runs in a workspace.
pub(crate) struct Scene<'a> {
    sandbox: &'a Sandbox,
    pub(crate) agent: Agent,
    pub(crate) bob: Peer,
    workspace: Workspace<'a>,
}

impl<'a> Scene<'a> {
    /// Starts the CLI with more options of `run` and with these arguments, and waits for its empty
    /// composer.
    pub(crate) fn new(
        sandbox: &'a Sandbox,
        workspace: Workspace<'a>,
        options: &[&str],
        arguments: &[&str],
    ) -> Self {
        let agent = workspace.wrap_with(&[&["-n", "Ann"], options].concat(), SIZE, arguments);
        agent.wait_until_idle();
        Self { sandbox, agent, bob: Peer::join(sandbox, "Bob"), workspace }
    }

    /// Returns the path of a file in the project.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.workspace.project().join(name)
    }

    /// Sends Ann a message from Bob.
    pub(crate) fn send(&self, body: &str) -> SendId {
        self.bob.send("Ann", body)
    }

    /// Waits for the next message to Bob, and returns its text.
    #[track_caller]
    pub(crate) fn receive(&self) -> String {
        self.bob.receive_text(&self.agent)
    }

    /// Submits a text as the user, once the composer is empty.
    #[track_caller]
    pub(crate) fn submit(&mut self, text: &str) {
        self.agent.wait_until_idle();
        self.agent.submit(text);
    }

    /// Allows a command.
    #[track_caller]
    pub(crate) fn permit(&mut self) {
        let (question, yes) = self.agent.cli.permission();
        self.agent.answer(question, yes);
    }

    /// Sends a message while the agent's command runs, and checks that the agent reads and answers
    /// it with the relay's tools. Returns the model's requests.
    #[track_caller]
    pub(crate) fn read_and_answer_by_tools(&self, model: &Model) -> Vec<Asked> {
        until("the command runs", || self.file("runs").exists());
        let id = self.send("the walrus sings");
        self.await_report(&id, "waiting", "at work");
        fs::write(self.file("go"), "").unwrap();
        assert_eq!(self.receive(), "I have it");
        let asked = model.wait_for_requests(4);
        let read = asked[2].result.as_deref().unwrap();
        assert!(read.contains("the walrus sings"), "{read}");
        self.await_report(&id, "confirmed", "");
        asked
    }

    /// Waits until `status` reports this state and a reason that contains `why`.
    #[track_caller]
    pub(crate) fn await_report(&self, id: &SendId, state: &str, why: &str) {
        await_report(self.sandbox, &self.agent, id, state, why);
    }
    /// Waits until `agents` shows this activity from this source.
    #[track_caller]
    pub(crate) fn await_activity(&self, activity: &str, source: &str) {
        await_activity(self.sandbox, &self.agent, activity, source);
    }
}
