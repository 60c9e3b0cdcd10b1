//! Doubles: SENDs of one name that were taken, so that the same one is not taken again.
//!
//! Remembered are the last ones and all of which a delivery is not over yet. Where all names together have
//! too many, those of who has been away for longest go first.

use super::{AgentKey, hash::FastMap};
use crate::protocol::Moment;
use crate::protocol::envelope::Envelope;
use crate::record::Fingerprint;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::{collections::VecDeque, hash::Hasher};

/// A SEND's id and content, as one number. A sender who makes two of them equal fools himself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Content(u64, u64);

impl Content {
    pub(super) fn of(envelope: &Envelope<'_>) -> Self {
        let mut hasher = SipHasher13::new();
        let parts = [
            Some(&*envelope.id),
            envelope.to.as_deref(),
            envelope.topic.as_deref(),
            Some(envelope.payload),
            envelope.payload_meta,
        ];
        for part in parts {
            // Lengths keep neighbours apart; a missing part is none of any length.
            hasher.write_u64(part.map_or(u64::MAX, |part| part.len() as u64));
            hasher.write(part.unwrap_or_default().as_bytes());
        }
        let hash = hasher.finish128();
        Self(hash.h1, hash.h2)
    }

    /// The form in which it is kept.
    pub(super) fn fingerprint(self) -> Fingerprint {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_le_bytes()
    }

    pub(super) fn from_fingerprint(bytes: Fingerprint) -> Self {
        let number = u128::from_le_bytes(bytes);
        Self((number >> 64) as u64, number as u64)
    }
}

/// How far a SEND came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// All have it: the answer, for when it is asked for again.
    Taken {
        /// How many, of a broadcast.
        recipients: Option<u64>,
        /// Its one recipient was not here.
        away: bool,
        /// The message's number, in records.
        number: u64,
        /// The change that has to be kept before it may be said.
        ticket: u64,
    },
    /// Some had no room: the same SEND goes to them alone.
    Partly {
        /// How many have it.
        recipients: u64,
        /// Who has not.
        left: Vec<AgentKey>,
        /// The message's number, in records; 0 if there is none.
        number: u64,
        /// The change that has to be kept before more of it is.
        ticket: u64,
    },
}

#[derive(Debug)]
struct Record {
    number: u64,
    /// Deliveries that are not over.
    open: u32,
    standing: Standing,
}

/// One name's.
#[derive(Debug, Default)]
pub(super) struct Doubles {
    records: FastMap<Content, Record>,
    recent: VecDeque<(u64, Content)>,
    last_number: u64,
}

impl Doubles {
    pub(super) fn standing(&self, content: Content) -> Option<&Standing> {
        self.records.get(&content).map(|record| &record.standing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The last ones; what is open beyond them counts in a queue.
    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }

    /// Remembers a SEND, or how far it has come since; `opened` deliveries are new.
    pub(super) fn note(&mut self, content: Content, standing: Standing, opened: u32, most: usize) {
        if let Some(record) = self.records.get_mut(&content) {
            record.open += opened;
            record.standing = standing;
            return;
        }
        self.last_number += 1;
        let number = self.last_number;
        self.records.insert(content, Record { number, open: opened, standing });
        self.recent.push_back((number, content));
        self.keep_last(most);
    }

    /// Forgets what is over and not among the last ones.
    pub(super) fn keep_last(&mut self, most: usize) {
        while self.recent.len() > most
            && let Some((number, old)) = self.recent.pop_front()
        {
            self.forget_if_over(old, |record| record.number == number);
        }
        if self.recent.capacity() > 4 * most {
            // It was told to keep fewer, and is to give their room back.
            self.recent.shrink_to(2 * most);
            self.records.shrink_to(2 * most);
        }
    }

    /// Says of one that is remembered how far it has come.
    pub(super) fn restate(&mut self, content: Content, standing: Standing) {
        if let Some(record) = self.records.get_mut(&content) {
            record.standing = standing;
        }
    }

    /// One delivery is over.
    pub(super) fn close_one(&mut self, content: Content) {
        let oldest = self.recent.front().map_or(u64::MAX, |(number, _)| *number);
        if let Some(record) = self.records.get_mut(&content) {
            record.open = record.open.saturating_sub(1);
        }
        self.forget_if_over(content, |record| record.number < oldest);
    }

    /// An at-most-once SEND reached all at last: the next one like it is another message.
    pub(super) fn forget(&mut self, content: Content) {
        self.records.remove(&content);
    }

    fn forget_if_over(&mut self, content: Content, also: impl Fn(&Record) -> bool) {
        if self.records.get(&content).is_some_and(|record| record.open == 0 && also(record)) {
            self.records.remove(&content);
        }
    }
}

/// Who has doubles, and how many.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) agent: AgentKey,
    /// When its name is to be forgotten, while it is away: the sooner, the longer it has been.
    pub(super) forget_at: Option<Moment>,
    pub(super) count: usize,
}

