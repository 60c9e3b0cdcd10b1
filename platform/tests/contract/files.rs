//! Locks, private files, and detached processes.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::Stdio,
};

use platform::{
    foreground::FileId,
    lock::Lock,
    paths,
    peer::User,
    transport::{Listener, Stream},
};

use crate::{
    scene::{Folder, role, start_daemon},
    system::{self, AnotherUser, Umask},
};

pub(crate) fn a_lock_has_one_holder() {
    let folder = Folder::new();
    let path = folder.path("lock");
    assert!(!Lock::is_held(&path).unwrap());
    assert!(!fs::exists(&path).unwrap());
    let lock = Lock::take(&path).unwrap().expect("the lock is free");
    assert!(lock.is_current().unwrap());
    assert!(Lock::is_held(&path).unwrap());
    assert!(Lock::take(&path).unwrap().is_none());
    drop(lock);
    assert!(!Lock::is_held(&path).unwrap());
    drop(Lock::take(&path).unwrap().expect("the lock is free"));
    let error = Lock::take(&folder.path("nowhere/lock")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("nowhere"), "{error}");
}

pub(crate) fn a_lock_ends_with_its_process() {
    let folder = Folder::new();
    let (lock, endpoint) = (folder.path("lock"), folder.endpoint());
    let mut daemon = start_daemon(role("daemon", &[&lock, endpoint.as_text().as_ref()]));
    assert!(Lock::is_held(&lock).unwrap());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(!Lock::is_held(&lock).unwrap());
    drop(Lock::take(&lock).unwrap().expect("the holder has ended"));
}

pub(crate) fn a_removed_lock_can_be_taken_again() {
    let folder = Folder::new();
    let path = folder.path("lock");
    Lock::take(&path).unwrap().expect("the lock is free").remove().unwrap();
    assert!(!fs::exists(&path).unwrap());
    let lock = Lock::take(&path).unwrap().expect("the lock is free");
    assert!(lock.is_current().unwrap() && Lock::is_held(&path).unwrap());
}

pub(crate) fn a_replaced_lock_is_noticed() {
    let folder = Folder::new();
    let path = folder.path("lock");
    let lock = Lock::take(&path).unwrap().expect("the lock is free");
    fs::rename(&path, folder.path("moved")).unwrap();
    assert!(!lock.is_current().unwrap());
    let other = Lock::take(&path).unwrap().expect("the new file is not locked");
    assert!(!lock.is_current().unwrap());
    assert!(other.is_current().unwrap());
}

pub(crate) fn private_files_are_private() {
    let folder = Folder::new();
    for (name, umask) in [("permissive", Umask::permissive()), ("strict", Umask::strict())] {
        let _umask = umask;
        let dir = folder.path(name).join("below");
        paths::make_private_dir(&dir).unwrap();
        paths::check_private(dir.parent().unwrap()).unwrap();
        paths::check_private(&dir).unwrap();
        let made = dir.join("made");
        paths::create_private_file(&made).unwrap().write_all(b"x").unwrap();
        let again = paths::create_private_file(&made).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(again.to_string().contains("made"), "{again}");
        // Files are private as well in a directory that need not be private.
        let (written, opened) = (format!("{name}-written"), format!("{name}-opened"));
        let (written, opened) = (folder.path(&written), folder.path(&opened));
        paths::write_private_file(&written, b"x").unwrap();
        paths::open_private_file(&opened).unwrap().write_all(b"x").unwrap();
        paths::open_private_file(&opened).unwrap();
        for path in [made, written, opened] {
            paths::check_private(&path).unwrap();
            assert!(system::owner_has_access(&path), "{}", path.display());
            assert_eq!(fs::read(&path).unwrap(), b"x");
        }
    }
}

