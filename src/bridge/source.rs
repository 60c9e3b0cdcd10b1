//! Where what the agent says is read: off its screen, or in the transcript that its program writes.
//!
//! A screen shows what a program makes of its agent's words, a transcript has the words themselves; so
//! where a program writes one it is read alone. Which file it is the driver finds, where the system says
//! so. Else several may be, and no other agent's may be taken for the child's. One that has a frame which
//! was typed here is its own. One is, too, that has a prompt which was written down after an Enter here and
//! stands on the screen, and an answer that the screen has shown since; unless another one may be for all that
//! is known: two agents can be asked the same at once, and say the same. Then nothing is taken from either
//! until they differ, or one of them has a frame. And one may become its own later, which was another agent's: what
//! that one said there isn't the child's.

use super::{
    extract::{Extracted, Prose},
    input::File,
    screen::Screen,
    settings::Settings,
    transcript::Record,
};
use crate::protocol::Moment;
use std::collections::VecDeque;

/// Files that may be the child's, at a time.
const FILES_MAX: usize = 32;

/// What waits of a file until it is known whose it is, at most: records and bytes.
const WAITING_MAX: usize = 256;
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Characters of a line that are looked for on the screen: so many at most, and at least. And lines of
/// an answer.
const SHOWN_MAX: usize = 30;
const SHOWN_MIN: usize = 4;
const LINES_SHOWN_MAX: usize = 3;

/// A prompt is written down so soon after Enter was pressed, or the program began.
const SUBMITTED_MS: u64 = 30_000;

/// What the child says the screen shows so soon. Where the child has another conversation already, what the screen
/// shows later may be one that it takes up now.
const SHOWN_MS: u64 = 5000;

/// So long after the screen shows an answer the child's own file may still be without it. It has the prompt
/// before.
const WRITTEN_MS: u64 = 1500;

/// And so long there may be no such file, though another agent of its kind has one already.
const BEGUN_MS: u64 = 5000;

/// What of an agent's answers to one prompt is compared, in bytes.
const SAID_BYTES_MAX: usize = 64 << 10;

/// How often the screen is looked at for an answer that it does not show yet.
const ANSWER_LOOK_MS: u64 = 50;

/// What the screen shows as a message stands in the transcript so soon.
const MISSED_MS: u64 = 15_000;

/// Where what the agent says is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Off its screen.
    OnScreen,
    /// In this file.
    In(File),
    /// Its transcript is not found so far.
    Nowhere,
}

/// Where what the agent says is read.
pub(super) struct Source {
    transcripts: Option<Transcripts>,
    started_at: Option<Moment>,
    /// What the agent says is read off the screen, whatever a transcript has.
    grid: bool,
    prose: Prose,
}

/// The files that are read, and what is not in any of them.
#[derive(Default)]
struct Transcripts {
    files: Vec<Candidate>,
    /// When the child's own file had the last word of the agent's.
    heard: Option<Moment>,
    /// Since when the screen shows a message.
    seen: Option<Moment>,
    /// The agent was told that nobody reads what it says.
    told: bool,
    /// The system says which files are the child's: no other is.
    by_system: bool,
    /// When the screen was looked at for an answer, and whether it has changed since.
    looked_at: Option<Moment>,
    has_changed: bool,
    /// All files were read as they were at this moment.
    searched: Option<Moment>,
    /// Then no other agent of its kind was at work in its directory.
    is_alone: bool,
    /// The person has pressed Enter.
    entered: Option<Entered>,
}

/// An Enter of the person's.
#[derive(Clone)]
struct Entered {
    at: Moment,
    /// What the screen showed then.
    shown: String,
}

/// A file that may be the child's.
struct Candidate {
    file: File,
    is_own: bool,
    /// It has a prompt that is not done with yet.
    at_work: bool,
    prompted: Option<Prompted>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
}

/// What waits of a file.
struct Waiting {
    record: Record,
    /// It may belong to a turn of the child's.
    may_be_here: bool,
}

