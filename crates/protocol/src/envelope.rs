//! Envelopes: the JSON object in a frame, read without copying and written without a tree of
//! values.

use super::{
    VERSION,
    code::{ErrorCode, Violation},
    frame,
    json::{self, NotJson, Scanner, unquoted},
    text::Quoted,
    typed,
    wire_enum::wire_enum,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The greatest depth of nested objects and arrays; the envelope itself counts as 1.
pub const DEPTH_MAX: usize = json::DEPTH_MAX as usize;

/// The longest `id`, in bytes.
pub const ID_BYTES_MAX: usize = 128;

wire_enum! {
    /// An envelope's `type`: its meaning, and for each side that sends it the members besides `v`,
    /// `type`, `id`, `ts` and `payload` itself, and what answers it. `?` marks optional members.
    /// docs/PROTOCOL.md has these comments as a table.
    Kind {
        /// A client introduces itself.
        ///
        /// - From a client: payload: `agent`, `capabilities`?, `mode`?, `session.resume_token`?,
        ///   `auth.key`?, `companion_key`?, `guest_key`? Answered by WELCOME; ERROR.
        Hello = "HELLO",
        /// The daemon confirms the session.
        ///
        /// - From the daemon: payload: `session_id`, `resume_token`, `agent`, `capabilities`,
        ///   `server`.
        Welcome = "WELCOME",
        /// A client sends a message.
        ///
        /// - From a client: `to`?, `topic`?, `from`?, `payload_meta`?; payload: any object, by
        ///   custom `kind`, `body`, `data`?, `thread`? Answered by ACK `accepted` with
        ///   `requires_ack`; NACK; BUSY; a DELIVER from `@relay`.
        Send = "SEND",
        /// The daemon delivers a message.
        ///
        /// - From the daemon: `from`, `to`, `topic`?, `payload_meta`?, `delivery`; payload: the
        ///   sender's. Answered by ACK or NACK with `delivery.requires_ack`.
        Deliver = "DELIVER",
        /// A message was accepted, or a delivery acknowledged.
        ///
        /// - From the daemon: `from`?; payload: `ack_id`, `state`?, `durability`?, `recipients`?,
        ///   `away`?, `correlationId`?, `response`?, `responseData`?
        /// - From a client: payload: `ack_id`, `seq`?, `cumulative_seq`?, `correlationId`?,
        ///   `response`?, `responseData`? Answered by NACK if its answer is refused.
        Ack = "ACK",
        /// A message was refused, or a delivery returned.
        ///
        /// - From the daemon: payload: `ack_id`, `code`, `message`, `to`?, `correlationId`?
        /// - From a client: payload: `ack_id`, `code`?, `message`?, `retry_after_ms`?
        Nack = "NACK",
        /// A request for a sign of life.
        ///
        /// - From the daemon: payload: `nonce`. Answered by PONG, or any other frame.
        Ping = "PING",
        /// The answer to a PING.
        ///
        /// - From a client: payload: `nonce`.
        Pong = "PONG",
        /// A rule was violated.
        ///
        /// - From the daemon: payload: `code`, `fatal`, `message`, `ref`?
        Error = "ERROR",
        /// The recipient's queue is full; the message can be sent again later.
        ///
        /// - From the daemon: payload: `ack_id`, `retry_after_ms`, `queue_depth`, `busy`? Answered
        ///   by the same SEND again, later.
        Busy = "BUSY",
        /// A client resumes its session.
        ///
        /// - From a client: payload: `session_id`?, `agent`?, `resume_token`?, `streams`? Answered
        ///   by SYNC, after WELCOME if it is the first frame; ERROR; NACK.
        Resume = "RESUME",
        /// The daemon states the numbers of the session's streams.
        ///
        /// - From the daemon: payload: `session_id`, `streams`.
        Sync = "SYNC",
        /// The connection is being closed.
        ///
        /// - From both: payload: `reason`?, `retry_after_ms`? Answered by the end of the
        ///   connection.
        Bye = "BYE",
        /// A client subscribes to a pattern.
        ///
        /// - From a client: `topic`. Answered by ACK; NACK.
        Subscribe = "SUBSCRIBE",
        /// A client ends a subscription.
        ///
        /// - From a client: `topic`. Answered by ACK; NACK.
        Unsubscribe = "UNSUBSCRIBE",
    }
}

/// An envelope, borrowed from its frame. Raw members are JSON text, byte for byte.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// The envelope's type.
    pub kind: Kind,
    /// The envelope's id, unique for its sender; 1 to [`ID_BYTES_MAX`] bytes.
    pub id: Cow<'a, str>,
    /// The sender's name, as the daemon states it; a client's statement is ignored.
    pub from: Option<Cow<'a, str>>,
    /// The recipient's name.
    pub to: Option<Cow<'a, str>>,
    /// The topic.
    pub topic: Option<Cow<'a, str>>,
    /// The payload, an object.
    pub payload: &'a str,
    /// The payload's meta data, an object.
    pub payload_meta: Option<&'a str>,
    /// The object that the daemon adds to a DELIVER.
    pub delivery: Option<&'a str>,
    /// The whole envelope.
    pub json: &'a str,
}

