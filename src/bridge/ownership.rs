//! Ownership: which of the transcripts that grow is the child's own.
//!
//! Several agents may work in one directory, and each writes a transcript. The messages in a
//! transcript are sent in the child's name only once it is certain that the child wrote them. A
//! transcript is the child's in one of three cases:
//!
//! 1. The system says so. From then on, nothing else counts.
//! 2. It has a prompt with a frame that was typed here.
//! 3. Its last prompt followed an Enter typed here and is on the screen, its last answer has
//!    appeared on the screen since, and no other candidate is a rival. See [`Ownership::judge`].
//!
//! Two agents may be asked the same at once and answer the same. Then neither transcript is the
//! child's until they differ, or one of them gets case 2. A conversation may also change hands: the
//! child resumes one that was another agent's.

mod turn;

pub(super) use turn::letters_on;

use super::transcript::{Record, TranscriptId};
use crate::protocol::Moment;
use turn::{Enter, Turn};

/// Candidates at a time.
const CANDIDATES_MAX: usize = 32;

/// The longest time from an Enter, or from the child's start, to the record of the prompt that it
/// submitted.
const SUBMITTED_MS: u64 = 30_000;

/// The longest time from a record to its appearance on the screen, where the child has a
/// transcript already. A record that appears later may be one of another conversation, which the
/// child resumes and shows now.
const SHOWN_MS: u64 = 5000;

/// The longest time from an answer's appearance on the screen to its record in a transcript that
/// has the prompt already.
const ANSWER_RECORDED_MS: u64 = 1500;

/// The longest time from an answer's appearance on the screen to the first record of its
/// transcript, where other agents of the same kind are at work in the directory.
const TRANSCRIPT_BEGUN_MS: u64 = 5000;

/// The shortest time between two comparisons of the answers with the screen.
const COMPARED_MS: u64 = 50;

/// Judges which candidates are the child's transcripts.
#[derive(Default)]
pub(super) struct Ownership {
    candidates: Vec<Candidate>,
    /// The system names the child's transcripts.
    is_named_by_system: bool,
    /// The last Enter of the person. Until there is one, the child's start counts as an Enter,
    /// since a child may be started with a prompt.
    last_enter: Option<Enter>,
    last_search: Option<Search>,
    comparison: Comparison,
}

/// A transcript that may be the child's.
struct Candidate {
    id: TranscriptId,
    is_own: bool,
    /// The agent has not finished its work at the last prompt, as far as the transcript says.
    is_at_work: bool,
    /// The last prompt, and what followed it.
    turn: Option<Turn>,
}

/// A search for transcripts, all of which were then read to their ends.
struct Search {
    at: Moment,
    /// No other agent of the same kind was at work in the child's directory.
    is_alone: bool,
}

/// The last comparison of all turns with the screen.
#[derive(Default)]
enum Comparison {
    /// The next comparison is due at once: none was made since the last record.
    #[default]
    Due,
    Done {
        at: Moment,
        /// The screen has changed since then.
        has_changed: bool,
    },
}

/// Whether a candidate is the child's transcript, or why that is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assessment {
    /// No Enter typed here can have submitted the prompt.
    SubmittedElsewhere,
    /// The prompt or the last answer is not on the screen.
    NotOnScreen,
    /// Another transcript may still get the same answer.
    TooEarly,
    /// Another candidate may be the child's for the same reasons.
    HasRival,
    /// The transcript is the child's.
    Own,
}

impl Ownership {
    /// Notes the child's start, unless that was noted before.
    pub(super) fn start(&mut self, now: Moment) {
        self.last_enter.get_or_insert_with(|| Enter { at: now, screen: String::new() });
    }

    /// Notes that the person pressed Enter while the screen had these letters.
    pub(super) fn enter(&mut self, now: Moment, screen: String) {
        self.last_enter = Some(Enter { at: now, screen });
    }

    /// Makes a transcript a candidate. Returns the one that is no longer a candidate instead.
    pub(super) fn admit(&mut self, id: TranscriptId) -> Option<TranscriptId> {
        if self.find(id).is_some() {
            return None;
        }
        let removed = (self.candidates.len() == CANDIDATES_MAX).then(|| {
            let other = self.candidates.iter().position(|candidate| !candidate.is_own);
            let index = other.unwrap_or(0);
            self.end_turn(self.candidates[index].id);
            self.candidates.remove(index).id
        });
        self.candidates.push(Candidate { id, is_own: false, is_at_work: false, turn: None });
        removed
    }

