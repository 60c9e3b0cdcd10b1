//! Reports of the agent's activity to the daemon, one at a time.

use client::{Client, ClientError, Delivery};
use crossbeam_channel::Receiver;
use protocol::{Moment, code::NackCode, payload::Nack, relay::ActivityRequest};
use std::mem;
use terminal::Doing;

type Answer = Result<Delivery, ClientError>;

/// The agent's activity, as reported to the daemon.
#[derive(Default)]
pub(super) struct ActivityReports {
    /// The channel of the answer that is awaited.
    pub(super) answer: Option<Receiver<Answer>>,
    doing: Option<Doing>,
    /// Whether the agent has finished its work since its person last looked.
    is_unseen: bool,
    /// Whether the activity has changed since the report that awaits its answer.
    has_changed: bool,
    /// Whether nothing is reported: no daemon is connected, or it has refused the request, as an
    /// older one does.
    is_off: bool,
}

fn is_final(nack: &Nack) -> bool {
    [NackCode::Invalid, NackCode::Forbidden].iter().any(|code| nack.code == code.as_str())
}

impl ActivityReports {
    /// Notes that the connection has changed: the last answer may be lost, and the next daemon may
    /// be another one.
    pub(super) fn connected(&mut self, is_connected: bool) {
        let is_unseen = self.is_unseen;
        *self = Self { is_off: !is_connected, is_unseen, ..Self::default() };
    }

    /// Records the agent's activity, and reports a change.
    pub(super) fn does(&mut self, now: Moment, client: &Client, doing: Doing) {
        self.doing = Some(doing);
        self.tell(now, client);
    }

    /// Notes whether the agent has finished its work since its person last looked.
    pub(super) fn look(&mut self, now: Moment, client: &Client, is_unseen: bool) {
        if mem::replace(&mut self.is_unseen, is_unseen) != is_unseen {
            self.tell(now, client);
        }
    }

    /// Reports the activity to the daemon, once it has answered the last report.
    fn tell(&mut self, now: Moment, client: &Client) {
        let Some(doing) = self.doing.filter(|_| !self.is_off) else { return };
        self.has_changed = self.answer.is_some();
        if self.has_changed {
            return;
        }
        let report = ActivityRequest {
            activity: doing.activity.to_string(),
            source: doing.source.to_string(),
            for_ms: now.since(doing.since),
            unseen: self.is_unseen,
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
            tracing::info!("the daemon rejected the activity report: {error}");
            // An older daemon does not know the request. Other refusals are temporary.
            self.is_off = matches!(&error, ClientError::Refused(nack) if is_final(nack));
        }
        if self.has_changed {
            self.tell(now, client);
        }
    }
}
