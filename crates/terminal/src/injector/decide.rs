//! The decisions about a text on its way into the agent: a pure function of the known facts.
//!
//! A text waits until [`verdict`] finds no obstacle. Then it is typed. Its Enter follows once the
//! screen has settled and the composer holds only the text. It counts as submitted once it has left
//! the composer. Only this file decides to press a key.

use super::{
    RETRY_MS,
    delivering::{Block, Delivering, Left},
    interference::Interference,
    observation::{Observation, TextFacts},
};
use crate::{
    extract::UPDATE_MAX_MS,
    keyboard::Reader,
    obstacle::Obstacle,
    recipe::{Form, Recipe},
};
use protocol::Moment;

/// How long a program may take to show or record a text that it has received.
const TEXT_SHOWN_MS: u64 = 20_000;
/// The time between two looks whether a text has left the composer.
const CHECK_MS: u64 = 30;
/// The time before Enter is pressed again. Some programs take an Enter soon after a paste for a
/// part of the paste.
const PRESS_AGAIN_MS: u64 = 700;
/// The time before Enter is pressed again if the program has printed nothing since.
const PRESS_AGAIN_SILENT_MS: u64 = 3000;
/// How many times Enter is pressed for one text at most.
const PRESSES_MAX: u32 = 4;
/// How long the screen must be unchanged before Enter is pressed again for a text that seemed to
/// have left.
const UNCHANGED_MS: u64 = 1000;

/// A step to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Type the next text in this form.
    Type(Form),
    /// Report what obstructs the next text.
    Wait(Block),
    /// Press Enter.
    Submit,
    /// Press Enter for a text that counts as submitted.
    SubmitAgain,
    /// Pass the person's keys on (`true`) from now on, or keep them back.
    PassKeys(bool),
    /// Report why the text on its way is not submitted, or that nothing obstructs it.
    Delay(Option<Obstacle>),
    /// The text was submitted.
    Complete,
    /// Give up on the text, and return its message to the daemon.
    Return,
}

/// A decision: the steps to take, and the next stage unless the steps end the delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) next: Delivering,
    pub(super) steps: Vec<Step>,
}

impl Decision {
    fn stay(next: Delivering) -> Self {
        Self { next, steps: Vec::new() }
    }
}

/// Decides what happens to the text on its way, or to the next one.
pub(super) fn decide(seen: &Observation<'_>, delivering: Delivering, now: Moment) -> Decision {
    match delivering {
        Delivering::Waiting { block, left } => waiting(seen, block, left, now),
        Delivering::Settling { missing_since, since } => settling(seen, missing_since, since, now),
        Delivering::Leaving { .. } => leaving(seen, delivering, now),
        Delivering::Typing { .. } | Delivering::Submitting { .. } => Decision::stay(delivering),
    }
}

/// Decides what follows after the terminal has accepted `written` bytes. If the program has no
/// known composer, this submits a text: its screen does not show when the text leaves.
pub(super) fn written(recipe: &Recipe, stage: Delivering, written: u64, now: Moment) -> Decision {
    match stage {
        Delivering::Typing { end } if written >= end => {
            Decision::stay(Delivering::Settling { missing_since: now, since: now })
        }
        Delivering::Submitting { end, .. } if written >= end && !recipe.shows_composer() => {
            Decision { next: stage, steps: vec![Step::Complete] }
        }
        Delivering::Submitting { end, presses } if written >= end => {
            let (checked_at, seen_at, is_ignored) = (now, now, false);
            let next = Delivering::Leaving { since: now, presses, checked_at, seen_at, is_ignored };
            Decision::stay(next)
        }
        _ => Decision::stay(stage),
    }
}

