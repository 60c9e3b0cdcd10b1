//! Signals to the wrapper's process.

use crossbeam_channel::{Receiver, bounded};
use platform::stop_signals::{self, Listening, Signal};

/// The capacity of the channel of signals.
const SIGNALS_MAX: usize = 64;

/// The process's signals, from before the command starts until after its end.
pub(super) struct Signals {
    pub(super) received: Receiver<Signal>,
    _listening: Option<Listening>,
}

impl Signals {
    /// Begins to listen. A second wrapper in one process gets no signals, and works without them.
    pub(super) fn listen() -> Self {
        let (sender, received) = bounded(SIGNALS_MAX);
        let listening = stop_signals::listen(move |signal| {
            // A full channel already holds enough signals.
            let _ = sender.try_send(signal);
        });
        let _listening = listening.inspect_err(|error| tracing::warn!("{error}")).ok();
        Self { received, _listening }
    }
}
