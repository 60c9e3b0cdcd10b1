//! Tests of the input line and the keystroke filter.

use super::{
    decoder::{ANSWER_MS, ESCAPE_MS, KeyDecoder, SEQUENCE_MS},
    filter::ANSWER_BYTES_MAX,
    key::Key,
    *,
};
use protocol::Moment;

/// Encodes characters as a Windows console does, each pressed without modifiers and released.
fn win32_keys(characters: &str) -> String {
    let unit = |c: char| format!("\x1b[65;30;{0};1;0;1_\x1b[65;30;{0};0;0;1_", u32::from(c));
    characters.chars().map(unit).collect()
}

#[test]
fn win32_encoded_keys_are_decoded() {
    let typed = |keys: &str, after: &'static str| {
        check_empty(&[(&win32_keys(keys), after)], after.len() < 3)
    };
    typed("l", "> l");
    typed("l\r", "> ");
    typed("l\x03", "> ");
    check_empty(&[(&win32_keys("ls"), "> ls"), (&win32_keys("\r"), "")], true);
    // Shift+Enter, Alt+Enter; a paste.
    check_empty(&[("\x1b[13;28;13;1;16;1_", "> ")], false);
    check_empty(&[("\x1b[13;28;13;1;2;1_", "> ")], false);
    check_empty(&[(&win32_keys("\x1b[200~a\rb\x1b[201~"), "> b"), ("", "> ")], false);
    check_empty(&[(&win32_keys("\x1b[200~a\rb\x1b[201~\r"), "> ")], true);
    // An arrow; Shift alone; the release of a key.
    check_empty(&[("\x1b[38;72;0;1;256;1_", "> ls")], false);
    check_empty(&[("\x1b[16;42;0;1;16;1_", "> ")], true);
    for (keys, any, may_command) in [
        ("\x1b[16;42;0;1;16;1_", true, false),
        ("\x1b[65;30;97;0;0;1_", false, false),
        ("\x1b[_", false, false),
        (&win32_keys("\x1b"), true, true),
        ("\x1b[66;48;98;1;2;1_", true, true),
        // AltGr.
        ("\x1b[81;16;64;1;9;1_", true, false),
        // The character with the number 132, typed while Alt is held.
        ("\x1b[18;56;228;0;0;1_", true, false),
    ] {
        let mut line = InputLine::default();
        assert_eq!(line.press(Moment(0), keys.as_bytes(), "> ", false).any, any, "{keys:?}");
        assert_eq!(line.may_take_text_for_commands(), may_command, "{keys:?}");
    }
}

#[test]
fn decoder_waits_only_for_the_rest_of_a_sequence() {
    let mut decoder = KeyDecoder::default();
    decoder.next(Moment(1_000), b'x');
    assert_eq!(decoder.expires_at(), None);
    for (start, wait_ms, key) in
        [("\x1b", ESCAPE_MS, Key::Escape), ("\x1b[", SEQUENCE_MS, Key::MayChangeMode)]
    {
        for byte in start.bytes() {
            assert_eq!(decoder.next(Moment(2_000), byte), None);
        }
        let end = Moment(2_000).plus(wait_ms);
        assert_eq!(decoder.expires_at(), Some(end));
        assert_eq!(decoder.expire(Moment(end.0 - 1)), None);
        assert_eq!(decoder.expire(end), Some(key));
        assert_eq!(decoder.expires_at(), None);
    }
}

/// Over a slow connection, an answer may come in pieces.
#[test]
fn rest_of_an_answer_is_awaited_for_long() {
    for (start, rest) in [
        ("\x1b]11;rgb:1414/19", "19/1f1f\x1b\\"),
        ("\x1b]4;1", "2;rgb:0/0/0\x07"),
        ("\x1bP1+r54", "4e\x1b\\"),
        ("\x1bP>|xterm", "(370)\x1b\\"),
        ("\x1b[?62;2", "2c"),
        ("\x1b[12;3", "4R"),
        ("\x1b_Gi=3", "1;OK\x1b\\"),
    ] {
        for wait_ms in [1, SEQUENCE_MS + 50, ANSWER_MS - 1] {
            let mut line = InputLine::default();
            assert!(!line.press(Moment(1000), start.as_bytes(), "> ", false).any, "{start:?}");
            let later = Moment(1000).plus(wait_ms);
            assert!(!line.press(later, rest.as_bytes(), "> ", false).any, "{start:?} {wait_ms}");
            assert!(line.is_empty("> ") && line.is_untouched(), "{start:?} {wait_ms}");
        }
        // The rest is lost: the line is empty again.
        let mut line = InputLine::default();
        line.press(Moment(1000), start.as_bytes(), "> ", false);
        assert!(!line.is_untouched());
        line.expire_unfinished(Moment(1000).plus(ANSWER_MS));
        assert!(line.is_untouched(), "{start:?}");
    }
    // A key pressed with Alt, and typed text after it.
    let mut line = InputLine::default();
    line.press(Moment(1000), b"\x1b]", "> ", false);
    assert!(line.press(Moment(1300), b"11", "> ", false).any);
}

