//! Routes to the agent other than typing: the agent is notified of a message between two tool calls
//! and reads it, or a hook begins a turn with it.
//!
//! A message that was handed over is leased. It is acknowledged once its whole frame is in a
//! transcript, or in a prompt or a tool's result that the CLI's hooks report. Without such a
//! record, it is delivered again, and its frame says so.

use super::{
    Injector, TypedFrame, View, decide,
    leases::{Leases, Route},
    queue::Announced,
};
use crate::{
    agents, bounded,
    frame::{self, MessageFrame, Origin, plain},
    hooks::{frames_in, is_session},
    input::IncomingMessage,
    obstacle::Obstacle,
    output::{Caller, Output, Progress, Taken, Unreadable},
    recipe::Expansions,
};
use protocol::{
    Moment,
    hook::{self, Point},
};
use std::collections::VecDeque;

/// How long a person's keys or draft must obstruct a message before a hook begins a turn with it.
const BARRED_MS: u64 = 1000;

/// How many messages the agent is notified of at once at most.
const ANNOUNCED_MAX: usize = 5;

/// How many announcements are remembered until their hooks have ended.
const ANNOUNCEMENTS_MAX: usize = 16;

/// The state of these routes.
#[derive(Debug, Default)]
pub(super) struct HookRoutes {
    pub(super) leases: Leases,
    /// The hook that is waiting to begin a turn.
    waiter: Option<Caller>,
    /// The CLI's id of the conversation, as reported by hooks since the person's last Enter.
    pub(super) session: Option<String>,
    /// No hook begins a turn before this time, since a menu may be open.
    wake_not_before: Option<Moment>,
    announced: VecDeque<Announcement>,
}

/// A notice that a hook has printed for the agent.
#[derive(Debug)]
struct Announcement {
    caller: Caller,
    /// The ids of the waiting messages.
    ids: Vec<String>,
    notices: Vec<String>,
}

impl Injector {
    /// Handles and answers a hook's report.
    pub(crate) fn hooked(&mut self, now: Moment, caller: Caller, report: &hook::Report) {
        self.retry_at = None;
        self.observer.work.note(report.point);
        // Any command of the agent can send a report, not only a hook.
        if let Some(session) = report.session.as_ref().filter(|session| is_session(session)) {
            self.hooks.session = Some(session.clone());
        }
        let mut text = None;
        match report.point {
            Point::Waits => {
                // A hook that began to wait earlier is no longer useful.
                let before = self.hooks.waiter.replace(caller);
                return self.out.extend(before.map(|before| Output::Hooked(before, None)));
            }
            Point::PromptSubmitted => {
                // A prompt with a frame is the relay's own.
                if report.frames.is_empty() {
                    self.end_loops();
                }
                self.note_shown(now, |hex| report.frames.iter().any(|shown| shown.hex == hex));
                self.notices.begin_turn();
                self.observer.adoption.note_turn();
                text = self.lost_brief(caller, report);
            }
            Point::ToolEnded => {
                self.note_read(&report.frames);
                if !report.is_relays {
                    self.end_loops();
                }
                text = self.announcement(caller);
            }
            Point::TurnEnded | Point::SessionEnded => self.hooks.leases.turn_ended(now),
            Point::SessionBegan => text = self.brief_for(caller, report),
            Point::SessionCompacts => self.note_lost_brief(),
            _ => {}
        }
        self.out.push(Output::Hooked(caller, text));
    }

    /// Notes that a hook had ended before it was answered.
    pub(crate) fn hook_gone(&mut self, caller: Caller) {
        self.take_back(caller);
        for lease in self.hooks.leases.end_unreached(caller).into_iter().rev() {
            self.put_back(lease.message, false);
        }
    }

    /// Notes that a hook may not have printed its answer. A message that may have woken the agent
    /// stays leased for a while, since a record of it may still come.
    pub(crate) fn hook_unconfirmed(&mut self, now: Moment, caller: Caller) {
        self.take_back(caller);
        self.hooks.leases.hook_unconfirmed(now, caller);
    }

    /// Queues the brief or the notices again that a hook has not printed.
    fn take_back(&mut self, caller: Caller) {
        self.take_back_brief(caller);
        let told = self.hooks.announced.iter().position(|announced| announced.caller == caller);
        let Some(announced) = told.and_then(|at| self.hooks.announced.remove(at)) else { return };
        self.queue.forget_announced(&announced.ids);
        for notice in announced.notices {
            self.notify_later(notice);
        }
    }

