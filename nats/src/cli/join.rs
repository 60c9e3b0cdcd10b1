//! The command that joins a host.

use super::{Failure, line, runtime, servers};
use crate::{
    bridge::{self, End, Settings},
    js,
    link::StreamSettings,
    local, side,
};
use argh::FromArgs;
use client::home::HomeOptions;
use machines::{border::AGENTS_MAX, local::Daemon};
use protocol::{
    name::{Host, Name},
    secret::Secret,
};
use std::{io, path::PathBuf, thread};
use tokio::sync::watch;

/// Join the agents of this machine with those of others over NATS JetStream. Agents here send to
/// NAME@HOST, and appear there as NAME@HERE. Runs until Ctrl-C.
#[derive(Debug, FromArgs)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay-nats --host desk --export Ann --server nats://broker:4222 \
               --creds desk.creds",
    note = "The command `agent-relay-nats setup` prepares NATS for hosts that may not do so.",
    error_code(1, "failed"),
    error_code(2, "the command line is wrong")
)]
pub(super) struct Join {
    /// the name of this machine
    #[argh(option, arg_name = "HERE")]
    host: String,
    /// an agent here that other machines may reach; repeat it for more
    #[argh(option, arg_name = "NAME")]
    export: Vec<String>,
    /// an agent that may be reached from here; without this option, all that others export
    #[argh(option, arg_name = "NAME@HOST")]
    import: Vec<String>,
    /// a NATS server, or several with commas between them
    #[argh(option, arg_name = "URL")]
    server: Vec<String>,
    /// a file that only you can read, with NATS credentials: a .creds file, the seed of an nkey,
    /// or USER:PASSWORD
    #[argh(option, arg_name = "FILE")]
    creds: Option<PathBuf>,
    /// a certificate authority of the servers, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_ca: Vec<PathBuf>,
    /// this machine's certificate, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// the key of that certificate, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// the replicas of this machine's stream in NATS, if it does not exist (1)
    #[argh(option, default = "1", arg_name = "N")]
    replicas: usize,
    /// the daemon's endpoint
    #[argh(option, arg_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// the daemon's home directory
    #[argh(option, arg_name = "DIR")]
    home: Option<String>,
}

impl Join {
    pub(super) fn run(self) -> Result<(), Failure> {
        let settings = self.settings()?;
        check_replicas(self.replicas)?;
        let servers =
            servers(&self.server, self.creds.as_ref(), self.tls_ca, self.tls_cert, self.tls_key)?;
        let home = HomeOptions { endpoint: self.endpoint, home: self.home };
        let context = home.context().map_err(Failure::of_home)?;
        if let Some(warning) = &context.warning {
            line(warning);
        }
        let daemon = Daemon::find(&context).map_err(Failure::of_home)?;
        let (stop, stopped) = watch::channel(false);
        let _listening = platform::stop_signals::listen(move |_| {
            stop.send_replace(true);
        })
        .map_err(|error| Failure::failed(format!("signals cannot be awaited: {error}")))?;
        let stream = StreamSettings { replicas: self.replicas, bytes: js::STREAM_BYTES };
        runtime()?.block_on(async {
            let start = bridge::start(&settings, &servers, stream, &line);
            let started = tokio::select! {
                started = start => started.map_err(Failure::failed)?,
                () = stop_came(stopped.clone()) => return Ok(()),
            };
            line(&format!("joined to {}", self.server.join(",")));
            let (local, remote) = local::channels();
            // The local side may still wait for events when the bridge is gone.
            let _events = local.to.clone();
            let here = settings.clone();
            let secret = Secret::from_random(platform::random::bytes().map_err(no_random)?);
            let side = thread::Builder::new()
                .name("local".to_owned())
                .spawn(move || side::run(daemon, secret, &here, &remote))
                .map_err(|error| Failure::failed(format!("no thread can start: {error}")))?;
            let end = bridge::run(&settings, started, local, &line, stop_came(stopped)).await;
            match end {
                // The process ends with this thread, which has nothing left to do.
                End::Stopped => {
                    drop(side);
                    Ok(())
                }
                End::Taken => Err(Failure::failed(bridge::taken(&settings))),
                End::Local(why) => Err(Failure::failed(why)),
            }
        })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let here = Host::parse(&self.host).map_err(|why| {
            Failure::usage(format!("{:?} is no name of a machine: {why}; change --host", self.host))
        })?;
        let mut exports: Vec<Name> = Vec::new();
        for text in &self.export {
            let name = agent(text, "--export")?;
            if !exports.contains(&name) {
                exports.push(name);
            }
        }
        if exports.len() > AGENTS_MAX {
            return Err(Failure::usage(format!(
                "{} agents are exported, and at most {AGENTS_MAX} can be; leave out some --export",
                exports.len()
            )));
        }
        let imports = self.import.iter().map(|text| {
            let (name, host) = text
                .split_once('@')
                .ok_or_else(|| Failure::usage(format!("{text:?} must be NAME@HOST in --import")))?;
            let host = Host::parse(host)
                .map_err(|why| Failure::usage(format!("{text:?} in --import: {why}")))?;
            Ok((agent(name, "--import")?, host))
        });
        Ok(Settings { here, exports, imports: imports.collect::<Result<_, _>>()? })
    }
}

fn no_random(error: io::Error) -> Failure {
    Failure::failed(format!("the system has no random numbers: {error}"))
}

fn agent(text: &str, option: &str) -> Result<Name, Failure> {
    Name::parse(text).map_err(|why| {
        Failure::usage(format!("{text:?} is no name of an agent: {why}; change {option}"))
    })
}

/// Checks a number of replicas.
pub(super) fn check_replicas(replicas: usize) -> Result<(), Failure> {
    if [1, 3, 5].contains(&replicas) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{replicas} replicas are not possible; use 1, 3 or 5 in --replicas"
    )))
}

async fn stop_came(mut stopped: watch::Receiver<bool>) {
    // If the sender is gone, so is the thread that waits for signals, and no stop can come.
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
