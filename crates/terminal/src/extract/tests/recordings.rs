//! Tests of extraction from recordings and from generated output. Splits and pauses in the output
//! must not change the result.
//!
//! `NAME-COLUMNSxROWS.bytes` is a program's output, and `.expect` states the results. The directory
//! data/imitations has programs that paint like agent CLIs. The directory data/recordings has the
//! CLIs themselves: each answers a message, prints a file that contains a message, sends two
//! messages, and ends with a message in its composer.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use proptest::prelude::*;

use crate::extract::{row_scanner::RowScanner, *};
use crate::screen::Row;

/// Programs that paint like agent CLIs.
///
/// `conpty` is written by hand. It repaints the output of programs like Windows' pseudo console: it
/// positions the cursor, skips blanks, repaints everything after a resize, and marks rows as
/// wrapped or does not (in Dora's second message, which loses a word). `wine-shell` is cmd.exe in
/// Wine's pseudo console.
const PROGRAMS: [&str; 7] = [
    "clear-and-repaint-80x24",
    "conpty-80x24",
    "full-screen-90x22",
    "ink-stream-100x30",
    "inserted-above-80x18",
    "shell-60x12",
    "wine-shell-100x30",
];

/// Agent CLIs.
const CLIS: [&str; 9] = [
    "claude-60x30",
    "claude-100x30",
    "claude-200x30",
    "codex-60x30",
    "codex-100x30",
    "codex-200x30",
    "gemini-60x30",
    "gemini-100x30",
    "gemini-200x30",
];

/// Returns the path, terminal size and bytes of a recording.
fn recording(folder: &str, name: &str) -> (PathBuf, (usize, usize), Vec<u8>) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let path = data.join(folder).join(name).with_extension("bytes");
    let (columns, rows) = name.rsplit_once('-').unwrap().1.split_once('x').unwrap();
    let bytes = std::fs::read(&path).expect("the recording exists");
    (path, (columns.parse().unwrap(), rows.parse().unwrap()), bytes)
}

fn recordings() -> impl Iterator<Item = (PathBuf, (usize, usize), Vec<u8>)> {
    let programs = PROGRAMS.map(|name| recording("imitations", name));
    programs.into_iter().chain(CLIS.map(|name| recording("recordings", name)))
}

fn offline(
    pieces: &mut dyn Iterator<Item = &[u8]>,
    (columns, rows): (usize, usize),
) -> Vec<Extracted> {
    let (mut extractor, mut found) = (ScreenExtractor::offline(columns, rows), Vec::new());
    pieces.for_each(|piece| extractor.feed(Moment::default(), piece, &mut found));
    extractor.finish(Moment::default(), &mut found);
    found
}

/// Extracts from a running program that pauses for `pause` milliseconds after each piece.
fn live(
    pieces: &mut dyn Iterator<Item = &[u8]>,
    (columns, rows): (usize, usize),
    pause: u64,
) -> Vec<Extracted> {
    let (mut extractor, mut found) = (ScreenExtractor::live(columns, rows), Vec::new());
    extractor.remember_injected(
        "7f3a9c",
        "Send ->relay:Ann <<< your findings\n->relay:Eve <<<\nand everything else to her>>>",
    );
    let mut now = Moment::default();
    for piece in pieces {
        extractor.feed(now, piece, &mut found);
        let end = now.plus(pause);
        while let Some(due) = extractor.deadline().filter(|&due| due <= end) {
            now = due;
            extractor.tick(now, &mut found);
        }
        now = end;
    }
    extractor.finish(now, &mut found);
    found
}

fn shown(found: &[Extracted]) -> String {
    let line = |result: &Extracted| match result {
        Extracted::Message(message) => format!("{message:?}\n"),
        Extracted::Problem(problem) => format!("{problem:?}\n"),
    };
    found.iter().map(line).collect()
}

fn messages(found: Vec<Extracted>) -> Vec<OutgoingMessage> {
    extracted::split(found).0
}

#[test]
fn messages_of_recordings_are_extracted() {
    for (path, size, bytes) in recordings() {
        let found = offline(&mut std::iter::once(&bytes[..]), size);
        expect_file![path.with_extension("expect")].assert_eq(&shown(&found));
    }
}

#[test]
fn recordings_in_pieces_of_equal_length_give_the_same_messages() {
    for (path, size, bytes) in recordings() {
        let whole = offline(&mut std::iter::once(&bytes[..]), size);
        for length in [1, 2, 3, 7, 64, 1000] {
            let cut = offline(&mut bytes.chunks(length), size);
            assert_eq!(whole, cut, "{} in pieces of {length}", path.display());
        }
    }
}

/// The maximum total length of a pair of pieces.
const PIECE_MAX: usize = 16;

