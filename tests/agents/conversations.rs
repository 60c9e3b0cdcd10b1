//! Conversations that are resumed, cleared, rewound, branched or interrupted.
//!
//! Each message is sent once; messages from before the start of the wrapper are never sent.

use crate::{
    cli::{Agent, Cli},
    peer::{Peer, relay_line, start_ann},
};
use platform::pty::Size;
use std::{fs, time::Duration};
use terminal::screen::Screen;
use testkit::{
    model::{Gate, Model, Reply},
    sandbox::Sandbox,
    waiting::until,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The minimum age of a transcript that certainly belongs to another agent than the one that opens
/// it now.
const FOREIGN_AGE: Duration = Duration::from_secs(8);

/// A reply that sends the prompt to Bob.
fn echo(prompt: &str) -> Reply {
    Reply::new().says(format!("I tell him.\n\n{}\n\nDone.", relay_line("Bob", prompt)))
}

/// Submits two prompts, and checks that Bob receives both.
#[track_caller]
fn submit_two_prompts(bob: &Peer, agent: &mut Agent) {
    for prompt in ["the first word", "the second word"] {
        agent.wait_until_idle();
        agent.submit(prompt);
        assert_eq!(bob.receive_text(agent), prompt);
    }
    agent.wait_until_idle();
}

fn resumed_session_repeats_no_message(cli: Cli) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    submit_two_prompts(&bob, &mut agent);
    drop(agent);
    let mut last = "the second word".to_owned();
    for round in ["after it has begun again", "and once more"] {
        let mut agent = workspace.wrap("Ann", SIZE, cli.resume_arguments());
        agent.terminal.wait_for(&last);
        agent.wait_until_idle();
        agent.submit(round);
        assert_eq!(bob.receive_text(&agent), round);
        last = format!("the last word {round}");
        bob.send("Ann", "And?");
        assert!(bob.receive_text(&agent).contains("And?"));
        agent.wait_until_idle();
        agent.submit(&last);
        assert_eq!(bob.receive_text(&agent), last);
        agent.wait_until_idle();
    }
}

fn cleared_session_keeps_sending(cli: Cli) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    agent.submit("before it is cleared");
    assert_eq!(bob.receive_text(&agent), "before it is cleared");
    agent.wait_until_idle();
    agent.enter_command("/clear");
    agent.terminal.wait_until("an empty screen", |text| !text.contains("before it is cleared"));
    agent.wait_until_idle();
    agent.submit("after it was cleared");
    assert_eq!(bob.receive_text(&agent), "after it was cleared");
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.receive_text(&agent).contains("And?"));
    assert_eq!(workspace.transcripts().len(), 2);
}

/// Checks an agent that resumes another agent's conversation. That agent ended at least
/// [`FOREIGN_AGE`] before.
fn session_of_another_agent_repeats_no_message(cli: Cli) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    agent.submit("a word of her own");
    assert_eq!(bob.receive_text(&agent), "a word of her own");
    let before = workspace.transcripts();
    let mut cid = workspace.wrap("Cid", SIZE, &[]);
    cid.wait_until_idle();
    for word in ["a word of another", "another word of his"] {
        cid.wait_until_idle();
        cid.submit(word);
        let received = bob.receive(&cid);
        assert_eq!((&*received.from, &*received.body), ("Cid", word));
    }
    cid.wait_until_idle();
    drop(cid);
    let adopted = workspace.transcripts().into_iter().find(|file| !before.contains(file)).unwrap();
    let changed = fs::metadata(adopted).unwrap().modified().unwrap();
    let is_old = || changed.elapsed().is_ok_and(|age| age > FOREIGN_AGE);
    agent.with_screen_on_panic(|| until("the transcript is old", is_old));
    agent.enter_command("/resume");
    let picker = match cli {
        Cli::Claude => "Resume session",
        Cli::Codex => "Resume a previous session",
        Cli::Gemini => "a word of another",
        _ => cli.is_unknown_here(),
    };
    // The picker lists the latest conversation first.
    match cli {
        Cli::Gemini => agent.answer(picker, "\r"),
        _ => agent.take_first_of(picker),
    }
    agent.terminal.wait_for("another word of his");
    agent.wait_until_still();
    agent.wait_until_idle();
    for word in ["a word in his place", "and one more"] {
        agent.wait_until_idle();
        agent.submit(word);
        let received = bob.receive(&agent);
        assert_eq!((&*received.from, &*received.body), ("Ann", word));
    }
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.receive_text(&agent).contains("And?"));
}

