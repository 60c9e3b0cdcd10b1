//! Fuzzing of the server of the Model Context Protocol. Whatever a client writes, each output is
//! one line with one message, and no more commands run than are allowed.

use agent_relay::mcp::{CALLS_MAX, Ended, Input, Output, Server, Settings};
use protocol::Moment;
use serde_json::Value;

/// Writes the lines of the bytes to a server. Every second command ends at once.
pub fn run(bytes: &[u8]) {
    for states_name in [false, true] {
        let (name, escapes_marks, seed) = ("Ann".to_owned(), false, [1; 32]);
        let settings = Settings { version: "1", name, states_name, escapes_marks, seed };
        play(Server::new(settings), bytes);
    }
}

fn play(mut server: Server, bytes: &[u8]) {
    let (mut out, mut running, mut now) = (Vec::new(), Vec::new(), Moment(0));
    for line in bytes.split(|byte| *byte == b'\n') {
        now = now.plus(1000);
        server.handle(now, Input::Line(line.to_vec()), &mut out);
        check(&mut out, &mut running);
        if running.len() % 2 == 1
            && let Some(number) = running.pop()
        {
            let ended = Ended { text: "x".repeat(20_000), has_failed: number % 3 == 0 };
            server.handle(now, Input::Ended(number, ended), &mut out);
            check(&mut out, &mut running);
        }
    }
    server.handle(now, Input::Closed, &mut out);
    check(&mut out, &mut running);
    for number in running {
        let ended = Ended { text: String::new(), has_failed: true };
        server.handle(now, Input::Ended(number, ended), &mut out);
    }
    assert!(server.is_done());
}

fn check(out: &mut Vec<Output>, running: &mut Vec<u64>) {
    for output in out.drain(..) {
        match output {
            Output::Line(line) => {
                assert!(!line.contains('\n'));
                let line: Value = serde_json::from_str(&line).expect("a line is JSON");
                assert_eq!(line["jsonrpc"], "2.0");
            }
            Output::Run(number, command) => {
                running.push(number);
                assert!(running.len() <= CALLS_MAX && !command.words.is_empty());
                assert!(command.words.iter().all(|word| !word.contains('\0')));
            }
            Output::Stop(number) => assert!(running.contains(&number)),
        }
    }
}
