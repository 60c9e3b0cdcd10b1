//! Random bytes of the system.

use std::io;

/// 256 random bits.
///
/// # Errors
/// If the system has none.
pub(super) fn random_bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the system has no randomness: {error}")))?;
    Ok(bytes)
}
