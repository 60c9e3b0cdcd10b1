//! Queues that keep only their newest values.

use std::collections::VecDeque;

/// Adds a value. Drops the oldest value if the queue already has `max` values.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, max: usize, value: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}
