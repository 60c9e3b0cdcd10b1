//! The wrapper's own endpoint, where a person's commands control one agent.
//!
//! `attach`, `hold`, `release`, `stop` and `status` connect to the endpoint with a
//! [`client::ControlClient`]. In the wrapper, `server` has the threads, and `clients` the state of
//! each connection.

pub(crate) mod client;
pub(super) mod clients;
pub(super) mod server;

use platform::transport::Stream;
use protocol::frame::Decoder;
use std::io::{self, Read};

/// Reads the frames of one side, and passes each on until that returns false or the connection
/// ends. Whatever was read goes no further unless `admit` succeeds.
///
/// # Errors
/// A sentence, if the bytes are not frames, or one of the functions fails.
fn read_frames(
    mut stream: &Stream,
    whose: &str,
    bytes_max: usize,
    mut admit: impl FnMut() -> Result<(), String>,
    mut pass_on: impl FnMut(&[u8]) -> Result<bool, String>,
) -> Result<(), String> {
    let mut decoder = Decoder::new(bytes_max);
    loop {
        match stream.read(decoder.space()) {
            Ok(0) => return Ok(()),
            Ok(count) => decoder.filled(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::debug!("cannot read from {whose}: {error}");
                return Ok(());
            }
        }
        admit()?;
        while let Some(frames) = decoder.take().map_err(|violation| violation.message)? {
            for frame in frames {
                if !pass_on(frame)? {
                    return Ok(());
                }
            }
        }
    }
}