/// Returns the time of the next decision about a text on its way. `printed_at` is the time of the
/// screen's last change.
pub(super) fn deadline(
    recipe: &Recipe,
    delivering: &Delivering,
    printed_at: Option<Moment>,
) -> Option<Moment> {
    match *delivering {
        Delivering::Settling { since, .. } => Some(enter_at(recipe, since, printed_at)),
        Delivering::Leaving { presses, checked_at, is_ignored, .. } => {
            Some(check_at(presses, checked_at, is_ignored))
        }
        _ => None,
    }
}

/// Whether a key may be pressed now, so that the program reading the terminal must be known.
pub(super) fn may_press(
    recipe: &Recipe,
    delivering: &Delivering,
    printed_at: Option<Moment>,
    now: Moment,
) -> bool {
    match *delivering {
        Delivering::Settling { since, .. } => now >= enter_at(recipe, since, printed_at),
        Delivering::Leaving { since, .. } => now.since(since) >= PRESS_AGAIN_MS,
        _ => false,
    }
}

/// Returns when the screen has been unchanged for long enough that a text that seemed to leave, if
/// shown, counts as stuck. `None` if no such look is due until the screen changes.
pub(super) fn stuck_at(
    left: Left,
    text: Option<TextFacts>,
    printed_at: Option<Moment>,
) -> Option<Moment> {
    let may_press = left.presses < PRESSES_MAX
        && text.is_some_and(|text| text.is_reader_here && text.is_unconfirmed);
    let printed_at = printed_at?;
    let has_printed = printed_at > left.pressed_at;
    let patience_ms = if has_printed { PRESS_AGAIN_MS } else { PRESS_AGAIN_SILENT_MS };
    let at = printed_at.plus(UNCHANGED_MS).max(left.pressed_at.plus(patience_ms));
    (may_press && left.checked_at < at).then_some(at)
}

/// Returns the form for typing a text now, or the obstacle to it. An agent with hooks may get the
/// text without typing meanwhile (`routes::wake_when_barred`).
pub(super) fn verdict(seen: &Observation<'_>, now: Moment) -> Result<Form, Obstacle> {
    terminal_obstacle(seen, now).map_or(Ok(()), Err)?;
    if !seen.is_started {
        // A dialog at the start is the more useful reason.
        return Err(form(seen).err().unwrap_or(Obstacle::Starting));
    }
    let form = form(seen)?;
    if seen.is_adopting {
        return Err(Obstacle::Busy);
    }
    let is_command = form != Form::Plain && seen.may_be_in_command_mode;
    if is_command || !seen.is_line_empty { Err(Obstacle::HalfTyped) } else { Ok(form) }
}

/// Returns the form that the screen allows for a text, or the obstacle on the screen.
pub(super) fn form(seen: &Observation<'_>) -> Result<Form, Obstacle> {
    let is_at_work = seen.work.is_some() && !seen.recipe.while_busy;
    seen.shown.form.and_then(|form| if is_at_work { Err(Obstacle::Busy) } else { Ok(form) })
}

/// Returns the first obstacle that does not depend on the composer.
pub(super) fn terminal_obstacle(seen: &Observation<'_>, now: Moment) -> Option<Obstacle> {
    let is_changing = !seen.is_at_rest(now);
    let is_typing = seen.key_at.is_some_and(|at| now.since(at) < seen.recipe.untouched_ms);
    let is_repainting = seen.is_synchronizing && seen.printed_within(now, UPDATE_MAX_MS);
    match seen.reader {
        _ if seen.is_held => Some(Obstacle::Held),
        _ if seen.is_silent => Some(Obstacle::Starting),
        Reader::Barred(why, _) => Some(*why),
        _ if is_changing && seen.work.is_some() => Some(Obstacle::Busy),
        _ if is_changing => Some(Obstacle::Printing),
        _ if seen.is_in_message => Some(Obstacle::Busy),
        _ if is_typing => Some(Obstacle::Typing),
        _ if seen.has_unwritten => Some(Obstacle::NotReading),
        _ if is_repainting => Some(Obstacle::Printing),
        _ => None,
    }
}

