//! The part of HTTP/1.1 that the CLIs' clients need: requests with a body, answers whole or as
//! server-sent events.

use serde_json::Value;
use std::io::{self, BufRead, Read, Write};

/// The maximum sizes of a request's head and body. A larger request is an error.
const HEAD_BYTES_MAX: u64 = 1 << 16;
const BODY_BYTES_MAX: u64 = 1 << 26;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// The target without its query.
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; `None` at its end.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = from.take(HEAD_BYTES_MAX);
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(broken("a request line without method or target"));
        };
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let mut request = Self { method: method.to_owned(), path, body: Vec::new() };
        let (mut length, mut chunked) = (0, false);
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Err(broken("a request that ends in its head"));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| broken("a length"))?,
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "content-encoding" => return Err(broken("a compressed body")),
                _ => {}
            }
        }
        let from = head.into_inner();
        request.body = if chunked { read_chunks(from)? } else { read_exactly(from, length)? };
        Ok(Some(request))
    }

    /// The body as JSON, or null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn read_exactly(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if length > BODY_BYTES_MAX || from.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(broken("a body too long or too short"));
    }
    Ok(body)
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        from.take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let size = line.trim_end().split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size, 16).map_err(|_| broken("a chunk's size"))?;
        if body.len() as u64 + size > BODY_BYTES_MAX {
            return Err(broken("a body too long"));
        }
        body.extend(read_exactly(from, size)?);
        let mut end = String::new();
        from.take(HEAD_BYTES_MAX).read_line(&mut end)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the request has {what}"))
}

/// Answers with one JSON value.
pub(super) fn answer(to: &mut impl Write, status: &str, value: &Value) -> io::Result<()> {
    let body = value.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    to.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// An answer as server-sent events, each sent at once.
pub(super) struct Events<'a, W: Write>(&'a mut W);

impl<'a, W: Write> Events<'a, W> {
    pub(super) fn begin(to: &'a mut W) -> io::Result<Self> {
        to.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )?;
        Ok(Self(to))
    }

    /// Sends an event, with the type that its data names, if any. Unicode line and paragraph
    /// separators are escaped, as real services do, since some readers end a line at them.
    pub(super) fn send(&mut self, value: &Value) -> io::Result<()> {
        let name = value["type"].as_str().map(|name| format!("event: {name}\n"));
        let data = value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let event = format!("{}data: {data}\n\n", name.unwrap_or_default());
        write!(self.0, "{:x}\r\n{event}\r\n", event.len())
    }

    /// Sends the last event of Chat Completions, `[DONE]`.
    pub(super) fn send_done(&mut self) -> io::Result<()> {
        self.0.write_all(b"e\r\ndata: [DONE]\n\n\r\n")
    }

    pub(super) fn end(self) -> io::Result<()> {
        self.0.write_all(b"0\r\n\r\n")
    }
}
