//! The source of the agent's messages: its screen, or the transcript that its CLI writes.
//!
//! A transcript contains the agent's words unchanged; a screen has only the CLI's rendering of
//! them. So a transcript, if there is one, is the only source. Records of transcripts that may be
//! the child's are deferred until [`Ownership`] shows which transcript is the child's.

mod deferred;

use super::{
    extract::{Extracted, TextExtractor},
    ownership::{Ownership, letters_on},
    screen::Screen,
    settings::Settings,
    transcript::{Record, TranscriptId},
};
use deferred::Deferred;
use protocol::Moment;
use std::collections::BTreeMap;

/// How long after a message's appearance on the screen it may be recorded.
const RECORDED_MS: u64 = 15_000;

/// Where the agent's messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// On its screen.
    Screen,
    /// In this transcript.
    Transcript(TranscriptId),
    /// Nowhere, because the agent's transcript has not been found yet.
    Nowhere {
        /// When the transcript was first expected; `None` before the first prompt.
        since: Option<Moment>,
    },
}

/// Reads the agent's messages from one source.
pub(super) struct Source {
    /// The transcripts, if the CLI writes any.
    transcripts: Option<Transcripts>,
    /// Whether messages are read from the screen, even if there are transcripts.
    reads_screen: bool,
    prose: TextExtractor,
}

/// The transcripts that may be the child's.
#[derive(Default)]
struct Transcripts {
    ownership: Ownership,
    deferred: BTreeMap<TranscriptId, Deferred>,
    /// When the child's transcript got its last reply.
    replied_at: Option<Moment>,
    /// Since when the screen has shown a message that may be missing in the transcripts.
    shown_since: Option<Moment>,
    /// Whether the agent was notified of a missing message. This happens once per transcript.
    is_reported: bool,
    /// When a transcript began to be expected.
    expected_since: Option<Moment>,
}

impl Source {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            transcripts: settings.transcript.then(Transcripts::default),
            reads_screen: settings.grid || !settings.transcript,
            prose: TextExtractor::new(settings.inline),
        }
    }

    /// Notes the time of the first input. Later calls have no effect.
    pub(super) fn start(&mut self, now: Moment) {
        self.transcripts.iter_mut().for_each(|transcripts| transcripts.ownership.start(now));
    }

    /// Whether messages are read from the screen.
    pub(super) fn reads_screen(&self) -> bool {
        self.reads_screen
    }

    /// Returns where messages are read. If the child has several transcripts, returns the newest.
    pub(super) fn read_from(&self) -> ReadFrom {
        match &self.transcripts {
            Some(transcripts) if !self.reads_screen => {
                let nowhere = ReadFrom::Nowhere { since: transcripts.expected_since };
                transcripts.ownership.newest_own().map_or(nowhere, ReadFrom::Transcript)
            }
            _ => ReadFrom::Screen,
        }
    }

    /// Whether the agent is at work, according to its transcript.
    pub(super) fn is_at_work(&self) -> bool {
        let transcripts = self.transcripts.as_ref();
        transcripts.is_some_and(|transcripts| transcripts.ownership.is_at_work())
    }

    /// Notes that the agent's turn is over, although no transcript says so.
    pub(super) fn end_turn(&mut self) {
        self.transcripts.iter_mut().for_each(|transcripts| transcripts.ownership.note_idle());
    }

    /// Notes that the person pressed Enter.
    pub(super) fn enter(&mut self, now: Moment, screen: &Screen) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.ownership.enter(now, letters_on(screen));
        }
        self.expect(now);
    }

    /// Notes that the agent has got a prompt, or shows a message.
    pub(super) fn expect(&mut self, now: Moment) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.expected_since.get_or_insert(now);
        }
    }

    /// Notes that the screen shows messages. Their text is read from a transcript.
    pub(super) fn note_shown(&mut self, now: Moment, found: &[Extracted]) {
        let has_message = found.iter().any(|extracted| matches!(extracted, Extracted::Message(_)));
        if let Some(transcripts) = self.transcripts.as_mut().filter(|_| has_message) {
            transcripts.shown_since.get_or_insert(now);
            transcripts.expected_since.get_or_insert(now);
        }
    }

    /// Returns when to compare the transcripts with the screen, or to report a missing record.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let transcripts = self.transcripts.as_ref()?;
        [transcripts.ownership.deadline(), transcripts.missing_at()].into_iter().flatten().min()
    }

    /// Notes that, according to the operating system, a transcript is the child's. Returns its
    /// deferred records.
    pub(super) fn owned(&mut self, id: TranscriptId) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.ownership.is_named_by_system = true;
        transcripts.own(id)
    }

    /// Reads a record of a transcript that may be the child's. `was_typed_here` says that the
    /// record is a prompt with a frame that was typed here. Returns the records of the child that
    /// may now be used.
    pub(super) fn recorded(
        &mut self,
        now: Moment,
        (id, record): (TranscriptId, Record),
        was_typed_here: bool,
        screen: &Screen,
    ) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        if let Some(record) = transcripts.record(now, id, record) {
            return vec![record];
        }
        if was_typed_here && !transcripts.ownership.is_named_by_system {
            return transcripts.own(id);
        }
        // Even if the screen has not changed, the record may decide the transcript's owner.
        transcripts.ownership.compare_at_once();
        self.compare(now, screen)
    }

    /// Compares the transcripts with the screen. If a transcript turns out to be the child's,
    /// returns its deferred records.
    pub(super) fn compare(&mut self, now: Moment, screen: &Screen) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        match transcripts.ownership.compare(now, || letters_on(screen)) {
            true => transcripts.judge(now),
            false => Vec::new(),
        }
    }

    /// Notes that all transcripts have been read to their ends as of the time `at`. If a transcript
    /// turns out to be the child's, returns its deferred records.
    pub(super) fn searched(&mut self, now: Moment, at: Moment, is_alone: bool) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.ownership.searched(at, is_alone);
        transcripts.judge(now)
    }

    /// Reads a reply in the child's transcript. Returns its messages and problems.
    pub(super) fn read_reply(&mut self, now: Moment, text: &str) -> Vec<Extracted> {
        if let Some(Transcripts { replied_at, shown_since, .. }) = &mut self.transcripts {
            (*replied_at, *shown_since) = (Some(now), None);
        }
        let mut found = Vec::new();
        if !self.reads_screen {
            self.prose.read(text, &mut found);
        }
        found
    }

    /// Checks whether a message on the screen is missing in the transcripts that `program` writes.
    /// If so, returns a sentence for the agent, once.
    pub(super) fn check_missing(&mut self, now: Moment, program: &str) -> Option<String> {
        let transcripts = self.transcripts.as_mut()?;
        transcripts.is_message_missing(now).then(|| transcripts.complaint(program))
    }
}

