//! Power loss: with `durability = "disk"`, a message is on the disk before it is accepted.
//!
//! `strace` logs a daemon's received and sent bytes and its operations on files. From the log, the
//! tests compute the content of a disk that loses all unsynced writes.

use platform::transport::Stream;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command, Stdio},
};
use testkit::{
    sandbox::Sandbox,
    waiting::{not_tried, until},
};

const FILES: [&str; 2] = ["relay.db", LOG];
const LOG: &str = "relay.db-wal";

/// The calls that the tests interpret.
const CALLS: &str = "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,pwrite64,ftruncate,fsync,fdatasync";

const MESSAGES: usize = 8;

#[test]
fn durability_disk_syncs_before_each_acceptance() {
    let Some(steps) = run_conversation("disk") else { return };
    for number in 1..=MESSAGES {
        let mut steps_of_message = steps_until_acceptance(&steps, number).iter();
        assert!(steps_of_message.any(Step::writes_log), "message {number} is not written");
        assert!(
            steps_of_message.any(|step| *step == Step::Synced(LOG)),
            "message {number} is not synced"
        );
    }
}

/// The maximum number of writes for an acceptance: the length and the content of each changed page.
const WRITES_MAX: usize = 24;

#[test]
fn acceptance_costs_one_sync_and_a_few_writes() {
    let Some(steps) = run_conversation("disk") else { return };
    // The first messages make the streams and the first pages of the log.
    for number in 3..=MESSAGES {
        let steps = steps_until_acceptance(&steps, number);
        let syncs = steps.iter().filter(|step| matches!(step, Step::Synced(_))).count();
        let writes = steps.iter().filter(|step| matches!(step, Step::Wrote(..))).count();
        assert_eq!(syncs, 1, "message {number}");
        assert!(writes <= WRITES_MAX, "message {number}: {writes} writes");
    }
}

/// The log is also synced when it starts over, and by a checkpoint, which syncs the database too.
#[test]
fn durability_process_accepts_without_a_sync() {
    let Some(steps) = run_conversation("process") else { return };
    for number in 1..=MESSAGES {
        let mut steps_of_message = steps_until_acceptance(&steps, number).iter();
        assert!(steps_of_message.any(Step::writes_log), "message {number} is not written");
    }
    let count = |is_counted: fn(&Step) -> bool| steps.iter().filter(|it| is_counted(it)).count();
    let synced = count(|step| *step == Step::Synced(LOG));
    let begun = count(|step| matches!(step, Step::Wrote(LOG, Write::At(0, _))));
    let checkpoints = count(|step| *step == Step::Synced("relay.db"));
    assert!(synced <= begun + checkpoints, "{synced} of {begun} and {checkpoints}");
}

#[test]
fn accepted_messages_survive_a_power_loss() {
    let Some(steps) = run_conversation("disk") else { return };
    let (mut disk, mut accepted) = (Disk::default(), 0);
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for step in &steps {
        if accepted > 0 && *step == Step::Synced(LOG) {
            // Each write since the last sync is lost or kept at random, since a disk may reorder
            // writes.
            assert_delivered(&disk.after_loss(|| random.next_u32().is_multiple_of(2)), accepted);
        }
        disk.take(step);
        if *step == Step::Accepted(accepted + 1) {
            accepted += 1;
            assert_delivered(&disk.after_loss(|| false), accepted);
        }
    }
    assert_eq!(accepted, MESSAGES);
}

/// Before each sync of the first start, the writes since the last one are lost or kept at random.
#[test]
fn first_start_survives_a_power_loss() {
    let Some(steps) = run_conversation("disk") else { return };
    let (mut disk, mut random, mut losses) = (Disk::default(), ChaCha8Rng::seed_from_u64(6), 0);
    for step in steps.iter().take_while(|step| !matches!(step, Step::Received(_))) {
        if matches!(step, Step::Synced(_)) {
            assert_delivered(&disk.after_loss(|| random.next_u32().is_multiple_of(2)), 0);
            losses += 1;
        }
        disk.take(step);
    }
    assert!(losses >= 3, "{losses}");
    // A file that was never synced may be empty.
    for name in ["operator.key", "endpoint", "daemon.lock", "relay.db"] {
        let mut sandbox = Sandbox::new();
        sandbox.kill();
        fs::write(sandbox.home().join(name), "").unwrap();
        sandbox.start();
        assert!(sandbox.run(["send", "--as", "Ann", "Ann", "hello"]).status.success(), "{name}");
        assert!(sandbox.run(["status"]).status.success(), "{name}");
    }
}