/// A file's last prompt, and what is known of it.
struct Prompted {
    /// How it begins.
    words: String,
    /// When it was written down.
    at: Moment,
    /// And when its last answer was.
    answered: Moment,
    /// The Enter by which it may have been submitted here.
    entered: Option<Entered>,
    /// The screen shows it.
    is_shown: bool,
    /// The last lines of the last answer.
    answer: Vec<String>,
    /// All answers.
    said: String,
    /// Since when the screen shows the last answer.
    answered_here: Option<Moment>,
    /// Another file may have been the child's for the same reasons, and has another prompt now.
    is_doubtful: bool,
}

impl Source {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            transcripts: settings.transcript.then(Transcripts::default),
            started_at: None,
            grid: settings.grid || !settings.transcript,
            prose: Prose::new(settings.inline),
        }
    }

    pub(super) fn reads_screen(&self) -> bool {
        self.grid
    }

    /// Where the agent is heard now: in the last file that turned out to be the child's.
    pub(super) fn read_from(&self) -> Heard {
        let files = self.transcripts.as_ref().filter(|_| !self.grid).map(|it| &it.files);
        let Some(files) = files else { return Heard::OnScreen };
        let own = files.iter().rev().find(|candidate| candidate.is_own);
        own.map_or(Heard::Nowhere, |own| Heard::In(own.file))
    }

    /// Whether the transcript says that the agent is at work; as long as none is known to be the child's,
    /// whether one does that may be.
    pub(super) fn at_work(&self) -> bool {
        self.transcripts.as_ref().is_some_and(|transcripts| {
            let has_own = transcripts.has_own();
            let may_be = |it: &Candidate| it.prompted.as_ref().is_some_and(Prompted::may_be_here);
            let counts = |it: &&Candidate| it.is_own || (!has_own && may_be(it));
            transcripts.files.iter().filter(counts).any(|it| it.at_work)
        })
    }

    /// A turn is over that nobody told the end of.
    pub(super) fn turn_over(&mut self) {
        let files = self.transcripts.iter_mut().flat_map(|transcripts| &mut transcripts.files);
        files.for_each(|candidate| candidate.at_work = false);
    }

    /// The person has pressed Enter.
    pub(super) fn entered(&mut self, now: Moment, screen: &Screen) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.entered = Some(Entered { at: now, shown: shown(screen) });
        }
    }

    pub(super) fn remember_injected(&mut self, hex: &str, body: &str) {
        self.prose.remember_injected(hex, body);
    }

    /// The screen shows what may be a message; its words are the transcript's.
    pub(super) fn saw(&mut self, now: Moment, found: &[Extracted]) {
        let is_message = |one: &Extracted| matches!(one, Extracted::Found(_));
        if let Some(transcripts) = &mut self.transcripts
            && found.iter().any(is_message)
        {
            transcripts.seen.get_or_insert(now);
        }
    }

    /// When the screen may show an answer, or should have shown no message that is in no transcript.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let transcripts = self.transcripts.as_ref()?;
        [transcripts.looks_at(), transcripts.missed_at()].into_iter().flatten().min()
    }
}

impl Transcripts {
    /// When a message that the screen shows should be here.
    fn missed_at(&self) -> Option<Moment> {
        self.seen.filter(|_| !self.told).map(|seen| seen.plus(MISSED_MS))
    }

    /// When to look at the screen for an answer, or whether one that it shows settles it.
    fn looks_at(&self) -> Option<Moment> {
        let looked_at = self.looked_at.filter(|_| !self.by_system)?;
        let answered = self.strangers().filter(|(_, prompted)| !prompted.answer.is_empty());
        let due = answered.filter_map(|(file, prompted)| match prompted.is_answered_here() {
            true => self.written_at(file, prompted).filter(|&at| at > looked_at),
            false => self.has_changed.then_some(looked_at),
        });
        due.min().map(|at| at.max(looked_at.plus(ANSWER_LOOK_MS)))
    }

    /// Files that are not known to be the child's, and have prompts that may have been submitted here.
    fn strangers(&self) -> impl Iterator<Item = (File, &Prompted)> {
        let strangers = self.files.iter().filter(|it| !it.is_own);
        let prompted = strangers.filter_map(|it| Some((it.file, it.prompted.as_ref()?)));
        prompted.filter(|(_, prompted)| prompted.entered.is_some())
    }

