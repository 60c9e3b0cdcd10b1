//! Requests for the messages of this host's consumer.

use crate::{
    js,
    link::{Link, VERSION_HEADER},
    subject::Token,
};
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::{sync::mpsc, time};

/// The number of messages that a request asks for.
const BATCH: usize = 128;

/// The lifetime of a request.
const EXPIRES: Duration = Duration::from_secs(30);

/// The interval of JetStream's heartbeats for a request.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The silence that means that a request is lost.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The pause after JetStream has ended a request early, such as for want of a leader.
const PAUSE: Duration = Duration::from_millis(100);

/// A message that came from the stream.
#[derive(Debug)]
pub struct Received {
    /// The subject for its acknowledgement.
    pub reply: String,
    /// The subject.
    pub subject: String,
    /// The version of the batch, or `None` if the message is not a bridge's.
    pub version: Option<String>,
    /// The batch, which may be anything.
    pub batch: Bytes,
}

/// Asks for messages until the receiver of `deliveries` is gone.
pub async fn run(link: Link, here: Token, deliveries: mpsc::Sender<Received>) {
    while !deliveries.is_closed() {
        if link.is_connected()
            && let Ok(inbox) = subscribe(&link).await
        {
            requests(&link, &here, inbox, &deliveries).await;
        }
        time::sleep(PAUSE).await;
    }
}

/// A new subscription for each series of requests: messages to an earlier one are lost, and
/// redelivered.
async fn subscribe(link: &Link) -> Result<(String, Subscriber), async_nats::SubscribeError> {
    let inbox = link.client().new_inbox();
    let subscriber = link.client().subscribe(inbox.clone()).await?;
    Ok((inbox, subscriber))
}

async fn requests(
    link: &Link,
    here: &Token,
    (inbox, mut subscriber): (String, Subscriber),
    deliveries: &mpsc::Sender<Received>,
) {
    let request = js::next(BATCH, EXPIRES, HEARTBEAT).to_string();
    let subject = js::next_subject(here);
    let mut asked = 0;
    loop {
        if asked <= BATCH / 2 {
            let (subject, inbox) = (subject.clone(), inbox.clone());
            let sent = link.client().publish_with_reply(subject, inbox, request.clone().into());
            if sent.await.is_err() {
                return;
            }
            asked += BATCH;
        }
        let next = tokio::select! {
            next = time::timeout(SILENCE_MAX, subscriber.next()) => next,
            () = deliveries.closed() => return,
        };
        let Ok(Some(message)) = next else {
            return;
        };
        match message.status {
            None | Some(StatusCode::OK) => {
                asked = asked.saturating_sub(1);
                if let Some(received) = received(here, message)
                    && deliveries.send(received).await.is_err()
                {
                    return;
                }
            }
            Some(StatusCode::IDLE_HEARTBEAT) => {}
            Some(status) => {
                asked = asked.saturating_sub(remaining(&message));
                if status != StatusCode::TIMEOUT {
                    time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// The number of messages that an ended request did not get. Too high a number is harmless: more
/// messages are requested.
fn remaining(message: &Message) -> usize {
    let header = message.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
    header.and_then(|header| header.as_str().parse().ok()).unwrap_or(usize::MAX)
}

/// A message of the stream, or `None` if JetStream did not deliver it.
fn received(here: &Token, message: Message) -> Option<Received> {
    let reply = message.reply?.to_string();
    let version = message.headers.as_ref().and_then(|headers| headers.get(VERSION_HEADER));
    js::is_acknowledgement(here, &reply).then(|| Received {
        reply,
        subject: message.subject.to_string(),
        version: version.map(|version| version.as_str().to_owned()),
        batch: message.payload,
    })
}