/// A relevant step of a daemon.
#[derive(Debug, PartialEq)]
enum Step {
    /// The message with this number has arrived.
    Received(usize),
    /// The acceptance of the message is about to be sent.
    Accepted(usize),
    Wrote(&'static str, Write),
    Synced(&'static str),
}

/// A write of bytes at an offset, or of a new length of the file.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    At(usize, Vec<u8>),
    End(usize),
}

impl Step {
    fn writes_log(&self) -> bool {
        matches!(self, Self::Wrote(LOG, _))
    }
}

/// Sends messages to Rob, who is away. Returns the daemon's steps, or `None` without strace.
fn run_conversation(durability: &str) -> Option<Vec<Step>> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        not_tried("strace is not installed (ci/setup does it)");
        return None;
    }
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let config = format!("durability = \"{durability}\"\n");
    fs::write(sandbox.home().join("config.toml"), config).unwrap();
    let daemon = Traced::start(&sandbox);
    until("the daemon listens", || Stream::connect(&sandbox.endpoint()).is_ok());
    sandbox.join("Rob").leave();
    let mut ann = sandbox.join("Ann");
    for number in 1..=MESSAGES {
        let id = ann.send("Rob", &number.to_string(), json!({"requires_ack": true}));
        assert_eq!(id, id_of(number));
        let answer = ann.expect("ACK");
        assert_eq!(answer["payload"]["durability"], durability, "{answer}");
    }
    drop(daemon);
    let log = fs::read_to_string(sandbox.directory().join("log")).unwrap();
    Some(steps(&log))
}

fn id_of(number: usize) -> String {
    format!("m-{number}")
}

/// A daemon under strace.
struct Traced(Child);

impl Traced {
    /// Starts the daemon as a child of this process, not of strace (`-D`).
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.program("strace");
        command.args(["-D", "-f", "-y", "-qq", "-s", "1000000", "-e", CALLS, "-o", "log"]);
        let daemon = sandbox.command(["up", "--foreground"]);
        command.arg(daemon.get_program()).args(daemon.get_args());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The steps between the arrival of a message and its acceptance.
fn steps_until_acceptance(steps: &[Step], number: usize) -> &[Step] {
    let received = steps.iter().position(|step| *step == Step::Received(number));
    let accepted = steps.iter().position(|step| *step == Step::Accepted(number));
    let (Some(received), Some(accepted)) = (received, accepted) else {
        panic!("message {number} is not in the log: {received:?}, {accepted:?}")
    };
    &steps[received..accepted]
}

/// Reads strace's log. A sync or a receipt counts when its call returns, an acceptance when its
/// call begins.
fn steps(log: &str) -> Vec<Step> {
    let (mut steps, mut begun) = (Vec::new(), BTreeMap::new());
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else { continue };
        let call = call.trim_start();
        if let Some(beginning) = call.strip_suffix(" <unfinished ...>") {
            steps.extend(acceptance(beginning));
            begun.insert(thread, beginning);
        } else if let Some((_, end)) = call.split_once(" resumed>") {
            let beginning = begun.remove(thread).unwrap_or_default();
            steps.extend(completion(&format!("{beginning}{end}")));
        } else {
            steps.extend(acceptance(call));
            steps.extend(completion(call));
        }
    }
    steps
}

fn acceptance(call: &str) -> Option<Step> {
    let is_sent = call.starts_with("send") || call.starts_with("write");
    let is_acceptance = is_sent && call.contains("\\\"state\\\":\\\"accepted\\\"");
    if is_acceptance { message_number(call, "ack_id").map(Step::Accepted) } else { None }
}

