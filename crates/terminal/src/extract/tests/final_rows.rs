//! Tests of when a row is final and is read.

use super::*;
use expect_test::expect;

#[test]
fn row_is_final_after_250_ms_unchanged() {
    let mut live = Live::new();
    live.write(MAIL).write("$ ").wait(249).check_nothing();
    live.wait(1).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.wait(100_000).check_nothing();
}

#[test]
fn changing_row_is_not_final() {
    let mut live = Live::new();
    live.write("->relay:Bob <<<\nHello\n").wait(200);
    for _ in 0..10 {
        live.write("\x1b[A\x1b[2KHello Bob>>>\n$ \r").wait(100);
        live.write("\x1b[A\x1b[2KHello Bo\n$ \r").wait(100);
    }
    live.check_nothing();
    live.write("\x1b[A\x1b[2KHello Bobby>>>\n$ ").wait(300).check(expect![[r#"
        Bob: "Hello Bobby"
    "#]]);
}

#[test]
fn row_repainted_with_the_same_text_has_not_changed() {
    let mut live = Live::new();
    live.write(MAIL).write("| working\x1b[?25l");
    for spinner in ["/", "-", "\\"] {
        live.wait(100).write(&format!("\x1b[3A\r\x1b[J{MAIL}{spinner} working"));
    }
    live.check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn cursor_row_is_not_final() {
    let mut live = Live::new();
    live.write("->relay:Bob <<< Hello>>>\nbelow\x1b[A").wait(10_000).check_nothing();
    live.write("\n").wait(300).check(expect![[r#"
        Bob: "Hello"
    "#]]);
}

#[test]
fn close_waits_for_text_below() {
    let mut live = Live::new();
    live.write("->relay:Bob <<<\nshift by 2 >>>\n").wait(10_000).check_nothing();
    live.write("\n$ ").wait(300).check(expect![[r#"
        Bob: "shift by 2"
    "#]]);
}

#[test]
fn close_without_text_below_waits_for_the_end_of_the_turn() {
    let mut live = Live::new();
    live.write("->relay:Bob <<<\nHello>>>\n").wait(1_000).check_nothing();
    live.end_turn().check(expect![[r#"
        Bob: "Hello"
    "#]]);
    live.wait(100_000).check_nothing();
}

#[test]
fn scrolled_off_row_is_final_at_once() {
    let mut live = Live::new();
    live.write(MAIL).write(&"\n".repeat(30)).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.wait(1_000).check_nothing();
}

#[test]
fn erased_row_that_was_not_final_is_not_read() {
    let mut live = Live::new();
    live.write(MAIL).write("below").wait(200).write("\x1b[2J\x1b[H$ ").wait(1_000);
    live.write(&"\n".repeat(30)).wait(1_000).check_nothing();
    check(&format!("{MAIL}\x1b[2J\x1b[HHello{}", "\n".repeat(30)), expect![[""]]);
    check(&format!("{MAIL}\x1b[H\x1b[J{}", "\n".repeat(30)), expect![[""]]);
    check(&format!("{MAIL}\x1b[H\x1b[5M{}", "\n".repeat(30)), expect![[""]]);
}

#[test]
fn without_a_clock_rows_are_final_after_scrolling_off_and_at_the_end() {
    check(
        MAIL,
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
    check(
        &format!("{MAIL}{}\x1b[2J", "\n".repeat(30)),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
}

#[test]
fn without_a_clock_leaving_the_alternate_screen_makes_its_rows_final() {
    check(
        &format!("\x1b[?1049h{MAIL}\x1b[?1049l"),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
    check(&format!("\x1b[?1049h{MAIL}\x1b[2J\x1b[?1049l"), expect![[""]]);
    check(
        &format!("\x1b[?1049h{MAIL}"),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
}

#[test]
fn messages_on_every_kind_of_alternate_screen_count() {
    for mode in [47, 1047, 1049] {
        let bytes = format!("\x1b[?{mode}h{MAIL}\x1b[?{mode}l");
        let (messages, _) = extract_recording(bytes.replace('\n', "\r\n").as_bytes(), 80, 24);
        assert_eq!(messages.len(), 1, "{mode}");
    }
}

#[test]
fn unfinished_update_is_not_read() {
    let mut live = Live::new();
    live.write("\x1b[?2026h").write(MAIL).write("below").wait(700).check_nothing();
    live.write("\x1b[2J\x1b[Hsomething else\n\x1b[?2026l").wait(10_000).check_nothing();
    // An update without end is read after a while.
    live.write("\x1b[?2026h").write(MAIL).write("below").wait(1_300).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn unfinished_update_without_output_is_not_read_again() {
    let mut live = Live::new();
    live.write("\x1b[?2026h").write(MAIL).write("below");
    let mut ticks = 0;
    while let Some(deadline) = live.extractor.deadline() {
        live.extractor.tick(deadline, &mut live.found);
        ticks += 1;
        assert!(ticks < 10, "still due at {deadline:?}");
    }
    // New output is nevertheless read in time.
    let mut live = Live::new();
    live.write("\x1b[?2026h").write("half").wait(600).write("\x1b[2J\x1b[H").write(MAIL);
    live.write("below\x1b[?2026l").wait(301).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn exit_of_the_program_makes_everything_final() {
    let mut live = Live::new();
    live.write("->relay:Bob <<< Hello>>>").exit().check(expect![[r#"
        Bob: "Hello"
    "#]]);
    let mut live = Live::new();
    live.write("->relay:Bob <<<\nHello").exit().check(expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]]);
    let mut live = Live::new();
    live.write("\x1b[?1049h").write(MAIL).exit().check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}
