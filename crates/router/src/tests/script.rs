//! Transcripts: texts in which unindented lines are inputs of the router and indented lines are its
//! outputs.
//!
//! With `UPDATE_EXPECT=1`, a run writes the outputs into the test. In inputs, NAME is a client; its
//! connection begins where it `connects` or `joins`:
//!
//! ```text
//! limits NAME=NUMBER …              for the router that begins here, or after the next crash
//! here: ann bob                     all of them have joined; the transcript omits that
//! begin STATE                       reaches a state of `beginnings`; the transcript omits that
//! process 7: ann bob                they connect from this process, and not each from its own
//! ann connects                      opens a connection and sends nothing
//! ann joins [JSON]                  connects and sends HELLO; JSON is merged into the payload.
//!                                   After a crash, she proves to be the owner's, so that she
//!                                   does not wait, unless the JSON has `auth`
//! op joins                          joins as an operator, with the operator's key
//! ann says TYPE [HEADER] {PAYLOAD}  sends any envelope, with ids as in the transcript; HEADER is
//!                                   `key=value …`
//! ann asks BODY [DATA]              sends a request to @relay, with ids as in the transcript
//! ann raw BYTES                     sends these bytes as a frame
//! ann> bob #topic 60ms: text        SEND at most once; `*` is everyone, only the text is required
//! ann>> bob: text                   SEND at least once
//! ann again                         repeats her last SEND
//! ann acks d1 | nacks d1 [50]       answers a DELIVER, with its id as in the transcript
//! ann pongs                         answers her last PING
//! ann stalls | reads                from now on, nothing | everything is written to her
//! ann takes 100                     100 bytes of her frames are written
//! ann goes                          her connection ends
//! ann breaks CODE                   her bytes are not a frame
//! wait 300                          milliseconds pass, with a tick at every deadline
//! sleep 20000                       milliseconds pass, with ticks only after them
//! back 2000                         the wall clock goes back by milliseconds
//! wall 0                            the wall clock is set to these milliseconds since 1970
//! outside 1000 | stop upgrade       bytes held outside the router | the daemon stops
//! disk holds | keeps | fails        the store persists nothing for now | all | all but messages
//! disk keeps 1 | fails 1            the first change only; the store holds the rest
//! disk finds | errs                 answers queries from what is persisted | with an error
//! policy PART; PART …               parts: `FROM TO TOPIC yes|no`, `key NAME KEY`, `rate N`
//! op reread [WHY]                   the policy file was read again for her, or cannot be read
//! disk loses                        the store loses all records
//! disk shows                        from here on, the transcript has the changes
//! log shows                         from here on, the transcript has the lines for the log
//! crash [DAYS]                      another daemon begins with what was persisted, days later
//! ```
//!
//! Ids that the router makes are shown as `d1`, `d2` … in the order of their appearance, and
//! sessions as `s1`, `s2` …; a session's first WELCOME leaves its id out. `bob:2` stands for the
//! token of bob's second WELCOME, and `x*700` for a run of 700 letters. Rows of messages in answers
//! of `@relay` are shortened.

use super::beginnings::BEGINNINGS;
use crate::{
    ClientId, Input, Limits, Output, PeerProcess, keys,
    oracle::{Arrival, End, Event, Testbed},
    policy::{Policy, Rule},
};
use expect_test::Expect;
use protocol::{
    Moment, Now,
    code::{ErrorCode, Violation},
    envelope::{Envelope, Header, Kind},
    frame::PREFIX,
    glob::Glob,
    name::Name,
    payload::Capabilities,
    record::{Change, Clock, Query, QuestionRecord},
    secret::Secret,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write};
use testkit::records::Oracle;

/// Checks a transcript: runs its unindented lines, and compares the result with the whole
/// transcript.
#[track_caller]
pub(super) fn check(expect: Expect) {
    expect.assert_eq(&run(&inputs(expect.data())));
}

