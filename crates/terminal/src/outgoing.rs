//! The message that an agent sends: extraction produces it, and the wrapper sends it to the daemon.

/// A message from the agent to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutgoingMessage {
    /// The recipient: an agent's name, `*` for everyone, a group, or the name of a person's command
    /// line. A guest's command line gets only answers.
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
    /// The id of the delivery that the message answers. Extraction copies it from `[reply:ID]`,
    /// which may have only the id's first characters. The terminal side replaces it with the whole
    /// id, or with `None` if there is no such delivery.
    pub reply_to: Option<String>,
}
