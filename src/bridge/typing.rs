//! When and how what waits for the agent is typed.

use super::{
    Bridge, DRAWN_MAX, Hand, Injection, Item, LASTING_MS, LEAVING_LOOK_MS, LEAVING_MS, Mail,
    Output, PRESSES_MAX, Progress, RETRY_MS, SEEN_MS, SENDERS_MAX, Stage, TAKING_UP_LOOK_MS,
    TAKING_UP_MS, TYPED_MAX, TakingUp, UNANSWERED_MS, WRITTEN_DOWN_MS,
    extract::PICTURE_MS,
    inject::{self, Entry, Frame, Origin},
    keyboard::Reader,
    obstacle::Obstacle,
    recipe::{Form, Spot},
};
use crate::protocol::{Moment, deliver::Proof, name::NAME_BYTES_MAX};
use std::collections::VecDeque;

impl Bridge {
    /// When the next message may be typed at the earliest, if one waits.
    pub(super) fn inject_at(&self) -> Option<Moment> {
        if self.injection.is_some() || !self.has_something_to_type() {
            return None;
        }
        let start = self.started.filter(|_| self.printed_at.is_none());
        let free = [
            start.map(|start| start.plus(self.recipe.start_ms)),
            self.printed_at.map(|at| at.plus(self.recipe.quiet_ms)),
            self.submitted_at.map(|at| at.plus(self.recipe.quiet_ms)),
            self.touched_at.map(|at| at.plus(self.recipe.untouched_ms)),
            self.free_since.filter(|_| !self.settled).map(|at| at.plus(self.recipe.start_ms)),
            self.retry_at,
        ];
        free.into_iter().flatten().max()
    }

    pub(super) fn has_something_to_type(&self) -> bool {
        !self.mail.is_empty() || self.may_tell() || self.brief.is_some()
    }

    pub(super) fn may_tell(&self) -> bool {
        !self.turn.told && !self.turn.complaints.is_empty()
    }

    pub(super) fn inject_when_free(&mut self, now: Moment, spot: &Spot, out: &mut Vec<Output>) {
        if self.injection.is_some() || !self.has_something_to_type() {
            return;
        }
        match self.free_form(now, spot) {
            Ok(form) => {
                self.obstacle = None;
                self.mail.outdate();
                let was_held = self.mail.waits_for(Obstacle::Held);
                if !self.inject(form, spot, out) {
                    self.retry_at = Some(now.plus(RETRY_MS));
                }
                if was_held {
                    self.withdraw_reason(out);
                }
            }
            Err(why) => {
                self.stand_before(now, why, out);
                if self.inject_at().is_none_or(|at| at <= now) {
                    let soon = why == Obstacle::Busy && self.taking_up.is_some();
                    self.retry_at = Some(now.plus(if soon { TAKING_UP_LOOK_MS } else { RETRY_MS }));
                }
            }
        }
    }

    /// The screen changes: perhaps to that of an agent at work.
    pub(super) fn look_whether_it_began(&mut self, now: Moment) {
        let Some(taking_up) = &mut self.taking_up else { return };
        if taking_up.begun || now.since(taking_up.looked_at) < TAKING_UP_LOOK_MS {
            return;
        }
        taking_up.looked_at = now;
        taking_up.begun = self.recipe.looks_busy(&Spot::of(self.extractor.screen()));
    }

    /// Whether what was submitted is still to be taken up by an agent that looks idle.
    fn takes_up(&mut self, now: Moment) -> bool {
        let Some(TakingUp { since, hex, begun: false, .. }) = &self.taking_up else { return false };
        let is_awaited = self.writes_down && self.drawn.iter().any(|(drawn, _)| drawn == hex);
        let waits = now.since(*since) < if is_awaited { WRITTEN_DOWN_MS } else { TAKING_UP_MS };
        if !waits {
            self.writes_down &= !is_awaited;
            self.taking_up = None;
        }
        waits
    }

    /// When a message that waits is to be reported as waiting: at once.
    pub(super) fn report_at(&self) -> Option<Moment> {
        let is_due = self.injection.is_none() && self.mail.has_unreported();
        self.started.filter(|_| is_due)
    }

    /// Nothing can be typed for this reason. It is reported of messages that have just come, and of
    /// all of them where it is another one that lasts, or their person's wish.
    fn stand_before(&mut self, now: Moment, why: Obstacle, out: &mut Vec<Output>) {
        let since = self.obstacle.filter(|(before, _)| *before == why).map_or(now, |it| it.1);
        self.obstacle = Some((why, since));
        let lasts = now.since(since) >= LASTING_MS || why == Obstacle::Held;
        if lasts || self.mail.has_unreported() {
            self.report_waiting(why, lasts, out);
        }
    }