    /// When an answer that the screen shows stands in whichever file is the child's.
    fn written_at(&self, file: File, prompted: &Prompted) -> Option<Moment> {
        let is_among_others = self.others(file).any(|other| other.prompted.is_some());
        let late_ms = match self.is_alone {
            false => BEGUN_MS,
            true if is_among_others => WRITTEN_MS,
            true => 0,
        };
        prompted.answered_here.map(|at| at.plus(late_ms))
    }

    fn others(&self, file: File) -> impl Iterator<Item = &Candidate> {
        self.files.iter().filter(move |other| other.file != file)
    }

    /// The candidate that this file is.
    fn candidate(&mut self, file: File) -> &mut Candidate {
        if let Some(place) = self.files.iter().position(|candidate| candidate.file == file) {
            return &mut self.files[place];
        }
        if self.files.len() == FILES_MAX {
            let stranger = self.files.iter().position(|candidate| !candidate.is_own);
            let place = stranger.unwrap_or(0);
            self.forget_prompt(self.files[place].file);
            self.files.remove(place);
        }
        self.files.push(Candidate {
            file,
            is_own: false,
            at_work: false,
            prompted: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        });
        self.files.last_mut().expect("it was pushed")
    }

    /// It is the child's; what waited of it. If the child had another one before, it may have taken up one that
    /// was another agent's until then.
    fn own(&mut self, file: File) -> impl Iterator<Item = Record> + use<> {
        self.told = false;
        let had_another = self.others(file).any(|other| other.is_own);
        let candidate = self.candidate(file);
        candidate.is_own = true;
        candidate.waiting_bytes = 0;
        let waiting = std::mem::take(&mut candidate.waiting).into_iter();
        waiting.filter(move |it| it.may_be_here || !had_another).map(|it| it.record)
    }

    fn has_own(&self) -> bool {
        self.files.iter().any(|candidate| candidate.is_own)
    }

    /// The file that has the child's prompt and its answer, and is the only one that may be the child's.
    fn answered_here(&self, now: Moment) -> Option<File> {
        let is_it = |(file, prompted): &(File, &Prompted)| {
            prompted.is_answered_here()
                && !prompted.is_doubtful
                && self.searched > prompted.answered_here
                && self.written_at(*file, prompted).is_some_and(|at| at <= now)
                && !self.others(*file).any(|other| other.is_rival_of(prompted))
        };
        self.strangers().find(is_it).map(|(file, _)| file)
    }

    /// The file that is the child's by its answer becomes its own. Returns the records that waited in it.
    fn own_answered(&mut self, now: Moment) -> Vec<Record> {
        match self.answered_here(now) {
            Some(file) => self.own(file).collect(),
            None => Vec::new(),
        }
    }

    /// What the agent is told where what it says is read nowhere.
    fn complaint(&self, program: &str) -> String {
        if self.strangers().any(|(_, prompted)| prompted.is_answered_here()) {
            return "What you say to others is not sent yet: another agent in this directory was asked the same \
                    and said the same, so that your transcripts could not be told apart. They are by this line; \
                    what waited is sent now."
                .to_owned();
        }
        let found = match self.has_own() {
            true => "is not one that this version of Agent Relay can read",
            false => "was not found",
        };
        format!(
            "What you say to others is not sent: the transcript that {program} writes {found}. Ask your user to \
             start you with `agent-relay run --grid`, which reads the screen instead."
        )
    }

    /// A file gets another prompt: whether the child had the last one nobody can say any more.
    fn forget_prompt(&mut self, file: File) {
        let Some(place) = self.files.iter().position(|it| it.file == file) else { return };
        let mut moving = self.files.remove(place);
        for prompted in self.files.iter_mut().filter_map(|it| it.prompted.as_mut()) {
            prompted.is_doubtful |= moving.is_rival_of(prompted);
        }
        moving.end_turn();
        self.files.insert(place, moving);
    }
}

