//! A conversation that goes on in an old file, begins anew in another, or is cut off: what was said is sent
//! once, and what was said before the wrapper began never.

use crate::{
    agent::{Agent, Kind},
    model::{Gate, Model, Reply},
    other::{Other, ann, says_to},
    sandbox::{Sandbox, until},
};
use agent_relay::bridge::screen::Screen;
use platform::pty::Size;
use std::{fs, time::Duration};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// What is older when a conversation is taken up is not what the agent has said there itself.
const LONG_AGO: Duration = Duration::from_secs(8);

/// What each prompt is answered with.
fn echo(prompt: &str) -> Reply {
    Reply::new().says(format!("I tell him.\n\n{}\n\nDone.", says_to("Bob", prompt)))
}

impl Kind {
    /// How it goes on with the last conversation of the folder.
    fn resumes(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["--continue"],
            Self::Codex => &["resume", "--last"],
            Self::Gemini => &["--resume", "latest"],
        }
    }
}

/// The agent echoes what its person says, and is heard.
#[track_caller]
fn say_two_words(bob: &Other, agent: &mut Agent) {
    for word in ["the first word", "the second word"] {
        agent.wait_until_idle();
        agent.submit(word);
        assert_eq!(bob.hear_text(agent), word);
    }
    agent.wait_until_idle();
}

fn says_nothing_old_again(kind: Kind) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, kind, &model, 100);
    say_two_words(&bob, &mut agent);
    drop(agent);
    let mut last = "the second word".to_owned();
    for round in ["after it has begun again", "and once more"] {
        let mut agent = household.wrap("Ann", SIZE, kind.resumes());
        agent.terminal.wait_for(&last);
        agent.wait_until_idle();
        agent.submit(round);
        assert_eq!(bob.hear_text(&agent), round);
        last = format!("the last word {round}");
        bob.send("Ann", "And?");
        assert!(bob.hear_text(&agent).contains("And?"));
        agent.wait_until_idle();
        agent.submit(&last);
        assert_eq!(bob.hear_text(&agent), last);
        agent.wait_until_idle();
    }
}

fn goes_on_in_a_new_conversation(kind: Kind) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, kind, &model, 100);
    agent.submit("before it is cleared");
    assert_eq!(bob.hear_text(&agent), "before it is cleared");
    agent.wait_until_idle();
    agent.enter_command("/clear");
    agent.terminal.wait_until("an empty screen", |text| !text.contains("before it is cleared"));
    agent.wait_until_idle();
    agent.submit("after it was cleared");
    assert_eq!(bob.hear_text(&agent), "after it was cleared");
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.hear_text(&agent).contains("And?"));
    assert_eq!(household.transcripts().len(), 2);
}

/// The conversation of another agent that has ended, said long enough before that it can't be the agent's own.
fn says_nothing_of_anothers_that_it_takes_up(kind: Kind) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, kind, &model, 100);
    agent.submit("a word of her own");
    assert_eq!(bob.hear_text(&agent), "a word of her own");
    let before = household.transcripts();
    let mut cid = household.wrap("Cid", SIZE, &[]);
    cid.wait_until_idle();
    for word in ["a word of another", "another word of his"] {
        cid.wait_until_idle();
        cid.submit(word);
        let heard = bob.hear(&cid);
        assert_eq!((&*heard.from, &*heard.body), ("Cid", word));
    }
    cid.wait_until_idle();
    drop(cid);
    let taken_up = household.transcripts().into_iter().find(|file| !before.contains(file)).unwrap();
    let changed = fs::metadata(taken_up).unwrap().modified().unwrap();
    let is_long_ago = || changed.elapsed().is_ok_and(|ago| ago > LONG_AGO);
    agent.while_running(|| until("it was said long ago", is_long_ago));
    agent.enter_command("/resume");
    let picker = match kind {
        Kind::Claude => "Resume session",
        Kind::Codex => "Resume a previous session",
        Kind::Gemini => "a word of another",
    };
    // The last one that went on is the first.
    agent.answer(picker, "\r");
    agent.terminal.wait_for("another word of his");
    agent.stand_still();
    agent.wait_until_idle();
    for word in ["a word in his place", "and one more"] {
        agent.wait_until_idle();
        agent.submit(word);
        let heard = bob.hear(&agent);
        assert_eq!((&*heard.from, &*heard.body), ("Ann", word));
    }
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.hear_text(&agent).contains("And?"));
}

/// What a CLI takes out of one conversation into another.
fn says_nothing_again_in_a_branch(kind: Kind, command: &str) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, kind, &model, 100);
    for word in ["the first word", "the second word"] {
        agent.wait_until_idle();
        agent.submit(word);
        assert_eq!(bob.hear_text(&agent), word);
    }
    for branches in 1..=2 {
        agent.wait_until_idle();
        agent.enter_command(command);
        let made = || household.transcripts().len() == branches + 1;
        agent.while_running(|| until("the branch is there", made));
        agent.stand_still();
        agent.wait_until_idle();
        let word = format!("a word in branch {branches}");
        agent.submit(&word);
        assert_eq!(bob.hear_text(&agent), word);
        agent.wait_until_idle();
        bob.send("Ann", "And?");
        assert!(bob.hear_text(&agent).contains("And?"));
    }
}

/// What is taken back and asked in other words.
fn says_nothing_again_that_was_taken_back(kind: Kind) {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, 100);
    say_two_words(&bob, &mut agent);
    take_back(&mut agent);
    let restored = |screen: &Screen| screen.row(screen.cursor().row).text.contains("second word");
    agent.terminal.wait_until_screen("the prompt that was taken back", restored);
    agent.stand_still();
    agent.terminal.press(" anew");
    agent.terminal.wait_for("the second word anew");
    agent.stand_still();
    agent.terminal.press("\r");
    assert_eq!(bob.hear_text(&agent), "the second word anew");
    agent.wait_until_idle();
    bob.send("Ann", "And?");
    assert!(bob.hear_text(&agent).contains("And?"));
}

