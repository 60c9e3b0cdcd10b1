//! Tests of the screen, its observer and its cleanup.

use proptest::prelude::*;

use super::painter::ANSWER_BYTES_MAX;
use super::*;

/// An observer that records its calls.
#[derive(Default, Debug, PartialEq)]
struct Log(Vec<String>);

impl ScreenObserver for Log {
    fn row_scrolled_off(&mut self, row: &Row) {
        self.0.push(row.text.clone());
    }

    fn leaving_alternate(&mut self, visible: VisibleRows<'_>) {
        let mut row = Row::default();
        visible.read(0, &mut row);
        self.0.push(format!("leaving {}", row.text));
    }

    fn discontinuity(&mut self, cause: Discontinuity) {
        self.0.push(format!("{cause:?}"));
    }
}

fn painted(bytes: &[u8]) -> (Screen, Log) {
    let (mut screen, mut log) = (Screen::new(10, 3), Log::default());
    screen.feed(bytes, &mut log);
    (screen, log)
}

fn log(bytes: &str) -> Vec<String> {
    painted(bytes.as_bytes()).1.0
}

#[test]
fn rows_scroll_off_once_and_in_order() {
    assert_eq!(log("a\r\nb\r\nc\r\nd\r\ne"), ["a", "b"]);
    assert_eq!(log("a\r\nb\r\nc\x1b[2S"), ["a", "b"]);
    assert_eq!(log("0123456789abcdefghij0123456789x"), ["0123456789"]);
    assert_eq!(log("a\r\nb\r\nfixed\x1b[1;2r\x1b[2;1H\nx\ny"), ["a", "b"]);
    let many: String = (0..5000).map(|n| format!("{n}\r\n")).collect();
    assert_eq!(log(&many).len(), 4998);
    assert_eq!(log("a\x1b[65535b").len(), 656 / 10 - 2);
}

#[test]
fn erased_and_deleted_rows_do_not_scroll_off() {
    assert_eq!(log("a\r\nb\x1b[2J"), ["ScreenCleared"]);
    assert_eq!(log("a\r\nb\x1b[H\x1b[J"), ["ScreenCleared"]);
    let rows = "\x1b[2K\x1b[1B".repeat(3);
    assert_eq!(log(&format!("a\r\nb\x1b[H{rows}")), ["FirstRowErased", "AllRowsErased"]);
    assert_eq!(log("a\r\nb\x1b[3;1H\x1b[2K"), Vec::<String>::new());
    assert_eq!(log("a\r\nb\x1b[H\x1b[2Mx"), Vec::<String>::new());
    assert_eq!(log("a\r\nb\x1b[1J"), Vec::<String>::new());
    assert_eq!(painted(b"a\r\nb\x1b[1Jc").0.text(), "\n c\n\n");
    assert_eq!(log("a\x1b[3J\x1bc"), ["HistoryCleared", "Reset"]);
}

#[test]
fn alternate_screen_is_shown_and_left() {
    let events = log("a\x1b[?1049h\x1b[Hb\r\nc\r\nd\r\ne\x1b[?1049l");
    assert_eq!(events, ["AlternateShown", "AlternateRepainted", "b", "leaving c", "PrimaryShown"]);
    let (screen, _) = painted(b"a\x1b[?1049hb");
    assert!(screen.alternate());
    let (screen, _) = painted(b"a\x1b[?1049hb\x1bc");
    assert!(!screen.alternate());
    assert_eq!(screen.text(), "\n\n\n");
}

#[test]
fn row_tells_whether_the_terminal_wrapped_it() {
    let (screen, _) = painted("0123456 89ab\r\n字字字字 字x".as_bytes());
    let row = |text: &str, width, wraps| Row { text: text.to_owned(), width, wraps };
    assert_eq!(screen.row(0), row("ab", 2, false));
    assert_eq!(screen.row(1), row("字字字字 ", 10, true));
    assert_eq!(screen.row(2), row("字x", 3, false));
    let (screen, _) = painted("\tx\r\ne\u{301}a\u{200d}".as_bytes());
    assert_eq!(screen.row(0), row("\tx", 9, false));
    assert_eq!(screen.row(1), row("e\u{301}a\u{200d}", 2, false));
}

#[test]
fn invisible_text_is_blank() {
    let text = |bytes: &[u8]| painted(bytes).0.row(0).text;
    assert_eq!(text(b"a\x1b[8mb\x1b[0mc\x1b[31;41md\x1b[0me\x1b[8mf"), "a c e");
    assert_eq!(text(b"\x1b[7;30;40mx\x1b[38;5;9;48;5;9my\x1b[39;49mz"), "  z");
    assert_eq!(text("\x1b[8m世\x1b[0ma".as_bytes()), " a");
    assert_eq!(painted(b"\x1b[8mabc").0.row(0), Row::default());
}

