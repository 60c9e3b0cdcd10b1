//! The keys that a person presses in a terminal into which messages are typed as well.
//!
//! A decoder turns bytes into keys by what they may do to a line. From these, [`InputLine`] tells
//! whether a line has been begun and not submitted, and [`KeystrokeFilter`] leaves out what a
//! second terminal answers to questions that the program asked the first.

mod ctrl;
mod decoder;
mod encoded;
mod filter;
mod input_line;
mod key;

pub use ctrl::find_ctrl;
pub use filter::KeystrokeFilter;
pub use input_line::{InputLine, Pressed};

#[cfg(test)]
mod tests;