/// Checks whether the line is empty after these steps. Each step is keys, and the text before the
/// cursor after them.
#[track_caller]
fn check_empty(steps: &[(&str, &str)], expected: bool) {
    let mut line = InputLine::default();
    line.remember_empty_look("> ");
    let mut before = "> ";
    for (second, (keys, after)) in (1..).zip(steps) {
        line.press(Moment(1000 * second), keys.as_bytes(), before, false);
        line.screen_shows(after);
        before = after;
    }
    assert_eq!(line.is_empty(before), expected, "{steps:?}");
}

#[test]
fn line_is_begun_by_text_and_ended_by_enter() {
    check_empty(&[], true);
    check_empty(&[("l", "> l")], false);
    check_empty(&[("l", "> l"), ("s\r", "")], true);
    check_empty(&[("ls\n", "")], true);
    check_empty(&[("ls", "> ls"), ("\x03", "> ")], true);
    check_empty(&[("ls", "> ls"), ("\x1bOM", "> ")], true);
    check_empty(&[("ls", "> ls"), ("\x1b[13u", "> ")], true);
}

#[test]
fn enter_submits_in_every_encoding() {
    let submits =
        |keys: &str| InputLine::default().press(Moment(0), keys.as_bytes(), "> ", false).submit;
    for keys in ["\r", "ls\r", "\n", "\x1bOM", "\x1b[13u", "\x1b[13;28;13;1;0;1_", "a\\\r"] {
        assert!(submits(keys), "{keys:?}");
    }
    for keys in ["ls", "\x1b\r", "\x1b[13;2u", "\x1b[200~a\rb\x1b[201~", "\x1b[13;28;13;0;0;1_"] {
        assert!(!submits(keys), "{keys:?}");
    }
}

#[test]
fn csi_encoded_keys_are_decoded_and_releases_ignored() {
    for (keys, empty, may_command) in [
        // Escape; releases of a letter, an Enter and an arrow; Shift alone; Ctrl-L.
        ("\x1b[27u", true, true),
        ("\x1b[97;1:3u", true, false),
        ("\x1b[13;1:3u", true, false),
        ("\x1b[1;1:3A", true, false),
        ("\x1b[57441;2u", true, false),
        ("\x1b[108;5u", true, false),
        ("\x1b[97u", false, false),
        ("\x1b[97;3u", false, true),
        ("\x1b[27;2;65~", false, false),
        // Caps Lock and Num Lock do not change the key.
        ("ls\x1b[13;129u", true, false),
        ("ls\x1b[99;197u", true, false),
        ("ls\x1b[27;5;99~", true, false),
        ("ls\x1b[13;1:1u\x1b[115;1:3u", true, false),
    ] {
        let mut line = InputLine::default();
        let pressed = line.press(Moment(0), keys.as_bytes(), "> ", false);
        assert!(pressed.any, "{keys:?}");
        assert_eq!(
            (line.is_empty("> x"), line.may_take_text_for_commands()),
            (empty, may_command),
            "{keys:?}"
        );
        assert_eq!(KeystrokeFilter::default().keys(Moment(0), keys.as_bytes()), keys.as_bytes());
    }
}

#[test]
fn line_is_empty_again_when_the_screen_shows_it() {
    check_empty(&[("l", "> l"), ("\x7f", "> ")], true);
    check_empty(&[("l", "> l"), ("\x7f", "> x")], false);
    check_empty(&[("\x1b[A", "> ls")], false);
    check_empty(&[("\x1b[A", "> ls"), ("\x1b[B", "> ")], true);
    check_empty(&[("\x1b[A", "> ")], true);
    // A dialog appeared, a key answered it, and the composer is back.
    check_empty(&[("1", "Allow? "), ("", "> ")], true);
}

#[test]
fn text_without_echo_is_typed_text() {
    check_empty(&[("secret", "> ")], false);
    check_empty(&[("secret", "> "), ("\r", "> ")], true);
}

