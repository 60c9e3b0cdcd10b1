//! The files that the agent and other agents have edited, as their hooks report.

use protocol::{
    Moment, Now,
    control::{Collision, EDITED_BYTES_MAX},
    name::Name,
};
use std::{cmp::Reverse, collections::VecDeque};

/// The time within which two agents' edits of one file collide.
const WINDOW_MS: u64 = 600_000;

/// The maximum number of remembered files that the agent itself edited: the oldest edit is
/// forgotten first.
const OWN_MAX: usize = 256;

/// The maximum number of remembered collisions. A forgotten one may be reported once more.
const COLLISIONS_MAX: usize = 256;

/// The most collisions that are listed.
const LISTED_MAX: usize = 8;

/// An edit of a file.
pub(super) struct Edit {
    /// The other agent; `None` for an edit of the wrapper's own agent.
    by: Option<String>,
    /// The file's path, absolute and without links.
    path: String,
    ago_ms: u64,
}

impl Edit {
    /// Checks an edit.
    ///
    /// # Errors
    /// A sentence, if there can be no agent of that name, or if the path is too long.
    pub(super) fn new(by: Option<String>, path: String, ago_ms: u64) -> Result<Self, String> {
        if let Some(why) = by.as_ref().and_then(|name| Name::parse(name).err()) {
            return Err(format!("no agent can have that name: {why}"));
        }
        if path.len() > EDITED_BYTES_MAX {
            return Err(format!("the path is longer than {EDITED_BYTES_MAX} bytes"));
        }
        Ok(Self { by, path, ago_ms })
    }
}

/// The latest edits, and the collisions among them.
#[derive(Default)]
pub(super) struct Edits {
    /// The agent's own, the latest edit at the end.
    own: VecDeque<(String, Moment)>,
    collisions: VecDeque<Collided>,
}

/// A file that the agent and another one have edited.
struct Collided {
    with: String,
    path: String,
    /// The time of the later edit.
    at: Now,
}

/// The consequences of an edit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// The time since the agent's own edit of the file, if it collides with another agent's edit.
    pub(super) ago_ms: Option<u64>,
    /// The other agent and the file's path, when they collide for the first time.
    pub(super) collided: Option<(String, String)>,
}

impl Edits {
    /// Notes an edit.
    pub(super) fn note(&mut self, now: Now, edit: Edit) -> Noted {
        let Edit { by, path, ago_ms } = edit;
        match by {
            Some(with) => self.note_other(now, with, path, ago_ms),
            None => {
                self.own.retain(|(known, _)| *known != path);
                push(&mut self.own, OWN_MAX, (path, now.monotonic));
                Noted::default()
            }
        }
    }

    fn note_other(&mut self, now: Now, with: String, path: String, ago_ms: u64) -> Noted {
        let own = self.own.iter().find(|(known, _)| *known == path);
        let Some(own_ms) = own.map(|(_, at)| now.monotonic.since(*at)) else {
            return Noted::default();
        };
        if own_ms.abs_diff(ago_ms) > WINDOW_MS {
            return Noted::default();
        }
        let later_ms = own_ms.min(ago_ms);
        let at = Now {
            monotonic: Moment(now.monotonic.0.saturating_sub(later_ms)),
            unix_ms: now.unix_ms.saturating_sub(later_ms),
        };
        let is_known = |it: &&mut Collided| it.path == path && it.with.eq_ignore_ascii_case(&with);
        let known = self.collisions.iter_mut().find(is_known);
        let is_new = known.is_none();
        match known {
            Some(known) => known.at = at,
            None => {
                let collided = Collided { with: with.clone(), path: path.clone(), at };
                push(&mut self.collisions, COLLISIONS_MAX, collided);
            }
        }
        Noted { ago_ms: Some(own_ms), collided: is_new.then_some((with, path)) }
    }