/// Runs a script and returns its transcript.
pub(super) fn run(script: &str) -> String {
    let mut world = World::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        world.echoed_line(line);
    }
    shortened(&world.transcript)
}

/// The cost of a line of a script.
#[derive(Debug)]
pub(super) struct Cost {
    /// The units of work that the router has counted.
    pub(super) work: u64,
    /// The comparisons and look-ups of keys.
    pub(super) steps: u64,
}

/// Returns the cost of the last line of a script.
pub(super) fn cost_of_last(lines: &[String]) -> Cost {
    let mut world = World::new();
    let (last, others) = lines.split_last().expect("a script has lines");
    others.iter().for_each(|line| world.echoed_line(line));
    let before = (world.bed.router.ctx.work, keys::steps());
    world.echoed_line(last);
    Cost { work: world.bed.router.ctx.work - before.0, steps: keys::steps() - before.1 }
}

/// Returns the inputs of a transcript: the lines that are not indented.
fn inputs(transcript: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines = || transcript.lines().filter(|line| !line.trim().is_empty());
    let least = lines().map(indent).min().unwrap_or(0);
    lines().filter(|line| indent(line) == least).map(|line| format!("{line}\n")).collect()
}

/// The length from which on a run of one letter is written as `x*21`.
const RUN_MIN: usize = 21;

