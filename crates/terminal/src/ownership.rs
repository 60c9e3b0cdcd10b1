//! Ownership: decides which of the growing transcripts is the child's own.
//!
//! Several agents may work in one directory, and each writes a transcript. The messages in a
//! transcript are sent in the child's name only once it is certain that the child wrote them. A
//! transcript is the child's in one of three cases:
//!
//! 1. The operating system says so. From then on, no other evidence is used.
//! 2. It has a prompt with a frame that was typed here.
//! 3. Its last prompt followed an Enter typed here and is on the screen, its last answer has
//!    appeared on the screen since, and no other candidate is a rival. See [`Ownership::judge`].
//!
//! Two agents may get the same prompt at the same time and give the same answer. Then neither
//! transcript counts as the child's until they differ, or until case 2 holds for one of them. The
//! child may also resume another agent's conversation, and so continue a transcript that was
//! another agent's.

mod turn;

pub(super) use turn::letters_on;

use super::transcript::{Record, TranscriptId};
use protocol::Moment;
use turn::{Enter, Turn};

/// The maximum number of candidates at a time.
const CANDIDATES_MAX: usize = 32;

/// How long after an Enter, or after the child's start, the prompt that it submitted may be
/// recorded.
const SUBMITTED_MS: u64 = 30_000;

/// How long after its record a text may appear on the screen, if the child already has a
/// transcript. A later appearance may come from another agent's conversation, which the child has
/// resumed and shows now.
const SHOWN_MS: u64 = 5000;

/// How long after an answer's appearance on the screen it may be recorded, if the transcript
/// already has the prompt.
const ANSWER_RECORDED_MS: u64 = 1500;

/// How long after an answer's appearance on the screen its transcript may get its first record, if
/// other agents of the same kind are at work in the directory.
const TRANSCRIPT_BEGUN_MS: u64 = 5000;

/// The minimum time between two comparisons of the answers with the screen.
const COMPARED_MS: u64 = 50;

/// The state that determines which candidates are the child's transcripts.
#[derive(Default)]
pub(super) struct Ownership {
    candidates: Vec<Candidate>,
    /// Whether the operating system names the child's transcripts.
    pub(super) is_named_by_system: bool,
    /// The person's last Enter. Before the first Enter, the child's start counts as an Enter, since
    /// a child may be started with a prompt.
    last_enter: Option<Enter>,
    /// When all transcripts were last read to their ends, and whether no other agent of the same
    /// kind was at work in the child's directory.
    last_search: Option<(Moment, bool)>,
    /// The last comparison of all turns with the screen. Without one, the next is due at once.
    compared: Option<Comparison>,
}

/// A transcript that may be the child's.
struct Candidate {
    id: TranscriptId,
    is_own: bool,
    /// Whether the agent is still at work on the last prompt, according to the transcript.
    is_at_work: bool,
    /// The last prompt and its answers.
    turn: Option<Turn>,
}

/// A comparison of all turns with the screen since the last record.
struct Comparison {
    at: Moment,
    /// Whether the screen has changed since then.
    has_changed: bool,
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
    /// The evidence may belong to another candidate.
    HasRival,
    /// The transcript is the child's.
    Own,
}

impl Ownership {
    /// Notes the child's start. Later calls have no effect.
    pub(super) fn start(&mut self, now: Moment) {
        self.last_enter.get_or_insert_with(|| Enter { at: now, screen: String::new() });
    }

    /// Notes that the person pressed Enter while the screen had these letters.
    pub(super) fn enter(&mut self, now: Moment, screen: String) {
        self.last_enter = Some(Enter { at: now, screen });
    }

    /// Makes a transcript a candidate. Returns the candidate that had to be removed, if any.
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

    /// Ends the last turn of a candidate that gets another prompt or is removed. Returns whether
    /// that turn may have been the child's.
    pub(super) fn end_turn(&mut self, id: TranscriptId) -> bool {
        let index = self.candidates.iter().position(|candidate| candidate.id == id);
        let Some(index) = index else { return true };
        let mut candidate = self.candidates.remove(index);
        // Once the turn has ended, it can no longer be compared with its rivals' turns. So the
        // rivalry is noted in those turns.
        for turn in self.candidates.iter_mut().filter_map(|other| other.turn.as_mut()) {
            turn.had_rival |= candidate.is_rival_of(turn);
        }
        let may_be_own = candidate.turn.take().is_none_or(|turn| turn.may_be_of_child());
        self.candidates.insert(index, candidate);
        may_be_own
    }

    /// Notes a record of a candidate. A record of a prompt begins a turn.
    pub(super) fn record(&mut self, now: Moment, id: TranscriptId, record: &Record) {
        let is_recent = |enter: &&Enter| now.since(enter.at) < SUBMITTED_MS;
        let enter = self.last_enter.as_ref().filter(is_recent).cloned();
        let candidate = self.candidates.iter_mut().find(|candidate| candidate.id == id);
        let Some(candidate) = candidate else { return };
        candidate.is_at_work = !matches!(record, Record::TurnOver);
        match (record, &mut candidate.turn) {
            (Record::Prompt(text), turn) => *turn = Some(Turn::new(text, now, enter)),
            (Record::Reply(text), Some(turn)) => turn.answer(text, now),
            (Record::Reply(_), None) | (Record::TurnBegan | Record::TurnOver, _) => {}
        }
    }

    /// Makes the next comparison due at once.
    pub(super) fn compare_at_once(&mut self) {
        self.compared = None;
    }

    /// Notes that the child finished its work, though no transcript says so.
    pub(super) fn note_idle(&mut self) {
        self.candidates.iter_mut().for_each(|candidate| candidate.is_at_work = false);
    }

