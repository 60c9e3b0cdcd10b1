//! Facts about the system that the tests need and `platform` does not offer: the kind of run, the
//! form of endpoints, a way to become another user.

use std::{
    ffi::OsString,
    io::{self, PipeWriter},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use platform::{endpoint::Endpoint, peer::User, transport::Listener};

use crate::scene::{Folder, TIMEOUT};

/// The kinds of this run, the most general first. They are the first column of the table of skipped
/// tests.
pub(crate) fn run_kinds() -> Vec<&'static str> {
    imp::run_kinds()
}

/// An endpoint in a folder, as unique as the folder.
pub(crate) fn endpoint_in(folder: &Path) -> OsString {
    imp::endpoint_in(folder)
}

/// The longest possible endpoint, and the limit that the refusal of a longer one names.
pub(crate) fn longest_endpoint() -> (String, usize) {
    imp::longest_endpoint()
}

/// Texts that are not endpoints.
pub(crate) fn bad_endpoints() -> impl Iterator<Item = &'static str> {
    imp::BAD_ENDPOINTS.iter().copied()
}

/// Lets every user read a file or look into a directory.
pub(crate) fn let_everybody_read(path: &Path) {
    imp::let_everybody_read(path);
}

/// Gives everybody the right to change a file.
pub(crate) fn let_everybody_write(path: &Path) {
    imp::let_everybody_write(path);
}

/// Whether the owner may read and write a file. Access of others does not matter.
pub(crate) fn owner_has_access(path: &Path) -> bool {
    imp::owner_has_access(path)
}

/// A umask, in force until the value is dropped. Without effect on systems without umasks.
#[allow(dead_code, reason = "kept for its end")]
pub(crate) struct Umask(imp::Umask);

impl Umask {
    /// A umask that removes no permissions.
    pub(crate) fn permissive() -> Self {
        Self(imp::Umask::new(0))
    }

    /// A umask that removes all permissions, even the owner's.
    pub(crate) fn strict() -> Self {
        Self(imp::Umask::new(0o777))
    }
}

/// The SID of another user than this process's: on Windows, the group of authenticated users.
pub(crate) const ANOTHER_USER: &str = "S-1-5-11";

/// Calls `act` as the same user with fewer rights: without elevation if this process is elevated.
pub(crate) fn with_fewer_rights<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let acting = scope.spawn(|| {
            imp::drop_privileges();
            act()
        });
        acting.join().unwrap()
    })
}

/// Sends a signal, given by name, to a process of ours.
pub(crate) fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Raises the signal of Ctrl-C in this process.
pub(crate) fn interrupt() {
    imp::interrupt();
}

/// Raises the event of Ctrl-Break in this process.
pub(crate) fn press_ctrl_break() {
    imp::press_ctrl_break();
}

/// Puts key events of Shift, Ctrl and Alt into this process's console, and waits until they are
/// read.
pub(crate) fn press_modifiers() {
    imp::press_modifiers();
}

/// Makes this process's console report each key by itself, and no escape sequences.
pub(crate) fn without_virtual_terminal_input() {
    imp::without_virtual_terminal_input();
}

pub(crate) fn is_alive(pid: u32) -> bool {
    imp::is_alive(pid)
}

