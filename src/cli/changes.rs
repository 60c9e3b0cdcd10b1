//! A connection over which the daemon reports changes. It is opened again after the daemon was
//! away. No daemon is started for it.

use super::{
    context::context,
    failure::Failure,
    identity::Identity,
    join::join,
    request::{call_with, data_of, operators_only, parse},
};
use client::{
    Client, ConnectionState, Delivery, Event,
    home::{HomeOptions, agent_around},
};
use crossbeam_channel::{Receiver, after, never, select};
use platform::{clock, stop_signals::Signal};
use protocol::{
    name::{GUEST, RELAY},
    relay::{self, CHANGE, Change, RequestName},
    text::escaped,
};
use std::time::Duration;

/// The time between two attempts to join.
const RETRY_MS: u64 = 1000;

/// The interval between two queries of a daemon that reports no changes to this client.
pub(super) const POLL_MS: u64 = 1000;

/// Asks the daemon to report changes. Fails if the daemon is too old to do so, or refuses it.
pub(super) fn follow(client: &Client) -> Result<(), Failure> {
    let answer = call_with(client, RequestName::Tap, &relay::Tap { changes: true })?;
    let relay::Tap { changes } = parse(RequestName::Tap, &answer)?;
    if changes {
        return Ok(());
    }
    let failure = Failure::failed("the daemon is of an older version, which reports no changes");
    Err(failure.hint("`agent-relay up --replace` starts this version").refused("OLD"))
}

/// Returns the JSON of the change that a delivery carries.
pub(super) fn change_in(delivery: &Delivery) -> Option<&str> {
    data_of(delivery).filter(|_| delivery.from == RELAY && delivery.kind == CHANGE)
}

/// Parses a change.
pub(super) fn parse_change(json: &str) -> Result<Change<'_>, Failure> {
    parse(RequestName::Tap, json)
}

/// An event on the connection.
#[derive(Debug)]
pub(super) enum News {
    /// The daemon reports a change; this delivery carries it.
    Change(Box<Delivery>),
    /// The connection is lost, for this reason.
    Away(String),
    /// The connection is open again. Changes in between were not reported.
    Again,
    /// The time is over. Something may have changed if this client gets no changes.
    Time,
    /// This process got a signal.
    Signal(Signal),
}

/// The connection.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    options: &'a HomeOptions,
    open: Option<Open>,
    /// Whether the daemon reports changes to this client.
    is_notified: bool,
    retry_at: u64,
    signals: Receiver<Signal>,
}

/// The open connections. Requests have their own, since answers would wait behind unread changes.
#[derive(Debug)]
struct Open {
    changes: Client,
    requests: Client,
}

impl<'a> Changes<'a> {
    /// Joins a daemon that reports changes.
    pub(super) fn follow(
        options: &'a HomeOptions,
        signals: Receiver<Signal>,
    ) -> Result<Self, Failure> {
        let requests = join(options)?;
        if agent_around().is_some() || requests.name().starts_with(GUEST) {
            return Err(operators_only("events --follow"));
        }
        let changes = join_again(options)?;
        follow(&changes)?;
        let open = Some(Open { changes, requests });
        Ok(Self { options, open, is_notified: true, retry_at: 0, signals })
    }

    /// Joins a daemon, also one that reports no changes to this client.
    pub(super) fn join(
        options: &'a HomeOptions,
        signals: Receiver<Signal>,
    ) -> Result<Self, Failure> {
        let requests = join(options)?;
        let changes = join_again(options)?;
        let is_notified = is_notified(follow(&changes))?;
        let open = Some(Open { changes, requests });
        Ok(Self { options, open, is_notified, retry_at: 0, signals })
    }

    /// The open connection for requests.
    pub(super) fn client(&self) -> Option<&Client> {
        self.open.as_ref().map(|open| &open.requests)
    }

    /// Whether the daemon reports changes to this client.
    pub(super) const fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Drops the connection, which another request has shown to be lost.
    pub(super) fn lose(&mut self) {
        self.open = None;
        self.retry_at = clock::monotonic_ms() + RETRY_MS;
    }

    /// Waits for news, at most `ms` milliseconds.
    pub(super) fn next(&mut self, ms: Option<u64>) -> Result<News, Failure> {
        let until = ms.map(|ms| clock::monotonic_ms().saturating_add(ms));
        loop {
            let left = until.map(|until| until.saturating_sub(clock::monotonic_ms()));
            let news = match &self.open {
                Some(open) => receive(&open.changes, &self.signals, left),
                None => self.rejoin(left)?,
            };
            match news {
                Some(News::Away(why)) => {
                    self.lose();
                    return Ok(News::Away(why));
                }
                Some(news) => return Ok(news),
                None => {}
            }
        }
    }

    /// Waits until another attempt is due, and joins. `None` if there is no daemon yet.
    fn rejoin(&mut self, left: Option<u64>) -> Result<Option<News>, Failure> {
        let wait = self.retry_at.saturating_sub(clock::monotonic_ms());
        let is_short = left.is_some_and(|left| left < wait);
        select! {
            recv(self.signals) -> signal => {
                return Ok(signal.ok().map(News::Signal));
            }
            default(Duration::from_millis(left.map_or(wait, |left| left.min(wait)))) => {}
        }
        if is_short {
            return Ok(Some(News::Time));
        }
        self.retry_at = clock::monotonic_ms() + RETRY_MS;
        let joined =
            join_again(self.options).and_then(|changes| Ok((changes, join_again(self.options)?)));
        let Ok((changes, requests)) = joined else { return Ok(None) };
        match follow(&changes) {
            // The daemon has gone again.
            Err(failure) if !failure.is_refused() => return Ok(None),
            Err(failure) if self.is_notified => return Err(failure),
            _ => {}
        }
        self.open = Some(Open { changes, requests });
        Ok(Some(News::Again))
    }
}

/// Joins the daemon again, without a word.
pub(super) fn join_again(options: &HomeOptions) -> Result<Client, Failure> {
    let context = context(options)?;
    let identity = Identity::of_process(&context)?;
    Ok(context.try_join(&|endpoint| identity.settings(endpoint))?)
}

/// Whether the daemon reports changes. A failure other than a refusal is returned.
pub(super) fn is_notified(followed: Result<(), Failure>) -> Result<bool, Failure> {
    match followed {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_refused() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Receives one event. `None` if it is not news.
fn receive(client: &Client, signals: &Receiver<Signal>, left: Option<u64>) -> Option<News> {
    let time = left.map_or_else(never, |left| after(Duration::from_millis(left)));
    // Waits for: the daemon's changes and answers, signals, a time. While the daemon is away: 1 s
    // or signals.
    let event = select! {
        recv(client.events()) -> event => event.ok(),
        recv(signals) -> signal => return signal.ok().map(News::Signal),
        recv(time) -> _ => return Some(News::Time),
    };
    match event {
        Some(Event::Delivered(delivery)) => {
            change_in(&delivery).is_some().then_some(News::Change(delivery))
        }
        Some(Event::State(ConnectionState::Backoff { why, .. })) => Some(News::Away(escaped(&why))),
        Some(Event::Ended(ended)) => Some(News::Away(escaped(&ended.to_string()))),
        Some(_) => None,
        None => Some(News::Away("the connection has ended".to_owned())),
    }
}
