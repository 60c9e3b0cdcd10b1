//! A connection to one client: its stage and its window.

use super::send_window::Window;
use crate::{
    context::Context,
    frame::Frame,
    interface::{ClientId, Output, PeerProcess},
    keys::AgentKey,
    sender::SenderAuth,
};
use protocol::{
    Moment,
    activity::{Activity, ActivitySource},
    deliver::{Proof, RecipientText},
    name::Name,
    payload::{Capabilities, DIRECTORY_BYTES_MAX, Hello, PROGRAM_BYTES_MAX},
    secret::Hash,
};
use std::sync::Arc;

/// `answers_bytes_max` divided by this number is the most bytes of unread answers of a client whose
/// principal has used up its share of the memory.
const UNREAD_PARTS: usize = 16;

/// The time after which a client that has read nothing gets no more answers to questions, if it
/// leaves many unread.
const READING_MS: u64 = 2_000;

/// The most bytes of unread answers of a client that has not completed its handshake.
const STRANGER_ANSWERS_BYTES: usize = 32 << 10;

/// A connection to one client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) process: Option<PeerProcess>,
    pub(crate) stage: Stage,
    /// The agent in whose name the client sends, from WELCOME to the end of the connection.
    pub(crate) agent: Option<AgentKey>,
    pub(crate) window: Window,
    /// The last time at which bytes for the client were written, or nothing was left to write.
    pub(super) last_read: Moment,
    /// The time at which the last frame from the client arrived.
    pub(super) last_frame: Moment,
    /// The time of the last PING, until a frame from the client arrives.
    pub(super) pinged: Option<Moment>,
    /// The moment at which the client's timer fires.
    pub(crate) timer: Option<Moment>,
    /// Whether the client's frames wait, because the client leaves its answers unread or waits for
    /// a name.
    pub(crate) is_paused: bool,
    /// Whether a frame of the client has arrived.
    pub(crate) has_spoken: bool,
    /// Frames that are handed out once the store has the client's session; `None` if frames do not
    /// wait for that.
    pub(super) held: Option<Vec<Frame>>,
}

impl Client {
    pub(super) fn new(process: Option<PeerProcess>, since: Moment) -> Self {
        Self {
            process,
            stage: Stage::Unauthenticated { since },
            agent: None,
            window: Window::default(),
            last_read: since,
            last_frame: since,
            pinged: None,
            timer: None,
            is_paused: false,
            has_spoken: false,
            held: None,
        }
    }

    /// Returns the most bytes of unread answers with which the client's frames are handled. It is
    /// less while its principal's share of the memory is used up, as that may have many clients.
    pub(super) fn unread_max(&self, ctx: &Context) -> usize {
        let most = ctx.limits.answers_bytes_max;
        match self.agent {
            Some(agent)
                if self.window.answers() > most / UNREAD_PARTS
                    && !ctx.has_share_of_memory(agent, 0) =>
            {
                most / UNREAD_PARTS
            }
            None => most.min(STRANGER_ANSWERS_BYTES),
            Some(_) => most,
        }
    }

    /// Whether the client reads its answers, or has few unread ones.
    pub(super) fn reads(&self, ctx: &Context) -> bool {
        self.window.answers() <= self.unread_max(ctx)
            || ctx.now.monotonic.since(self.last_read) < READING_MS
    }

    /// Charges the client's agent for unwritten frames. A client without a handshake has no agent.
    pub(super) fn charge_unwritten(&self, ctx: &mut Context, bytes: usize) {
        match self.agent {
            Some(agent) => ctx.charge_memory(agent, bytes),
            None => ctx.memory.charge(bytes),
        }
    }

    pub(super) fn release_unwritten(&self, ctx: &mut Context, bytes: usize) {
        match self.agent {
            Some(agent) => ctx.release_memory(agent, bytes),
            None => ctx.memory.release(bytes),
        }
    }

    /// Makes the client's frames wait, or lets them be handled again.
    pub(super) fn set_paused(&mut self, ctx: &mut Context, id: ClientId, is_paused: bool) {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            ctx.emit(Output::SetPaused(id, is_paused));
        }
    }
}

