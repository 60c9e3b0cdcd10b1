//! The protocol over a real socket: framing, timers, and members that only the daemon fills in.
//!
//! The answers to all other kinds of frames are tested in crates/protocol and
//! crates/router/src/tests. Most tests run next to a bystander, a client that must not be affected.

use serde_json::{Value, json};
use testkit::{
    raw::{Raw, session},
    sandbox::Sandbox,
    waiting::{not_tried, output},
};

const PRETTY: &str =
    r#"{ "v" : 1, "type":"SEND" ,"id":"m","ts":1, "to":"Bob", "payload":PAYLOAD }"#;

/// Runs a test next to a bystander. Afterwards the bystander can still send to itself, and the
/// daemon is up.
#[track_caller]
fn with_bystander(test: impl FnOnce(&Sandbox)) {
    let mut sandbox = Sandbox::new();
    let mut bystander = sandbox.join("Bystander");
    test(&sandbox);
    bystander.send("Bystander", "still here", json!({}));
    let mut received = vec![];
    while received.last().is_none_or(|last: &Value| last["type"] != "DELIVER") {
        received.push(bystander.receive().expect("the bystander is still connected"));
    }
    assert_eq!(received.len(), 1, "the bystander was affected: {received:?}");
    assert!(sandbox.is_up());
}

fn frame(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

#[test]
fn length_over_the_limit_is_fatal_before_its_bytes_arrive() {
    with_bystander(|sandbox| {
        for length in [1024 * 1024 + 1, u32::MAX] {
            let mut ann = sandbox.join("Ann");
            ann.send_bytes(&length.to_be_bytes());
            let error = ann.expect_code("ERROR", "FRAME_TOO_LARGE");
            assert_eq!(error["payload"]["fatal"], true);
            ann.expect_end();
        }
    });
}

#[test]
fn longest_frame_is_accepted_and_a_longer_one_is_fatal() {
    let sandbox = Sandbox::with_config("max_frame_bytes = 4096\n");
    let mut ann = sandbox.join("Ann");
    let send = |bytes: usize| {
        let json = |body: &str| {
            format!(
                r#"{{"v":1,"type":"SEND","id":"m","ts":1,"to":"Zoe","payload":{{"b":"{body}"}}}}"#
            )
        };
        json(&"x".repeat(bytes - json("").len()))
    };
    ann.send_text(&send(4096));
    ann.expect_code("NACK", "UNKNOWN_AGENT");
    ann.send_text(&send(4097));
    ann.expect_code("ERROR", "FRAME_TOO_LARGE");
    ann.expect_end();
}

#[test]
fn good_frames_before_a_bad_one_are_answered_first() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        let good = r#"{"v":1,"type":"SEND","id":"m-1","ts":1,"to":"Nobody","payload":{}}"#;
        ann.send_bytes(&[frame(good), frame("nonsense")].concat());
        ann.expect_code("NACK", "UNKNOWN_AGENT");
        ann.expect_code("ERROR", "BAD_FRAME");
        ann.expect_end();
    });
}

#[test]
fn unordered_escaped_and_unknown_fields_are_accepted() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send_text(
            r#"  {"payload":{"body":"x"},"colour":{"a":[1,{}]},"to":"\u0041nn","ts":1e3,"id":"q\"1","type":"SEND","v":1} "#,
        );
        let deliver = ann.expect("DELIVER");
        assert_eq!(deliver["from"], "Ann");
        assert_ne!(deliver["id"], "q\"1", "a DELIVER's id is a new one");
        assert!(deliver["ts"].as_u64().unwrap() > 1_600_000_000_000, "the daemon's clock");
    });
}

#[test]
fn payload_bytes_arrive_unchanged() {
    let payloads = [
        r#"{ "body" : "\u00e9\/\n" ,	"n": 1234567890123456789012345, "a":1,"a":2 }"#,
        r#"{"e":1e999,"neg":-0.0,"s":"\ud800","deep":[[[{"x":[]}]]]}"#,
        "{\"ü\":\"日本 \u{1f980} \u{7f}\"}",
        "{}",
        "{\r\n}",
    ];
    with_bystander(|sandbox| {
        let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
        for payload in payloads {
            let meta = payload.replace("body", "requires_Ack");
            let send = PRETTY.replace("PAYLOAD", payload);
            ann.send_text(
                &send.replace("\"payload\"", &format!("\"payload_meta\":{meta}, \"payload\"")),
            );
            let text = bob.receive_text().unwrap();
            assert!(text.contains(&format!("\"payload\":{payload}")), "{payload}\n{text}");
            assert!(text.contains(&format!("\"payload_meta\":{meta}")), "{meta}\n{text}");
        }
    });
}

