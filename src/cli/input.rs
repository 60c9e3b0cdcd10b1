//! Input of a command: a file, or standard input.

use super::{failure::Failure, print::eprint_question};
use client::home::text;
use platform::tty::{Standard, is_terminal};
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
        let hint = "`agent-relay help send` shows how to give a text";
        Failure::failed(format!("{name} is not sent, since {why}")).hint(hint)
    })
}

/// Asks the person at the terminal a question with the default yes. Returns whether the answer is
/// yes.
pub(super) fn agrees(question: &str) -> Result<bool, Failure> {
    eprint_question(format_args!("{question} [Y/n]"));
    let mut answer = String::new();
    let length = io::stdin().read_line(&mut answer).map_err(Failure::because)?;
    Ok(length > 0 && matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

/// Asks the person at the terminal a question. Any other answer than yes fails with the sentence
/// `refused`.
pub(super) fn confirm(question: &str, refused: &str) -> Result<(), Failure> {
    if !is_terminal(Standard::Input) || !is_terminal(Standard::Error) {
        return Err(Failure::usage("there is no terminal to ask at").hint("give --yes"));
    }
    eprint_question(format_args!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::because)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::failed(refused)),
    }
}

fn read_from(name: &str, source: impl Read, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::failed(format!("read {name}: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::failed(format!("{name} is over {bytes_max} bytes")));
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
        let message = "x is over 4 bytes";
        assert_eq!(read_from("x", &b"12345"[..], 4), Err(Failure::failed(message)));
    }
}
