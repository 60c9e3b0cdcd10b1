//! The mail: messages, their streams and queues, dedup windows, replay buffers and dead letters.
//!
//! `table` has the only ways in and out: a message enters all tables in [`Mail::insert`] and leaves
//! them in [`Mail::remove`], or in [`Mail::take_out`] when its frame is handed out. These functions
//! also charge the queue for the message and set its timer.

mod dead_letters;
mod dedup;
mod dedup_windows;
mod deliveries;
mod idle_streams;
mod mailbox;
mod message;
mod messages;
mod numbers;
mod outbox;
mod replay;
mod report_counts;
mod retention;
mod sent;
mod stream;
mod streams;
mod table;

pub(super) use dedup::SendState;
#[cfg(test)]
pub(super) use mailbox::Mailbox;
pub(super) use message::{
    HEAD_BYTES_MAX, Message, QueueState, RECORD_BYTES, Reliable, UnreadNotice,
};
pub(super) use outbox::Load;
#[cfg(test)]
pub(super) use report_counts::bytes_of_report;
pub(super) use sent::Sent;
#[cfg(test)]
pub(super) use stream::Stream;
pub(super) use table::{DetachedStreams, Mail};