fn hello(payload: Value) -> Value {
    json!({"v": 1, "type": "HELLO", "id": "h", "ts": 1, "payload": payload})
}

/// A script that becomes another user, sends a frame, and prints the answer. The script exits with
/// 77 if it cannot become another user.
const OTHER_USER: &str = "
import os, socket, sys
try:
    os.setuid(65534)
except PermissionError:
    sys.exit(77)
with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[1])
    said = sys.argv[2].encode()
    stream.sendall(len(said).to_bytes(4, 'big') + said)
    told = b''.join(iter(lambda: stream.recv(65536), b''))
sys.stdout.write(told[4:].decode())
";

/// A script that connects, and lets another user connect who passes the connection along. Prints
/// the answer to the passed connection, and then, as the other user, the answer to its own one. A
/// descriptor that it sends along with its first byte must not stay open in the daemon.
const PASSED_CONNECTIONS: &str = "
import os, socket, sys
said = sys.argv[2].encode()
frame = len(said).to_bytes(4, 'big') + said
def connect():
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(sys.argv[1])
    return stream
def told(stream):
    length = int.from_bytes(stream.recv(4, socket.MSG_WAITALL), 'big')
    print(stream.recv(length, socket.MSG_WAITALL).decode(), flush=True)
own = connect()
ours, theirs = socket.socketpair()
if os.fork() == 0:
    try:
        os.setuid(65534)
    except PermissionError:
        os._exit(77)
    connection = connect()
    socket.send_fds(theirs, [b'x'], [connection.fileno()])
    os._exit(0)
code = os.waitstatus_to_exitcode(os.wait()[1])
if code:
    sys.exit(code)
passed = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
passed.sendall(frame)
told(passed)
os.setuid(65534)
reader, writer = os.pipe()
socket.send_fds(own, [frame[:1]], [writer])
os.close(writer)
own.sendall(frame[1:])
told(own)
assert os.read(reader, 1) == b''
";

/// The process that connected has ended, so that its id could be another's.
#[test]
fn user_at_the_connect_decides_whoever_holds_the_connection_later() {
    with_bystander(|sandbox| {
        let Some(answers) = other_user(sandbox, PASSED_CONNECTIONS) else { return };
        let answers = String::from_utf8(answers).unwrap();
        let [passed, own] = answers.lines().collect::<Vec<_>>()[..] else { panic!("{answers}") };
        let [passed, own]: [Value; 2] = [passed, own].map(|it| serde_json::from_str(it).unwrap());
        assert_eq!(passed["payload"]["code"], "UNAUTHORIZED", "{passed}");
        assert_eq!(own["type"], "WELCOME", "{own}");
    });
}

/// Runs a script that becomes another user, with the endpoint and a HELLO as its arguments. Returns
/// what it prints, or `None` if it cannot become another user.
fn other_user(sandbox: &Sandbox, script: &str) -> Option<Vec<u8>> {
    let endpoint = sandbox.endpoint().as_text().to_owned();
    let mut open = sandbox.program("chmod");
    open.args(["a+rwx", sandbox.directory().to_str().unwrap(), &endpoint]);
    assert!(output(open).status.success());
    let mut other_user = sandbox.program("python3");
    other_user.args(["-c", script, &endpoint, &hello(json!({"agent": "Ann"})).to_string()]);
    let answer = output(other_user);
    if answer.status.code() == Some(77) {
        not_tried("only root can become another user");
        return None;
    }
    assert!(answer.status.success(), "{answer:?}");
    Some(answer.stdout)
}

/// The other user is refused even if the mode of the socket allows the connection.
#[test]
fn another_user_is_refused() {
    with_bystander(|sandbox| {
        let Some(answer) = other_user(sandbox, OTHER_USER) else { return };
        let error: Value = serde_json::from_slice(&answer).expect("one frame, and the end");
        assert_eq!((&error["type"], &error["payload"]["fatal"]), (&json!("ERROR"), &json!(true)));
        assert_eq!(error["payload"]["code"], "UNAUTHORIZED");
        assert!(error["payload"]["message"].as_str().unwrap().contains("65534"), "{error}");
    });
}

