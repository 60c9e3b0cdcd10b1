//! A model server on loopback that answers as a test's script says and records its requests.
//!
//! [`Model`] speaks the protocols that agents' CLIs use: Anthropic's Messages, OpenAI's Responses
//! and Chat Completions, and Gemini's `generateContent`. Replies are streamed in pieces. A side
//! request is one outside the conversation (for a title, for the quota, for a choice of model): it
//! gets a plausible answer and is recorded separately.

mod anthropic;
mod chat;
pub mod frames;
mod gemini;
mod http;
mod openai;
mod shape;
#[cfg(test)]
mod tests;

use crate::waiting::WATCHDOG;
use frames::{Frame, frames, instructions};
use http::Request;
use serde_json::{Value, json};
use std::{
    io::{self, BufReader, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The interval between checks, by a reply that waits at a gate, whether the model has ended.
const GATE_POLL: Duration = Duration::from_millis(50);

/// A request of the agent's conversation.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The latest text from the user, or from the wrapper in the user's place.
    pub prompt: String,
    /// The result of the tool call since the prompt, if any.
    pub result: Option<String>,
    /// The whole request body.
    pub request: Value,
    /// The time of arrival.
    pub at: Instant,
}

/// The latest text from the user, and the tool result that followed it.
#[derive(Debug, Default)]
struct Turn {
    prompt: Option<String>,
    result: Option<String>,
}

impl Turn {
    fn set_prompt(&mut self, prompt: &str) {
        *self = Self { prompt: Some(prompt.to_owned()), result: None };
    }

    fn set_result(&mut self, result: String) {
        self.result = Some(result);
    }
}

/// A scripted answer of the model: texts, tool calls and pauses in order.
#[derive(Clone, Debug)]
pub struct Reply {
    parts: Vec<Part>,
    /// The length of a piece of text, in characters.
    piece_length: usize,
    /// The delay between two pieces.
    delay: Duration,
}

#[derive(Clone, Debug)]
enum Part {
    Says(String),
    /// A shell command, run with the CLI's own tool for commands.
    Runs(String),
    /// A call of any tool, by name, with its input.
    Calls(String, Value),
    Waits(Gate),
}

impl Reply {
    /// An empty reply.
    pub fn new() -> Self {
        Self { parts: Vec::new(), piece_length: 16, delay: Duration::ZERO }
    }

    pub fn says(self, text: impl Into<String>) -> Self {
        self.with(Part::Says(text.into()))
    }

    pub fn runs(self, command: impl Into<String>) -> Self {
        self.with(Part::Runs(command.into()))
    }

    pub fn calls(self, tool: impl Into<String>, input: Value) -> Self {
        self.with(Part::Calls(tool.into(), input))
    }

    /// Pauses until the gate is opened.
    pub fn waits(self, gate: &Gate) -> Self {
        self.with(Part::Waits(gate.clone()))
    }

    /// Streams text in pieces of this many characters.
    pub fn in_pieces_of(self, characters: usize) -> Self {
        Self { piece_length: characters.max(1), ..self }
    }

    /// Waits this long before each piece but the first, as if the model had to think.
    pub fn with_delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Passes each text and each tool call to `step` for encoding. Waits at gates, and turns
    /// commands into tool calls.
    fn play(
        self,
        shared: &Shared,
        request: &Value,
        mut step: impl FnMut(Step<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        for part in self.parts {
            match part {
                Part::Waits(gate) => gate.pass(shared)?,
                Part::Says(text) => {
                    let pieces = Pieces::of(&text, self.piece_length, self.delay);
                    step(Step::Text { text: &text, pieces })?;
                }
                Part::Calls(tool, input) => step(Step::Call { tool: &tool, input: &input })?,
                Part::Runs(command) => {
                    let (tool, input) = shape::shell_call(request, &command).ok_or_else(|| {
                        io::Error::other("the request offers no tool that runs commands")
                    })?;
                    step(Step::Call { tool: &tool, input: &input })?;
                }
            }
        }
        Ok(())
    }
}

/// A part of a reply, ready to be sent.
enum Step<'a> {
    Text { text: &'a str, pieces: Pieces<'a> },
    Call { tool: &'a str, input: &'a Value },
}

/// An iterator over a text in pieces of a fixed length, with a delay before each but the first.
struct Pieces<'a> {
    rest: &'a str,
    characters: usize,
    delay: Duration,
    started: bool,
}