/// Waits until a process is gone. This polls, since only the process's parent would get an event.
pub(crate) fn wait_for_end(pid: u32) {
    let end = Instant::now() + TIMEOUT;
    while is_alive(pid) {
        assert!(Instant::now() < end, "process {pid} goes on");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Polls a condition that no event reports.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "it never is so");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Plays a role as another user, whose password is given. Returns its exit code.
pub(crate) fn play_as(name: &str, password: &str, open: &str, role: &[&str]) -> u32 {
    imp::play_as(name, password, open, role)
}

/// A listener of this user that accepts `user`.
pub(crate) fn listener_for(endpoint: &Endpoint, user: &User) -> Listener {
    imp::listener_for(endpoint, user)
}

/// Replaces this process's program; returns only if that fails.
pub(crate) fn exec(command: &mut Command) -> io::Error {
    imp::exec(command)
}

/// Forks this process; returns true in the parent.
pub(crate) fn fork() -> bool {
    imp::fork()
}

/// Makes a command start as the leader of a process group.
pub(crate) fn in_own_group(command: &mut Command) -> &mut Command {
    imp::in_own_group(command)
}

/// Makes a process group the foreground of this process's terminal.
pub(crate) fn give_terminal(group: u32) {
    imp::give_terminal(group);
}

/// Overwrites this process's own command line.
pub(crate) fn erase_command_line() {
    imp::erase_command_line();
}

/// Lets the processes that this one starts inherit an end of a pipe.
pub(crate) fn make_inheritable(end: &PipeWriter) {
    imp::make_inheritable(end);
}

/// Makes a symbolic link.
pub(crate) fn symbolic_link(file: &Path, link: &Path) {
    imp::symbolic_link(file, link);
}

/// Makes a command start without this process's terminal.
pub(crate) fn without_terminal(command: &mut Command) -> &mut Command {
    imp::without_terminal(command)
}

/// The session of the calling process (Unix), or whether it has a console (Windows).
pub(crate) fn session() -> String {
    imp::session()
}

/// The expected result of [`session`] in a detached process.
pub(crate) fn detached_session(pid: &str) -> String {
    imp::detached_session(pid)
}

/// A user other than this process's, and a folder that both users can access.
pub(crate) struct AnotherUser(imp::AnotherUser);

impl AnotherUser {
    pub(crate) fn new(folder: &Folder) -> Self {
        Self(imp::AnotherUser::new(folder))
    }

    pub(crate) fn name(&self) -> String {
        self.0.name()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&self.0.endpoint()).unwrap()
    }

    /// A listener of this user at the endpoint, which lets the other user in.
    pub(crate) fn admitting_listener(&self) -> Listener {
        listener_for(&self.endpoint(), &User::parse(&self.name()).unwrap())
    }

    /// A command that runs this program in a role, as that user.
    pub(crate) fn play(&self, role: &str, arguments: &[&Path]) -> Command {
        self.0.play(role, arguments)
    }
}

#[cfg(unix)]
mod imp {
    use std::{
        env,
        ffi::OsString,
        fs::{self, Permissions},
        io::{self, PipeWriter},
        os::{
            fd::AsRawFd as _,
            unix::{fs::PermissionsExt as _, process::CommandExt as _},
        },
        path::{Path, PathBuf},
        process::Command,
    };

    use platform::{endpoint::Endpoint, peer::User, transport::Listener};

    use crate::{roles::PLAY, scene::Folder};

    pub(crate) const BAD_ENDPOINTS: &[&str] = &[];
    const NOBODY: u32 = 65534;

