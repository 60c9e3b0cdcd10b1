//! (to come)

pub mod extract;
pub mod inject;
pub mod screen;
