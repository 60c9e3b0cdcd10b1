//! The command that joins a host.

use super::{Failure, line, log, runtime, servers};
use crate::{
    bridge::{self, End, Settings},
    js,
    link::{Servers, StreamSettings},
    local::{self, ToLocal},
    side,
};
use argh::FromArgs;
use client::home::{ConfigError, HomeOptions};
use machines::{
    border::AGENTS_MAX,
    exports::Exports,
    local::Daemon,
    report::{Kind, Report, Reporter, Reporting},
    selector::Selector,
    settings::{Import, NATS_FILE, Nats},
    topics::{PATTERNS_MAX, Topics},
};
use protocol::{name::Host, secret::Secret, topic::Pattern};
use std::{io, path::PathBuf, sync::Arc, thread};
use tokio::sync::watch;

/// Join the agents of this machine with those of others over NATS JetStream. Agents here send to
/// NAME@HOST, and appear there as NAME@HERE. Runs until Ctrl-C.
#[derive(Debug, FromArgs)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay-nats --host desk --export Ann --server nats://broker:4222 \
               --creds desk.creds",
    example = "agent-relay-nats --config lab.toml",
    note = "Options stand in place of the keys of nats.toml in the home, which docs/MACHINES.md describes. \
            The command `agent-relay-nats setup` prepares NATS for hosts that may not do so.",
    error_code(1, "failed"),
    error_code(2, "the command line is wrong")
)]
pub(super) struct Join {
    /// a file with settings; default: nats.toml in the daemon's home, if it exists
    #[argh(option, arg_name = "FILE")]
    config: Option<PathBuf>,
    /// the name of this machine
    #[argh(option, arg_name = "HERE")]
    host: Option<String>,
    /// agents here that other machines may reach: a name, or a pattern such as 'web-*'; repeat it
    /// for more
    #[argh(option, arg_name = "AGENTS")]
    export: Vec<String>,
    /// agents that may be reached from here: NAME@HOST or PATTERN@HOST; without this option, all
    /// that others export
    #[argh(option, arg_name = "AGENTS@HOST")]
    import: Vec<String>,
    /// topics on which messages cross, from here and to here, such as 'build.>'; repeat it for more
    #[argh(option, arg_name = "PATTERN")]
    topic: Vec<String>,
    /// let messages to everyone cross, from here and to here
    #[argh(switch)]
    broadcasts: bool,
    /// do not tell other machines which programs the exported agents run, and in which directories
    #[argh(switch)]
    no_details: bool,
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
    #[argh(option, arg_name = "N")]
    replicas: Option<usize>,
    /// the daemon's endpoint
    #[argh(option, arg_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// the daemon's home directory
    #[argh(option, arg_name = "DIR")]
    home: Option<String>,
}

impl Join {
    pub(super) fn run(self) -> Result<(), Failure> {
        let home = HomeOptions { endpoint: self.endpoint.clone(), home: self.home.clone() };
        let file = self.file(&home)?;
        let settings = self.settings(&file)?;
        let exports = self.exports(&file)?;
        let tells_details = !self.no_details && file.details != Some(false);
        let replicas = self.replicas.or(file.replicas).unwrap_or(1);
        check_replicas(replicas)?;
        let urls = if self.server.is_empty() { file.server } else { self.server };
        let servers = servers(
            &urls,
            self.creds.or(file.creds),
            if self.tls_ca.is_empty() { file.tls_ca } else { self.tls_ca },
            self.tls_cert.or(file.tls_cert),
            self.tls_key.or(file.tls_key),
        )?;
        let context = home.context().map_err(Failure::of_home)?;
        if let Some(warning) = &context.warning {
            line(warning);
        }
        let daemon = Daemon::find(&context).map_err(Failure::of_home)?;
        let report = Report::new(Kind::Nats, settings.here.as_str(), env!("CARGO_PKG_VERSION"));
        let reporting = Reporting::begin(&context.home, report, log).map_err(no_thread)?;
        let stream = StreamSettings { replicas, bytes: js::STREAM_BYTES };
        let exports = Exports::new(daemon.clone(), exports, tells_details);
        let bridge = Bridge { settings, exports, servers, stream, urls: urls.join(","), daemon };
        let ended = bridge.run(reporting.reporter());
        reporting.end(ended.as_ref().err().map(|failure| failure.message.clone()));
        ended
    }

    /// Reads the file with settings.
    fn file(&self, home: &HomeOptions) -> Result<Nats, Failure> {
        let wrong = |error: ConfigError| Failure::usage(error.to_string());
        match &self.config {
            Some(path) => Nats::load(path).map_err(wrong)?.ok_or_else(|| {
                Failure::usage(format!("{} does not exist; change --config", path.display()))
            }),
            None => {
                let home = home.home().map_err(Failure::of_home)?;
                Ok(Nats::load(&home.join(NATS_FILE)).map_err(wrong)?.unwrap_or_default())
            }
        }
    }

