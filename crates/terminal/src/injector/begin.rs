//! The first stage of an injection: deciding to type, and typing the text.

use super::{
    Injector, RETRY_MS, TypedFrame, View,
    injection::{Content, Injection, Interference, Stage},
    readiness::Facts,
};
use crate::{
    extract::UPDATE_MAX_MS,
    frame::{self, Entry, MessageFrame, Origin},
    obstacle::Obstacle,
    output::{Output, Progress},
    recipe::Form,
};
use protocol::Moment;

/// The time after which a pressed key counts as having had its effect on the screen.
const KEY_SEEN_MS: u64 = 10_000;

impl Injector {
    /// Returns the earliest time at which the next text may be typed, if a text waits.
    pub(super) fn begin_at(&self) -> Option<Moment> {
        if self.injection.is_some() || !self.has_text() {
            return None;
        }
        let silent_since = self.started_at.filter(|_| self.printed_at.is_none());
        let after = |at: Option<Moment>, ms| at.map(|at| at.plus(ms));
        let free = [
            after(silent_since, self.recipe.start_ms),
            after(self.printed_at, self.recipe.quiet_ms),
            after(self.submitted_at, self.recipe.quiet_ms),
            after(self.key_at, self.recipe.untouched_ms),
            self.startup.deadline(self.recipe.start_ms),
            self.retry_at,
        ];
        free.into_iter().flatten().max()
    }

    /// Types the next text if there is no obstacle.
    ///
    /// `reader_is_fresh` says that the driver determined the reader after a text began to wait. A
    /// text that was added since then waits for the next tick.
    pub(crate) fn begin_when_free(
        &mut self,
        now: Moment,
        view: &View<'_>,
        reader_is_fresh: bool,
        out: &mut Vec<Output>,
    ) -> Option<TypedFrame> {
        if !reader_is_fresh {
            if self.has_text() {
                self.retry_at = Some(now);
            }
            return None;
        }
        if self.injection.is_some() || !self.has_text() {
            return None;
        }
        self.learn_from_input_line(now, view);
        match self.facts(now, view).verdict() {
            Ok(form) => {
                self.block = None;
                self.queue.outdate_report();
                let was_held = self.queue.is_reported_as(Obstacle::Held);
                let frame = self.begin(form, view, out);
                if frame.is_none() {
                    self.retry_at = Some(now.plus(RETRY_MS));
                }
                if was_held {
                    self.withdraw_reason(out);
                }
                frame
            }
            Err(why) => {
                self.note_obstacle(now, why, out);
                if self.begin_at().is_none_or(|at| at <= now) {
                    let soon = self.adoption.retry_ms().filter(|_| why == Obstacle::Busy);
                    self.retry_at = Some(now.plus(soon.unwrap_or(RETRY_MS)));
                }
                None
            }
        }
    }

    fn facts(&self, now: Moment, view: &View<'_>) -> Facts<'_> {
        let (spot, known) = (view.spot, self.known(view));
        let within = |at: Option<Moment>, ms| at.is_some_and(|at| now.since(at) < ms);
        Facts {
            is_held: self.is_held,
            is_silent: self.printed_at.is_none() && within(self.started_at, self.recipe.start_ms),
            reader: &self.reader,
            is_changing: !self.is_at_rest(now),
            is_at_work: known.at_work || self.recipe.looks_busy(spot),
            is_in_message: view.reads_screen && view.is_in_message,
            is_person_typing: within(self.key_at, self.recipe.untouched_ms),
            has_unwritten: self.writes.unwritten() > 0,
            is_repainting: spot.synchronizing && within(self.printed_at, UPDATE_MAX_MS),
            form: self.recipe.form(spot, known),
            is_started: !self.recipe.shows_composer() || self.startup.is_complete(),
            is_adopting: self.adoption.is_pending(now, &self.history),
            may_be_in_command_mode: self.line.may_take_text_for_commands(),
            is_line_empty: self.line.is_empty(&spot.before),
        }
    }

    /// Draws conclusions from the input line on the screen, unless something hinders a look at it:
    /// whether the program has started, whether the agent has adopted the last text, and whether
    /// the person's line is empty.
    fn learn_from_input_line(&mut self, now: Moment, view: &View<'_>) {
        let facts = self.facts(now, view);
        if facts.terminal_obstacle().is_some() {
            return;
        }
        let (form, is_command_mode) = (facts.form, facts.may_be_in_command_mode);
        let shows_composer = self.recipe.shows_composer();
        if shows_composer {
            self.startup.observe(now, form.is_ok(), self.printed_at, self.recipe.start_ms);
        }
        let is_started = !shows_composer || self.startup.is_complete();
        let Some(form) = form.ok().filter(|_| is_started) else { return };
        self.adoption.expire(now, &self.history);
        let is_adopting = self.adoption.is_pending(now, &self.history);
        if is_adopting || (form != Form::Plain && is_command_mode) || !shows_composer {
            return;
        }
        // The screen shows an empty line although keys were pressed: they may have answered a
        // dialog.
        self.line.remember_empty_look(&view.spot.before);
        let is_key_seen = self.key_at.is_none_or(|at| now.since(at) >= KEY_SEEN_MS);
        if self.printed_at > self.key_at && is_key_seen {
            self.line.mark_empty();
        }
    }

    /// Types the next text in this form. Returns `None` if no waiting text can be typed in the
    /// form.
    fn begin(&mut self, form: Form, view: &View<'_>, out: &mut Vec<Output>) -> Option<TypedFrame> {
        let is_reported = self.queue.next_is_reported();
        let (content, body) = self.next_text(form)?;
        let (origin, id) = match &content {
            Content::Message(message) => {
                if is_reported {
                    out.push(Output::Report(message.id.clone(), Progress::Unhindered));
                }
                let auth = self.history.auth_to_show(message);
                (Origin::Delivery(message.head(auth)), Some(message.id.clone()))
            }
            Content::Notice => (Origin::Relay, None),
        };
        let hex = frame::draw(&mut self.rng, &body);
        let entry = if view.spot.bracketed_paste { Entry::Pasted } else { Entry::Typed };
        let expands = &self.recipe.expands;
        let escapes_marks = view.reads_screen;
        let frame = MessageFrame { hex: &hex, origin, body: &body, expands, escapes_marks };
        let bytes = frame.bytes(form, entry);
        self.history.add_frame(hex.clone(), id);
        self.write(bytes, out);
        self.submitted = None;
        self.injection = Some(Injection {
            content,
            hex: hex.clone(),
            reader: self.reader.clone(),
            stage: Stage::Typing { until: self.writes.end() },
            passes_keys: false,
            obstacle: None,
            interference: Interference::None,
        });
        Some(TypedFrame { hex, body })
    }

    /// Takes the next text. The relay's own texts go first: the brief, because the agent needs it
    /// to answer, and notices, because they are about the agent's last messages.
    fn next_text(&mut self, form: Form) -> Option<(Content, String)> {
        if let Some(text) = self.notices.take(form) {
            return Some((Content::Notice, text));
        }
        let message = self.queue.pop()?;
        let body = message.body.clone();
        Some((Content::Message(message), body))
    }
}
