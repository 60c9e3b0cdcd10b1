//! The command that prepares NATS for hosts that have no permission to do so.

use super::{Failure, join::check_replicas, line, runtime, servers};
use crate::{
    bridge, js,
    link::StreamSettings,
    subject::{self, Token},
};
use argh::FromArgs;
use protocol::name::Host;
use std::path::PathBuf;

/// The number of bits that MiB are shifted by to get bytes.
const MIB_SHIFT: u32 = 20;

/// Create the stream and the consumer of each host, or change them if they exist. Needs credentials
/// of NATS that may use the JetStream API.
#[derive(Debug, FromArgs)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay-nats setup --host desk --host pi --replicas 3 \
               --server nats://broker:4222 --creds admin.creds",
    error_code(1, "failed"),
    error_code(2, "the command line is wrong")
)]
pub(super) struct Setup {
    /// a host; repeat it for more
    #[argh(option, arg_name = "HOST")]
    host: Vec<String>,
    /// a NATS server, or several with commas between them
    #[argh(option, arg_name = "URL")]
    server: Vec<String>,
    /// a file that only you can read, with NATS credentials
    #[argh(option, arg_name = "FILE")]
    creds: Option<PathBuf>,
    /// a certificate authority of the servers, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_ca: Vec<PathBuf>,
    /// the administrator's certificate, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// the key of that certificate, in PEM
    #[argh(option, arg_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// the replicas of each stream (1, or as many as it has)
    #[argh(option, arg_name = "N")]
    replicas: Option<usize>,
    /// the size of each stream, in MiB (256, or the one that it has)
    #[argh(option, arg_name = "MIB")]
    max_mib: Option<u32>,
}

impl Setup {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut hosts = Vec::new();
        for text in &self.host {
            hosts.push(Host::parse(text).map_err(|why| {
                Failure::usage(format!("{text:?} is no name of a machine: {why}; change --host"))
            })?);
        }
        let Some(first) = hosts.first() else {
            return Err(Failure::usage("no host is named; add --host HOST"));
        };
        let first = Token::of_host(first);
        self.replicas.map_or(Ok(()), check_replicas)?;
        let servers = servers(&self.server, self.creds, self.tls_ca, self.tls_cert, self.tls_key)?;
        let wanted = (self.replicas, self.max_mib.map(|mib| i64::from(mib) << MIB_SHIFT));
        let usual = StreamSettings { replicas: 1, bytes: js::STREAM_BYTES };
        runtime()?.block_on(async {
            let (link, _events) =
                bridge::connect(&servers, &first, &line).await.map_err(Failure::failed)?;
            for host in &hosts {
                let token = Token::of_host(host);
                let name = subject::stream(&token);
                let failed = |why: String| {
                    Failure::failed(format!("the stream {name} cannot be set up: {why}"))
                };
                let stream = link.set_up_stream(&token, wanted, usual).await;
                let StreamSettings { replicas, bytes } =
                    stream.map_err(|error| failed(error.to_string()))?;
                let info = link.create_consumer(&token, bytes).await;
                let info = info.map_err(|error| failed(error.to_string()))?;
                if let Some(why) = info.config.unusable(&token) {
                    return Err(failed(format!("{why} (its consumer); delete it first")));
                }
                let mib = bytes >> MIB_SHIFT;
                line(&format!(
                    "{host} is set up: stream {name}, {mib} MiB, {replicas} replica{}",
                    if replicas == 1 { "" } else { "s" }
                ));
            }
            // All changes are confirmed before the connection ends with the process.
            Ok(())
        })
    }
}

const _: () = assert!(js::STREAM_BYTES == 256 << 20);
