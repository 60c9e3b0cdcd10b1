//! Random bytes of the system.

use crate::refusal;
use std::io;

/// Returns random bytes that are fit for keys.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        refusal(io::ErrorKind::Other, format!("the system provides no random bytes: {error}"))
    })?;
    Ok(bytes)
}
