//! The inbox: events, and the threads that handle them.
//!
//! To wake a thread takes longer than to route a message. So the thread that sends an event handles
//! it, if no other thread handles events then: what a client sends to an idle daemon is routed and
//! written by the thread that has read it. While a thread handles events, it gets those of the
//! others, too. A sender stops after some rounds. What is left goes to a thread of the inbox's own,
//! which also wakes at the handler's deadline.

use parking_lot::{Condvar, Mutex, MutexGuard};
use protocol::Moment;
use std::{collections::VecDeque, fmt, iter, mem, sync::Arc, time::Duration};

/// The most events that are taken in a round.
const EVENTS_MAX: usize = 1024;

/// The most rounds of a thread that has sent an event.
const SENDERS_ROUNDS: usize = 4;

/// A handler of an inbox's events. One thread at a time has it.
pub(super) trait Handler: Send + 'static {
    type Event: Send;

    /// Handles events, and does a bounded part of what has to be done.
    fn round(&mut self, events: impl Iterator<Item = Self::Event>);

    /// The moment of the next round if no event comes; a past one if something is left to do.
    fn deadline(&self) -> Option<Moment>;

    /// The time until this moment.
    fn until(&self, moment: Moment) -> Duration;

    /// Whether it handles no more events.
    fn has_ended(&self) -> bool;

    /// Drops an event that comes after the end.
    fn reject(event: Self::Event);
}

/// The sending half of an inbox, and its handler.
pub(super) struct Inbox<H: Handler>(Arc<Shared<H>>);

/// The error of a send to an inbox whose handler has ended.
#[derive(Debug)]
pub(super) struct Closed;

struct Shared<H: Handler> {
    state: Mutex<State<H>>,
    /// Wakes the inbox's own thread.
    wake: Condvar,
}

struct State<H: Handler> {
    events: VecDeque<H::Event>,
    /// The handler, while no thread has it.
    idle: Option<Box<H>>,
    /// The deadline that the inbox's own thread waits for, if any.
    alarm: Option<Moment>,
    is_closed: bool,
}

impl<H: Handler> Inbox<H> {
    /// An inbox without a handler: its events wait for [`run`](Self::run).
    pub(super) fn new() -> Self {
        let state = State { events: VecDeque::new(), idle: None, alarm: None, is_closed: false };
        Self(Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new() }))
    }

    /// Sends an event. If no thread has the handler, handles this event and those that others send
    /// meanwhile.
    ///
    /// # Errors
    /// If the handler has ended. The event is rejected.
    pub(super) fn send(&self, event: H::Event) -> Result<(), Closed> {
        let idle = self.push(event)?.idle.take();
        if let Some(handler) = idle {
            Turn { shared: &self.0, handler: Some(handler) }.run(SENDERS_ROUNDS);
        }
        Ok(())
    }

    /// Sends an event, which another thread handles.
    ///
    /// # Errors
    /// If the handler has ended. The event is rejected.
    pub(super) fn post(&self, event: H::Event) -> Result<(), Closed> {
        let is_idle = self.push(event)?.idle.is_some();
        if is_idle {
            self.0.wake.notify_one();
        }
        Ok(())
    }

    fn push(&self, event: H::Event) -> Result<MutexGuard<'_, State<H>>, Closed> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            drop(state);
            H::reject(event);
            return Err(Closed);
        }
        state.events.push_back(event);
        Ok(state)
    }

    /// Handles events in the inbox's own thread until the handler has ended, and returns it.
    ///
    /// # Panics
    /// If the handler has panicked in another thread.
    pub(super) fn run(&self, mut handler: Box<H>) -> Box<H> {
        while !handler.has_ended() {
            Turn { shared: &self.0, handler: Some(handler) }.run(usize::MAX);
            handler = self.0.wait();
        }
        self.0.close();
        handler
    }
}

impl<H: Handler> Clone for Inbox<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: Handler> fmt::Debug for Inbox<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl<H: Handler> Shared<H> {
    /// Waits until there is something to do that no other thread does, and takes the handler.
    fn wait(&self) -> Box<H> {
        let mut state = self.state.lock();
        loop {
            assert!(!state.is_closed, "it panicked in another thread");
            state.alarm = None;
            let Some(handler) = state.idle.take() else {
                self.wake.wait(&mut state);
                continue;
            };
            let deadline = handler.deadline();
            let left = deadline.map(|deadline| handler.until(deadline));
            if !state.events.is_empty() || handler.has_ended() || left == Some(Duration::ZERO) {
                return handler;
            }
            (state.idle, state.alarm) = (Some(handler), deadline);
            match left {
                Some(left) => drop(self.wake.wait_for(&mut state, left)),
                None => self.wake.wait(&mut state),
            }
        }
    }

    /// Takes no more events, and rejects those that wait.
    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let events = mem::take(&mut state.events);
        drop(state);
        self.wake.notify_one();
        events.into_iter().for_each(H::reject);
    }
}

/// The turn of a thread that has the handler.
struct Turn<'a, H: Handler> {
    shared: &'a Shared<H>,
    /// The handler; `None` once it was given back.
    handler: Option<Box<H>>,
}