    fn report_waiting(&mut self, why: Obstacle, lasts: bool, out: &mut Vec<Output>) {
        let (why, unreported) = self.mail.report(why, lasts);
        out.extend(unreported.into_iter().map(|id| Output::Report(id, Progress::Waiting(why))));
    }

    fn free_form(&mut self, now: Moment, spot: &Spot) -> Result<Form, Obstacle> {
        if self.state.held {
            return Err(Obstacle::Held);
        }
        let within = |at: Option<Moment>, ms| at.is_some_and(|at| now.since(at) < ms);
        if self.printed_at.is_none() && within(self.started, self.recipe.start_ms) {
            return Err(Obstacle::Starting);
        }
        if let Reader::Barred(why, _) = self.reader {
            return Err(why);
        }
        if !self.has_stood_still(now) {
            let at_work = self.known().at_work || self.recipe.looks_busy(spot);
            return Err(if at_work { Obstacle::Busy } else { Obstacle::Printing });
        }
        if self.source.reads_screen() && self.extractor.is_in_message() {
            return Err(Obstacle::Busy);
        }
        if within(self.touched_at, self.recipe.untouched_ms) {
            return Err(Obstacle::Typing);
        }
        if self.unwritten() > 0 {
            return Err(Obstacle::NotReading);
        }
        if spot.synchronizing && within(self.printed_at, PICTURE_MS) {
            return Err(Obstacle::Printing);
        }
        let form = self.recipe.form(spot, self.known());
        if !self.settles(now, form.is_ok()) {
            return Err(form.err().unwrap_or(Obstacle::Starting));
        }
        let form = form?;
        if self.takes_up(now) {
            return Err(Obstacle::Busy);
        }
        if form != Form::Plain && self.line.may_take_text_for_commands() {
            return Err(Obstacle::HalfTyped);
        }
        if self.recipe.shows_composer() {
            // It is seen to be empty, whatever keys were pressed: they may have answered a dialog.
            self.line.remember_empty_look(&spot.before);
            if self.printed_at > self.touched_at && !within(self.touched_at, SEEN_MS) {
                self.line.mark_empty();
            }
        }
        if self.line.is_empty(&spot.before) { Ok(form) } else { Err(Obstacle::HalfTyped) }
    }

    /// A program that begins may show its line before it asks something, whether it may be trusted for one: the
    /// line has to have been there for a while once.
    fn settles(&mut self, now: Moment, is_free: bool) -> bool {
        if !self.settled && self.recipe.shows_composer() {
            let since = self.free_since.or(self.printed_at).unwrap_or(now);
            self.free_since = Some(since).filter(|_| is_free);
            self.settled = is_free && now.since(since) >= self.recipe.start_ms;
            return self.settled;
        }
        true
    }

    pub(super) fn has_stood_still(&self, now: Moment) -> bool {
        self.changed_at().is_none_or(|at| now.since(at) >= self.recipe.quiet_ms)
    }

    /// When the child printed last, or was given something to answer.
    pub(super) fn changed_at(&self) -> Option<Moment> {
        self.printed_at.max(self.submitted_at)
    }

    /// Types what is next; false where nothing is to be typed in this form.
    fn inject(&mut self, form: Form, spot: &Spot, out: &mut Vec<Output>) -> bool {
        let is_reported = self.mail.next_is_reported();
        let Some((item, body)) = self.next_item(form) else { return false };
        if let Item::Mail(mail) = &item
            && is_reported
        {
            out.push(Output::Report(mail.id.clone(), Progress::Unhindered));
        }
        let origin = match &item {
            Item::Mail(mail) => {
                let auth = shown_auth(&mut self.senders, mail);
                let Mail { from, id, attempt, .. } = mail;
                Origin::Delivery { from, id, again: *attempt > 1, auth }
            }
            Item::Own => Origin::Relay,
        };
        let hex = inject::draw(&mut self.random, &body);
        let entry = if spot.bracketed_paste { Entry::Pasted } else { Entry::Typed };
        let expands = &self.recipe.expands;
        let escapes_marks = self.source.reads_screen();
        let frame = Frame { hex: &hex, origin, body: &body, expands, escapes_marks };
        let bytes = frame.bytes(form, entry);
        if escapes_marks {
            self.extractor.remember_escaped(&hex);
        } else {
            self.extractor.remember_injected(&hex, &body);
            self.source.remember_injected(&hex, &body);
        }
        self.remember_drawn(hex.clone(), &item);
        self.write(bytes, out);
        let (until, stage) = (self.handed_out, Stage::Text);
        let reader = self.reader.clone();
        self.injection = Some(Injection {
            item,
            hex,
            reader,
            until,
            stage,
            keys_pass: false,
            held_up: None,
            hand: Hand::Off,
        });
        true
    }