impl Candidate {
    /// Whether the prompt that the other one has may have been this one's, and so the answer.
    fn is_rival_of(&self, other: &Prompted) -> bool {
        let (Some(own), Some(entered)) = (&self.prompted, &other.entered) else { return false };
        let is_same = own.words == other.words;
        let is_since = self.at_work || own.at >= entered.at;
        // What is asked after it, and stands on the screen as well, the agent may have asked an agent of its own.
        let is_first = self.is_own || (own.is_shown && !is_same && own.at <= other.at);
        (is_since && is_first) || ((is_since || is_same) && !own.answers_otherwise(other))
    }

    fn wait(&mut self, record: Record) {
        self.waiting_bytes += record.bytes();
        let may_be_here = self.prompted.is_some();
        self.waiting.push_back(Waiting { record, may_be_here });
        while self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            let Some(oldest) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= oldest.record.bytes();
        }
    }

    /// Another turn begins. By now the screen has shown what it was to show of the last one.
    fn end_turn(&mut self) {
        if self.prompted.take().is_none_or(|prompted| prompted.may_have_been_here()) {
            return;
        }
        for waiting in self.waiting.iter_mut().rev() {
            waiting.may_be_here = false;
            if matches!(waiting.record, Record::Prompt(_)) {
                return;
            }
        }
    }
}

impl Prompted {
    fn new(text: &str, at: Moment, entered: Option<Entered>) -> Self {
        Self {
            words: essence(text).take(SHOWN_MAX).collect(),
            at,
            answered: at,
            entered,
            is_shown: false,
            answer: Vec::new(),
            said: String::new(),
            answered_here: None,
            is_doubtful: false,
        }
    }

    fn may_be_here(&self) -> bool {
        self.is_shown && self.entered.is_some()
    }

    /// As far as a turn tells that is over, which may be one whose words no screen shows.
    fn may_have_been_here(&self) -> bool {
        let is_short = self.words.chars().count() < SHOWN_MIN;
        self.entered.is_some() && (is_short || self.is_shown || self.answered_here.is_some())
    }

    fn is_answered_here(&self) -> bool {
        self.is_shown && self.answered_here.is_some()
    }

    /// It is answered. Of an answer without words nobody could say whether it is shown.
    fn hears(&mut self, now: Moment, text: &str) {
        let lines: Vec<_> = lines_shown(text).collect();
        if lines.is_empty() {
            return;
        }
        (self.answer, self.answered, self.answered_here) = (lines, now, None);
        if self.said.len() <= SAID_BYTES_MAX {
            self.said.extend(essence(text));
        }
    }

    /// Looks at all that the screen shows. What it has shown before the Enter is no answer.
    fn look(&mut self, now: Moment, shown: &str) {
        let is_shown = |lines: &[String], on: &str| lines.iter().all(|line| on.contains(line));
        self.is_shown |= self.words.chars().count() >= SHOWN_MIN && shown.contains(&self.words);
        let before = self.entered.as_ref().is_some_and(|it| is_shown(&self.answer, &it.shown));
        if !self.answer.is_empty() && !before && is_shown(&self.answer, shown) {
            self.answered_here.get_or_insert(now);
        }
    }

    /// Whether nothing that was said here is what was answered to the other one.
    fn answers_otherwise(&self, other: &Self) -> bool {
        let is_known = !self.said.is_empty() && self.said.len() <= SAID_BYTES_MAX;
        let says_it = other.answer.iter().all(|line| self.said.contains(line));
        is_known && !says_it && self.answered_here.is_none()
    }
}

impl Source {
    /// Notes the first input's time.
    pub(super) fn start(&mut self, now: Moment) {
        self.started_at.get_or_insert(now);
    }