#[test]
fn recordings_in_pieces_of_two_lengths_give_the_same_messages() {
    for (path, size, bytes) in recordings() {
        let whole = offline(&mut std::iter::once(&bytes[..]), size);
        for first in [1, 2, 7, 15] {
            let pairs = bytes.chunks(PIECE_MAX).map(|pair| pair.split_at(first.min(pair.len())));
            let cut = offline(&mut pairs.flat_map(|(first, second)| [first, second]), size);
            let second = PIECE_MAX - first;
            assert_eq!(whole, cut, "{} in pieces of {first} and {second}", path.display());
        }
    }
}

/// How many positions of each recording are tested as the cut between two pieces. The variable
/// AGENT_RELAY_CUTS overrides this, as in `ci/run --all`. If it exceeds the recording's length, all
/// positions are tested.
const CUTS: usize = 8;

#[test]
fn recordings_cut_in_two_give_the_same_messages() {
    let variable = std::env::var("AGENT_RELAY_CUTS");
    let cuts = variable.map_or(CUTS, |text| text.parse().expect("AGENT_RELAY_CUTS is a number"));
    for (path, size, bytes) in recordings() {
        let whole = offline(&mut std::iter::once(&bytes[..]), size);
        for at in (1..bytes.len()).step_by(bytes.len().div_ceil(cuts)) {
            let (first, second) = bytes.split_at(at);
            let cut = offline(&mut [first, second].into_iter(), size);
            assert_eq!(whole, cut, "{} cut at {at}", path.display());
        }
    }
}

#[test]
fn recordings_with_pauses_give_the_same_messages() {
    for (path, size, bytes) in recordings() {
        let whole = messages(offline(&mut std::iter::once(&bytes[..]), size));
        if path.to_string_lossy().contains("full-screen") {
            // Without a clock, only the last snapshot of a full-screen program is read.
            continue;
        }
        for (length, pause) in [(bytes.len(), 400), (4096, 10), (100, 30), (1000, 350), (37, 400)] {
            let cut = messages(live(&mut bytes.chunks(length), size, pause));
            let path = path.display();
            for message in &whole {
                let (found, expected) = (count(&cut, message), count(&whole, message));
                assert!(
                    found >= expected,
                    "{path}: lost in pieces of {length}, {pause} ms: {message:?}"
                );
                assert!(
                    found <= expected,
                    "{path}: doubled in pieces of {length}, {pause} ms: {message:?}"
                );
            }
        }
    }
}

#[test]
fn full_screen_program_is_read_while_it_runs() {
    let (_, size, bytes) = recording("imitations", "full-screen-90x22");
    // The end is left out, because the program leaves the alternate screen right after its last
    // snapshot.
    let bytes = &bytes[..bytes.len() - "\x1b[?1049l$ ".len()];
    let begin = b"\x1b[?2026h";
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|&at| bytes[at..].starts_with(begin))
        .chain([bytes.len()])
        .collect();
    let mut snapshots = starts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
    let start = &bytes[..starts[0]];
    for found in [
        live(&mut std::iter::once(start).chain(&mut snapshots), size, 301),
        live(&mut bytes.chunks(37), size, 400),
    ] {
        let bodies: Vec<String> = messages(found).into_iter().map(|message| message.body).collect();
        let expected: Vec<String> =
            (0..9).map(|n| format!("Report {n}: all is well.\nMore tomorrow")).collect();
        assert_eq!(bodies, expected);
    }
}

fn count(messages: &[OutgoingMessage], wanted: &OutgoingMessage) -> usize {
    messages.iter().filter(|message| *message == wanted).count()
}

#[test]
fn random_repaints_neither_repeat_nor_lose_messages() {
    for seed in 1..30_u64 {
        let mut program = Repainter { seed, said: Vec::new(), now: Moment::default(), next: 0 };
        let (mut extractor, mut found) = (ScreenExtractor::live(80, 24), Vec::new());
        for _ in 0..60 {
            program.step(&mut extractor, &mut found);
        }
        extractor.finish(program.now, &mut found);
        let (messages, problems) = extracted::split(found);
        let bodies: Vec<&str> = messages.iter().map(|message| message.body.as_str()).collect();
        let expected: Vec<String> = (0..program.next).map(|n| format!("number {n}")).collect();
        assert_eq!(bodies, expected, "seed {seed}");
        assert_eq!(problems, [], "seed {seed}");
    }
}

/// A program that sends messages, and repaints them in several ways.
struct Repainter {
    seed: u64,
    said: Vec<String>,
    now: Moment,
    next: usize,
}