    /// Ends the last turn of a candidate, which gets another prompt. Returns whether that turn may
    /// have been the child's.
    pub(super) fn end_turn(&mut self, id: TranscriptId) -> bool {
        let index = self.candidates.iter().position(|candidate| candidate.id == id);
        let Some(index) = index else { return true };
        let mut candidate = self.candidates.remove(index);
        // The evidence for this turn is gone: nothing distinguishes it from its rivals any more.
        for turn in self.candidates.iter_mut().filter_map(|other| other.turn.as_mut()) {
            turn.had_rival |= candidate.is_rival_of(turn);
        }
        let may_be_own = candidate.turn.take().is_none_or(|turn| turn.may_be_of_child());
        self.candidates.insert(index, candidate);
        may_be_own
    }

    /// Notes a record of a candidate. A prompt begins another turn.
    pub(super) fn record(&mut self, now: Moment, id: TranscriptId, record: &Record) {
        let is_recent = |enter: &&Enter| now.since(enter.at) < SUBMITTED_MS;
        let enter = self.last_enter.as_ref().filter(is_recent).cloned();
        let Some(candidate) = self.find_mut(id) else { return };
        candidate.is_at_work = !matches!(record, Record::TurnOver);
        match (record, &mut candidate.turn) {
            (Record::Prompt(text), turn) => *turn = Some(Turn::new(text, now, enter)),
            (Record::Reply(text), Some(turn)) => turn.answer(text, now),
            (Record::Reply(_), None) | (Record::TurnOver, _) => {}
        }
    }

    /// Makes the next comparison due at once.
    pub(super) fn compare_at_once(&mut self) {
        self.comparison = Comparison::Due;
    }

    /// Notes that the child finished its work, though no transcript says so.
    pub(super) fn note_idle(&mut self) {
        self.candidates.iter_mut().for_each(|candidate| candidate.is_at_work = false);
    }

    /// Makes a candidate the child's. Returns whether it is the child's first transcript.
    pub(super) fn own(&mut self, id: TranscriptId) -> bool {
        let is_first = !self.others(id).any(|other| other.is_own);
        if let Some(candidate) = self.find_mut(id) {
            candidate.is_own = true;
        }
        is_first
    }

    /// Makes a candidate the child's, because the system names it. Returns whether it is the first.
    pub(super) fn own_by_system(&mut self, id: TranscriptId) -> bool {
        self.is_named_by_system = true;
        self.own(id)
    }

    /// Compares all turns with the letters on the screen, unless that was done a moment ago, or no
    /// evidence is sought. Returns whether it was done now.
    pub(super) fn compare(&mut self, now: Moment, letters: impl FnOnce() -> String) -> bool {
        if let Comparison::Done { at, has_changed } = &mut self.comparison {
            *has_changed = true;
            if now.since(*at) < COMPARED_MS {
                return false;
            }
        }
        if self.is_named_by_system || self.suspects().next().is_none() {
            return false;
        }
        self.comparison = Comparison::Done { at: now, has_changed: false };
        let screen = letters();
        let has_own = self.has_own();
        for Candidate { is_own, turn, .. } in &mut self.candidates {
            if let Some(turn) = turn
                && (*is_own || !has_own || now.since(turn.answered_at) < SHOWN_MS)
            {
                turn.compare(now, &screen);
            }
        }
        true
    }

    /// Notes a search: all candidates were read to the ends that they had at this moment.
    pub(super) fn searched(&mut self, at: Moment, is_alone: bool) {
        self.last_search = Some(Search { at, is_alone });
    }

    /// Returns a candidate that the evidence now proves to be the child's transcript, if there is
    /// one.
    pub(super) fn proven(&self, now: Moment) -> Option<TranscriptId> {
        if self.is_named_by_system {
            return None;
        }
        let mut others = self.candidates.iter().filter(|candidate| !candidate.is_own);
        let proven = others.find(|candidate| self.judge(now, candidate) == Assessment::Own);
        proven.map(|candidate| candidate.id)
    }

    /// Judges whether a candidate must be the child's transcript, by its last turn.
    fn judge(&self, now: Moment, candidate: &Candidate) -> Assessment {
        let submitted = candidate.turn.as_ref().filter(|turn| turn.enter.is_some());
        let Some(turn) = submitted else { return Assessment::SubmittedElsewhere };
        let Some(shown_at) = turn.on_screen_since() else { return Assessment::NotOnScreen };
        let is_searched = self.last_search.as_ref().is_some_and(|search| search.at > shown_at);
        if !is_searched || now < self.recorded_by(candidate.id, shown_at) {
            return Assessment::TooEarly;
        }
        if turn.had_rival || self.others(candidate.id).any(|other| other.is_rival_of(turn)) {
            return Assessment::HasRival;
        }
        Assessment::Own
    }

