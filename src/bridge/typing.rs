//! When and how what waits for the agent is typed.

use super::{
    Bridge, DRAWN_MAX, Injection, Item, LASTING_MS, LEAVING_LOOK_MS, LEAVING_MS, Mail, Output,
    PRESSES_MAX, Progress, RETRY_MS, SEEN_MS, SENDERS_MAX, Stage, TAKING_UP_LOOK_MS, TAKING_UP_MS,
    TYPED_MAX, TakingUp,
    extract::PICTURE_MS,
    inject::{self, Entry, Form, Frame, Origin},
    recipe::{Obstacle, Spot},
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
            self.retry_at,
        ];
        free.into_iter().flatten().max()
    }

    fn has_something_to_type(&self) -> bool {
        !self.mail.is_empty() || self.may_tell() || self.brief.is_some()
    }

    pub(super) fn may_tell(&self) -> bool {
        !self.turn.told && !self.turn.complaints.is_empty()
    }

    pub(super) fn inject_when_free(
        &mut self,
        now: Moment,
        spot: &Spot,
        foreground: Option<bool>,
        out: &mut Vec<Output>,
    ) {
        if self.injection.is_some() || !self.has_something_to_type() {
            return;
        }
        match self.free_form(now, spot, foreground) {
            Ok(form) => {
                self.obstacle = None;
                self.waits_since = Some(now);
                if !self.inject(form, spot, out) {
                    self.retry_at = Some(now.plus(RETRY_MS));
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
        let waits = |it: &TakingUp| !it.begun && now.since(it.since) < TAKING_UP_MS;
        self.taking_up = self.taking_up.take().filter(waits);
        self.taking_up.is_some()
    }

    /// When what waits has done so for long enough to be worth a word, if there was none.
    pub(super) fn report_at(&self) -> Option<Moment> {
        let is_due = self.injection.is_none() && self.mail.has_unreported();
        self.waits_since.filter(|_| is_due).map(|since| since.plus(LASTING_MS))
    }

    /// Nothing can be typed for this reason. It is reported where nothing was typed for long, and after
    /// that where it is another one that lasts.
    fn stand_before(&mut self, now: Moment, why: Obstacle, out: &mut Vec<Output>) {
        let since = self.obstacle.filter(|(before, _)| *before == why).map_or(now, |it| it.1);
        self.obstacle = Some((why, since));
        let lasts = |since| now.since(since) >= LASTING_MS;
        if lasts(since) || (self.mail.has_unreported() && self.waits_since.is_some_and(lasts)) {
            let news = self.mail.report(why).map(str::to_owned);
            out.extend(news.map(|id| Output::Report(id, Progress::Waiting(why))));
        }
    }

    fn free_form(
        &mut self,
        now: Moment,
        spot: &Spot,
        foreground: Option<bool>,
    ) -> Result<Form, Obstacle> {
        if self.state.held {
            return Err(Obstacle::Held);
        }
        let within = |at: Option<Moment>, ms| at.is_some_and(|at| now.since(at) < ms);
        if self.printed_at.is_none() && within(self.started, self.recipe.start_ms) {
            return Err(Obstacle::Starting);
        }
        let known = self.known(foreground);
        if !self.has_stood_still(now) {
            let at_work = known.at_work || self.recipe.looks_busy(spot);
            return Err(if at_work { Obstacle::Busy } else { Obstacle::Printing });
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
        let form = self.recipe.form(spot, known)?;
        if self.takes_up(now) {
            return Err(Obstacle::Busy);
        }
        if form != Form::Plain && self.line.may_command() {
            return Err(Obstacle::HalfTyped);
        }
        if self.recipe.shows_composer() {
            // It is seen to be empty, whatever keys were pressed: they may have answered a dialog.
            self.line.remember_empty(&spot.before);
            if self.printed_at > self.touched_at && !within(self.touched_at, SEEN_MS) {
                self.line.was_seen_empty();
            }
        }
        if self.line.is_empty(&spot.before) { Ok(form) } else { Err(Obstacle::HalfTyped) }
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
        let Some((item, body)) = self.next_item(form) else { return false };
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
        let bytes = Frame { hex: &hex, origin, body: &body, expands }.bytes(form, entry);
        let text = expands.escape(&inject::clean(&body));
        self.extractor.remember_injected(&hex, &text);
        self.source.remember_injected(&hex, &text);
        self.remember_drawn(hex.clone(), &item);
        self.write(bytes, out);
        let (until, stage) = (self.handed_out, Stage::Text);
        self.injection = Some(Injection { item, hex, until, stage, asked: false });
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
            Stage::Text => injection.stage = Stage::Guard(now),
            Stage::Guard(_) | Stage::Leaving { .. } => {}
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
        let Some(Injection { stage: Stage::Guard(since), .. }) = self.injection else { return };
        if now < self.enter_at(since) {
            return;
        }
        // An Enter would answer what the program asks meanwhile.
        let asks = !self.recipe.holds_text(spot);
        if let Some(injection) = &mut self.injection {
            injection.asked = asks;
            // Until it is asked again; or pressed, which has a stage of its own.
            injection.stage = Stage::Guard(now);
        }
        match asks {
            true => self.release_keys(out),
            false => self.press_submit(1, out),
        }
    }

    /// Sends off what stands in the line to type into, for the so manieth time.
    fn press_submit(&mut self, presses: u32, out: &mut Vec<Output>) {
        self.write(self.recipe.submit.clone().into_bytes(), out);
        if let Some(injection) = &mut self.injection {
            injection.until = self.handed_out;
            injection.stage = Stage::Submit { presses };
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
        if !self.recipe.holds_text(spot) {
            return self.submitted(now, out);
        }
        if now.since(since) < LEAVING_MS || !self.has_stood_still(now) {
            return;
        }
        // The person may know better what holds it up.
        self.release_keys(out);
        let Some(injection) = &mut self.injection else { return };
        injection.asked = true;
        if presses < PRESSES_MAX {
            self.press_submit(presses + 1, out);
        }
    }

    /// The agent's program has written down that it got the text in this frame.
    pub(super) fn was_confirmed(&mut self, now: Moment, prompt: &str, out: &mut Vec<Output>) {
        let is_it = |injection: &Injection| {
            matches!(injection.stage, Stage::Leaving { .. })
                && inject::holds_frame(prompt, &injection.hex)
        };
        if self.injection.as_ref().is_some_and(is_it) {
            self.submitted(now, out);
        }
    }

    fn submitted(&mut self, now: Moment, out: &mut Vec<Output>) {
        self.submitted_at = Some(now);
        let taking_up = TakingUp { since: now, begun: false, looked_at: now };
        self.taking_up = self.recipe.shows_composer().then_some(taking_up);
        // It may say nothing to it, and show nothing of it.
        self.turn.open = true;
        self.turn.looked_at = false;
        let item = self.injection.take().map(|injection| injection.item);
        if let Some(Item::Mail(mail)) = item {
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

    fn release_keys(&mut self, out: &mut Vec<Output>) {
        let held = std::mem::take(&mut self.held_keys);
        if !held.is_empty() {
            self.write(held, out);
        }
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
    use crate::bridge::script::play;
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

    #[test]
    fn what_waits_for_an_agent_at_work_is_reported_however_much_it_prints() {
        let spins = (0..100).map(|n| {
            let spinner =
                format!("\\e[H✽ Processing… ({n}s)\\r\\n❯\\s\\r\\n\\s\\sesc to interrupt\\e[2;3H");
            format!("{} prints {spinner}\n", 1000 + 50 * n)
        });
        let script = format!(
            "0 prints \\e[?2004h❯\\s\n900 reports\n{}6000 prints \\e[2J\\e[H❯\\s\n9000 ends",
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
            3500 reports 11111111-2222 Waiting(Busy)
            6100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
        );
    }
}
