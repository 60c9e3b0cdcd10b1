//! The connection to NATS.

pub use crate::js::StreamSettings;
use crate::{
    js::{self, ApiError, ConsumerInfo, StreamInfo},
    outbox::{Publish, Published},
    presence::VERSION,
    subject::Token,
};
use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Request, RequestErrorKind, connection::State,
};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt, fs, io, path::PathBuf, time::Duration};
use tokio::sync::mpsc;

/// The time that a request to JetStream may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two pings of the server. A server that does not answer two of them is left.
const PING: Duration = Duration::from_secs(5);

/// The header that says which version of batches a message has.
pub const VERSION_HEADER: &str = "Agent-Relay";

/// The header by which JetStream recognizes a repeated message.
const ID_HEADER: &str = "Nats-Msg-Id";

/// The events of the connection that wait to be reported; further ones are dropped.
const EVENTS_MAX: usize = 64;

/// The NATS servers, and the login there.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The servers' URLs.
    pub urls: Vec<String>,
    /// The credentials.
    pub credentials: Option<Credentials>,
    /// Certificates of authorities, in PEM.
    pub authorities: Vec<PathBuf>,
    /// This host's certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Credentials for NATS.
#[derive(Clone)]
pub enum Credentials {
    /// A JWT and its seed: the contents of a `.creds` file.
    Jwt(String),
    /// The seed of an nkey.
    Nkey(String),
    /// A user and a password.
    Password(String, String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl Credentials {
    /// Reads credentials from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds none of the three kinds.
    pub fn read(path: &std::path::Path) -> io::Result<Self> {
        Self::parse(&fs::read_to_string(path)?).ok_or_else(|| {
            let why = "it holds neither a NATS JWT, nor an nkey seed (SU…), nor USER:PASSWORD";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.trim();
        if line.contains("BEGIN NATS USER JWT") {
            return Some(Self::Jwt(text.to_owned()));
        }
        if line.lines().count() != 1 {
            return None;
        }
        if let Some((user, password)) = line.split_once(':') {
            return Some(Self::Password(user.to_owned(), password.to_owned()));
        }
        let is_seed =
            line.starts_with("SU") && line.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_seed.then(|| Self::Nkey(line.to_owned()))
    }
}

/// A server, as it describes itself.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The greatest size of a message.
    pub max_payload: usize,
}

/// Why a request has no good answer.
#[derive(Clone, Debug)]
pub enum RequestError {
    /// JetStream answers with an error.
    Api(ApiError),
    /// There is no answer, such as for want of a leader or a permission.
    NoAnswer(String),
    /// There is no connection, so nothing was sent.
    NoConnection,
    /// Nothing receives requests on the subject at present.
    NoResponders,
}

impl RequestError {
    /// Whether JetStream has no such stream or consumer.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        let Self::Api(error) = self else { return false };
        [js::STREAM_NOT_FOUND, js::CONSUMER_NOT_FOUND].contains(&error.err_code)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => f.write_str(&error.description),
            Self::NoAnswer(why) => f.write_str(why),
            Self::NoConnection => f.write_str("there is no connection"),
            Self::NoResponders => f.write_str("JetStream is not there"),
        }
    }
}

/// A connection to NATS, which reconnects by itself. Its clones share it.
#[derive(Clone, Debug)]
pub struct Link {
    client: Client,
    here: Token,
}

impl Link {
    /// Connects. The events of the connection come through the channel.
    ///
    /// # Errors
    /// If no server lets this host in.
    pub async fn connect(
        servers: &Servers,
        here: Token,
    ) -> Result<(Self, mpsc::Receiver<Event>), async_nats::ConnectError> {
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let options = options(servers, &here)?.event_callback(move |event| {
            // Events are for a person only, so a full channel loses nothing of importance.
            drop(events.try_send(event));
            std::future::ready(())
        });
        let client = options.connect(servers.urls.clone()).await?;
        Ok((Self { client, here }, receiver))
    }

    /// The connection.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> Server {
        let info = self.client.server_info();
        Server { name: info.server_name, version: info.version, max_payload: info.max_payload }
    }

