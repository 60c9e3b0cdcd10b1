//! Where what the agent says is read: off its screen, or in the transcript that its program writes.
//!
//! A screen shows what a program makes of its agent's words, a transcript has the words themselves; so
//! where a program writes one it is read alone. Which file it is the driver finds, where the system says
//! so. Else several may be, and no other agent's may be taken for the child's. One that has a frame which
//! was typed here is its own. One that has a prompt which stands on its screen may be; it is its own as soon
//! as the screen shows the answer, too, unless another file may be for the same reasons: two agents can
//! be asked the same at the same time.

use super::{
    Bridge, File, Heard, Output, Progress, Settings,
    extract::{Extracted, Prose},
    inject::holds_frame,
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

/// Characters of a line that are looked for on the screen: so many at most, and at least. And lines of
/// an answer.
const SHOWN_MAX: usize = 30;
const SHOWN_MIN: usize = 4;
const LINES_SHOWN_MAX: usize = 3;

/// A prompt is written down so soon after Enter was pressed, or the program began.
const SUBMITTED_MS: u64 = 30_000;

/// So long after a prompt another file may still get the same one: of two agents that begin, and where the
/// child has another file already, which it may write no more.
const SETTLED_MS: u64 = 300;
const SETTLED_ANEW_MS: u64 = 3000;

/// How often the screen is looked at for an answer that it does not show yet.
const ANSWER_LOOK_MS: u64 = 50;

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
    /// The system says which files are the child's: no other is.
    by_system: bool,
    /// When the screen was looked at for an answer, and whether it has changed since.
    looked_at: Option<Moment>,
    has_changed: bool,
    /// The person has pressed Enter.
    entered: Option<Moment>,
}

/// A file that may be the child's.
struct Candidate {
    file: File,
    is_own: bool,
    /// It has a prompt that is not done with yet.
    at_work: bool,
    likely: Option<Likely>,
    waiting: VecDeque<Record>,
    waiting_bytes: usize,
}

