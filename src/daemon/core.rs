//! The router's thread: waits for its inbox and nothing else, and does what the machine says.

use super::{event::Event, hands::Hands, spin::Spin};
use crate::{
    link::Held,
    protocol::{Moment, Now},
    router::{ClientId, Input, Output, Router},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Events taken before what they gave rise to is written.
const EVENTS_BEFORE_FLUSH: usize = 256;

/// Change of what is held outside the machine that is worth telling it.
const HELD_STEP_BYTES: usize = 1024 * 1024;

/// The machine, its ears and its hands.
pub(super) struct Core {
    router: Router,
    inbox: Receiver<Event>,
    held: Held,
    held_told: usize,
    hands: Hands,
    outputs: Vec<Output>,
    spin: Spin,
}

impl Core {
    pub(super) fn new(router: Router, inbox: Receiver<Event>, held: Held) -> Self {
        Self {
            router,
            inbox,
            held,
            held_told: 0,
            hands: Hands::default(),
            outputs: Vec::new(),
            spin: Spin::default(),
        }
    }

    /// Runs until the machine says that it has stopped, which the end of `news` tells; then until nobody
    /// has a way into the inbox any more.
    pub(super) fn run(mut self, news: Sender<()>) {
        while !self.hands.stopped {
            let event = self.wait();
            let now = now();
            if let Some(event) = event {
                self.take(now, event);
                for _ in 1..EVENTS_BEFORE_FLUSH {
                    let Ok(event) = self.inbox.try_recv() else { break };
                    self.take(now, event);
                }
            }
            self.tell_held(now);
            if self.router.deadline().is_some_and(|deadline| deadline <= now.monotonic) {
                self.handle(now, Input::Tick);
            }
            self.flush(now);
        }
        for client in self.hands.clients.values() {
            client.stream.hang_up();
        }
        self.hands.clients.clear();
        drop(news);
        // Who came meanwhile has a lane in the inbox, and its writer would wait for ever: what is left in
        // a channel is not dropped with its receiver.
        for event in &self.inbox {
            if let Event::Accepted(_, client) = event {
                client.stream.hang_up();
            }
        }
    }

    fn wait(&mut self) -> Option<Event> {
        if let Some(event) = self.spin.receive(&self.inbox) {
            return Some(event);
        }
        let Some(deadline) = self.router.deadline() else {
            return Some(self.inbox.recv().expect("the keeper holds a sender"));
        };
        let left = deadline.since(now().monotonic);
        match self.inbox.recv_timeout(Duration::from_millis(left)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the keeper holds a sender"),
        }
    }

    fn take(&mut self, now: Now, event: Event) {
        match event {
            Event::Accepted(id, client) => {
                self.hands.clients.insert(id, client);
                self.handle(now, Input::Connected(id));
            }
            Event::Batch(id, batch) => {
                self.held.subtract(batch.bytes());
                for json in batch.frames() {
                    self.handle(now, Input::Frame(id, json));
                }
            }
            Event::Violated(id, violation) => self.handle(now, Input::Violated(id, violation)),
            Event::Written(id, buffer) => {
                let bytes = buffer.len();
                if let Some(client) = self.hands.clients.get_mut(&id) {
                    if let Some(lane) = &mut client.lane {
                        lane.written(buffer);
                    }
                    client.mark_dirty(id, &mut self.hands.dirty);
                    self.handle(now, Input::Written(id, bytes));
                }
            }
            Event::Ended(id) => {
                // What was already said to it leaves first: it may have closed its own half only.
                self.flush_client(now, id);
                self.handle(now, Input::Disconnected(id));
                self.hands.clients.remove(&id);
            }
            Event::Described(about) => self.router.describe_daemon(about),
            Event::Stop(reason) => self.handle(now, Input::Stop(reason)),
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.router.handle(now, input, &mut self.outputs);
        for output in self.outputs.drain(..) {
            if let Some(frame) = self.hands.perform(output) {
                self.router.recycle(frame);
            }
        }
    }

    /// Writes what waits for anyone; what that lets the machine say is written too.
    fn flush(&mut self, now: Now) {
        while let Some(id) = self.hands.dirty.pop() {
            self.flush_client(now, id);
        }
    }

    fn flush_client(&mut self, now: Now, id: ClientId) {
        let Some(client) = self.hands.clients.get_mut(&id) else { return };
        client.dirty = false;
        let Some(lane) = &mut client.lane else { return };
        let through = match lane.flush() {
            Ok(through) => through,
            Err(error) => {
                tracing::debug!("client {}: {error}", id.0);
                client.stream.hang_up();
                client.lane = None;
                return;
            }
        };
        if client.closing && lane.waiting().is_empty() {
            client.lane = None;
        }
        if through > 0 {
            self.handle(now, Input::Written(id, through));
        }
    }

    fn tell_held(&mut self, now: Now) {
        let bytes = self.held.bytes();
        if bytes.abs_diff(self.held_told) >= HELD_STEP_BYTES {
            self.held_told = bytes;
            self.handle(now, Input::Outside(bytes));
        }
    }
}

/// Both clocks.
fn now() -> Now {
    Now { monotonic: Moment(platform::clock::monotonic_ms()), unix_ms: platform::clock::unix_ms() }
}
