//! Envelopes: the JSON object in a frame, read without copying and written without a tree.

use super::{
    VERSION,
    code::{ErrorCode, Violation},
    frame,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, cell::Cell, fmt};

/// How deep objects and arrays may nest; the envelope itself counts as 1.
pub const DEPTH_MAX: usize = 128;

/// The longest `id`, in bytes.
pub const ID_BYTES_MAX: usize = 128;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// An envelope's `type`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $variant,)* }

        impl Kind {
            /// All fifteen.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The type as it stands on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The type that `text` spells.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

kinds! {
    /// A client introduces itself.
    Hello = "HELLO",
    /// The daemon confirms the session.
    Welcome = "WELCOME",
    /// A client says something.
    Send = "SEND",
    /// The daemon passes it on.
    Deliver = "DELIVER",
    /// Taken, or arrived.
    Ack = "ACK",
    /// Not taken, or given back.
    Nack = "NACK",
    /// Are you there?
    Ping = "PING",
    /// I am.
    Pong = "PONG",
    /// A rule was broken.
    Error = "ERROR",
    /// Not now; later.
    Busy = "BUSY",
    /// A client comes back.
    Resume = "RESUME",
    /// Where its streams stand.
    Sync = "SYNC",
    /// Somebody leaves.
    Bye = "BYE",
    /// A client wants a topic.
    Subscribe = "SUBSCRIBE",
    /// A client is done with a topic.
    Unsubscribe = "UNSUBSCRIBE",
}

/// An envelope as it lies in its frame. Raw members are JSON text, byte for byte.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// Its type.
    pub kind: Kind,
    /// Unique for its sender; 1 to [`ID_BYTES_MAX`] bytes.
    pub id: Cow<'a, str>,
    /// Who says it; only the daemon's word counts.
    pub from: Option<Cow<'a, str>>,
    /// For whom.
    pub to: Option<Cow<'a, str>>,
    /// On which topic.
    pub topic: Option<Cow<'a, str>>,
    /// An object.
    pub payload: &'a str,
    /// An object.
    pub payload_meta: Option<&'a str>,
    /// An object: what the daemon adds to a DELIVER.
    pub delivery: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    /// Judges a frame's JSON.
    pub fn read(json: &'a [u8]) -> Result<Self, Violation> {
        let bad = |why: &str| Violation::new(ErrorCode::BadFrame, why);
        let text = std::str::from_utf8(json).map_err(|_| bad("the frame is not UTF-8"))?;
        match json.iter().find(|byte| !b" \t\r\n".contains(byte)) {
            Some(b'{') => {}
            _ => return Err(bad("the frame is not a JSON object")),
        }
        if is_too_deep(json) {
            return Err(invalid(
                text,
                format!("objects and arrays nest more than {DEPTH_MAX} deep"),
            ));
        }
        match serde_json::from_str::<Members<'a>>(text) {
            Ok(members) => members.judge(text),
            Err(error) => Err(explain(text, &error)),
        }
    }

    /// Types a raw member. What doesn't fit is `INVALID`, naming this envelope.
    pub fn typed<T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, Violation> {
        serde_json::from_str(json).map_err(|error| Violation {
            code: ErrorCode::Invalid,
            message: format!("{}: {}", self.kind.as_str(), sentence(&error)),
            reference: Some(self.id.clone().into_owned()),
        })
    }
}

/// The type that a frame's JSON states, however wrong the rest of the envelope is.
#[must_use]
pub fn stated_kind(json: &[u8]) -> Option<Kind> {
    #[derive(Deserialize)]
    struct Stated<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    // Whatever is wrong with it was judged before.
    serde_json::from_slice::<Stated<'_>>(json).ok().and_then(|stated| Kind::parse(&stated.kind))
}

