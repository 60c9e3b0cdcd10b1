//! This program itself: its version, its file, and the argument that makes it start itself.

use super::failure::Failure;
use std::{env, path::PathBuf, sync::OnceLock};

/// This program's version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first argument that makes every executable act as `agent-relay`, so that each of them can
/// start the daemon by running itself again.
pub(super) const AS_AGENT_RELAY: &str = "--as-agent-relay";

/// The path of this program's file, as it was at the first call of this function. If another
/// version is installed at that path later, the next start by this path runs that version.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.clone());
    }
    let file = env::current_exe().map_err(|error| {
        Failure::failed(format!("the system does not say where this program is ({error})"))
            .hint("start it by its path")
    })?;
    Ok(FILE.get_or_init(|| file).clone())
}
