//! Tests of the client library with a scripted daemon, over connections in memory.

mod clients;

use super::*;
use protocol::{
    code::ErrorCode,
    deliver::{self, Proof, RecipientText, SenderText},
    envelope::{Envelope, Header, Kind},
    frame::Batch,
    payload::{
        Ack, Busy, Capabilities, ErrorPayload, Heartbeat, MessagePayload, Server, THREAD_BYTES_MAX,
    },
};
use std::{borrow::Cow, io};

/// The timeout of a wait for one event, so that a test does not hang.
const WATCHDOG: Duration = Duration::from_secs(300);

/// A daemon whose messages a test scripts.
struct Daemon {
    connection: Connection,
    unread: Vec<Vec<u8>>,
}

impl Daemon {
    /// Receives the client's next envelope: its id, recipient and payload.
    #[track_caller]
    fn receive(&mut self, kind: Kind) -> (String, Option<String>, serde_json::Value) {
        while self.unread.is_empty() {
            let batch =
                self.connection.incoming.recv_timeout(WATCHDOG).expect("the client sends a frame");
            self.unread = batch.frames().map(<[u8]>::to_vec).collect();
        }
        let json = self.unread.remove(0);
        let envelope = Envelope::read(&json).unwrap();
        assert_eq!(envelope.kind, kind, "{}", String::from_utf8_lossy(&json));
        let to = envelope.to.as_deref().map(str::to_owned);
        (envelope.id.into_owned(), to, serde_json::from_str(envelope.payload).unwrap())
    }

    fn say(&self, kind: Kind, payload: &impl serde::Serialize) {
        let mut bytes = Vec::new();
        Header::new(kind, "x", 1).append(&mut bytes, payload);
        self.say_bytes(bytes);
    }

    fn say_bytes(&self, bytes: Vec<u8>) {
        self.connection.outgoing.send_timeout(Batch::of(bytes), WATCHDOG).unwrap();
    }

    fn deliver(&self, id: &str, from: &str, body: &str, reply_to: Option<&str>) {
        self.say_bytes(Self::delivered(id, from, body, reply_to));
    }

