//! Identities of processes: this user, another user, the user of a service, and a process with
//! fewer rights.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::{self, Child},
    slice,
};

use platform::{
    endpoint::Endpoint,
    foreground::start_time,
    peer::User,
    transport::{Listener, Stream},
};

use crate::{
    scene::{Folder, read_exactly, start_daemon},
    system::{self, AnotherUser},
};

pub(crate) fn own_peer_is_this_user() {
    let folder = Folder::new();
    let listener = Listener::bind(&folder.endpoint()).unwrap();
    let client = Stream::connect(&folder.endpoint()).unwrap();
    let server = listener.accept().unwrap();
    (&client).write_all(b"x").unwrap();
    read_exactly(&server, 1);
    for end in [client, server] {
        let user = end.peer().unwrap();
        assert_eq!(user, User::me().unwrap());
        assert!(user.is_trusted_server());
        assert_eq!(end.peer_pid(), Some(process::id()));
        assert!(start_time(process::id()).is_some());
    }
}

pub(crate) fn another_user_cannot_connect() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let endpoint = another.endpoint();
    let _listener = {
        let _umask = system::Umask::permissive();
        Listener::bind(&endpoint).unwrap()
    };
    let said = another.play("connect", &[endpoint.as_text().as_ref()]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with(&format!("{:?}", io::ErrorKind::PermissionDenied)), "{said}");
    assert!(said.contains(endpoint.as_text()), "{said}");
}

/// The check must hold even if the file's mode lets the other user connect.
pub(crate) fn another_user_is_recognized() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, me) = (another.endpoint(), User::me().unwrap().to_string());
    let listener = another.admitting_listener();
    let greeting = [endpoint.as_text().as_ref(), me.as_ref()];
    let mut client = another.play("greet", &greeting).spawn().unwrap();
    let server = listener.accept().unwrap();
    read_exactly(&server, 1);
    let user = server.peer().unwrap();
    assert_ne!(user, User::me().unwrap());
    assert_eq!(user.to_string(), another.name());
    assert!(!user.is_trusted_server());
    drop(server);
    client.wait().unwrap();
}

pub(crate) fn another_users_server_is_refused() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, mut daemon) = start_daemon_of(&another, &folder);
    let error = Stream::connect(&endpoint).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(&another.name()), "{error}");
    // A server of the expected user is accepted.
    let expected = User::parse(&another.name()).unwrap();
    Stream::connect_among(&endpoint, &[expected]).unwrap();
    let refused = Listener::bind(&endpoint).unwrap_err().kind();
    assert!(matches!(refused, io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

pub(crate) fn another_users_stale_socket_is_left_alone() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, mut daemon) = start_daemon_of(&another, &folder);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // This user may not remove the other user's socket, whether its listener lives or not.
    assert_eq!(Listener::bind(&endpoint).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert!(fs::exists(endpoint.as_text()).unwrap());
}

pub(crate) fn another_users_endpoint_is_foreign() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let (endpoint, mut daemon) = start_daemon_of(&another, &folder);
    assert!(Listener::is_foreign(&endpoint).unwrap());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

pub(crate) fn user_text_parses_back() {
    let me = User::me().unwrap();
    assert_eq!(User::parse(&me.to_string()).unwrap(), me);
    for wrong in ["", " ", "S-1-", "S-1-5-", "S-1-5-x", "-1", "a name", "S-1-5-21-1 "] {
        assert_eq!(User::parse(wrong).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{wrong}");
    }
}

/// A listener for another user can still be reached by the user that runs it.
pub(crate) fn listener_for_another_user_admits_its_own_user() {
    let folder = Folder::new();
    let another = User::parse(system::ANOTHER_USER).unwrap();
    let listener = Listener::bind_for(&folder.endpoint(), &another).unwrap();
    for _ in 0..2 {
        let client = Stream::connect_among(&folder.endpoint(), slice::from_ref(&another)).unwrap();
        let server = listener.accept().unwrap();
        (&client).write_all(b"x").unwrap();
        read_exactly(&server, 1);
        assert_eq!(server.peer().unwrap(), User::me().unwrap());
        assert_eq!(client.peer().unwrap(), User::me().unwrap());
    }
}

/// If it could, every process of a user could type into the user's elevated terminals.
pub(crate) fn process_with_fewer_rights_cannot_connect() {
    let folder = Folder::new();
    let endpoint = folder.endpoint();
    let listener = Listener::bind_guarded(&endpoint).unwrap();
    let error = system::with_fewer_rights(|| Stream::connect(&endpoint).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("Run as administrator"), "{error}");
    let client = Stream::connect(&endpoint).unwrap();
    (&client).write_all(b"x").unwrap();
    assert_eq!(read_exactly(&listener.accept().unwrap(), 1), b"x");
}

/// Starts a daemon of another user, which lets this user in.
fn start_daemon_of(another: &AnotherUser, folder: &Folder) -> (Endpoint, Child) {
    let endpoint = another.endpoint();
    let lock = folder.path("open/lock");
    let me = User::me().unwrap().to_string();
    let arguments: [&Path; 3] = [&lock, endpoint.as_text().as_ref(), me.as_ref()];
    let daemon = start_daemon(another.play("daemon-for", &arguments));
    (endpoint, daemon)
}