    pub(crate) fn run_kinds() -> Vec<&'static str> {
        // SAFETY: no arguments, cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        let mut here = vec!["unix", if cfg!(target_os = "macos") { "macos" } else { "linux" }];
        here.extend((!root).then_some("unprivileged"));
        here
    }

    pub(crate) fn endpoint_in(folder: &Path) -> OsString {
        folder.join("s").into_os_string()
    }

    pub(crate) fn longest_endpoint() -> (String, usize) {
        let limit = if cfg!(target_os = "macos") { 103 } else { 107 };
        (format!("/{}", "x".repeat(limit - 1)), limit)
    }

    pub(crate) fn let_everybody_in(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }

    pub(crate) fn let_everybody_read(path: &Path) {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        fs::set_permissions(path, Permissions::from_mode(mode | 0o004)).unwrap();
    }

    pub(crate) fn let_everybody_write(path: &Path) {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        fs::set_permissions(path, Permissions::from_mode(mode | 0o002)).unwrap();
    }

    pub(crate) fn owner_has_access(path: &Path) -> bool {
        fs::metadata(path).unwrap().permissions().mode() & 0o700 == 0o600
    }

    /// The system checks the mode; a listener asks for nothing.
    pub(crate) fn listener_for(endpoint: &Endpoint, _: &User) -> Listener {
        let listener = Listener::bind(endpoint).unwrap();
        let_everybody_in(endpoint.as_text().as_ref());
        listener
    }

    pub(crate) fn play_as(_: &str, _: &str, _: &str, _: &[&str]) -> u32 {
        panic!("a process of root becomes another user by itself")
    }

    pub(crate) struct Umask(libc::mode_t);

    impl Umask {
        pub(crate) fn new(mask: u32) -> Self {
            // SAFETY: no memory is touched; the tests run one after the other.
            Self(unsafe { libc::umask(mask as libc::mode_t) })
        }
    }

    impl Drop for Umask {
        fn drop(&mut self) {
            // SAFETY: as above.
            unsafe { libc::umask(self.0) };
        }
    }

    pub(crate) fn interrupt() {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
    }

    pub(crate) fn press_ctrl_break() {
        panic!("there is no such key");
    }

    pub(crate) fn press_modifiers() {
        panic!("a terminal does not report modifier keys");
    }

    pub(crate) fn without_virtual_terminal_input() {
        panic!("a terminal does not report events of keys");
    }

    pub(crate) fn drop_privileges() {
        panic!("all processes of a user have the same rights");
    }

    pub(crate) fn is_alive(pid: u32) -> bool {
        // An ended process stays until its parent reaps it. If the parent is a process 1 that does
        // not reap processes, it stays for good.
        let ended = fs::read_to_string(format!("/proc/{pid}/stat"));
        // SAFETY: no pointers; signal 0 only queries.
        let known = unsafe { libc::kill(pid as libc::pid_t, 0) == 0 };
        known && !ended.is_ok_and(|stat| stat.contains(") Z "))
    }

    pub(crate) fn exec(command: &mut Command) -> io::Error {
        command.exec()
    }

    pub(crate) fn fork() -> bool {
        // SAFETY: a role has one thread, so that no lock is held.
        let pid = unsafe { libc::fork() };
        assert_ne!(pid, -1);
        pid != 0
    }

    pub(crate) fn in_own_group(command: &mut Command) -> &mut Command {
        command.process_group(0)
    }

    pub(crate) fn give_terminal(group: u32) {
        // SAFETY: no pointers. The system would stop a process in the background for this call, so
        // the signal is ignored.
        unsafe {
            libc::signal(libc::SIGTTOU, libc::SIG_IGN);
            assert_eq!(libc::tcsetpgrp(0, group as libc::pid_t), 0);
        }
    }

    /// The start of the command line in memory; its bytes are contiguous.
    #[cfg(target_os = "linux")]
    fn command_line() -> *mut u8 {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(45).unwrap();
        std::ptr::with_exposed_provenance_mut(start.parse().unwrap())
    }

    #[cfg(target_os = "macos")]
    fn command_line() -> *mut u8 {
        // SAFETY: the system keeps the array, which has at least the program's name.
        unsafe { (**libc::_NSGetArgv()).cast() }
    }

    pub(crate) fn erase_command_line() {
        let bytes: usize = env::args_os().map(|argument| argument.len() + 1).sum();
        // SAFETY: the bytes exist and are writable, and there is no reference to them.
        unsafe { command_line().write_bytes(b'x', bytes - 1) };
    }

    pub(crate) fn make_inheritable(end: &PipeWriter) {
        // SAFETY: the descriptor is open, and the flag is cleared, which takes no pointer.
        assert_eq!(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, 0) }, 0);
    }

    pub(crate) fn symbolic_link(file: &Path, link: &Path) {
        std::os::unix::fs::symlink(file, link).unwrap();
    }

    /// Does nothing: the test with processes without a terminal does not run on this system.
    pub(crate) fn without_terminal(command: &mut Command) -> &mut Command {
        command
    }

    pub(crate) fn session() -> String {
        // SAFETY: no pointers.
        unsafe { libc::getsid(0) }.to_string()
    }

    /// A detached process leads a session of its own.
    pub(crate) fn detached_session(pid: &str) -> String {
        pid.to_owned()
    }

    pub(crate) struct AnotherUser(PathBuf);

    impl AnotherUser {
        /// Copies this program to a folder that the other user can access.
        pub(crate) fn new(folder: &Folder) -> Self {
            let open = folder.path("open");
            fs::create_dir(&open).unwrap();
            let_everybody_in(&open);
            fs::copy(env::current_exe().unwrap(), open.join("contract")).unwrap();
            let_everybody_in(&open.join("contract"));
            Self(open)
        }

        pub(crate) fn name(&self) -> String {
            NOBODY.to_string()
        }

        pub(crate) fn endpoint(&self) -> OsString {
            self.0.join("s").into_os_string()
        }

        pub(crate) fn play(&self, role: &str, arguments: &[&Path]) -> Command {
            let mut command = Command::new(self.0.join("contract"));
            command.args([PLAY, role]).args(arguments).current_dir("/").uid(NOBODY).gid(NOBODY);
            command
        }
    }
}