impl Transcripts {
    /// Notes a record. Returns the record if its transcript is the child's, and defers it
    /// otherwise.
    fn record(&mut self, now: Moment, id: TranscriptId, record: Record) -> Option<Record> {
        if matches!(record, Record::Prompt(_)) && !self.ownership.end_turn(id) {
            let deferred = self.deferred.get_mut(&id);
            deferred.into_iter().for_each(Deferred::disown_last_turn);
        }
        self.admit(id);
        self.ownership.record(now, id, &record);
        if self.ownership.is_own(id) {
            return Some(record);
        }
        let may_be_own = self.ownership.has_turn(id);
        self.deferred.entry(id).or_default().push(record, may_be_own);
        None
    }

    fn admit(&mut self, id: TranscriptId) {
        if let Some(removed) = self.ownership.admit(id) {
            self.deferred.remove(&removed);
        }
    }

    /// Makes a transcript the child's if the evidence proves that it is. Returns its deferred
    /// records.
    fn judge(&mut self, now: Moment) -> Vec<Record> {
        let proven = self.ownership.proven(now);
        proven.map(|id| self.own(id)).unwrap_or_default()
    }

    /// Makes a transcript the child's. Returns its deferred records. If the child already had a
    /// transcript, leaves out records of another agent's turns, since the child may have resumed
    /// that agent's conversation.
    fn own(&mut self, id: TranscriptId) -> Vec<Record> {
        self.is_reported = false;
        self.admit(id);
        let is_first = self.ownership.own(id);
        let deferred = self.deferred.remove(&id).unwrap_or_default();
        if is_first { deferred.all() } else { deferred.own() }
    }

    /// Returns when a message on the screen begins to count as missing.
    fn missing_at(&self) -> Option<Moment> {
        self.shown_since.filter(|_| !self.is_reported).map(|since| since.plus(RECORDED_MS))
    }

    /// Whether to report a missing message. Returns `true` once.
    fn is_message_missing(&mut self, now: Moment) -> bool {
        let Some(due) = self.missing_at().filter(|due| *due <= now) else { return false };
        self.shown_since = None;
        // After a recent reply, the transcript is found and read. It has the message in a code
        // fence, which the screen does not show.
        let is_read = |replied_at: Moment| replied_at.plus(2 * RECORDED_MS) > due;
        self.is_reported = !self.replied_at.is_some_and(is_read);
        self.is_reported
    }

    /// Returns the notice for an agent if its messages cannot be read.
    fn complaint(&self, program: &str) -> String {
        if self.ownership.is_in_doubt() {
            return "Your messages to others are not sent yet: another agent in this directory got \
                    the same prompt and gave the same answer, so your transcript cannot be told \
                    from that agent's. This line tells them apart: the messages are sent now."
                .to_owned();
        }
        let problem = match self.ownership.has_own() {
            true => "is not one that this version of Agent Relay can read",
            false => "was not found",
        };
        format!(
            "Your messages to others are not sent: the transcript that {program} writes {problem}. \
             Ask your user to start you with `agent-relay run --grid`, which reads the screen instead."
        )
    }
}

#[cfg(test)]
mod tests;