    /// What is typed next, and its words. The relay's own go first: how to speak before anything is said,
    /// the rest since it is about what was just said.
    fn next_item(&mut self, form: Form) -> Option<(Item, String)> {
        if form == Form::Plain
            && let Some(brief) = self.brief.take()
        {
            return Some((Item::Own, brief));
        }
        if self.may_tell() {
            return Some((Item::Own, self.turn.tell()));
        }
        let mail = self.mail.pop()?;
        let body = mail.body.clone();
        Some((Item::Mail(mail), body))
    }

    pub(super) fn was_written(&mut self, now: Moment, bytes: usize, out: &mut Vec<Output>) {
        self.written += bytes as u64;
        self.retry_at = None;
        self.answer(out);
        let Some(injection) = &mut self.injection else { return };
        if self.written < injection.until {
            return;
        }
        match injection.stage {
            Stage::Text => injection.stage = Stage::Guard { typed: now, since: now },
            Stage::Guard { .. } | Stage::Leaving { .. } => {}
            Stage::Submit { presses } if self.recipe.shows_composer() => {
                injection.stage = Stage::Leaving { since: now, presses };
            }
            Stage::Submit { .. } => self.submitted(now, out),
        }
    }

    pub(super) fn enter_at(&self, since: Moment) -> Moment {
        let guard_ms = self.recipe.guard_ms;
        let settled = self.printed_at.map_or(since, |at| at.max(since)).plus(guard_ms);
        settled.min(since.plus(self.recipe.guard_ms_max))
    }

    pub(super) fn submit_when_due(&mut self, now: Moment, spot: &Spot, out: &mut Vec<Output>) {
        let Some(Injection { stage: Stage::Guard { typed, since }, .. }) = self.injection else {
            return;
        };
        if now < self.enter_at(since) {
            return;
        }
        if let Some(why) = self.lost_its_reader() {
            return self.wait_for_reader(now, why, out);
        }
        if self.recipe.holds_text(spot) {
            return self.press_submit(1, out);
        }
        // An Enter would answer what the program asks meanwhile. Else it is late in showing the text, and what
        // the person types would become a part of it; or the text is gone.
        let asks = self.recipe.shows_dialog(spot);
        let typed = if asks { now } else { typed };
        let Some(injection) = &mut self.injection else { return };
        injection.stage = Stage::Guard { typed, since: now };
        injection.keys_pass &= asks;
        self.hold_up(asks.then_some(Obstacle::Dialog), out);
        if asks || now.since(typed) >= self.recipe.guard_ms_max {
            self.let_keys_through(out);
        }
        if !asks && self.has_stood_still(now) && self.shows_empty_line(spot) {
            self.gone(now, typed, spot, out);
        }
    }

    /// Why nothing is sent off: another program than the one that got the text reads the terminal.
    fn lost_its_reader(&self) -> Option<Obstacle> {
        let injection = self.injection.as_ref().filter(|it| it.reader != self.reader)?;
        match (&self.reader, &injection.reader) {
            (Reader::Barred(why, _), _) => Some(*why),
            _ => Some(Obstacle::OtherProgram),
        }
    }

    /// Another program reads: what waits for that is looked at again.
    pub(super) fn reader_changed(&mut self, now: Moment) {
        self.retry_at = None;
        let Some(injection) = &mut self.injection else { return };
        injection.keys_pass &= injection.reader != self.reader;
        if let Stage::Guard { since, .. } = &mut injection.stage {
            *since = now.min(*since);
        }
    }

    /// The text is not sent off while another program has the terminal; its person does what they
    /// want.
    fn wait_for_reader(&mut self, now: Moment, why: Obstacle, out: &mut Vec<Output>) {
        if let Some(Injection { stage: Stage::Guard { since, .. }, .. }) = &mut self.injection {
            *since = now.plus(RETRY_MS);
        }
        self.hold_up(Some(why), out);
        self.let_keys_through(out);
    }

    /// The text does not stand where it was typed. The person may have sent it off, or erased it.
    fn gone(&mut self, now: Moment, since: Moment, spot: &Spot, out: &mut Vec<Output>) {
        let Some(Injection { hand, .. }) = self.injection else { return };
        let patience_ms = match hand {
            Hand::Enter if !self.writes_down => return self.submitted(now, out),
            // It may be late to show it.
            Hand::Keys if !self.writes_down => 2 * self.recipe.guard_ms_max,
            // Its program may still show it, or write down that it was sent off, though perhaps not before it
            // has done other things.
            _ => WRITTEN_DOWN_MS,
        };
        if now.since(since) >= patience_ms && !self.recipe.looks_busy(spot) {
            self.take_back(out);
        }
    }

