//! The execution of the router's outputs: writing to clients, the store and the policy thread.

use super::{
    client_handle::ClientHandle, entry::Entry, policy_thread::PolicyReloader,
    store_thread::StoreHandle,
};
use router::{ClientId, Frame, Output, schedule::Schedule};
use rustc_hash::FxHashMap;

/// The unsent bytes with which a lane is written before the others.
const FULL_BYTES: usize = 64 * 1024;

/// The executor of the router's outputs.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) store: StoreHandle,
    pub(super) reloader: PolicyReloader,
    pub(super) clients: FxHashMap<ClientId, Box<ClientHandle>>,
    /// The frames that the router has not handled, by client.
    pub(super) schedule: Schedule<Entry>,
    /// Clients whose lanes have something to write.
    pub(super) dirty: Vec<ClientId>,
    /// Clients whose lanes have so much to write that it should not wait.
    pub(super) full: Vec<ClientId>,
    /// Whether the router has stopped.
    pub(super) stopped: bool,
}

impl Effects {
    pub(super) fn new(store: StoreHandle, reloader: PolicyReloader) -> Self {
        let (clients, schedule) = (FxHashMap::default(), Schedule::default());
        let (dirty, full) = (Vec::new(), Vec::new());
        Self { store, reloader, clients, schedule, dirty, full, stopped: false }
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
            Output::SetPaused(id, is_paused) => {
                // The frames of a client that is gone do not wait for its reading.
                let is_here = self.clients.get(&id).is_some_and(|client| client.lane.is_some());
                self.schedule.set_blocked(id, is_paused && is_here);
            }
            Output::Operator(id) => self.schedule.make_operator(id),
            Output::Close(id, reason) => {
                tracing::debug!("client {}: closing: {reason:?}", id.0);
                self.drop_frames(id);
                self.store.forget(id.0);
                if let Some(client) = self.clients.get_mut(&id) {
                    client.closing = true;
                    client.lift_read_quota();
                    client.mark_dirty(id, &mut self.dirty);
                }
            }
            Output::HangUp(id) => self.hang_up(id),
            Output::Log(line) => tracing::info!("{line}"),
            Output::Stopped => self.stopped = true,
        }
        None
    }

    /// Adds a client, whose reader has started.
    pub(super) fn add(&mut self, id: ClientId, client: Box<ClientHandle>) {
        self.clients.insert(id, client);
        self.schedule.add(id);
    }

    /// Removes a client whose reader has ended.
    pub(super) fn remove(&mut self, id: ClientId) {
        self.clients.remove(&id);
        self.schedule.remove(id);
        self.store.forget(id.0);
    }

    /// Ends a client's connection at once. Frames that it sent are still handled, even if they had
    /// to wait until it reads its answers: it will not.
    pub(super) fn hang_up(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.hang_up();
            client.lane = None;
        }
        self.schedule.set_blocked(id, false);
    }

    /// Drops a client's frames that wait for its turn. The report of its end stays.
    fn drop_frames(&mut self, id: ClientId) {
        self.schedule.discard(id, |entry| matches!(entry, Entry::Ended));
    }

    fn append(&mut self, id: ClientId, frame: &Frame) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(lane) = &mut client.lane else { return };
        let unsent = lane.unsent();
        let before = unsent.len();
        unsent.extend_from_slice(&frame.head);
        if let Some(shared) = &frame.shared {
            unsent.extend_from_slice(shared);
        }
        if (before..unsent.len()).contains(&FULL_BYTES) {
            self.full.push(id);
        }
        client.mark_dirty(id, &mut self.dirty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{
        client_threads::{ReaderContext, start},
        event::Event,
    };
    use client::link::{BufferedBytes, HalfRead};
    use crossbeam_channel::bounded;
    use platform::{
        endpoint::Endpoint,
        paths,
        peer::User,
        transport::{Listener, Stream},
    };
    use protocol::frame;
    use std::{env, fs, io::Write, process, time::Duration};

    #[test]
    fn hang_up_ends_a_client_whose_reader_waits_for_its_quota() {
        let folder = env::temp_dir().join(format!("ar-effects-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let near = Stream::connect(&endpoint).unwrap();
        let (inbox, events) = bounded(16);
        let (buffered, owner) = (BufferedBytes::default(), User::me().unwrap());
        let half_read = HalfRead::new(1_000);
        let (_router, router_ended) = bounded(1);
        let context = ReaderContext {
            inbox,
            frame_bytes_max: 1 << 20,
            buffered,
            half_read,
            owner,
            router_ended,
        };
        let reader = start(ClientId(1), listener.accept().unwrap(), &context).unwrap();
        drop(context);
        let Ok(Event::Accepted(_, client)) = events.recv() else {
            panic!("the client is accepted")
        };
        // The first frame uses the quota up, so that the reader waits with the second one.
        let json = format!(
            r#"{{"v":1,"type":"SEND","id":"i","ts":1,"to":"Bob","payload":{{"body":"{}"}}}}"#,
            "x".repeat(300_000)
        );
        let mut bytes = Vec::new();
        frame::append(&mut bytes, |frame| frame.extend_from_slice(json.as_bytes()));
        (&near).write_all(&bytes.repeat(2)).unwrap();
        let mut taken = vec![events.recv().unwrap()];
        client.hang_up();
        drop(client);
        while let Ok(event) = events.recv_timeout(Duration::from_secs(10)) {
            taken.push(event);
        }
        let last = taken.last();
        assert!(matches!(last, Some(Event::Ended(_))), "{last:?}");
        reader.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