/// Presses Enter again for a text that seemed to have left, or types the next text.
fn waiting(
    seen: &Observation<'_>,
    block: Option<Block>,
    mut left: Option<Left>,
    now: Moment,
) -> Decision {
    let stuck_at = left.and_then(|left| stuck_at(left, seen.text, seen.printed_at));
    if let Some(left) = left.as_mut().filter(|_| stuck_at.is_some_and(|at| at <= now)) {
        left.checked_at = now;
        let works = seen.is_recorded_at_work || seen.shows_work;
        if seen.shown.holds_own && !works {
            (left.pressed_at, left.presses) = (now, left.presses + 1);
            let next = Delivering::Waiting { block, left: Some(*left) };
            return Decision { next, steps: vec![Step::SubmitAgain] };
        }
    }
    if !seen.has_next {
        return Decision::stay(Delivering::Waiting { block, left });
    }
    match verdict(seen, now) {
        Ok(form) => {
            let next = Delivering::Waiting { block: None, left };
            Decision { next, steps: vec![Step::Type(form)] }
        }
        Err(why) => {
            let before = block.filter(|block| block.why == why);
            let block = before.unwrap_or(Block { why, since: now });
            let next = Delivering::Waiting { block: Some(block), left };
            Decision { next, steps: vec![Step::Wait(block)] }
        }
    }
}

/// Submits the text if its Enter is due and the composer holds the text.
fn settling(seen: &Observation<'_>, missing_since: Moment, since: Moment, now: Moment) -> Decision {
    if now < enter_at(seen.recipe, since, seen.printed_at) {
        return Decision::stay(Delivering::Settling { missing_since, since });
    }
    if let Some(why) = seen.reader_obstacle() {
        let next = Delivering::Settling { missing_since: now, since: now.plus(RETRY_MS) };
        return Decision { next, steps: vec![Step::Delay(Some(why)), Step::PassKeys(true)] };
    }
    if seen.shown.holds_own {
        return submit(seen, 1);
    }
    // While the program asks something, Enter would answer that. Otherwise the text is gone, or the
    // program is late to show it and the person's keys would mix with it.
    let asks = seen.shown.asks;
    let missing_since = if asks { now } else { missing_since };
    let passes = asks || now.since(missing_since) >= seen.recipe.guard_ms_max;
    let is_empty = seen.shown.form.is_ok();
    let why = match () {
        () if asks => Some(Obstacle::Dialog),
        () if passes && !is_empty => Some(Obstacle::NotShown),
        () => None,
    };
    let mut steps = vec![Step::Delay(why), Step::PassKeys(passes)];
    if !asks && seen.is_at_rest(now) && is_empty {
        steps.extend(missing(seen, passes, missing_since, now));
    }
    Decision { next: Delivering::Settling { missing_since, since: now }, steps }
}

