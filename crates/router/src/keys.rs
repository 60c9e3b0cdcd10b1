//! Keys of the router's tables: small, cheap to copy, and of one type for each table.

use slotmap::{Key as _, new_key_type};
use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

/// Defines a key that wraps a slotmap's key and counts its comparisons as steps in tests.
macro_rules! key {
    ($(#[$doc:meta])* $key:ident, $slot:ident) => {
        new_key_type! {
            /// The slotmap's own key, which the table's key wraps.
            pub(super) struct $slot;
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq)]
        pub(super) struct $key(pub(super) $slot);

        impl PartialEq for $key {
            fn eq(&self, other: &Self) -> bool {
                count_step();
                self.0 == other.0
            }
        }

        impl Hash for $key {
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write_u64(self.0.data().as_ffi());
            }
        }

        impl PartialOrd for $key {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $key {
            fn cmp(&self, other: &Self) -> Ordering {
                count_step();
                self.0.cmp(&other.0)
            }
        }
    };
}

key! {
    /// A known agent. After the agent is forgotten, its key finds nothing.
    AgentKey, AgentSlot
}

key! {
    /// An open stream of messages. After the stream is closed, its key finds nothing.
    StreamKey, StreamSlot
}

key! {
    /// A queued or unacknowledged message. After the message has ended, its key finds nothing.
    MessageKey, MessageSlot
}

#[cfg(test)]
thread_local! {
    #[allow(
        clippy::missing_const_for_thread_local,
        reason = "it has one; on Windows the lint sees what the macro makes of it"
    )]
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns how often this thread has compared keys and looked things up by them: a test's measure
/// of work.
#[cfg(test)]
pub(super) fn steps() -> u64 {
    STEPS.get()
}

/// Counts a comparison or a look-up in tests.
#[cfg(test)]
pub(super) fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

#[cfg(not(test))]
pub(super) const fn count_step() {}