/// Says how many each may have so that these are no more than `most`, and how many that makes. Who has been
/// away for longest loses his first; those who have been so equally long, and those who are here, keep
/// equally many. Where somebody has to lose any, there is some room afterwards: each SEND asks for more.
pub(super) fn share_out(holders: &mut [Holder], most: usize) -> usize {
    let held = |holders: &[Holder]| holders.iter().map(|it| it.count).sum::<usize>();
    let mut excess = match held(holders) {
        all if all > most => all - (most - most / 64),
        all => return all,
    };
    holders.sort_unstable_by_key(|it| (it.forget_at.is_none(), it.forget_at, it.count));
    for alike in holders.chunk_by_mut(|one, other| one.forget_at == other.forget_at) {
        let lost = held(alike).min(excess);
        excess -= lost;
        let (mut room, count) = (held(alike) - lost, alike.len());
        for (at, holder) in alike.iter_mut().enumerate() {
            holder.count = holder.count.min(room / (count - at));
            room -= holder.count;
        }
    }
    held(holders)
}

#[cfg(test)]
mod tests {
    use super::super::roster::Roster;
    use super::*;

    /// How many names keep that are to be forgotten at some moment, if they are away, and have so many.
    fn shares<const N: usize>(names: [(Option<u64>, usize); N], most: usize) -> [usize; N] {
        let mut roster = Roster::default();
        let keys = names.map(|_| roster.ghost());
        let mut at = 0;
        let mut holders = names.map(|(forget_at, count)| {
            at += 1;
            Holder { agent: keys[at - 1], forget_at: forget_at.map(Moment), count }
        });
        let all = share_out(&mut holders, most);
        assert_eq!(holders.iter().map(|holder| holder.count).sum::<usize>(), all);
        keys.map(|key| holders.iter().find(|holder| holder.agent == key).unwrap().count)
    }

    #[test]
    fn who_has_been_away_for_longest_loses_his_first_and_all_others_keep_equally_many() {
        for (names, most, kept) in [
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 20, [9, 5, 6, 0]),
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 17, [9, 5, 3, 0]),
            ([(None, 9), (Some(2), 5), (Some(1), 6), (None, 0)], 11, [9, 2, 0, 0]),
            ([(Some(1), 4), (Some(1), 9), (Some(1), 8), (None, 3)], 17, [4, 5, 5, 3]),
            ([(None, 9), (None, 1), (Some(1), 1), (None, 8)], 12, [6, 1, 0, 5]),
            ([(None, 9), (None, 9), (None, 9), (None, 9)], 4, [1, 1, 1, 1]),
        ] {
            assert_eq!(shares(names, most), kept, "{names:?} {most}");
        }
    }

    #[test]
    fn where_somebody_loses_any_there_is_room_for_some_more() {
        assert_eq!(shares([(None, 6_400), (Some(1), 0)], 6_400), [6_400, 0]);
        assert_eq!(shares([(None, 6_400), (Some(1), 1)], 6_400), [6_300, 0]);
        assert_eq!(shares([(None, 3_201), (Some(1), 3_200)], 6_400), [3_201, 3_099]);
    }

    const TAKEN: Standing = Standing::Taken { recipients: None, away: false, number: 1, ticket: 1 };

    #[test]
    fn the_last_ones_and_all_that_are_open_are_remembered() {
        let mut doubles = Doubles::default();
        let content = |number| Content(number, 0);
        doubles.note(content(0), TAKEN, 1, 3);
        for number in 1..5 {
            doubles.note(content(number), TAKEN, 1, 3);
            doubles.close_one(content(number));
        }
        assert!(doubles.standing(content(0)).is_some(), "open");
        assert!(doubles.standing(content(1)).is_none(), "over, and not among the last 3");
        assert!((2..5).all(|number| doubles.standing(content(number)).is_some()));
        doubles.close_one(content(0));
        assert!(doubles.standing(content(0)).is_none());
        assert_eq!(doubles.records.len(), 3);
    }

    #[test]
    fn who_is_told_to_keep_fewer_gives_their_room_back() {
        let mut doubles = Doubles::default();
        for number in 0..1_000 {
            doubles.note(Content(number, 0), TAKEN, 0, 1_000);
        }
        doubles.keep_last(10);
        assert_eq!((doubles.len(), doubles.records.len()), (10, 10));
        assert!((990..1_000).all(|last| doubles.standing(Content(last, 0)).is_some()));
        assert!(doubles.recent.capacity() < 100 && doubles.records.capacity() < 100);
    }

    #[test]
    fn id_and_content_tell_messages_apart() {
        let content = |json: &str| Content::of(&Envelope::read(json.as_bytes()).unwrap());
        let base = r#"{"v":1,"type":"SEND","id":"i","ts":1,"to":"B","topic":"t","payload":{}}"#;
        assert_eq!(content(base), content(&base.replace("\"ts\":1", "\"ts\":2")));
        for (from, to) in [
            ("\"i\"", "\"j\""),
            ("\"B\"", "\"C\""),
            ("\"t\"", "\"u\""),
            (",\"topic\":\"t\"", ""),
            ("{}", "{ }"),
            ("{}", "{},\"payload_meta\":{}"),
        ] {
            assert_ne!(content(base), content(&base.replace(from, to)), "{from} {to}");
        }
    }
}