/// Checks a branch of a conversation. The CLI copies the earlier messages into it.
fn branched_session_repeats_no_message(cli: Cli, command: &str) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    for word in ["the first word", "the second word"] {
        agent.wait_until_idle();
        agent.submit(word);
        assert_eq!(bob.receive_text(&agent), word);
    }
    for branch in 1..=2 {
        agent.wait_until_idle();
        agent.enter_command(command);
        let is_created = || workspace.transcripts().len() == branch + 1;
        agent.with_screen_on_panic(|| until("the branch exists", is_created));
        agent.wait_until_still();
        agent.wait_until_idle();
        let word = format!("a word in branch {branch}");
        agent.submit(&word);
        assert_eq!(bob.receive_text(&agent), word);
        agent.wait_until_idle();
        bob.send("Ann", "And?");
        assert!(bob.receive_text(&agent).contains("And?"));
    }
}

/// Checks a conversation after the user rewinds to a prompt and rewords it.
fn rewound_session_repeats_no_message(cli: Cli) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    submit_two_prompts(&bob, &mut agent);
    rewind(&mut agent);
    let restored = |screen: &Screen| screen.row(screen.cursor().row).text.contains("second word");
    agent.terminal.wait_until_screen("the prompt to edit", restored);
    agent.wait_until_still();
    agent.terminal.press(" anew");
    agent.terminal.wait_for("the second word anew");
    agent.wait_until_still();
    agent.terminal.press("\r");
    assert_eq!(bob.receive_text(&agent), "the second word anew");
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.receive_text(&agent).contains("And?"));
}

/// Rewinds the latest prompt and its answer.
fn rewind(agent: &mut Agent) {
    let steps: &[_] = match agent.cli {
        Cli::Claude => {
            &[("(current)", "\x1b[A"), ("❯ the second word", "\r"), ("Restore conversation", "\r")]
        }
        Cli::Codex => &[("↵ rewind", "\r")],
        Cli::Gemini => &[
            ("● Stay at current", "\x1b[A"),
            ("● the second word", "\r"),
            ("Confirm Rewind", "\r"),
        ],
        cli => cli.is_unknown_here(),
    };
    if agent.cli == Cli::Codex {
        // The composer is empty a moment before the turn ends, and an Esc would interrupt the turn.
        let both_ended = |text: &str| text.matches("Worked for").count() == 2;
        agent.terminal.wait_until("the end of both turns", both_ended);
        agent.terminal.press("\x1b");
        // Codex waits only for a moment for the second Esc.
        agent.terminal.wait_for("esc again");
        agent.terminal.press("\x1b");
    } else {
        agent.enter_command("/rewind");
    }
    for (shown, key) in steps {
        agent.answer(shown, key);
    }
}