    /// Queues a message again that another process of the CLI did not deliver to the agent.
    pub(crate) fn not_woken(&mut self, id: &str) {
        if let Some(lease) = self.hooks.leases.end(id) {
            self.put_back(lease.message, true);
        }
    }

    /// Returns a relay text that notifies the agent of the waiting messages, each once. The model
    /// gives it more authority than a message, so it contains no words of others.
    fn announcement(&mut self, caller: Caller) -> Option<String> {
        if self.observer.is_held {
            return None;
        }
        let announced = self.queue.announce();
        let notices = self.notices.take_own();
        let mut text: String = announced.iter().take(ANNOUNCED_MAX).map(sentence).collect();
        match announced.len().saturating_sub(ANNOUNCED_MAX) {
            0 => {}
            more => text.push_str(&format!(
                "{more} more wait: `agent-relay inbox --take` shows the next ones. "
            )),
        }
        text.push_str(&notices.join(" "));
        if text.is_empty() {
            return None;
        }
        let ids = announced.into_iter().map(|told| told.id).collect();
        let announcement = Announcement { caller, ids, notices };
        bounded::push(&mut self.hooks.announced, ANNOUNCEMENTS_MAX, announcement);
        Some(text.trim_end().to_owned())
    }

    /// Hands messages to a command of the agent: the one whose id begins with `prefix`, with its
    /// sender's older ones, or as many as one command shows.
    pub(crate) fn take(&mut self, now: Moment, prefix: Option<&str>, reads_screen: bool) -> Taken {
        if let Some(taken) = self.unreadable(prefix) {
            return taken;
        }
        let messages = self.queue.take(prefix);
        if messages.is_empty() {
            return Taken::Unreadable(Unreadable::Long);
        }
        let hand_over = |message| self.hand_over(now, message, Route::Read, reads_screen);
        let mut texts: Vec<_> = messages.into_iter().map(hand_over).collect();
        if let Some(prefix) = prefix.filter(|prefix| self.queue.find_only(prefix).is_some()) {
            texts.push(format!(
                "These messages came before {prefix}. Run `agent-relay read {prefix}` once more."
            ));
        }
        Taken::Text(texts.join("\n"))
    }

    /// Returns why the message with this prefix, or any message, cannot be read now.
    fn unreadable(&self, prefix: Option<&str>) -> Option<Taken> {
        let waits = match prefix {
            Some(prefix) => self.queue.find_only(prefix).is_some(),
            None => !self.queue.is_empty(),
        };
        Some(match () {
            () if !waits && self.loop_guard.holds(prefix) => Taken::Unreadable(Unreadable::Looping),
            () if !waits => Taken::Nothing,
            () if self.observer.is_held => Taken::Unreadable(Unreadable::Held),
            // `read` shows it without taking it.
            () if !self.observer.work.is_heard && prefix.is_some() => Taken::Nothing,
            () if !self.observer.work.is_heard => Taken::Unreadable(Unreadable::NoHooks),
            // If no record of a message comes, the end of a turn decides about it.
            () if !self.observer.work.is_at_work => Taken::Unreadable(Unreadable::Idle),
            () => return None,
        })
    }

    /// Begins a turn with the next message, if a person's keys or draft have obstructed it for a
    /// while, and a hook waits or the CLI has a queue of prompts. A message that the CLI has
    /// ignored once is left to typing.
    pub(crate) fn wake_when_barred(&mut self, now: Moment, view: &View<'_>) {
        if self.wake_at().is_none_or(|at| now < at) {
            return;
        }
        // While a menu is open, a turn could begin in a conversation that the person is leaving.
        // While a turn of the person may begin, the CLI would give the message its system's
        // authority.
        let seen = self.observe(now, view, false);
        let is_free = matches!(decide::form(&seen), Ok(_) | Err(Obstacle::HalfTyped));
        if seen.is_adopting || !is_free || !seen.shown.shows_line(seen.has_draft) {
            self.hooks.wake_not_before = Some(now.plus(BARRED_MS));
            return;
        }
        let Some(message) = self.queue.pop() else { return };
        let (waiter, id) = (self.hooks.waiter.take(), message.id.clone());
        let route = waiter.map_or(Route::Queued, Route::Woken);
        let text = self.hand_over(now, message, route, view.reads_screen);
        if let Some(caller) = waiter {
            self.out.push(Output::Hooked(caller, Some(text)));
        } else if let Some((arguments, session)) = self.prompt_queue() {
            let session = session.to_owned();
            self.out.push(Output::Wake { arguments, session, text, id });
        }
    }