    /// What was typed is typed anew, in its turn.
    fn take_back(&mut self, out: &mut Vec<Output>) {
        match self.injection.take().map(|injection| injection.item) {
            Some(Item::Mail(mail)) => out.push(Output::GiveBack(mail.id)),
            Some(Item::Own) => {
                out.push(Output::Log("the agent did not get the relay's words".into()))
            }
            None => {}
        }
        self.release_keys(out);
    }

    /// Sends off what stands in the line to type into, for the so manieth time.
    fn press_submit(&mut self, presses: u32, out: &mut Vec<Output>) {
        self.write(self.recipe.submit.clone().into_bytes(), out);
        if let Some(injection) = &mut self.injection {
            injection.until = self.handed_out;
            injection.stage = Stage::Submit { presses };
            (injection.keys_pass, injection.held_up) = (false, None);
        }
    }

    /// When to look whether what was submitted has left the line to type into.
    pub(super) fn leaves_at(&self, since: Moment, presses: u32) -> Moment {
        let pause = if presses < PRESSES_MAX { LEAVING_LOOK_MS } else { RETRY_MS };
        self.left_looked_at.map_or(since, |at| at.max(since)).plus(pause)
    }

    /// Whether what was submitted has left; else, after a while, it is submitted again.
    pub(super) fn look_whether_it_left(&mut self, now: Moment, spot: &Spot, out: &mut Vec<Output>) {
        let Some(Injection { stage: Stage::Leaving { since, presses }, .. }) = self.injection
        else {
            return;
        };
        if now < self.leaves_at(since, presses) {
            return;
        }
        self.left_looked_at = Some(now);
        let waited_ms = now.since(since);
        if self.has_left(now, waited_ms, spot) {
            return match self.injection {
                Some(Injection { hand: Hand::Off, .. }) => self.submitted(now, out),
                _ => self.gone(now, since, spot, out),
            };
        }
        // A program that has printed nothing since may not have come to it yet.
        let patience_ms = if self.printed_at > Some(since) { LEAVING_MS } else { UNANSWERED_MS };
        let stays = waited_ms >= patience_ms && self.has_stood_still(now);
        if let Some(why) = self.lost_its_reader() {
            self.hold_up(Some(why), out);
            return self.let_keys_through(out);
        }
        if stays && presses < PRESSES_MAX {
            self.press_submit(presses + 1, out);
        }
        // The person may know better what holds it up.
        let asks = self.recipe.shows_dialog(spot);
        if asks || (stays && presses > 1) {
            self.let_keys_through(out);
        }
        let is_ignored = stays && presses == PRESSES_MAX;
        let ignored = is_ignored.then_some(Obstacle::NoEnterTaken);
        self.hold_up(asks.then_some(Obstacle::Dialog).or(ignored), out);
    }

    /// Reports once why what is being typed is not submitted, of that and of what waits behind it.
    fn hold_up(&mut self, why: Option<Obstacle>, out: &mut Vec<Output>) {
        let Some(injection) = &mut self.injection else { return };
        let before = std::mem::replace(&mut injection.held_up, why);
        let is_new = before != why;
        if let Item::Mail(mail) = &injection.item
            && is_new
        {
            let progress = why.map_or(Progress::Unhindered, Progress::Waiting);
            out.push(Output::Report(mail.id.clone(), progress));
        }
        // Of what waits behind it, nothing was typed.
        match why.filter(|why| *why != Obstacle::NoEnterTaken) {
            Some(why) if is_new || self.mail.has_unreported() => {
                self.report_waiting(why, true, out);
            }
            None if is_new => self.withdraw_reason(out),
            _ => {}
        }
    }

    fn withdraw_reason(&mut self, out: &mut Vec<Output>) {
        let reported = self.mail.withdraw();
        out.extend(reported.into_iter().map(|id| Output::Report(id, Progress::Unhindered)));
    }

    /// Whether the line to type into is empty again, or after a while is not seen with the text in it: a program
    /// may be in the middle of painting that.
    fn has_left(&self, now: Moment, waited_ms: u64, spot: &Spot) -> bool {
        if self.recipe.holds_text(spot) {
            return false;
        }
        let paints = |ms| self.printed_at.is_some_and(|at| now.since(at) < ms);
        let paints = paints(LEAVING_LOOK_MS) || (spot.synchronizing && paints(PICTURE_MS));
        let is_empty = self.shows_empty_line(spot);
        let is_seen =
            is_empty || self.has_stood_still(now) || waited_ms >= self.recipe.guard_ms_max;
        (is_empty && !paints) || (waited_ms >= LEAVING_MS && is_seen)
    }