    /// Lists the collisions of the last ten minutes, the latest first.
    pub(super) fn collisions(&self, now: Moment) -> Vec<Collision> {
        let is_recent = |it: &&Collided| now.since(it.at.monotonic) <= WINDOW_MS;
        let mut latest: Vec<_> = self.collisions.iter().filter(is_recent).collect();
        latest.sort_by_key(|it| Reverse(it.at.monotonic));
        let listed = latest.into_iter().take(LISTED_MAX).map(|it| Collision {
            with: it.with.clone(),
            path: it.path.clone(),
            since: it.at.unix_ms,
        });
        listed.collect()
    }
}

/// Adds a value. If the queue has `max` values already, removes the oldest one.
fn push<T>(queue: &mut VecDeque<T>, max: usize, value: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn now(ms: u64) -> Now {
        Now { monotonic: Moment(ms), unix_ms: 5 * ms }
    }

    fn edit(by: &str, path: &str, ago_ms: u64) -> Edit {
        Edit::new(Some(by.to_owned()).filter(|by| !by.is_empty()), path.to_owned(), ago_ms).unwrap()
    }

    fn told(with: &str, path: &str) -> Option<(String, String)> {
        Some((with.to_owned(), path.to_owned()))
    }

    #[test]
    fn collision_is_told_once_for_each_pair_and_file() {
        let mut edits = Edits::default();
        let at = |minutes: u64| now((100 + minutes) * MINUTE);
        edits.note(at(0), edit("", "/a", 0));
        assert_eq!(edits.note(at(0), edit("Bob", "/b", 0)), Noted::default());
        let noted = edits.note(at(10), edit("Bob", "/a", 0));
        let ago_ms = Some(10 * MINUTE);
        assert_eq!(noted, Noted { ago_ms, collided: told("Bob", "/a") });
        assert_eq!(edits.note(at(10), edit("bob", "/a", 0)), Noted { ago_ms, collided: None });
        assert_eq!(edits.note(at(10), edit("Cid", "/a", 0)).collided, told("Cid", "/a"));
        assert_eq!(edits.note(at(11), edit("Dan", "/a", 0)), Noted::default(), "too late");
        // The agent's own edit is the later one.
        edits.note(at(20), edit("", "/b", 0));
        let noted = edits.note(at(20), edit("Bob", "/b", 3 * MINUTE));
        assert_eq!(noted, Noted { ago_ms: Some(0), collided: told("Bob", "/b") });
        assert_eq!(edits.note(at(20), edit("Bob", "/b", 11 * MINUTE)), Noted::default());
        let listed = |minute| -> Vec<_> {
            let listed = edits.collisions(at(minute).monotonic);
            listed.into_iter().map(|it| format!("{} {} {}", it.with, it.path, it.since)).collect()
        };
        let [first, second] = [at(10).unix_ms, at(20).unix_ms];
        let all =
            [format!("Bob /b {second}"), format!("Bob /a {first}"), format!("Cid /a {first}")];
        assert_eq!(listed(20), all);
        assert_eq!(listed(30), all[..1]);
        assert_eq!(listed(31), [""; 0]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut edits = Edits::default();
        for n in 0..=OWN_MAX {
            edits.note(now(1), edit("", &n.to_string(), 0));
        }
        assert_eq!(edits.own.len(), OWN_MAX);
        assert_eq!(edits.note(now(1), edit("Bob", "0", 0)), Noted::default());
        for n in 0..=COLLISIONS_MAX {
            edits.note(now(1), edit(&format!("B{n}"), "1", 0));
        }
        assert_eq!(edits.collisions.len(), COLLISIONS_MAX);
        assert_eq!(edits.collisions(Moment(1)).len(), LISTED_MAX);
        assert!(edits.note(now(1), edit("B0", "1", 0)).collided.is_some(), "it was forgotten");
    }

    #[test]
    fn edit_of_nobody_and_long_path_are_refused() {
        let long = "a".repeat(EDITED_BYTES_MAX + 1);
        assert!(Edit::new(None, long, 0).is_err());
        for name in ["", "@relay", "a b", "\u{1b}"] {
            assert!(Edit::new(Some(name.to_owned()), "/a".to_owned(), 0).is_err(), "{name}");
        }
    }
}
