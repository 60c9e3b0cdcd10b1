//! A message that an agent wants to send, as extraction reads it and the wrapper sends it.

/// A message from the agent to another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutgoingMessage {
    /// An agent's name, `*` for everyone, or the name of a person's command line, which can only be
    /// answered.
    pub to: String,
    /// The topic, from `[topic:T]` or a `#T` in place of a name.
    pub topic: Option<String>,
    /// The thread, from `[thread:ID]`.
    pub thread: Option<String>,
    /// The payload's kind: `message`, or a block's `type`.
    pub kind: String,
    /// The text.
    pub body: String,
    /// A block's `data`, as JSON text.
    pub data: Option<String>,
    /// A block's `meta`, as JSON text.
    pub meta: Option<String>,
    /// The id of the delivery that the message answers. Extraction gives it as `[reply:ID]` has it,
    /// which may be the first characters only; the bridge replaces it by the whole id or by `None`.
    pub reply_to: Option<String>,
}
