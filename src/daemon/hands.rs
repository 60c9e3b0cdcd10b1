//! What the router's thread has in its hands: clients, their lanes, and what is to be sent off.

use super::client::Client;
use crate::router::{ClientId, FastMap, Frame, Output};

/// All clients, and whose lanes have something to send off.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) clients: FastMap<ClientId, Box<Client>>,
    pub(super) dirty: Vec<ClientId>,
    /// The machine has stopped.
    pub(super) stopped: bool,
}

impl Hands {
    /// Does it, as far as that needs no waiting. Gives back a frame whose bytes were taken over.
    pub(super) fn perform(&mut self, output: Output) -> Option<Frame> {
        match output {
            Output::Frame(id, frame) => {
                self.append(id, &frame);
                return Some(frame);
            }
            Output::Keep(_) => {}
            Output::Gate(id, open) => {
                if let Some(client) = self.clients.get(&id) {
                    client.gate.set_open(open);
                }
            }
            Output::Close(id, reason) => {
                tracing::debug!("client {}: closing: {reason:?}", id.0);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.closing = true;
                    // A gated reader has to find the end.
                    client.gate.set_open(true);
                    self.mark_dirty(id);
                }
            }
            Output::HangUp(id) => {
                if let Some(client) = self.clients.get(&id) {
                    client.gate.set_open(true);
                    client.stream.hang_up();
                }
            }
            Output::Log(line) => tracing::info!("{line}"),
            Output::Stopped => self.stopped = true,
        }
        None
    }

    fn append(&mut self, id: ClientId, frame: &Frame) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(lane) = &mut client.lane else { return };
        let waiting = lane.waiting();
        waiting.extend_from_slice(&frame.head);
        if let Some(shared) = &frame.shared {
            waiting.extend_from_slice(shared);
        }
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(id);
        }
    }

    pub(super) fn mark_dirty(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id)
            && !client.dirty
        {
            client.dirty = true;
            self.dirty.push(id);
        }
    }
}