#[test]
fn characters_cut_in_two_are_joined() {
    let text = "éx🎉字é🎉xé\u{1b}[1m字";
    for cut in 1..8 {
        let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
        text.as_bytes().chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
        assert_eq!(screen.row(0).text, "éx🎉字é🎉xé字", "{cut}");
    }
    for broken in
        [&b"\xe2a\xe2\x82b\xf0\x9f\x98\xc3\xa9\xff\xe2\x1b[mc"[..], b"\xe2\xe2\xe2\x82\xacd"]
    {
        let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
        screen.feed(broken, &mut log);
        let whole = screen.row(0);
        for cut in 1..5 {
            let (mut screen, mut log) = (Screen::new(40, 3), Log::default());
            broken.chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
            assert_eq!(screen.row(0), whole, "{cut}");
        }
    }
}

#[test]
fn only_harmless_questions_are_answered() {
    let (mut screen, _) = painted(b"x\x1b[c\x1b[6n\x1b[18t");
    assert_eq!(screen.take_answers(), b"\x1b[?62;22c\x1b[1;2R\x1b[8;3;10t");
    let nasty = b"\x1b]0;rm -rf\x07\x1b[21t\x1b]52;c;?\x07\x1b]10;?\x07\x1bP$qm\x1b\\\x1b[?u\x1b[?2026$p\x1b[14t\x1b[>c";
    assert_eq!(painted(nasty).0.take_answers(), b"");
    let flood = b"\x1b[6n".repeat(100_000);
    assert!(painted(&flood).0.take_answers().len() < 2 * ANSWER_BYTES_MAX);
}

#[test]
fn modes_and_styles_are_reported() {
    let (screen, _) = painted(b"\x1b[?2004h\x1b[?25l\x1b[?2026h\x1b[2mgh\x1b[0;7mi");
    assert!(screen.bracketed_paste() && screen.synchronizing());
    assert_eq!(screen.cursor(), Cursor { row: 0, column: 3, visible: false });
    let row = screen.styled_row(0);
    assert!(row[0].dim && !row[0].inverse && row[2].inverse && !row[2].dim);
    assert_eq!((row[2].character, row.len()), ('i', 10));
}

#[test]
fn cleanup_turns_off_modes_that_a_program_left_on() {
    let cleanup = |bytes: &str| painted(bytes.as_bytes()).0.cleanup().replace('\x1b', "\\e");
    let all = "\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[>4;2m\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>1u\x1b[<u\
        \x1b[?2004h\x1b[?2031h\x1b[?9001h\x1b[?1h\x1b=\x1b[?25l\x1b[31m";
    assert_eq!(
        cleanup(all),
        "\\e[?1000l\\e[?1002l\\e[?1003l\\e[?1006l\\e[?1004l\\e[<1u\\e[?1049l\\e[<1u\\e[>4m\\e[?2004l\
         \\e[?2031l\\e[?9001l\\e[?1l\\e>\\e[?25h\\e[m"
    );
    let tidy = "\x1b[?1002l\x1b[?1004l\x1b[<9u\x1b[?1049l\x1b[<u\x1b[>4m\x1b[?2004l\x1b[?2031l\x1b[?9001l\x1b[?1l\x1b>\x1b[?25h\x1b[0m";
    assert_eq!(cleanup(&format!("{all}{tidy}")), "");
    assert_eq!(cleanup(&format!("{all}\x1bc")), "");
    assert_eq!(cleanup("just text\r\n"), "");
}

#[test]
fn cleanup_turns_off_modes_that_would_garble_later_output() {
    let cleanup = |bytes: &str| painted(bytes.as_bytes()).0.cleanup().replace('\x1b', "\\e");
    for (on, cleaned, off) in [
        // Margins, which are reset without moving the cursor; no line wrap; insertion.
        ("\x1b[1;2r", "\\e7\\e[r\\e8", "\x1b[r"),
        ("\x1b[2r", "\\e7\\e[r\\e8", "\x1b[1;3r"),
        ("\x1b[?7l", "\\e[?7h", "\x1b[?7h"),
        ("\x1b[4h", "\\e[4l", "\x1b[4l"),
        // Row numbers that count from the margin. Turning this off moves the cursor to the top.
        ("\x1b[?6h", "\\e[r\\e[?6l\\e[999B\n", "\x1b[?6l"),
        ("\x1b[?1049h\x1b[?6h", "\\e[?6l\\e[?1049l", "\x1b[?6l\x1b[?1049l"),
        // Characters for line drawing; columns of the mouse as characters; the cursor's shape.
        ("\x1b(0", "\\e(B", "\x1b(B"),
        ("\x1b)0\x0e", "\\x0f", "\x0f"),
        ("\x1b[?1005h", "\\e[?1005l", "\x1b[?1005l"),
        ("\x1b[5 q", "\\e[0 q", "\x1b[0 q"),
        // Colours in any notation, one code's question with another one's colour, the palette.
        ("\x1b]11;#102030\x07", "\\e]111\\e\\", "\x1b]111\x07"),
        ("\x1b]12;red\x1b\\", "\\e]112\\e\\", "\x1b]112\x1b\\"),
        ("\x1b]10;?;rgb:1/2/3\x07", "\\e]111\\e\\", "\x1b]111\x07"),
        ("\x1b]4;1;blue\x07\x1b]4;2;?\x07", "\\e]104\\e\\", "\x1b]104\x07"),
        ("\x1b]4;2;?\x07\x1b]10;?\x07", "", ""),
    ] {
        assert_eq!(cleanup(on).replace('\x0f', "\\x0f"), cleaned, "{on:?}");
        assert_eq!(cleanup(&format!("{on}{off}")), "", "{on:?}");
        assert_eq!(cleanup(&format!("{on}\x1bc")), "", "{on:?}");
    }
    // A scrolling region of one row is ignored.
    assert_eq!(cleanup("\x1b[2;2r"), "");
    // Not every terminal drops margins when its size changes.
    let (mut screen, mut log) = painted(b"\x1b[1;2r");
    screen.resize(10, 5, &mut log);
    assert_eq!(screen.cleanup(), "\x1b7\x1b[r\x1b8");
}

