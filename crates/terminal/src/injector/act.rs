//! Execution of decisions: types, submits, acknowledges and returns texts.

use super::{
    Injector, RETRY_MS, TypedFrame, View,
    decide::{self, Decision, Step},
    delivering::{Block, Delivering},
    interference::Interference,
    observation::{Observation, Source, TextFacts},
};
use crate::{
    frame::{self, MessageFrame, Origin, holds_frame},
    input::IncomingMessage,
    keyboard::Reader,
    obstacle::Obstacle,
    output::{Output, Progress, RETURN_MS},
    recipe::Form,
};
use protocol::Moment;

/// The text on its way, or the last one.
#[derive(Debug)]
pub(super) struct Text {
    /// The content; `None` once the text has arrived or was returned.
    pub(super) content: Option<Content>,
    /// The digits of the text's frame.
    pub(super) hex: String,
    /// The program that the text was typed into.
    pub(super) reader: Reader,
    /// Whether the person's keys are passed on, because the program asks something or does not
    /// handle the text as expected.
    pub(super) passes_keys: bool,
    /// The reported reason why the text is not submitted, or does not leave the composer.
    pub(super) obstacle: Option<Obstacle>,
    pub(super) interference: Interference,
    /// The notice that precedes the message in its turn.
    rider: Option<String>,
}

/// The content of a frame.
#[derive(Debug)]
pub(super) enum Content {
    Message(IncomingMessage),
    /// Notices of the relay.
    Notice(String),
    /// The brief.
    Brief,
}

/// The text to type next.
struct NextText {
    content: Content,
    body: String,
    /// A relay notice that precedes it.
    rider: Option<String>,
}

impl Text {
    /// Returns the message, if the text is a message on its way.
    pub(super) fn message(&self) -> Option<&IncomingMessage> {
        let Some(Content::Message(message)) = &self.content else { return None };
        Some(message)
    }

    /// Ends the delivery, and returns its message.
    pub(super) fn take_message(&mut self) -> Option<IncomingMessage> {
        let Some(Content::Message(message)) = self.content.take() else { return None };
        Some(message)
    }
}

impl Injector {
    /// Observes, decides and acts.
    ///
    /// `reader_is_fresh` says that the driver determined the reader after a text began to wait. A
    /// text that was added since then waits for the next tick.
    pub(crate) fn act(&mut self, now: Moment, view: &View<'_>, reader_is_fresh: bool) {
        self.end_doubtful_leases(now);
        if self.may_begin(now, reader_is_fresh) {
            self.learn_from_composer(now, view);
        } else if self.has_text(now) && !reader_is_fresh {
            self.retry_at = Some(now);
        }
        let seen = self.observe(now, view, reader_is_fresh);
        let Decision { next, steps } = decide::decide(&seen, self.delivering, now);
        self.delivering = next;
        for step in steps {
            self.take_step(now, step, view);
        }
        self.wake_when_barred(now, view);
    }

    /// Whether nothing in the terminal side itself obstructs the next text.
    fn may_begin(&self, now: Moment, reader_is_fresh: bool) -> bool {
        !self.delivering.has_text() && self.has_text(now) && reader_is_fresh
    }

    fn learn_from_composer(&mut self, now: Moment, view: &View<'_>) {
        let seen = self.observe(now, view, true);
        if decide::terminal_obstacle(&seen, now).is_some() {
            return;
        }
        let form = decide::form(&seen);
        self.observer.learn_from_composer(now, view.spot, form, &self.history);
    }

