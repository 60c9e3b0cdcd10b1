//! Tests of lines that a terminal or a CLI split into rows.

use super::*;
use expect_test::expect;

#[test]
fn rows_that_the_terminal_wrapped_are_joined_with_nothing() {
    let long = "word ".repeat(60) + &"x".repeat(200) + "\n" + &"y ".repeat(39) + "\nnext>>>\n";
    let mut found = Vec::new();
    let mut extractor = ScreenExtractor::offline(80, 24);
    extractor.feed(
        Moment::default(),
        format!("->relay:Bob <<<\n{long}").replace('\n', "\r\n").as_bytes(),
        &mut found,
    );
    extractor.finish(Moment::default(), &mut found);
    let [Extracted::Message(message)] = &found[..] else { panic!("{}", shown(&found)) };
    assert_eq!(message.body.lines().count(), 3);
    assert!(message.body.starts_with(&("word ".repeat(60) + "xxx")), "{}", message.body);
}

#[test]
fn rows_that_the_cli_wrapped_are_joined_with_a_blank() {
    let row = "a row that goes on until the next word does not fit into it any more, since";
    check(
        &format!("● ->relay:Bob <<<\n  {row}\n  eighty columns end.\n  Next>>>\n"),
        expect![[r#"
            Bob: "a row that goes on until the next word does not fit into it any more, since eighty columns end.\nNext"
        "#]],
    );
}

#[test]
fn word_longer_than_a_row_is_joined_with_nothing() {
    let url = format!("https://example.org/{}", "abcdefghi/".repeat(15));
    let (first, rest) = url.split_at(78);
    let (second, third) = rest.split_at(78);
    check(
        &format!("● ->relay:Bob <<<\n  {first}\n  {second}\n  {third}>>>\n"),
        expect![[r#"
        Bob: "https://example.org/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/abcdefghi/"
    "#]],
    );
}

#[test]
fn wide_characters_are_joined_with_nothing() {
    let text = "设计文档已经更新主要的变化是".repeat(6);
    let rows: Vec<String> =
        text.chars().collect::<Vec<_>>().chunks(39).map(|row| row.iter().collect()).collect();
    check(
        &format!("● ->relay:Bob <<<\n  {}>>>\n", rows.join("\n  ")),
        expect![[r#"
        Bob: "设计文档已经更新主要的变化是设计文档已经更新主要的变化是设计文档已经更新主要的变化是设计文档已经更新主要的变化是设计文档已经更新主要的变化是设计文档已经更新主要的变化是"
    "#]],
    );
}

#[test]
fn lists_quotes_tables_headings_and_series_are_not_joined() {
    let long = "a row that goes on until the next word does not fit into it any more: 12345";
    for next in
        ["- item", "12. item", "> quote", "```rust", "| a | b |", "┌───┐", "## heading", "    code"]
    {
        let bytes = format!("● ->relay:Bob <<<\r\n  {long}\r\n  {next}{}>>>\r\n", "x".repeat(20));
        let (messages, _) = extract_recording(bytes.as_bytes(), 80, 24);
        assert_eq!(messages[0].body.lines().count(), 2, "{next}: {messages:?}");
    }
    let bytes = format!("● ->relay:Bob <<<\r\n  {long}\r\n  {long}>>>\r\n");
    let (messages, _) = extract_recording(bytes.as_bytes(), 80, 24);
    assert_eq!(messages[0].body.lines().count(), 2, "{messages:?}");
}

#[test]
fn list_items_and_quotes_are_joined_under_their_marks() {
    check(
        "● ->relay:Bob <<<\n  - an item whose text goes on until the next word does not fit in it, and only\n    so far\n  > a quote whose text goes on until the next word does not fit in it, and only\n  > so far>>>\n",
        expect![[r#"
            Bob: "- an item whose text goes on until the next word does not fit in it, and only so far\n> a quote whose text goes on until the next word does not fit in it, and only so far"
        "#]],
    );
}