    /// Returns the arguments of a process that serves the CLI's queue of prompts, and the agent's
    /// conversation.
    fn prompt_queue(&self) -> Option<(&'static [&'static str], &str)> {
        let hooks = agents::named(&self.observer.recipe.name)?.hooks?;
        Some((hooks.prompt_queue?, self.hooks.session.as_deref()?))
    }

    /// Returns when the next message will begin a turn, if a person still obstructs its typing
    /// then.
    pub(super) fn wake_at(&self) -> Option<Moment> {
        let block = self.delivering.block()?;
        let is_barred = matches!(block.why, Obstacle::HalfTyped | Obstacle::Typing);
        let may_wake = (self.hooks.waiter.is_some() || self.prompt_queue().is_some())
            && !self.observer.is_held
            && !self.queue.is_empty()
            && !self.queue.next_was_ignored()
            && self.hooks.leases.is_empty()
            && !self.observer.work.is_at_work;
        let barred_at = block.since.plus(BARRED_MS);
        let at = self.hooks.wake_not_before.map_or(barred_at, |at| at.max(barred_at));
        (is_barred && may_wake).then_some(at)
    }

    /// Leases a message to a route. Returns its frame's text.
    fn hand_over(
        &mut self,
        now: Moment,
        message: IncomingMessage,
        route: Route,
        reads_screen: bool,
    ) -> String {
        let auth = self.history.auth_to_show(&message);
        let body = message.body.clone();
        let hex = frame::draw(&mut self.rng, &body);
        let id = &message.id;
        let nothing = Expansions::default();
        let text = MessageFrame {
            hex: &hex,
            origin: Origin::Delivery(message.head(auth)),
            body: &body,
            expands: if route == Route::Queued { &self.observer.recipe.expands } else { &nothing },
            escapes_marks: reads_screen,
        };
        let text = text.text();
        self.out.push(Output::Report(id.clone(), Progress::Unhindered));
        match route {
            Route::Read => {
                let whole = frames_in(&text).into_iter().find(|frame| frame.hex == hex);
                self.hooks.leases.remember_read(whole.expect("a whole frame"), id.clone());
            }
            Route::Woken(_) | Route::Queued => {
                self.history.add_frame(hex.clone(), Some(id.clone()))
            }
        }
        self.hooks.leases.add(now, message, route);
        self.typed.push(TypedFrame { hex, body });
        text
    }

    /// Notes a record of a prompt; `is_shown` tells by a frame's digits whether the prompt contains
    /// it.
    pub(super) fn note_shown(&mut self, now: Moment, is_shown: impl Fn(&str) -> bool) {
        if self.delivering.has_text() && self.text.as_ref().is_some_and(|text| is_shown(&text.hex))
        {
            self.complete(now);
        }
        self.observer.adoption.confirm(now, &is_shown);
        for id in self.history.confirm(is_shown) {
            self.note_arrived(id);
        }
    }

    /// Notes the frames of a tool's result.
    fn note_read(&mut self, frames: &[hook::Frame]) {
        for id in self.hooks.leases.take_read(frames) {
            self.note_arrived(id);
        }
    }

    /// Notes that a record shows a message. Acknowledges it if it was not typed, even if it is
    /// doubtful and waits again.
    fn note_arrived(&mut self, id: String) {
        let leased = self.hooks.leases.end(&id).map(|lease| lease.message);
        if leased.or_else(|| self.queue.remove(&id)).is_some() {
            self.acknowledge(id.clone());
        }
        self.out.push(Output::Report(id, Progress::Confirmed));
    }

    /// Queues the messages without a record again.
    pub(super) fn end_doubtful_leases(&mut self, now: Moment) {
        let doubtful = self.hooks.leases.take_doubtful(now, self.observer.work.is_at_work);
        for lease in doubtful.into_iter().rev() {
            let was_ignored = lease.is_ignored();
            let mut message = lease.message;
            message.attempt += 1;
            self.put_back(message, was_ignored);
        }
    }

    /// Queues a message again. One that the CLI has ignored does not wake it a second time.
    fn put_back(&mut self, message: IncomingMessage, was_ignored: bool) {
        self.queue.push_front(message, was_ignored);
        self.retry_at = None;
    }
}

/// Returns a sentence that notifies the agent of a message.
fn sentence(message: &Announced) -> String {
    let Announced { from, id, bytes, is_readable } = message;
    let (from, id) = (plain(from), plain(id));
    let id: String = id.chars().take(8).collect();
    let how = match is_readable {
        true => format!("`agent-relay read {id}` shows it"),
        false => "you get it when your turn is over".to_owned(),
    };
    format!("{from} wrote to you (id {id}, {bytes} bytes): {how}. ")
}
