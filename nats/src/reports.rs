//! Lines for a person. A peer cannot cause too many of them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The interval that has at most one line of a topic.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The number of topics that are remembered.
const TOPICS_MAX: usize = 512;

/// The lines that were printed of each topic.
#[derive(Debug, Default)]
pub struct Reports {
    topics: BTreeMap<String, Topic>,
}

#[derive(Debug)]
struct Topic {
    again_at: Instant,
    suppressed: u64,
}

impl Reports {
    /// The line to print for an event of a topic, if any. It includes the number of omitted lines.
    pub fn line(&mut self, now: Instant, topic: &str, line: &str) -> Option<String> {
        if let Some(topic) = self.topics.get_mut(topic)
            && now < topic.again_at
        {
            topic.suppressed += 1;
            return None;
        }
        if self.topics.len() >= TOPICS_MAX {
            self.topics.retain(|_, topic| now < topic.again_at);
        }
        if self.topics.len() >= TOPICS_MAX {
            return None;
        }
        let known =
            self.topics.insert(topic.to_owned(), Topic { again_at: now + PERIOD, suppressed: 0 });
        Some(match known {
            Some(Topic { suppressed, .. }) if suppressed > 0 => {
                format!("{} (and {suppressed} more like this)", printable(line))
            }
            _ => printable(line),
        })
    }
}

/// A text without control characters, which a peer or a server may have chosen.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_topic_are_counted_within_the_period() {
        let (mut reports, now) = (Reports::default(), Instant::now());
        assert_eq!(reports.line(now, "pi", "a\x1b"), Some("a\u{fffd}".to_owned()));
        assert_eq!(reports.line(now, "desk", "a"), Some("a".to_owned()));
        assert_eq!(reports.line(now, "pi", "a"), None);
        assert_eq!(reports.line(now, "pi", "a"), None);
        let line = reports.line(now + PERIOD, "pi", "a");
        assert_eq!(line, Some("a (and 2 more like this)".to_owned()));
    }

    #[test]
    fn number_of_topics_is_bounded() {
        let (mut reports, now) = (Reports::default(), Instant::now());
        for index in 0..TOPICS_MAX {
            assert!(reports.line(now, &index.to_string(), "a").is_some());
        }
        assert_eq!(reports.line(now, "one more", "a"), None);
        assert!(reports.line(now + PERIOD, "one more", "a").is_some());
        assert_eq!(reports.topics.len(), 1);
    }
}