/// What was said last, and its answer.
fn take_back(agent: &mut Agent) {
    let steps: &[_] = match agent.kind {
        Kind::Claude => {
            &[("(current)", "\x1b[A"), ("❯ the second word", "\r"), ("Restore conversation", "\r")]
        }
        Kind::Codex => &[("↵ rewind", "\r")],
        Kind::Gemini => &[
            ("● Stay at current", "\x1b[A"),
            ("● the second word", "\r"),
            ("Confirm Rewind", "\r"),
        ],
    };
    if agent.kind == Kind::Codex {
        // Its composer is empty a moment before its turn is over, and an Esc then ends the turn.
        let all = |text: &str| text.matches("Worked for").count() == 2;
        agent.terminal.wait_until("the end of both turns", all);
        agent.terminal.press("\x1b");
        // It waits for the second one for a moment only.
        agent.terminal.wait_for("esc again");
        agent.terminal.press("\x1b");
    } else {
        agent.enter_command("/rewind");
    }
    for (shown, key) in steps {
        agent.answer(shown, key);
    }
}

/// What was cut off is not finished by what comes after it, and nothing said before comes again.
fn says_nothing_twice_that_was_cut_off(kind: Kind) {
    let model = Model::start(|asked| match &*asked.prompt {
        "Begin." => {
            let begun = "I begin.\n\n->relay:Bob <<<half of it\n\nmore than ";
            Reply::new().says(begun).waits(&Gate::default()).says("nothing>>>")
        }
        "Say it and go on." => {
            let said = format!("I say it.\n\n{}\n\nNow I go on.", says_to("Bob", "all of it"));
            Reply::new().says(said).waits(&Gate::default()).says("\n\nThat was it.")
        }
        // The relay says that a message was never closed, if nobody types for long enough.
        prompt if prompt.contains("@relay] The relay wrote this") => Reply::new().says("I see."),
        prompt => echo(prompt),
    });
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, 100);
    agent.submit("the first word");
    assert_eq!(bob.hear_text(&agent), "the first word");
    let mut heard = Vec::new();
    for (prompt, shown, next) in [
        ("Begin.", "half of it", "the second word"),
        ("Say it and go on.", "Now I go on.", "the third word"),
    ] {
        agent.wait_until_idle();
        agent.submit(prompt);
        agent.terminal.wait_for(shown);
        agent.terminal.press("\x1b");
        // With the next key it would be another one.
        agent.stand_still();
        agent.wait_until_idle();
        agent.submit(next);
        loop {
            heard.push(bob.hear_text(&agent));
            if heard.last().is_some_and(|last| last == next) {
                break;
            }
        }
    }
    // What is cut off after it was said is said all the same, where its CLI writes it down.
    heard.retain(|word| word != "all of it");
    assert_eq!(heard, ["the second word", "the third word"]);
}

#[test]
fn claude_says_nothing_again_in_a_branch() {
    says_nothing_again_in_a_branch(Kind::Claude, "/branch");
}

#[test]
fn codex_says_nothing_again_in_a_branch() {
    says_nothing_again_in_a_branch(Kind::Codex, "/fork");
}

macro_rules! each_kind {
    ($($name:ident: $play:ident($kind:ident);)*) => {
        $(
            #[test]
            fn $name() {
                $play(Kind::$kind);
            }
        )*
    };
}

each_kind! {
    claude_says_nothing_old_again: says_nothing_old_again(Claude);
    codex_says_nothing_old_again: says_nothing_old_again(Codex);
    gemini_says_nothing_old_again: says_nothing_old_again(Gemini);
    claude_goes_on_in_a_new_conversation: goes_on_in_a_new_conversation(Claude);
    codex_goes_on_in_a_new_conversation: goes_on_in_a_new_conversation(Codex);
    gemini_goes_on_in_a_new_conversation: goes_on_in_a_new_conversation(Gemini);
    claude_says_nothing_of_anothers_that_it_takes_up: says_nothing_of_anothers_that_it_takes_up(Claude);
    codex_says_nothing_of_anothers_that_it_takes_up: says_nothing_of_anothers_that_it_takes_up(Codex);
    gemini_says_nothing_of_anothers_that_it_takes_up: says_nothing_of_anothers_that_it_takes_up(Gemini);
    claude_says_nothing_again_that_was_taken_back: says_nothing_again_that_was_taken_back(Claude);
    codex_says_nothing_again_that_was_taken_back: says_nothing_again_that_was_taken_back(Codex);
    gemini_says_nothing_again_that_was_taken_back: says_nothing_again_that_was_taken_back(Gemini);
    claude_says_nothing_twice_that_was_cut_off: says_nothing_twice_that_was_cut_off(Claude);
    codex_says_nothing_twice_that_was_cut_off: says_nothing_twice_that_was_cut_off(Codex);
    gemini_says_nothing_twice_that_was_cut_off: says_nothing_twice_that_was_cut_off(Gemini);
}

/// A key in the empty line would have another process go on with the conversation.
#[test]
fn claude_stays_where_it_is_heard() {
    let (model, sandbox) = (Model::start(|asked| echo(&asked.prompt)), Sandbox::new());
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann(&sandbox, Kind::Claude, &model, 100);
    say_two_words(&bob, &mut agent);
    agent.terminal.press("\x1b[D");
    agent.stand_still();
    agent.wait_until_idle();
    agent.submit("the third word");
    assert_eq!(bob.hear_text(&agent), "the third word");
    assert_eq!(household.transcripts().len(), 1);
}
