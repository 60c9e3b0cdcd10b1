//! Listeners: endpoints that are free, taken, stale, removed, or another user's.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
    sync::Barrier,
    thread,
};

use platform::{
    clock,
    endpoint::Endpoint,
    lock::Lock,
    transport::{EndpointState, Listener, Stream},
};

use crate::{
    scene::{Folder, read_exactly, role, start_daemon},
    system,
};

pub(crate) fn connect_without_a_listener_fails() {
    let folder = Folder::new();
    let error = Stream::connect(&folder.endpoint()).unwrap_err();
    assert!(matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused));
    assert!(error.to_string().contains(folder.endpoint().as_text()), "{error}");
    assert!(!Listener::is_foreign(&folder.endpoint()).unwrap());
}

pub(crate) fn a_live_endpoint_is_refused() {
    let folder = Folder::new();
    let listener = Listener::bind(&folder.endpoint()).unwrap();
    let error = Listener::bind(&folder.endpoint()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(folder.endpoint().as_text()), "{error}");
    assert_eq!(listener.endpoint_state().unwrap(), EndpointState::Mine);
    assert!(!Listener::is_foreign(&folder.endpoint()).unwrap());
}

/// The rivals take the lock first and then the endpoint, as daemons do. Most rivals are threads: a
/// lock belongs to an open file, so threads compete as processes do, and with smaller delays.
pub(crate) fn one_of_a_hundred_rivals_listens() {
    const RIVALS: usize = 100;
    const PROCESSES: usize = RIVALS / 3;
    const THREADS: usize = RIVALS - PROCESSES;
    let folder = Folder::new();
    let (lock, endpoint) = (folder.path("lock"), folder.endpoint());
    let mut others: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut other = role("rival", &[&lock, endpoint.as_text().as_ref()]);
            let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let said = BufReader::new(other.stdout.take().unwrap()).lines();
            (other, said.map(Result::unwrap))
        })
        .collect();
    for (_, said) in &mut others {
        assert_eq!(said.next().unwrap(), "ready");
    }
    let start = Barrier::new(THREADS + 1);
    let winners: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let lock = Lock::take(&lock).unwrap()?;
                    Some((lock, Listener::bind(&endpoint).unwrap()))
                })
            })
            .collect();
        start.wait();
        for (other, _) in &mut others {
            other.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        }
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    let mut elsewhere = 0;
    for (_, said) in &mut others {
        elsewhere += usize::from(said.next().unwrap() == "mine");
    }
    assert_eq!(winners.len() + elsewhere, 1);
    assert!(Lock::is_held(&lock).unwrap());
    for (mut other, _) in others {
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
    }
}