impl<'a> Envelope<'a> {
    /// Reads and checks a frame's JSON.
    pub fn read(json: &'a [u8]) -> Result<Self, Violation> {
        let text = std::str::from_utf8(json)
            .map_err(|_| Violation::new(ErrorCode::BadFrame, "the frame is not UTF-8"))?;
        Self::read_usual(text).map_or_else(|| Self::read_any(text), Ok)
    }

    /// Reads an envelope in any form.
    fn read_any(text: &'a str) -> Result<Self, Violation> {
        let bad = |why: &str| Violation::new(ErrorCode::BadFrame, why);
        if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(bad("the frame is not a JSON object"));
        }
        let mut members = Members::default();
        let outcome = json::members(text, |key, value| members.set(key, value));
        match outcome {
            Ok(()) => members.check(text),
            // Too much depth takes precedence over errors of the grammar.
            Err(_) if depth(text.as_bytes()) > DEPTH_MAX => {
                let why = format!("objects and arrays nest more than {DEPTH_MAX} deep");
                Err(members.invalid(why))
            }
            Err(NotJson { at, expected }) => {
                Err(bad(&format!("the frame is not JSON: {expected} expected at byte {at}")))
            }
        }
    }

    /// Reads an envelope as most programs write it: without white space around the members, in the
    /// order of the specification, and without escapes in their strings. Returns `None` for all
    /// others, valid or not.
    fn read_usual(text: &'a str) -> Option<Self> {
        let mut scanner = Scanner::new(text);
        scanner.literal("{\"v\":1,\"type\":\"")?;
        let kind = Kind::parse(scanner.rest_of_string()?)?;
        scanner.literal(",\"id\":\"")?;
        let id = scanner.rest_of_string()?;
        scanner.literal(",\"ts\":")?;
        scanner.number()?;
        let mut string = |key| match scanner.literal(key) {
            Some(()) => scanner.rest_of_string().map(|text| Some(Cow::Borrowed(text))),
            None => Some(None),
        };
        let from = string(",\"from\":\"")?;
        let to = string(",\"to\":\"")?;
        let topic = string(",\"topic\":\"")?;
        scanner.literal(",\"payload\":")?;
        let payload = scanner.object()?;
        let payload_meta = match scanner.literal(",\"payload_meta\":") {
            Some(()) => Some(scanner.object()?),
            None => None,
        };
        scanner.literal("}")?;
        let is_right = scanner.is_done() && !id.is_empty() && id.len() <= ID_BYTES_MAX;
        let (id, delivery, json) = (Cow::Borrowed(id), None, text);
        let envelope = Self { kind, id, from, to, topic, payload, payload_meta, delivery, json };
        is_right.then_some(envelope)
    }

    /// Decodes a raw member. A mismatch is a violation `INVALID` that refers to this envelope.
    pub fn decode_member<T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, Violation> {
        typed::read(json)
            .map_err(|why| self.violation(ErrorCode::Invalid, format!("{}: {why}", self.kind)))
    }

    /// A violation that refers to this envelope.
    #[must_use]
    pub fn violation(&self, code: ErrorCode, message: impl Into<String>) -> Violation {
        let reference = Some(self.id.clone().into_owned());
        Violation { reference, ..Violation::new(code, message) }
    }
}