impl Repainter {
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn step(&mut self, extractor: &mut ScreenExtractor, found: &mut Vec<Extracted>) {
        // Some programs repaint only the rows on the screen, without earlier messages.
        let screen = extractor.screen();
        let end = screen.cursor().row;
        let above_cursor: String = (0..end).map(|row| screen.row(row).text + "\r\n").collect();
        let bytes = match self.draw(6) {
            0 | 1 => {
                let message = format!("● ->relay:Bob <<<\r\n  number {}>>>\r\n", self.next);
                self.said.push(message.clone());
                self.next += 1;
                format!("\r\x1b[J{message}> ")
            }
            2 => format!("\x1b[2J\x1b[3J\x1b[H{}> ", self.said.concat()),
            3 => format!("\x1b[2J\x1b[H{above_cursor}> "),
            4 => format!("\x1b[H\x1b[J{above_cursor}> "),
            _ => {
                let (columns, rows) = (40 + self.draw(80) as usize, 12 + self.draw(30) as usize);
                extractor.resize(self.now, columns, rows, found);
                format!("\x1b[2J\x1b[3J\x1b[H{}> ", self.said.concat())
            }
        };
        extractor.feed(self.now, bytes.as_bytes(), found);
        let pause = [20, 120, 350, 900][self.draw(4) as usize];
        let end = self.now.plus(pause);
        while let Some(due) = extractor.deadline().filter(|&due| due <= end) {
            extractor.tick(due, found);
        }
        self.now = end;
    }
}

#[test]
fn endless_messages_keep_memory_bounded() {
    let rules =
        Rules { columns: Some(80), frames: InjectedFrames::with_any_digits(), ..Rules::default() };
    let row = |text: &str, wraps| Row { text: text.to_owned(), width: text.len(), wraps };
    let long = "some text of a row, and more ".repeat(3);
    for start in ["->relay:Bob <<<", "[[RELAY]]", "```", "[relay 7f3a9c from Ann", ""] {
        for filler in
            [row(&long, false), row(&long, true), row("", false), row("->relay:Bob <<< x", true)]
        {
            let (mut scanner, mut findings) = (RowScanner::default(), Vec::new());
            scanner.read(&row(start, false), &rules, &mut findings);
            for _ in 0..100_000 {
                scanner.read(&filler, &rules, &mut findings);
            }
            let kept = format!("{scanner:?}").len() + findings.len() * 200;
            assert!(kept < 16 << 20, "{kept} bytes kept after {start:?} and {filler:?}");
        }
    }
}

/// Generates pieces of output, well-formed and malformed.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("->relay:Bob <<<".to_owned()),
        2 => Just("● ->relay:#a.b [thread:t] <<< x".to_owned()),
        4 => Just(">>>".to_owned()),
        1 => Just("[[RELAY]]".to_owned()),
        1 => Just("{\"to\":\"Bob\",\"type\":\"message\",\"body\":\"x\"}".to_owned()),
        1 => Just("[[/RELAY]]".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("[relay 7f3a9c from Ann, id 1] x".to_owned()),
        1 => Just("[/relay 7f3a9c]".to_owned()),
        9 => Just("\r\n".to_owned()),
        4 => "[a-zé字🎉 ]{0,30}",
        1 => Just("word ".repeat(40)),
        1 => Just("\u{1b}[2J\u{1b}[3J\u{1b}[H".to_owned()),
        1 => Just("\u{1b}[?1049h".to_owned()),
        1 => Just("\u{1b}[?1049l".to_owned()),
        1 => Just("\u{1b}[?2026h".to_owned()),
        1 => Just("\u{1b}[?2026l".to_owned()),
        1 => "\u{1b}\\[[0-9;]{0,5}[A-HJKLMPSTXbdfr]",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn cuts_do_not_change_the_messages(
        pieces in prop::collection::vec(piece(), 0..120),
        cuts in prop::collection::vec(1usize..40, 1..40),
    ) {
        let bytes = pieces.concat().into_bytes();
        let whole = offline(&mut std::iter::once(&bytes[..]), (40, 10));
        let (mut rest, mut parts) = (&bytes[..], Vec::new());
        for cut in cuts.into_iter().cycle() {
            let (part, after) = rest.split_at(cut.min(rest.len()));
            parts.push(part);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(whole, offline(&mut parts.into_iter(), (40, 10)));
    }

    #[test]
    fn arbitrary_output_never_panics(
        pieces in prop::collection::vec(piece(), 0..80),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        sizes in prop::collection::vec((0usize..120, 0usize..40), 1..6),
    ) {
        let mut bytes = pieces.concat().into_bytes();
        bytes.extend(noise);
        let (mut extractor, mut found) = (ScreenExtractor::live(40, 10), Vec::new());
        extractor.remember_injected("7f3a9c", "x");
        let mut now = Moment::default();
        for (part, (columns, rows)) in std::iter::zip(bytes.chunks(53), sizes.into_iter().cycle()) {
            extractor.feed(now, part, &mut found);
            now = now.plus(170);
            extractor.tick(now, &mut found);
            extractor.resize(now, columns, rows, &mut found);
        }
        extractor.turn_over(now, &mut found);
        extractor.finish(now, &mut found);
        prop_assert!(extractor.deadline().is_none_or(|due| due > now));
    }
}
