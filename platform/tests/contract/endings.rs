//! Endings: a thread ends the blocked calls of another thread.

use std::{
    io::{self, Read as _, Write as _},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use platform::transport::{Listener, Stream};

use crate::scene::{Folder, TIMEOUT, pair, read_to_end};

pub(crate) fn hang_up_ends_a_blocked_read() {
    let (client, server) = pair();
    for stream in [client, server] {
        let (here, there) = mpsc::channel();
        let reader = stream.clone();
        thread::spawn(move || {
            let mut buffer = [0; 16];
            here.send(None).unwrap();
            here.send(Some((&reader).read(&mut buffer))).unwrap();
        });
        assert!(there.recv_timeout(TIMEOUT).unwrap().is_none());
        give_time_to_block();
        stream.hang_up();
        let end = there.recv_timeout(TIMEOUT).unwrap().unwrap();
        assert_eq!(end.unwrap(), 0);
    }
}

pub(crate) fn hang_up_ends_a_blocked_write() {
    for server_writes in [false, true] {
        let (client, server) = pair();
        let (writer, _reader) = if server_writes { (server, client) } else { (client, server) };
        ends_a_blocked_write(&writer);
    }
}

fn ends_a_blocked_write(stream: &Stream) {
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            loop {
                match (&*stream).write(&[7; 4096]) {
                    Ok(length) => written.fetch_add(length, Ordering::Relaxed),
                    Err(error) => return error,
                };
            }
        });
        // The writes block after a while, since there is no reader.
        let mut before = usize::MAX;
        while before != written.load(Ordering::Relaxed) {
            before = written.load(Ordering::Relaxed);
            give_time_to_block();
        }
        assert!(!writer.is_finished());
        stream.hang_up();
        assert_eq!(writer.join().unwrap().kind(), io::ErrorKind::BrokenPipe);
    });
}

/// Gives another thread time to block in a call, which no event reports. If the time is too short,
/// the test passes without testing a blocked call.
fn give_time_to_block() {
    thread::sleep(Duration::from_millis(50));
}

pub(crate) fn hang_up_is_permanent() {
    let (client, server) = pair();
    for stream in [client, server] {
        let clone = stream.clone();
        stream.hang_up();
        stream.hang_up();
        assert_eq!((&clone).read(&mut [0; 16]).unwrap(), 0);
        let error = (&clone).write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert!(!matches!(clone.write_now(b"x"), Ok(platform::transport::Written::Bytes(_))));
    }
}

pub(crate) fn hang_up_reaches_the_other_side() {
    for client_hangs_up in [true, false] {
        let (client, server) = pair();
        let (here, there) = if client_hangs_up { (client, server) } else { (server, client) };
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_to_end(&there));
            here.hang_up();
            assert!(reader.join().unwrap().is_empty());
        });
        // The first write may still find room in a buffer. A later write has to fail.
        assert!((0..64).any(|_| (&there).write_all(&[0; 65536]).is_err()));
    }
}

pub(crate) fn close_with_unread_bytes_reaches_the_other_side() {
    for client_leaves in [true, false] {
        let (client, server) = pair();
        let (leaves, stays) = if client_leaves { (client, server) } else { (server, client) };
        (&stays).write_all(b"unread").unwrap();
        drop(leaves);
        assert!(read_to_end(&stays).is_empty());
    }
}

pub(crate) fn stop_ends_a_blocked_accept() {
    let folder = Folder::new();
    let listener = Listener::bind(&folder.endpoint()).unwrap();
    let (here, there) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            here.send(None).unwrap();
            here.send(Some(listener.accept().map(drop))).unwrap();
        });
        assert!(there.recv_timeout(TIMEOUT).unwrap().is_none());
        give_time_to_block();
        listener.stop();
        let end = there.recv_timeout(TIMEOUT).unwrap().unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::Interrupted);
    });
}

pub(crate) fn stop_is_permanent() {
    let folder = Folder::new();
    let listener = Listener::bind(&folder.endpoint()).unwrap();
    listener.stop();
    listener.stop();
    for _ in 0..2 {
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
