//! The start of a bridge: it connects, finds its consumer, and asks for the present hosts.

use super::{Settings, Subscribers, hosts::Own};
use crate::{
    js::{self, ConsumerInfo},
    link::{Link, RequestError, Servers, StreamSettings},
    presence::{self, FIRST_ANSWERS, Presence},
    reports::printable,
    subject::{self, PRESENCE, Token},
};
use async_nats::{
    ConnectError, ConnectErrorKind, Event, Subscriber,
    rustls::{self, AlertDescription, CertificateError},
};
use futures_util::StreamExt;
use machines::exports::Exported;
use std::{
    error::Error as _,
    io,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time};

/// The pause before something that NATS could not do yet is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// A bridge that is ready to run.
#[derive(Debug)]
pub struct Started {
    pub(super) link: Link,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) subscribers: Subscribers,
    pub(super) instance: u64,
    pub(super) presence: Presence,
    /// The outputs for the first answers of the other hosts.
    pub(super) answers: Vec<presence::Output>,
    pub(super) stream_bytes: Option<i64>,
    pub(super) stream: StreamSettings,
    pub(super) exported: Exported,
}

/// Connects to NATS and prepares a bridge that initially exports these agents. Waits until NATS is
/// reachable.
///
/// # Errors
/// If this host cannot take part: a sentence with the remedy.
pub async fn start(
    settings: &Settings,
    exported: Exported,
    servers: &Servers,
    stream: StreamSettings,
    lines: &dyn Fn(&str),
) -> Result<Started, String> {
    let here = Token::of_host(&settings.here);
    let (link, mut events) = connect(servers, &here, lines).await?;
    let found = prepare(&link, &mut events, &here, stream, lines).await?;
    // If the stream is deleted, it is created again as it was.
    let (stream_bytes, stream) = (found.config.stream_bytes(), found.stream(stream));
    let random =
        platform::random::bytes().map_err(|error| format!("the system has no random: {error}"))?;
    let instance = u64::from_be_bytes(random);
    let now = Instant::now();
    let mut presence = Presence::new(here.clone(), presence::instance(instance), now);
    let own = Own { settings, instance, stream_bytes, exported: &exported };
    let mut subscribers = Subscribers {
        confirmations: subscribe(&link, subject::confirmations(&here, "*")).await?,
        beats: subscribe(&link, format!("{PRESENCE}.*")).await?,
    };
    let beats = &mut subscribers.beats;
    let answers = ask_who_is_there(&own, &link, &here, &mut presence, beats).await?;
    Ok(Started {
        link,
        events,
        subscribers,
        instance,
        presence,
        answers,
        stream_bytes,
        stream,
        exported,
    })
}

async fn subscribe(link: &Link, subject: String) -> Result<Subscriber, String> {
    link.client().subscribe(subject).await.map_err(|error| no_answer(&error))
}

fn no_answer(error: &dyn std::fmt::Display) -> String {
    format!("NATS does not answer: {error}")
}

/// Connects. Waits until a server is there.
///
/// # Errors
/// If the servers' URLs, the credentials or the certificates are wrong.
pub async fn connect(
    servers: &Servers,
    here: &Token,
    lines: &dyn Fn(&str),
) -> Result<(Link, mpsc::Receiver<Event>), String> {
    let urls = servers.urls.join(",");
    let mut reported = None;
    loop {
        let error = match Link::connect(servers, here.clone()).await {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        let remedy = match (error.kind(), certificate_remedy(&error)) {
            (_, Some(remedy)) => remedy,
            (ConnectErrorKind::AuthorizationViolation, _) => "check the file of --creds",
            (ConnectErrorKind::Authentication, _) => "the file of --creds has no usable key",
            (ConnectErrorKind::ServerParse, _) => "use nats://HOST:PORT or tls://HOST:PORT",
            (ConnectErrorKind::Tls, _) => "check --tls-ca, --tls-cert and the server's certificate",
            _ => {
                let line = printable(&format!("{urls} cannot be reached: {error}; waiting for it"));
                if reported.as_ref() != Some(&line) {
                    lines(&line);
                }
                reported = Some(line);
                time::sleep(PAUSE).await;
                continue;
            }
        };
        return Err(printable(&format!("{urls} refuses this host: {error}; {remedy}")));
    }
}

/// The remedy for a certificate that was refused, here or by the server. Waiting does not help.
fn certificate_remedy(error: &ConnectError) -> Option<&'static str> {
    let error = error.source()?.downcast_ref::<io::Error>()?.get_ref()?;
    match error.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => Some(match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "renew the server's certificate, or set this machine's clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "name the server in --server as its certificate does"
            }
            _ => "name the authority of the server's certificate with --tls-ca FILE",
        }),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA,
        ) => Some("the server wants another certificate: check --tls-cert and --tls-key"),
        _ => None,
    }
}

