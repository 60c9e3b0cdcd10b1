//! The agent's turn: its work on one prompt, as shown by its output.

use crate::extract::SILENCE_MS;
use protocol::Moment;

/// How long the agent must be silent before the recipe is asked whether it looks idle.
const IDLE_MS: u64 = 350;

/// Whether the agent may still be at work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Turn {
    #[default]
    Over,
    Open {
        /// When the child last printed or got a prompt.
        changed_at: Moment,
        /// Whether the recipe was already asked since then if the agent looks idle.
        idle_asked: bool,
    },
}

impl Turn {
    /// Notes that the child printed or got a prompt, and begins a turn if none is open.
    pub(super) fn change(&mut self, now: Moment) {
        *self = Self::Open { changed_at: now, idle_asked: false };
    }

    pub(super) fn end(&mut self) {
        *self = Self::Over;
    }

    /// Returns when [`Turn::is_over`] may change its answer. `shows_idle` says that the recipe
    /// recognises an idle agent.
    pub(super) fn deadline(&self, shows_idle: bool) -> Option<Moment> {
        match *self {
            Self::Over => None,
            Self::Open { changed_at, idle_asked: false } if shows_idle => {
                Some(changed_at.plus(IDLE_MS))
            }
            Self::Open { changed_at, .. } => Some(changed_at.plus(SILENCE_MS)),
        }
    }

    /// Whether an open turn has ended: the agent `looks_idle`, or was silent for a long time.
    pub(super) fn is_over(&mut self, now: Moment, looks_idle: impl FnOnce() -> bool) -> bool {
        let Self::Open { changed_at, idle_asked } = self else { return false };
        let quiet_ms = now.since(*changed_at);
        if quiet_ms < IDLE_MS {
            return false;
        }
        *idle_asked = true;
        quiet_ms >= SILENCE_MS || looks_idle()
    }
}
