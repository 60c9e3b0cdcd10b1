//! What the router's thread has in its hands: clients, their lanes, and what is to be sent off.

use super::{reloading::Reloading, storing::Storing};
use crate::{
    link::{Gate, Lane, WriterWire},
    router::{ClientId, FastMap, Frame, Output},
};
use platform::transport::Stream;
use std::{mem, sync::Arc};

/// What the router's thread needs of a client.
#[derive(Debug)]
pub(super) struct Client {
    stream: Stream,
    /// To write; gone once the client is being closed and everything was handed over.
    pub(super) lane: Option<Lane<WriterWire>>,
    /// To stop reading.
    gate: Arc<Gate>,
    /// Whether it is to be closed once its lane has handed everything over.
    pub(super) closing: bool,
    /// Whether it is in the list of lanes to flush.
    pub(super) dirty: bool,
}

impl Client {
    pub(super) const fn new(stream: Stream, lane: Lane<WriterWire>, gate: Arc<Gate>) -> Self {
        Self { stream, lane: Some(lane), gate, closing: false, dirty: false }
    }

    /// Ends it now, whatever is still to be written.
    pub(super) fn hang_up(&self) {
        // A gated reader has to find the end.
        self.gate.set_open(true);
        self.stream.hang_up();
    }

    /// Puts its lane into the list of those to flush, once.
    pub(super) fn mark_dirty(&mut self, id: ClientId, dirty: &mut Vec<ClientId>) {
        if !mem::replace(&mut self.dirty, true) {
            dirty.push(id);
        }
    }
}

/// All clients, and whose lanes have something to send off.
#[derive(Debug)]
pub(super) struct Hands {
    pub(super) storing: Storing,
    pub(super) reloading: Reloading,
    pub(super) clients: FastMap<ClientId, Box<Client>>,
    pub(super) dirty: Vec<ClientId>,
    /// The machine has stopped.
    pub(super) stopped: bool,
}

impl Hands {
    pub(super) fn new(storing: Storing, reloading: Reloading) -> Self {
        let (clients, dirty, stopped) = (FastMap::default(), Vec::new(), false);
        Self { storing, reloading, clients, dirty, stopped }
    }

    /// Does it, as far as that needs no waiting. Gives back a frame whose bytes were taken over.
    pub(super) fn perform(&mut self, output: Output) -> Option<Frame> {
        match output {
            Output::Frame(id, frame) => {
                self.append(id, &frame);
                return Some(frame);
            }
            Output::Keep(change) => self.storing.push(change),
            Output::Query(id, query) => self.storing.ask(id.0, *query),
            Output::Reload(id) => self.reloading.begin(Some(id)),
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
                    client.mark_dirty(id, &mut self.dirty);
                }
            }
            Output::HangUp(id) => {
                if let Some(client) = self.clients.get(&id) {
                    client.hang_up();
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
        client.mark_dirty(id, &mut self.dirty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        daemon::{
            client::{Surroundings, start},
            event::Event,
        },
        link::Held,
        protocol::frame,
    };
    use crossbeam_channel::bounded;
    use platform::{endpoint::Endpoint, paths, peer::User, transport::Listener};
    use std::{env, fs, io::Write, process, time::Duration};

    #[test]
    fn who_is_hung_up_ends_though_its_gate_is_shut() {
        let folder = env::temp_dir().join(format!("ar-hands-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let near = Stream::connect(&endpoint).unwrap();
        let (inbox, events) = bounded(1);
        let (held, owner) = (Held::default(), User::me().unwrap());
        let all =
            Surroundings { inbox, frame_bytes_max: 1_000, held, half_read_bytes_max: 1_000, owner };
        let reader = start(ClientId(1), listener.accept().unwrap(), &all).unwrap();
        drop(all);
        let Ok(Event::Accepted(_, client)) = events.recv() else { panic!("it begins") };
        client.gate.set_open(false);
        // Wherever the reader is, it stands before its gate after one frame.
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(b"{}");
        frame::seal(&mut bytes, 0, 0);
        (&near).write_all(&bytes).unwrap();
        client.hang_up();
        drop(client);
        let mut last = None;
        while let Ok(event) = events.recv_timeout(Duration::from_secs(10)) {
            last = Some(event);
        }
        assert!(matches!(last, Some(Event::Ended(_))), "{last:?}");
        reader.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
