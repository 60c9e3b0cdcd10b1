//! What is done when nothing else is: the history, its index, and what is forgotten.

use super::{Settings, trouble::Trouble, write::Written};
use crate::protocol::record::Image;
use rusqlite::Connection;

#[derive(Debug)]
pub(super) struct Sweep;

impl Sweep {
    pub(super) fn new(_: &Settings, _: &Image) -> Self {
        Self
    }
    pub(super) fn note(&mut self, _: &Written) {}
    pub(super) fn has_work(&self, _: u64, _: u64) -> bool {
        false
    }
    pub(super) fn is_behind(&self) -> bool {
        false
    }
    pub(super) fn step(&mut self, _: &mut Connection, _: &Settings, _: u64) -> Result<(), Trouble> {
        Ok(())
    }
    pub(super) fn index_all(&mut self, _: &mut Connection) -> Result<(), Trouble> {
        Ok(())
    }
    pub(super) fn make_room(
        &mut self,
        _: &mut Connection,
        _: &Settings,
        _: usize,
    ) -> Result<bool, Trouble> {
        Ok(true)
    }
}
pub(super) fn index(_: &Connection, _: u64, _: &[u8]) -> rusqlite::Result<()> {
    Ok(())
}