#[test]
fn text_after_escape_may_be_commands_until_submit() {
    let may_command = |steps: &[&str], pause_ms: u64| {
        let mut line = InputLine::default();
        for (at, keys) in (1..).zip(steps) {
            line.press(Moment(at * pause_ms), keys.as_bytes(), "$ ", false);
        }
        line.may_take_text_for_commands()
    };
    for steps in [&["\x1b"][..], &["\x1b", "k"], &["ls", "\x1b", "dd"], &["\x1bb"], &["\x16"]] {
        assert!(may_command(steps, ESCAPE_MS - 1), "{steps:?}");
        assert!(may_command(steps, ESCAPE_MS), "{steps:?}");
    }
    for steps in [&["\x1b", "\r"][..], &["\x1b", "k", "\x03"], &["\x1b[A"], &["ls"]] {
        assert!(!may_command(steps, ESCAPE_MS), "{steps:?}");
    }
    assert!(!may_command(&["\x1b", "[A"], ESCAPE_MS - 1));
    assert!(may_command(&["\x1b", "[A"], ESCAPE_MS));
}

/// Immediately after an ESC, these characters would begin a string, a control sequence, or a single
/// shift.
#[test]
fn late_byte_after_escape_is_a_separate_key() {
    for key in ["P", "X", "^", "_", "]", "O", "["] {
        let mut line = InputLine::default();
        assert!(line.press(Moment(0), b"\x1b", "> ", false).any);
        assert!(line.is_empty("> "));
        assert!(line.press(Moment(ESCAPE_MS), key.as_bytes(), "> ", false).any, "{key}");
        line.screen_shows(&format!("> {key}"));
        assert!(!line.is_empty(&format!("> {key}")), "{key}");
        assert!(line.press(Moment(5000), b"lease\r", "", false).any, "{key}");
        assert!(line.is_empty(""), "{key}");
    }
}

#[test]
fn beginning_of_an_answer_is_ambiguous_and_then_a_key() {
    for key in ["\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x1b]", "\x1bO", "\x1b["] {
        let mut line = InputLine::default();
        line.remember_empty_look("$ ");
        assert!(!line.press(Moment(0), key.as_bytes(), "$ ", false).any, "{key:?}");
        assert!(
            !line.is_untouched() && !line.is_empty("$ ") && line.may_take_text_for_commands(),
            "{key:?}"
        );
        assert_eq!(line.expire_unfinished(Moment(SEQUENCE_MS - 1)), None, "{key:?}");
        assert_eq!(line.expire_unfinished(Moment(SEQUENCE_MS)), Some(Moment(0)), "{key:?}");
        assert!(!line.is_ambiguous() && line.may_take_text_for_commands(), "{key:?}");
        assert!(!line.is_empty("$ file"), "{key:?}");
        assert!(line.press(Moment(1000), b"x", "$ file", false).any, "{key:?}");
        assert!(line.press(Moment(1001), b"\r", "$ file", false).any, "{key:?}");
        assert!(line.is_empty("") && !line.may_take_text_for_commands(), "{key:?}");
    }
}

#[test]
fn control_character_or_escape_ends_an_answer() {
    for (key, empty) in [("\r", true), ("\x03", true), ("\x01", false), ("\x1b[A", false)] {
        for begun in ["\x1bP", "\x1b]", "\x1b["] {
            let (mut line, mut keys) = (InputLine::default(), KeystrokeFilter::default());
            let bytes = format!("{begun}lease{key}");
            assert!(line.press(Moment(0), bytes.as_bytes(), "$ ", false).any, "{bytes:?}");
            assert_eq!(line.is_empty("$ x"), empty, "{bytes:?}");
            assert_eq!(keys.keys(Moment(0), bytes.as_bytes()), bytes.as_bytes());
        }
    }
}

#[test]
fn multiline_input_is_submitted_as_a_whole() {
    check_empty(&[("a\\\r", "> ")], false);
    check_empty(&[("a\x1b\r", "> ")], false);
    check_empty(&[("a\x1b[13;2u", "> x"), ("", "> ")], false);
    check_empty(&[("\x1b[200~a\nb\r\x1b[201~", "> b"), ("", "> ")], false);
    check_empty(&[("\x1b[200~a\nb\r\x1b[201~\r", "> ")], true);
}

/// Returns the keys that the filter passes if the pieces come `pause_ms` apart.
fn filtered(pieces: &[&[u8]], pause_ms: u64) -> Vec<u8> {
    let mut keys = KeystrokeFilter::default();
    let pieces = (0..).zip(pieces);
    pieces.flat_map(|(at, piece)| keys.keys(Moment(at * pause_ms), piece)).collect()
}