#[test]
fn sizes_are_clamped() {
    let (mut screen, mut log) = painted(b"abc");
    for (columns, rows) in [(0, 0), (usize::MAX, usize::MAX), (1, 1), (80, 24)] {
        screen.resize(columns, rows, &mut log);
        screen.feed("字text\r\n".repeat(30).as_bytes(), &mut log);
    }
    assert_eq!(screen.size(), (80, 24));
}

#[test]
fn narrower_screen_loses_no_rows() {
    let (mut screen, mut log) = (Screen::new(80, 24), Log::default());
    let rows: String = (0..24).map(|n| format!("{n:02}{}\r\n", "x".repeat(70))).collect();
    screen.feed(rows.as_bytes(), &mut log);
    screen.resize(4, 5, &mut log);
    screen.feed(b"\r\n".repeat(10).as_slice(), &mut log);
    let text: String = log.0.concat();
    for n in 0..24 {
        assert!(text.contains(&format!("{n:02}xx")), "row {n} is gone");
    }
}

#[test]
fn endless_strings_and_combining_characters_cost_nothing() {
    let (mut screen, mut log) = (Screen::new(80, 24), Log::default());
    screen.feed(b"\x1b]0;", &mut log);
    for _ in 0..200 {
        screen.feed(&[b'x'; 65536], &mut log);
        screen.feed(b";\x9d\x9c", &mut log);
    }
    assert!(screen.limit.length > 13_000_000);
    screen.feed(b"\x07seen\x1b]8;;http://x\x1b\\link", &mut log);
    screen.feed("\u{301}".repeat(100_000).as_bytes(), &mut log);
    assert!(screen.row(0).text.starts_with("seenlink"));
    assert!(screen.row(0).text.len() < 100);
}

#[test]
fn long_string_does_not_affect_the_text_after_it() {
    for length in [0, 1, 250, 255, 256, 257, 258, 300, 5000] {
        for end in ["\x07", "\x1b\\", "\x18", "\x1a"] {
            let bytes = format!("a\x1b]0;{}{end}b\r\n", "x".repeat(length));
            for cut in [1, 3, 100, 10_000] {
                let (mut screen, mut log) = (Screen::new(10, 3), Log::default());
                bytes.as_bytes().chunks(cut).for_each(|piece| screen.feed(piece, &mut log));
                assert_eq!(screen.text(), "ab\n\n\n", "{length} {end:?} {cut}");
            }
        }
    }
}

/// Generates text, control characters, and sequences of all kinds, whole and broken.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[a-z ]{0,12}",
        "\\PC{0,6}",
        Just("\r\n".to_owned()),
        Just("\t".to_owned()),
        Just("\u{1b}[2J".to_owned()),
        Just("\u{1b}[3J".to_owned()),
        Just("\u{1b}[?1049h".to_owned()),
        Just("\u{1b}[?1049l".to_owned()),
        Just("\u{1b}c".to_owned()),
        Just("\u{1b}M".to_owned()),
        "\u{1b}\\[[0-9;?]{0,8}[A-Za-z@`]",
        "\u{1b}\\][0-9];[a-z]{0,300}\u{7}",
    ];
    let piece = prop_oneof![8 => text.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 0..20)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn noise_never_panics(bytes in noise(), sizes in prop::collection::vec((0usize..40, 0usize..12), 1..5)) {
        let (mut screen, mut log) = (Screen::new(7, 3), Log::default());
        for (piece, (columns, rows)) in std::iter::zip(bytes.chunks(37), sizes.into_iter().cycle()) {
            screen.feed(piece, &mut log);
            screen.resize(columns, rows, &mut log);
            let answers = screen.take_answers();
            prop_assert!(answers.iter().all(|b| b"\x1b[?0123456789;cRt".contains(b)));
        }
        screen.text();
    }
}
