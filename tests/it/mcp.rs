//! The server of the Model Context Protocol, against a real daemon.

use crate::wrap::send;
use client::{Client, Delivery, Event, Settings};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};
use testkit::{
    claude,
    sandbox::Sandbox,
    waiting::{WATCHDOG, until, wait},
};

/// A running server, and its client.
struct Server {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    count: u64,
}

impl Server {
    /// Starts a server in the name of an agent, and begins a conversation.
    fn start(sandbox: &Sandbox, name: &str) -> Self {
        let mut server = Self::of(sandbox.command(["mcp", "--as", name]));
        let begun = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        assert_eq!(server.request("initialize", &begun)["serverInfo"]["name"], "agent-relay");
        server
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Self { process, stdin, stdout, count: 0 }
    }

    fn write(&mut self, line: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(&[line, b"\n"].concat()).unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and returns its id.
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.count += 1;
        let id = self.count;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(request.to_string().as_bytes());
        id
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool. Returns the texts of its result.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Value) -> Vec<String> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], false, "{result}");
        texts(&result)
    }

    /// Calls a tool that fails. Returns the reason.
    #[track_caller]
    fn fail(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], true, "{result}");
        texts(&result).concat()
    }

    /// Closes the input, and returns the exit code.
    fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        wait(&mut self.process, "the server").code()
    }
}

fn texts(result: &Value) -> Vec<String> {
    let content = result["content"].as_array().unwrap();
    content.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
}

/// The next message of an agent of the test.
fn receive(client: &Client) -> Box<Delivery> {
    loop {
        match client.events().recv_timeout(WATCHDOG).unwrap() {
            Event::Delivered(delivery) => return delivery,
            _ => continue,
        }
    }
}

fn join(sandbox: &Sandbox, name: &str) -> Client {
    Client::join(Settings::agent(sandbox.endpoint().as_text(), name)).unwrap()
}

#[test]
fn agents_send_look_and_read() {
    let sandbox = Sandbox::new();
    // A name is known once it was here.
    join(&sandbox, "Bob").close();
    let (mut ann, mut bob) = (Server::start(&sandbox, "Ann"), Server::start(&sandbox, "Bob"));
    let body = "the walrus\n->relay:Carl <<<\nsings>>>\u{1f600}";
    let sent = ann.call("send", &json!({"to": "Bob", "body": body, "thread": "-x"})).concat();
    let id = sent.split(' ').nth(1).unwrap().trim_end_matches(':');
    assert!(sent.contains("Bob is away"), "{sent}");
    let inbox = bob.call("inbox", &json!({})).concat();
    assert!(inbox.contains("waiting (recipient)") && inbox.contains("the walrus"), "{inbox}");
    let read = bob.call("read", &json!({"id": id})).concat();
    assert!(read.contains(&format!("\nAnn -> Bob, thread -x\n{body}\n[/relay ")), "{read}");
    for result in [&inbox, &read] {
        assert!(result.starts_with("[relay ") && result.ends_with(']'), "{result}");
    }
    let status = ann.call("message_status", &json!({"id": id})).concat();
    assert!(status.contains("waiting: until Bob is here"), "{status}");
    let history = ann.call("history", &json!({"with": "Bob", "search": "walrus"})).concat();
    assert!(history.contains("Ann -> Bob"), "{history}");
    let of_carl = Server::start(&sandbox, "Carl").call("history", &json!({})).concat();
    assert!(!of_carl.contains("Ann -> Bob"), "{of_carl}");
    let agents = ann.call("agents", &json!({})).concat();
    assert!(agents.contains("Bob"), "{agents}");
    let refused = ann.fail("send", &json!({"to": "B b", "body": "x"}));
    assert!(refused.starts_with("INVALID") || refused.contains("B b"), "{refused}");
    let refused = ann.fail("read", &json!({"id": "nothing"}));
    assert!(!refused.starts_with("agent-relay: "), "{refused}");
    let waits = bob.call("read", &json!({})).concat();
    assert!(waits.contains("the walrus"), "{waits}");
    assert_eq!((ann.close(), bob.close()), (Some(0), Some(0)));
}

#[test]
fn long_message_and_long_answer_have_pages() {
    let sandbox = Sandbox::new();
    join(&sandbox, "Bob").close();
    let mut ann = Server::start(&sandbox, "Ann");
    let long = "line of a long text\n".repeat(2500);
    let sent = ann.call("send", &json!({"to": "Bob", "body": long})).concat();
    let id = sent.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
    let whole = pages(&mut ann, &id, "", 0);
    assert!(whole.contains(&format!("\nAnn -> Bob\n{}\n[/relay ", long.trim_end())));
    let carl = join(&sandbox, "Carl");
    let answers = thread::spawn(move || {
        let question = receive(&carl);
        let data = serde_json::value::to_raw_value(&json!({"body": long})).unwrap();
        carl.answer(&question, true, Some(&data)).unwrap();
        carl
    });
    let answer = ann.call("ask", &json!({"to": "Carl", "body": "How long?"}));
    drop(answers.join().unwrap());
    let (_, rest) = answer[1].split_once("with the id ").unwrap();
    let (id, _) = rest.split_once(' ').unwrap();
    let whole = pages(&mut ann, id, &answer[0], next_offset(&answer[1]).unwrap());
    let long = "line of a long text\n".repeat(2500);
    let (header, text) = whole.split_once('\n').unwrap();
    assert!(header.ends_with("] Other agents wrote the texts in this, not your user."), "{header}");
    assert!(text.starts_with(&format!("Carl answers:\n{}\n[/relay ", long.trim_end())));
}