/// Checks that a later message does not complete an interrupted message, and that no earlier
/// message is repeated.
fn interrupted_reply_repeats_no_message(cli: Cli) {
    let model = Model::start(|asked| match &*asked.prompt {
        "Begin." => {
            let beginning = "I begin.\n\n->relay:Bob <<<half of it\n\nmore than ";
            Reply::new().says(beginning).waits(&Gate::default()).says("nothing>>>")
        }
        "Send it and go on." => {
            let text = format!("I send it.\n\n{}\n\nNow I go on.", relay_line("Bob", "all of it"));
            Reply::new().says(text).waits(&Gate::default()).says("\n\nThat was it.")
        }
        // The wrapper reports an unclosed message once the user has not typed for long enough.
        prompt if prompt.contains("@relay] The relay wrote this") => Reply::new().says("I see."),
        prompt => echo(prompt),
    });
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, 100);
    agent.submit("the first word");
    assert_eq!(bob.receive_text(&agent), "the first word");
    let mut received = Vec::new();
    for (prompt, shown, next) in [
        ("Begin.", "half of it", "the second word"),
        ("Send it and go on.", "Now I go on.", "the third word"),
    ] {
        agent.wait_until_idle();
        agent.submit(prompt);
        agent.terminal.wait_for(shown);
        agent.terminal.press("\x1b");
        // If a CLI reads an Esc together with the next key, it takes both for one key with Alt.
        agent.wait_until_still();
        agent.wait_until_idle();
        agent.submit(next);
        loop {
            received.push(bob.receive_text(&agent));
            if received.last().is_some_and(|last| last == next) {
                break;
            }
        }
    }
    // A complete message before the interruption is sent if the CLI has recorded it.
    received.retain(|word| word != "all of it");
    assert_eq!(received, ["the second word", "the third word"]);
}

#[test]
fn claude_branched_session_repeats_no_message() {
    branched_session_repeats_no_message(Cli::Claude, "/branch");
}

#[test]
fn codex_branched_session_repeats_no_message() {
    branched_session_repeats_no_message(Cli::Codex, "/fork");
}

macro_rules! each_cli {
    ($($name:ident: $play:ident($cli:ident);)*) => {
        $(
            #[test]
            fn $name() {
                $play(Cli::$cli);
            }
        )*
    };
}

each_cli! {
    claude_resumed_session_repeats_no_message: resumed_session_repeats_no_message(Claude);
    codex_resumed_session_repeats_no_message: resumed_session_repeats_no_message(Codex);
    gemini_resumed_session_repeats_no_message: resumed_session_repeats_no_message(Gemini);
    claude_cleared_session_keeps_sending: cleared_session_keeps_sending(Claude);
    codex_cleared_session_keeps_sending: cleared_session_keeps_sending(Codex);
    gemini_cleared_session_keeps_sending: cleared_session_keeps_sending(Gemini);
    claude_session_of_another_agent_repeats_no_message: session_of_another_agent_repeats_no_message(Claude);
    codex_session_of_another_agent_repeats_no_message: session_of_another_agent_repeats_no_message(Codex);
    gemini_session_of_another_agent_repeats_no_message: session_of_another_agent_repeats_no_message(Gemini);
    claude_rewound_session_repeats_no_message: rewound_session_repeats_no_message(Claude);
    codex_rewound_session_repeats_no_message: rewound_session_repeats_no_message(Codex);
    gemini_rewound_session_repeats_no_message: rewound_session_repeats_no_message(Gemini);
    claude_interrupted_reply_repeats_no_message: interrupted_reply_repeats_no_message(Claude);
    codex_interrupted_reply_repeats_no_message: interrupted_reply_repeats_no_message(Codex);
    gemini_interrupted_reply_repeats_no_message: interrupted_reply_repeats_no_message(Gemini);
}

/// Checks a left arrow in an empty composer. Claude Code would hand the conversation to another
/// process, but the recipe's environment disables that.
#[test]
fn claude_left_arrow_keeps_the_transcript() {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann(&sandbox, Cli::Claude, &model, 100);
    submit_two_prompts(&bob, &mut agent);
    agent.terminal.press("\x1b[D");
    agent.wait_until_still();
    agent.wait_until_idle();
    agent.submit("the third word");
    assert_eq!(bob.receive_text(&agent), "the third word");
    assert_eq!(workspace.transcripts().len(), 1);
}