#[test]
fn welcome_states_granted_capabilities() {
    with_bystander(|sandbox| {
        let mut raw = sandbox.connect();
        let welcome = raw.hello("Ann");
        assert!(welcome["session_id"].as_str().unwrap().starts_with("s-"));
        let token = welcome["resume_token"].as_str().unwrap();
        assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
        assert_ne!(
            sandbox.connect().hello("Bob")["resume_token"],
            token,
            "each client has its own token"
        );
        assert_eq!(welcome["agent"], "Ann");
        assert_eq!(
            welcome["capabilities"],
            json!({"ack": true, "resume": false, "max_inflight": 256, "supports_topics": true})
        );
        assert_eq!(welcome["server"]["protocol"], "1.1");
        assert_eq!(welcome["server"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(welcome["server"]["max_frame_bytes"], 1024 * 1024);
        assert_eq!(welcome["server"]["resume_window_ms"], 600_000);
        assert_eq!(welcome["server"]["queue_max_messages"], 10_000);
    });
    let mut without_config = Sandbox::empty();
    without_config.start();
    assert_eq!(without_config.connect().hello("Ann")["server"]["heartbeat_ms"], 5000);
}

#[test]
fn deliver_states_the_proof_of_its_sender() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    let join_as = |agent: Value| {
        let mut client = sandbox.connect();
        client.send_json(&hello(agent));
        let welcome = client.expect("WELCOME")["payload"].take();
        (client, welcome)
    };
    let mut expect_proof = |client: &mut Raw, welcome: &Value, auth: &str| {
        client.send("Ann", "hello", json!({}));
        let sender = &ann.expect("DELIVER")["delivery"]["sender"];
        assert_eq!(*sender, json!({"session": welcome["session_id"], "auth": auth}));
    };
    let bob = |token: Option<&Value>| json!({"agent": "Bob", "session": session(token)});
    let (mut client, welcome) = join_as(bob(None));
    expect_proof(&mut client, &welcome, "claim");
    client.hang_up();
    let (mut client, resumed) = join_as(bob(Some(&welcome["resume_token"])));
    assert_eq!(resumed["session_id"], welcome["session_id"]);
    expect_proof(&mut client, &resumed, "token");
    let (mut client, welcome) = join_as(json!({"mode": "guest"}));
    expect_proof(&mut client, &welcome, "guest");
}

#[test]
fn silent_connection_is_closed_before_the_handshake() {
    let sandbox = Sandbox::with_config("handshake_timeout_ms = 100\n");
    let mut raw = sandbox.connect();
    raw.expect_code("ERROR", "HANDSHAKE_TIMEOUT");
    raw.expect_end();
}

#[test]
fn silent_client_is_pinged_and_closed() {
    let sandbox = Sandbox::with_config("heartbeat_ms = 100\n");
    let mut raw = sandbox.join("Ann");
    raw.answers_pings = false;
    let ping = raw.expect("PING");
    assert!(!ping["payload"]["nonce"].as_str().unwrap().is_empty());
    raw.expect_code("ERROR", "HEARTBEAT_TIMEOUT");
    raw.expect_end();
}

#[test]
fn frame_may_arrive_in_single_bytes() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        for byte in frame(r#"{"v":1,"type":"SEND","id":"m","ts":1,"to":"Ann","payload":{}}"#) {
            ann.send_bytes(&[byte]);
        }
        ann.expect("DELIVER");
    });
}

#[test]
fn partial_frames_are_bounded_over_all_connections() {
    let sandbox = Sandbox::with_config("memory_max_bytes = 16777216\n");
    let mut bystander = sandbox.join("Bystander");
    let mut half = 1_000_000_u32.to_be_bytes().to_vec();
    half.resize(900_000, b' ');
    let mut greedy: Vec<Raw> = (0..16).map(|_| sandbox.connect()).collect();
    for raw in &mut greedy {
        raw.try_send_bytes(&half);
    }
    let refused = greedy.iter_mut().filter_map(|raw| {
        raw.try_send_bytes(&[b' '; 1_000_000 + 4 - 900_000]);
        let mut error = raw.receive()?;
        Some(error["payload"]["code"].take())
    });
    let refused: Vec<_> = refused.collect();
    assert!(refused.iter().any(|code| code == "TOO_MANY_CLIENTS"), "{refused:?}");
    assert!(refused.iter().any(|code| code == "BAD_FRAME"), "{refused:?}");
    bystander.send("Bystander", "still here", json!({}));
    bystander.expect("DELIVER");
}

#[test]
fn bye_ends_the_connection() {
    with_bystander(|sandbox| {
        let mut ann = sandbox.join("Ann");
        ann.send_json(
            &json!({"v": 1, "type": "BYE", "id": "b", "ts": 1, "payload": {"reason": "done"}}),
        );
        ann.expect_end();
    });
}