/// Reads all pages of a framed text from a position on, and returns the text, which begins with
/// `first`.
#[track_caller]
fn pages(server: &mut Server, id: &str, first: &str, mut offset: usize) -> String {
    let without_last = |page: &str| page.rsplit_once("\n[/relay ").unwrap().0.to_owned();
    let mut text = if first.is_empty() { String::new() } else { without_last(first) };
    loop {
        let page = server.call("read", &json!({"id": id, "offset": offset}));
        assert!(page[0].len() <= 16 << 10);
        assert!(page[0].starts_with("[relay ") && page[0].ends_with(']'), "{:.80}", page[0]);
        let piece = if offset == 0 { &*page[0] } else { page[0].split_once('\n').unwrap().1 };
        match next_offset(&page[1]) {
            Some(next) => {
                text.push_str(&without_last(piece));
                offset = next;
            }
            None => return text + piece,
        }
    }
}

/// Returns the beginning of the next page, as stated by a page.
fn next_offset(place: &str) -> Option<usize> {
    let (_, rest) = place.split_once("the offset ")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// An abandoned question does not keep the server from other requests, nor from ending.
#[test]
fn cancelled_question_has_no_result() {
    let sandbox = Sandbox::new();
    let bob = join(&sandbox, "Bob");
    let mut ann = Server::start(&sandbox, "Ann");
    let ask = json!({
        "name": "ask", "arguments": {"to": "Bob", "body": "?", "timeout_seconds": 3600},
        "_meta": {"progressToken": 7},
    });
    let id = ann.begin("tools/call", &ask);
    let progress = ann.read();
    assert_eq!(progress["params"]["progressToken"], 7, "{progress}");
    assert_eq!(receive(&bob).body, "?");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    ann.write(cancelled.to_string().as_bytes());
    // Its id is free once the command has ended.
    until("the call is over", || {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        ann.write(ping.to_string().as_bytes());
        let answer = ann.read();
        answer == json!({"jsonrpc": "2.0", "id": id, "result": {}})
    });
    ann.begin("tools/call", &json!({"name": "ask", "arguments": ask["arguments"]}));
    assert_eq!(receive(&bob).body, "?");
    assert_eq!(ann.close(), Some(0));
}

#[test]
fn garbage_is_refused_and_survived() {
    let sandbox = Sandbox::new();
    let mut ann = Server::start(&sandbox, "Ann");
    let long = vec![b'['; 64 << 20];
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{{"name":"send","arguments":{}{}}}}}"#,
        "[".repeat(1 << 20),
        "]".repeat(1 << 20)
    );
    for (line, code) in [
        (&long[..], -32600),
        (b"\xff\xfe", -32700),
        (b"no JSON", -32700),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"dance"}"#, -32601),
    ] {
        ann.write(line);
        let answer = ann.read();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    ann.write(deep.as_bytes());
    let refused = ann.read();
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!("d"), &json!(true)));
    ann.write(b"\n\n{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}");
    assert_eq!(ann.request("ping", &json!({})), json!({}));
    assert_eq!(ann.close(), Some(0));
}

#[test]
fn client_that_does_not_read_any_more_ends_the_server() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(["mcp", "--as", "Ann"]);
    command.stderr(Stdio::piped());
    let Server { mut process, mut stdin, stdout, .. } = Server::of(command);
    drop(stdout);
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    // A program that another test is about to start holds the pipe for a moment, too, so one answer
    // may still be written.
    until("the server ends", || {
        drop(stdin.as_mut().unwrap().write_all(ping));
        process.try_wait().unwrap().is_some()
    });
    assert_eq!(process.wait().unwrap().code(), Some(0));
    let said = process.wait_with_output().unwrap().stderr;
    assert_eq!(String::from_utf8_lossy(&said), "");
}

#[test]
fn server_without_an_agent_and_a_program_without_a_way_are_usage_errors() {
    let sandbox = Sandbox::empty();
    let nobody = sandbox.run(["mcp"]);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    for line in [&["run", "-n", "Ann"][..], &["spawn", "Ann"]] {
        let refused = Sandbox::new().run([line, &["--mcp", "--", "cat"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        let why = "--mcp does not apply to cat: a way to hand it over is known only for claude";
        assert!(said.contains(why), "{said}");
    }
}

/// A program under the name of Claude Code that hears of a message, reads it with the tool, and
/// reports the tool's result.
const CLAUDE: &str = r#"
grep -q AGENT_RELAY_KEY_FILE "${first#--mcp-config=}" || exit 9
begin_turn
echo ready
while ! grep -q agent-relay told; do echo '{}' | hook PostToolUse >told; sleep 0.05; done
id=$(sed 's/.*agent-relay read \([0-9a-f]*\).*/\1/' told)
begin='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
call='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"id":"'$id'"}}}'
printf '%s\n' "$begin" "$call" | "$RELAY" mcp | tail -n 1 >result
echo reported
while [ ! -e end ]; do
    printf '{"tool_response":%s}' "$(cat result)" | hook PostToolUse
    sleep 0.05
done
"#;

/// The tool `read` takes a message from the wrapper, and its result is the evidence.
#[test]
fn wrapped_agent_reads_by_the_tool() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = claude::start_with_hooks(&sandbox, CLAUDE, &["--mcp"]);
    send(&mut bob, "Ann", "the walrus sings");
    ann.wait_for("reported");
    until("the message is acknowledged", || {
        let listed = sandbox.run(["history", "--json"]).stdout;
        let row = listed.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let row: Value = serde_json::from_slice(row).unwrap_or_default();
        row["state"] == "acknowledged" && row["reported"]["state"] == "confirmed"
    });
    fs::write(sandbox.directory().join("end"), "").unwrap();
    assert_eq!(ann.finish(), 0);
}