#[test]
fn answers_of_a_second_terminal_are_dropped() {
    for answer in [
        "\x1b[?62;4c",
        "\x1b[12;40R",
        "\x1b]11;rgb:0000/0000/0000\x07",
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1bP>|term 1\x1b\\",
        "\x1b[?2026;2$y",
        "\x1b[?1u",
        "\x1b[8;24;80t",
    ] {
        for cut in 1..answer.len() {
            let (one, two) = answer.as_bytes().split_at(cut);
            let expected = if cut == 1 { &b"a\x1bb"[..] } else { b"ab" };
            let pressed = filtered(&[b"a", one, two, b"b"], ESCAPE_MS - 1);
            assert_eq!(pressed, expected, "{answer:?} cut at {cut}");
        }
    }
    for keys in [
        "ls -l\r",
        "\x1b[A\x1bOP\x1b[1;5D",
        "\x1b",
        "\x1bf",
        "\x1b[<0;10;20M\x1b[<0;10;20m",
        "\x1b[M !!",
        // Mouse reports: buttons pressed with Ctrl, Shift or Alt, and a row whose byte is a letter.
        "\x1b[MP!!\x1b[M]!!\x1b[M_!!\x1b[M^!!\x1b[MX!!\x1b[M[!R\x1b[M !R",
        "\x1b[I\x1b[O",
        "\x1b[200~a\nb\x1b[201~",
        "\x1b[99;5u\x1b[13;2u",
        "\u{4e2d}\u{1f600}",
    ] {
        for cut in 0..keys.len() {
            let (one, two) = keys.as_bytes().split_at(cut);
            for pause_ms in [0, ESCAPE_MS, SEQUENCE_MS] {
                let pressed = filtered(&[one, two], pause_ms);
                assert_eq!(pressed, keys.as_bytes(), "{keys:?} cut at {cut}");
            }
        }
    }
    let endless = [&b"\x1b]"[..], &[b'x'; 10_000]].concat();
    let mut keys = KeystrokeFilter::default();
    assert_eq!(keys.keys(Moment(0), &endless), b"");
    assert!(keys.unfinished.len() < ANSWER_BYTES_MAX);
    assert_eq!(keys.keys(Moment(0), b"x\x07y"), b"y");
}

#[test]
fn beginning_of_an_answer_is_held_until_it_expires() {
    for key in ["P", "X", "^", "_", "]", "O", "["] {
        // The Escape key, and then this key.
        assert_eq!(
            filtered(&[b"\x1b", key.as_bytes()], ESCAPE_MS),
            format!("\x1b{key}").as_bytes()
        );
        // This key with Alt.
        let (mut keys, alt) = (KeystrokeFilter::default(), format!("\x1b{key}"));
        assert_eq!(
            (keys.keys(Moment(9), alt.as_bytes()), keys.deadline()),
            (vec![], Some(Moment(9 + SEQUENCE_MS)))
        );
        assert_eq!(keys.expired_keys(Moment(9 + SEQUENCE_MS - 1)), b"");
        assert_eq!(
            (keys.expired_keys(Moment(9 + SEQUENCE_MS)), keys.deadline()),
            (alt.into_bytes(), None)
        );
        assert_eq!(keys.keys(Moment(300), b"x\x03"), b"x\x03");
    }
}

#[test]
fn terminal_reports_are_not_typing() {
    for report in [
        "\x1b[?62;4c",
        "\x1b[12;40R",
        "\x1b[I",
        "\x1b[O",
        "\x1b[<0;10;20M",
        "\x1b[<0;10;20m",
        "\x1b[M !!",
        "\x1b]11;rgb:0000/0000/0000\x07",
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1bP>|term 1\x1b\\",
        "\x1b[?2026;2$y",
        "\x1b[?1u",
        "\x1b[8;24;80t",
    ] {
        for cut in 0..report.len() {
            let mut line = InputLine::default();
            let any = line.press(Moment(0), &report.as_bytes()[..cut], "> ", false).any;
            assert_eq!(any, cut == 1, "{report:?}");
            let later = Moment(ESCAPE_MS - 1);
            assert!(!line.press(later, &report.as_bytes()[cut..], "> ", false).any, "{report:?}");
            assert!(line.is_empty("> "), "{report:?}");
        }
    }
    assert!(InputLine::default().press(Moment(0), b"\x1b[A", "", false).any);
    assert!(InputLine::default().press(Moment(0), b"\x1b", "", false).any, "the Escape key itself");
}