/// Writes long runs of one letter as `x*700`.
fn shortened(transcript: &str) -> String {
    let mut short = String::new();
    let mut rest = transcript;
    while let Some(letter) = rest.chars().next() {
        let after = rest.trim_start_matches(letter);
        let run = (rest.len() - after.len()) / letter.len_utf8();
        if letter.is_ascii_lowercase() && run >= RUN_MIN {
            write!(short, "{letter}*{run}").unwrap();
        } else {
            short.push_str(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    short
}

/// Writes out the runs that `shortened` has shortened.
fn lengthened(line: &str) -> String {
    let mut long = String::new();
    let mut parts = line.split('*');
    long.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let run = part[..digits].parse().unwrap_or(0);
        match long.chars().next_back() {
            Some(letter) if letter.is_ascii_lowercase() && run >= RUN_MIN => {
                long.extend(std::iter::repeat_n(letter, run - 1));
                long.push_str(&part[digits..]);
            }
            _ => {
                long.push('*');
                long.push_str(part);
            }
        }
    }
    long
}

/// Sets limits from `NAME=NUMBER …`.
fn set_limits(limits: &mut Limits, text: &str) {
    for (name, number) in text.split(' ').map(|word| word.split_once('=').expect("NAME=NUMBER")) {
        let number: u64 = number.parse().expect("a number");
        macro_rules! set {
            ($($field:ident)*) => {
                match name {
                    $(stringify!($field) => limits.$field = number.try_into().unwrap(),)*
                    _ => panic!("no limit: {name}"),
                }
            };
        }
        set!(
            frame_bytes_max heartbeat_ms resume_window_ms ttl_ms remote_ttl_ms queue_messages_max queue_bytes_max
            memory_bytes_max mail_bytes_max backlog_max clients_max mailbox_days names_max streams_max operator_mail_ms
            unauthenticated_max subscriptions_max replay_messages_max dedup_max dedup_total_max
            answers_bytes_max waiting_answers_bytes_max questions_max window_bytes
        );
    }
}

struct World {
    bed: Testbed,
    /// Clients by their names in the script, each with its last connection.
    clients: BTreeMap<String, Actor>,
    names: BTreeMap<ClientId, String>,
    processes: BTreeMap<String, u32>,
    last_sends: BTreeMap<String, Vec<u8>>,
    ids: BTreeMap<String, String>,
    sessions: BTreeMap<String, String>,
    /// Tokens by `NAME:NUMBER`, the number of the client's WELCOME.
    tokens: BTreeMap<String, String>,
    /// The nonce of each client's last PING.
    nonces: BTreeMap<String, String>,
    /// The records that the store has persisted.
    disk: Oracle,
    has_crashed: bool,
    disk_holds: bool,
    disk_shows: bool,
    log_shows: bool,
    limits: Limits,
    queries: Vec<(ClientId, Query)>,
    transcript: String,
}

/// The operator of scripts, and its key.
const OPERATOR: &str = "op";
const OPERATOR_KEY: &str = "open";

/// The wall clock's time at the monotonic clock's zero, and the monotonic clock's time at the
/// beginning of a script.
const WALL_MS: u64 = 1_000_000;
const START_MS: u64 = 1_000;

/// Returns a testbed whose router admits operators.
fn testbed(limits: &Limits, seed: u8, now: Now) -> Testbed {
    let mut bed = Testbed::new(limits, [seed; 32], now);
    bed.router.admit_operators(Secret::stated(OPERATOR_KEY).hash());
    bed
}

/// Returns a short text for a change.
fn keep_text(change: &Change) -> String {
    match change {
        Change::Accepted(taken) | Change::AcceptedAgain(taken) => {
            let again = if matches!(change, Change::AcceptedAgain(_)) { " again" } else { "" };
            let to: Vec<_> = taken
                .deliveries
                .iter()
                .map(|to| format!("{}#{} attempts {}", to.to_name, to.seq, to.attempts))
                .collect();
            let left = taken.dedup.remaining.len();
            format!("{}{again} for [{}], {left} left", taken.message.send_id, to.join(", "))
        }
        Change::Attempted { delivery, attempts, failures } => {
            format!("delivery {delivery}: {attempts} attempts, {failures} failures")
        }
        Change::Ended { delivery, ending, .. } => format!("delivery {delivery}: {ending:?}"),
        Change::Redelivered { delivery, .. } => format!("delivery {delivery} revived"),
        Change::Agent(agent) => {
            let is = if agent.forget_at.is_some() { "away" } else { "here" };
            format!("{} {is}", agent.name)
        }
        Change::AgentForgotten(agent) => format!("agent {agent} forgotten"),
        Change::Session(session) => {
            let agent = session.agent;
            let until = session.expires.map(|at| format!(" until {}", at.0)).unwrap_or_default();
            format!("session of agent {agent} with {:?}{until}", session.subscriptions)
        }
        Change::SessionEnded { agent } => format!("session of agent {agent} ended"),
        Change::Stream(stream) => {
            let topic = stream.topic.as_deref().unwrap_or_default();
            format!("stream {}→{} {topic:?} up to {}", stream.from, stream.to, stream.reserved)
        }
        Change::StreamEnded(stream) => format!("stream {stream} ended"),
        Change::Notice(answer) => format!("answer {} for agent {}", answer.number, answer.agent),
        Change::NoticeEnded(answer) => format!("answer {answer} ended"),
        Change::Question(question) => {
            let QuestionRecord { from, to, send_id, until, .. } = &**question;
            format!("question {send_id} {from}→{to} until {}", until.0)
        }
        Change::QuestionEnded(_) => "question ended".to_owned(),
        Change::Answer(answer) => {
            format!("{} for {}, ended", answer.message.send_id, answer.delivery.to_name)
        }
        Change::Sync => "sync".to_owned(),
    }
}

struct Actor {
    id: ClientId,
    stalls: bool,
    sends: u64,
}

impl World {
    fn new() -> Self {
        let now = Now { monotonic: Moment(START_MS), unix_ms: WALL_MS + START_MS };
        let clock = Clock(Now { monotonic: Moment(0), unix_ms: WALL_MS });
        let limits = Limits::default();
        Self {
            bed: testbed(&limits, 7, now),
            clients: BTreeMap::new(),
            names: BTreeMap::new(),
            processes: BTreeMap::new(),
            last_sends: BTreeMap::new(),
            ids: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tokens: BTreeMap::new(),
            nonces: BTreeMap::new(),
            disk: Oracle { clock, ..Oracle::default() },
            has_crashed: false,
            disk_holds: false,
            disk_shows: false,
            log_shows: false,
            limits,
            queries: Vec::new(),
            transcript: String::new(),
        }
    }

    fn echoed_line(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        self.line(&lengthened(line));
    }

    /// Runs a beginning, checks its transcript, and leaves it out of the script's transcript.
    fn begin(&mut self, state: &str) {
        let known = BEGINNINGS.iter().find(|(name, _)| *name == state);
        let (_, beginning) = known.unwrap_or_else(|| panic!("no such beginning: {state}"));
        let start = self.transcript.len();
        inputs(beginning).lines().for_each(|line| self.echoed_line(line));
        assert_eq!(self.transcript.split_off(start), *beginning, "the beginning {state:?}");
    }

    fn line(&mut self, line: &str) {
        let (subject, rest) = line.split_once(' ').unwrap_or((line, ""));
        match subject {
            "begin" => self.begin(rest),
            "process" => {
                let (pid, clients) = rest.split_once(": ").expect("PID: CLIENT …");
                let of_client = |client: &str| (client.to_owned(), pid.parse().unwrap());
                self.processes.extend(clients.split(' ').map(of_client));
            }
            "here:" => rest.split(' ').for_each(|client| self.join_silently(client)),
            "wait" => self.wait(rest.parse().unwrap()),
            "sleep" => {
                self.bed.advance(rest.parse().unwrap());
                self.wait(0);
            }
            "back" => self.bed.now.unix_ms -= rest.parse::<u64>().unwrap(),
            "wall" => self.bed.now.unix_ms = rest.parse().unwrap(),
            "disk" => self.disk(rest),
            "log" => self.log_shows = true,
            "limits" => self.limit(rest),
            "crash" => self.crash(rest),
            "policy" => self.handle(Input::Policy(policy(rest).into())),
            "outside" => self.handle(Input::Outside(rest.parse().unwrap())),
            "stop" => self.handle(Input::Stop(if rest == "upgrade" { "upgrade" } else { "stop" })),
            _ => match subject.strip_suffix(">>").or_else(|| subject.strip_suffix('>')) {
                Some(client) => self.send(client, rest, subject.ends_with(">>")),
                None => self.act(subject, rest),
            },
        }
    }

    fn limit(&mut self, limits: &str) {
        set_limits(&mut self.limits, limits);
        if self.names.is_empty() {
            self.bed = testbed(&self.limits, 7, self.bed.now);
        }
    }

    fn act(&mut self, client: &str, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "connects" => self.connect(client),
            "joins" => self.join(client, rest),
            "says" => {
                let brace = rest.find(" {").expect("a payload");
                let (head, payload) = rest.split_at(brace);
                let (kind, header) =
                    head.trim().split_once(' ').unwrap_or_else(|| (head.trim(), ""));
                let kind = Kind::parse(kind).expect("a type");
                let payload = self.with_ids(payload);
                self.say(client, kind, "x", header, &payload);
            }
            "asks" => {
                let (body, data) = rest.split_once(' ').unwrap_or((rest, "{}"));
                let data = self.with_ids(data);
                let payload = format!(r#"{{"kind":"request","body":"{body}","data":{data}}}"#);
                self.say(client, Kind::Send, "q", "to=@relay", &payload);
            }
            "raw" => self.frame(client, rest.as_bytes().to_vec()),
            "again" => {
                let last = self.last_sends[client].clone();
                self.frame(client, last);
            }
            "acks" => {
                let (id, more) = rest.split_once(' ').unwrap_or((rest, ""));
                let mut ack = json!({"ack_id": self.real_id(id)});
                merge(&mut ack, more);
                self.say(client, Kind::Ack, "a", "", &ack.to_string());
            }
            "nacks" => self.nack(client, rest),
            "pongs" => {
                let pong = json!({"nonce": self.nonces[client]});
                self.say(client, Kind::Pong, "p", "", &pong.to_string());
            }
            "stalls" => self.clients.get_mut(client).unwrap().stalls = true,
            "reads" => {
                let actor = self.clients.get_mut(client).unwrap();
                actor.stalls = false;
                let id = actor.id;
                self.write(id);
            }
            "takes" => {
                let (id, bytes) = (self.clients[client].id, rest.parse().unwrap());
                self.bed.write(id, bytes);
                self.handle(Input::Written(id, bytes));
            }
            "reread" => {
                let read = if rest.is_empty() { Ok(()) } else { Err(rest.to_owned()) };
                let id = self.clients[client].id;
                self.handle(Input::Reloaded(id, read));
            }
            "goes" => {
                let id = self.clients[client].id;
                self.arrive(id, Arrival::Ended);
            }
            "breaks" => {
                let id = self.clients[client].id;
                let code = ErrorCode::parse(rest).expect("a code");
                self.arrive(id, Arrival::Violated(Violation::new(code, "broken")));
            }
            _ => panic!("no such line: {client} {line}"),
        }
    }

    fn nack(&mut self, client: &str, rest: &str) {
        let (id, ms) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut nack = json!({"ack_id": self.real_id(id), "code": "X", "message": "no"});
        if let Ok(ms) = ms.parse::<u64>() {
            nack["retry_after_ms"] = json!(ms);
        }
        self.say(client, Kind::Nack, "n", "", &nack.to_string());
    }

    fn join(&mut self, client: &str, payload: &str) {
        self.connect(client);
        let mut hello = hello_of(client);
        merge(&mut hello, payload);
        if self.has_crashed && hello.get("mode").is_none() && hello.get("auth").is_none() {
            hello["auth"] = json!({"key": OPERATOR_KEY});
        }
        self.say(client, Kind::Hello, "h", "", &hello.to_string());
    }

    /// Joins without a line in the transcript.
    fn join_silently(&mut self, client: &str) {
        let before = self.transcript.len();
        self.act(client, "joins");
        let said = self.transcript.split_off(before);
        let welcome = match client {
            OPERATOR => format!("{client} < WELCOME {{\"agent\":\"@operator\""),
            _ => format!("{client} < WELCOME {{\"agent\":\"{}\"}}", capitalized(client)),
        };
        assert!(said.contains(&welcome), "{said}");
    }

    fn connect(&mut self, client: &str) {
        let id = self.bed.new_end();
        let sends = self.clients.get(client).map_or(0, |actor| actor.sends);
        let actor = Actor { id, stalls: false, sends };
        self.clients.insert(client.to_owned(), actor);
        self.names.insert(id, client.to_owned());
        let pid = self.processes.get(client).copied().unwrap_or(1_000 + id.0 as u32);
        self.handle(Input::Connected(id, Some(PeerProcess { pid, start: 0 })));
    }

    fn send(&mut self, client: &str, line: &str, requires_ack: bool) {
        let (head, text) = line.split_once(": ").unwrap_or((line, ""));
        let (mut to, mut topic, mut ttl) = (None, None, None);
        for word in head.split(' ').filter(|word| !word.is_empty()) {
            match (word.strip_prefix('#'), word.strip_suffix("ms")) {
                (Some(name), _) => topic = Some(name),
                (_, Some(ms)) => ttl = ms.parse::<u64>().ok(),
                _ => to = Some(word),
            }
        }
        let actor = self.clients.get_mut(client).unwrap();
        actor.sends += 1;
        let id = format!("{}{}", &client[..1], actor.sends);
        let mut meta = json!({});
        if requires_ack {
            meta["requires_ack"] = json!(true);
        }
        if let Some(ttl) = ttl {
            meta["ttl_ms"] = json!(ttl);
        }
        let (payload, meta) = (json!({"body": text}).to_string(), meta.to_string());
        let mut members = vec![("payload", payload.as_str())];
        if meta != "{}" {
            members.push(("payload_meta", &meta));
        }
        let mut bytes = Vec::new();
        Header { to, topic, ..Header::new(Kind::Send, &id, 1) }.append_raw(&mut bytes, members);
        self.last_sends.insert(client.to_owned(), bytes[4..].to_vec());
        self.frame(client, bytes[4..].to_vec());
    }

    fn say(&mut self, client: &str, kind: Kind, id: &str, header: &str, payload: &str) {
        let mut payload = payload.to_owned();
        for (name, token) in &self.tokens {
            payload = payload.replace(&format!("\"{name}\""), &format!("\"{token}\""));
        }
        let mut fields = BTreeMap::new();
        for word in header.split(' ').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').expect("key=value");
            fields.insert(key, value);
        }
        let header = Header {
            from: fields.get("from").copied(),
            to: fields.get("to").copied(),
            topic: fields.get("topic").copied(),
            ..Header::new(kind, fields.get("id").copied().unwrap_or(id), 1)
        };
        let mut members = vec![("payload", payload.as_str())];
        if let Some(meta) = fields.get("meta") {
            members.push(("payload_meta", meta));
        }
        let mut bytes = Vec::new();
        header.append_raw(&mut bytes, members);
        self.frame(client, bytes[4..].to_vec());
    }

    fn frame(&mut self, client: &str, json: Vec<u8>) {
        let id = self.clients[client].id;
        self.arrive(id, Arrival::Frame(json.into()));
    }

    fn wait(&mut self, ms: u64) {
        let end = self.bed.now.monotonic.plus(ms);
        while let Some(due) = self.bed.router.deadline().filter(|due| *due <= end) {
            self.bed.advance(due.since(self.bed.now.monotonic));
            self.handle(Input::Tick);
        }
        self.bed.advance(end.since(self.bed.now.monotonic));
    }

    fn handle(&mut self, input: Input<'_>) {
        let events = self.bed.handle(input).unwrap();
        self.carry_out(&events);
        self.serve();
    }

    /// Appends an entry to a client's queue, and serves all clients.
    fn arrive(&mut self, id: ClientId, arrival: Arrival) {
        let events = self.bed.arrive(id, arrival).unwrap();
        self.carry_out(&events);
        self.serve();
    }

    fn serve(&mut self) {
        while let Some(events) = self.bed.serve().unwrap() {
            self.carry_out(&events);
        }
    }

    fn carry_out(&mut self, events: &[Event]) {
        let mut written = Vec::new();
        for event in events {
            if let Event::Frame(id, _) = event {
                written.push(*id);
            }
            self.show(event);
        }
        if !self.disk_holds {
            if !self.bed.pending.is_empty() {
                self.keep();
            }
            self.find();
        }
        for id in written {
            let actor = &self.clients[&self.names[&id]];
            if actor.id == id && !actor.stalls {
                self.write(id);
            }
        }
    }

    fn find(&mut self) {
        for (id, query) in std::mem::take(&mut self.queries) {
            let found = self.disk.find(&query);
            self.handle(Input::Found(id, Ok(found)));
        }
    }

    fn keep(&mut self) {
        self.commit(self.bed.pending.len(), true);
    }

    fn commit(&mut self, count: usize, space: bool) {
        let (changes, report) = self.bed.commit(count, space);
        changes.iter().for_each(|change| self.disk.apply(change));
        self.disk.clock = Clock(self.bed.now);
        self.handle(report);
    }

    /// Runs a `disk` line.
    fn disk(&mut self, verb: &str) {
        let (verb, first) = verb.split_once(' ').unwrap_or((verb, ""));
        match verb {
            "keeps" if !first.is_empty() => self.commit(first.parse().unwrap(), true),
            "holds" => self.disk_holds = true,
            "keeps" => {
                self.disk_holds = false;
                self.keep();
            }
            "fails" => {
                self.commit(first.parse().unwrap_or(self.bed.pending.len()), false);
            }
            "finds" => self.find(),
            "errs" => {
                for (id, _) in std::mem::take(&mut self.queries) {
                    self.handle(Input::Found(id, Err("disk I/O error".to_owned())));
                }
            }
            "shows" => self.disk_shows = true,
            "loses" => {
                self.disk =
                    Oracle { clock: self.disk.clock, last: self.disk.last, ..Oracle::default() };
                self.handle(Input::Lost);
            }
            other => panic!("no verb: disk {other}"),
        }
    }

    /// Begins another daemon with the records that the store has persisted.
    fn crash(&mut self, days: &str) {
        self.has_crashed = true;
        let days = days.parse().unwrap_or(0);
        self.clients.clear();
        self.queries.clear();
        let unix_ms = self.bed.now.unix_ms + days * 86_400_000_u64;
        let now = Now { monotonic: self.disk.clock.moment_at(unix_ms), unix_ms };
        self.bed = testbed(&self.limits, 8, now);
        let mut out = Vec::new();
        let image = self.disk.image();
        self.bed.open = image.deliveries.keys().copied().collect();
        self.bed.router.restore(now, image, &mut out);
        let events = self.bed.record(out).unwrap();
        events.iter().for_each(|event| self.show(event));
        self.keep();
    }

    fn write(&mut self, id: ClientId) {
        let bytes = self.bed.ends.get(&id).map_or(0, End::unwritten_bytes);
        if bytes > 0 {
            self.bed.write(id, bytes);
            self.handle(Input::Written(id, bytes));
        }
    }

    fn show(&mut self, event: &Event) {
        let text = match event {
            Event::Frame(id, frame) => {
                let client = self.names[id].clone();
                let text = self.frame_text(&client, frame);
                format!("{client} < {text}")
            }
            Event::Other(output) => match self.output_text(output) {
                Some(text) => text,
                None => return,
            },
        };
        writeln!(self.transcript, "    {text}").unwrap();
    }

    fn output_text(&mut self, output: &Output) -> Option<String> {
        let text = match output {
            Output::SetPaused(id, is_paused) => {
                format!("{} {}", self.names[id], if *is_paused { "waits" } else { "goes on" })
            }
            Output::Close(id, reason) => format!("{} close {reason:?}", self.names[id]),
            Output::HangUp(id) => format!("{} hang up", self.names[id]),
            Output::Persist(change) if self.disk_shows => format!("keep {}", keep_text(change)),
            Output::Log(line) if self.log_shows => format!("log {line}"),
            Output::Query(id, query) => {
                self.queries.push((*id, (**query).clone()));
                return None;
            }
            Output::Reload(id) => format!("reload for {}", self.names[id]),
            Output::Stopped => "stopped".to_owned(),
            _ => return None,
        };
        Some(text)
    }

    /// Returns a frame as one line: type, delivery, payload.
    fn frame_text(&mut self, client: &str, frame: &[u8]) -> String {
        let envelope = Envelope::read(&frame[PREFIX..]).expect("an envelope");
        let payload = self.payload_text(client, &envelope);
        if envelope.kind != Kind::Deliver {
            let from = envelope.from.map(|from| format!(" from {from}")).unwrap_or_default();
            return format!("{}{from} {payload}", envelope.kind.as_str());
        }
        let delivery: Value = serde_json::from_str(envelope.delivery.unwrap()).unwrap();
        let mut text = format!("DELIVER {}", self.short_id(&envelope.id));
        write!(text, " {} -> {}", envelope.from.unwrap(), envelope.to.unwrap()).unwrap();
        if let Some(topic) = envelope.topic {
            write!(text, " #{topic}").unwrap();
        }
        write!(text, " seq {}", delivery["seq"]).unwrap();
        for key in ["attempt", "originalTo", "requires_ack"] {
            if let Some(value) = delivery.get(key) {
                write!(text, " {key} {value}").unwrap();
            }
        }
        write!(text, " {payload}").unwrap();
        text
    }

    fn payload_text(&mut self, client: &str, envelope: &Envelope<'_>) -> String {
        let mut payload: Value = serde_json::from_str(envelope.payload).unwrap();
        if let Some(object) = payload.as_object_mut() {
            object.remove("server");
            if let Some(Value::String(nonce)) = object.remove("nonce") {
                self.nonces.insert(client.to_owned(), nonce);
            }
            if let Some(Value::String(token)) = object.remove("resume_token") {
                let mut free = (1..).map(|number| format!("{client}:{number}"));
                let name = free.find(|name| !self.tokens.contains_key(name)).unwrap();
                self.tokens.insert(name, token);
            }
            if let Some(Value::String(id)) = object.remove("session_id") {
                if let Some(known) = self.sessions.get(&id) {
                    object.insert("session_id".to_owned(), known.as_str().into());
                } else {
                    let name = format!("s{}", self.sessions.len() + 1);
                    self.sessions.insert(id, name);
                }
            }
            let usual = serde_json::to_value(Capabilities::default()).unwrap();
            if object.get("capabilities") == Some(&usual) {
                object.remove("capabilities");
            }
        }
        if let Some(messages) = payload.pointer_mut("/data/messages").and_then(Value::as_array_mut)
        {
            for row in messages {
                self.shorten(row);
            }
        }
        payload.to_string()
    }

    fn shorten(&mut self, row: &mut Value) {
        let object = row.as_object_mut().expect("a row");
        for key in ["durability", "auth", "payload_meta", "taken"] {
            object.remove(key);
        }
        let body = object.remove("payload").map(|payload| payload["body"].clone());
        object.insert("body".into(), body.unwrap_or_default());
        let id = object["id"].as_str().expect("an id").to_owned();
        object.insert("id".into(), self.short_id(&id).into());
    }

    fn short_id(&mut self, id: &str) -> String {
        let next = format!("d{}", self.ids.len() + 1);
        self.ids.entry(id.to_owned()).or_insert(next).clone()
    }

    /// Returns JSON with the ids of the router instead of those of the transcript.
    fn with_ids(&self, json: &str) -> String {
        self.ids.iter().fold(json.to_owned(), |json, (id, short)| {
            json.replace(&format!("\"{short}\""), &format!("\"{id}\""))
        })
    }

    fn real_id(&self, short: &str) -> String {
        let found = self.ids.iter().find(|(_, name)| *name == short);
        found.map_or_else(|| short.to_owned(), |(id, _)| id.clone())
    }
}

fn policy(parts: &str) -> Policy {
    let mut policy = Policy::default();
    for part in parts.split("; ") {
        match *part.split(' ').collect::<Vec<_>>() {
            ["key", name, key] => {
                let name = Name::parse(name).unwrap();
                policy.keys.insert(name, Secret::stated(key).hash());
            }
            ["rate", rate] => policy.per_pair_per_minute = rate.parse().ok(),
            [from, to, topic, allow] => policy.rules.push(Rule {
                from: Glob::name(from).unwrap(),
                to: Glob::name(to).unwrap(),
                topic: Glob::topic(topic).unwrap(),
                allow: allow == "yes",
                line: policy.rules.len() + 1,
            }),
            _ => panic!("no such part: {part}"),
        }
    }
    policy
}

fn hello_of(client: &str) -> Value {
    match client {
        OPERATOR => json!({"mode": "operator", "auth": {"key": OPERATOR_KEY}}),
        _ => json!({"agent": capitalized(client)}),
    }
}

fn capitalized(client: &str) -> String {
    let plain = client.trim_end_matches(|last: char| last.is_ascii_digit());
    format!("{}{}", plain[..1].to_uppercase(), &plain[1..])
}

fn merge(object: &mut Value, more: &str) {
    if more.is_empty() {
        return;
    }
    let more: Value = serde_json::from_str(more).expect("JSON");
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
}
