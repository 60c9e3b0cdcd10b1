//! Where what the agent says is read: off its screen, or in the transcript that its program writes.
//!
//! A screen shows what a program makes of its agent's words, a transcript has the words themselves; so
//! where a program writes one it is read alone. Which file it is the driver finds, where the system says
//! so. Else several may be: then the file is the child's that has the prompt which the child was given.

use super::{
    Bridge, File, Output, Progress, Settings,
    extract::{Extracted, Prose},
    screen::Screen,
    transcript::Record,
};
use crate::protocol::Moment;
use std::collections::VecDeque;

/// Files that may be the child's, at a time.
const FILES_MAX: usize = 32;

/// What waits of a file until it is known whose it is, at most: records and bytes.
const WAITING_MAX: usize = 256;
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Characters of a prompt that are looked for on the screen: so many at most, and at least.
const SHOWN_MAX: usize = 30;
const SHOWN_MIN: usize = 4;

/// A prompt is written down so soon after a key was pressed.
const SUBMITTED_MS: u64 = 10_000;

/// What the screen shows as a message stands in the transcript so soon.
const MISSED_MS: u64 = 15_000;

/// Where what the agent says is read.
pub(super) struct Source {
    transcripts: Option<Transcripts>,
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
    /// The child's own file has a prompt that is not done with yet.
    at_work: bool,
}

/// A file that may be the child's.
struct Candidate {
    file: File,
    is_own: bool,
    /// It has a prompt that may be the child's.
    is_likely: bool,
    waiting: VecDeque<Record>,
    waiting_bytes: usize,
}

impl Source {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            transcripts: settings.transcript.then(Transcripts::default),
            grid: settings.grid || !settings.transcript,
            prose: Prose::new(settings.inline),
        }
    }

    pub(super) fn reads_screen(&self) -> bool {
        self.grid
    }

    /// Whether the transcript says that the agent is at work.
    pub(super) fn at_work(&self) -> bool {
        self.transcripts.as_ref().is_some_and(|transcripts| transcripts.at_work)
    }

    /// A turn is over that nobody told the end of.
    pub(super) fn turn_over(&mut self) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.at_work = false;
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

    /// When a message that the screen shows should be in the transcript.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let transcripts = self.transcripts.as_ref().filter(|transcripts| !transcripts.told)?;
        transcripts.seen.map(|seen| seen.plus(MISSED_MS))
    }
}

impl Transcripts {
    /// The candidate that this file is.
    fn candidate(&mut self, file: File) -> &mut Candidate {
        if let Some(place) = self.files.iter().position(|candidate| candidate.file == file) {
            return &mut self.files[place];
        }
        if self.files.len() == FILES_MAX {
            let stranger = self.files.iter().position(|candidate| !candidate.is_own);
            self.files.remove(stranger.unwrap_or(0));
        }
        self.files.push(Candidate {
            file,
            is_own: false,
            is_likely: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        });
        self.files.last_mut().expect("it was pushed")
    }

    /// It is the child's; what waited of it.
    fn own(&mut self, file: File) -> VecDeque<Record> {
        let candidate = self.candidate(file);
        candidate.is_own = true;
        candidate.waiting_bytes = 0;
        std::mem::take(&mut candidate.waiting)
    }

    /// The one file that has a prompt which may be the child's; none where several have.
    fn only_likely(&self) -> Option<File> {
        let mut likely = self.files.iter().filter(|it| it.is_likely && !it.is_own);
        let only = likely.next()?;
        likely.next().is_none().then_some(only.file)
    }
}

impl Candidate {
    fn wait(&mut self, record: Record) {
        self.waiting_bytes += record.bytes();
        self.waiting.push_back(record);
        while self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX {
            let Some(oldest) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= oldest.bytes();
        }
    }
}

impl Record {
    fn bytes(&self) -> usize {
        match self {
            Self::Prompt(text) | Self::Reply(text) => text.len(),
            Self::TurnOver => 0,
        }
    }
}

impl Bridge {
    /// The system says that this file is the child's.
    pub(super) fn owned(&mut self, now: Moment, file: File, out: &mut Vec<Output>) {
        let Some(transcripts) = &mut self.source.transcripts else { return };
        for record in transcripts.own(file) {
            self.heard(now, record, out);
        }
    }

