//! The floor: a process that relays between two connections and parses nothing.
//!
//! Two blocking hops through another process are the least that any daemon of this shape pays, so its
//! figures, taken in the same run, say what the daemon's own work costs.

use platform::{
    endpoint::Endpoint,
    transport::{Listener, Stream},
};
use std::{
    io::{self, Read, Write},
    thread,
};

/// What one read takes.
const READ_BYTES: usize = 64 * 1024;

/// Takes two connections and copies between them until either ends.
pub(super) fn serve(endpoint: &Endpoint, ready: impl FnOnce()) -> io::Result<()> {
    let listener = Listener::bind(endpoint)?;
    ready();
    let (left, right) = (listener.accept()?, listener.accept()?);
    thread::scope(|scope| {
        let there = thread::Builder::new()
            .name("there".into())
            .spawn_scoped(scope, || copy(&left, &right))?;
        let back = copy(&right, &left);
        there.join().map_err(|_| io::Error::other("a copying thread panicked"))?.and(back)
    })
}

fn copy(from: &Stream, to: &Stream) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut from_reader = from;
    let mut to_writer = to;
    loop {
        match from_reader.read(&mut buffer) {
            Ok(count) if count > 0 && to_writer.write_all(&buffer[..count]).is_ok() => {}
            _ => {
                // Either end is the end of both.
                from.hang_up();
                to.hang_up();
                return Ok(());
            }
        }
    }
}