    fn delivered(id: &str, from: &str, body: &str, reply_to: Option<&str>) -> Vec<u8> {
        let (mut shared, mut bytes) = (Vec::new(), Vec::new());
        let payload = MessagePayload {
            kind: "message".into(),
            body: body.into(),
            ..MessagePayload::default()
        };
        let payload = serde_json::to_string(&payload).unwrap();
        let meta = reply_to.map(|id| format!(r#"{{"replyTo":"{id}"}}"#));
        deliver::append_shared(&mut shared, from, None, &payload, meta.as_deref());
        let head = deliver::Head {
            id,
            ts: 1,
            to: &RecipientText::new("Ann", "s-1"),
            seq: 1,
            attempt: 1,
            requires_ack: reply_to.is_none(),
            to_everyone: false,
            sender: &SenderText::new("s-2", Proof::Claim),
        };
        head.append(&mut bytes, shared.len());
        bytes.extend_from_slice(&shared);
        bytes
    }

    fn accept(&self, id: &str) {
        let ack =
            Ack { ack_id: Cow::Borrowed(id), state: Some("accepted".into()), ..Ack::default() };
        self.say(Kind::Ack, &ack);
    }

    fn handshake(&mut self) {
        self.receive(Kind::Hello);
        self.welcome(None);
    }

    fn welcome(&self, channels_max: Option<u64>) {
        let server = Server {
            max_frame_bytes: 1 << 20,
            heartbeat_ms: 5000,
            protocol: "1.1".to_owned(),
            version: "0".to_owned(),
            resume_window_ms: 0,
            queue_max_messages: 0,
            channels_max,
        };
        let welcome = Welcome {
            session_id: "s-1".to_owned(),
            resume_token: "t".to_owned(),
            agent: "Ann".to_owned(),
            capabilities: Capabilities::default(),
            server,
        };
        self.say(Kind::Welcome, &welcome);
    }
}

/// A client that is joining, and the daemons that accept its connections.
fn joining() -> (JoinHandle<Result<Client, ClientError>>, Receiver<Daemon>) {
    let (sender, daemons) = bounded(16);
    let connect = move || {
        let (ours, theirs) = Connection::memory();
        let daemon = Daemon { connection: theirs, unread: Vec::new() };
        let nobody = |_| io::Error::new(io::ErrorKind::NotFound, "nobody there");
        sender.send(daemon).map_err(nobody)?;
        Ok(ours)
    };
    let settings = Settings::agent("memory", "Ann");
    (thread::spawn(move || Client::over(settings, Box::new(connect))), daemons)
}

fn joined() -> (Client, Daemon, Receiver<Daemon>) {
    let (joining, daemons) = joining();
    let mut daemon = daemons.recv_timeout(WATCHDOG).unwrap();
    daemon.handshake();
    (joining.join().unwrap().unwrap(), daemon, daemons)
}

#[track_caller]
fn next(client: &Client) -> Event {
    client.events().recv_timeout(WATCHDOG).expect("an event comes")
}

#[test]
fn earlier_events_are_passed_on_before_an_answer() {
    let (client, mut daemon, _daemons) = joined();
    while client.events().try_recv().is_ok() {}
    for round in 0..500 {
        thread::scope(|scope| {
            let message = Outgoing { to: Some("Bob".to_owned()), ..Outgoing::default() };
            let sent = client.send(message).unwrap();
            let asking = scope.spawn(|| {
                client.request(RequestName::Status, None).unwrap();
                client.events().try_recv().expect("the refusal came before the answer")
            });
            daemon.receive(Kind::Send);
            let (question, ..) = daemon.receive(Kind::Send);
            let mut together = Vec::new();
            let nack = Nack::new(sent.0.as_str(), NackCode::AgentOffline, "Bob is away");
            Header::new(Kind::Nack, "x", 1).append(&mut together, &nack);
            together.extend(Daemon::delivered(&format!("d{round}"), "@relay", "", Some(&question)));
            daemon.say_bytes(together);
            let heard = asking.join().unwrap();
            assert!(matches!(heard, Event::Refused { send_id, .. } if send_id == sent));
        });
    }
}

#[test]
fn failed_join_returns_the_daemons_error() {
    let (client, mut daemon, _daemons) = joined();
    assert_eq!((client.name(), client.welcome().session_id.as_str()), ("Ann", "s-1"));
    let closing = thread::spawn(move || client.close());
    daemon.receive(Kind::Bye);
    drop(daemon);
    closing.join().unwrap();
}

#[test]
fn absent_daemon_and_refusal_are_different_errors() {
    let nobody = || Err(io::Error::new(io::ErrorKind::NotFound, "nobody there"));
    let error = Client::over(Settings::agent("memory", "Ann"), Box::new(nobody)).unwrap_err();
    assert!(matches!(&error, ClientError::NoDaemon { endpoint, .. } if endpoint == "memory"));

    let (joining, daemons) = joining();
    let mut daemon = daemons.recv_timeout(WATCHDOG).unwrap();
    daemon.receive(Kind::Hello);
    let fault = ErrorPayload {
        code: ErrorCode::NameInUse.as_str().to_owned(),
        fatal: true,
        message: "Ann is here already".to_owned(),
        reference: None,
    };
    daemon.say(Kind::Error, &fault);
    let error = joining.join().unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Ended(ended) if ended.has_code(ErrorCode::NameInUse)));
}

