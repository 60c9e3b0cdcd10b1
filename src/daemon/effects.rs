//! The execution of the router's outputs: writing to clients, the store and the policy thread.

use super::{
    client_handle::ClientHandle, policy_thread::PolicyReloader, store_thread::StoreHandle,
};
use crate::router::{ClientId, Frame, Output};
use rustc_hash::FxHashMap;

/// The executor of the router's outputs.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) store: StoreHandle,
    pub(super) reloader: PolicyReloader,
    pub(super) clients: FxHashMap<ClientId, Box<ClientHandle>>,
    /// Clients whose lanes have something to write.
    pub(super) dirty: Vec<ClientId>,
    /// Whether the router has stopped.
    pub(super) stopped: bool,
}

impl Effects {
    pub(super) fn new(store: StoreHandle, reloader: PolicyReloader) -> Self {
        let (clients, dirty, stopped) = (FxHashMap::default(), Vec::new(), false);
        Self { store, reloader, clients, dirty, stopped }
    }

    /// Executes an output without waiting: frames go to lanes, which are flushed later. Returns a
    /// frame whose bytes were copied, so that its buffers can be used again.
    pub(super) fn execute(&mut self, output: Output) -> Option<Frame> {
        match output {
            Output::Frame(id, frame) => {
                self.append(id, &frame);
                return Some(frame);
            }
            Output::Persist(change) => self.store.push(change),
            Output::Query(id, query) => self.store.query(id.0, *query),
            Output::Reload(id) => self.reloader.reload(Some(id)),
            Output::SetReading(id, open) => {
                if let Some(client) = self.clients.get(&id) {
                    client.set_read_paused(!open);
                }
            }
            Output::Close(id, reason) => {
                tracing::debug!("client {}: closing: {reason:?}", id.0);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.closing = true;
                    // A paused reader would not notice the end of the stream.
                    client.set_read_paused(false);
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
        let unsent = lane.unsent();
        unsent.extend_from_slice(&frame.head);
        if let Some(shared) = &frame.shared {
            unsent.extend_from_slice(shared);
        }
        client.mark_dirty(id, &mut self.dirty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        daemon::{
            client_threads::{ReaderContext, start},
            event::Event,
        },
        link::BufferedBytes,
        protocol::frame,
    };
    use crossbeam_channel::bounded;
    use platform::{
        endpoint::Endpoint,
        paths,
        peer::User,
        transport::{Listener, Stream},
    };
    use std::{env, fs, io::Write, process, time::Duration};

    #[test]
    fn hang_up_ends_a_client_whose_reading_is_paused() {
        let folder = env::temp_dir().join(format!("ar-effects-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let near = Stream::connect(&endpoint).unwrap();
        let (inbox, events) = bounded(1);
        let (buffered, owner) = (BufferedBytes::default(), User::me().unwrap());
        let context = ReaderContext {
            inbox,
            frame_bytes_max: 1_000,
            buffered,
            half_read_bytes_max: 1_000,
            owner,
        };
        let reader = start(ClientId(1), listener.accept().unwrap(), &context).unwrap();
        drop(context);
        let Ok(Event::Accepted(_, client)) = events.recv() else {
            panic!("the client is accepted")
        };
        client.set_read_paused(true);
        // After at most one more frame, the reader pauses.
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