    /// Returns the facts known now.
    pub(super) fn observe(&self, now: Moment, view: &View<'_>, is_fresh: bool) -> Observation<'_> {
        let seen = self.observer.observe(now, view);
        // A message was handed over that may begin a turn, or that must be redelivered first.
        let leases_bar = self.hooks.leases.bar_others();
        Observation {
            work: seen.work.or_else(|| leases_bar.then_some(Source::Relay)),
            is_adopting: self.observer.adoption.is_pending(now, &self.history),
            has_next: self.may_begin(now, is_fresh),
            text: self.text_facts(),
            ..seen
        }
    }

    pub(super) fn text_facts(&self) -> Option<TextFacts> {
        self.text.as_ref().map(|text| TextFacts {
            is_reader_here: text.reader == self.observer.reader,
            is_unconfirmed: self.history.is_unconfirmed(&text.hex),
            interference: text.interference,
            kept: self.kept_keys.interference(),
        })
    }

    fn take_step(&mut self, now: Moment, step: Step, view: &View<'_>) {
        match step {
            Step::Type(form) => self.begin(now, form, view),
            Step::Wait(block) => self.wait(now, block),
            Step::Submit => {
                self.press_enter();
                if let Some(text) = &mut self.text {
                    text.obstacle = None;
                }
            }
            Step::SubmitAgain => {
                self.observer.times.submitted = Some(now);
                let hex = self.text.as_ref().map(|text| text.hex.clone());
                self.observer.adoption.begin(now, hex.unwrap_or_default());
                self.press_enter();
            }
            Step::PassKeys(passes) => self.pass_keys_on(passes),
            Step::Delay(why) => self.note_delay(why),
            Step::Complete => self.complete(now),
            Step::Return => self.give_up(),
        }
    }

    fn press_enter(&mut self) {
        self.write(self.observer.recipe.submit.clone().into_bytes());
    }

    /// Types the next text in this form, if a waiting text allows it.
    fn begin(&mut self, now: Moment, form: Form, view: &View<'_>) {
        self.queue.is_outdated = true;
        let was_held = self.queue.reported == Some(Obstacle::Held);
        let is_reported = self.queue.next_is_reported();
        match self.next_text(now, form) {
            Some(next) => self.type_text(next, is_reported, form, view),
            None => self.retry_at = Some(now.plus(RETRY_MS)),
        }
        if was_held {
            self.withdraw_reason();
        }
    }

    fn type_text(
        &mut self,
        NextText { content, body, rider }: NextText,
        is_reported: bool,
        form: Form,
        view: &View<'_>,
    ) {
        let (origin, id) = match &content {
            Content::Message(message) => {
                if is_reported {
                    self.out.push(Output::Report(message.id.clone(), Progress::Unhindered));
                }
                let auth = self.history.auth_to_show(message);
                (Origin::Delivery(message.head(auth)), Some(message.id.clone()))
            }
            Content::Notice(_) | Content::Brief => (Origin::Relay, None),
        };
        let rider = rider.map(|body| TypedFrame { hex: frame::draw(&mut self.rng, &body), body });
        let own = TypedFrame { hex: frame::draw(&mut self.rng, &body), body };
        let expands = &self.observer.recipe.expands;
        let entry = view.entry(self.may_drop_paste_marks);
        let frame = |TypedFrame { hex, body }: &TypedFrame, origin| {
            let escapes_marks = view.reads_screen;
            MessageFrame { hex, origin, body, expands, escapes_marks }.lines(form, entry)
        };
        let mut lines = rider.as_ref().map_or_else(Vec::new, |rider| frame(rider, Origin::Relay));
        lines.extend(frame(&own, origin));
        let bytes = frame::bytes(&lines, entry);
        if let Some(rider) = &rider {
            self.history.add_frame(rider.hex.clone(), None);
        }
        self.history.add_frame(own.hex.clone(), id);
        self.write(bytes);
        self.delivering = Delivering::Typing { end: self.observer.writes.handed_out };
        self.text = Some(Text {
            content: Some(content),
            hex: own.hex.clone(),
            reader: self.observer.reader.clone(),
            passes_keys: false,
            obstacle: None,
            interference: Interference::None,
            rider: rider.as_ref().map(|rider| rider.body.clone()),
        });
        self.typed.extend(rider.into_iter().chain([own]));
    }

    /// Takes the next text. The relay's own texts go first: the brief, because the agent needs it
    /// to answer, and notices, because they are about the agent's last messages.
    fn next_text(&mut self, now: Moment, form: Form) -> Option<NextText> {
        if let Some(body) = self.notices.take_brief(form) {
            return Some(NextText { content: Content::Brief, body, rider: None });
        }
        if let Some(body) = self.notices.take(now) {
            let content = Content::Notice(body.clone());
            return Some(NextText { content, body, rider: None });
        }
        let message = self.queue.pop()?;
        let (body, rider) = (message.body.clone(), self.notices.take_rider(form));
        Some(NextText { content: Content::Message(message), body, rider })
    }

    /// Reports what obstructs the next text, and plans the next look.
    fn wait(&mut self, now: Moment, block: Block) {
        self.note_obstacle(now, block);
        if self.begin_at().is_none_or(|at| at <= now) {
            let soon = self.observer.adoption.retry_ms().filter(|_| block.why == Obstacle::Busy);
            self.retry_at = Some(now.plus(soon.unwrap_or(RETRY_MS)));
        }
    }

    /// Counts bytes that the terminal has accepted.
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.observer.writes.written += bytes as u64;
        self.retry_at = None;
    }