/// What an envelope says before its payload, to be written.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// Its type.
    pub kind: Kind,
    /// Its id.
    pub id: &'a str,
    /// The writer's clock, in milliseconds since 1970.
    pub ts: u64,
    /// Who says it.
    pub from: Option<&'a str>,
    /// For whom.
    pub to: Option<&'a str>,
    /// On which topic.
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
        frame::append(bytes, |json| {
            self.append_members(json);
            json.extend_from_slice(b",\"payload\":");
            append_json(json, payload);
            json.push(b'}');
        });
    }

    /// Appends the whole frame around members that are JSON text already.
    pub fn append_raw(&self, bytes: &mut Vec<u8>, members: &[(&str, &str)]) {
        frame::append(bytes, |json| {
            self.append_members(json);
            for (name, raw) in members {
                json.extend_from_slice(b",\"");
                json.extend_from_slice(name.as_bytes());
                json.extend_from_slice(b"\":");
                json.extend_from_slice(raw.as_bytes());
            }
            json.push(b'}');
        });
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
/// If the value can't be JSON (a map whose keys aren't strings); no wire type is such.
pub fn append_json(json: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(json, value).expect("wire types are JSON and a Vec takes every byte");
}

/// The members that mean something, as they stand; what is missing is judged afterwards.
#[derive(Default)]
struct Members<'a> {
    version: Option<&'a str>,
    kind: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    ts: Option<&'a str>,
    from: Option<Cow<'a, str>>,
    to: Option<Cow<'a, str>>,
    topic: Option<Cow<'a, str>>,
    payload: Option<&'a str>,
    payload_meta: Option<&'a str>,
    delivery: Option<&'a str>,
}

impl<'a> Members<'a> {
    fn judge(self, text: &str) -> Result<Envelope<'a>, Violation> {
        let missing = |name: &str| invalid(text, format!("the envelope has no `{name}`"));
        let version = self.version.ok_or_else(|| missing("v"))?;
        is_number(version).then_some(()).ok_or_else(|| invalid(text, "`v` is not a number"))?;
        if version != "1" && version.parse() != Ok(VERSION as f64) {
            return Err(Violation {
                code: ErrorCode::UnsupportedVersion,
                message: format!("`v` is {version:.20}; this daemon speaks {VERSION}"),
                reference: self.id.map(Cow::into_owned),
            });
        }
        let kind = self.kind.ok_or_else(|| missing("type"))?;
        let kind = Kind::parse(&kind)
            .ok_or_else(|| invalid(text, format!("`type` {kind:.40?} is not known")))?;
        let id = self.id.ok_or_else(|| missing("id"))?;
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return Err(invalid(text, format!("`id` has 1 to {ID_BYTES_MAX} bytes")));
        }
        let ts = self.ts.ok_or_else(|| missing("ts"))?;
        is_number(ts).then_some(()).ok_or_else(|| invalid(text, "`ts` is not a number"))?;
        let payload = self.payload.ok_or_else(|| missing("payload"))?;
        let objects = [
            ("payload", Some(payload)),
            ("payload_meta", self.payload_meta),
            ("delivery", self.delivery),
        ];
        for (name, raw) in objects {
            if raw.is_some_and(|raw| !raw.starts_with('{')) {
                return Err(invalid(text, format!("`{name}` is not an object")));
            }
        }
        let Self { from, to, topic, payload_meta, delivery, .. } = self;
        Ok(Envelope { kind, id, from, to, topic, payload, payload_meta, delivery })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "v" => set(&mut members.version, "v", || raw(&mut map))?,
                "type" => set(&mut members.kind, "type", || string(&mut map))?,
                "id" => set(&mut members.id, "id", || string(&mut map))?,
                "ts" => set(&mut members.ts, "ts", || raw(&mut map))?,
                "from" => set(&mut members.from, "from", || string(&mut map))?,
                "to" => set(&mut members.to, "to", || string(&mut map))?,
                "topic" => set(&mut members.topic, "topic", || string(&mut map))?,
                "payload" => set(&mut members.payload, "payload", || raw(&mut map))?,
                "payload_meta" => set(&mut members.payload_meta, "payload_meta", || raw(&mut map))?,
                "delivery" => set(&mut members.delivery, "delivery", || raw(&mut map))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(members)
    }
}

fn set<T, E: Error>(
    member: &mut Option<T>,
    name: &str,
    read: impl FnOnce() -> Result<T, E>,
) -> Result<(), E> {
    if member.is_some() {
        return Err(E::custom(format_args!("`{name}` is given twice")));
    }
    *member = Some(read()?);
    Ok(())
}

fn raw<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de str, A::Error> {
    map.next_value::<&'de RawValue>().map(RawValue::get)
}

fn string<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Cow<'de, str>, A::Error> {
    map.next_value::<Text<'de>>().map(|Text(text)| text)
}

/// A string that is borrowed where it has no escapes, and owned where it has.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

/// Whether something nests deeper than [`DEPTH_MAX`]. Only a frame with that many openers is walked.
fn is_too_deep(json: &[u8]) -> bool {
    openers(json) > DEPTH_MAX && depth(json) > DEPTH_MAX
}

