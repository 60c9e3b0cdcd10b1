//! The results of extraction: messages, and problems to report to the agent.

use crate::outgoing::OutgoingMessage;

/// A result of extraction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Extracted {
    /// A message to send.
    Message(OutgoingMessage),
    /// A problem to report to the agent.
    Problem(Problem),
}

/// A problem: a text that looks like a message and cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The rule that the text breaks.
    pub fault: Fault,
    /// A sentence for the agent that says what is wrong and how to correct it.
    pub sentence: String,
    /// The beginning of the text's first line.
    pub line: String,
}

/// The rules that a text can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The opening line has a target, tag or topic that is not allowed.
    OpeningLine,
    /// The message or block is not closed.
    Unclosed,
    /// The block is not valid JSON of the required form.
    Block,
    /// The body exceeds the limit.
    TooLarge,
    /// The body is empty.
    Empty,
    /// The message is in a frame of another message, which the agent quotes.
    Quoted,
    /// The message is in a code fence that was never closed.
    Fenced,
    /// The message was overwritten on the screen before it was closed.
    Overwritten,
    /// The arrow follows other text on its line.
    Misplaced,
}

/// Splits results into messages and problems.
pub(super) fn split(extracted: Vec<Extracted>) -> (Vec<OutgoingMessage>, Vec<Problem>) {
    let (mut messages, mut problems) = (Vec::new(), Vec::new());
    for result in extracted {
        match result {
            Extracted::Message(message) => messages.push(message),
            Extracted::Problem(problem) => problems.push(problem),
        }
    }
    (messages, problems)
}