    /// Whether the line to type into is seen, with nothing in it.
    fn shows_empty_line(&self, spot: &Spot) -> bool {
        let form = self.recipe.form(spot, self.known());
        matches!(form, Ok(_) | Err(Obstacle::Busy))
    }

    /// The agent's program has written down that it got the text in this frame: no Enter is wanted any more, if
    /// it was pressed at all.
    pub(super) fn was_confirmed(&mut self, now: Moment, prompt: &str, out: &mut Vec<Output>) {
        let is_it = |injection: &Injection| inject::holds_frame(prompt, &injection.hex);
        if self.injection.as_ref().is_some_and(is_it) {
            self.submitted(now, out);
        }
    }

    fn submitted(&mut self, now: Moment, out: &mut Vec<Output>) {
        self.submitted_at = Some(now);
        // It may say nothing to it, and show nothing of it.
        self.turn.open = true;
        self.turn.looked_at = false;
        let Some(Injection { item, hex, .. }) = self.injection.take() else { return };
        let taking_up = TakingUp { since: now, hex, begun: false, looked_at: now };
        self.taking_up = self.recipe.shows_composer().then_some(taking_up);
        if let Item::Mail(mail) = item {
            self.state.typed += 1;
            if self.typed.len() == TYPED_MAX {
                self.typed.pop_front();
            }
            self.typed.push_back(mail.id.clone());
            out.push(Output::Report(mail.id.clone(), Progress::Injected));
            out.push(Output::Acknowledge(mail.id));
        }
        self.release_keys(out);
    }

    fn remember_drawn(&mut self, hex: String, item: &Item) {
        let id = match item {
            Item::Mail(mail) => Some(mail.id.clone()),
            Item::Own => None,
        };
        if self.drawn.len() == DRAWN_MAX {
            self.drawn.pop_front();
        }
        self.drawn.push_back((hex, id));
    }

    /// Reports once more why what is being typed is not submitted.
    pub(super) fn report_held_up(&self, out: &mut Vec<Output>) {
        if let Some(Injection { item: Item::Mail(mail), held_up: Some(why), .. }) = &self.injection
        {
            out.push(Output::Report(mail.id.clone(), Progress::Waiting(*why)));
        }
    }

    /// The person's keys are not held until what is being typed is submitted.
    fn let_keys_through(&mut self, out: &mut Vec<Output>) {
        if let Some(injection) = &mut self.injection {
            injection.keys_pass = true;
        }
        let (held, submits) = self.take_held_keys();
        if !held.is_empty() {
            self.pass_keys(held, submits, out);
        }
    }

    /// The person's keys go to the program, beside what is being typed; `submits` where one of them sends it off.
    pub(super) fn pass_keys(&mut self, keys: Vec<u8>, submits: bool, out: &mut Vec<Output>) {
        if let Some(injection) = &mut self.injection {
            let enters = submits || injection.hand == Hand::Enter;
            injection.hand = if enters { Hand::Enter } else { Hand::Keys };
        }
        self.write(keys, out);
    }

    fn release_keys(&mut self, out: &mut Vec<Output>) {
        let (held, _) = self.take_held_keys();
        if !held.is_empty() {
            self.write(held, out);
        }
    }

    fn take_held_keys(&mut self) -> (Vec<u8>, bool) {
        (std::mem::take(&mut self.held_keys), std::mem::take(&mut self.holds_submit))
    }

    pub(super) fn unwritten(&self) -> u64 {
        self.handed_out - self.written
    }

    pub(super) fn write(&mut self, bytes: Vec<u8>, out: &mut Vec<Output>) {
        self.handed_out += bytes.len() as u64;
        out.push(Output::Write(bytes));
    }
}

/// How the sender is known, where that is news: a name that was heard before from another session was
/// taken anew. Keys, tokens and the sessions already heard need no word.
fn shown_auth(senders: &mut VecDeque<(String, String)>, mail: &Mail) -> Option<Proof> {
    let auth = mail.auth.filter(|auth| !matches!(auth, Proof::Key | Proof::Token))?;
    if auth != Proof::Claim {
        return Some(auth);
    }
    let name = mail.from.get(..NAME_BYTES_MAX).unwrap_or(&mail.from).to_ascii_lowercase();
    let session = mail.session.clone().unwrap_or_default();
    let known = senders.iter().position(|(known, _)| *known == name);
    let before = known.and_then(|place| senders.remove(place)).map(|(_, session)| session);
    if senders.len() == SENDERS_MAX {
        senders.pop_front();
    }
    let anew = before.is_some_and(|before| before != session);
    senders.push_back((name, session));
    anew.then_some(Proof::Claim)
}