/// Counts `{` and `[`, which differ in one bit; in pieces whose count fits a byte, which is what makes
/// it many at a time.
fn openers(json: &[u8]) -> usize {
    let count =
        |piece: &[u8]| piece.iter().fold(0_u8, |count, byte| count + u8::from(byte | 0x20 == b'{'));
    json.chunks(u8::MAX as usize).map(|piece| usize::from(count(piece))).sum()
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

/// Tells bad grammar from a bad envelope: reading stops at the first of either.
fn explain(text: &str, error: &serde_json::Error) -> Violation {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => invalid(text, sentence(error)),
        Err(grammar) => {
            Violation::new(ErrorCode::BadFrame, format!("the frame is not JSON: {grammar}"))
        }
    }
}

/// serde_json's own words, without a place that means nothing to the peer.
fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words).to_owned()
}

fn invalid(text: &str, message: impl Into<String>) -> Violation {
    Violation { code: ErrorCode::Invalid, message: message.into(), reference: find_id(text) }
}

/// The envelope's id, if it stands before what can't be read.
fn find_id(text: &str) -> Option<String> {
    let found = Cell::new(None);
    let mut json = serde_json::Deserializer::from_str(text);
    // What is wrong with the rest was judged already; only the id is of interest.
    drop(FindId(&found).deserialize(&mut json));
    found.take().filter(|id: &String| !id.is_empty() && id.len() <= ID_BYTES_MAX)
}

struct FindId<'c>(&'c Cell<Option<String>>);

impl<'de> DeserializeSeed<'de> for FindId<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FindId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            if key == "id" {
                let id = string(&mut map)?;
                self.0.set(Some(id.into_owned()));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
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
    fn an_envelope_is_borrowed_from_its_frame() {
        let envelope = read(GOOD).unwrap();
        assert_eq!(envelope.kind, Kind::Send);
        assert!(matches!(envelope.id, Cow::Borrowed("m-001")));
        assert!(matches!(envelope.to, Some(Cow::Borrowed("Bob"))));
        assert_eq!(envelope.payload, r#"{"body":"x"}"#);
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
    fn what_is_not_a_json_object_is_a_bad_frame() {
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
    fn another_version_is_told_so() {
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
    fn a_member_missing_or_of_the_wrong_kind_is_invalid_and_names_the_id() {
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
    fn depth_is_judged_after_the_first_character_and_before_the_grammar() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let json = |inner: String| GOOD.replace("\"x\"", &inner);
        assert!(read(&json(nested(126))).is_ok(), "128 with envelope and payload");
        violates(&json(nested(127)), ErrorCode::Invalid, Some("m-001"));
        violates(&json("[".repeat(100_000)), ErrorCode::Invalid, Some("m-001"));
        violates(&nested(1000), ErrorCode::BadFrame, None);
        assert!(read(&json(format!("\"{}\"", "[".repeat(500)))).is_ok(), "in a string");
        let wide = format!("[{}]", vec!["{}"; 300].join(","));
        assert!(read(&json(wide)).is_ok(), "wide is not deep");
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut bytes = Vec::new();
        let header =
            Header { to: Some("B\"ob"), topic: Some("t"), ..Header::new(Kind::Bye, "i", 7) };
        header.append(&mut bytes, &serde_json::json!({"reason": "stop"}));
        header.append_raw(&mut bytes, &[("payload", "{ }"), ("delivery", "{\"seq\":1}")]);
        let first = 4 + u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        let envelope = Envelope::read(&bytes[4..first]).unwrap();
        assert_eq!((envelope.kind, envelope.to.as_deref()), (Kind::Bye, Some("B\"ob")));
        assert_eq!(envelope.payload, r#"{"reason":"stop"}"#);
        let envelope = Envelope::read(&bytes[first + 4..]).unwrap();
        assert_eq!((envelope.payload, envelope.delivery), ("{ }", Some("{\"seq\":1}")));
    }

    #[test]
    fn a_type_is_found_in_a_wrong_envelope() {
        assert_eq!(stated_kind(br#"{"v":"x","type":"HELLO","id":7}"#), Some(Kind::Hello));
        assert_eq!(stated_kind(br#"{"v":1,"type":"hello"}"#), None);
        assert_eq!(stated_kind(br#"{"v":1,"id":"i"}"#), None);
    }

    #[test]
    fn all_fifteen_types_read_back() {
        assert_eq!(Kind::ALL.len(), 15);
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(*kind));
        }
    }
}
