//! A model on loopback that says what a test wants it to, and writes down what it is asked.
//!
//! [`Model`] speaks the protocols that agents' CLIs speak to their models: Anthropic's Messages, OpenAI's
//! Responses and Chat Completions, and Gemini's `generateContent`, each with replies in pieces as they are "thought".
//! What a CLI asks beside the conversation (for a title, for how much it may still ask, which model is to
//! answer) gets an answer that makes sense, and is kept apart.

mod anthropic;
mod chat;
mod gemini;
mod http;
mod openai;
mod shape;
#[cfg(test)]
mod tests;

use http::Request;
use serde_json::{Value, json};
use std::{
    io::{self, BufReader, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A wait that takes longer is a failure, not a slow machine.
const WATCHDOG: Duration = Duration::from_secs(60);

/// How often who waits at a gate looks whether the model has ended.
const PACE: Duration = Duration::from_millis(50);

/// One question, as part of the conversation that the agent leads.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// What the user, or the wrapper in their place, has said last.
    pub(crate) prompt: String,
    /// What the tool said that the model has called since, if it has.
    pub(crate) result: Option<String>,
    /// All of the request.
    pub(crate) request: Value,
    /// When it came.
    pub(crate) at: Instant,
}

/// What the user, in the first place, and then a tool have said last.
#[derive(Debug, Default)]
struct Turn {
    prompt: Option<String>,
    result: Option<String>,
}

impl Turn {
    fn says(&mut self, prompt: &str) {
        *self = Self { prompt: Some(prompt.to_owned()), result: None };
    }

    fn returns(&mut self, result: String) {
        self.result = Some(result);
    }
}

/// What the model answers.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    parts: Vec<Part>,
    piece: usize,
    pace: Duration,
}

#[derive(Clone, Debug)]
enum Part {
    Says(String),
    /// A command, through the tool with which the CLI runs commands.
    Runs(String),
    /// Any tool, by its name.
    Calls(String, Value),
    Waits(Gate),
}

impl Reply {
    /// Nothing so far.
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), piece: 16, pace: Duration::ZERO }
    }

    pub(crate) fn says(self, text: impl Into<String>) -> Self {
        self.with(Part::Says(text.into()))
    }

    pub(crate) fn runs(self, command: impl Into<String>) -> Self {
        self.with(Part::Runs(command.into()))
    }

    pub(crate) fn calls(self, tool: impl Into<String>, input: Value) -> Self {
        self.with(Part::Calls(tool.into(), input))
    }

    /// Goes on only when the gate is opened.
    pub(crate) fn waits(self, gate: &Gate) -> Self {
        self.with(Part::Waits(gate.clone()))
    }

    /// Text comes in pieces of so many characters.
    pub(crate) fn in_pieces_of(self, characters: usize) -> Self {
        Self { piece: characters.max(1), ..self }
    }

    /// Each piece but the first comes so long after the one before, as if it had to be thought of.
    pub(crate) fn a_piece_every(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Its parts in the terms of one protocol: gates passed, commands as calls of the CLI's own tool.
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
                    let pieces = Pieces::of(&text, self.piece, self.pace);
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

/// A text in pieces of so many characters, in their own time.
struct Pieces<'a> {
    rest: &'a str,
    characters: usize,
    pace: Duration,
    begun: bool,
}

impl<'a> Pieces<'a> {
    fn of(text: &'a str, characters: usize, pace: Duration) -> Self {
        Self { rest: text, characters, pace, begun: false }
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
        if std::mem::replace(&mut self.begun, true) {
            thread::sleep(self.pace);
        }
        let end =
            self.rest.char_indices().nth(self.characters).map_or(self.rest.len(), |(end, _)| end);
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

/// Where a reply stands still until the test lets it pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Waits until it is opened, but for a model that has ended.
    fn pass(&self, shared: &Shared) -> io::Result<()> {
        let end = Instant::now() + WATCHDOG;
        while !*lock(&self.0.0) {
            if lock(&shared.state).ended || Instant::now() > end {
                return Err(io::Error::other("nobody opens the gate"));
            }
            let waited = self.0.1.wait_timeout_while(lock(&self.0.0), PACE, |open| !*open);
            drop(waited);
        }
        Ok(())
    }
}

/// Decides what the model answers.
type Script = Box<dyn FnMut(&Asked) -> Reply + Send>;

/// The server. It ends with this value.
pub(crate) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Somebody has asked, or has been answered.
    news: Condvar,
}