/// Checks whether the submitted text has left the composer. Presses Enter again if it stays.
fn leaving(seen: &Observation<'_>, delivering: Delivering, now: Moment) -> Decision {
    let Delivering::Leaving { since, presses, checked_at, seen_at, is_ignored } = delivering else {
        return Decision::stay(delivering);
    };
    if now < check_at(presses, checked_at, is_ignored) {
        return Decision::stay(delivering);
    }
    let is_in_composer = seen.shown.holds_own;
    let seen_at = if is_in_composer { now } else { seen_at };
    let next =
        |is_ignored| Delivering::Leaving { since, presses, checked_at: now, seen_at, is_ignored };
    let interference = seen.text.map_or(Interference::None, |text| text.interference);
    if !is_in_composer && has_left(seen, seen_at, now) {
        let steps = match interference {
            Interference::None => vec![Step::Complete],
            _ => missing(seen, false, seen_at, now).into_iter().collect(),
        };
        return Decision { next: next(is_ignored), steps };
    }
    if let Some(why) = seen.reader_obstacle() {
        let steps = vec![Step::Delay(Some(why)), Step::PassKeys(true)];
        return Decision { next: next(false), steps };
    }
    // If the program has printed nothing since the Enter, it may not have read it yet.
    let has_printed = seen.printed_at > Some(since);
    let patience_ms = if has_printed { PRESS_AGAIN_MS } else { PRESS_AGAIN_SILENT_MS };
    let stays = is_in_composer && now.since(since) >= patience_ms && seen.is_at_rest(now);
    // The person's keys may have changed the text; Enter would submit the changed text.
    let is_alone = interference == Interference::None;
    let mut decision = match stays && is_alone && presses < PRESSES_MAX {
        true => submit(seen, presses + 1),
        false => Decision::stay(next(stays)),
    };
    // The person's keys are passed on, since only the person may know what the program waits for.
    // After such a key, no Enter follows from here: `is_alone` is false.
    if seen.shown.asks || (stays && presses > 1) {
        decision.steps.push(Step::PassKeys(true));
    }
    if !decision.steps.contains(&Step::Submit) {
        let why = stays.then_some(Obstacle::NoEnterTaken);
        decision.steps.push(Step::Delay(seen.shown.asks.then_some(Obstacle::Dialog).or(why)));
    }
    decision
}

fn submit(seen: &Observation<'_>, presses: u32) -> Decision {
    let end = seen.handed_out + seen.recipe.submit.len() as u64;
    let steps = vec![Step::PassKeys(false), Step::Submit];
    Decision { next: Delivering::Submitting { end, presses }, steps }
}

/// Decides about a text not seen in the composer since `since`: the person may have submitted or
/// erased it. `passes` says that the person's keys now reach the program.
fn missing(seen: &Observation<'_>, passes: bool, since: Moment, now: Moment) -> Option<Step> {
    let text = seen.text?;
    let interference = match passes {
        true => text.interference.max(text.kept),
        false => text.interference,
    };
    let patience_ms = match interference {
        Interference::Enter if !seen.records_prompts => return Some(Step::Complete),
        // The person may have erased the text, or the program may be late to show it.
        Interference::Keys if !seen.records_prompts => 2 * seen.recipe.guard_ms_max,
        // The program may still show or record the text, perhaps after other work.
        _ => TEXT_SHOWN_MS,
    };
    let is_over = now.since(since) >= patience_ms && !seen.shows_work;
    is_over.then_some(Step::Return)
}

/// Whether a text that is not shown has left the composer: the composer is empty again, or has not
/// shown the text for a while. Before that, the program may be in the middle of painting it.
fn has_left(seen: &Observation<'_>, seen_at: Moment, now: Moment) -> bool {
    let missing_ms = now.since(seen_at);
    let is_painting = seen.printed_within(now, CHECK_MS)
        || (seen.is_synchronizing && seen.printed_within(now, UPDATE_MAX_MS));
    let is_empty = seen.shown.form.is_ok();
    let is_seen = is_empty || seen.is_at_rest(now) || missing_ms >= seen.recipe.guard_ms_max;
    (is_empty && !is_painting) || (missing_ms >= PRESS_AGAIN_MS && is_seen)
}

/// Returns when Enter is due: once the screen has not changed for the recipe's guard time, or at
/// the latest after the longest wait since `since`.
fn enter_at(recipe: &Recipe, since: Moment, printed_at: Option<Moment>) -> Moment {
    let changed_at = printed_at.map_or(since, |at| at.max(since));
    changed_at.plus(recipe.guard_ms).min(since.plus(recipe.guard_ms_max))
}

/// Returns the time of the next look at the composer.
fn check_at(presses: u32, checked_at: Moment, is_ignored: bool) -> Moment {
    let may_press = presses < PRESSES_MAX && !is_ignored;
    checked_at.plus(if may_press { CHECK_MS } else { RETRY_MS })
}

#[cfg(test)]
mod tests;