    /// The system says that this file is the child's. Returns the records that waited in it.
    pub(super) fn owned(&mut self, file: File) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.by_system = true;
        transcripts.own(file).collect()
    }

    /// A file that may be the child's goes on; `is_certain` where a prompt in it was typed here.
    /// Returns records of the child's own file, as far as they are new.
    pub(super) fn recorded(
        &mut self,
        now: Moment,
        (file, record): (File, Record),
        is_certain: bool,
        screen: &Screen,
    ) -> Vec<Record> {
        let entered = self.last_enter(now);
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        if matches!(record, Record::Prompt(_)) {
            transcripts.forget_prompt(file);
        }
        let candidate = transcripts.candidate(file);
        candidate.at_work = !matches!(record, Record::TurnOver);
        match (&record, &mut candidate.prompted) {
            (Record::Prompt(text), prompted) => *prompted = Some(Prompted::new(text, now, entered)),
            (Record::Reply(text), Some(prompted)) => prompted.hears(now, text),
            _ => {}
        }
        if candidate.is_own {
            return vec![record];
        }
        candidate.wait(record);
        if is_certain && !transcripts.by_system {
            return transcripts.own(file).collect();
        }
        // Also where the answer was looked for, another file may have been in the way.
        transcripts.looked_at = None;
        self.look_for_answers(now, screen)
    }

    /// Looks whether a file is the child's, by what its screen shows. Returns the records that waited in it.
    pub(super) fn look_for_answers(&mut self, now: Moment, screen: &Screen) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        transcripts.has_changed = true;
        let soon = transcripts.looked_at.is_some_and(|at| now.since(at) < ANSWER_LOOK_MS);
        if soon || transcripts.by_system || transcripts.strangers().next().is_none() {
            return Vec::new();
        }
        (transcripts.looked_at, transcripts.has_changed) = (Some(now), false);
        let shown = shown(screen);
        let has_own = transcripts.has_own();
        for candidate in &mut transcripts.files {
            let may_be_late = candidate.is_own || !has_own;
            let is_in_time = |it: &&mut Prompted| may_be_late || now.since(it.answered) < SHOWN_MS;
            if let Some(prompted) = candidate.prompted.as_mut().filter(is_in_time) {
                prompted.look(now, &shown);
            }
        }
        transcripts.own_answered(now)
    }

    /// All files were read as they were at a moment: any that had the prompt then is known. Returns the records
    /// that waited in the child's own.
    pub(super) fn searched(&mut self, now: Moment, at: Moment, is_alone: bool) -> Vec<Record> {
        let Some(transcripts) = &mut self.transcripts else { return Vec::new() };
        (transcripts.searched, transcripts.is_alone) = (Some(at), is_alone);
        if transcripts.by_system { Vec::new() } else { transcripts.own_answered(now) }
    }

    /// By what the prompt that is written down now may have been submitted; a program may also have begun with it.
    fn last_enter(&self, now: Moment) -> Option<Entered> {
        let begun = || Some(Entered { at: self.started_at?, shown: String::new() });
        let entered = self.transcripts.as_ref()?.entered.clone().or_else(begun)?;
        (now.since(entered.at) < SUBMITTED_MS).then_some(entered)
    }

    /// Reads a reply of the child's own transcript.
    pub(super) fn read_reply(&mut self, now: Moment, text: &str) -> Vec<Extracted> {
        let mut found = Vec::new();
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.heard = Some(now);
            transcripts.seen = None;
        }
        if !self.grid {
            self.prose.read(text, &mut found);
        }
        found
    }

    /// The screen has shown a message for long that no transcript has: says so once, in a sentence for the agent of
    /// this `program`.
    pub(super) fn miss_transcript(&mut self, now: Moment, program: &str) -> Option<String> {
        let transcripts = self.transcripts.as_mut()?;
        let due = transcripts.missed_at().filter(|due| *due <= now)?;
        transcripts.seen = None;
        // An example that the transcript has in a fence, and the screen without.
        if transcripts.heard.is_some_and(|heard| heard.plus(2 * MISSED_MS) > due) {
            return None;
        }
        transcripts.told = true;
        Some(transcripts.complaint(program))
    }
}

/// A text without what a screen may make of it.
fn essence(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric())
}

/// All that a screen shows.
fn shown(screen: &Screen) -> String {
    let rows = (0..screen.size().1).map(|index| screen.row(index).text);
    rows.map(|row| essence(&row).collect::<String>()).collect()
}

/// What a screen that shows a text shows of its last lines.
fn lines_shown(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().rev().map(|line| essence(line).take(SHOWN_MAX).collect::<String>());
    lines.filter(|line| line.chars().count() >= SHOWN_MIN).take(LINES_SHOWN_MAX)
}

#[cfg(test)]
mod tests;
