//! (to come)

pub mod extract;
pub mod screen;
