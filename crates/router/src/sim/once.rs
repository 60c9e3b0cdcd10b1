//! At-most-once messages: none is lost unless its sender is notified.

use super::sends::{Key, Sent, number_of};
use crate::oracle::{Checked, ensure};
use protocol::{
    deliver,
    envelope::Envelope,
    frame::PREFIX,
    payload::{MessagePayload, Nack},
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Once {
    /// Messages that the router held after the last input, with their senders' folded names.
    held: BTreeMap<Key, String>,
    /// Messages that were completely written since, and messages whose sender was notified since.
    written: BTreeSet<Key>,
    refused: BTreeSet<Key>,
    /// The at-most-once SEND to one recipient that is being handled, and its sender.
    sent: Option<(Key, String)>,
}

impl Once {
    /// Takes note of a SEND to one recipient, which the router reads.
    pub(super) fn sent(&mut self, key: Key, from: &str) {
        self.sent = Some((key, from.to_owned()));
    }

    /// Takes note of a frame that has left as a whole.
    pub(super) fn written(&mut self, frame: &[u8]) {
        let Ok(envelope) = Envelope::read(&frame[PREFIX..]) else { return };
        let Some(to) = &envelope.to else { return };
        if deliver::read(&envelope).is_ok_and(|delivery| !delivery.requires_ack)
            && let Ok(message) = serde_json::from_str::<MessagePayload<'_>>(envelope.payload)
            && let Some(number) = Sent::number(&message.body)
        {
            self.written.insert((number, to.to_lowercase()));
        }
    }

    /// Takes note that a sender is notified of a message that does not arrive, and returns its key.
    pub(super) fn refused(&mut self, nack: &Nack) -> Option<Key> {
        let number = number_of(&nack.ack_id)?;
        let direct = self.sent.take_if(|((sent, _), _)| *sent == number);
        let key = match &nack.to {
            Some(to) => (number, to.to_lowercase()),
            None => direct?.0,
        };
        self.refused.insert(key.clone());
        Some(key)
    }

    /// Takes note of a BUSY, which asks the sender to send again.
    pub(super) fn busy(&mut self, send_id: &str) {
        self.sent.take_if(|((sent, _), _)| Some(*sent) == number_of(send_id));
    }

    /// Checks that every message that the router no longer holds was written, or that its sender
    /// was notified. `stayed` are the members both before and after the input.
    pub(super) fn settle(
        &mut self,
        held: BTreeMap<Key, String>,
        stayed: &BTreeSet<String>,
    ) -> Checked {
        let before = std::mem::replace(&mut self.held, held);
        let sent = self.sent.take();
        for (key, from) in before.into_iter().chain(sent) {
            let is_settled = self.held.contains_key(&key)
                || self.written.contains(&key)
                || self.refused.contains(&key)
                || !stayed.contains(&from);
            ensure(is_settled, || format!("{key:?} is gone and {from} was not notified"))?;
        }
        self.written.clear();
        self.refused.clear();
        Ok(())
    }

    /// Forgets all messages: a crash may lose at-most-once messages.
    pub(super) fn crash(&mut self) {
        *self = Self::default();
    }
}