#[test]
fn message_survives_the_loss_of_its_connection() {
    let (client, mut daemon, daemons) = joined();
    let send_id = client.send(Outgoing::message("Bob", "hi")).unwrap();
    let (first, to, payload) = daemon.receive(Kind::Send);
    assert_eq!((first.as_str(), to.as_deref()), (send_id.0.as_str(), Some("Bob")));
    assert_eq!(payload, serde_json::json!({"kind": "message", "body": "hi"}));
    drop(daemon);
    assert!(matches!(next(&client), Event::State(ConnectionState::Backoff { .. })));
    let mut daemon = daemons.recv_timeout(WATCHDOG).unwrap();
    daemon.handshake();
    assert_eq!(daemon.receive(Kind::Send).0, send_id.0);
    daemon.accept(&send_id.0);
    loop {
        match next(&client) {
            Event::Accepted { send_id: accepted, .. } => {
                assert_eq!(accepted, send_id);
                break;
            }
            Event::State(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn deliveries_are_acknowledged_and_returned() {
    let (client, mut daemon, _daemons) = joined();
    daemon.say(Kind::Ping, &Heartbeat { nonce: "n".to_owned() });
    assert_eq!(daemon.receive(Kind::Pong).2, serde_json::json!({"nonce": "n"}));
    for id in ["d1", "d2"] {
        daemon.deliver(id, "Bob", "hello", None);
        let Event::Delivered(delivery) = next(&client) else { panic!("a delivery comes") };
        assert_eq!((delivery.id.as_str(), &*delivery.body), (id, "hello"));
        assert!(delivery.json().contains(r#""payload":{"kind":"message","body":"hello"}"#));
    }
    client.acknowledge("d1");
    assert_eq!(daemon.receive(Kind::Ack).2, serde_json::json!({"ack_id": "d1", "seq": 1}));
    client.return_delivery("d2", NackCode::Refused, "not now", Some(50));
    assert_eq!(daemon.receive(Kind::Nack).2["retry_after_ms"], 50);
}

#[test]
fn request_gets_its_own_answer_only() {
    let (client, mut daemon, _daemons) = joined();
    let client = Arc::new(client);
    let asking = Arc::clone(&client);
    let asking = thread::spawn(move || asking.request(RequestName::Status, None));
    let (id, to, payload) = daemon.receive(Kind::Send);
    assert_eq!((to.as_deref(), &payload["kind"]), (Some("@relay"), &"request".into()));
    daemon.deliver("d1", "@relay", "for somebody else", Some("other"));
    daemon.deliver("d2", "@relay", "fine", Some(&id));
    assert_eq!(asking.join().unwrap().unwrap().body, "fine");
    assert!(matches!(next(&client), Event::Delivered(delivery) if delivery.id == "d1"));
}

#[test]
fn subscribing_waits_for_the_answer() {
    let (client, mut daemon, _daemons) = joined();
    let subscribing = thread::spawn(move || client.subscribe("a..b").map(|()| client));
    let id = daemon.receive(Kind::Subscribe).0;
    daemon.say(Kind::Nack, &Nack::new(id, NackCode::Invalid, "an empty token"));
    let error = subscribing.join().unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Refused(nack) if nack.code == "INVALID"));
}

#[test]
fn concurrent_subscriptions_to_a_pattern_are_all_answered() {
    let (client, mut daemon, _daemons) = joined();
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| client.subscribe("build")));
        let ids = [(); 2].map(|()| daemon.receive(Kind::Subscribe).0);
        for id in &ids {
            daemon.say(Kind::Ack, &Ack { ack_id: Cow::Borrowed(id), ..Ack::default() });
        }
        for one in both {
            assert_eq!(one.join().unwrap(), Ok(()));
        }
    });
}

#[test]
fn messages_over_the_quota_are_refused_until_some_are_accepted() {
    let (client, mut daemon, _daemons) = joined();
    let mut ids = Vec::new();
    let error = loop {
        match client.send(Outgoing::message("Bob", "x".repeat(100_000))) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Full { .. }), "{error}");
    assert!((100..200).contains(&ids.len()), "{}", ids.len());
    for id in &ids {
        assert_eq!(daemon.receive(Kind::Send).0, id.0);
        daemon.accept(&id.0);
        assert!(matches!(next(&client), Event::Accepted { .. }));
    }
    client.send(Outgoing::message("Bob", "x")).unwrap();
}

