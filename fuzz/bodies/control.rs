//! What a person's command and a wrapper say to each other is read as it was written, and everything
//! else refused with a sentence.

use agent_relay::protocol::{
    control::{
        ANSWER_BYTES_MAX, Answer, Bytes, Ended, LAST_LINES_MAX, PICTURE_BYTES_MAX,
        REQUEST_BYTES_MAX, Request, State,
    },
    frame::{Decoder, PREFIX},
};

/// What a sentence about a frame may have beyond that.
const SENTENCE_BYTES_MAX: usize = 512;

/// The bytes are a frame's JSON, and then what stands in one of ours.
pub(crate) fn run(bytes: &[u8]) {
    if let Some(request) = taken(bytes, Request::read(bytes)) {
        is_read_as_it_was_written(&request, Request::append, Request::read, usize::MAX);
    }
    if let Some(answer) = taken(bytes, Answer::read(bytes)) {
        is_read_as_it_was_written(&answer, Answer::append, Answer::read, usize::MAX);
    }
    for request in requests(bytes) {
        is_read_as_it_was_written(&request, Request::append, Request::read, REQUEST_BYTES_MAX);
    }
    for answer in answers(bytes) {
        is_read_as_it_was_written(&answer, Answer::append, Answer::read, ANSWER_BYTES_MAX);
    }
}

fn taken<T>(bytes: &[u8], read: Result<T, String>) -> Option<T> {
    let about = |why: &String| {
        let told = why.strip_prefix("invalid wrapper ").is_some_and(|rest| rest.contains(": "));
        // It may quote what it is about, with escapes.
        assert!(told && why.len() <= 10 * bytes.len() + SENTENCE_BYTES_MAX, "{why}");
    };
    read.inspect_err(about).ok()
}

/// And fits into a frame that the other takes.
fn is_read_as_it_was_written<T: PartialEq + std::fmt::Debug>(
    it: &T,
    append: impl Fn(&T, &mut Vec<u8>),
    read: impl Fn(&[u8]) -> Result<T, String>,
    most: usize,
) {
    let mut frame = Vec::new();
    append(it, &mut frame);
    let mut decoder = Decoder::new(most.min(frame.len()));
    let space = decoder.space();
    let count = frame.len().min(space.len());
    space[..count].copy_from_slice(&frame[..count]);
    decoder.filled(count);
    assert!(decoder.batch().is_ok(), "{} bytes", frame.len());
    let again = read(&frame[PREFIX..]).expect("what is written can be read");
    assert_eq!(&again, it);
    let mut written = Vec::new();
    append(&again, &mut written);
    assert_eq!(written, frame, "and written the same");
}

fn number(bytes: &[u8], at: usize) -> u16 {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

fn requests(bytes: &[u8]) -> [Request; 3] {
    let (columns, rows) = (number(bytes, 0), number(bytes, 2));
    [
        Request::Attach { drive: columns % 2 == 1, columns, rows },
        Request::Resize { columns, rows },
        Request::Keys { bytes: Bytes(bytes.to_vec()) },
    ]
}

fn answers(bytes: &[u8]) -> [Answer; 4] {
    let (columns, rows) = (number(bytes, 0), number(bytes, 2));
    assert!(bytes.len() <= PICTURE_BYTES_MAX);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let code = i32::from(columns) - 256;
    let ended = Ended::new(code, &text);
    assert!(ended.last_lines.len() <= LAST_LINES_MAX);
    assert!(ended.last_lines.iter().all(|line| !line.trim_end().is_empty()));
    assert!(ended.signal.is_none_or(|signal| signal > 0 && signal + 128 == code));
    let state = State {
        name: text.chars().take(8).collect(),
        command: text.split(' ').take(32).map(str::to_owned).collect(),
        waiting: rows.into(),
        why: (rows % 2 == 1).then(|| text.clone()),
        held: columns % 2 == 1,
        since: u64::MAX - u64::from(columns),
        ..State::default()
    };
    [
        Answer::State(state),
        Answer::Screen { columns, rows, bytes: Bytes(bytes.to_vec()) },
        Answer::Ended(ended),
        Answer::Error { message: text },
    ]
}