#[cfg(windows)]
mod imp {
    use std::{
        env,
        ffi::{CStr, OsString},
        fs,
        io::{self, PipeWriter},
        mem::zeroed,
        os::windows::{ffi::OsStrExt as _, io::AsRawHandle as _, process::CommandExt as _},
        path::{Path, PathBuf},
        process::Command,
        ptr::{null, null_mut},
        thread,
        time::{Duration, Instant},
    };

    use platform::{endpoint::Endpoint, peer::User, service, transport::Listener};
    use windows_sys::Win32::{
        Foundation::{
            CloseHandle, HANDLE, HANDLE_FLAG_INHERIT, LocalFree, SetHandleInformation,
            WAIT_OBJECT_0,
        },
        Security::{
            Authorization::{
                ConvertStringSecurityDescriptorToSecurityDescriptorW, ConvertStringSidToSidW,
                SDDL_REVISION_1,
            },
            DACL_SECURITY_INFORMATION, DuplicateTokenEx, GetLengthSid, GetTokenInformation,
            SID_AND_ATTRIBUTES, SecurityImpersonation, SetFileSecurityW, SetTokenInformation,
            TOKEN_ALL_ACCESS, TOKEN_DUPLICATE, TOKEN_ELEVATION, TOKEN_MANDATORY_LABEL, TOKEN_QUERY,
            TokenElevation, TokenImpersonation, TokenIntegrityLevel,
        },
        System::{
            Console::{
                CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, GetConsoleCP,
                GetNumberOfConsoleInputEvents, GetStdHandle, INPUT_RECORD, KEY_EVENT,
                STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode,
                WriteConsoleInputW,
            },
            Environment::GetCommandLineW,
            JobObjects::{
                AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
                JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
                SetInformationJobObject,
            },
            LibraryLoader::{GetModuleHandleA, GetProcAddress},
            SystemServices::SE_GROUP_INTEGRITY,
            Threading::{
                CREATE_NO_WINDOW, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT,
                CreateProcessWithLogonW, DETACHED_PROCESS, GetCurrentProcess, GetExitCodeProcess,
                INFINITE, OpenProcess, OpenProcessToken, PROCESS_INFORMATION,
                PROCESS_QUERY_LIMITED_INFORMATION, ResumeThread, STARTF_USESTDHANDLES,
                STARTUPINFOW, SetThreadToken, WaitForSingleObject,
            },
        },
    };

    use crate::{
        roles::PLAY,
        scene::{Folder, TIMEOUT},
    };