/// Returns the type that a frame's JSON states, even if the rest of the envelope is invalid.
#[must_use]
pub fn stated_kind(json: &[u8]) -> Option<Kind> {
    let mut members = Members::default();
    let text = std::str::from_utf8(json).ok()?;
    // Other errors are ignored: the caller has checked the envelope.
    let _ = json::members(text, |key, value| members.set(key, value));
    members.kind.and_then(unquoted).and_then(|kind| Kind::parse(&kind))
}

/// The members of an envelope before its payload, for writing.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The envelope's type.
    pub kind: Kind,
    /// The envelope's id.
    pub id: &'a str,
    /// The sender's time, in milliseconds since 1970.
    pub ts: u64,
    /// The sender's name.
    pub from: Option<&'a str>,
    /// The recipient's name.
    pub to: Option<&'a str>,
    /// The topic.
    pub topic: Option<&'a str>,
}

impl<'a> Header<'a> {
    /// A header without `from`, `to` and `topic`.
    #[must_use]
    pub const fn new(kind: Kind, id: &'a str, ts: u64) -> Self {
        Self { kind, id, ts, from: None, to: None, topic: None }
    }

    /// Appends the whole frame.
    pub fn append(&self, bytes: &mut Vec<u8>, payload: &impl Serialize) {
        frame::append(bytes, |json| self.append_envelope(json, payload));
    }

    /// Appends the envelope alone, without a frame's length.
    pub fn append_envelope(&self, json: &mut Vec<u8>, payload: &impl Serialize) {
        self.append_members(json);
        json.extend_from_slice(b",\"payload\":");
        append_json(json, payload);
        json.push(b'}');
    }

    /// Appends the whole frame with further members that are JSON text.
    pub fn append_raw<'m>(
        &self,
        bytes: &mut Vec<u8>,
        members: impl IntoIterator<Item = (&'m str, &'m str)>,
    ) {
        frame::append(bytes, |json| self.append_raw_envelope(json, members));
    }

    /// Appends the envelope alone with further members that are JSON text.
    pub fn append_raw_envelope<'m>(
        &self,
        json: &mut Vec<u8>,
        members: impl IntoIterator<Item = (&'m str, &'m str)>,
    ) {
        self.append_members(json);
        for (name, raw) in members {
            json.extend_from_slice(b",\"");
            json.extend_from_slice(name.as_bytes());
            json.extend_from_slice(b"\":");
            json.extend_from_slice(raw.as_bytes());
        }
        json.push(b'}');
    }

    fn append_members(&self, json: &mut Vec<u8>) {
        json.extend_from_slice(b"{\"v\":1,\"type\":\"");
        json.extend_from_slice(self.kind.as_str().as_bytes());
        json.extend_from_slice(b"\",\"id\":");
        append_json(json, &self.id);
        json.extend_from_slice(b",\"ts\":");
        append_json(json, &self.ts);
        for (name, value) in [("from", self.from), ("to", self.to), ("topic", self.topic)] {
            if let Some(value) = value {
                json.extend_from_slice(b",\"");
                json.extend_from_slice(name.as_bytes());
                json.extend_from_slice(b"\":");
                append_json(json, &value);
            }
        }
    }
}

/// Appends a value as JSON.
///
/// # Panics
/// If the value cannot be JSON (a map whose keys are not strings); no wire type is such.
pub(crate) fn append_json(json: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(json, value).expect("wire types are JSON and a Vec takes every byte");
}

