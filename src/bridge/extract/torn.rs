//! Messages whose rows were painted over before they were closed: told, unless they are read all
//! the same.

use std::collections::VecDeque;

use super::scan::Item;
use super::{Extracted, Fault};

/// How many are kept in mind, of those that were torn and of those that were read.
const KEPT_MAX: usize = 256;

/// How a message begins: its first line, and its second as far as it was there.
type Beginning = (String, String);

/// What was torn in this turn, and what was read lately.
#[derive(Debug, Default)]
pub(super) struct Torn {
    open: VecDeque<(Beginning, Extracted)>,
    read: VecDeque<Beginning>,
}

impl Torn {
    /// Takes an item that tells of a torn message out of those that were read; a message that was
    /// read, or whose own mistake is told, is no longer torn.
    pub(super) fn pass(&mut self, item: Item) -> Option<Item> {
        if item.is_torn() {
            self.add(item);
            return None;
        }
        let is_closed =
            |what: Fault| matches!(what, Fault::Unclosed | Fault::Empty | Fault::TooLarge);
        let counts = match &item.what {
            Extracted::Found(_) => true,
            Extracted::Problem(problem) => is_closed(problem.what),
        };
        if counts {
            let beginning = (item.row.clone(), item.next.clone());
            self.open.retain(|(torn, _)| !is_same(torn, &beginning));
            if !self.read.contains(&beginning) {
                push(&mut self.read, beginning);
            }
        }
        Some(item)
    }

    /// A message was torn.
    pub(super) fn add(&mut self, item: Item) {
        let beginning = (item.row, item.next);
        let is_known = self.read.iter().any(|read| is_same(&beginning, read))
            || self.open.iter().any(|(torn, _)| *torn == beginning);
        if !is_known {
            push(&mut self.open, (beginning, item.what));
        }
    }

    /// What is told at the end of a turn, once.
    pub(super) fn end_turn(&mut self) -> Vec<Extracted> {
        let (told, what): (Vec<_>, Vec<_>) = self.open.drain(..).unzip();
        told.into_iter().for_each(|beginning| push(&mut self.read, beginning));
        what
    }
}

/// Whether a torn message may be this one.
fn is_same(torn: &Beginning, other: &Beginning) -> bool {
    torn.0 == other.0 && other.1.starts_with(&*torn.1)
}

fn push<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back(one);
}