    /// Whether there is a connection at present.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Publishes a message to a host and waits for JetStream's answer. `stream_bytes` is the size
    /// of the host's stream, for an error.
    ///
    /// Without a connection, nothing is published: async-nats would keep every repetition.
    pub async fn publish(
        &self,
        host: &Token,
        publish: &Publish,
        stream_bytes: Option<i64>,
    ) -> Published {
        let mut headers = HeaderMap::new();
        headers.insert(ID_HEADER, publish.id.as_str());
        headers.insert(VERSION_HEADER, VERSION.to_string().as_str());
        let request = Request::new()
            .headers(headers)
            .payload(publish.batch.clone())
            .timeout(Some(REQUEST_TIMEOUT));
        match self.send(publish.subject.clone(), request).await {
            Ok(answer) => js::published(host, &answer, stream_bytes),
            Err(RequestError::NoResponders) => Published::NoStream,
            Err(RequestError::NoConnection) => Published::NotSent,
            Err(_) => Published::Unknown,
        }
    }

    /// Publishes without waiting. Whatever is lost is repeated by those that need it.
    pub fn publish_now(&self, subject: String, bytes: bytes::Bytes) {
        if self.is_connected() {
            // It is dropped if much waits to be sent.
            drop(self.client.publish(subject, bytes).now_or_never());
        }
    }

    /// The state and the settings of this host's consumer.
    ///
    /// # Errors
    /// If there is no answer, or no consumer.
    pub async fn consumer(&self) -> Result<ConsumerInfo, RequestError> {
        self.ask(js::consumer_info_subject(&self.here), None).await
    }

    /// Finds this host's consumer, or creates it and the stream.
    ///
    /// # Errors
    /// If this host may not, or JetStream cannot.
    pub async fn find_or_create(
        &self,
        stream: StreamSettings,
    ) -> Result<ConsumerInfo, RequestError> {
        let found = self.consumer().await;
        if !found.as_ref().is_err_and(RequestError::is_not_found) {
            return found;
        }
        let stream = self.create_stream(&self.here, stream).await?;
        self.create_consumer(&self.here, stream.settings().bytes).await
    }

    /// Creates the stream of a host, unless it exists.
    ///
    /// # Errors
    /// If this host may not, or JetStream cannot.
    pub async fn create_stream(
        &self,
        host: &Token,
        settings: StreamSettings,
    ) -> Result<StreamInfo, RequestError> {
        match self.ask(js::stream_info_subject(host), None).await {
            Err(RequestError::Api(error)) if error.err_code == js::STREAM_NOT_FOUND => {
                let request = js::stream_settings(host, settings, self.server().max_payload);
                self.ask(js::create_stream_subject(host), Some(request)).await
            }
            other => other,
        }
    }

    /// Creates the stream of a host, or changes it if it exists. What is `None` keeps its value, or
    /// gets that of `usual`.
    ///
    /// # Errors
    /// If this host may not, or JetStream cannot.
    pub async fn set_up_stream(
        &self,
        host: &Token,
        (replicas, bytes): (Option<usize>, Option<i64>),
        usual: StreamSettings,
    ) -> Result<StreamSettings, RequestError> {
        let wanted = |other: StreamSettings| StreamSettings {
            replicas: replicas.unwrap_or(other.replicas),
            bytes: bytes.unwrap_or(other.bytes),
        };
        let found: StreamInfo = match self.ask(js::stream_info_subject(host), None).await {
            // What was created just now cannot be changed in a cluster for a moment.
            Err(error) if error.is_not_found() => {
                let created = self.create_stream(host, wanted(usual)).await?;
                return Ok(created.settings());
            }
            found => found?,
        };
        let wanted = wanted(found.settings());
        let request = found.changed(host, wanted, self.server().max_payload);
        let changed: StreamInfo = self.ask(js::update_stream_subject(host), Some(request)).await?;
        Ok(changed.settings())
    }

