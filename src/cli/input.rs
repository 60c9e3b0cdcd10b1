//! Input of a command: a file, or standard input.

use super::failure::Failure;
use crate::config::text;
use std::{
    fs::File,
    io::{self, Read},
};

/// Reads a whole file, or standard input for no path and for `-`. Fails above `bytes_max`.
pub(super) fn read(path: Option<&str>, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let source: Box<dyn Read> = match named(path) {
        Some(path) => Box::new(
            File::open(path).map_err(|error| Failure::failed(format!("open {path}: {error}")))?,
        ),
        None => Box::new(io::stdin()),
    };
    read_from(name(path), source, bytes_max)
}

/// Reads a message's text, as [`read`] does.
pub(super) fn read_text(path: Option<&str>, bytes_max: u64) -> Result<String, Failure> {
    text::body(read(path, bytes_max)?).map_err(|why| {
        let name = name(path);
        Failure::failed(format!(
            "{name} is not sent, since {why}: `agent-relay help send` shows how to give a text"
        ))
    })
}

fn read_from(name: &str, source: impl Read, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::failed(format!("read {name}: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::failed(format!("{name} is over {bytes_max} bytes: give less")));
    }
    Ok(bytes)
}

fn named(path: Option<&str>) -> Option<&str> {
    path.filter(|path| *path != "-")
}

fn name(path: Option<&str>) -> &str {
    named(path).unwrap_or("standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_input_is_refused_and_not_cut() {
        assert_eq!(read_from("x", &b"1234"[..], 4), Ok(b"1234".to_vec()));
        let message = "x is over 4 bytes: give less";
        assert_eq!(read_from("x", &b"12345"[..], 4), Err(Failure::failed(message)));
    }
}
