//! Tests of opening lines: marks, targets and tags.

use super::*;
use expect_test::expect;

#[test]
fn opening_line_may_begin_with_blanks_or_a_bullet() {
    for lead in ["", " ", "  ", "   ", "⏺ ", "● ", "• ", "✦ ", "◆ ", "○ ", "●   ", "●"]
    {
        let found =
            extract_recording(format!("{lead}->relay:Bob <<<Hello>>>\r\n").as_bytes(), 80, 24);
        assert_eq!(found.0.len(), 1, "{lead:?}: {found:?}");
        assert_eq!(found.0[0].body, "Hello", "{lead:?}");
    }
}

#[test]
fn arrow_after_other_text_is_text() {
    for lead in [
        "    ",
        "\t",
        "> ",
        "$ ",
        "# ",
        "- ",
        "* ",
        "1. ",
        "2) ",
        "  ● ",
        " •",
        "● ● ",
        "❯ ",
        "│ ",
        "  ⎿  ",
        "so I wrote ",
        "● I wrote ",
        "\\",
        "`",
        "+",
        "%",
        "→ ",
        "»",
    ] {
        let found =
            extract_recording(format!("{lead}->relay:Bob <<<Hello>>>\r\n").as_bytes(), 80, 24);
        assert_eq!(found, (vec![], vec![]), "{lead:?}");
    }
}

#[test]
fn targets_are_agents_everyone_and_topics() {
    check(
        "->relay:codex-1 <<<a>>>\n->relay:* <<<b>>>\n->relay:#build.linux <<<c>>>\n",
        expect![[r#"
            codex-1: "a"
            *: "b"
            * topic=build.linux: "c"
        "#]],
    );
    check(
        "->relay:Bob: <<<a>>>\n->relay:Bob, <<<b>>>\n->relay:Bob<<<c>>>\n",
        expect![[r#"
        Bob: "a"
        Bob: "b"
        Bob: "c"
    "#]],
    );
    check(
        "->relay:#build [topic:chat] <<<a>>>\n->relay:* [topic:chat] <<<b>>>\n",
        expect![[r##"
        * topic=build: "a"
        * topic=chat: "b"
    "##]],
    );
}

#[test]
fn tags_may_have_any_order_and_the_last_of_a_kind_counts() {
    check(
        "->relay:Bob [topic:a.b]   [thread:t-1] [reply:1a2b3c4d] [thread:t-2]<<< Hi>>>\n",
        expect![[r#"
            Bob thread=t-2 topic=a.b reply=1a2b3c4d: "Hi"
        "#]],
    );
}

#[test]
fn malformed_opening_line_is_reported() {
    for opener in [
        "->relay: Bob <<<",
        "->relay:<NAME> <<<",
        "->relay:-bob <<<",
        "->relay:Bob. <<<",
        "->relay:system <<<",
        "->relay:Everyone <<<",
        "->relay:@relay <<<",
        "->relay:#a.* <<<",
        "->relay:#a..b <<<",
        "->relay:# <<<",
        "->relay:** <<<",
        "->relay:Bob Carl <<<",
        "->relay:Bob [thread:] <<<",
        "->relay:Bob [topic:a.>] <<<",
        "->relay:Bob [key:x] <<<",
        "->relay:Bob[thread:x] <<<",
        "->relay:Bob:: <<<",
        "->relay:Böb <<<",
    ] {
        let (messages, problems) =
            extract_recording(format!("{opener}\r\nHello\r\n>>>\r\n").as_bytes(), 80, 24);
        assert_eq!(messages, [], "{opener}");
        assert_eq!(problems.len(), 1, "{opener}: {problems:?}");
        assert_eq!(problems[0].fault, Fault::OpeningLine, "{opener}");
        // In a code fence and in a body, the malformed line is text.
        let fenced = format!("```\r\n{opener}\r\n```\r\n->relay:Bob <<<\r\n{opener}\r\n>>>\r\n");
        let (messages, problems) = extract_recording(fenced.as_bytes(), 80, 24);
        assert_eq!((messages.len(), problems.len()), (1, 0), "{opener}: {problems:?}");
        assert_eq!(messages[0].body, opener);
    }
}

#[test]
fn arrow_and_name_without_opening_marks_are_reported() {
    check(
        "->relay:Bob hello\n->relay:Bob\n->relay:Bob \\<<< hello>>>\n->relayed: <<<x>>>\n",
        expect![[r#"
            ! Not sent: `->relay:Bob hello` has no <<< after the name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>> (`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`).
            ! Not sent: `->relay:Bob` has no <<< after the name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>> (`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`).
        "#]],
    );
}