pub(crate) fn stale_endpoint_is_replaced() {
    let folder = Folder::new();
    let (lock, endpoint) = (folder.path("lock"), folder.endpoint());
    let mut daemon = start_daemon(role("daemon", &[&lock, endpoint.as_text().as_ref()]));
    assert!(Lock::take(&lock).unwrap().is_none());
    assert_eq!(Listener::bind(&endpoint).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let _lock = Lock::take(&lock).unwrap().expect("the holder has ended");
    let listener = Listener::bind(&endpoint).unwrap();
    let client = Stream::connect(&endpoint).unwrap();
    (&client).write_all(b"anew").unwrap();
    assert_eq!(read_exactly(&listener.accept().unwrap(), 4), b"anew");
}

pub(crate) fn file_at_the_endpoint_is_not_replaced() {
    let folder = Folder::new();
    let path = folder.endpoint().as_text().to_owned();
    fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&folder.endpoint()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains(&path), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let error = Stream::connect(&folder.endpoint()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("is not a socket"), "{error}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = Listener::bind(&folder.endpoint()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(fs::metadata(&path).unwrap().is_dir());
}

pub(crate) fn unusable_endpoint_is_refused() {
    let folder = Folder::new();
    Listener::check_bindable(&folder.endpoint()).unwrap();
    let file = folder.path("file");
    fs::write(&file, "").unwrap();
    for (directory, words) in
        [(folder.path("nowhere"), "there is no directory"), (file.clone(), "is not a directory")]
    {
        let endpoint = Endpoint::parse(directory.join("s").as_ref()).unwrap();
        let checked = Listener::check_bindable(&endpoint).unwrap_err().to_string();
        assert!(checked.contains(&format!("{}", directory.display())), "{checked}");
        assert!(checked.contains(words), "{checked}");
        let refused = Listener::bind(&endpoint).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("{checked}; choose another endpoint")), "{refused}");
    }
    let error = Listener::check_bindable(&Endpoint::parse(file.as_ref()).unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

pub(crate) fn a_removed_socket_is_noticed() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let old = Listener::bind(&endpoint).unwrap();
    let early = Stream::connect(&endpoint).unwrap();
    fs::remove_file(endpoint.as_text()).unwrap();
    assert_eq!(old.endpoint_state().unwrap(), EndpointState::Gone);
    let new = Listener::bind(&endpoint).unwrap();
    assert_eq!(old.endpoint_state().unwrap(), EndpointState::Foreign);
    assert_eq!(new.endpoint_state().unwrap(), EndpointState::Mine);
    // An earlier connection is unaffected, and the old listener's end does not harm the new one.
    (&early).write_all(b"early").unwrap();
    assert_eq!(read_exactly(&old.accept().unwrap(), 5), b"early");
    drop(old);
    assert_eq!(new.endpoint_state().unwrap(), EndpointState::Mine);
    drop(new);
    assert!(!fs::exists(endpoint.as_text()).unwrap());
}

pub(crate) fn foreign_socket_is_not_removed() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    fs::remove_file(endpoint.as_text()).unwrap();
    fs::write(endpoint.as_text(), "precious").unwrap();
    assert_eq!(listener.endpoint_state().unwrap(), EndpointState::Foreign);
    drop(listener);
    assert_eq!(fs::read(endpoint.as_text()).unwrap(), b"precious");
}

/// The client keeps its connection open, since it has not noticed the listener's end.
pub(crate) fn client_of_an_ended_listener_does_not_block_a_new_one() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    let held = Stream::connect(&endpoint).unwrap();
    drop(listener.accept().unwrap());
    drop(listener);
    for _ in 0..2 {
        let listener = Listener::bind(&endpoint).unwrap();
        for byte in *b"ab" {
            let client = Stream::connect(&endpoint).unwrap();
            (&client).write_all(&[byte]).unwrap();
            assert_eq!(read_exactly(&listener.accept().unwrap(), 1), [byte]);
        }
    }
    assert_eq!((&held).read(&mut [0]).unwrap(), 0);
}

pub(crate) fn a_thousand_connections() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..1000 {
                let stream = listener.accept().unwrap();
                (&stream).write_all(&read_exactly(&stream, 1)).unwrap();
            }
        });
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..250 {
                    let stream = Stream::connect(&endpoint).unwrap();
                    (&stream).write_all(&[n as u8]).unwrap();
                    assert_eq!(read_exactly(&stream, 1), [n as u8]);
                }
            });
        }
    });
}

pub(crate) fn endpoints_are_checked() {
    let parse = |text: &str| Endpoint::parse(OsStr::new(text));
    for default in [Endpoint::shared(), Endpoint::per_user().unwrap()] {
        assert_eq!(parse(default.as_text()).unwrap(), default);
        assert_eq!(default.to_string(), default.as_text());
    }
    let folder = Folder::new();
    let of_agent = |name: &str| Endpoint::of_agent(&folder.path("run"), name).unwrap();
    assert_eq!(parse(of_agent("Ann").as_text()).unwrap(), of_agent("Ann"));
    assert_ne!(of_agent("Ann"), of_agent("Bob"));
    assert!(of_agent("Ann").as_text().contains("Ann"));
    let (longest, limit) = system::longest_endpoint();
    assert_eq!(parse(&longest).unwrap().as_text(), longest);
    let error = parse(&format!("{longest}x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
    for bad in ["", "a\0b"].into_iter().chain(system::bad_endpoints()) {
        let error = parse(bad).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad:?}: {error}");
    }
}

pub(crate) fn the_clock_goes_forward() {
    let (start, date) = (clock::monotonic_ms(), clock::unix_ms());
    let mut last = start;
    while last < start + 20 {
        let now = clock::monotonic_ms();
        assert!(now >= last);
        last = now;
        thread::yield_now();
    }
    // A date in the 21st century.
    assert!(date > 1_700_000_000_000 && date < 4_200_000_000_000);
}
