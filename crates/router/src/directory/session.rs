//! Sessions: the part of an agent's stay that outlives its connection, and the tokens that resume
//! it.

use protocol::{
    Moment,
    payload::Capabilities,
    secret::{Hash, hashes_equal},
    topic::Pattern,
};
use std::{collections::VecDeque, sync::Arc};

/// An agent's session, from HELLO until BYE, the end of the resume window, or the next fresh
/// session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    /// The hash of the token that the last WELCOME stated.
    pub(super) token: Hash,
    /// The hash of the token that resumed the session, which is valid until the client has proved
    /// that it got that WELCOME.
    pub(super) former: Option<Hash>,
    /// Hashes of used tokens, the latest last. A client that states a used token may have stolen
    /// it. After a restart, only the latest used token is known.
    pub(super) spent: VecDeque<Hash>,
    /// The time at which the token expires, while the agent is away.
    pub(super) expires: Option<Moment>,
    pub(crate) capabilities: Capabilities,
    pub(crate) subscriptions: Vec<Pattern>,
}

impl Session {
    pub(super) fn new(id: Arc<str>, token: Hash) -> Self {
        Self {
            id,
            token,
            former: None,
            spent: VecDeque::new(),
            expires: None,
            capabilities: Capabilities::default(),
            subscriptions: Vec::new(),
        }
    }

    /// Returns the hashes of all tokens that are recognised, used or not.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Hash> {
        self.spent.iter().chain(&self.former).chain([&self.token])
    }

    /// Whether the token with this hash is valid.
    pub(super) fn accepts(&self, hash: &Hash) -> bool {
        self.former.iter().chain([&self.token]).any(|valid| hashes_equal(valid, hash))
    }

    /// Whether the session can be resumed.
    pub(crate) fn is_good_at(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Session {
        pub(crate) const fn expires(&self) -> Option<Moment> {
            self.expires
        }
    }
}
