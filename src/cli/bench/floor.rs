//! The floor: a process that relays bytes between two connections and parses nothing.
//!
//! Every daemon has at least these two blocking hops, so the floor's figures of the same run show
//! the cost of the daemon's own work.

use crate::cli::failure::Failure;
use platform::{
    endpoint::Endpoint,
    transport::{Listener, Stream},
};
use std::{
    io::{Read, Write},
    thread,
};

/// The size of a read.
const READ_BYTES: usize = 64 * 1024;

/// Accepts two connections and copies bytes between them until one ends.
pub(super) fn serve(
    endpoint: &Endpoint,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let listener = Listener::bind(endpoint).map_err(Failure::because)?;
    ready()?;
    let left = listener.accept().map_err(Failure::because)?;
    let right = listener.accept().map_err(Failure::because)?;
    thread::scope(|scope| {
        // Waits for: the system (the other end's bytes).
        let builder = thread::Builder::new().name("there".into());
        let there =
            builder.spawn_scoped(scope, || copy(&left, &right)).map_err(Failure::because)?;
        copy(&right, &left);
        there.join().map_err(|_| Failure::failed("a copying thread panicked"))
    })
}

fn copy(from: &Stream, to: &Stream) {
    let mut buffer = vec![0; READ_BYTES];
    let mut from_reader = from;
    let mut to_writer = to;
    loop {
        match from_reader.read(&mut buffer) {
            Ok(count) if count > 0 && to_writer.write_all(&buffer[..count]).is_ok() => {}
            _ => {
                // The end of one connection ends both.
                from.hang_up();
                to.hang_up();
                return;
            }
        }
    }
}
