//! Streams: bytes arrive complete and in order, in both directions.

use std::{io::Write as _, thread};

use platform::transport::{Stream, Written};

use crate::scene::{pair, pattern, read_exactly, read_to_end};

const MEBIBYTE: usize = 1 << 20;

pub(crate) fn blocked_read_does_not_block_a_write() {
    let (client, server) = pair();
    thread::scope(|scope| {
        // The read blocks until the echo arrives, and the echo needs a write on the same stream.
        let reader = scope.spawn(|| read_exactly(&client, 4));
        (&client).write_all(b"ping").unwrap();
        assert_eq!(read_exactly(&server, 4), b"ping");
        (&server).write_all(b"pong").unwrap();
        assert_eq!(reader.join().unwrap(), b"pong");
    });
}

pub(crate) fn a_mebibyte_both_ways_at_once() {
    let (client, server) = pair();
    let (up, down) = (pattern(MEBIBYTE), pattern(MEBIBYTE + 1));
    thread::scope(|scope| {
        scope.spawn(|| (&client).write_all(&up).unwrap());
        scope.spawn(|| (&server).write_all(&down).unwrap());
        let got_down = scope.spawn(|| read_exactly(&client, down.len()));
        assert!(read_exactly(&server, up.len()) == up);
        assert!(got_down.join().unwrap() == down);
    });
}

pub(crate) fn a_mebibyte_in_single_bytes() {
    in_pieces(MEBIBYTE, 1);
}

/// A smaller variant of the test above, for systems with slow writes.
pub(crate) fn a_sixteenth_of_a_mebibyte_in_single_bytes() {
    in_pieces(MEBIBYTE / 16, 1);
}

pub(crate) fn a_mebibyte_in_large_pieces() {
    in_pieces(MEBIBYTE, 65536);
}

fn in_pieces(total: usize, length: usize) {
    let (client, server) = pair();
    let bytes = pattern(total);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_exactly(&server, bytes.len()));
        for piece in bytes.chunks(length) {
            (&client).write_all(piece).unwrap();
        }
        assert!(reader.join().unwrap() == bytes);
    });
}

pub(crate) fn last_bytes_before_a_close_arrive() {
    for (writer, reader) in both_ways() {
        (&writer).write_all(b"last words").unwrap();
        drop(writer);
        assert_eq!(read_to_end(&reader), b"last words");
    }
}

pub(crate) fn last_bytes_before_a_hang_up_arrive() {
    for (writer, reader) in both_ways() {
        (&writer).write_all(b"last words").unwrap();
        writer.hang_up();
        assert_eq!(read_to_end(&reader), b"last words");
    }
}

/// Two pairs of ends: client and server, server and client.
fn both_ways() -> [(Stream, Stream); 2] {
    let (client, server) = pair();
    let (other_client, other_server) = pair();
    [(client, server), (other_server, other_client)]
}

pub(crate) fn write_now_never_blocks() {
    let (client, server) = pair();
    let bytes = pattern(65536);
    let mut sent = Vec::new();
    loop {
        match client.write_now(&bytes).unwrap() {
            Written::Bytes(0) => break,
            Written::Bytes(count) => sent.extend_from_slice(&bytes[..count]),
            Written::Unsupported => panic!("this system has such a write"),
        }
    }
    assert!(read_exactly(&server, sent.len()) == sent);
    assert!(matches!(client.write_now(b"more").unwrap(), Written::Bytes(4)));
    assert_eq!(read_exactly(&server, 4), b"more");
    server.hang_up();
    assert!(client.write_now(b"more").is_err());
}
