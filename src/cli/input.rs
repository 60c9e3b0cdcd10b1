//! What a command reads: a file that was named, or standard input.

use super::Failure;
use crate::config::text;
use std::{
    fs::File,
    io::{self, Read},
};

/// Reads all of it; no path and `-` are standard input. More than `bytes_max` is refused.
pub(super) fn read(path: Option<&str>, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let source: Box<dyn Read> = match named(path) {
        Some(path) => Box::new(
            File::open(path).map_err(|error| Failure::failed(format!("open {path}: {error}")))?,
        ),
        None => Box::new(io::stdin()),
    };
    read_from(name(path), source, bytes_max)
}

/// The same for what is to be said.
pub(super) fn read_text(path: Option<&str>, bytes_max: u64) -> Result<String, Failure> {
    text::body(read(path, bytes_max)?).map_err(|why| {
        let name = name(path);
        Failure::failed(format!(
            "{name} can't be sent, since {why}: `agent-relay help send` says how shells give a text"
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
    fn what_is_too_long_is_refused_and_not_cut() {
        assert_eq!(read_from("x", &b"1234"[..], 4), Ok(b"1234".to_vec()));
        let words = "x is over 4 bytes: give less";
        assert_eq!(read_from("x", &b"12345"[..], 4), Err(Failure::failed(words)));
    }
}