    /// Creates the consumer of a host, or changes its note of the stream's size.
    ///
    /// # Errors
    /// If this host may not, or JetStream cannot.
    pub async fn create_consumer(
        &self,
        host: &Token,
        stream_bytes: i64,
    ) -> Result<ConsumerInfo, RequestError> {
        let found: Result<ConsumerInfo, _> = self.ask(js::consumer_info_subject(host), None).await;
        match found {
            Err(RequestError::Api(error)) if error.err_code == js::CONSUMER_NOT_FOUND => {}
            Ok(found)
                if found.config.unusable(host).is_none()
                    && found.config.stream_bytes() != Some(stream_bytes) => {}
            other => return other,
        }
        let request = js::create_consumer(host, stream_bytes);
        self.ask(js::create_consumer_subject(host), Some(request)).await
    }

    /// Removes from this host's stream what is acknowledged up to a sequence without a gap. Returns
    /// the consumer as it was before.
    ///
    /// # Errors
    /// If JetStream cannot. Then a later call removes it, or the stream's limit of age.
    pub async fn purge(&self) -> Result<ConsumerInfo, RequestError> {
        let consumer = self.consumer().await?;
        if let Some(request) = js::purge(consumer.floor()) {
            self.ask::<Value>(js::purge_subject(&self.here), Some(request)).await?;
        }
        Ok(consumer)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        subject: String,
        body: Option<Value>,
    ) -> Result<T, RequestError> {
        let body = body.map_or_else(String::new, |body| body.to_string());
        let request = Request::new().payload(body.into()).timeout(Some(REQUEST_TIMEOUT));
        let answer = self.send(subject, request).await?;
        js::read(&answer).map_err(RequestError::Api)
    }

    async fn send(&self, subject: String, request: Request) -> Result<bytes::Bytes, RequestError> {
        if !self.is_connected() {
            return Err(RequestError::NoConnection);
        }
        match self.client.send_request(subject, request).await {
            Ok(answer) => Ok(answer.payload),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::TimedOut => {
                    RequestError::NoAnswer("there is no answer".to_owned())
                }
                RequestErrorKind::NoResponders => RequestError::NoResponders,
                _ => RequestError::NoAnswer(error.to_string()),
            }),
        }
    }
}

fn options(servers: &Servers, here: &Token) -> Result<ConnectOptions, async_nats::ConnectError> {
    let mut options = ConnectOptions::new()
        .name(format!("agent-relay-nats {here}"))
        .custom_inbox_prefix(inbox(here))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING);
    options = match servers.credentials.clone() {
        None => options,
        Some(Credentials::Jwt(creds)) => options.credentials(&creds).map_err(|error| {
            async_nats::ConnectError::with_source(
                async_nats::ConnectErrorKind::Authentication,
                error,
            )
        })?,
        Some(Credentials::Nkey(seed)) => options.nkey(seed),
        Some(Credentials::Password(user, password)) => options.user_and_password(user, password),
    };
    for authority in &servers.authorities {
        options = options.add_root_certificates(authority.clone());
    }
    if let Some((certificate, key)) = servers.certificate.clone() {
        options = options.add_client_certificate(certificate, key);
    }
    // A server announces others of its cluster without a scheme, and async-nats would speak to them
    // in clear.
    let is_tls_named = servers.urls.iter().any(|url| url.starts_with("tls://"));
    if is_tls_named || !servers.authorities.is_empty() || servers.certificate.is_some() {
        options = options.require_tls(true);
    }
    Ok(options)
}

/// The prefix of the subjects on which a host receives answers, which no other host may read.
#[must_use]
pub fn inbox(host: &Token) -> String {
    format!("_INBOX_{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_one_of_three_kinds() {
        let kind = |text: &str| match Credentials::parse(text) {
            Some(Credentials::Jwt(_)) => "jwt",
            Some(Credentials::Nkey(_)) => "nkey",
            Some(Credentials::Password(..)) => "password",
            None => "none",
        };
        assert_eq!(kind("-----BEGIN NATS USER JWT-----\neyJ\n"), "jwt");
        assert_eq!(kind("SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4\n"), "nkey");
        assert_eq!(kind("pi:secret:with:colons\n"), "password");
        for other in ["", "pi", "SU AA", "a\nb"] {
            assert_eq!(kind(other), "none", "{other}");
        }
    }

    #[test]
    fn credentials_are_not_printed() {
        let credentials = Credentials::parse("pi:secret").unwrap();
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
