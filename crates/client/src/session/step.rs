//! The input and the outputs of one step of a session.

use crate::message::{Event, Forwarded, Outgoing, Reply, SendId};
use protocol::{code::NackCode, payload::Nack};

/// An input of a session.
#[derive(Debug)]
pub enum Input<'a> {
    /// The application wants a connection.
    Start,
    /// The stream that [`Output::Connect`] asked for is open.
    Connected,
    /// The stream that [`Output::Connect`] asked for could not be opened.
    NotConnected {
        /// The system's error.
        why: String,
        /// Whether there is no listener at the endpoint.
        absent: bool,
    },
    /// A whole frame's JSON arrived.
    Frame(&'a [u8]),
    /// The connection ended, for this reason.
    Disconnected(String),
    /// The application sends a message; [`Output::Released`] will return its weight.
    Send(SendId, Outgoing, usize),
    /// The application passes on a message, as in [`Input::Send`].
    Forward(Forwarded, usize),
    /// The application acknowledges a delivery, given by its id.
    Acknowledge(String),
    /// The application answers a question, which also acknowledges its delivery.
    /// [`Output::Released`] will return its weight.
    Answer(Reply, usize),
    /// The application returns a delivery.
    Return(Nack),
    /// The application subscribes to a pattern.
    Subscribe(String),
    /// The application unsubscribes from a pattern.
    Unsubscribe(String),
    /// The application closes the connection.
    Close,
    /// The application ends the connection without BYE, so that its session can be resumed.
    HangUp,
    /// The deadline has passed.
    Tick,
}

/// An action for the driver of a session.
#[derive(Debug)]
pub enum Output {
    /// Open a stream and report whether that worked.
    Connect,
    /// Write a frame.
    Frame(Vec<u8>),
    /// Write what is queued, then close the stream.
    Close,
    /// Close the stream at once.
    HangUp,
    /// A message or an answer of this weight no longer counts against the limit of the driver.
    Released(usize),
    /// Pass an event to the application.
    Event(Event),
}

impl Output {
    /// The event of a message or an answer that was not delivered.
    pub(super) fn refused(nack: Nack) -> Self {
        Self::Event(Event::Refused { send_id: SendId(nack.ack_id.clone()), nack })
    }

    /// The refusal of a message or an answer (`subject`) that does not fit into the connection's
    /// frames.
    pub(super) fn too_large(id: String, subject: &str, bytes: usize, bytes_max: usize) -> Self {
        let why = format!(
            "the {subject} takes {bytes} bytes; the daemon's max_frame_bytes is {bytes_max}"
        );
        Self::refused(Nack::new(id, NackCode::TooLarge, why))
    }
}
