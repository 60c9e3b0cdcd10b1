//! What a transcript's texts say.

use super::{Extracted, Prose};

/// The messages of a text, and of its problems the sentences.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let mut found = Vec::new();
    Prose::new(false).read(text, &mut found);
    let said: Vec<String> = found
        .into_iter()
        .map(|one| match one {
            Extracted::Found(message) => format!("{}: {}", message.to, message.body),
            Extracted::Problem(problem) => format!("{:?} {}", problem.what, problem.row),
        })
        .collect();
    assert_eq!(said, expected, "{text}");
}

#[test]
fn a_fence_of_a_body_is_its_text() {
    check(
        "Sure.\n\n->relay:Bob <<<\nWrite:\n\n```\n->relay:Cid <<<hello>>>\n```\n\nthen wait.>>>\nDone.",
        &["Bob: Write:\n\n```\n->relay:Cid <<<hello>>>\n```\n\nthen wait."],
    );
    check(
        "->relay:Bob <<<\n~~~python\n>>> 1 + 1\nx = '>>>\n~~~>>>\n->relay:Cid <<<b>>>",
        &["Bob: ~~~python\n>>> 1 + 1\nx = '>>>\n~~~", "Cid: b"],
    );
    check("->relay:Bob <<<\n````\n```\n>>>\n````\n>>>", &["Bob: ````\n```\n>>>\n````"]);
}

#[test]
fn a_fence_that_a_body_leaves_open_does_not_take_the_rest() {
    check(
        "->relay:Bob <<<\n```\ncode>>>\n\n->relay:Cid <<<\nmore>>>\nDone.",
        &["Bob: ```\ncode", "Cid: more"],
    );
    check(
        "->relay:Bob <<<\n```\nnever closed\n->relay:Cid <<<b>>>",
        &["Unclosed ->relay:Bob <<<", "Cid: b"],
    );
}

#[test]
fn a_body_keeps_its_ends_of_lines() {
    check(
        "Sure.\r\n->relay:Bob <<<\r\none\r\n```\r\n->relay:Cid <<<no>>>\r\n```\r\ntwo>>>\r\nDone.\r\n",
        &["Bob: one\r\n```\r\n->relay:Cid <<<no>>>\r\n```\r\ntwo"],
    );
}

#[test]
fn examples_are_no_messages() {
    check(
        "So:\n```\n->relay:Bob <<<no>>>\n```\nand `->relay:Bob <<<no>>>`,\n> ->relay:Bob <<<no>>>",
        &[],
    );
}