/// Why a file may be the child's: it has a prompt that the screen shows.
struct Likely {
    /// The Enter by which it may have been submitted.
    since: Moment,
    /// When it was written down.
    at: Moment,
    /// What was answered to it last.
    answer: Option<String>,
    /// The screen shows an answer.
    is_answered_here: bool,
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
            let counts = |it: &&Candidate| it.is_own || (!has_own && it.likely.is_some());
            transcripts.files.iter().filter(counts).any(|it| it.at_work)
        })
    }

    /// A turn is over that nobody told the end of.
    pub(super) fn turn_over(&mut self) {
        let files = self.transcripts.iter_mut().flat_map(|transcripts| &mut transcripts.files);
        files.for_each(|candidate| candidate.at_work = false);
    }

    /// The person has pressed Enter.
    pub(super) fn entered(&mut self, now: Moment) {
        if let Some(transcripts) = &mut self.transcripts {
            transcripts.entered = Some(now);
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
        let strangers = self.files.iter().filter(|it| !it.is_own);
        let answered =
            strangers.filter_map(|it| it.likely.as_ref().filter(|it| it.answer.is_some()));
        let due = answered.filter_map(|likely| match likely.is_answered_here {
            true => Some(self.settled_at(likely)).filter(|&at| at > looked_at),
            false => self.has_changed.then_some(looked_at),
        });
        due.min().map(|at| at.max(looked_at.plus(ANSWER_LOOK_MS)))
    }

    /// When no other file gets the same prompt any more.
    fn settled_at(&self, likely: &Likely) -> Moment {
        likely.at.plus(if self.has_own() { SETTLED_ANEW_MS } else { SETTLED_MS })
    }

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
            at_work: false,
            likely: None,
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

    fn has_own(&self) -> bool {
        self.files.iter().any(|candidate| candidate.is_own)
    }

    /// The file that has the child's prompt and its answer. None where another one has a prompt of the same
    /// time, and the child's answer too, or none so far.
    fn answered_here(&self, now: Moment) -> Option<File> {
        let is_settled = |file, likely: &Likely| {
            let rivals = self.files.iter().filter(|it| it.file != file);
            let mut rivals = rivals.filter_map(|it| Some((it.is_own, it.likely.as_ref()?)));
            let differs = |(is_own, rival): (bool, &Likely)| {
                !is_own && rival.answer.is_some() && !rival.is_answered_here
            };
            rivals.all(|(is_own, rival)| rival.since != likely.since || differs((is_own, rival)))
        };
        let mut strangers = self.files.iter().filter(|it| !it.is_own);
        let found = strangers.find(|it| {
            let likely = it.likely.as_ref().filter(|likely| likely.is_answered_here);
            let likely = likely.filter(|likely| self.settled_at(likely) <= now);
            likely.is_some_and(|likely| is_settled(it.file, likely))
        });
        found.map(|candidate| candidate.file)
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
        if let Some(transcripts) = &mut self.source.transcripts {
            transcripts.by_system = true;
        }
        self.own(now, file, out);
    }

    /// This file is the child's.
    fn own(&mut self, now: Moment, file: File, out: &mut Vec<Output>) {
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
        let entered = matches!(&record, Record::Prompt(text) if self.shows_prompt(text))
            .then(|| self.entered(now));
        let Some(transcripts) = &mut self.source.transcripts else { return };
        let candidate = transcripts.candidate(file);
        candidate.at_work = !matches!(record, Record::TurnOver);
        if let Some(since) = entered.flatten() {
            candidate.likely =
                Some(Likely { since, at: now, answer: None, is_answered_here: false });
        }
        if let (Some(likely), Record::Reply(text)) = (&mut candidate.likely, &record) {
            likely.answer = Some(text.clone()).filter(|text| lines_shown(text).next().is_some());
        }
        if candidate.is_own {
            return self.heard(now, record, out);
        }
        candidate.wait(record);
        if is_certain && !transcripts.by_system {
            return self.own(now, file, out);
        }
        // Also where the answer was looked for, another file may have been in the way.
        transcripts.looked_at = None;
        self.look_for_answers(now, out);
    }

    /// Whether a file is the child's, by what its screen shows.
    pub(super) fn look_for_answers(&mut self, now: Moment, out: &mut Vec<Output>) {
        let Some(transcripts) = &mut self.source.transcripts else { return };
        transcripts.has_changed = true;
        let soon = transcripts.looked_at.is_some_and(|at| now.since(at) < ANSWER_LOOK_MS);
        if soon || transcripts.by_system || transcripts.files.iter().all(|it| it.likely.is_none()) {
            return;
        }
        (transcripts.looked_at, transcripts.has_changed) = (Some(now), false);
        let shown = shown(self.extractor.screen());
        for likely in transcripts.files.iter_mut().filter_map(|it| it.likely.as_mut()) {
            let answer = likely.answer.as_deref();
            likely.is_answered_here |=
                answer.is_some_and(|text| lines_shown(text).all(|line| shown.contains(&line)));
        }
        if let Some(file) = transcripts.answered_here(now) {
            self.own(now, file, out);
        }
    }

    /// Whether a prompt has a frame that was drawn here, and that the child is not known to have got.
    fn was_drawn(&self, prompt: &str) -> bool {
        self.drawn.iter().any(|(hex, _)| prompt.starts_with(&format!("[relay {hex} from ")))
    }

    /// Whether this prompt stands on the screen.
    fn shows_prompt(&self, prompt: &str) -> bool {
        let words: String = essence(prompt).take(SHOWN_MAX).collect();
        words.chars().count() >= SHOWN_MIN && shown(self.extractor.screen()).contains(&words)
    }

    /// When what is written down now may have been submitted.
    fn entered(&self, now: Moment) -> Option<Moment> {
        let entered = self.source.transcripts.as_ref()?.entered.or(self.started)?;
        (now.since(entered) < SUBMITTED_MS).then_some(entered)
    }

    /// The child's transcript goes on.
    fn heard(&mut self, now: Moment, record: Record, out: &mut Vec<Output>) {
        match record {
            Record::Prompt(text) => {
                self.was_confirmed(now, &text, out);
                self.confirm(&text, out);
                self.turn.told = false;
            }
            Record::Reply(text) => {
                self.taking_up = None;
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
                self.taking_up = None;
            }
        }
        self.retry_at = None;
    }

    /// The agent has what was typed.
    fn confirm(&mut self, prompt: &str, out: &mut Vec<Output>) {
        self.drawn.retain_mut(|(hex, id)| {
            let is_it = holds_frame(prompt, hex);
            let id = id.take_if(|_| is_it);
            out.extend(id.map(|id| Output::Report(id, Progress::Confirmed)));
            !is_it
        });
    }

    /// The screen has shown a message for long that no transcript has.
    pub(super) fn miss_transcript(&mut self, now: Moment, out: &mut Vec<Output>) {
        let Some(transcripts) = &mut self.source.transcripts else { return };
        let Some(due) = transcripts.missed_at().filter(|due| *due <= now) else { return };
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
    fn a_file_is_the_childs_if_the_screen_shows_its_prompt_and_its_answer() {
        check(
            r"
            0 prints >\s
            20000 keys fix the tests\r
            20010 prints \r\n│ fix the │\r\n│ tests   │\r\n
            20100 records 0 prompt fix the docs
            20100 records 0 reply ->relay:Bob <<<of another>>>
            20100 records 1 prompt fix the tests
            20100 records 1 reply ->relay:Bob <<<of **ours**>>>
            20110 prints ● ->relay:Bob <<<of
            20120 prints \sours>>>\r\n
            60000 records 2 prompt fix the tests
            60000 records 2 reply ->relay:Bob <<<of **ours**>>>
            90000 ends
            ",
            expect![[r#"
                20000 types fix the tests\r
                20400 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "of **ours**", data: None, meta: None, reply_to: None }
            "#]],
        );
        // The one that it begins with.
        check(
            r"
            0 prints go on\r\n>\s
            100 records 0 prompt go
            100 records 0 reply ->relay:Bob <<<too short to tell>>>
            200 keys x
            300 records 1 prompt go on
            300 records 1 reply ->relay:Bob <<<ours>>>
            310 prints \r\n->relay:Bob <<<ours>>>\r\n\r\n
            29000 ends
            ",
            expect![[r#"
                200 types x
                600 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "ours", data: None, meta: None, reply_to: None }
            "#]],
        );
    }

    #[test]
    fn another_who_is_asked_the_same_at_the_same_time_is_told_apart_by_the_answer() {
        check(
            r"
            0 prints >\s
            20000 keys who are you\r
            20010 prints \r\nwho are you\r\n
            20100 records 0 prompt who are you
            20100 records 1 prompt who are you
            20200 prints ->relay:Bob <<<Cid>>>\r\n\r\n
            20210 records 1 reply ->relay:Bob <<<Cid>>>
            20300 records 0 reply ->relay:Bob <<<Ann>>>
            40000 keys and now\r
            40010 prints \r\nand now\r\n->relay:Bob <<<still>>>\r\n\r\n
            40100 records 0 prompt and now
            40100 records 0 reply ->relay:Bob <<<still>>>
            40110 records 1 prompt and now
            40110 records 1 reply ->relay:Bob <<<still>>>
            50000 keys /clear\r
            51000 keys and after that\r
            51010 prints \r\nand after that\r\n->relay:Bob <<<anew>>>\r\n\r\n
            51010 records 2 prompt and after that
            51020 records 2 reply ->relay:Bob <<<anew>>>
            59000 ends
            ",
            expect![[r#"
                20000 types who are you\r
                20400 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "Cid", data: None, meta: None, reply_to: None }
                40000 types and now\r
                40110 sends 1: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "still", data: None, meta: None, reply_to: None }
                50000 types /clear\r
                51000 types and after that\r
                54010 sends 2: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "anew", data: None, meta: None, reply_to: None }
            "#]],
        );
    }

    #[test]
    fn who_is_asked_and_answers_the_same_waits_for_a_prompt_of_its_own() {
        check(
            r"
            0 prints \e[?2004h>\s
            20000 keys who are you\r
            20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
            20100 records 0 prompt who are you
            20100 records 0 reply ->relay:Bob <<<me>>>
            20110 records 1 prompt who are you
            20110 records 1 reply ->relay:Bob <<<me>>>
            22000 mail Ann: and you?
            26000 records 1 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]
            26010 records 0 prompt Ann sent this: [relay 789200 from Ann, id 11111111] Another agent wrote this
            26020 records 1 reply ->relay:Ann <<<me, too>>>
            26020 records 0 reply ->relay:Ann <<<not me>>>
            29000 records 0 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]
            29020 records 0 reply ->relay:Ann <<<nor me>>>
            29900 ends
            ",
            expect![[r#"
                20000 types who are you\r
                22000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]\e[201~
                22150 types \r
                22150 acknowledges 11111111-2222
                26000 sends 0: Said { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
                26020 sends 1: Said { to: "Ann", topic: None, thread: None, kind: "message", body: "me, too", data: None, meta: None, reply_to: None }
            "#]],
        );
    }

    #[test]
    fn nobody_speaks_for_who_is_asked_what_stands_half_typed_here() {
        check(
            r"
            0 prints >\s
            20000 keys x\r
            20010 prints x\r\nok\r\n>\s
            21000 keys who are you
            21010 prints who are you
            21100 records 0 prompt who are you
            21100 records 0 reply ->relay:Bob <<<another>>>
            60000 records 0 reply ->relay:Bob <<<another>>>
            90000 ends
            ",
            expect![[r#"
                20000 types x\r
                21000 types who are you
            "#]],
        );
    }

    /// A tool of the agent's that is an agent itself, in the same directory.
    #[test]
    fn who_is_asked_by_the_agent_is_not_the_agent() {
        check(
            r"
            0 prints >\s
            20000 keys ask another who it is\r
            20010 prints \r\nask another who it is\r\n
            20100 records 0 prompt ask another who it is
            20200 prints $ agent -p 'who are you'\r\n
            20300 records 1 prompt who are you
            20310 records 1 reply ->relay:Bob <<<another>>>
            20320 prints ->relay:Bob <<<another>>>\r\n\r\n
            20400 records 0 reply It has answered.
            20410 prints It has answered.\r\n
            29000 ends
            ",
            expect![[r#"
                20000 types ask another who it is\r
            "#]],
        );
    }

    #[test]
    fn what_the_system_says_needs_no_other_sign() {
        check(
            r"
            0 prints >\s
            10 owned 0
            20000 keys who are you\r
            20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
            20100 records 1 prompt who are you
            20100 records 1 reply ->relay:Bob <<<me>>>
            29000 ends
            ",
            expect![[r#"
                20000 types who are you\r
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