    fn settings(&self, file: &Nats) -> Result<Settings, Failure> {
        let here = match (&self.host, &file.host) {
            (Some(host), _) => Host::parse(host).map_err(|why| {
                Failure::usage(format!("{host:?} is no name of a machine: {why}; change --host"))
            })?,
            (None, Some(host)) => host.clone(),
            (None, None) => {
                let why =
                    format!("this machine has no name; add --host HERE, or host to {NATS_FILE}");
                return Err(Failure::usage(why));
            }
        };
        let imports = self.import.iter().map(|text| {
            let (name, host) = text
                .split_once('@')
                .ok_or_else(|| Failure::usage(format!("{text:?} must be NAME@HOST in --import")))?;
            let host = Host::parse(host)
                .map_err(|why| Failure::usage(format!("{text:?} in --import: {why}")))?;
            Ok((selector(name, "--import")?, host))
        });
        let mut imports: Vec<_> = imports.collect::<Result<_, _>>()?;
        if imports.is_empty() {
            imports.extend(file.import.iter().map(|Import(of, host)| (of.clone(), host.clone())));
        }
        Ok(Settings { here, imports, topics: self.topics(file)? })
    }

    /// The messages to several recipients that cross.
    fn topics(&self, file: &Nats) -> Result<Topics, Failure> {
        let patterns = self.topic.iter().map(|text| {
            Pattern::parse(text).map_err(|why| {
                Failure::usage(format!("{text:?} is no pattern of topics: {why}; change --topic"))
            })
        });
        let mut patterns: Vec<_> = patterns.collect::<Result<_, _>>()?;
        if patterns.is_empty() {
            patterns.clone_from(&file.topic);
        }
        if patterns.len() > PATTERNS_MAX {
            return Err(Failure::usage(format!(
                "{} topics are named, and {PATTERNS_MAX} are the most; name several by a pattern, \
                 such as 'build.>'",
                patterns.len()
            )));
        }
        Ok(Topics { patterns, broadcasts: self.broadcasts || file.broadcasts })
    }

    /// The agents that are exported.
    fn exports(&self, file: &Nats) -> Result<Vec<Selector>, Failure> {
        let exports = self.export.iter().map(|text| selector(text, "--export"));
        let mut exports: Vec<_> = exports.collect::<Result<_, _>>()?;
        if exports.is_empty() {
            exports.clone_from(&file.export);
        }
        let mut distinct: Vec<Selector> = Vec::new();
        for selector in exports {
            if !distinct.contains(&selector) {
                distinct.push(selector);
            }
        }
        if distinct.len() > AGENTS_MAX {
            return Err(Failure::usage(format!(
                "{} agents are exported, and at most {AGENTS_MAX} can be; name several by a pattern, \
                 such as 'web-*'",
                distinct.len()
            )));
        }
        Ok(distinct)
    }
}

/// A bridge that is ready to start.
struct Bridge {
    settings: Settings,
    exports: Exports,
    servers: Servers,
    stream: StreamSettings,
    /// The servers' URLs, for people.
    urls: String,
    daemon: Daemon,
}

impl Bridge {
    fn run(self, reporter: &Reporter) -> Result<(), Failure> {
        let Self { settings, mut exports, servers, stream, urls, daemon } = self;
        exports.ask();
        exports.exported().excess().iter().for_each(|line| log(line));
        let exported = exports.exported().clone();
        let (stop, stopped) = watch::channel(false);
        let _listening = platform::stop_signals::listen(move |_| {
            stop.send_replace(true);
        })
        .map_err(|error| Failure::failed(format!("signals cannot be awaited: {error}")))?;
        // Before it has joined, it prints only the reason of its wait.
        let waiting = |text: &str| {
            log(text);
            let text = text.to_owned();
            reporter.update(move |report| report.failed(&text));
        };
        runtime()?.block_on(async {
            let crossing = (exported.agents.clone(), settings.topics.clone());
            let start = bridge::start(&settings, exported, &servers, stream, &waiting);
            let started = tokio::select! {
                started = start => started.map_err(Failure::failed)?,
                () = stop_came(stopped.clone()) => return Ok(()),
            };
            log(&format!("joined to {urls}"));
            let (local, remote) = local::channels();
            // The local side may still wait for events when the bridge is gone.
            let (_events, changes) = (local.to.clone(), local.to.clone());
            let change =
                move |exported| changes.send(ToLocal::Exported(Box::new(exported))).is_ok();
            let _following = exports.follow(change).map_err(no_thread)?;
            let secret = Secret::from_random(platform::random::bytes().map_err(no_random)?);
            let counters = Arc::clone(reporter.counters());
            // Waits for: as the main thread of `agent-relay bridge`: its clients' channels, the
            // channel from the bridge. The bridge's thread waits for NATS and for the channel back.
            let side = thread::Builder::new()
                .name("local".to_owned())
                .spawn(move || side::run(daemon, secret, crossing, &remote, counters))
                .map_err(no_thread)?;
            let stopped = stop_came(stopped);
            let end = bridge::run(&settings, started, local, (&log, reporter), stopped).await;
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
}

fn no_thread(error: io::Error) -> Failure {
    Failure::failed(format!("no thread can start: {error}"))
}

fn no_random(error: io::Error) -> Failure {
    Failure::failed(format!("the system has no random numbers: {error}"))
}

fn selector(text: &str, option: &str) -> Result<Selector, Failure> {
    Selector::parse(text).map_err(|why| {
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
