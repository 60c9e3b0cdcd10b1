//! Queues that keep their newest values only.

use std::collections::VecDeque;

/// Adds a value. If the queue has `max` values already, the oldest one goes.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, max: usize, value: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}
