//! The keys that a person presses in a terminal that also gets typed messages.
//!
//! A decoder turns bytes into keys, classed by their possible effect on a line. From the keys,
//! `InputLine` tells whether a line was begun and not submitted. [`KeystrokeFilter`] drops a second
//! terminal's answers to queries, since the first terminal also answers them.

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