    /// The moment by which an answer that appeared at `shown_at` is recorded in the child's
    /// transcript, if that is not `id`.
    fn recorded_by(&self, id: TranscriptId, shown_at: Moment) -> Moment {
        let is_alone = self.last_search.as_ref().is_some_and(|search| search.is_alone);
        let has_prompted = self.others(id).any(|other| other.turn.is_some());
        shown_at.plus(match (is_alone, has_prompted) {
            (false, _) => TRANSCRIPT_BEGUN_MS,
            (true, true) => ANSWER_RECORDED_MS,
            (true, false) => 0,
        })
    }

    /// Returns the next moment at which a comparison of the turns with the screen may prove that a
    /// candidate is the child's transcript.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let Comparison::Done { at: compared_at, has_changed } = self.comparison else {
            return None;
        };
        if self.is_named_by_system {
            return None;
        }
        let due = self.suspects().filter_map(|(id, turn)| match turn.on_screen_since() {
            _ if !turn.is_answered() => None,
            Some(since) => Some(self.recorded_by(id, since)).filter(|&at| at > compared_at),
            None => has_changed.then_some(compared_at),
        });
        due.min().map(|at| at.max(compared_at.plus(COMPARED_MS)))
    }

    /// The turns that may have begun with an Enter typed here, of candidates that are not the
    /// child's so far.
    fn suspects(&self) -> impl Iterator<Item = (TranscriptId, &Turn)> {
        let others = self.candidates.iter().filter(|candidate| !candidate.is_own);
        let turns = others.filter_map(|other| Some((other.id, other.turn.as_ref()?)));
        turns.filter(|(_, turn)| turn.enter.is_some())
    }

    fn others(&self, id: TranscriptId) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(move |other| other.id != id)
    }

    fn find(&self, id: TranscriptId) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.id == id)
    }

    fn find_mut(&mut self, id: TranscriptId) -> Option<&mut Candidate> {
        self.candidates.iter_mut().find(|candidate| candidate.id == id)
    }

    /// Whether this transcript is the child's.
    pub(super) fn is_own(&self, id: TranscriptId) -> bool {
        self.find(id).is_some_and(|candidate| candidate.is_own)
    }

    /// Whether the child has a transcript.
    pub(super) fn has_own(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.is_own)
    }

    /// The child's own transcript that last became a candidate.
    pub(super) fn newest_own(&self) -> Option<TranscriptId> {
        let mut newest = self.candidates.iter().rev();
        newest.find(|candidate| candidate.is_own).map(|candidate| candidate.id)
    }

    /// Whether this candidate has had a prompt.
    pub(super) fn has_turn(&self, id: TranscriptId) -> bool {
        self.find(id).is_some_and(|candidate| candidate.turn.is_some())
    }

    pub(super) fn is_named_by_system(&self) -> bool {
        self.is_named_by_system
    }

    /// Whether a candidate's turn is on the screen, but it is not certain to be the child's.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.suspects().any(|(_, turn)| turn.on_screen_since().is_some())
    }

    /// Whether the child is at work according to its transcript. Without a transcript: whether a
    /// candidate is at work at a prompt that is on the screen.
    pub(super) fn is_at_work(&self) -> bool {
        let has_own = self.has_own();
        let mut candidates = self.candidates.iter().filter(|candidate| candidate.is_at_work);
        candidates.any(|candidate| {
            let is_on_screen = || candidate.turn.as_ref().is_some_and(Turn::was_submitted_here);
            candidate.is_own || (!has_own && is_on_screen())
        })
    }
}

impl Candidate {
    /// Whether the Enter that counts as evidence for `turn`, another candidate's, may belong to
    /// this candidate instead.
    fn is_rival_of(&self, turn: &Turn) -> bool {
        let (Some(mine), Some(enter)) = (&self.turn, &turn.enter) else { return false };
        let has_same_prompt = mine.prompt == turn.prompt;
        let may_follow_enter = self.is_at_work || mine.prompted_at >= enter.at;
        // The Enter submitted this candidate's prompt. The other one is on the screen as well if
        // the agent gave it to another agent, which it started as a tool.
        let explains_enter = self.is_own
            || (mine.is_prompt_on_screen
                && !has_same_prompt
                && mine.prompted_at <= turn.prompted_at);
        let may_give_answer = !mine.answers_otherwise(turn);
        (may_follow_enter && explains_enter)
            || ((may_follow_enter || has_same_prompt) && may_give_answer)
    }
}

#[cfg(test)]
mod tests;
