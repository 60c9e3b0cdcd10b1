//! The connection to NATS.

pub use crate::js::StreamSettings;
use crate::{
    js::{self, ApiError, ConsumerInfo, StreamInfo},
    outbox::{Publish, Published},
    presence::VERSION,
    subject::Token,
};
use async_nats::{
    Auth, AuthError, Client, ClientError, ConnectOptions, Event, HeaderMap, Request,
    RequestErrorKind, connection::State,
};
use futures_util::FutureExt;
use nkeys::KeyPair;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;

/// The time that a request to JetStream may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two pings of the server. The connection is closed if the server does not answer
/// two of them.
const PING: Duration = Duration::from_secs(5);

/// The header that says which version of batches a message has.
pub const VERSION_HEADER: &str = "Agent-Relay";

/// The header that lets JetStream recognize a repeated message.
const ID_HEADER: &str = "Nats-Msg-Id";

/// The events of the connection that wait to be reported; further ones are dropped.
const EVENTS_MAX: usize = 64;

/// The NATS servers, and the login there.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The servers' URLs.
    pub urls: Vec<String>,
    /// The file with the credentials, which is read for each connection.
    pub credentials: Option<PathBuf>,
    /// Certificates of authorities, in PEM.
    pub authorities: Vec<PathBuf>,
    /// This host's certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Credentials for NATS.
#[derive(Clone)]
pub enum Credentials {
    /// A JWT and its seed, of a `.creds` file.
    Jwt(String, String),
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
    /// Reads credentials from a file that only its owner can read.
    ///
    /// # Errors
    /// If the file cannot be read, or others can read it, or it holds none of the three kinds.
    pub fn read(path: &Path) -> io::Result<Self> {
        platform::paths::check_private_among(path, &[])?;
        Self::parse(&fs::read_to_string(path)?).ok_or_else(|| {
            let why = "it holds neither a NATS JWT, nor an nkey seed (SU…), nor USER:PASSWORD";
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.trim();
        if line.contains("BEGIN NATS USER JWT") {
            let seed = decorated(line, "USER NKEY SEED")?;
            return Some(Self::Jwt(decorated(line, "NATS USER JWT")?, seed));
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

    /// The login for a server that has sent this nonce.
    fn auth(self, nonce: &[u8]) -> Result<Auth, nkeys::error::Error> {
        let mut auth = Auth::new();
        let seed = match self {
            Self::Password(user, password) => {
                (auth.username, auth.password) = (Some(user), Some(password));
                return Ok(auth);
            }
            Self::Jwt(jwt, seed) => {
                auth.jwt = Some(jwt);
                seed
            }
            Self::Nkey(seed) => {
                auth.nkey = Some(KeyPair::from_seed(&seed)?.public_key());
                seed
            }
        };
        auth.signature = Some(KeyPair::from_seed(&seed)?.sign(nonce)?);
        Ok(auth)
    }
}

/// The line of a `.creds` file below the one that begins a part.
fn decorated(text: &str, part: &str) -> Option<String> {
    let begin = format!("BEGIN {part}");
    let mut lines = text.lines().skip_while(|line| !line.contains(&begin));
    lines.nth(1).map(|line| line.trim().to_owned())
}

/// Reads the credentials, and returns the login for a server that has sent this nonce.
fn log_in(path: &Path, nonce: &[u8]) -> Result<Auth, String> {
    let credentials = Credentials::read(path).map_err(|error| error.to_string());
    let auth = credentials.and_then(|it| it.auth(nonce).map_err(|error| error.to_string()));
    auth.map_err(|why| format!("{}: {why}", path.display()))
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
        let options = options(servers, &here, events.clone()).event_callback(move |event| {
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

    /// Publishes without waiting. A lost message is repeated by its sender if it is needed.
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

    /// Creates the stream of a host, or changes it if it exists. A setting of `None` keeps its
    /// value, or gets the one in `usual`.
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
            // In a cluster, a new stream cannot be changed for a moment.
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

    /// Removes this host's acknowledged messages from its stream, up to the first gap. Returns the
    /// consumer's earlier state.
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

fn options(servers: &Servers, here: &Token, events: mpsc::Sender<Event>) -> ConnectOptions {
    let options = match servers.credentials.clone() {
        None => ConnectOptions::new(),
        // Read for each connection, so that new credentials apply without a restart of the bridge.
        Some(path) => ConnectOptions::with_auth_callback(move |nonce| {
            std::future::ready(log_in(&path, &nonce).map_err(|why| {
                // As with other events, a full channel loses nothing of importance.
                drop(events.try_send(Event::ClientError(ClientError::Other(why.clone()))));
                AuthError::new(why)
            }))
        }),
    };
    let mut options = options
        .name(format!("agent-relay-nats {here}"))
        .custom_inbox_prefix(inbox(here))
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING);
    for authority in &servers.authorities {
        options = options.add_root_certificates(authority.clone());
    }
    if let Some((certificate, key)) = servers.certificate.clone() {
        options = options.add_client_certificate(certificate, key);
    }
    // A server announces its cluster's other servers without a scheme, and async-nats would connect
    // to them without encryption.
    let is_tls_named = servers.urls.iter().any(|url| url.starts_with("tls://"));
    if is_tls_named || !servers.authorities.is_empty() || servers.certificate.is_some() {
        options = options.require_tls(true);
    }
    options
}

/// The prefix of the subjects for a host's answers. No other host may read them.
#[must_use]
pub fn inbox(host: &Token) -> String {
    format!("_INBOX_{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4";

    const CREDS: &str = "-----BEGIN NATS USER JWT-----\r\neyJ.x-y\r\n------END NATS USER JWT------\n\n\
        *** IMPORTANT ***\n-----BEGIN USER NKEY SEED-----\n\
        SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4\n\
        ------END USER NKEY SEED------\n";

    #[test]
    fn login_signs_the_nonce_of_the_server() {
        let auth = |text: &str| Credentials::parse(text).unwrap().auth(b"nonce").unwrap();
        let (jwt, nkey, password) = (auth(CREDS), auth(SEED), auth("pi:secret"));
        assert_eq!((jwt.jwt.as_deref(), jwt.nkey), (Some("eyJ.x-y"), None));
        assert_eq!(jwt.signature, nkey.signature);
        let key = KeyPair::from_public_key(&nkey.nkey.unwrap()).unwrap();
        key.verify(b"nonce", &nkey.signature.unwrap()).unwrap();
        assert_eq!((password.username.as_deref(), password.signature), (Some("pi"), None));
        let damaged = Credentials::parse("SUAIBDPBAUTWCWBKIO6XHQ").unwrap();
        assert!(damaged.auth(b"nonce").is_err());
    }

    #[test]
    fn credentials_are_one_of_three_kinds() {
        let kind = |text: &str| match Credentials::parse(text) {
            Some(Credentials::Jwt(..)) => "jwt",
            Some(Credentials::Nkey(_)) => "nkey",
            Some(Credentials::Password(..)) => "password",
            None => "none",
        };
        assert_eq!(kind(CREDS), "jwt");
        assert_eq!(kind(&format!("{SEED}\n")), "nkey");
        assert_eq!(kind("pi:secret:with:colons\n"), "password");
        for other in ["", "pi", "SU AA", "a\nb", "-----BEGIN NATS USER JWT-----\neyJ\n"] {
            assert_eq!(kind(other), "none", "{other}");
        }
    }

    #[test]
    fn credentials_are_not_printed() {
        let credentials = Credentials::parse("pi:secret").unwrap();
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