impl<'a> Pieces<'a> {
    fn of(text: &'a str, characters: usize, delay: Duration) -> Self {
        Self { rest: text, characters, delay, started: false }
    }

    fn whole(text: &'a str) -> Self {
        Self::of(text, usize::MAX, Duration::ZERO)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        if std::mem::replace(&mut self.started, true) {
            thread::sleep(self.delay);
        }
        let end =
            self.rest.char_indices().nth(self.characters).map_or(self.rest.len(), |(end, _)| end);
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

/// A point where a reply pauses until the test opens the gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is opened. Fails when the model has ended or the watchdog runs out.
    fn pass(&self, shared: &Shared) -> io::Result<()> {
        let end = Instant::now() + WATCHDOG;
        while !*lock(&self.0.0) {
            if lock(&shared.state).ended || Instant::now() > end {
                return Err(io::Error::other("the gate was not opened"));
            }
            let waited = self.0.1.wait_timeout_while(lock(&self.0.0), GATE_POLL, |open| !*open);
            drop(waited);
        }
        Ok(())
    }
}

/// A function that answers each request of the conversation.
type Script = Box<dyn FnMut(&Asked) -> Reply + Send>;

/// A running model server, ended on drop. The drop panics if the script has panicked, or if a
/// message of another agent had the authority of the system or of the CLI's developer.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified after each request and each answer.
    changed: Condvar,
}

struct State {
    script: Script,
    conversation: Vec<Asked>,
    /// Path and body of each side request.
    side_requests: Vec<(String, Value)>,
    /// The answer to side requests without a schema.
    side_answer: String,
    /// The time when each answer of the conversation was sent completely.
    answered: Vec<Instant>,
    connections: Vec<(TcpStream, JoinHandle<()>)>,
    /// Messages that were found among a request's instructions.
    instructed: Vec<Frame>,
    /// Why messages may be there.
    excuse: Option<&'static str>,
    /// Whether the script has panicked.
    failed: bool,
    ended: bool,
}

impl Model {
    /// Starts a model that answers by this function.
    pub fn start(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            script: Box::new(script),
            conversation: Vec::new(),
            side_requests: Vec::new(),
            side_answer: "Scripted".to_owned(),
            answered: Vec::new(),
            connections: Vec::new(),
            instructed: Vec::new(),
            excuse: None,
            failed: false,
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accept(&listener, &accepting)));
        Self { address, shared, acceptor }
    }

    /// Starts a model that gives these replies in turn, then a reply that the script is over.
    pub fn with_replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Self::start(move |_| {
            replies.pop().unwrap_or_else(|| Reply::new().says("The script is over."))
        })
    }

    /// The server's URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the conversation has `count` requests, and returns all of them.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) -> Vec<Asked> {
        self.wait_for(count, "was asked", |state| &state.conversation)
    }

    /// Waits until `count` answers of the conversation are sent completely, and returns the time of
    /// each answer's end.
    #[track_caller]
    pub fn wait_for_answers(&self, count: usize) -> Vec<Instant> {
        self.wait_for(count, "has answered", |state| &state.answered)
    }

    /// Allows messages among a request's instructions.
    pub fn excuse_instructions(&self, why: &'static str) {
        lock(&self.shared.state).excuse = Some(why);
    }

    /// The messages that were found among a request's instructions.
    pub fn instructed(&self) -> Vec<Frame> {
        lock(&self.shared.state).instructed.clone()
    }

    /// Sets the answer to later side requests, which include those of subagents.
    pub fn answer_side_requests_with(&self, text: &str) {
        text.clone_into(&mut lock(&self.shared.state).side_answer);
    }

    /// Path and body of each side request so far.
    #[cfg(test)]
    pub(crate) fn side_requests(&self) -> Vec<(String, Value)> {
        lock(&self.shared.state).side_requests.clone()
    }

    #[track_caller]
    fn wait_for<T: Clone>(
        &self,
        count: usize,
        what: &str,
        of: impl Fn(&State) -> &Vec<T>,
    ) -> Vec<T> {
        let incomplete = |state: &mut State| of(state).len() < count;
        let state = lock(&self.shared.state);
        let waited = self.shared.changed.wait_timeout_while(state, WATCHDOG, incomplete);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let items = of(&state).clone();
        assert!(items.len() >= count, "the model {what} {} times, not {count}", items.len());
        items
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        // Wakes the acceptor, which then sees that the model has ended.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
        let connections = std::mem::take(&mut lock(&self.shared.state).connections);
        for (stream, thread) in connections {
            stream.shutdown(Shutdown::Both).ok();
            thread.join().ok();
        }
        let state = lock(&self.shared.state);
        assert!(!state.failed || thread::panicking(), "the model's script has failed");
        if state.instructed.is_empty() {
            return;
        }
        let found = format!("messages had the authority of instructions: {:#?}", state.instructed);
        assert!(state.excuse.is_some() || thread::panicking(), "{found}");
        eprintln!("{found} ({:?})", state.excuse);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = lock(&shared.state);
        if state.ended {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else { continue };
        state.connections.retain(|(_, thread)| !thread.is_finished());
        let shared = Arc::clone(shared);
        let thread = thread::spawn(move || {
            let _close = CloseOnDrop { stream: &stream, shared: &shared };
            // A CLI may hang up at any time.
            serve(&stream, &shared).ok();
        });
        state.connections.push((handle, thread));
    }
}