/// The known members as text, which are checked once all are found.
#[derive(Default)]
struct Members<'a> {
    version: Option<&'a str>,
    kind: Option<&'a str>,
    id: Option<&'a str>,
    ts: Option<&'a str>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    topic: Option<&'a str>,
    payload: Option<&'a str>,
    payload_meta: Option<&'a str>,
    delivery: Option<&'a str>,
    twice: Option<&'static str>,
}

impl<'a> Members<'a> {
    fn set(&mut self, key: &str, value: &'a str) {
        // A key with escapes may still be a known key.
        if !self.set_plain(key, value)
            && key.contains('\\')
            && let Ok(key) = serde_json::from_str::<String>(&format!("\"{key}\""))
        {
            self.set_plain(&key, value);
        }
    }

    /// Sets the member with this key, without unescaping the key. Returns false if the key is
    /// unknown.
    fn set_plain(&mut self, key: &str, value: &'a str) -> bool {
        let (member, name) = match key {
            "v" => (&mut self.version, "v"),
            "type" => (&mut self.kind, "type"),
            "id" => (&mut self.id, "id"),
            "ts" => (&mut self.ts, "ts"),
            "from" => (&mut self.from, "from"),
            "to" => (&mut self.to, "to"),
            "topic" => (&mut self.topic, "topic"),
            "payload" => (&mut self.payload, "payload"),
            "payload_meta" => (&mut self.payload_meta, "payload_meta"),
            "delivery" => (&mut self.delivery, "delivery"),
            _ => return false,
        };
        if member.replace(value).is_some() && self.twice != Some("v") {
            // A duplicate `v` takes precedence over all others.
            self.twice = Some(name);
        }
        true
    }

    fn check(self, json: &'a str) -> Result<Envelope<'a>, Violation> {
        self.check_version()?;
        if let Some(name) = self.twice {
            return Err(self.invalid(format!("`{name}` is given twice")));
        }
        let kind = self.required("type", self.kind)?;
        let kind = unquoted(kind).ok_or_else(|| self.invalid("`type` is not a string"))?;
        let kind = Kind::parse(&kind)
            .ok_or_else(|| self.invalid(format!("`type` {} is not known", Quoted(&kind))))?;
        let id = self.required("id", self.id)?;
        let id = unquoted(id).ok_or_else(|| self.invalid("`id` is not a string"))?;
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return Err(self.invalid(format!("`id` has 1 to {ID_BYTES_MAX} bytes")));
        }
        if !is_number(self.required("ts", self.ts)?) {
            return Err(self.invalid("`ts` is not a number"));
        }
        Ok(Envelope {
            kind,
            id,
            from: self.string("from", self.from)?,
            to: self.string("to", self.to)?,
            topic: self.string("topic", self.topic)?,
            payload: self.required("payload", self.object("payload", self.payload)?)?,
            payload_meta: self.object("payload_meta", self.payload_meta)?,
            delivery: self.object("delivery", self.delivery)?,
            json,
        })
    }

    /// Checks the version, which comes first since all other rules depend on it.
    fn check_version(&self) -> Result<(), Violation> {
        let version = self.required("v", self.version)?;
        // If there are two versions, neither counts.
        if self.twice == Some("v") {
            return Err(self.invalid("`v` is given twice"));
        }
        if version == "1" || version.parse() == Ok(VERSION as f64) {
            return Ok(());
        }
        if !is_number(version) {
            return Err(self.invalid("`v` is not a number"));
        }
        Err(Violation {
            code: ErrorCode::UnsupportedVersion,
            message: format!("`v` is {version:.20}; this daemon speaks {VERSION}"),
            reference: self.reference(),
        })
    }