#[cfg(test)]
mod tests {
    use crate::bridge::script::{play, play_transcribed};
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(command: &str, script: &str, expected: Expect) {
        expected.assert_eq(&play(command, script));
    }

    /// The line was never seen empty before the key.
    #[test]
    fn a_key_that_answers_a_dialog_begins_no_line() {
        check(
            "claude",
            r"
            0 settles
            0 prints \e[?2004h❯\s
            50 keys go\r
            60 prints go\r\nDo you want to proceed?\r\n\s❯ 1. Yes\r\n\s\s\s2. No\r\n\sEsc to cancel
            5000 mail Bob: hello
            8000 keys 1
            8050 prints \e[2J\e[H❯\s
            20000 ends
            ",
            expect![[r#"
                50 types go\r
                8000 types 1
                9000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
    }

    #[test]
    fn a_key_that_takes_back_what_another_did_leaves_the_line_empty() {
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2000 keys !
            2050 prints \e[2K\r\s!\s
            2060 mail Bob: hello
            9000 keys !
            9050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            20000 ends
            ",
            expect![[r#"
                2000 types !
                9000 types !
                10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
    }

    /// The program is slow, and shows something else before the key.
    #[test]
    fn a_key_that_is_not_shown_yet_has_begun_a_line() {
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2000 keys x
            2050 prints \r\n12:00\e[1;4H
            2060 mail Bob: hello
            8000 prints \e[2K\r\s>\s\sx
            9000 keys \x7f
            9010 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            20000 ends
            ",
            expect![[r#"
                2000 types x
                9000 types 
                10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
        // Both keys are shown at once, as nothing.
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2000 keys x\x7f
            2050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2060 mail Bob: hello
            30000 ends
            ",
            expect![[r#"
                2000 types x
                12000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
    }

    const GEMINI: &str = r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        900 reports
        1000 mail Bob: hello
    ";
    const GEMINI_PASTED: &str =
        r"prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]";
    const GEMINI_EMPTY: &str =
        r"prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G";

    /// It takes the Enter for a part of what was pasted before it.
    #[test]
    fn a_screen_that_is_half_painted_does_not_say_that_a_text_has_left() {
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1010 {GEMINI_PASTED}
                1170 prints \e[2K\r\e[A\e[2K
                1260 prints \r\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
                1890 prints \r\n\s\s\s
                2650 {GEMINI_EMPTY}
                9000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1160 types \r
                1880 types \r
                2600 types \r
                2690 reports 11111111-2222 Injected
                2690 acknowledges 11111111-2222
            "#]],
        );
        // The line is painted first, and then what stands in it.
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1010 {GEMINI_PASTED}
                1170 {GEMINI_EMPTY}
                1180 prints \e[2J\e[H
                1180 {GEMINI_PASTED}
                9000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1160 types \r
                1880 types \r
                4880 types \r
                7880 types \r
            "#]],
        );
    }

    /// Its transcript says so before its screen does.
    #[test]
    fn what_is_written_down_has_left() {
        let script = format!(
            r"{GEMINI}
            1010 {GEMINI_PASTED}
            1170 prints \e[2J\e[H
            1180 keys x
            1300 records 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
            9000 ends"
        );
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1300 reports 11111111-2222 Injected
            1300 acknowledges 11111111-2222
            1300 types x
            1300 reports 11111111-2222 Confirmed
        "#]].assert_eq(&play_transcribed("gemini", &script));
        // Where it doesn't, by what is not seen any more.
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1880 reports 11111111-2222 Injected
            1880 acknowledges 11111111-2222
            1880 types x
        "#]].assert_eq(&play("gemini", &script));
    }

    /// It is still beginning: it keeps what it is told, and shows nothing of it.
    #[test]
    fn the_next_waits_until_the_one_before_is_written_down() {
        let script = |written: &str| {
            format!(
                r"{GEMINI}
                1000 mail Ann 22222222-3333: the next
                1010 {GEMINI_PASTED}
                1170 {GEMINI_EMPTY}
                {written}
                60000 ends"
            )
        };
        let prompt = r"records 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]";
        let work = r"prints (esc to cancel, 1s)\r\n\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G";
        let written = format!("8000 {prompt}\n8900 {work}\n9500 {GEMINI_EMPTY}");
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1220 reports 11111111-2222 Injected
            1220 acknowledges 11111111-2222
            1220 reports 22222222-3333 Waiting(Printing)
            3320 reports 22222222-3333 Waiting(Busy)
            8000 reports 11111111-2222 Confirmed
            9600 reports 22222222-3333 Unhindered
            9600 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
            29700 gives back 22222222-3333
        "#]].assert_eq(&play_transcribed("gemini", &script(&written)));
        // It never is.
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1220 reports 11111111-2222 Injected
            1220 acknowledges 11111111-2222
            1220 reports 22222222-3333 Waiting(Printing)
            3320 reports 22222222-3333 Waiting(Busy)
            21220 reports 22222222-3333 Unhindered
            21220 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
            41320 gives back 22222222-3333
        "#]].assert_eq(&play_transcribed("gemini", &script("")));
    }

    #[test]
    fn what_stays_where_it_was_typed_was_not_injected() {
        check(
            "gemini",
            &format!("{GEMINI}\n1010 {GEMINI_PASTED}\n1200 keys x\n30000 ends"),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1160 types \r
                4160 types \r
                7160 types \r
                7160 types x
                10160 types \r
                13160 reports 11111111-2222 Waiting(NoEnterTaken)
            "#]],
        );
    }

    #[test]
    fn keys_do_not_join_a_text_that_is_late_to_be_shown() {
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1050 keys x
                2400 {GEMINI_PASTED}
                2600 {GEMINI_EMPTY}
                9000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                2550 types \r
                2640 reports 11111111-2222 Injected
                2640 acknowledges 11111111-2222
                2640 types x
            "#]],
        );
        // Not for ever, and not while something is asked.
        check(
            "gemini",
            &format!("{GEMINI}\n1050 keys x\n4000 why\n9000 ends"),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                3100 types x
                4000 1 waiting, 0 typed: nothing in the way
                5050 gives back 11111111-2222
            "#]],
        );
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1050 keys 1
                1100 prints \e[2J\e[HApply this change?\r\n│ ●\s1. Allow once\r\n\s
                9000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1250 reports 11111111-2222 Waiting(Dialog)
                1250 types 1
            "#]],
        );
        // One that is not sent off at once.
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1010 {GEMINI_PASTED}
                1200 keys x
                1960 {GEMINI_EMPTY}
                9000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1160 types \r
                1970 reports 11111111-2222 Injected
                1970 acknowledges 11111111-2222
                1970 types x
            "#]],
        );
    }

    #[test]
    fn what_waits_for_an_agent_at_work_is_reported_however_much_it_prints() {
        let spins = (0..100).map(|n| {
            let spinner =
                format!("\\e[H✽ Processing… ({n}s)\\r\\n❯\\s\\r\\n\\s\\sesc to interrupt\\e[2;3H");
            format!("{} prints {spinner}\n", 1000 + 50 * n)
        });
        let script = format!(
            "0 settles\n0 prints \\e[?2004h❯\\s\n900 reports\n{}6000 prints \\e[2J\\e[H❯\\s\n9000 ends",
            spins
                .enumerate()
                .map(|(n, line)| match n {
                    10 => format!("1500 mail Bob: hello\n{line}"),
                    _ => line,
                })
                .collect::<String>()
        );
        check(
            "claude",
            &script,
            expect![[r#"
                1500 reports 11111111-2222 Waiting(Busy)
                6100 reports 11111111-2222 Unhindered
                6100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
    }

    /// Another reason counts once it lasts, for what came before and since.
    #[test]
    fn messages_that_wait_are_reported_with_one_reason() {
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            1000 reports
            5000 holds
            5000 mail Bob first: one
            5100 mail Bob second: two
            6000 releases
            6010 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            7000 mail Bob third: three
            9000 keys 1\r
            9100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            9150 keys x
            9200 prints \e[2K\r\s>\s\sx
            20000 ends
            ",
            expect![[r#"
                5000 reports first Waiting(Held)
                5100 reports second Waiting(Held)
                6000 reports first Unhindered
                6000 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
                6000 reports second Unhindered
                6160 reports first Waiting(Dialog)
                6160 reports second Waiting(Dialog)
                7060 reports third Waiting(Dialog)
                9000 types 1\r
                9150 types x
                9350 reports first Unhindered
                9350 reports second Unhindered
                9350 reports third Unhindered
            "#]],
        );
    }

    /// The daemon forgets what was reported with the connection to which it delivered.
    #[test]
    fn message_that_is_delivered_again_is_reported_again() {
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            1000 reports
            5000 holds
            5000 mail Bob first: one
            5100 mail Bob second: two
            9000 mail Bob first s-1 2: one
            9100 releases
            9200 prints \e[2K\r\s>\s\s[/relay 789200]
            12900 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            13000 holds
            14000 mail Bob first s-1 3: one
            15000 ends
            ",
            expect![[r#"
                5000 reports first Waiting(Held)
                5100 reports second Waiting(Held)
                9000 reports first Waiting(Held)
                9100 reports first Unhindered
                9100 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
                9100 reports second Unhindered
                9350 types \r
                12350 types \r
                12950 reports first Injected
                12950 acknowledges first
                12950 reports second Waiting(Printing)
                13050 reports second Waiting(Held)
                14000 reports first Injected
                14000 acknowledges first
            "#]],
        );
    }

    /// It shows its line first, and then asks whether the folder may be trusted.
    #[test]
    fn a_program_that_begins_is_not_typed_to_until_its_line_has_stayed() {
        check(
            "gemini",
            r"
            0 reports
            0 mail Bob: hello
            500 prints \s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            800 prints \e[?2004h
            1000 prints \e[2J\e[HDo you trust this folder?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            5000 keys 1
            5100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            12000 ends
            ",
            expect![[r#"
                0 reports 11111111-2222 Waiting(Starting)
                3250 reports 11111111-2222 Waiting(Dialog)
                5000 types 1
                7100 reports 11111111-2222 Unhindered
                7100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            "#]],
        );
    }

    #[test]
    fn a_text_that_a_dialog_swallowed_or_the_person_erased_is_given_back() {
        for keys in ["1\\r", "1", "\\x7f"] {
            let script = format!(
                r"
                0 settles
                0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
                900 reports
                1000 mail Bob: hello
                1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
                4000 keys {keys}
                4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
                90000 ends
                "
            );
            let expected = match keys {
                "1\\r" => expect![[r#"
                    1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                    1200 reports 11111111-2222 Waiting(Dialog)
                    4000 types 1\r
                    4250 reports 11111111-2222 Unhindered
                    4250 reports 11111111-2222 Injected
                    4250 acknowledges 11111111-2222
                "#]],
                "1" => expect![[r#"
                    1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                    1200 reports 11111111-2222 Waiting(Dialog)
                    4000 types 1
                    4250 reports 11111111-2222 Unhindered
                    8150 gives back 11111111-2222
                "#]],
                _ => expect![[r#"
                    1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                    1200 reports 11111111-2222 Waiting(Dialog)
                    4000 types 
                    4250 reports 11111111-2222 Unhindered
                    8150 gives back 11111111-2222
                "#]],
            };
            check("gemini", &script, expected);
        }
    }

    /// As Windows' consoles do it.
    #[test]
    fn an_enter_that_is_spelled_out_sends_off_as_any_other() {
        const ENTER: &str = r"\e[13;28;13;1;0;1_\e[13;28;13;0;0;1_";
        let empty = GEMINI_EMPTY;
        let dialog = r"prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No";
        check(
            "gemini",
            &format!("{GEMINI}\n1050 {dialog}\n4000 keys {ENTER}\n4100 {empty}\n90000 ends"),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                4000 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
                4250 reports 11111111-2222 Unhindered
                4250 reports 11111111-2222 Injected
                4250 acknowledges 11111111-2222
            "#]],
        );
        // One that was kept back before.
        check(
            "gemini",
            &format!("{GEMINI}\n1040 keys {ENTER}\n1050 {dialog}\n4100 {empty}\n90000 ends"),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                1200 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
                4250 reports 11111111-2222 Unhindered
                4250 reports 11111111-2222 Injected
                4250 acknowledges 11111111-2222
            "#]],
        );
        // No line is sent off by what a paste has.
        check(
            "gemini",
            &format!(
                r"{GEMINI}
                1050 {dialog}
                4000 keys \e[200~a\rb\e[201~
                4100 {empty}
                90000 ends"
            ),
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                4000 types \e[200~a\rb\e[201~
                4250 reports 11111111-2222 Unhindered
                8150 gives back 11111111-2222
            "#]],
        );
    }

    #[test]
    fn a_text_that_no_enter_sends_off_and_the_person_erases_is_given_back() {
        check(
            "gemini",
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            900 reports
            1000 mail Bob: hello
            1050 prints \e[2K\r\s>\s\s[/relay 789200]
            11000 keys \x15
            11050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            90000 ends
            ",
            expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 types \r
                4200 types \r
                7200 types \r
                10200 types \r
                11000 types 
                14200 gives back 11111111-2222
            "#]],
        );
    }
}
