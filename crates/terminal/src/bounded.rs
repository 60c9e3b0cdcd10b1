//! Memories that forget their oldest items.

use std::collections::VecDeque;

/// Appends to a queue that keeps its last `max` items.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, max: usize, item: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(item);
}