    /// A file that may be the child's goes on.
    pub(super) fn recorded(
        &mut self,
        now: Moment,
        file: File,
        record: Record,
        out: &mut Vec<Output>,
    ) {
        let is_certain = matches!(&record, Record::Prompt(text) if self.was_drawn(text));
        let is_likely = matches!(&record, Record::Prompt(text) if self.is_shown(now, text));
        let Some(transcripts) = &mut self.source.transcripts else { return };
        let candidate = transcripts.candidate(file);
        if candidate.is_own {
            return self.heard(now, record, out);
        }
        candidate.is_likely |= is_likely;
        candidate.wait(record);
        let only = is_likely && transcripts.only_likely() == Some(file);
        if is_certain || only {
            self.owned(now, file, out);
        }
    }

    /// Whether a prompt has a frame that was drawn here.
    fn was_drawn(&self, prompt: &str) -> bool {
        prompt.contains("[relay ") && self.drawn.iter().any(|(hex, _)| frame_of(prompt, hex))
    }

    /// Whether the child was just given this prompt: it stands on its screen.
    fn is_shown(&self, now: Moment, prompt: &str) -> bool {
        let submitted = [self.touched_at, self.started].into_iter().flatten().max();
        let recent = submitted.is_some_and(|at| now.since(at) < SUBMITTED_MS);
        let words: String = essence(prompt).take(SHOWN_MAX).collect();
        recent && words.chars().count() >= SHOWN_MIN && shown(self.extractor.screen(), &words)
    }

    /// The child's transcript goes on.
    fn heard(&mut self, now: Moment, record: Record, out: &mut Vec<Output>) {
        if let Some(transcripts) = &mut self.source.transcripts {
            transcripts.at_work = !matches!(record, Record::TurnOver);
        }
        match record {
            Record::Prompt(text) => {
                self.confirm(&text, out);
                self.turn.told = false;
            }
            Record::Reply(text) => {
                if let Some(transcripts) = &mut self.source.transcripts {
                    transcripts.heard = Some(now);
                    transcripts.seen = None;
                }
                if !self.source.grid {
                    let mut found = Vec::new();
                    self.source.prose.read(&text, &mut found);
                    self.extracted(now, found, out);
                }
            }
            Record::TurnOver => {
                self.turn.open = false;
                self.turn.told = false;
            }
        }
        self.retry_at = None;
    }

    /// The agent has what was typed.
    fn confirm(&mut self, prompt: &str, out: &mut Vec<Output>) {
        let confirmed = self.drawn.iter_mut().filter(|(hex, _)| frame_of(prompt, hex));
        let ids = confirmed.filter_map(|(_, id)| id.take());
        out.extend(ids.map(|id| Output::Report(id, Progress::Confirmed)));
    }

    /// The screen has shown a message for long that no transcript has.
    pub(super) fn miss_transcript(&mut self, now: Moment, out: &mut Vec<Output>) {
        let Some(due) = self.source.deadline().filter(|due| *due <= now) else { return };
        let Some(transcripts) = &mut self.source.transcripts else { return };
        transcripts.seen = None;
        // An example that the transcript has in a fence, and the screen without.
        if transcripts.heard.is_some_and(|heard| heard.plus(2 * MISSED_MS) > due) {
            return;
        }
        transcripts.told = true;
        let program = &self.recipe.name;
        let found = match transcripts.files.iter().any(|candidate| candidate.is_own) {
            true => "is not one that this version of Agent Relay can read",
            false => "was not found",
        };
        let sentence = format!(
            "What you say to others is not sent: the transcript that {program} writes {found}. Ask your user to \
             start you with `agent-relay run --grid`, which reads the screen instead."
        );
        out.push(Output::Log(sentence.clone()));
        self.complain(sentence);
    }
}

/// Whether a prompt has the frame with these digits.
fn frame_of(prompt: &str, hex: &str) -> bool {
    prompt.contains(&format!("[relay {hex} from "))
}

/// A text without what its place on a screen does to it.
fn essence(text: &str) -> impl Iterator<Item = char> {
    let drawn = |c: char| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c);
    text.chars().filter(move |&c| !drawn(c))
}