/// The daemon does not check `thread`, so the client does.
#[test]
fn message_with_a_too_long_thread_is_not_sent() {
    let (client, mut daemon, _daemons) = joined();
    let labelled = |bytes: usize| Outgoing {
        thread: Some("t".repeat(bytes)),
        ..Outgoing::message("Bob", "x")
    };
    let refused = client.send(labelled(THREAD_BYTES_MAX + 1)).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(nack) if nack.code == "INVALID"));
    let refused = client.ask(labelled(THREAD_BYTES_MAX + 1), WATCHDOG).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(nack) if nack.code == "INVALID"));
    let longest = client.send(labelled(THREAD_BYTES_MAX)).unwrap();
    assert_eq!(daemon.receive(Kind::Send).0, longest.0);
}

#[test]
fn message_to_a_busy_recipient_is_retransmitted() {
    let (client, mut daemon, _daemons) = joined();
    let id = client.send(Outgoing::message("Bob", "x")).unwrap().0;
    for _ in 0..3 {
        assert_eq!(daemon.receive(Kind::Send).0, id);
        let busy = Busy { ack_id: id.clone(), retry_after_ms: 5, ..Busy::default() };
        daemon.say(Kind::Busy, &busy);
        assert!(matches!(next(&client), Event::Busy { send_id, .. } if send_id.0 == id));
    }
    assert_eq!(daemon.receive(Kind::Send).0, id);
    daemon.accept(&id);
    assert!(matches!(next(&client), Event::Accepted { .. }));
}

#[test]
fn unread_events_pause_reading_and_are_not_lost() {
    let (client, daemon, _daemons) = joined();
    let body = "x".repeat(20_000);
    let (sender, said) = bounded(1);
    thread::spawn(move || {
        for number in 0..1200 {
            daemon.deliver(&format!("d{number}"), "Bob", &body, None);
        }
        sender.send(daemon).unwrap();
    });
    for number in 0..1200 {
        let Event::Delivered(delivery) = next(&client) else { panic!("a delivery comes") };
        assert_eq!(delivery.id, format!("d{number}"));
        // The client's buffers and channels together hold fewer than a thousand of these
        // deliveries.
        assert!(number > 100 || said.is_empty(), "the daemon waits for the application");
    }
    said.recv_timeout(WATCHDOG).unwrap();
}

#[test]
fn dropping_a_client_of_an_unresponsive_daemon_ends() {
    let (client, daemon, _daemons) = joined();
    let (done, ended) = bounded(1);
    thread::spawn(move || {
        drop(client);
        done.send(()).unwrap();
    });
    ended.recv_timeout(WATCHDOG).unwrap();
    drop(daemon);
}

#[test]
fn question_survives_the_loss_of_its_connection() {
    let (client, mut daemon, daemons) = joined();
    let client = Arc::new(client);
    let asking = Arc::clone(&client);
    let question = Outgoing::message("Bob", "Which port?");
    let asking = thread::spawn(move || asking.ask(question, WATCHDOG));
    let (id, ..) = daemon.receive(Kind::Send);
    daemon.accept(&id);
    drop(daemon);
    let mut daemon = daemons.recv_timeout(WATCHDOG).unwrap();
    daemon.handshake();
    let answer = Ack {
        ack_id: Cow::Borrowed(&id),
        correlation_id: Some("c".to_owned()),
        response: Some(false),
        ..Ack::default()
    };
    daemon.say(Kind::Ack, &answer);
    assert_eq!(asking.join().unwrap().unwrap().response, Some(false));
    while let Ok(event) = client.events().try_recv() {
        assert!(matches!(event, Event::State(_)), "the rest is for who asked: {event:?}");
    }
}

#[test]
fn question_needs_one_recipient_and_reports_its_refusal() {
    let (client, mut daemon, _daemons) = joined();
    let refused = client.ask(Outgoing::message("*", "Anybody?"), WATCHDOG).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(nack) if nack.code == "INVALID"));
    thread::scope(|scope| {
        let asking = scope.spawn(|| client.ask(Outgoing::message("Bob", "Well?"), WATCHDOG));
        let (id, ..) = daemon.receive(Kind::Send);
        daemon.say(Kind::Nack, &Nack::new(id, NackCode::SyncTimeout, "no word from Bob"));
        let error = asking.join().unwrap().unwrap_err();
        assert!(matches!(error, ClientError::Refused(nack) if nack.code == "SYNC_TIMEOUT"));
    });
}
