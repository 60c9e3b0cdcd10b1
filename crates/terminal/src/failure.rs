//! Failed deliveries of the agent's messages, and how the notices are worded.
//!
//! A message that is refused at once is worded like one that fails later. [`to_line`] flattens text
//! from other agents and from the daemon to one line.

use super::output::SendHandle;
use protocol::{
    code::NackCode,
    name::{self, OPERATOR},
    text::is_hidden,
};

/// The maximum length of a recipient's name in a notice, in characters.
pub(super) const RECIPIENT_CHARS: usize = 64;
/// The maximum length of a reason in a notice, in characters.
const WHY_CHARS: usize = 400;
/// The maximum length of an id in a notice, in characters.
const ID_CHARS: usize = 64;

/// A failed delivery: a message from the agent that did not reach its recipient, or one of its
/// recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// The message's handle, or `None` if the message is no longer known.
    pub handle: Option<SendHandle>,
    /// The id of the SEND, if the message was sent.
    pub id: Option<String>,
    /// The recipient that did not get the message, if the daemon names it.
    pub to: Option<String>,
    /// The component that gave up.
    pub cause: FailureCause,
    /// A sentence that says why.
    pub why: String,
}

/// The component that gave up on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The daemon, or the recipient through the daemon, by a NACK with this code.
    Nack(NackCode),
    /// The wrapper, which did not send the message, or the daemon, which rejected it with a code
    /// unknown to the wrapper.
    Unsent,
    /// The relay, which ended for good before it answered.
    Unanswered,
}

impl DeliveryFailure {
    /// Returns a copy with each foreign text as one short line.
    pub(super) fn flattened(&self) -> Self {
        let Self { handle, cause, .. } = *self;
        let id = self.id.as_deref().map(|id| to_line(id, ID_CHARS));
        let to = self.to.as_deref().map(|to| to_line(to, RECIPIENT_CHARS));
        Self { handle, id, to, cause, why: to_line(&self.why, WHY_CHARS) }
    }

    /// Returns a clause that says what happened to the message, and why.
    pub(super) fn outcome(&self) -> String {
        let verb = match self.cause {
            FailureCause::Nack(NackCode::SyncTimeout) => "has no answer",
            FailureCause::Nack(_) | FailureCause::Unsent => "was not delivered",
            FailureCause::Unanswered => "may be lost",
        };
        let why = self.why.trim_end_matches('.');
        match self.cause {
            // The daemon puts the recipient's name and a colon before the recipient's own words.
            FailureCause::Nack(NackCode::Refused) => match why.split_once(": ") {
                Some((recipient, words)) => format!("{verb}: {recipient}: \"{words}\""),
                None => format!("{verb}: \"{why}\""),
            },
            _ => format!("{verb}: {why}"),
        }
    }
}

/// Returns advice to the agent about a failure. Only the agent's user can redeliver a dead letter.
pub(super) fn advice(cause: FailureCause, to: &str, id: &str) -> String {
    let is_unread = matches!(cause, FailureCause::Nack(NackCode::Expired | NackCode::Refused));
    if to == OPERATOR && is_unread {
        return "Say it in your answer to your user.".to_owned();
    }
    if name::is_daemons(to) && to != OPERATOR {
        let answer = "only a question that waits is answered there, with its `[reply:ID]`";
        return format!("Say it in your answer to your user: {answer}.");
    }
    let code = match cause {
        FailureCause::Nack(code) => code,
        FailureCause::Unsent => return "Send it again if it still matters.".to_owned(),
        FailureCause::Unanswered => {
            return format!(
                "Your user can see with `agent-relay status {id}` whether the relay has it; do not send \
                 it again before."
            );
        }
    };
    let dead_letter = |first: &str| {
        format!(
            "{first}, or ask your user: `agent-relay history --dead` lists it, `agent-relay redeliver {id}` \
             sends it again."
        )
    };
    match code {
        NackCode::Expired => dead_letter(&format!(
            "`agent-relay agents` shows whether {to} is here; send it again if it still matters"
        )),
        NackCode::GaveUp => dead_letter("Send it again in another form if it still matters"),
        NackCode::Refused => dead_letter("Correct it and send it again"),
        NackCode::SyncTimeout => {
            "The message itself may still be delivered: ask again, or go on without the answer."
                .to_owned()
        }
        NackCode::Invalid => "Correct it and send it again.".to_owned(),
        NackCode::UnknownAgent => "Check the name and send it again.".to_owned(),
        NackCode::AgentOffline => {
            "Send it again once the agent is connected, or continue without it.".to_owned()
        }
        NackCode::Forbidden | NackCode::Unauthorized => {
            "Do not send it again: your user decides who may do that.".to_owned()
        }
        NackCode::NoAck => format!("What you send cannot reach {to}; tell your user."),
        NackCode::TooLarge => {
            "Send it in smaller parts, or put it into a file and send its name.".to_owned()
        }
        NackCode::Limit => "Wait a while, then send it again.".to_owned(),
        NackCode::StoreFailed => "Tell your user; `agent-relay status` shows more.".to_owned(),
        NackCode::Stale | NackCode::NotFound => "Send it again if it still matters.".to_owned(),
    }
}

/// Returns a foreign text as one line of at most `chars_max` characters, plus an ellipsis.
///
/// Brackets become parentheses, and double quotation marks single ones. As a result, no part of the
/// line can end the quotation around it, or be read as a frame, an opening line or a block.
pub(super) fn to_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut left = chars_max;
    let is_shown = |c: &char| !is_hidden(*c) && !c.is_whitespace();
    for word in text.split_whitespace() {
        let mut characters = word.chars().filter(is_shown).peekable();
        if characters.peek().is_none() {
            continue;
        }
        let blank = (!line.is_empty()).then_some(' ');
        for character in blank.into_iter().chain(characters) {
            if left == 0 {
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            left -= 1;
            line.push(match character {
                '[' | '<' => '(',
                ']' | '>' => ')',
                '"' | '`' => '\'',
                other => other,
            });
        }
    }
    line
}
