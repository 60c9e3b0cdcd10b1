//! Subscriptions: the patterns that the application wants, and those that the daemon has confirmed.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

/// The most patterns of one client. The daemon limits their number, too.
pub(super) const SUBSCRIPTIONS_MAX: usize = 256;

/// The patterns that the application wants, and others that the daemon may still have.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    patterns: BTreeMap<String, Subscription>,
    /// Requests of this connection without an answer, by the envelope's id.
    requests: HashMap<String, Request>,
}

#[derive(Debug)]
struct Subscription {
    wanted: bool,
    state: State,
}

/// The progress of telling the daemon about a subscription or its end.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The request has not been sent yet.
    Unsent,
    /// The request with this id is unanswered.
    Sent(String),
    /// The daemon has confirmed the subscription.
    Confirmed,
}

/// A SUBSCRIBE or an UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) pattern: String,
    /// True for SUBSCRIBE.
    pub(super) wanted: bool,
}

impl Subscriptions {
    /// Adds a pattern. False if there are [`SUBSCRIPTIONS_MAX`] others.
    pub(super) fn add(&mut self, pattern: &str) -> bool {
        if self.patterns.len() == SUBSCRIPTIONS_MAX && !self.patterns.contains_key(pattern) {
            return false;
        }
        let subscription = Subscription { wanted: true, state: State::Unsent };
        self.patterns.insert(pattern.to_owned(), subscription);
        true
    }

    /// Marks a pattern as no longer wanted. Returns false if it was not wanted before.
    pub(super) fn cancel(&mut self, pattern: &str) -> bool {
        let Some(subscription) = self.patterns.get_mut(pattern) else { return false };
        subscription.state = State::Unsent;
        mem::take(&mut subscription.wanted)
    }

    /// Notes that a request was sent with this id.
    pub(super) fn sent(&mut self, id: String, request: Request) {
        if let Some(subscription) = self.patterns.get_mut(&request.pattern) {
            subscription.state = State::Sent(id.clone());
        }
        self.requests.insert(id, request);
    }

    /// Handles an ACK. Returns the SUBSCRIBE or UNSUBSCRIBE that the ACK answers, if any.
    pub(super) fn confirmed(&mut self, id: &str) -> Option<Request> {
        let request = self.requests.remove(id)?;
        if let Some(subscription) = self.last_sent(id, &request.pattern) {
            subscription.state = State::Confirmed;
            if !request.wanted {
                self.patterns.remove(&request.pattern);
            }
        }
        Some(request)
    }

    /// Handles a NACK. Returns the SUBSCRIBE or UNSUBSCRIBE that the NACK answers, if any.
    pub(super) fn refused(&mut self, id: &str) -> Option<Request> {
        let request = self.requests.remove(id)?;
        if self.last_sent(id, &request.pattern).is_some() {
            self.patterns.remove(&request.pattern);
        }
        Some(request)
    }

    /// The subscription to a pattern, if the request with this id is the last one about it.
    fn last_sent(&mut self, id: &str, pattern: &str) -> Option<&mut Subscription> {
        let subscription = self.patterns.get_mut(pattern)?;
        matches!(&subscription.state, State::Sent(last) if last == id).then_some(subscription)
    }

    /// Handles the loss of the connection: requests without an answer have to be sent again.
    pub(super) fn disconnected(&mut self) {
        self.requests.clear();
        let unconfirmed = |subscription: &&mut Subscription| subscription.state != State::Confirmed;
        for subscription in self.patterns.values_mut().filter(unconfirmed) {
            subscription.state = State::Unsent;
        }
    }

    /// Handles a new session: the daemon has no subscriptions for it.
    pub(super) fn new_session(&mut self) {
        self.patterns.retain(|_, subscription| subscription.wanted);
        for subscription in self.patterns.values_mut() {
            subscription.state = State::Unsent;
        }
    }

    /// The requests that have to be sent.
    pub(super) fn unsent(&self) -> Vec<Request> {
        let unsent = |(pattern, subscription): (&String, &Subscription)| {
            let request = || Request { pattern: pattern.clone(), wanted: subscription.wanted };
            (subscription.state == State::Unsent).then(request)
        };
        self.patterns.iter().filter_map(unsent).collect()
    }
}