    fn required(&self, name: &str, member: Option<&'a str>) -> Result<&'a str, Violation> {
        member.ok_or_else(|| self.invalid(format!("the envelope has no `{name}`")))
    }

    fn string(
        &self,
        name: &str,
        member: Option<&'a str>,
    ) -> Result<Option<Cow<'a, str>>, Violation> {
        let text = member.map(|member| {
            unquoted(member).ok_or_else(|| self.invalid(format!("`{name}` is not a string")))
        });
        text.transpose()
    }

    fn object(&self, name: &str, member: Option<&'a str>) -> Result<Option<&'a str>, Violation> {
        match member {
            Some(member) if !member.starts_with('{') => {
                Err(self.invalid(format!("`{name}` is not an object")))
            }
            _ => Ok(member),
        }
    }

    fn invalid(&self, message: impl Into<String>) -> Violation {
        let (code, message) = (ErrorCode::Invalid, message.into());
        Violation { code, message, reference: self.reference() }
    }

    /// Returns the envelope's id, if it can be read.
    fn reference(&self) -> Option<String> {
        let id = unquoted(self.id?)?;
        (!id.is_empty() && id.len() <= ID_BYTES_MAX).then(|| id.into_owned())
    }
}

fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        r#"{"v":1,"type":"SEND","id":"m-001","ts":1,"to":"Bob","payload":{"body":"x"}}"#;

