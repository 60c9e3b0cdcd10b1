//! The start of a process on Windows.

#[cfg(any(windows, test))]
pub(crate) mod command_line;
#[cfg(windows)]
#[path = "create_process/windows.rs"]
mod imp;

#[cfg(windows)]
pub(crate) use imp::{Inheritance, Program};
