//! Version and manifest of the executables for Windows.
#![allow(clippy::print_stdout, reason = "cargo reads standard output of build scripts")]

use embed_resource::{CompilationResult, ParamsIncludeDirs, compile_for};
use std::{env, fs, path::Path};

/// The names of the executables.
const NAMES: [&str; 3] = ["agent-relay", "agent-relay-wrap", "agent-relayw"];

fn main() -> Result<(), CompilationResult> {
    for file in ["build.rs", "package/executable.rc", "package/executable.manifest"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let version = variable("CARGO_PKG_VERSION");
    let numbers = ["MAJOR", "MINOR", "PATCH"]
        .map(|part| variable(&format!("CARGO_PKG_VERSION_{part}")))
        .join(",");
    for name in NAMES {
        let script = Path::new(&variable("OUT_DIR")).join(format!("{name}.rc"));
        let text = format!(
            "#define NAME \"{name}\"\n#define VERSION {numbers},0\n#define VERSION_TEXT \"{version}\"\n\
             #include \"executable.rc\"\n"
        );
        fs::write(&script, text).expect("OUT_DIR is writable");
        // A system without a resource compiler has no linker either, and only checks the code.
        compile_for(&script, [name], ParamsIncludeDirs(["package"])).manifest_optional()?;
    }
    Ok(())
}

fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it")
}