    fn read(json: &str) -> Result<Envelope<'_>, Violation> {
        Envelope::read(json.as_bytes())
    }

    #[track_caller]
    fn violates(json: &str, code: ErrorCode, reference: Option<&str>) {
        let violation = read(json).expect_err(json);
        assert_eq!((violation.code, violation.reference.as_deref()), (code, reference), "{json}");
    }

    #[test]
    fn long_type_is_cut_in_the_message() {
        let json =
            format!(r#"{{"v":1,"type":"{}","id":"i","ts":1,"payload":{{}}}}"#, "X".repeat(9_999));
        let violation = Envelope::read(json.as_bytes()).unwrap_err();
        assert!(violation.message.len() < 200, "{}", violation.message);
    }

    #[test]
    fn envelope_is_borrowed_from_its_frame() {
        let envelope = read(GOOD).unwrap();
        assert_eq!(envelope.kind, Kind::Send);
        assert!(matches!(envelope.id, Cow::Borrowed("m-001")));
        assert!(matches!(envelope.to, Some(Cow::Borrowed("Bob"))));
        assert_eq!(envelope.payload, r#"{"body":"x"}"#);
    }

    /// Compares the two readers. The first one may decline, but must not read otherwise.
    fn readers_agree(json: &str) -> bool {
        let usual = Envelope::read_usual(json).map(|envelope| format!("{envelope:?}"));
        let any = Envelope::read_any(json).map(|envelope| format!("{envelope:?}"));
        assert!(usual.is_none() || usual == any.clone().ok(), "{json}: {usual:?}, {any:?}");
        usual.is_some()
    }

    #[test]
    fn usual_forms_are_read_at_once() {
        assert!(readers_agree(GOOD));
        for head in ["", r#""from":"a","#, r#""to":"b","#, r#""from":"é","to":"b","topic":"c","#] {
            for rest in ["{}", r#"{"a":[{"b":"\\"}]}"#, r#"{},"payload_meta":{"ttl_ms":1}"#] {
                let json = format!(
                    r#"{{"v":1,"type":"ACK","id":"i","ts":-1.5e3,{head}"payload":{rest}}}"#
                );
                assert!(readers_agree(&json), "{json}");
            }
        }
    }

    #[test]
    fn readers_agree_on_damaged_envelopes() {
        let full = GOOD
            .replace("}}", r#"},"payload_meta":{"a":"b"}}"#)
            .replace("\"to\"", "\"from\":\"x\",\"to\"");
        for text in [&full, GOOD] {
            for at in 0..=text.len() {
                readers_agree(&text[..at]);
                for other in [
                    "",
                    "\"",
                    "\\",
                    " ",
                    "\n",
                    "{",
                    "}",
                    "[",
                    ",",
                    ":",
                    "0",
                    "é",
                    "\u{1}",
                    "\"id\":\"j\",",
                ] {
                    readers_agree(&format!("{}{other}{}", &text[..at], &text[at..]));
                    if let Some(rest) = text.get(at + 1..) {
                        readers_agree(&format!("{}{other}{rest}", &text[..at]));
                    }
                }
            }
        }
        let long = GOOD.replace("m-001", &"i".repeat(129));
        assert!(!readers_agree(&long) && !readers_agree(&GOOD.replace("m-001", "")));
        let nested = |depth: usize| {
            GOOD.replace("\"x\"", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
        };
        assert!(readers_agree(&nested(126)) && !readers_agree(&nested(127)));
    }

    #[test]
    fn raw_members_keep_every_byte() {
        let payload =
            r#"{ "n" : 1234567890123456789012345, "a":1,"a":2, "s":"\u00e9\ud800" , "e":1e999}"#;
        let json =
            format!(r#" {{"payload": {payload} ,"ts":-1.5e3,"id":"i","type":"SEND","v":1}} "#);
        assert_eq!(read(&json).unwrap().payload, payload);
    }

    #[test]
    fn header_strings_may_hold_escapes() {
        let envelope = read(r#"{"v":1,"type":"SEND","id":"i","ts":1,"to":"A\u0042","payload":{}}"#);
        assert_eq!(envelope.unwrap().to.unwrap(), "AB");
        let key = r#"{"v":1,"t\u0079pe":"PONG","id":"i","ts":1,"payload":{}}"#;
        assert_eq!(read(key).unwrap().kind, Kind::Pong);
    }

    #[test]
    fn frame_that_is_not_a_json_object_is_a_bad_frame() {
        for json in
            ["x", "[]", "null", "\"a\"", "", " ", "{", "{}x", "{} {}", "{\"a\":}", "{\"a\":1,}"]
        {
            violates(json, ErrorCode::BadFrame, None);
        }
        let utf8 = Envelope::read(b"{\"v\":1,\"x\":\"\xff\"}").unwrap_err();
        assert_eq!(utf8.code, ErrorCode::BadFrame);
        violates(&GOOD.replace("}}", "}} x"), ErrorCode::BadFrame, None);
        violates(&GOOD.replace("\"body\"", "body"), ErrorCode::BadFrame, None);
    }

    #[test]
    fn other_versions_are_unsupported() {
        violates(&GOOD.replace("\"v\":1", "\"v\":2"), ErrorCode::UnsupportedVersion, Some("m-001"));
        violates(
            &GOOD.replace("\"v\":1", "\"v\":1.5"),
            ErrorCode::UnsupportedVersion,
            Some("m-001"),
        );
        violates(r#"{"v":99}"#, ErrorCode::UnsupportedVersion, None);
        assert!(read(&GOOD.replace("\"v\":1", "\"v\":1.0")).is_ok());
    }

    #[test]
    fn version_is_checked_first_and_must_be_unique() {
        for rest in [r#""id":"x","id":"x""#, r#""type":7,"id":"x""#, r#""type":"SHOUT","id":"x""#] {
            let json = format!(r#"{{"v":2,{rest}}}"#);
            violates(&json, ErrorCode::UnsupportedVersion, Some("x"));
        }
        for versions in [r#""v":1,"v":2"#, r#""v":2,"v":1"#, r#""v":2,"id":"x","v":2"#] {
            violates(
                &format!(r#"{{{versions},"ts":1,"ts":1,"id":"x"}}"#),
                ErrorCode::Invalid,
                Some("x"),
            );
        }
    }

    #[test]
    fn missing_or_mistyped_member_is_invalid_with_the_id() {
        for (from, to) in [
            ("\"v\":1,", ""),
            ("\"type\":\"SEND\",", ""),
            ("\"ts\":1,", ""),
            ("SEND", "send"),
            ("\"v\":1", "\"v\":\"1\""),
            ("\"ts\":1", "\"ts\":\"1\""),
            ("\"to\":\"Bob\"", "\"to\":null"),
            ("\"to\":\"Bob\"", "\"to\":7"),
            ("\"to\":\"Bob\"", "\"to\":\"\\ud800\""),
            ("{\"body\":\"x\"}", "[]"),
            ("{\"body\":\"x\"}", "null"),
            ("\"ts\":1", "\"ts\":1,\"payload_meta\":1"),
            ("\"ts\":1", "\"ts\":1,\"delivery\":[]"),
            ("\"ts\":1", "\"ts\":1,\"ts\":1"),
            ("\"to\":\"Bob\"", "\"to\":\"Bob\",\"to\":\"Bob\""),
        ] {
            violates(&GOOD.replace(from, to), ErrorCode::Invalid, Some("m-001"));
        }
        violates(
            &GOOD.replace(",\"payload\":{\"body\":\"x\"}", ""),
            ErrorCode::Invalid,
            Some("m-001"),
        );
        violates(&GOOD.replace("\"id\":\"m-001\",", ""), ErrorCode::Invalid, None);
        violates(&GOOD.replace("m-001", ""), ErrorCode::Invalid, None);
        violates(&GOOD.replace("m-001", &"i".repeat(129)), ErrorCode::Invalid, None);
        assert!(read(&GOOD.replace("m-001", &"i".repeat(128))).is_ok());
    }

    #[test]
    fn depth_is_checked_after_the_first_character_and_before_the_grammar() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let json = |inner: String| GOOD.replace("\"x\"", &inner);
        assert!(read(&json(nested(126))).is_ok(), "128 with envelope and payload");
        violates(&json(nested(127)), ErrorCode::Invalid, Some("m-001"));
        violates(&json("[".repeat(100_000)), ErrorCode::Invalid, Some("m-001"));
        let head = r#""v":1,"type":"PONG","id":"late","ts":1"#;
        let late = format!(r#"{{"payload":{{"d":{}}},{head}}}"#, nested(1000));
        violates(&late, ErrorCode::Invalid, Some("late"));
        violates(&nested(1000), ErrorCode::BadFrame, None);
        assert!(read(&json(format!("\"{}\"", "[".repeat(500)))).is_ok(), "in a string");
        let wide = format!("[{}]", vec!["{}"; 300].join(","));
        assert!(read(&json(wide)).is_ok(), "wide is not deep");
    }

    #[test]
    fn written_envelopes_read_back() {
        let mut bytes = Vec::new();
        let header =
            Header { to: Some("B\"ob"), topic: Some("t"), ..Header::new(Kind::Bye, "i", 7) };
        header.append(&mut bytes, &serde_json::json!({"reason": "stop"}));
        header.append_raw(&mut bytes, [("payload", "{ }"), ("delivery", "{\"seq\":1}")]);
        let first = 4 + u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        let envelope = Envelope::read(&bytes[4..first]).unwrap();
        assert_eq!((envelope.kind, envelope.to.as_deref()), (Kind::Bye, Some("B\"ob")));
        assert_eq!(envelope.payload, r#"{"reason":"stop"}"#);
        let envelope = Envelope::read(&bytes[first + 4..]).unwrap();
        assert_eq!((envelope.payload, envelope.delivery), ("{ }", Some("{\"seq\":1}")));
    }

    #[test]
    fn type_is_found_in_an_invalid_envelope() {
        assert_eq!(stated_kind(br#"{"v":"x","type":"HELLO","id":7}"#), Some(Kind::Hello));
        assert_eq!(stated_kind(br#"{"v":1,"type":"hello"}"#), None);
        assert_eq!(stated_kind(br#"{"v":1,"id":"i"}"#), None);
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let json = format!(r#"{{"payload":{{"d":{deep}}},"type":"HELLO"}}"#);
        assert_eq!(stated_kind(json.as_bytes()), Some(Kind::Hello));
    }

    #[test]
    fn every_type_reads_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(*kind));
        }
    }
}