    /// Makes a candidate the child's transcript. Returns whether it is the child's first
    /// transcript.
    pub(super) fn own(&mut self, id: TranscriptId) -> bool {
        let is_first = !self.others(id).any(|other| other.is_own);
        let index = self.candidates.iter().position(|candidate| candidate.id == id);
        if let Some(index) = index {
            // The child may return to an earlier conversation.
            let candidate = self.candidates.remove(index);
            self.candidates.push(Candidate { is_own: true, ..candidate });
        }
        is_first
    }

    /// Compares all turns with the letters on the screen. Does nothing if they were compared a
    /// moment ago, or if no comparison can prove anything. Returns whether they were compared now.
    pub(super) fn compare(&mut self, now: Moment, letters: impl FnOnce() -> String) -> bool {
        if let Some(Comparison { at, has_changed }) = &mut self.compared {
            *has_changed = true;
            if now.since(*at) < COMPARED_MS {
                return false;
            }
        }
        if self.is_named_by_system || self.suspects().next().is_none() {
            return false;
        }
        self.compared = Some(Comparison { at: now, has_changed: false });
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

    /// Notes a search: all candidates have been read to their ends as of the time `at`.
    pub(super) fn searched(&mut self, at: Moment, is_alone: bool) {
        self.last_search = Some((at, is_alone));
    }

    /// Returns a candidate that the evidence now proves to be the child's transcript, if any.
    pub(super) fn proven(&self, now: Moment) -> Option<TranscriptId> {
        if self.is_named_by_system {
            return None;
        }
        let mut others = self.candidates.iter().filter(|candidate| !candidate.is_own);
        let proven = others.find(|candidate| self.judge(now, candidate) == Assessment::Own);
        proven.map(|candidate| candidate.id)
    }

    /// Judges by a candidate's last turn whether it must be the child's transcript.
    fn judge(&self, now: Moment, candidate: &Candidate) -> Assessment {
        let submitted = candidate.turn.as_ref().filter(|turn| turn.enter.is_some());
        let Some(turn) = submitted else { return Assessment::SubmittedElsewhere };
        let Some(shown_at) = turn.on_screen_since() else { return Assessment::NotOnScreen };
        let is_searched = self.last_search.is_some_and(|(at, _)| at > shown_at);
        if !is_searched || now < self.recorded_by(candidate.id, shown_at) {
            return Assessment::TooEarly;
        }
        if turn.had_rival || self.others(candidate.id).any(|other| other.is_rival_of(turn)) {
            return Assessment::HasRival;
        }
        Assessment::Own
    }

    /// Returns when an answer that appeared at `shown_at` would be recorded in the child's
    /// transcript at the latest, if `id` is not the child's.
    fn recorded_by(&self, id: TranscriptId, shown_at: Moment) -> Moment {
        let is_alone = self.last_search.is_some_and(|(_, is_alone)| is_alone);
        let has_prompted = self.others(id).any(|other| other.turn.is_some());
        shown_at.plus(match (is_alone, has_prompted) {
            (false, _) => TRANSCRIPT_BEGUN_MS,
            (true, true) => ANSWER_RECORDED_MS,
            (true, false) => 0,
        })
    }

    /// Returns the next time that a comparison of the turns with the screen may prove a candidate
    /// to be the child's transcript.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let compared = self.compared.as_ref().filter(|_| !self.is_named_by_system);
        let &Comparison { at: compared_at, has_changed } = compared?;
        let due = self.suspects().filter_map(|(id, turn)| match turn.on_screen_since() {
            _ if !turn.is_answered() => None,
            Some(since) => Some(self.recorded_by(id, since)).filter(|&at| at > compared_at),
            None => has_changed.then_some(compared_at),
        });
        due.min().map(|at| at.max(compared_at.plus(COMPARED_MS)))
    }

    /// Returns the turns of unproven candidates that may have begun with an Enter typed here.
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

    /// Whether this transcript is the child's.
    pub(super) fn is_own(&self, id: TranscriptId) -> bool {
        self.find(id).is_some_and(|candidate| candidate.is_own)
    }

    /// Whether the child has a transcript.
    pub(super) fn has_own(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.is_own)
    }

    /// Returns the transcript that most recently became the child's.
    pub(super) fn newest_own(&self) -> Option<TranscriptId> {
        let mut newest = self.candidates.iter().rev();
        newest.find(|candidate| candidate.is_own).map(|candidate| candidate.id)
    }

    /// Whether this candidate has got a prompt.
    pub(super) fn has_turn(&self, id: TranscriptId) -> bool {
        self.find(id).is_some_and(|candidate| candidate.turn.is_some())
    }

    /// Whether a candidate's turn is on the screen, but the candidate is not certain to be the
    /// child's.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.suspects().any(|(_, turn)| turn.on_screen_since().is_some())
    }

    /// Whether the child is at work according to its transcript. Without a transcript, whether a
    /// candidate is at work on a prompt that is on the screen.
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
    /// Whether this candidate is a rival of another candidate's `turn`: the Enter that is evidence
    /// for `turn` may belong to this candidate instead.
    fn is_rival_of(&self, turn: &Turn) -> bool {
        let (Some(mine), Some(enter)) = (&self.turn, &turn.enter) else { return false };
        let has_same_prompt = mine.prompt == turn.prompt;
        let may_follow_enter = self.is_at_work || mine.prompted_at >= enter.at;
        // The Enter submitted this candidate's prompt. The other prompt may be on the screen
        // because the agent passed it to another agent that it started as a tool.
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
