//! Whose process it is.

use std::{
    fs,
    io::{self, Write as _},
    process::{self, Child},
    slice,
};

use platform::{
    endpoint::Endpoint,
    peer::User,
    transport::{Listener, Stream},
};

use crate::{
    scene::{Folder, read_exactly, start_daemon},
    system::{self, AnotherUser},
};

pub(crate) fn the_peer_is_me() {
    let folder = Folder::new();
    let listener = Listener::bind(&folder.endpoint()).unwrap();
    let client = Stream::connect(&folder.endpoint()).unwrap();
    let server = listener.accept().unwrap();
    (&client).write_all(b"x").unwrap();
    read_exactly(&server, 1);
    for end in [client, server] {
        let peer = end.peer().unwrap();
        assert_eq!(peer.user, User::me().unwrap());
        assert!(peer.user.is_trusted_server());
        assert!(peer.pid.is_none_or(|pid| pid == process::id()), "{peer:?}");
    }
}

pub(crate) fn another_user_cannot_connect() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let endpoint = another.endpoint();
    let _listener = {
        let _umask = system::Umask::careless();
        Listener::bind(&endpoint).unwrap()
    };
    let said = another.play("connect", &[endpoint.as_text().as_ref()]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with(&format!("{:?}", io::ErrorKind::PermissionDenied)), "{said}");
    assert!(said.contains(endpoint.as_text()), "{said}");
}

/// Even where the file's mode lets him in.
pub(crate) fn another_user_is_recognized() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let endpoint = another.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    system::let_everybody_in(&endpoint);
    let mut stranger = another.play("greet", &[endpoint.as_text().as_ref()]).spawn().unwrap();
    let server = listener.accept().unwrap();
    read_exactly(&server, 1);
    let peer = server.peer().unwrap();
    assert_ne!(peer.user, User::me().unwrap());
    assert_eq!(peer.user.to_string(), another.name());
    assert!(!peer.user.is_trusted_server());
    drop(server);
    stranger.wait().unwrap();
}

pub(crate) fn another_users_server_is_refused() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, mut daemon) = strangers_daemon(&another, &folder);
    let error = Stream::connect(&endpoint).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(&another.name()), "{error}");
    // Unless he is the one who was expected.
    let him = User::parse(&another.name()).unwrap();
    Stream::connect_among(&endpoint, &[him]).unwrap();
    assert_eq!(Listener::bind(&endpoint).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // Dead or alive, it is not ours to remove.
    assert_eq!(Listener::bind(&endpoint).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(fs::exists(endpoint.as_text()).unwrap());
}

pub(crate) fn another_users_endpoint_is_foreign() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, mut daemon) = strangers_daemon(&another, &folder);
    assert!(endpoint.is_foreign().unwrap());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

pub(crate) fn users_are_read_as_they_are_written() {
    let me = User::me().unwrap();
    assert_eq!(User::parse(&me.to_string()).unwrap(), me);
    for wrong in ["", " ", "S-1-", "S-1-5-", "S-1-5-x", "-1", "a name", "S-1-5-21-1 "] {
        assert_eq!(User::parse(wrong).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{wrong}");
    }
}

/// Who listens for somebody else can reach himself, and is who he is.
pub(crate) fn a_listener_for_another_user_is_still_ours() {
    let folder = Folder::new();
    let another = User::parse(system::ANOTHER_USER).unwrap();
    let listener = Listener::bind_for(&folder.endpoint(), &another).unwrap();
    for _ in 0..2 {
        let client = Stream::connect_among(&folder.endpoint(), slice::from_ref(&another)).unwrap();
        let server = listener.accept().unwrap();
        (&client).write_all(b"x").unwrap();
        read_exactly(&server, 1);
        assert_eq!(server.peer().unwrap().user, User::me().unwrap());
        assert_eq!(client.peer().unwrap().user, User::me().unwrap());
    }
}

/// Or whatever runs as a user could type into what he has elevated.
pub(crate) fn who_has_less_power_is_kept_out() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind_guarded(&endpoint).unwrap();
    let error = system::with_less_power(|| Stream::connect(&endpoint).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("Run as administrator"), "{error}");
    let client = Stream::connect(&endpoint).unwrap();
    (&client).write_all(b"x").unwrap();
    assert_eq!(read_exactly(&listener.accept().unwrap(), 1), b"x");
}

fn strangers_daemon(another: &AnotherUser, folder: &Folder) -> (Endpoint, Child) {
    let endpoint = another.endpoint();
    let lock = folder.path("open/lock");
    let daemon = start_daemon(another.play("daemon", &[&lock, endpoint.as_text().as_ref()]));
    (endpoint, daemon)
}