impl<H: Handler> Turn<'_, H> {
    /// Handles events while there is something to do and rounds are left, and gives the handler
    /// back.
    fn run(mut self, rounds: usize) {
        let shared = self.shared;
        for round in 1.. {
            let Some(handler) = &mut self.handler else { return };
            let events = iter::from_fn(|| shared.state.lock().events.pop_front());
            handler.round(events.take(EVENTS_MAX));
            let deadline = handler.deadline();
            let is_done = handler.has_ended() || round == rounds;
            let is_due = deadline.is_some_and(|deadline| handler.until(deadline).is_zero());
            let mut state = shared.state.lock();
            let has_work = is_due || !state.events.is_empty();
            if is_done || !has_work {
                let is_earlier = |deadline| state.alarm.is_none_or(|alarm| deadline < alarm);
                let wakes = is_done || deadline.is_some_and(is_earlier);
                state.idle = self.handler.take();
                if wakes {
                    shared.wake.notify_one();
                }
            }
        }
    }
}

impl<H: Handler> Drop for Turn<'_, H> {
    /// Closes the inbox if the handler has panicked.
    fn drop(&mut self) {
        if self.handler.is_some() {
            self.shared.close();
        }
    }
}

#[cfg(test)]
impl<H: Handler> Inbox<H> {
    /// Removes and returns the oldest event that waits.
    pub(super) fn pop(&self) -> Option<H::Event> {
        self.0.state.lock().events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{RecvTimeoutError, bounded};
    use std::{
        thread::{self, JoinHandle},
        time::Instant,
    };

    const SENDERS: usize = 8;
    const EVENTS_OF_EACH: usize = 3_000;
    const WATCHDOG: Duration = Duration::from_secs(60);

    enum Event {
        /// An event of this sender, with its number.
        Of(usize, usize),
        WakeAfter(u64),
        Panic,
    }

    /// Does a part of its work in each round. Ends once it has done all, or at its deadline.
    struct Counting {
        start: Instant,
        work: VecDeque<(usize, usize)>,
        done: [usize; SENDERS],
        wakes_at: Option<Moment>,
    }

    impl Counting {
        fn new() -> Box<Self> {
            let (start, work) = (Instant::now(), VecDeque::new());
            Box::new(Self { start, work, done: [0; SENDERS], wakes_at: None })
        }

        fn now(&self) -> Moment {
            Moment(self.start.elapsed().as_millis() as u64)
        }
    }

    impl Handler for Counting {
        type Event = Event;

        fn round(&mut self, events: impl Iterator<Item = Event>) {
            for event in events {
                match event {
                    Event::Of(sender, number) => self.work.push_back((sender, number)),
                    Event::WakeAfter(ms) => self.wakes_at = Some(self.now().plus(ms)),
                    Event::Panic => panic!("on purpose"),
                }
            }
            for (sender, number) in self.work.drain(..self.work.len().min(3)) {
                assert_eq!(self.done[sender], number, "the order of sender {sender}");
                self.done[sender] += 1;
            }
        }

        fn deadline(&self) -> Option<Moment> {
            if self.work.is_empty() { self.wakes_at } else { Some(Moment(0)) }
        }

        fn until(&self, moment: Moment) -> Duration {
            Duration::from_millis(moment.since(self.now()))
        }

        fn has_ended(&self) -> bool {
            self.done == [EVENTS_OF_EACH; SENDERS]
                || self.wakes_at.is_some_and(|moment| moment <= self.now())
        }

        fn reject(_: Event) {}
    }

    /// Runs an inbox in a thread of its own, until it ends.
    fn run(inbox: &Inbox<Counting>) -> (JoinHandle<Box<Counting>>, impl Fn() -> bool + use<>) {
        let (inbox, (ended, is_ended)) = (inbox.clone(), bounded::<()>(0));
        let thread = thread::spawn(move || {
            let _ended = ended;
            inbox.run(Counting::new())
        });
        let ends = move || is_ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Disconnected);
        (thread, ends)
    }

    /// As [`run`], and waits until the inbox's own thread waits, without a deadline.
    fn run_idle(inbox: &Inbox<Counting>) -> (JoinHandle<Box<Counting>>, impl Fn() -> bool + use<>) {
        let running = run(inbox);
        while inbox.0.state.lock().idle.is_none() {
            thread::yield_now();
        }
        running
    }

    #[test]
    fn all_events_are_handled_in_the_order_of_their_senders() {
        let inbox = Inbox::new();
        let (thread, ends) = run(&inbox);
        for sender in 0..SENDERS {
            let inbox = inbox.clone();
            thread::spawn(move || {
                for number in 0..EVENTS_OF_EACH {
                    let event = Event::Of(sender, number);
                    let sent = if sender % 2 == 0 { inbox.send(event) } else { inbox.post(event) };
                    sent.unwrap();
                }
            });
        }
        assert!(ends(), "events or work were forgotten");
        thread.join().unwrap();
        assert!(inbox.send(Event::Panic).is_err());
    }

    #[test]
    fn event_that_is_posted_wakes_the_inbox() {
        let inbox = Inbox::new();
        let (thread, ends) = run_idle(&inbox);
        inbox.post(Event::WakeAfter(1)).unwrap();
        assert!(ends(), "nobody handled it");
        thread.join().unwrap();
    }

    #[test]
    fn deadline_that_a_sender_causes_is_met() {
        let inbox = Inbox::new();
        let (thread, ends) = run_idle(&inbox);
        inbox.send(Event::WakeAfter(1_000_000)).unwrap();
        inbox.send(Event::WakeAfter(1)).unwrap();
        assert!(ends(), "the deadline was forgotten");
        thread.join().unwrap();
    }

    #[test]
    fn panic_in_a_sender_ends_the_inbox() {
        let inbox = Inbox::new();
        let (thread, ends) = run(&inbox);
        let panicking = inbox.clone();
        thread::spawn(move || panicking.send(Event::Panic));
        assert!(ends(), "the panic was not noticed");
        assert!(thread.join().is_err() && inbox.send(Event::Of(0, 0)).is_err());
    }
}