/// Returns the number of the message that the member `key` of the frame in the call identifies.
fn message_number(call: &str, key: &str) -> Option<usize> {
    let names = |number| call.contains(&format!("\\\"{key}\\\":\\\"{}\\\"", id_of(number)));
    (1..=MESSAGES).find(|number| names(*number))
}

fn completion(call: &str) -> Option<Step> {
    let (call, result) = call.rsplit_once(" = ")?;
    let result: usize = result.split(' ').next()?.parse().ok()?;
    if call.starts_with("re") && call.contains("\\\"type\\\":\\\"SEND\\\"") {
        return message_number(call, "id").map(Step::Received);
    }
    let file = FILES.into_iter().find(|file| call.contains(&format!("/{file}>")))?;
    let number = |text: &str| text.trim_end_matches([')', ' ']).parse().ok();
    let (name, arguments) = call.split_once('(')?;
    match name {
        "fsync" | "fdatasync" => Some(Step::Synced(file)),
        "pwrite64" => {
            let mut bytes = bytes(arguments.split_once('"')?.1);
            bytes.truncate(result);
            let offset = number(arguments.rsplit_once(", ")?.1)?;
            Some(Step::Wrote(file, Write::At(offset, bytes)))
        }
        "ftruncate" => Some(Step::Wrote(file, Write::End(number(arguments.rsplit_once(", ")?.1)?))),
        _ => None,
    }
}

/// Reads a string as `strace` writes it, up to its closing quote.
fn bytes(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes().peekable());
    while let Some(byte) = rest.next().filter(|byte| *byte != b'"') {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escaped = rest.next().unwrap();
        let mut octal = u32::from(escaped.wrapping_sub(b'0'));
        bytes.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'0'..=b'7' => {
                for _ in 0..2 {
                    if let Some(digit) = rest.next_if(|digit| (b'0'..=b'7').contains(digit)) {
                        octal = octal * 8 + u32::from(digit - b'0');
                    }
                }
                u8::try_from(octal).unwrap()
            }
            other => other,
        });
    }
    bytes
}

/// The synced content of the files, and the writes after the last sync.
#[derive(Clone, Default)]
struct Disk {
    synced: BTreeMap<&'static str, Vec<u8>>,
    written: Vec<(&'static str, Write)>,
}

impl Disk {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Wrote(file, write) => self.written.push((file, write.clone())),
            Step::Synced(synced) => {
                let (now, later) = self.written.drain(..).partition(|(file, _)| file == synced);
                self.written = later;
                self.put(now);
            }
            Step::Received(_) | Step::Accepted(_) => {}
        }
    }

    fn put(&mut self, written: Vec<(&'static str, Write)>) {
        for (file, write) in written {
            let bytes = self.synced.entry(file).or_default();
            match write {
                Write::End(end) => bytes.resize(end, 0),
                Write::At(offset, new) => {
                    bytes.resize(bytes.len().max(offset + new.len()), 0);
                    bytes[offset..offset + new.len()].copy_from_slice(&new);
                }
            }
        }
    }

    /// The disk after a power loss: `is_written` chooses which of the unsynced writes are on it.
    fn after_loss(&self, mut is_written: impl FnMut() -> bool) -> Self {
        let mut left = self.clone();
        let written = left.written.drain(..).filter(|_| is_written()).collect();
        left.put(written);
        left
    }
}

/// Checks that a daemon with this disk delivers all messages up to number `accepted`.
fn assert_delivered(disk: &Disk, accepted: usize) {
    let mut sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    for (file, bytes) in &disk.synced {
        fs::write(sandbox.home().join(file), bytes).unwrap();
    }
    sandbox.start();
    let mut rob = sandbox.join("Rob");
    for number in 1..=accepted {
        let deliver = rob.expect("DELIVER");
        assert_eq!(deliver["payload"]["body"], number.to_string(), "{deliver}");
    }
}

#[test]
fn strace_strings_are_parsed() {
    assert_eq!(bytes(r#"a\0\12\0019\"\\\n\377", 9, 0"#), b"a\0\n\x019\"\\\n\xff");
}
