//! The keys that a person presses in a terminal into which messages are typed as well.
//!
//! A decoder turns bytes into keys, which are classed by their possible effect on a line. From the
//! keys, `InputLine` tells whether a line has been begun and not submitted. [`KeystrokeFilter`]
//! drops a second terminal's answers to queries that the first terminal answers as well.

mod ctrl;
mod decoder;
mod encoded;
mod filter;
mod input_line;
mod key;

pub use ctrl::find_ctrl;
pub use filter::KeystrokeFilter;
pub(crate) use input_line::InputLine;

#[cfg(test)]
mod tests;