/// The stage of a connection.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The handshake is not complete.
    Unauthenticated { since: Moment },
    /// The client waits for a name whose holder has to answer a PING.
    WaitingForName(Box<WaitingForName>),
    /// The handshake is complete: the client sends in an agent's name.
    Member(Box<Membership>),
    /// The connection is being closed: its last frames are still written.
    Closing { since: Moment },
    /// The connection is hung up: only [`Input::Disconnected`](crate::Input::Disconnected)
    /// is still to come.
    HungUp,
}

/// A client's request for a name, with its proof.
#[derive(Debug)]
pub(crate) struct Applicant {
    pub(crate) name: Name,
    pub(crate) capabilities: Capabilities,
    pub(crate) proof: Proof,
    /// The hash of the companion key that the agent's HELLO stated.
    pub(crate) companion_key: Option<Hash>,
    /// The hash of the token that it has shown, if it resumes a session.
    pub(crate) token: Option<Hash>,
    pub(crate) about: About,
}

/// An agent's own words about itself, for people. Nothing is decided by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) program: Option<Box<str>>,
    pub(crate) directory: Option<Box<str>>,
}

impl About {
    /// Takes what HELLO states. A text that is too long to be listed is left out.
    pub(crate) fn of(hello: &Hello) -> Self {
        let short = |text: &Option<String>, bytes_max: usize| {
            let text = text.as_deref().filter(|text| !text.is_empty() && text.len() <= bytes_max);
            text.map(Into::into)
        };
        Self {
            program: short(&hello.program, PROGRAM_BYTES_MAX),
            directory: short(&hello.directory, DIRECTORY_BYTES_MAX),
        }
    }
}

/// A client that waits for a name in use.
#[derive(Debug)]
pub(crate) struct WaitingForName {
    pub(super) until: Moment,
    /// The agent that has the name.
    pub(super) agent: AgentKey,
    pub(super) applicant: Applicant,
}

/// A client's right to send in an agent's name, from WELCOME to the end of the connection.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The sender of what the client sends.
    pub(crate) auth: Arc<SenderAuth>,
    /// The recipient of what the client gets, as DELIVERs state it.
    pub(crate) text: RecipientText,
    pub(crate) capabilities: Capabilities,
    /// Whether the store has recorded that the agent is connected. At-least-once DELIVERs wait for
    /// that: after a crash, the record tells that messages may have been sent to the agent.
    pub(super) is_recorded: bool,
    /// Whether the client proved that it got its WELCOME. Before that, the token by which it
    /// resumed its session stays valid, and its notices wait.
    pub(crate) knows_session: bool,
    /// The nonce of the PING whose PONG proves that; empty before that PING.
    pub(super) receipt_nonce: String,
    /// The hash of the key that a companion showed.
    pub(crate) companion_key: Option<Hash>,
    pub(crate) about: About,
    /// The agent's activity, as it has reported it.
    pub(crate) doing: Option<Doing>,
}

/// An agent's activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) activity: Activity,
    pub(crate) source: ActivitySource,
    /// The time since which it does that, in milliseconds since 1970.
    pub(crate) since: u64,
    /// Whether it has finished its work since its person last looked at it.
    pub(crate) unseen: bool,
}

impl Membership {
    pub(crate) fn new(name: &Name, auth: SenderAuth, capabilities: Capabilities) -> Self {
        let text = RecipientText::new(name.as_str(), &auth.session);
        let auth = Arc::new(auth);
        Self {
            auth,
            text,
            capabilities,
            is_recorded: false,
            knows_session: true,
            receipt_nonce: String::new(),
            companion_key: None,
            about: About::default(),
            doing: None,
        }
    }

    /// Whether the client is a companion or an operator. Such a client sends and gets answers, but
    /// no mail.
    pub(crate) fn is_beside(&self) -> bool {
        matches!(self.auth.proof, Proof::Companion | Proof::Operator)
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.auth.proof == Proof::Operator
    }

    /// Returns how many at-least-once DELIVERs may be in flight to the client.
    pub(crate) const fn in_flight_max(&self) -> u64 {
        let takes_any = self.is_recorded && self.capabilities.ack;
        if takes_any { self.capabilities.max_inflight } else { 0 }
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Client {
        pub(crate) const fn holds_frames(&self) -> bool {
            self.held.is_some()
        }
    }
}