fn shown(screen: &Screen, words: &str) -> bool {
    let rows = (0..screen.size().1).map(|index| screen.row(index).text);
    let all: String = rows.map(|row| essence(&row).collect::<String>()).collect();
    all.contains(words)
}

#[cfg(test)]
mod tests {
    use crate::bridge::script::play_transcribed;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(script: &str, expected: Expect) {
        expected.assert_eq(&play_transcribed(script));
    }

    #[test]
    fn a_transcript_is_the_only_source() {
        check(
            r"
            0 owned 0
            10 prints ->relay:Bob <<<what the screen shows>>>\r\n>\s
            500 records 0 prompt tell Bob
            600 records 0 reply Of course.\n\n->relay:Bob <<<\n- a **list**\n\n```\n->relay:Cid <<<no>>>\n```\n>>>\nDone.
            600 records 0 over
            700 records 0 reply ->relay:Cid <<<open
            90000 ends
            ",
            expect![[r#"
                600 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "- a **list**\n\n```\n->relay:Cid <<<no>>>\n```", data: None, meta: None, reply_to: None }
                700 logs Not sent: the message that begins with `->relay:Cid <<<open` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
                700 types [relay 789200 from @relay] The relay wrote this, not your user.\nNot sent: the message that begins with `->relay:Cid <<<open` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.\n[/relay 789200]
                850 types \r
            "#]],
        );
    }

    #[test]
    fn a_file_is_the_childs_if_it_has_what_was_typed_here() {
        check(
            r"
            0 prints \e[?2004h>\s
            10 records 0 prompt something else
            10 records 0 reply ->relay:Bob <<<not ours>>>
            5000 reports
            5000 mail Ann: hello
            6000 records 1 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]
            6010 records 1 reply ->relay:Ann <<<hello yourself>>>
            6020 records 0 reply ->relay:Bob <<<not ours either>>>
            9000 ends
            ",
            expect![[r#"
                5000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                5150 types \r
                5150 reports 11111111-2222 Injected
                5150 acknowledges 11111111-2222
                6000 reports 11111111-2222 Confirmed
                6010 sends 0: Said { to: "Ann", topic: None, thread: None, kind: "message", body: "hello yourself", data: None, meta: None, reply_to: None }
            "#]],
        );
    }

    #[test]
    fn a_file_is_the_childs_if_it_has_what_the_person_typed_and_no_other_does() {
        check(
            r"
            0 prints >\s
            20000 keys fix the tests\r
            20010 prints \r\n│ fix the │\r\n│ tests   │
            20100 records 0 prompt fix the docs
            20100 records 0 reply ->relay:Bob <<<of another>>>
            20100 records 1 prompt fix the tests
            20100 records 1 reply ->relay:Bob <<<of ours>>>
            40000 records 2 prompt fix the tests
            40000 records 2 reply ->relay:Bob <<<of another, long after>>>
            90000 ends
            ",
            expect![[r#"
                20000 types fix the tests\r
                20100 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "of ours", data: None, meta: None, reply_to: None }
            "#]],
        );
        check(
            r"
            0 prints go on\r\n>\s
            100 records 0 prompt go
            100 records 0 reply ->relay:Bob <<<too short to tell>>>
            200 keys x
            300 records 1 prompt go on
            300 records 1 reply ->relay:Bob <<<ours>>>
            90000 ends
            ",
            expect![[r#"
                200 types x
                300 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "ours", data: None, meta: None, reply_to: None }
            "#]],
        );
    }

    #[test]
    fn the_agent_is_told_once_that_nobody_reads_it() {
        check(
            r"
            0 prints \e[?2004h->relay:Bob <<<hello>>>\r\n\r\n>\s
            30000 prints \r\n->relay:Bob <<<hello again>>>\r\n\r\n>\s
            90000 ends
            ",
            expect![[r#"
                15300 logs What you say to others is not sent: the transcript that generic writes was not found. Ask your user to start you with `agent-relay run --grid`, which reads the screen instead.
                15300 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nWhat you say to others is not sent: the transcript that generic writes was not found. Ask your user to start you with `agent-relay run --grid`, which reads the screen instead.\n[/relay 789200]\e[201~
                15450 types \r
            "#]],
        );
    }
}
