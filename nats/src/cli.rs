//! The command line.

mod join;
mod setup;

use crate::link::Credentials;
use argh::FromArgs;
use client::home::HomeError;
use protocol::calendar::utc;
use std::{
    ffi::OsString,
    io::{self, Write},
    net::IpAddr,
    path::PathBuf,
};

/// Exit code: done.
pub const DONE: i32 = 0;
/// Exit code: failed.
pub const FAILED: i32 = 1;
/// Exit code: the command line is wrong.
pub const USAGE: i32 = 2;

/// The end of the program before it is done: an exit code and a sentence.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    fn of_home(error: HomeError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Runs the program with its arguments, without its own name. Returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    match try_run(arguments) {
        Ok(()) => DONE,
        // The last message of a bridge is a line of its log, too.
        Err(Failure { code: FAILED, message }) => {
            log(&message);
            FAILED
        }
        Err(Failure { code, message }) => {
            line(&message);
            code
        }
    }
}

fn try_run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let arguments = arguments.into_iter().map(|argument| {
        argument.into_string().map_err(|argument| {
            Failure::usage(format!("the argument {} is not Unicode", argument.display()))
        })
    });
    let arguments: Vec<_> = arguments.collect::<Result<_, _>>()?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["setup", rest @ ..] => {
            parsed::<setup::Setup>(&["agent-relay-nats", "setup"], rest, setup::Setup::run)
        }
        ["--version"] => out(&format!("agent-relay-nats {}", env!("CARGO_PKG_VERSION"))),
        all => parsed::<join::Join>(&["agent-relay-nats"], all, join::Join::run),
    }
}

/// Parses a command line and runs it.
fn parsed<T: FromArgs>(
    command: &[&str],
    arguments: &[&str],
    run: impl FnOnce(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match T::from_args(command, arguments) {
        Ok(parsed) => run(parsed),
        Err(argh::EarlyExit { output, status: Ok(()) }) => out(output.trim_end()),
        Err(argh::EarlyExit { output, status: Err(()) }) => Err(Failure::usage(format!(
            "{}; run `{} --help`",
            output.trim_end().replace('\n', " "),
            command.join(" ")
        ))),
    }
}

fn out(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(|error| Failure::failed(error.to_string()))
}

/// Prints a line of a running bridge, with the time.
fn log(text: &str) {
    line(&format!("{} {text}", utc(platform::clock::unix_ms())));
}

/// Prints a line for a person on standard error.
fn line(text: &str) {
    // If standard error is closed, no other way to report is left.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Reads the options that say where NATS is, and how to log in.
fn servers(
    urls: &[String],
    credentials: Option<PathBuf>,
    authorities: Vec<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<crate::link::Servers, Failure> {
    let urls: Vec<String> =
        urls.iter().flat_map(|urls| urls.split(',')).map(str::to_owned).collect();
    if urls.is_empty() {
        return Err(Failure::usage("no server is named; add --server nats://HOST:PORT"));
    }
    for url in &urls {
        if url.contains('@') {
            let why = "a server's URL must not hold credentials, which other users could see";
            return Err(Failure::usage(format!(
                "{why}; put them into a file and use --creds FILE"
            )));
        }
        if !["nats://", "tls://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Failure::usage(format!(
                "{url:?} is not a server; use nats://HOST:PORT or tls://HOST:PORT"
            )));
        }
    }
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(Failure::usage("use --tls-cert and --tls-key together")),
    };
    let unreadable =
        |path: &PathBuf, error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    for file in authorities.iter().chain(certificate.iter().flat_map(|(cert, key)| [cert, key])) {
        std::fs::File::open(file).map_err(|error| unreadable(file, error))?;
    }
    if let Some(path) = &credentials
        && let Credentials::Password(..) =
            Credentials::read(path).map_err(|error| unreadable(path, error))?
        && let Some(url) = urls.iter().find(|url| is_in_clear(url))
    {
        line(&format!("the password is sent to {url} as it is; use tls:// if others can read it"));
    }
    Ok(crate::link::Servers { urls, credentials, authorities, certificate })
}

/// Whether traffic to a server leaves this machine without encryption.
fn is_in_clear(url: &str) -> bool {
    let Some(server) = url.strip_prefix("nats://") else { return false };
    let host = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => server.split(':').next().unwrap_or(server),
    };
    host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A runtime for the threads of one process: NATS needs no more than one.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the system has no threads or files: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(arguments: &[&str]) -> Failure {
        try_run(arguments.iter().map(OsString::from)).unwrap_err()
    }

    #[test]
    fn password_in_clear_is_recognized() {
        for url in ["nats://broker:4222", "nats://10.0.0.1", "nats://[fe80::1]:4222"] {
            assert!(is_in_clear(url), "{url}");
        }
        for url in
            ["tls://broker:4222", "nats://127.0.0.1:4222", "nats://[::1]", "nats://localhost"]
        {
            assert!(!is_in_clear(url), "{url}");
        }
    }

    #[test]
    fn wrong_command_lines_name_the_object_and_the_remedy() {
        let base = ["--host", "pi", "--export", "Bob"];
        let with = |more: &[&str]| failure(&[&base[..], more].concat());
        for (failure, parts) in [
            (with(&[]), ["no server", "--server nats://"]),
            (with(&["--server", "pi:4222"]), ["\"pi:4222\"", "nats://"]),
            (with(&["--server", "nats://u:p@pi"]), ["credentials", "--creds FILE"]),
            (with(&["--import", "Ann"]), ["\"Ann\"", "NAME@HOST"]),
            (with(&["--replicas", "2"]), ["2", "1, 3 or 5"]),
            (failure(&["--host", "p i", "--server", "nats://pi"]), ["\"p i\"", "--host"]),
            (failure(&["--host", "pi", "--export", "@x"]), ["\"@x\"", "--export"]),
            (failure(&["--server", "nats://pi"]), ["no name", "--host"]),
            (failure(&["--config", "/none/x.toml"]), ["/none/x.toml", "--config"]),
            (failure(&["--bad"]), ["--bad", "--help"]),
            (failure(&["setup", "--server", "nats://pi"]), ["no host", "--host"]),
        ] {
            assert_eq!(failure.code, USAGE, "{failure:?}");
            for part in parts {
                assert!(failure.message.contains(part), "{part}: {failure:?}");
            }
            assert!(!failure.message.contains("u:p"), "{failure:?}");
        }
    }
}
