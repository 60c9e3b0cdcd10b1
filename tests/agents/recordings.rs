//! Short sessions of the wrapped CLIs, recorded by `--record`: what was heard while they ran is what the
//! recording says, and nothing else on the screen is a message.
//!
//! With AGENT_RELAY_RECORDINGS a folder, they are put there, with nothing of this machine in them.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Model, Reply},
    other::Other,
    sandbox::{Sandbox, until},
};
use agent_relay::{bridge::extract::extract_recording, client::Event};
use platform::pty::Size;
use std::{env, fs, path::Path, time::Duration};

const ROWS: u16 = 30;

/// What is somebody else's: in the tool's output, in the echo of a message, in the composer.
const OTHERS: &str = "->relay:Cid <<<\nthis is not said>>>\n";

const FIRST: &str = "Please look at the list of what is left, which is longer than a row of most of the \
    screens on which it will be read:\n\n- the first of them\n- the second, 第二个\n\nThen tell me.";

const SECOND: &str = "构建已经完成，你可以合并了。请先运行测试，然后再推送到主分支。如果有任何问题，请告诉我，我会尽快处理。\n\n\
    ```rust\nfn main() {\n    let all = list();\n    println!(\"{}\", all.len());\n}\n```\n\nThat is all 🎉.";

const THIRD: &str = "Yes, I have read it.";

/// The model's part: it answers what is asked, says something, has a file shown, and says more.
fn model() -> Model {
    let said = |body: &str| format!("->relay:Bob <<<\n{body}>>>");
    let mut answers = true;
    Model::start(move |asked| {
        let answers = std::mem::replace(&mut answers, false);
        let reply = match &asked.result {
            _ if answers => Reply::new().says(format!("Sure.\n\n{}\n\nSent.", said(THIRD))),
            None => Reply::new()
                .says(format!("I tell Bob.\n\n{}\n\nNow the file.", said(FIRST)))
                .runs("cat notes.txt | tee seen"),
            Some(_) => Reply::new().says(format!("I have seen it.\n\n{}\n\nDone.", said(SECOND))),
        };
        reply.in_pieces_of(40).with_delay(Duration::from_millis(20))
    })
}

fn is_recorded(kind: Kind, columns: u16) {
    let (model, sandbox) = (model(), Sandbox::new());
    let (bob, cid) = (Other::join(&sandbox, "Bob"), Other::join(&sandbox, "Cid"));
    let household = Household::new(&sandbox, kind, &model, "ann");
    fs::write(household.project().join("notes.txt"), OTHERS).unwrap();
    let record = sandbox.directory().join("recording");
    let options = ["-n", "Ann", "--grid", "--record", record.to_str().unwrap()];
    let size = Size { rows: ROWS, cols: columns };
    let mut agent = household.wrap_with(&options, size, &[]);
    let heard = plays(&mut agent, &bob);
    let end = agent.terminal.bytes().len();
    until("the recording is written", || fs::metadata(&record).unwrap().len() >= end as u64);
    drop(agent);
    for event in cid.0.events().try_iter() {
        assert!(!matches!(event, Event::Delivered(_)), "at {columns} columns: {event:?}");
    }
    let recording = &fs::read(&record).unwrap()[..end];
    let clean = without_places(recording, sandbox.directory());
    let (messages, _) = extract_recording(&clean, columns.into(), ROWS.into());
    let bodies: Vec<_> = messages.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(bodies, heard, "{} at {columns} columns", kind.name());
    assert!(messages.iter().all(|message| message.to == "Bob"), "{messages:?}");
    if let Some(folder) = env::var_os("AGENT_RELAY_RECORDINGS") {
        let name = format!("{}-{columns}x{ROWS}.bytes", kind.name());
        fs::write(Path::new(&folder).join(name), &clean).unwrap();
    }
}

/// What Bob hears.
fn plays(agent: &mut Agent, bob: &Other) -> Vec<String> {
    let hear = |agent: &Agent| bob.hear(agent).body.clone();
    agent.wait_until_idle();
    bob.send("Ann", &format!("Have you read it?\n{OTHERS}"));
    let mut heard = vec![hear(agent)];
    agent.wait_until_idle();
    agent.submit("Tell him, look into the file, and tell him more.");
    let (question, yes) = agent.kind.permission();
    agent.answer(question, yes);
    heard.extend([hear(agent), hear(agent)]);
    agent.wait_until_idle();
    agent.terminal.press("\x1b[200~->relay:Cid <<< nor this>>>\x1b[201~");
    agent.terminal.wait_for("nor this");
    agent.stand_still();
    heard
}

/// A recording with another place of the same length for the sandbox.
fn without_places(recording: &[u8], directory: &Path) -> Vec<u8> {
    let place = directory.to_str().unwrap().as_bytes();
    let other: Vec<u8> =
        b"/home/ann".iter().copied().chain(std::iter::repeat(b'n')).take(place.len()).collect();
    let mut clean = recording.to_vec();
    while let Some(at) = clean.windows(place.len()).position(|bytes| bytes == place) {
        clean[at..at + place.len()].copy_from_slice(&other);
    }
    clean
}

macro_rules! recorded {
    ($($name:ident: $kind:expr;)*) => {
        $(
            #[test]
            fn $name() {
                for columns in [60, 100, 200] {
                    is_recorded($kind, columns);
                }
            }
        )*
    };
}

recorded! {
    a_recording_of_claude_says_what_was_heard: Kind::Claude;
    a_recording_of_codex_says_what_was_heard: Kind::Codex;
    a_recording_of_gemini_says_what_was_heard: Kind::Gemini;
}
