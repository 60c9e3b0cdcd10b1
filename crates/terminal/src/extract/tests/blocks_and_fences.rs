//! Tests of JSON blocks and of Markdown fences.

use super::*;
use expect_test::expect;

#[test]
fn messages_in_fences_are_text() {
    for (open, close) in [
        ("```", "```"),
        ("~~~", "~~~~"),
        ("   ````md", "  `````"),
        ("● ```rust", "  ```"),
        ("      ~~~ x`y", "~~~"),
        ("- ```", "  ```"),
        ("  * ~~~sh", "    ~~~"),
        ("+ 12) ```", "```"),
        ("1. ```text", "   ```"),
    ] {
        let inside =
            "->relay:Bob <<<\r\nInside>>>\r\n[[RELAY]]{}[[/RELAY]]\r\n``\r\n``` x\r\n~~~ x\r\n";
        let bytes = format!("{open}\r\n{inside}{close}\r\n->relay:Bob <<< Outside>>>\r\n");
        let (messages, problems) = extract_recording(bytes.as_bytes(), 80, 24);
        assert_eq!(problems, [], "{open}");
        assert_eq!(messages.len(), 1, "{open}: {messages:?}");
        assert_eq!(messages[0].body, "Outside", "{open}");
    }
}

#[test]
fn malformed_fence_is_text() {
    check(
        "```a`b\n``\n~~\n-```\n1.```\n- ``\n->relay:Bob <<< Hello>>>\n",
        expect![[r#"
        Bob: "Hello"
    "#]],
    );
}

#[test]
fn unclosed_fence_ends_with_the_turn() {
    let mut live = Live::new();
    live.write("```\n->relay:Bob <<< Inside>>>\n> ").wait(400).check_nothing();
    live.end_turn().wait(400).check(expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<< Inside>>>` is inside an unclosed code fence; close the fence before it.
    "#]]);
    live.write("\r->relay:Bob <<< Outside>>>\n> ").wait(400).check(expect![[r#"
        Bob: "Outside"
    "#]]);
    // The fence also ends if its rows have scrolled off.
    live.write("\n```\n->relay:Bob <<< Inside>>>\n> ").wait(400).end_turn();
    assert_eq!(std::mem::take(&mut live.found).len(), 1, "the problem is reported once more");
    live.write(&"\n".repeat(40)).check_nothing();
    live.write("->relay:Bob <<< Outside>>>\n> ").wait(400).check(expect![[r#"
        Bob: "Outside"
    "#]]);
}

#[test]
fn escaped_opening_line_is_text() {
    check("\\->relay:Bob <<<\nHello>>>\n", expect![[""]]);
}

#[test]
fn block_is_json_between_its_marks() {
    let rest = "\"type\": \"state\", \"body\": \"a\\nb\", \"thread\": \"t\", \"data\": {\"n\": 1.50, \"n\": [ ]}, \"meta\": {\"importance\": 80}, \"else\": 1}";
    check(
        &format!("[[RELAY]]\n{{\"to\": \"Bob\", \"topic\": \"x.y\",\n{rest}\n[[/RELAY]]\n"),
        expect![[r#"
            Bob thread=t topic=x.y data={"n": 1.50, "n": [ ]} meta={"importance": 80} kind=state: "a\nb"
        "#]],
    );
    check(
        "● [[RELAY]]{\"to\":\"#a\",\"type\":\"message\",\"body\":\"x\",\"topic\":\"b\"}[[/RELAY]] and on\n",
        expect![[r##"
            * topic=a: "x"
        "##]],
    );
    check(
        "see [[RELAY]]\n{\"to\":\"Bob\",\"type\":\"message\",\"body\":\"x\"}\n[[/RELAY]]\n",
        expect![[""]],
    );
}

#[test]
fn block_that_a_cli_wrapped_is_read() {
    let json = "{\"to\": \"Bob\", \"type\": \"message\", \"body\": \"A body that is long enough to be broken by a CLI, in the middle of it.\"}";
    for columns in [20, 33, 50] {
        let chars: Vec<char> = json.chars().collect();
        let cut: Vec<String> = chars.chunks(columns).map(|row| row.iter().collect()).collect();
        let bytes = format!("● [[RELAY]]\r\n  {}\r\n  [[/RELAY]]\r\n", cut.join("\r\n  "));
        let (messages, problems) = extract_recording(bytes.as_bytes(), columns + 2, 24);
        assert_eq!((messages.len(), problems.len()), (1, 0), "{columns}: {problems:?}");
    }
}

#[test]
fn malformed_block_is_reported_with_the_reason() {
    check(
        "[[RELAY]]\n{\"to\": \"Bob\", \"type\": \"message\", body}\n[[/RELAY]]\n",
        expect![[r#"
            ! Not sent: the [[RELAY]] block cannot be read (it is not JSON: key must be a string at line 1 column 34); it has to be JSON with to, type, and body or data, between [[RELAY]] and [[/RELAY]].
        "#]],
    );
    check(
        "[[RELAY]]\n{\"to\": \"Bob\", \"body\": \"x\"}\n[[/RELAY]]\n",
        expect![[r#"
            ! Not sent: the [[RELAY]] block cannot be read (there is no `type`); it has to be JSON with to, type, and body or data, between [[RELAY]] and [[/RELAY]].
        "#]],
    );
    check(
        "[[RELAY]]\n{\"to\": \"B b\", \"type\": \"message\", \"body\": \"x\"}\n[[/RELAY]]\n",
        expect![[r#"
            ! Not sent: the [[RELAY]] block cannot be read (`B b` is not an agent's name); it has to be JSON with to, type, and body or data, between [[RELAY]] and [[/RELAY]].
        "#]],
    );
    check(
        "[[RELAY]]\n[[/RELAY]]\n",
        expect![[r#"
            ! Not sent: the [[RELAY]] block cannot be read (it is empty); it has to be JSON with to, type, and body or data, between [[RELAY]] and [[/RELAY]].
        "#]],
    );
}

#[test]
fn opening_line_without_a_name_is_reported_with_the_reason() {
    check(
        "->relay: Bob <<<\nHello>>>\n\n->relay:<<<Hello>>>\n",
        expect![[r#"
            ! Not sent: a blank follows the colon; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
            ! Not sent: no name follows the colon; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
        "#]],
    );
}

#[test]
fn answer_to_a_command_line_is_read_from_screens_and_texts() {
    let answer = "->relay:\\@operator [reply:1a2b3c4d] <<<\n8080>>>\n";
    check(
        answer,
        expect![[r#"
            @operator reply=1a2b3c4d: "8080"
        "#]],
    );
    let mut found = Vec::new();
    TextExtractor::new(false).read(answer, &mut found);
    expect![[r#"
        @operator reply=1a2b3c4d: "8080"
    "#]]
    .assert_eq(&shown(&found));
}

#[test]
fn opening_line_ends_an_open_block() {
    check(
        "[[RELAY]]\n{\"to\":\n->relay:Bob <<< Hello>>>\n",
        expect![[r#"
        ! Not sent: the message that begins with `[[RELAY]]` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
        Bob: "Hello"
    "#]],
    );
}

#[test]
fn block_needs_a_body_or_data() {
    check(
        "[[RELAY]]\n{\"to\": \"Bob\", \"type\": \"note\", \"body\": \"\", \"data\": 1}\n[[/RELAY]]\n\
         [[RELAY]]\n{\"to\": \"Bob\", \"type\": \"note\", \"data\": [2]}\n[[/RELAY]]\n\
         [[RELAY]]\n{\"to\": \"Bob\", \"type\": \"note\"}\n[[/RELAY]]\n",
        expect![[r#"
            Bob data=1 kind=note: ""
            Bob data=[2] kind=note: ""
            ! Not sent: the message that begins with `[[RELAY]]` is empty; write its text before its end.
        "#]],
    );
}
