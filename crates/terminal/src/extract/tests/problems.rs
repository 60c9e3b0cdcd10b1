//! Tests of malformed and unclosed messages, which are reported to the agent.

use super::*;
use crate::recipe::Book;
use expect_test::expect;

#[test]
fn inline_form_is_reported_unless_allowed() {
    let text =
        "->relay:Bob hello there\n->relay:Bob [thread:t] hi\n->relay:b!b hello\n->relay:Bob\n";
    check(
        text,
        expect![[r#"
        ! Not sent: `->relay:Bob hello there` has no <<< after the name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>> (`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`).
        ! Not sent: `->relay:Bob [thread:t] hi` has no <<< after the name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>> (`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`).
        ! Not sent: `->relay:Bob` has no <<< after the name; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>> (`->relay:NAME text` alone counts only where your user starts you with `agent-relay run --inline`).
    "#]],
    );
    let (mut extractor, mut found) = (ScreenExtractor::offline(80, 24), Vec::new());
    extractor.allow_inline();
    extractor.feed(Moment::default(), text.replace('\n', "\r\n").as_bytes(), &mut found);
    extractor.finish(Moment::default(), &mut found);
    expect![[r#"
        Bob: "hello there"
        Bob thread=t: "hi"
        ! Not sent: `->relay:Bob` has no text; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]].assert_eq(&shown(&found));
}

#[test]
fn arrow_in_a_fence_escaped_or_wrapped_is_not_reported() {
    check(
        "```\n->relay:Bob hello\n```\n\\->relay:Bob hello\n    ->relay:Bob hello\n- ->relay:Bob hello\n",
        expect![[""]],
    );
    let full = "To tell him, an agent begins a line of its own with an arrow, such as";
    check(&format!("{full}\n->relay:Bob and goes on with its text there.\n"), expect![[""]]);
    let mut found = Vec::new();
    TextExtractor::new(false).read(&format!("{full}\n->relay:Bob hello"), &mut found);
    assert_eq!(found.len(), 1, "no program wraps a transcript's lines: {found:?}");
}

#[test]
fn arrow_that_may_become_an_opening_line_is_not_reported_yet() {
    let mut live = Live::new();
    live.write("->relay:Bob\n\n> composer").wait(5_000).check_nothing();
    live.write("\x1b[2A\r->relay:Bob <<<hello>>>\x1b[2B").wait(400).check(expect![[r#"
        Bob: "hello"
    "#]]);
    let mut live = Live::new();
    live.write("->relay:Bob hello\nDone.\n").wait(400);
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
    live.end_turn().write(&"\n".repeat(30)).wait(400);
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
}

#[test]
fn message_below_an_unfinished_mistake_is_extracted() {
    let mut live = Live::new();
    // The cursor stays in the row with the mistake.
    live.write(&format!("->relay:Bob Carl <<<\n\n{MAIL}\n> composer\x1b[1;5H")).wait(5_000);
    live.check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.write("\x1b[20;1H").wait(400);
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
}

#[test]
fn repeated_mistake_is_reported_each_time() {
    let wrong = "->relay:Bob Carl <<<\n";
    let mut live = Live::new();
    live.write(wrong).write(wrong).write("> ").wait(400);
    assert_eq!(live.found.len(), 2, "{}", shown(&live.found));
    live.write("\r").write(wrong).write("> ").wait(400);
    assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
}

#[test]
fn repainted_mistake_is_reported_once() {
    let screen = format!("->relay:Bob Carl <<<\n{MAIL}->relay:Bob <<<>>>\n");
    let mut live = Live::new();
    live.write(&screen).write("> ").wait(400);
    assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
    for _ in 0..3 {
        live.write(CLEAR_ALL).write(&screen).write("> ").wait(400);
    }
    live.resize(60, 24).write(CLEAR_ALL).write(&screen).write("> ").wait(400);
    live.write(&"\n".repeat(30)).wait(400);
    assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
}

#[test]
fn repeated_mistake_in_a_text_is_reported_each_time() {
    let (mut extractor, mut found) = (TextExtractor::new(false), Vec::new());
    for _ in 0..2 {
        extractor.read("->relay:Bob Carl <<<x>>>\n->relay:Bob Carl <<<x>>>", &mut found);
    }
    assert_eq!(found.len(), 4, "{}", shown(&found));
}

#[test]
fn unclosed_message_is_reported_once_at_the_end_of_the_turn() {
    let mut live = Live::new();
    live.write("->relay:Bob <<<\nHello\n> ").wait(59_000).check_nothing();
    live.wait(1_000).check(expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]]);
    live.wait(100_000).end_turn().check_nothing();
    live.write("\r->relay:Bob <<< Again>>>\n> ").wait(400).check(expect![[r#"
        Bob: "Again"
    "#]]);
    live.write(&"\n".repeat(40)).wait(400).check_nothing();
}

#[test]
fn message_overwritten_by_a_repaint_is_not_reported_as_unclosed() {
    let long: String = (0..40).map(|n| format!("  line {n}\n")).collect();
    let message = format!("● ->relay:Bob <<<\n{long}");
    check(
        &format!("{message}{CLEAR_ALL}{message}  end>>>\n"),
        expect![[r#"
        Bob: "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\nline 11\nline 12\nline 13\nline 14\nline 15\nline 16\nline 17\nline 18\nline 19\nline 20\nline 21\nline 22\nline 23\nline 24\nline 25\nline 26\nline 27\nline 28\nline 29\nline 30\nline 31\nline 32\nline 33\nline 34\nline 35\nline 36\nline 37\nline 38\nline 39\nend"
    "#]],
    );
    let mut live = Live::new();
    live.write(&message).resize(100, 24).write(&format!("{message}  end>>>\n> ")).wait(400);
    let [Extracted::Message(_)] = &live.found[..] else { panic!("{}", shown(&live.found)) };
}

#[test]
fn overwritten_message_that_is_not_painted_again_is_reported() {
    let long: String = (0..40).map(|n| format!("  line {n}\n")).collect();
    let message = format!("● ->relay:Bob <<<\n{long}");
    let mut live = Live::new();
    live.write(&message).write(CLEAR_ALL).write("Something else.\n> ").wait(400).check_nothing();
    live.end_turn().check(expect![[r#"
        ! Not sent: the message that begins with `● ->relay:Bob <<<` was overwritten on the screen before its end was read; send it again.
    "#]]);
    live.write("more\n").wait(400).end_turn().check_nothing();
    let mut live = Live::new();
    live.write(&message).resize(100, 20).write("Something else.\n> ").wait(400).check_nothing();
    live.end_turn().check(expect![[r#"
        ! Not sent: the message that begins with `● ->relay:Bob <<<` was overwritten on the screen before its end was read; send it again.
    "#]]);
    // The message was read before its repaint was overwritten.
    let mut live = Live::new();
    live.write(&message).write("  end>>>\n> ").wait(400);
    live.write(CLEAR_ALL).write(&message).write(CLEAR_ALL).write("> ").wait(400).end_turn();
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
}

#[test]
fn margin_of_the_program_is_not_indentation() {
    let long =
        "a line that the program itself breaks, since it is longer than what it has room for";
    let (above, below) = long.split_at(long.find(" has").unwrap());
    let below = below.trim_start();
    let rows = format!(
        "  ┃  ->relay:Bob <<<not mine>>>\n\n     ->relay:Bob <<<\n     - {}\n       {}\n\n     \
        code:\n         indented>>>\n\n         ->relay:Bob <<<deeper>>>\n",
        above, below
    );
    let read = |margin: usize| {
        let mut extractor = ScreenExtractor::offline(80, 24);
        extractor.skip_margin(margin);
        extractor.read_recording(rows.replace('\n', "\r\n").as_bytes()).0
    };
    let [message] = &read(5)[..] else { panic!("{:?}", read(5)) };
    assert_eq!(message.body, format!("- {long}\n\ncode:\n    indented"));
    assert_eq!(read(0), []);
}

/// aider prints the output of commands that it runs. That output is not the agent's text.
#[test]
fn command_output_is_not_the_agents() {
    let output = "->relay:Cid <<<\nnot said>>>\na line";
    let question = "(Y)es/(N)o/(D)on't ask again [Yes]: y";
    let rows = format!(
        "> Run it.\n\nI run it.\n\n->relay:Bob <<<\nbefore>>>\n\ncat notes\nRun shell command? \
         {question}\n\nRunning cat notes\n{output}\nAdd command output to the chat? {question}\n\n\
         Running well.\n\n->relay:Bob <<<\nbetween>>>\n\n> /run cat notes\n{output}\n\n\
         > Running it again?\n\n->relay:Bob <<<\nafter>>>\n\n> !cat notes\n{output}\n> "
    );
    let read = |program: &str, rows: &str| -> Vec<String> {
        let mut extractor = ScreenExtractor::offline(80, 24);
        let recipe = Book::default().choose(&[program.to_owned()], "linux", None);
        extractor.leave_out(recipe.command_output());
        let (messages, _) = extractor.read_recording(rows.replace('\n', "\r\n").as_bytes());
        messages.into_iter().map(|message| message.body).collect()
    };
    assert_eq!(read("aider", &rows), ["before", "between", "after"]);
    assert_eq!(read("agent", &rows).len(), 6);
    // An entry within a message is a part of its text. A mode's prompt ends output even if the
    // recipe does not know the mode.
    let rows = format!(
        "->relay:Bob <<<\nfirst\n> /run make\nlast>>>\n\n> !cat notes\n{output}\nmulti> thanks\n\n\
         ->relay:Bob <<<\nafter>>>\n> "
    );
    assert_eq!(read("aider", &rows), ["first\n> /run make\nlast", "after"]);
}
