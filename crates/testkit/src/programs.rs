//! The paths of the programs under test, and programs that run during a test.

use crate::waiting::until;
use std::{
    env, fs, io,
    path::{self, Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A process that is ended with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Copies a program, and waits until the copy can be run. On Unix, it cannot be run while a process
/// forked by another test still has the file open for writing.
#[track_caller]
pub fn copy_program(program: impl AsRef<Path>, copy: &Path) {
    fs::copy(program, copy).unwrap();
    let mut command = Command::new(copy);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    until("the copy can be run", || match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => false,
        started => {
            drop(Running(started.unwrap()));
            true
        }
    });
}

/// The absolute path of an executable of the package under test.
///
/// Cargo names it to the tests that it runs. If something else runs a test binary, the executables
/// are one folder above the binary.
pub fn program(name: &str) -> PathBuf {
    let named = env::var_os(format!("CARGO_BIN_EXE_{name}")).map(PathBuf::from);
    let program = named.unwrap_or_else(|| built().join(file_name(name)));
    let program = path::absolute(program).unwrap();
    assert!(program.exists(), "{} is missing: run cargo build", program.display());
    program
}

/// The path of an example, such as a program that plays an agent. `cargo test` builds them with the
/// tests.
pub fn example_program(name: &str) -> String {
    let program = built().join("examples").join(file_name(name));
    assert!(
        program.exists(),
        "{} is missing: run cargo build --workspace --examples",
        program.display()
    );
    program.into_os_string().into_string().unwrap()
}

/// Cargo's output folder for the profile of these tests.
fn built() -> PathBuf {
    let tests = env::current_exe().unwrap();
    tests.parent().and_then(|deps| deps.parent()).unwrap().to_owned()
}

fn file_name(name: &str) -> String {
    format!("{name}{}", env::consts::EXE_SUFFIX)
}
