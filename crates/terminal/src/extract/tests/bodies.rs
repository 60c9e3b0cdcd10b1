//! Tests of closing marks and bodies.

use super::*;
use expect_test::expect;

#[test]
fn first_line_that_ends_with_the_closing_marks_closes() {
    check(
        "->relay:Bob <<<\nlast words>>>\n",
        expect![[r#"
        Bob: "last words"
    "#]],
    );
    check(
        "->relay:Bob <<<\nlast words\n>>>\n",
        expect![[r#"
        Bob: "last words"
    "#]],
    );
    check(
        "->relay:Bob <<<\nlast words >>>  \n",
        expect![[r#"
        Bob: "last words"
    "#]],
    );
    check(
        "->relay:Bob <<<\n>>> print(1)\n1\n>>> text >> more\nx >>\nend>>>\nafter>>>\n",
        expect![[r#"
            Bob: ">>> print(1)\n1\n>>> text >> more\nx >>\nend"
        "#]],
    );
    check(
        "->relay:Bob <<<\nnot yet \\>>>\nnow>>>\n",
        expect![[r#"
        Bob: "not yet >>>\nnow"
    "#]],
    );
    check(
        "->relay:Bob <<<\na >>>>\n",
        expect![[r#"
        Bob: "a >"
    "#]],
    );
}

#[test]
fn escapes_in_a_body_lose_their_backslash() {
    check(
        "->relay:Bob <<<\nwrite \\->relay:Carl \\<<< text \\>>>\n\\->relay:Carl \\<<<\nso \\n>>>\n",
        expect![[r#"
            Bob: "write ->relay:Carl <<< text >>>\n->relay:Carl <<<\nso \\n"
        "#]],
    );
}

#[test]
fn blocks_and_fences_in_a_body_are_text() {
    check(
        "->relay:Bob <<<\n[[RELAY]]\n{\"to\": \"Carl\"}\n[[/RELAY]]\n```\nfn main() {}\nuse ->relay:Carl <<< here\n>>>\n",
        expect![[r#"
            Bob: "[[RELAY]]\n{\"to\": \"Carl\"}\n[[/RELAY]]\n```\nfn main() {}\nuse ->relay:Carl <<< here"
        "#]],
    );
}

#[test]
fn opening_line_in_a_body_begins_another_message() {
    check(
        "->relay:Bob <<<\nOne\n->relay:Carl <<<\nTwo>>>\n",
        expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
        Carl: "Two"
    "#]],
    );
    check(
        "->relay:Bob <<<\n```\nOne\n  ->relay:Carl <<<\nTwo>>>\n",
        expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
        Carl: "Two"
    "#]],
    );
}

#[test]
fn shared_indentation_is_removed() {
    check(
        "● ->relay:Bob <<<\n  if x:\n      y()\n  z()>>>\n",
        expect![[r#"
        Bob: "if x:\n    y()\nz()"
    "#]],
    );
    check(
        "● ->relay:Bob <<< if x:\n      y()\n  z()>>>\n",
        expect![[r#"
        Bob: "if x:\n    y()\nz()"
    "#]],
    );
    check(
        "  ->relay:Bob <<<\n      deep\n        deeper\n>>>\n",
        expect![[r#"
        Bob: "deep\n  deeper"
    "#]],
    );
    check(
        "  ->relay:Bob <<< text\n      deep\n  >>>\n",
        expect![[r#"
        Bob: "text\n    deep"
    "#]],
    );
    check(
        "● ->relay:Bob <<<\nno hang here\n  but here>>>\n",
        expect![[r#"
        Bob: "no hang here\nbut here"
    "#]],
    );
}

#[test]
fn blank_lines_are_kept_within_a_body_and_removed_at_its_ends() {
    check(
        "->relay:Bob <<<\n\n   \n  one\n\n\n  two  \n\n>>>\n",
        expect![[r#"
        Bob: "one\n\n\ntwo"
    "#]],
    );
}

#[test]
fn tabs_in_a_body_are_kept() {
    check(
        "->relay:Bob <<<\nall:\n\tcargo build\n\t\tmore\n>>>\n->relay:Bob <<<\n\ta\n\tb>>>\n",
        expect![[r#"
            Bob: "all:\n\tcargo build\n\t\tmore"
            Bob: "a\nb"
        "#]],
    );
}

#[test]
fn empty_body_is_reported_each_time() {
    check(
        "->relay:Bob <<<>>>\n->relay:Bob <<<\n\n  >>>\n->relay:Bob <<< >>>\n",
        expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<>>>` is empty; write its text before its end.
        ! Not sent: the message that begins with `->relay:Bob <<<` is empty; write its text before its end.
        ! Not sent: the message that begins with `->relay:Bob <<< >>>` is empty; write its text before its end.
    "#]],
    );
    check(
        "[[RELAY]]\n{\"to\": \"Bob\", \"type\": \"note\", \"body\": \"\"}\n[[/RELAY]]\n",
        expect![[r#"
            ! Not sent: the message that begins with `[[RELAY]]` is empty; write its text before its end.
        "#]],
    );
}

#[test]
fn body_of_more_than_a_megabyte_is_too_large() {
    let lines = |count: usize| {
        let body: String = (0..count).map(|n| format!("line {n}\r\n")).collect();
        extract_recording(format!("->relay:Bob <<<\r\n{body}>>>\r\n").as_bytes(), 80, 24)
    };
    let (messages, problems) = lines(80_000);
    assert_eq!((messages.len(), problems.len()), (1, 0));
    assert_eq!(messages[0].body.lines().count(), 80_000);
    for too_many in [110_000, 400_000] {
        let (messages, problems) = lines(too_many);
        assert_eq!((messages.len(), problems.len()), (0, 1));
        assert_eq!(problems[0].fault, Fault::TooLarge);
    }
}
