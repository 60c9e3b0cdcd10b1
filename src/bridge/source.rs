//! The source of the agent's messages: its screen, or the transcript that its CLI writes.
//!
//! A transcript has the agent's words as they are, a screen only what the CLI makes of them. So a
//! transcript, where there is one, is the only source. Records of transcripts that may be the
//! child's wait until [`Ownership`] has judged.

mod deferred;
mod missing;

use super::{
    extract::{Extracted, TextExtractor},
    ownership::{Ownership, letters_on},
    screen::Screen,
    settings::Settings,
    transcript::{Record, TranscriptId},
};
use crate::protocol::Moment;
use deferred::Deferred;
use missing::MissingRecord;
use std::collections::BTreeMap;

/// The place where the agent's messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// On its screen.
    Screen,
    /// In this transcript.
    Transcript(TranscriptId),
    /// Nowhere: its transcript has not been found so far.
    Nowhere,
}

/// Reads the agent's messages from one source.
pub(super) struct Source {
    /// The transcripts, if the CLI writes any.
    transcripts: Option<Transcripts>,
    /// Messages are read on the screen, even if there are transcripts.
    reads_screen: bool,
    prose: TextExtractor,
}

/// The transcripts that may be the child's.
#[derive(Default)]
struct Transcripts {
    ownership: Ownership,
    deferred: BTreeMap<TranscriptId, Deferred>,
    missing: MissingRecord,
}

impl Source {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            transcripts: settings.transcript.then(Transcripts::default),
            reads_screen: settings.grid || !settings.transcript,
            prose: TextExtractor::new(settings.inline),
        }
    }

    /// Notes the first input's time.
    pub(super) fn start(&mut self, now: Moment) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.ownership.start(now);
        }
    }

    /// Whether messages are read on the screen.
    pub(super) fn reads_screen(&self) -> bool {
        self.reads_screen
    }

    /// The place where messages are read; the newest if the child has several transcripts.
    pub(super) fn read_from(&self) -> ReadFrom {
        match &self.transcripts {
            Some(transcripts) if !self.reads_screen => {
                transcripts.ownership.newest_own().map_or(ReadFrom::Nowhere, ReadFrom::Transcript)
            }
            _ => ReadFrom::Screen,
        }
    }

    /// Whether the transcript says that the agent is at work.
    pub(super) fn is_at_work(&self) -> bool {
        let transcripts = self.transcripts.as_ref();
        transcripts.is_some_and(|transcripts| transcripts.ownership.is_at_work())
    }

    /// Notes that the agent's turn is over, though no transcript says so.
    pub(super) fn end_turn(&mut self) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.ownership.note_idle();
        }
    }

    /// Notes that the person pressed Enter.
    pub(super) fn enter(&mut self, now: Moment, screen: &Screen) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.ownership.enter(now, letters_on(screen));
        }
    }

    /// Notes that a text is typed in a frame with these digits: it is no message of the agent's.
    pub(super) fn remember_injected(&mut self, hex: &str, body: &str) {
        self.prose.remember_injected(hex, body);
    }

    /// Notes messages on the screen, whose words are read in a transcript.
    pub(super) fn note_shown(&mut self, now: Moment, found: &[Extracted]) {
        let has_message = found.iter().any(|extracted| matches!(extracted, Extracted::Message(_)));
        if let Some(transcripts) = self.transcripts.as_mut().filter(|_| has_message) {
            transcripts.missing.note_shown(now);
        }
    }

    /// When to compare the transcripts with the screen, or to report a missing record.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let Transcripts { ownership, missing, .. } = self.transcripts.as_ref()?;
        [ownership.deadline(), missing.deadline()].into_iter().flatten().min()
    }

    /// Notes that a transcript is the child's: the system says so. Returns its deferred records.
    pub(super) fn owned(&mut self, id: TranscriptId) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.own(id, Ownership::own_by_system)
    }

    /// Reads a record of a transcript that may be the child's; `was_typed_here` says that it is a
    /// prompt with a frame that was typed here. Returns records of the child's that are due now.
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
        if was_typed_here && !transcripts.ownership.is_named_by_system() {
            return transcripts.own(id, Ownership::own);
        }
        // Even if the screen has not changed, the record may settle whose a transcript is.
        transcripts.ownership.compare_at_once();
        self.compare(now, screen)
    }

    /// Compares the transcripts with the screen. Returns the deferred records of one that turns out
    /// to be the child's.
    pub(super) fn compare(&mut self, now: Moment, screen: &Screen) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        match transcripts.ownership.compare(now, || letters_on(screen)) {
            true => transcripts.judge(now),
            false => Vec::new(),
        }
    }

    /// Notes that all transcripts have been read to the ends that they had at `at`. Returns the
    /// deferred records of one that turns out to be the child's.
    pub(super) fn searched(&mut self, now: Moment, at: Moment, is_alone: bool) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.ownership.searched(at, is_alone);
        transcripts.judge(now)
    }

    /// Reads a reply in the child's transcript.
    pub(super) fn read_reply(&mut self, now: Moment, text: &str) -> Vec<Extracted> {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.missing.note_reply(now);
        }
        let mut found = Vec::new();
        if !self.reads_screen {
            self.prose.read(text, &mut found);
        }
        found
    }

    /// Checks whether a message on the screen is missing in the transcripts that `program` writes.
    /// Returns a sentence for the agent, once.
    pub(super) fn check_missing(&mut self, now: Moment, program: &str) -> Option<String> {
        let transcripts = self.transcripts.as_mut()?;
        transcripts.missing.is_due(now).then(|| transcripts.complaint(program))
    }
}

impl Transcripts {
    /// Notes a record. Returns it if its transcript is the child's, else defers it.
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

    /// Adopts the transcript that the evidence shows to be the child's. Returns its deferred
    /// records.
    fn judge(&mut self, now: Moment) -> Vec<Record> {
        let proven = self.ownership.proven(now);
        proven.map(|id| self.own(id, Ownership::own)).unwrap_or_default()
    }

    /// Makes a transcript the child's. Returns its deferred records: if the child had a transcript
    /// before, it may have resumed another agent's conversation, and that agent's do not count.
    fn own(
        &mut self,
        id: TranscriptId,
        note: fn(&mut Ownership, TranscriptId) -> bool,
    ) -> Vec<Record> {
        self.missing.note_own();
        self.admit(id);
        let is_first = note(&mut self.ownership, id);
        let deferred = self.deferred.remove(&id).unwrap_or_default();
        if is_first { deferred.all() } else { deferred.own() }
    }

    /// The notice for an agent whose messages are not read.
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