/// Shuts a connection down when dropped, also when the script has panicked. [`State`] has another
/// handle to the connection, which would keep it open.
struct CloseOnDrop<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.stream.shutdown(Shutdown::Both).ok();
        lock(&self.shared.state).failed |= thread::panicking();
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut from = BufReader::new(stream);
    while let Some(request) = Request::read(&mut from)? {
        shared.answer(&request, &mut &*stream)?;
    }
    Ok(())
}

impl Shared {
    /// Answers a request by the protocol that its path belongs to.
    fn answer(&self, request: &Request, to: &mut impl Write) -> io::Result<()> {
        let body = request.json();
        self.note_instructed(&body);
        let path = request.path.as_str();
        if request.method == "POST" && path.ends_with("/messages") {
            anthropic::answer(self, &body, to)
        } else if request.method == "POST" && path.ends_with("/responses") {
            openai::answer(self, &body, to)
        } else if request.method == "POST" && path.ends_with("/chat/completions") {
            chat::answer(self, &body, to)
        } else if let Some((_, method)) = path.rsplit_once(':') {
            gemini::answer(self, method, &body, to)
        } else {
            self.record_side_request(&format!("{} {path}", request.method), &body);
            let counted = path.ends_with("/count_tokens");
            match counted || request.method == "HEAD" {
                true => http::answer(to, "200 OK", &json!({"input_tokens": 100})),
                false => http::answer(
                    to,
                    "404 Not Found",
                    &json!({"error": {"type": "not_found_error", "message": path}}),
                ),
            }
        }
    }

    /// Records the messages among a request's instructions, each once.
    fn note_instructed(&self, request: &Value) {
        let found = instructions(request).into_iter().flat_map(frames);
        let mut state = lock(&self.state);
        for frame in found {
            if !state.instructed.contains(&frame) {
                state.instructed.push(frame);
            }
        }
    }

    /// Records a request of the conversation, and returns the script's reply.
    fn answer_turn(&self, turn: Turn, request: &Value) -> Reply {
        let Turn { prompt, result } = turn;
        let prompt = prompt.unwrap_or_default();
        let asked = Asked { prompt, result, request: request.clone(), at: Instant::now() };
        let mut state = lock(&self.state);
        let reply = (state.script)(&asked);
        state.conversation.push(asked);
        self.changed.notify_all();
        reply
    }

    /// Records that an answer of the conversation has been sent completely.
    fn record_answer(&self) {
        lock(&self.state).answered.push(Instant::now());
        self.changed.notify_all();
    }

    /// Records a side request, and returns the answer for one without a schema.
    fn record_side_request(&self, path: &str, request: &Value) -> String {
        let mut state = lock(&self.state);
        state.side_requests.push((path.to_owned(), request.clone()));
        state.side_answer.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
