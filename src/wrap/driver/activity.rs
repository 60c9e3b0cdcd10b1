//! Reports of the agent's activity to the daemon, one at a time.

use client::{Client, ClientError, Delivery};
use crossbeam_channel::Receiver;
use protocol::{Moment, code::NackCode, payload::Nack, relay::ActivityRequest};
use terminal::Doing;

type Answer = Result<Delivery, ClientError>;

/// The activity that the daemon was told, and the one that it is to be told next.
#[derive(Default)]
pub(super) struct ActivityReports {
    /// The channel of the answer that is awaited.
    pub(super) answer: Option<Receiver<Answer>>,
    /// The latest activity that waits for that answer.
    next: Option<Doing>,
    /// Whether nothing is told: no daemon is connected, or it has refused the request, as an older
    /// one does.
    is_off: bool,
}

fn is_final(nack: &Nack) -> bool {
    [NackCode::Invalid, NackCode::Forbidden].iter().any(|code| nack.code == code.as_str())
}

impl ActivityReports {
    /// Notes that the connection has changed: the last answer may be lost, and another daemon may
    /// answer from now on.
    pub(super) fn connected(&mut self, is_connected: bool) {
        *self = Self { is_off: !is_connected, ..Self::default() };
    }

    /// Tells the daemon what the agent does, once it has answered the last report.
    pub(super) fn tell(&mut self, now: Moment, client: &Client, doing: Doing) {
        if self.is_off {
            return;
        }
        if self.answer.is_some() {
            self.next = Some(doing);
            return;
        }
        let report = ActivityRequest {
            activity: doing.activity.to_string(),
            source: doing.source.to_string(),
            for_ms: now.since(doing.since),
        };
        match client.report_activity(&report) {
            Ok(answer) => self.answer = Some(answer),
            Err(error) => tracing::debug!("the agent's activity cannot be reported: {error}"),
        }
    }

    /// Handles the daemon's answer.
    pub(super) fn answered(&mut self, now: Moment, client: &Client, answer: Option<Answer>) {
        self.answer = None;
        if let Some(Err(error)) = answer {
            tracing::info!("the daemon does not take the report of what the agent does: {error}");
            // An older daemon does not know the request. Other refusals pass.
            self.is_off = matches!(&error, ClientError::Refused(nack) if is_final(nack));
        }
        if let Some(doing) = self.next.take() {
            self.tell(now, client, doing);
        }
    }
}
