//! At-most-once messages: each that the router holds no longer was written, or its sender was notified.

use super::promises::{Key, Sent, number_of};
use crate::{
    protocol::{
        deliver,
        envelope::Envelope,
        frame::PREFIX,
        payload::{MessagePayload, Nack},
    },
    router::testbed::{Checked, ensure},
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Once {
    /// What the router held after the last input, and the senders' folded names.
    held: BTreeMap<Key, String>,
    /// What was written, and what senders were notified of, since.
    written: BTreeSet<Key>,
    refused: BTreeSet<Key>,
    /// The recipient of the SEND that is handled, and its sender.
    sent: Option<(Key, String)>,
}

impl Once {
    /// The router reads a SEND to one recipient.
    pub(super) fn sent(&mut self, key: Key, from: &str) {
        self.sent = Some((key, from.to_owned()));
    }

    /// A frame has left as a whole.
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

    /// A sender is notified that a message does not arrive: returns which.
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

    /// A sender is to send again.
    pub(super) fn busy(&mut self, send_id: &str) {
        self.sent.take_if(|((sent, _), _)| Some(*sent) == number_of(send_id));
    }

    /// Compares, after an input, with what the router holds now. `stayed` are the members before and after it.
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

    /// A crash loses all of them.
    pub(super) fn crash(&mut self) {
        *self = Self::default();
    }
}
