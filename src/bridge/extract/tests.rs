//! The rules of the protocol's last section, each by name.

use expect_test::{Expect, expect};

use super::*;

/// What was found, a line each.
fn shown(found: &[Extracted]) -> String {
    let mut text = String::new();
    for one in found {
        match one {
            Extracted::Found(message) => text.push_str(&told(message)),
            Extracted::Problem(problem) => text.push_str(&format!("! {}", problem.sentence)),
        }
        text.push('\n');
    }
    text
}

fn told(message: &Message) -> String {
    let to = match &message.to {
        Target::Agent(name) => name.clone(),
        Target::Everyone => "*".to_owned(),
        Target::Topic(topic) => format!("#{topic}"),
    };
    let mut text = to;
    for (key, value) in [
        ("thread", &message.thread),
        ("topic", &message.topic),
        ("reply", &message.reply),
        ("data", &message.data),
        ("meta", &message.meta),
    ] {
        if let Some(value) = value {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    if message.kind != "message" {
        text.push_str(&format!(" kind={}", message.kind));
    }
    format!("{text}: {:?}", message.body)
}

/// Bytes of a recording on 80 columns and 24 rows.
#[track_caller]
fn check(bytes: &str, expected: Expect) {
    let mut extractor = Extractor::offline(80, 24);
    let mut found = Vec::new();
    // What a terminal driver does to a program's newlines.
    extractor.feed(0, bytes.replace('\n', "\r\n").as_bytes(), &mut found);
    extractor.finish(0, &mut found);
    expected.assert_eq(&shown(&found));
}

#[test]
fn first() {
    check(
        "->relay:Bob <<<\nHello\nBob>>>\n$ ",
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
    check(
        "● ->relay:Bob [thread:t1] [topic:a.b] [reply:1a2b3c4d] <<< Hello\n  Bob\n\n    code\n  >>>\n$ ",
        expect![[r#"
        Bob thread=t1 topic=a.b reply=1a2b3c4d: "Hello\nBob\n\n  code"
    "#]],
    );
    check(
        "->relay:B!b <<<\nHello\n>>>\n$ ",
        expect![[r#"
        ! Not sent: `B!b` is no agent's name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]],
    );
    check(
        "[[RELAY]]\n{\"to\": \"*\", \"type\": \"message\", \"body\": \"Hello everyone\"}\n[[/RELAY]]\n",
        expect![[r#"
        *: "Hello everyone"
    "#]],
    );
    check(
        "[[RELAY]]\n{\"to\": \"*\", \"type\": \"message\"}\n[[/RELAY]]\n",
        expect![[r#"
        ! Not sent: the [[RELAY]] block can't be read (missing field `body` at line 1 column 30); it has to be JSON with to, type and body, between [[RELAY]] and [[/RELAY]].
    "#]],
    );
    check(
        "->relay:Bob <<<\nHello\n",
        expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]],
    );
    check(
        "```\n->relay:Bob <<<\nHello>>>\n```\n->relay:Bob <<<x>>>",
        expect![[r#"
        Bob: "x"
    "#]],
    );
}
