//! Fuzzing of the frames between a person's command and a wrapper. Each frame must be read as it
//! was written. Other bytes must be refused with a sentence.

use protocol::{
    control::{
        ANSWER_BYTES_MAX, AgentState, Answer, Bytes, Ended, LAST_LINES_MAX, REQUEST_BYTES_MAX,
        Request, SNAPSHOT_BYTES_MAX,
    },
    frame::{Decoder, PREFIX},
    hook::{Frame, Point, Report},
    secret::Secret,
};

/// The most bytes of an error's text, without the frame that it quotes.
const SENTENCE_BYTES_MAX: usize = 512;

/// Reads the bytes as a frame's JSON, and also writes frames of all types with values from the
/// bytes.
pub fn run(bytes: &[u8]) {
    if let Some(request) = check_read(bytes, Request::read(bytes)) {
        check_round_trip(&request, Request::append, Request::read, usize::MAX);
    }
    if let Some(answer) = check_read(bytes, Answer::read(bytes)) {
        check_round_trip(&answer, Answer::append, Answer::read, usize::MAX);
    }
    for request in requests(bytes) {
        check_round_trip(&request, Request::append, Request::read, REQUEST_BYTES_MAX);
    }
    for answer in answers(bytes) {
        check_round_trip(&answer, Answer::append, Answer::read, ANSWER_BYTES_MAX);
    }
}

fn check_read<T>(bytes: &[u8], read: Result<T, String>) -> Option<T> {
    let check_error = |why: &String| {
        let is_sentence =
            why.strip_prefix("invalid wrapper ").is_some_and(|rest| rest.contains(": "));
        // The error's text may quote the frame with escapes.
        assert!(is_sentence && why.len() <= 10 * bytes.len() + SENTENCE_BYTES_MAX, "{why}");
    };
    read.inspect_err(check_error).ok()
}

/// Checks that a frame fits the reader's limit, is read as the same value, and is then written in
/// the same way.
fn check_round_trip<T: PartialEq + std::fmt::Debug>(
    value: &T,
    append: impl Fn(&T, &mut Vec<u8>),
    read: impl Fn(&[u8]) -> Result<T, String>,
    bytes_max: usize,
) {
    let mut frame = Vec::new();
    append(value, &mut frame);
    let mut decoder = Decoder::new(bytes_max.min(frame.len()));
    let space = decoder.space();
    let count = frame.len().min(space.len());
    space[..count].copy_from_slice(&frame[..count]);
    decoder.filled(count);
    assert!(decoder.batch().is_ok(), "{} bytes", frame.len());
    let reread = read(&frame[PREFIX..]).expect("a written body is readable");
    assert_eq!(&reread, value);
    let mut written = Vec::new();
    append(&reread, &mut written);
    assert_eq!(written, frame, "the reread value is written differently");
}

fn number(bytes: &[u8], at: usize) -> u16 {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

fn requests(bytes: &[u8]) -> [Request; 8] {
    let (columns, rows) = (number(bytes, 0), number(bytes, 2));
    let text: String = String::from_utf8_lossy(bytes).chars().take(64).collect();
    let key = Secret::stated(&text);
    let report = Report {
        point: Point::SessionBegan,
        frames: vec![Frame::of(&text, &text)],
        transcript: Some(text.clone()),
        forgets: columns % 2 == 1,
        is_relays: rows % 2 == 1,
        session: (rows % 2 == 1).then(|| text.clone()),
    };
    [
        Request::Attach { drive: columns % 2 == 1, columns, rows, looks: rows % 2 == 1 },
        Request::Resize { columns, rows },
        Request::Keys { bytes: Bytes(bytes.to_vec()) },
        Request::Hook { key: key.clone(), report },
        Request::Printed,
        Request::Why,
        Request::Take { key: key.clone(), id: (rows % 2 == 1).then(|| text.clone()) },
        Request::Count { key, to: text },
    ]
}

fn answers(bytes: &[u8]) -> [Answer; 6] {
    let (columns, rows) = (number(bytes, 0), number(bytes, 2));
    assert!(bytes.len() <= SNAPSHOT_BYTES_MAX);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let code = i32::from(columns) - 256;
    let ended = Ended::new(code, &text);
    assert!(ended.last_lines.len() <= LAST_LINES_MAX);
    assert!(ended.last_lines.iter().all(|line| !line.trim_end().is_empty()));
    assert!(ended.signal.is_none_or(|signal| signal > 0 && signal + 128 == code));
    let state = AgentState {
        name: text.chars().take(8).collect(),
        command: text.split(' ').take(32).map(str::to_owned).collect(),
        waiting: rows.into(),
        why: (rows % 2 == 1).then(|| text.clone()),
        held: columns % 2 == 1,
        since: u64::MAX - u64::from(columns),
        ..AgentState::default()
    };
    [
        Answer::State(state),
        Answer::Screen { columns, rows, bytes: Bytes(bytes.to_vec()) },
        Answer::Ended(ended),
        Answer::Hooked { text: (rows % 2 == 1).then(|| text.clone()) },
        Answer::Taken { text: Some(text.clone()), why: (columns % 2 == 1).then(|| text.clone()) },
        Answer::Error { message: text },
    ]
}
