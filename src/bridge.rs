//! (to come)

pub mod extract;
pub mod inject;
pub mod keys;
pub mod recipe;
pub mod screen;