pub(crate) fn private_files_are_replaced_whole() {
    let folder = Folder::new();
    let path = folder.path("file");
    paths::write_private_file(&path, b"old").unwrap();
    paths::write_private_file(&path, b"newer").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    let error = paths::write_private_file(&folder.path("nowhere/file"), b"x").unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let names: Vec<_> = fs::read_dir(folder.path("")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

pub(crate) fn open_file_keeps_its_content_when_replaced() {
    let folder = Folder::new();
    let path = folder.path("file");
    paths::write_private_file(&path, b"old").unwrap();
    let mut reader = fs::File::open(&path).unwrap();
    paths::write_private_file(&path, b"newer").unwrap();
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "old");
    assert_eq!(fs::read(&path).unwrap(), b"newer");
}

pub(crate) fn private_directories_are_private() {
    let folder = Folder::new();
    let dir = folder.path("home");
    paths::make_private_dir(&dir).unwrap();
    paths::make_private_dir(&dir).unwrap();
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    let error = paths::make_private_dir(&file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    let home = paths::home().unwrap();
    assert!(home.is_absolute() && home.ends_with("agent-relay"), "{}", home.display());
}

pub(crate) fn unwritable_directory_is_refused() {
    let folder = Folder::new();
    let (dir, file) = (folder.path("dir"), folder.path("file"));
    paths::make_private_dir(&dir).unwrap();
    fs::write(&file, "").unwrap();
    paths::check_writable(&dir).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    for (path, kind) in
        [(&file, io::ErrorKind::NotADirectory), (&folder.path("nowhere"), io::ErrorKind::NotFound)]
    {
        let error = paths::check_writable(path).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

pub(crate) fn file_identity_changes_with_its_replacement() {
    let folder = Folder::new();
    let (file, copy) = (folder.path("file"), folder.path("copy"));
    assert_eq!(FileId::of(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
    paths::write_private_file(&file, b"x").unwrap();
    let first = FileId::of(&file).unwrap();
    let held = fs::File::open(&file).unwrap();
    fs::write(&file, "xy").unwrap();
    assert_eq!(FileId::of(&file).unwrap(), first, "new content");
    fs::copy(&file, &copy).unwrap();
    fs::rename(&copy, &file).unwrap();
    assert_ne!(FileId::of(&file).unwrap(), first, "another file");
    drop(held);
}

/// The other user can see that the directory exists, but cannot write to it.
pub(crate) fn another_users_directory_is_unwritable() {
    let folder = Folder::new();
    let another = AnotherUser::new(&folder);
    let dir = folder.path("dir");
    paths::make_private_dir(&dir).unwrap();
    let said = another.play("writable", &[&dir]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.starts_with(&format!("{:?}", io::ErrorKind::PermissionDenied)), "{said}");
    assert!(said.contains("make files in"), "{said}");
}

pub(crate) fn file_readable_by_others_is_refused() {
    let folder = Folder::new();
    let (dir, file) = (folder.path("dir"), folder.path("file"));
    paths::make_private_dir(&dir).unwrap();
    paths::write_private_file(&file, b"x").unwrap();
    for path in [&dir, &file] {
        system::let_everybody_read(path);
        let error = paths::check_private(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert_eq!(paths::make_private_dir(&dir).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(
        paths::check_private(&folder.path("none")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

pub(crate) fn file_writable_by_others_is_refused() {
    let folder = Folder::new();
    let file = folder.path("file");
    paths::write_private_file(&file, b"x").unwrap();
    paths::check_only_owner_writes(&file).unwrap();
    system::let_everybody_write(&file);
    let error = paths::check_only_owner_writes(&file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    let none = paths::check_only_owner_writes(&folder.path("none")).unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::NotFound);
}

pub(crate) fn additional_reader_is_permitted_and_accepted() {
    let folder = Folder::new();
    let file = folder.path("file");
    let another = User::parse(system::ANOTHER_USER).unwrap();
    paths::write_private_file_for(&file, b"x", &another).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"x");
    let error = paths::check_private(&file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    paths::check_private_among(&file, &[another]).unwrap();
    paths::check_only_owner_writes(&file).unwrap();
}

pub(crate) fn a_detached_process_holds_nothing_open() {
    let folder = Folder::new();
    let (listener, started) = start_detached(&folder);
    let stream = listener.accept().unwrap();
    let told = line(&stream);
    // The starter and its output have ended, or the read above would not have returned.
    let pid = told.split(' ').next().unwrap();
    assert!(started.starts_with(&format!("started {pid} ")), "{started} {told}");
    assert!(system::is_alive(pid.parse().unwrap()));
    let log = fs::read_to_string(folder.path("log")).unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), ["from before", "a line for the log"]);
    end_detached(&stream, &told);
}

pub(crate) fn a_detached_process_leaves_its_session() {
    let folder = Folder::new();
    let (listener, _) = start_detached(&folder);
    let stream = listener.accept().unwrap();
    let told = line(&stream);
    let log = folder.path("log");
    let here = log.parent().and_then(Path::file_name).unwrap();
    let expected = system::detached_session(told.split(' ').next().unwrap());
    assert!(told.contains(&format!(" in {expected} at {}", here.display())), "{told}");
    end_detached(&stream, &told);
}

/// Asking for fewer than the current limit does not lower it.
pub(crate) fn open_file_limit_is_raised() {
    let allowed = platform::process::allow_open_files(100_000).unwrap();
    assert!(allowed >= 256, "{allowed}");
    assert_eq!(platform::process::allow_open_files(16).unwrap(), allowed);
}

/// Hangs up on a detached process, and waits for its end, so that the folder can be removed.
fn end_detached(stream: &Stream, told: &str) {
    stream.hang_up();
    system::wait_for_end(told.split(' ').next().unwrap().parse().unwrap());
}

fn start_detached(folder: &Folder) -> (Listener, String) {
    let endpoint = folder.endpoint();
    let listener = Listener::bind(&endpoint).unwrap();
    fs::write(folder.path("log"), "from before\n").unwrap();
    let mut starter = role("starter", &[&folder.path("log"), Path::new(endpoint.as_text())]);
    let output = starter.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    (listener, String::from_utf8(output.stdout).unwrap())
}

fn line(stream: &Stream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
