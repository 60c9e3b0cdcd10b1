//! Windows: there is no fork, and no process outlives its console.

use std::{convert::Infallible, fs::File, io};

use crate::refusal;

#[derive(Clone, Debug)]
pub(super) struct Front(Infallible);

impl Front {
    pub(super) fn fork() -> io::Result<Result<Self, i32>> {
        Err(refusal(io::ErrorKind::Unsupported, "a process of Windows ends with its console"))
    }

    pub(super) fn wait(&self) {
        match self.0 {}
    }

    pub(super) fn runs(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn leave(&self, _: Option<File>) -> io::Result<()> {
        match self.0 {}
    }
}