struct State {
    script: Script,
    conversation: Vec<Asked>,
    beside: Vec<(String, Value)>,
    /// What is answered to it, where it asks for no shape.
    beside_says: String,
    answered: Vec<Instant>,
    connections: Vec<(TcpStream, JoinHandle<()>)>,
    /// A script has panicked.
    failed: bool,
    ended: bool,
}

impl Model {
    /// A model that answers by this function.
    pub(crate) fn start(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            script: Box::new(script),
            conversation: Vec::new(),
            beside: Vec::new(),
            beside_says: "Scripted".to_owned(),
            answered: Vec::new(),
            connections: Vec::new(),
            failed: false,
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), news: Condvar::new() });
        let accepting = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accept(&listener, &accepting)));
        Self { address, shared, acceptor }
    }

    /// A model that gives these replies in turn, and then says that it has no more.
    pub(crate) fn playing(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        Self::start(move |_| {
            replies.pop().unwrap_or_else(|| Reply::new().says("The script is over."))
        })
    }

    /// Where it is reached, without a slash at the end.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the conversation has so many questions, and gives all of them.
    #[track_caller]
    pub(crate) fn asked(&self, count: usize) -> Vec<Asked> {
        self.wait_for(count, "was asked", |state| &state.conversation)
    }

    /// Waits until so many answers within the conversation have left to their last byte, and says when
    /// each of them had.
    #[track_caller]
    pub(crate) fn answered(&self, count: usize) -> Vec<Instant> {
        self.wait_for(count, "has answered", |state| &state.answered)
    }

    /// From now on this is the answer to what is asked beside the conversation, by agents of the agent's own, too.
    pub(crate) fn says_beside(&self, text: &str) {
        text.clone_into(&mut lock(&self.shared.state).beside_says);
    }

    /// What was asked beside the conversation: paths and bodies.
    pub(crate) fn beside(&self) -> Vec<(String, Value)> {
        lock(&self.shared.state).beside.clone()
    }

    #[track_caller]
    fn wait_for<T: Clone>(
        &self,
        count: usize,
        what: &str,
        of: impl Fn(&State) -> &Vec<T>,
    ) -> Vec<T> {
        let waiting = |state: &mut State| of(state).len() < count;
        let state = lock(&self.shared.state);
        let waited = self.shared.news.wait_timeout_while(state, WATCHDOG, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let come = of(&state).clone();
        assert!(come.len() >= count, "the model {what} {} times, not {count}", come.len());
        come
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        // Wakes the acceptor, which then sees that it is over.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
        let connections = std::mem::take(&mut lock(&self.shared.state).connections);
        for (stream, thread) in connections {
            stream.shutdown(Shutdown::Both).ok();
            thread.join().ok();
        }
        let failed = lock(&self.shared.state).failed;
        assert!(!failed || thread::panicking(), "the model's script has failed");
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = lock(&shared.state);
        if state.ended {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        state.connections.retain(|(_, thread)| !thread.is_finished());
        let shared = Arc::clone(shared);
        let thread = thread::spawn(move || {
            let _end = End { stream: &stream, shared: &shared };
            // That a CLI hangs up in the middle is its right.
            serve(&stream, &shared).ok();
        });
        state.connections.push((kept, thread));
    }
}

/// Ends a connection, of which another handle is kept; also where a script has failed.
struct End<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
}

impl Drop for End<'_> {
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
    fn answer(&self, request: &Request, to: &mut impl Write) -> io::Result<()> {
        let body = request.json();
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
            self.beside(&format!("{} {path}", request.method), &body);
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

    /// Writes a question down and says what the script answers it.
    fn converse(&self, turn: Turn, request: &Value) -> Reply {
        let Turn { prompt, result } = turn;
        let prompt = prompt.unwrap_or_default();
        let asked = Asked { prompt, result, request: request.clone(), at: Instant::now() };
        let mut state = lock(&self.state);
        let reply = (state.script)(&asked);
        state.conversation.push(asked);
        self.news.notify_all();
        reply
    }

    /// Says that an answer within the conversation has left to its last byte.
    fn answered(&self) {
        lock(&self.state).answered.push(Instant::now());
        self.news.notify_all();
    }

    /// Writes down what was asked beside the conversation, and says what is answered.
    fn beside(&self, path: &str, request: &Value) -> String {
        let mut state = lock(&self.state);
        state.beside.push((path.to_owned(), request.clone()));
        state.beside_says.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