/// Finds this host's consumer, or creates it and the stream.
async fn prepare(
    link: &Link,
    events: &mut mpsc::Receiver<Event>,
    here: &Token,
    stream: StreamSettings,
    lines: &dyn Fn(&str),
) -> Result<ConsumerInfo, String> {
    let mut reported = None;
    loop {
        let error = match link.find_or_create(stream).await {
            Ok(info) => {
                return match info.config.unusable(here) {
                    None => Ok(info),
                    Some(why) => Err(format!("the consumer {here} is unusable: {why}")),
                };
            }
            Err(error) => error,
        };
        if let Some(refusal) = refusal(events) {
            return Err(format!(
                "{refusal}; run `agent-relay-nats setup --host {here}` with an administrator's \
                 credentials, and check this host's permissions"
            ));
        }
        if let RequestError::Api(api) = &error
            && js::NOT_ENABLED.contains(&api.err_code)
        {
            return Err(
                "JetStream is not enabled; add `jetstream {}` to NATS's configuration".into()
            );
        }
        let line = printable(&format!("JetStream is not ready: {error}; waiting for it"));
        if reported.as_ref() != Some(&line) {
            lines(&line);
        }
        reported = Some(line);
        time::sleep(PAUSE).await;
    }
}

/// The last refusal of a permission among the events that have come.
fn refusal(events: &mut mpsc::Receiver<Event>) -> Option<String> {
    let mut refusal = None;
    while let Ok(event) = events.try_recv() {
        if let Event::ServerError(error) = &event
            && error.to_string().contains("Permissions Violation")
        {
            refusal = Some(printable(&error.to_string()));
        }
    }
    refusal
}

/// Asks for the present hosts, and returns the outputs for their answers. Fails if another bridge
/// of this host answers.
async fn ask_who_is_there(
    own: &Own<'_>,
    link: &Link,
    here: &Token,
    presence: &mut Presence,
    beats: &mut Subscriber,
) -> Result<Vec<presence::Output>, String> {
    let client = link.client();
    let ask = own.beat(Duration::ZERO, true, false);
    client.publish(subject::presence(here), ask).await.map_err(|error| no_answer(&error))?;
    client.flush().await.map_err(|error| no_answer(&error))?;
    let (until, mut outputs) = (time::Instant::now() + FIRST_ANSWERS, Vec::new());
    while let Ok(Some(message)) = time::timeout_at(until, beats.next()).await {
        let Some(host) = subject::present(&message.subject) else { continue };
        let input = presence::Input::Beat(&host, &message.payload);
        presence.handle(Instant::now(), input, &mut outputs);
        if outputs.contains(&presence::Output::Taken) {
            return Err(taken(own.settings));
        }
    }
    Ok(outputs)
}

/// The sentence about another bridge of this host.
#[must_use]
pub fn taken(settings: &Settings) -> String {
    format!(
        "another agent-relay-nats has joined as {}; stop that one, or choose another --host",
        settings.here
    )
}