    pub(crate) const BAD_ENDPOINTS: &[&str] =
        &["relay", r"C:\relay.sock", r"\\.\pipe\", r"\\.\pipe\a\b", r"\\elsewhere\pipe\relay"];
    const SHOWN_ON_UNIX: &str = "the table says that this is skipped here";

    pub(crate) fn run_kinds() -> Vec<&'static str> {
        // SAFETY: both names end with a zero, and ntdll is always loaded.
        let version = unsafe {
            let ntdll = GetModuleHandleA(c"ntdll.dll".as_ptr().cast());
            GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast())
        };
        let Some(version) = version else { return vec!["windows"] };
        // SAFETY: the function takes nothing and returns a text that stays.
        let version = unsafe { CStr::from_ptr(version() as *const _) };
        match version.to_bytes().starts_with(b"8.") {
            true => vec!["windows", "wine", "wine 8"],
            false => vec!["windows", "wine"],
        }
    }

    pub(crate) fn endpoint_in(folder: &Path) -> OsString {
        let mut name = OsString::from(r"\\.\pipe\");
        name.push(folder.file_name().unwrap());
        name
    }

    pub(crate) fn longest_endpoint() -> (String, usize) {
        (format!(r"\\.\pipe\{}", "x".repeat(247)), 256)
    }

    pub(crate) fn let_everybody_in(path: &Path) {
        let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
        let text: Vec<u16> = "D:P(A;;GA;;;WD)".encode_utf16().chain([0]).collect();
        let mut descriptor = null_mut();
        // SAFETY: both texts end with a zero; the pointer is to a pointer of ours, which the second
        // call uses and the last one frees.
        unsafe {
            let made = ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &mut descriptor,
                null_mut(),
            );
            assert_ne!(made, 0);
            assert_ne!(SetFileSecurityW(path.as_ptr(), DACL_SECURITY_INFORMATION, descriptor), 0);
            LocalFree(descriptor);
        }
    }

    /// Grants all rights to everybody.
    pub(crate) fn let_everybody_read(path: &Path) {
        let_everybody_in(path);
    }

    pub(crate) fn let_everybody_write(path: &Path) {
        let_everybody_in(path);
    }

    pub(crate) fn owner_has_access(path: &Path) -> bool {
        std::fs::OpenOptions::new().read(true).write(true).open(path).is_ok()
    }

    pub(crate) fn listener_for(endpoint: &Endpoint, user: &User) -> Listener {
        Listener::bind_for(endpoint, user).unwrap()
    }

    pub(crate) struct Umask;

    impl Umask {
        pub(crate) fn new(_: u32) -> Self {
            Self
        }
    }

    /// Sends Ctrl-C to all processes of the console, which are the role and its launcher.
    pub(crate) fn interrupt() {
        // SAFETY: no pointers.
        assert_ne!(unsafe { GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0) }, 0);
    }

    pub(crate) fn press_ctrl_break() {
        // SAFETY: no pointers.
        assert_ne!(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0) }, 0);
    }

    pub(crate) fn press_modifiers() {
        const CODES: [u16; 3] = [0x10, 0x11, 0x12];
        // SAFETY: all-zero is a valid value of them.
        let mut keys: [INPUT_RECORD; CODES.len()] = unsafe { zeroed() };
        for (key, code) in keys.iter_mut().zip(CODES) {
            key.EventType = KEY_EVENT as u16;
            // SAFETY: any bytes are a valid value of the type.
            let key = unsafe { &mut key.Event.KeyEvent };
            (key.bKeyDown, key.wRepeatCount, key.wVirtualKeyCode) = (1, 1, code);
        }
        let (end, mut count) = (Instant::now() + TIMEOUT, 0);
        // SAFETY: the pointers and the length are those of one array and one number of ours.
        unsafe {
            let keyboard = GetStdHandle(STD_INPUT_HANDLE);
            assert_ne!(WriteConsoleInputW(keyboard, keys.as_ptr(), 3, &mut count), 0);
            while count > 0 {
                assert!(Instant::now() < end, "the pressed keys are not read");
                thread::sleep(Duration::from_millis(5));
                assert_ne!(GetNumberOfConsoleInputEvents(keyboard, &mut count), 0);
            }
        }
    }

    pub(crate) fn without_virtual_terminal_input() {
        // SAFETY: no pointers. Without any flag, no line is collected.
        assert_ne!(unsafe { SetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), 0) }, 0);
    }

    /// Drops privileges for the calling thread's life.
    pub(crate) fn drop_privileges() {
        let (mut mine, mut less) = (null_mut(), null_mut());
        // SAFETY: all-zero is a valid value of the type.
        let mut elevation: TOKEN_ELEVATION = unsafe { zeroed() };
        let mut bytes = size_of::<TOKEN_ELEVATION>() as u32;
        // SAFETY: the process is our own, the pointers are to values of ours, and the handles stay
        // open.
        unsafe {
            let access = TOKEN_DUPLICATE | TOKEN_QUERY;
            assert_ne!(OpenProcessToken(GetCurrentProcess(), access, &mut mine), 0);
            let out = (&raw mut elevation).cast();
            assert_ne!(GetTokenInformation(mine, TokenElevation, out, bytes, &mut bytes), 0);
            let (level, kind) = (SecurityImpersonation, TokenImpersonation);
            assert_ne!(DuplicateTokenEx(mine, TOKEN_ALL_ACCESS, null(), level, kind, &mut less), 0);
        }
        // The SIDs of medium and low integrity.
        let level = if elevation.TokenIsElevated != 0 { "S-1-16-8192" } else { "S-1-16-4096" };
        let level: Vec<u16> = level.encode_utf16().chain([0]).collect();
        let mut sid = null_mut();
        // SAFETY: the text ends with a zero; the SID lives until it is freed, after its last use;
        // null is this thread.
        unsafe {
            assert_ne!(ConvertStringSidToSidW(level.as_ptr(), &mut sid), 0);
            let label = SID_AND_ATTRIBUTES { Sid: sid, Attributes: SE_GROUP_INTEGRITY as u32 };
            let label = TOKEN_MANDATORY_LABEL { Label: label };
            let bytes = size_of_val(&label) as u32 + GetLengthSid(sid);
            let lowered =
                SetTokenInformation(less, TokenIntegrityLevel, (&raw const label).cast(), bytes);
            LocalFree(sid);
            assert_ne!(lowered, 0);
            assert_ne!(SetThreadToken(null(), less), 0);
        }
    }

    pub(crate) fn is_alive(pid: u32) -> bool {
        const STILL_ACTIVE: u32 = 259;
        // SAFETY: the handle is checked, used and closed here; the pointer is to a number of ours.
        unsafe {
            let process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid);
            if process.is_null() {
                return false;
            }
            let mut code = 0;
            let known = GetExitCodeProcess(process, &mut code) != 0;
            CloseHandle(process);
            known && code == STILL_ACTIVE
        }
    }

    pub(crate) fn exec(_: &mut Command) -> io::Error {
        panic!("{SHOWN_ON_UNIX}")
    }

    pub(crate) fn fork() -> bool {
        panic!("{SHOWN_ON_UNIX}")
    }

    pub(crate) fn in_own_group(_: &mut Command) -> &mut Command {
        panic!("{SHOWN_ON_UNIX}")
    }

    pub(crate) fn give_terminal(_: u32) {
        panic!("{SHOWN_ON_UNIX}")
    }

    pub(crate) fn erase_command_line() {
        // SAFETY: the text is the process's own, writable, ends with a zero, and nothing has a
        // reference to it.
        unsafe {
            let mut unit = GetCommandLineW().cast_mut();
            while *unit != 0 {
                *unit = u16::from(b'x');
                unit = unit.add(1);
            }
        }
    }

    pub(crate) fn make_inheritable(end: &PipeWriter) {
        let (end, flag) = (end.as_raw_handle(), HANDLE_FLAG_INHERIT);
        // SAFETY: the handle is open.
        assert_ne!(unsafe { SetHandleInformation(end, flag, flag) }, 0);
    }

    pub(crate) fn symbolic_link(_: &Path, _: &Path) {
        panic!("{SHOWN_ON_UNIX}")
    }

    pub(crate) fn without_terminal(command: &mut Command) -> &mut Command {
        command.creation_flags(DETACHED_PROCESS)
    }

    pub(crate) fn session() -> String {
        // SAFETY: no arguments.
        format!("console {}", unsafe { GetConsoleCP() } != 0)
    }

    pub(crate) fn detached_session(_: &str) -> String {
        "console false".to_owned()
    }

    /// An account of this test, which is removed when dropped.
    pub(crate) struct AnotherUser {
        password: String,
        sid: User,
        /// A folder that everybody can access, with this program in it.
        open: PathBuf,
    }

    impl AnotherUser {
        const NAME: &str = "agent-relay-test";

        pub(crate) fn new(folder: &Folder) -> Self {
            // `net` asks a question about passwords of over 14 characters.
            let digits = u32::from_le_bytes(platform::random::bytes().unwrap());
            let password = format!("Aa1-{digits:08x}");
            // A killed run leaves the account.
            net(&["user", Self::NAME, "/delete"]);
            assert!(net(&["user", Self::NAME, &password, "/add"]), "no account: run this elevated");
            let sid = service::site(Some(Self::NAME)).unwrap().unwrap().owner;
            let open = folder.path("open");
            fs::create_dir(&open).unwrap();
            fs::copy(env::current_exe().unwrap(), open.join("contract.exe")).unwrap();
            for path in [&open.join("contract.exe"), &open] {
                let_everybody_in(path);
            }
            Self { password, sid, open }
        }

        pub(crate) fn name(&self) -> String {
            self.sid.to_string()
        }

        pub(crate) fn endpoint(&self) -> OsString {
            endpoint_in(self.open.parent().unwrap())
        }

        /// A command that starts the role as the other user, passes its own streams on, and ends
        /// with it.
        pub(crate) fn play(&self, role: &str, arguments: &[&Path]) -> Command {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args([PLAY, "as-another-user", Self::NAME, &self.password]);
            command.arg(&self.open).arg(role).args(arguments);
            command
        }
    }

    impl Drop for AnotherUser {
        fn drop(&mut self) {
            net(&["user", Self::NAME, "/delete"]);
        }
    }

    fn net(arguments: &[&str]) -> bool {
        Command::new("net").args(arguments).output().unwrap().status.success()
    }

    /// Plays a role as another user, in a copy of this program in `open`. Returns its exit code.
    pub(crate) fn play_as(name: &str, password: &str, open: &str, role: &[&str]) -> u32 {
        let wide = |text: &str| -> Vec<u16> { text.encode_utf16().chain([0]).collect() };
        // No argument has a quote in it, or ends with a backslash.
        let words = [&["contract.exe", PLAY][..], role].concat();
        let mut line = wide(&words.iter().map(|word| format!("\"{word}\" ")).collect::<String>());
        let program = wide(&format!(r"{open}\contract.exe"));
        let streams = [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE];
        // SAFETY: all-zero is a valid value of both types.
        let (mut startup, mut started): (STARTUPINFOW, PROCESS_INFORMATION) =
            unsafe { (zeroed(), zeroed()) };
        startup.cb = size_of::<STARTUPINFOW>() as u32;
        startup.dwFlags = STARTF_USESTDHANDLES;
        // SAFETY: no pointers; the streams are open for the whole process.
        let [input, output, errors] = streams.map(|stream| unsafe { GetStdHandle(stream) });
        (startup.hStdInput, startup.hStdOutput, startup.hStdError) = (input, output, errors);
        // SAFETY: the texts end with a zero and live until after the call, as the values of ours do;
        // null stands for the environment of the other user. Then the handles are checked and open.
        unsafe {
            let flags = CREATE_SUSPENDED | CREATE_NO_WINDOW | CREATE_UNICODE_ENVIRONMENT;
            let made = CreateProcessWithLogonW(
                wide(name).as_ptr(),
                wide(".").as_ptr(),
                wide(password).as_ptr(),
                0,
                program.as_ptr(),
                line.as_mut_ptr(),
                flags,
                null(),
                wide(open).as_ptr(),
                &startup,
                &mut started,
            );
            assert_ne!(made, 0, "{}", io::Error::last_os_error());
            end_with_this_process(started.hProcess);
            assert_ne!(ResumeThread(started.hThread), u32::MAX);
            assert_eq!(WaitForSingleObject(started.hProcess, INFINITE), WAIT_OBJECT_0);
            let mut code = 0;
            assert_ne!(GetExitCodeProcess(started.hProcess, &mut code), 0);
            code
        }
    }

    /// Puts a process into a job that ends with this process.
    unsafe fn end_with_this_process(process: HANDLE) {
        // SAFETY: all-zero is a valid value of the type.
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let bytes = size_of_val(&limits) as u32;
        // SAFETY: the job's handle is checked and stays open; the pointer and the length are those
        // of one value; the caller's process is open.
        unsafe {
            let job = CreateJobObjectW(null(), null());
            assert!(!job.is_null());
            let (kind, limits) = (JobObjectExtendedLimitInformation, (&raw const limits).cast());
            assert_ne!(SetInformationJobObject(job, kind, limits, bytes), 0);
            assert_ne!(AssignProcessToJobObject(job, process), 0);
        }
    }
}
