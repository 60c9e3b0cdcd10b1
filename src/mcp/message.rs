//! Messages of JSON-RPC 2.0: lines from the client, and lines to it.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json, value::RawValue};
use std::borrow::Cow;

/// The longest text of an id. A longer one belongs to no known client.
const ID_BYTES_MAX: usize = 256;

/// The code of a line that is not JSON.
pub(super) const PARSE_ERROR: i64 = -32_700;
/// The code for a line that is not a message.
pub(super) const INVALID_REQUEST: i64 = -32_600;
/// The code for a request with an unknown method.
pub(super) const METHOD_NOT_FOUND: i64 = -32_601;
/// The code of a request with wrong parameters.
pub(super) const INVALID_PARAMS: i64 = -32_602;
/// The code of a request in a revision that is not supported.
pub(super) const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32_022;

/// The id of a request: a whole number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    /// Reads an id, or a token of a request, which has the same form.
    pub(super) fn read(json: &RawValue) -> Option<Self> {
        let json = json.get();
        if json.len() > ID_BYTES_MAX {
            return None;
        }
        let number = serde_json::from_str(json).map(Self::Number);
        number.or_else(|_| serde_json::from_str(json).map(Self::Text)).ok()
    }
}

/// A line of the client.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        params: &'a str,
    },
    Notification {
        method: Cow<'a, str>,
        params: &'a str,
    },
    /// A response, or a line without a message, which gets no answer.
    Nothing,
    /// A line that is not a valid message.
    Invalid(Error),
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Decodes a member of any kind, also `null`.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(json: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(json).map(Some)
}

/// Reads a line of the client.
pub(super) fn read(line: &[u8]) -> Incoming<'_> {
    let Ok(line) = str::from_utf8(line) else {
        return Incoming::Invalid(Error::new(PARSE_ERROR, "the line is not UTF-8"));
    };
    let message: Message<'_> = match line.trim_ascii() {
        "" => return Incoming::Nothing,
        line if line.starts_with('[') => {
            let why = "a line has one message: batches are not accepted";
            return Incoming::Invalid(Error::new(INVALID_REQUEST, why));
        }
        line if line.starts_with('{') => match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) if error.is_data() => {
                let why = format!("the line is not a message: {error}");
                return Incoming::Invalid(Error::new(INVALID_REQUEST, why));
            }
            Err(error) => return not_json(&error.to_string()),
        },
        _ => return not_json("expected an object"),
    };
    message.classify()
}

fn not_json(why: &str) -> Incoming<'static> {
    Incoming::Invalid(Error::new(PARSE_ERROR, format!("the line is not JSON: {why}")))
}

impl<'a> Message<'a> {
    fn classify(self) -> Incoming<'a> {
        let id = self.id.map(Id::read);
        let invalid = |why| {
            let id = id.clone().flatten();
            Incoming::Invalid(Error { id, ..Error::new(INVALID_REQUEST, why) })
        };
        if self.jsonrpc.as_deref() != Some("2.0") {
            return invalid("`jsonrpc` is not \"2.0\"");
        }
        let is_response = self.result.is_some() || self.error.is_some();
        let Some(method) = self.method else {
            return if is_response { Incoming::Nothing } else { invalid("there is no `method`") };
        };
        let params = self.params.map_or("{}", RawValue::get);
        match id {
            None => Incoming::Notification { method, params },
            Some(None) => invalid("`id` is neither a string nor a whole number, or too long"),
            Some(Some(id)) if params.starts_with('{') => Incoming::Request { id, method, params },
            Some(id) => {
                let error = Error::new(INVALID_PARAMS, "`params` is not an object");
                Incoming::Invalid(Error { id, ..error })
            }
        }
    }
}

/// The refusal of a line.
#[derive(Debug)]
pub(super) struct Error {
    /// The id of the request, if it could be read.
    pub(super) id: Option<Id>,
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl Error {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { id: None, code, message: message.into(), data: None }
    }

    /// Returns the line that tells the client.
    pub(super) fn line(self) -> String {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        let mut line = json!({"jsonrpc": "2.0", "error": error});
        if let Some(id) = self.id {
            line["id"] = json!(id);
        }
        line.to_string()
    }
}

/// Returns the line with the result of a request.
pub(super) fn result_line(id: &Id, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Returns the line with a notification.
pub(super) fn notification_line(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes a line.
    fn kind(line: &[u8]) -> String {
        match read(line) {
            Incoming::Request { id, method, params } => format!("{} {method} {params}", json!(id)),
            Incoming::Notification { method, params } => format!("{method} {params}"),
            Incoming::Nothing => "nothing".to_owned(),
            Incoming::Invalid(error) => format!("{} {}", error.code, json!(error.id)),
        }
    }

    #[test]
    fn line_is_one_message() {
        for (line, expected) in [
            (r#" {"jsonrpc":"2.0","id":1,"method":"a","params":{"b":2}} "#, r#"1 a {"b":2}"#),
            (r#"{"id":"x","method":"a","jsonrpc":"2.0","new":[1]}"#, r#""x" a {}"#),
            (r#"{"jsonrpc":"2.0","id":-7,"method":"a","params":null}"#, "-7 a {}"),
            (r#"{"jsonrpc":"2.0","method":"a"}"#, "a {}"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "nothing"),
            (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, "nothing"),
            ("", "nothing"),
            ("\r", "nothing"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#, "-32602 1"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":[],"method":"a"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, "-32600 1"),
            (r#"{"id":1,"method":"a"}"#, "-32600 1"),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "-32600 null"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 null"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, "-32600 null"),
            ("[]", "-32600 null"),
            ("7", "-32700 null"),
            ("{", "-32700 null"),
            ("null", "-32700 null"),
        ] {
            assert_eq!(kind(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(kind(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"), "-32700 null");
    }

    #[test]
    fn deep_json_and_long_ids_are_read_or_refused() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{deep}}}}}"#);
        assert!(kind(line.as_bytes()).starts_with("1 a {"));
        let line = format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"a"}}"#);
        assert_eq!(kind(line.as_bytes()), "-32600 null");
        let long = "x".repeat(ID_BYTES_MAX);
        let line = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"a"}}"#);
        assert_eq!(kind(line.as_bytes()), "-32600 null");
    }

    #[test]
    fn error_without_a_known_id_has_none() {
        let error = Error::new(PARSE_ERROR, "a\nb");
        assert_eq!(error.line(), r#"{"error":{"code":-32700,"message":"a\nb"},"jsonrpc":"2.0"}"#);
    }
}