    /// Enters the next stage if the terminal has accepted all bytes of the current one.
    pub(crate) fn advance(&mut self, now: Moment) {
        let (recipe, written) = (&self.observer.recipe, self.observer.writes.written);
        let Decision { next, steps } = decide::written(recipe, self.delivering, written, now);
        self.delivering = next;
        if steps.contains(&Step::Complete) {
            self.complete(now);
        }
    }

    /// Ends the current delivery as submitted.
    pub(super) fn complete(&mut self, now: Moment) {
        self.observer.times.submitted = Some(now);
        // A prompt begins a turn even if the agent prints no answer.
        self.observer.turn.change(now);
        self.note_turn_for_brief();
        let Some(text) = self.text.as_mut().filter(|_| self.delivering.has_text()) else { return };
        let left = self.delivering.left(text.interference).filter(|_| self.kept_keys.is_empty());
        self.delivering = Delivering::Waiting { block: None, left };
        if self.observer.recipe.shows_composer() {
            self.observer.adoption.begin(now, text.hex.clone());
        } else {
            self.observer.adoption.end();
        }
        if let Some(message) = text.take_message() {
            self.acknowledge(message.id);
        }
        self.release_keys();
    }

    /// Gives up on the text and returns its message to the daemon for redelivery.
    fn give_up(&mut self) {
        self.delivering = Delivering::default();
        let lost = || Output::Log("the agent did not get the relay's words".into());
        let text = self.text.take().and_then(|text| Some((text.content?, text.rider)));
        match text {
            Some((Content::Message(message), rider)) => {
                self.out.push(Output::Return(message.id, RETURN_MS));
                rider.into_iter().for_each(|notice| self.notify_later(notice));
            }
            Some((Content::Notice(notice), _)) => {
                self.out.push(lost());
                self.notify(notice);
            }
            Some((Content::Brief, _)) => self.out.push(lost()),
            None => {}
        }
        self.release_keys();
    }

    /// Acknowledges a message that the agent has got.
    pub(super) fn acknowledge(&mut self, id: String) {
        self.history.add_typed(id.clone());
        self.out.push(Output::Report(id.clone(), Progress::Injected));
        self.out.push(Output::Acknowledge(id));
    }

    /// Notes a prompt in the agent's transcript. If the prompt contains a text's frame, that text
    /// counts as submitted.
    pub(crate) fn confirm(&mut self, now: Moment, prompt: &str) {
        self.note_shown(now, |hex| holds_frame(prompt, hex));
        self.notices.begin_turn();
        self.note_turn_for_brief();
        self.retry_at = None;
    }

    /// Notes a reply in the agent's transcript.
    pub(crate) fn note_reply(&mut self) {
        self.observer.adoption.end();
        self.retry_at = None;
    }

    /// Notes the end of a turn in the agent's transcript.
    pub(crate) fn note_turn_end(&mut self) {
        self.end_turn();
        self.observer.adoption.end();
        self.retry_at = None;
    }
}
