//! The table of decisions: the facts in each stage, and the steps that follow.

use super::{super::observation::Source, *};
use crate::recipe::{Book, Shown};

/// The time of the decisions, long after all earlier events.
const NOW: Moment = Moment(100_000);

const TEXT: TextFacts = TextFacts {
    is_reader_here: true,
    is_unconfirmed: true,
    interference: Interference::None,
    kept: Interference::None,
};

fn recipe(command: &str) -> Recipe {
    Book::default().choose(&[command.to_owned()], "linux", None)
}

fn shows(form: Result<Form, Obstacle>) -> Shown {
    Shown { form, holds_own: false, asks: false, is_multirow: false, busy: None }
}

/// An idle agent at rest with an empty composer, and a waiting message.
fn ready(recipe: &Recipe) -> Observation<'_> {
    Observation {
        recipe,
        reader: &Reader::Accepted,
        shown: shows(Ok(Form::Plain)),
        is_synchronizing: false,
        work: None,
        shows_work: false,
        is_recorded_at_work: false,
        is_in_message: false,
        is_adopting: false,
        records_prompts: false,
        is_silent: false,
        is_started: true,
        printed_at: Some(Moment(1)),
        rests_at: Some(Moment(2)),
        key_at: None,
        is_line_empty: true,
        has_draft: false,
        may_be_in_command_mode: false,
        is_held: false,
        handed_out: 70,
        has_unwritten: false,
        has_next: true,
        text: Some(TEXT),
    }
}

/// Changes one fact.
type Change<'a> = &'a dyn Fn(&mut Observation<'_>);

const WAITING: Delivering = Delivering::Waiting { block: None, left: None };

fn settling(since: u64) -> Delivering {
    Delivering::Settling { missing_since: Moment(since), since: Moment(since) }
}

fn leaving(since: u64, presses: u32) -> Delivering {
    let (checked_at, seen_at) = (Moment(since), Moment(since));
    Delivering::Leaving { since: Moment(since), presses, checked_at, seen_at, is_ignored: false }
}

fn steps(seen: &Observation<'_>, delivering: Delivering) -> Vec<Step> {
    decide(seen, delivering, NOW).steps
}

#[test]
fn each_fact_alone_is_an_obstacle() {
    let recipe = recipe("gemini");
    assert_eq!(verdict(&ready(&recipe), NOW), Ok(Form::Plain));
    let table: [(Change<'_>, Obstacle); 17] = [
        (&|seen| seen.is_held = true, Obstacle::Held),
        (&|seen| seen.is_silent = true, Obstacle::Starting),
        (&|seen| seen.reader = &Reader::Barred(Obstacle::Nested, None), Obstacle::Nested),
        (&|seen| seen.rests_at = Some(Moment(100_001)), Obstacle::Printing),
        (
            &|seen| (seen.rests_at, seen.work) = (Some(Moment(100_001)), Some(Source::Screen)),
            Obstacle::Busy,
        ),
        (&|seen| seen.is_in_message = true, Obstacle::Busy),
        (&|seen| seen.key_at = Some(Moment(99_001)), Obstacle::Typing),
        (&|seen| seen.has_unwritten = true, Obstacle::NotReading),
        (
            &|seen| (seen.is_synchronizing, seen.printed_at) = (true, Some(Moment(99_999))),
            Obstacle::Printing,
        ),
        (&|seen| seen.is_started = false, Obstacle::Starting),
        (
            &|seen| {
                seen.is_started = false;
                seen.shown = shows(Err(Obstacle::Dialog));
            },
            Obstacle::Dialog,
        ),
        (&|seen| seen.shown = shows(Err(Obstacle::Dialog)), Obstacle::Dialog),
        (&|seen| seen.work = Some(Source::Hooks), Obstacle::Busy),
        (&|seen| seen.work = Some(Source::Transcript), Obstacle::Busy),
        (&|seen| seen.is_adopting = true, Obstacle::Busy),
        (&|seen| seen.is_line_empty = false, Obstacle::HalfTyped),
        (
            &|seen| {
                seen.shown = shows(Ok(Form::HereDocument));
                seen.may_be_in_command_mode = true;
            },
            Obstacle::HalfTyped,
        ),
    ];
    for (change, why) in table {
        let mut seen = ready(&recipe);
        change(&mut seen);
        assert_eq!(verdict(&seen, NOW), Err(why), "{seen:?}");
        let block = Block { why, since: NOW };
        let next = Delivering::Waiting { block: Some(block), left: None };
        assert_eq!(decide(&seen, WAITING, NOW), Decision { next, steps: vec![Step::Wait(block)] });
    }
}

#[test]
fn harmless_facts_are_no_obstacle() {
    let recipe = recipe("gemini");
    let table: [Change<'_>; 5] = [
        // Only a shell's line editor has a command mode.
        &|seen| seen.may_be_in_command_mode = true,
        &|seen| seen.key_at = Some(Moment(99_000)),
        &|seen| seen.rests_at = Some(NOW),
        &|seen| seen.is_synchronizing = true,
        // This sign of work does not count.
        &|seen| seen.shown.busy = Some("(esc to cancel, 1s)".to_owned()),
    ];
    for change in table {
        let mut seen = ready(&recipe);
        change(&mut seen);
        let typed = Decision { next: WAITING, steps: vec![Step::Type(Form::Plain)] };
        assert_eq!(decide(&seen, WAITING, NOW), typed, "{seen:?}");
    }
    let nothing_waits = Observation { has_next: false, ..ready(&recipe) };
    assert_eq!(decide(&nothing_waits, WAITING, NOW), Decision::stay(WAITING));
    let mut works = recipe;
    works.while_busy = true;
    let seen = Observation { work: Some(Source::Hooks), ..ready(&works) };
    assert_eq!(verdict(&seen, NOW), Ok(Form::Plain));
}

#[test]
fn obstacle_keeps_its_start_time() {
    let recipe = recipe("gemini");
    let held = Observation { is_held: true, ..ready(&recipe) };
    for (why, since) in [(Obstacle::Held, 5), (Obstacle::Busy, 100_000)] {
        let before = Some(Block { why, since: Moment(5) });
        let delivering = Delivering::Waiting { block: before, left: None };
        let block = Block { why: Obstacle::Held, since: Moment(since) };
        assert_eq!(steps(&held, delivering), [Step::Wait(block)]);
    }
}

/// The screen shows the text in the composer.
fn holds(recipe: &Recipe) -> Observation<'_> {
    let shown = Shown { holds_own: true, ..shows(Err(Obstacle::HalfTyped)) };
    Observation { shown, ..ready(recipe) }
}

#[test]
fn enter_follows_once_the_composer_holds_the_text() {
    let recipe = recipe("gemini");
    let submitted = Decision {
        next: Delivering::Submitting { end: 71, presses: 1 },
        steps: vec![Step::PassKeys(false), Step::Submit],
    };
    // 150 ms after the last change of the screen, or 2 s after the text.
    for (printed, typed, is_due) in
        [(1, 99_850, true), (1, 99_851, false), (99_851, 98_001, false), (99_990, 98_000, true)]
    {
        let seen = Observation { printed_at: Some(Moment(printed)), ..holds(&recipe) };
        let expected = if is_due { submitted.clone() } else { Decision::stay(settling(typed)) };
        assert_eq!(decide(&seen, settling(typed), NOW), expected, "{printed} {typed}");
    }
    let other = TextFacts { is_reader_here: false, ..TEXT };
    let barred = Reader::Barred(Obstacle::Shell, None);
    for (reader, why) in [(&Reader::Accepted, Obstacle::OtherProgram), (&barred, Obstacle::Shell)] {
        let seen = Observation { text: Some(other), reader, ..holds(&recipe) };
        let decision = decide(&seen, settling(1), NOW);
        assert_eq!(decision.steps, [Step::Delay(Some(why)), Step::PassKeys(true)]);
        let since = NOW.plus(RETRY_MS);
        assert_eq!(decision.next, Delivering::Settling { missing_since: NOW, since });
    }
}

#[test]
fn text_that_is_not_shown_waits_and_is_given_up() {
    let recipe = recipe("gemini");
    let (kept, enter) = (Interference::Keys, Interference::Enter);
    let with = |interference, kept, records_prompts| Observation {
        text: Some(TextFacts { interference, kept, ..TEXT }),
        records_prompts,
        ..ready(&recipe)
    };
    let none = Interference::None;
    let delay = Step::Delay(None);
    let (keep, pass) = (Step::PassKeys(false), Step::PassKeys(true));
    // The time since the text, the facts, and the steps.
    let table: [(u64, Observation<'_>, &[Step]); 12] = [
        (1999, with(none, none, false), &[delay, keep]),
        (2000, with(none, none, false), &[delay, pass]),
        (19_999, with(none, none, false), &[delay, pass]),
        (20_000, with(none, none, false), &[delay, pass, Step::Return]),
        (3999, with(kept, none, false), &[delay, pass]),
        (4000, with(kept, none, false), &[delay, pass, Step::Return]),
        (4000, with(kept, none, true), &[delay, pass]),
        (1000, with(none, enter, false), &[delay, keep]),
        (2000, with(none, enter, false), &[delay, pass, Step::Complete]),
        (1000, with(enter, none, false), &[delay, keep, Step::Complete]),
        (2000, with(enter, none, true), &[delay, pass]),
        (20_000, with(enter, none, true), &[delay, pass, Step::Return]),
    ];
    for (ms, seen, expected) in table {
        let decision = decide(&seen, settling(100_000 - ms), NOW);
        assert_eq!(decision.steps, expected, "{ms} {:?}", seen.text);
        let missing_since = Moment(100_000 - ms);
        assert_eq!(decision.next, Delivering::Settling { missing_since, since: NOW });
    }
    let not_shown = [Step::Delay(Some(Obstacle::NotShown)), pass];
    let draft = Observation { shown: shows(Err(Obstacle::HalfTyped)), ..ready(&recipe) };
    assert_eq!(steps(&draft, settling(98_000)), not_shown);
    assert_eq!(steps(&draft, settling(98_001)), [delay, keep]);
    let gone = [delay, pass];
    for change in [(&|seen: &mut Observation<'_>| seen.shows_work = true) as Change<'_>, &|seen| {
        seen.rests_at = Some(NOW.plus(1))
    }] {
        let mut seen = ready(&recipe);
        change(&mut seen);
        assert_eq!(steps(&seen, settling(1)), gone, "{seen:?}");
    }
}

#[test]
fn question_gets_the_persons_keys_and_no_enter() {
    let recipe = recipe("gemini");
    let shown = Shown { asks: true, ..shows(Err(Obstacle::Dialog)) };
    let seen = Observation { shown, ..ready(&recipe) };
    let decision = decide(&seen, settling(1), NOW);
    let asks = [Step::Delay(Some(Obstacle::Dialog)), Step::PassKeys(true)];
    assert_eq!(decision.steps, asks);
    // The wait for the text starts again after the question.
    assert_eq!(decision.next, Delivering::Settling { missing_since: NOW, since: NOW });
    assert_eq!(steps(&seen, leaving(99_900, 1)), [Step::PassKeys(true), asks[0]]);
}

#[test]
fn text_has_left_once_the_composer_is_empty() {
    let recipe = recipe("gemini");
    let looks = |form, printed, rests| Observation {
        shown: shows(form),
        printed_at: Some(Moment(printed)),
        rests_at: Some(Moment(rests)),
        ..ready(&recipe)
    };
    let gone = Err(Obstacle::NoPrompt);
    let plain = Ok(Form::Plain);
    // When the composer last showed the text, and whether the text has left.
    let table = [
        (99_970, looks(plain, 99_970, 100_070), true),
        (99_971, looks(plain, 1, 2), false),
        (99_900, looks(plain, 99_971, 100_071), false),
        (99_300, looks(gone, 1, NOW.0), true),
        (99_301, looks(gone, 1, NOW.0), false),
        (98_001, looks(gone, 99_990, 100_090), false),
        (98_000, looks(gone, 99_990, 100_090), true),
    ];
    for (seen_at, seen, has_left) in table {
        let expected = if has_left { vec![Step::Complete] } else { vec![Step::Delay(None)] };
        let expected = if seen_at == 99_971 { Vec::new() } else { expected };
        assert_eq!(steps(&seen, leaving(seen_at, 1)), expected, "{seen_at} {seen:?}");
    }
    let synchronizing = Observation { is_synchronizing: true, ..looks(plain, 99_969, 100_069) };
    assert_eq!(steps(&synchronizing, leaving(99_900, 1)), [Step::Delay(None)]);
    // The person's keys may have changed the text.
    let touched = TextFacts { interference: Interference::Keys, ..TEXT };
    let seen = Observation { text: Some(touched), ..ready(&recipe) };
    assert_eq!(steps(&seen, leaving(99_000, 1)), []);
    assert_eq!(steps(&seen, leaving(96_000, 1)), [Step::Return]);
    // The person has submitted it after a while. Its record may still come.
    let touched = TextFacts { interference: Interference::Enter, ..TEXT };
    let seen = Observation { text: Some(touched), records_prompts: true, ..ready(&recipe) };
    let Delivering::Leaving { checked_at, is_ignored, .. } = leaving(1, 4) else { unreachable!() };
    for (seen_at, expected) in [(80_000, &[Step::Return] as &[Step]), (80_001, &[])] {
        let (since, seen_at) = (Moment(1), Moment(seen_at));
        let stayed = Delivering::Leaving { since, presses: 4, checked_at, seen_at, is_ignored };
        assert_eq!(steps(&seen, stayed), expected, "{seen_at:?}");
    }
}

#[test]
fn enter_is_pressed_again_for_a_text_that_stays() {
    let recipe = recipe("gemini");
    let stays = |printed| Observation { printed_at: Some(Moment(printed)), ..holds(&recipe) };
    let again = [Step::PassKeys(false), Step::Submit];
    let mut later = again.to_vec();
    later.push(Step::PassKeys(true));
    let ignored = [Step::PassKeys(true), Step::Delay(Some(Obstacle::NoEnterTaken))];
    let table: [(Delivering, u64, &[Step]); 7] = [
        // The program has printed since the Enter, or has not.
        (leaving(99_300, 1), 99_301, &again),
        (leaving(99_301, 1), 99_302, &[Step::Delay(None)]),
        (leaving(97_001, 1), 97_001, &[Step::Delay(None)]),
        (leaving(97_000, 1), 97_000, &again),
        (leaving(90_000, 2), 1, &later),
        (leaving(90_000, 3), 1, &later),
        (leaving(90_000, 4), 1, &ignored),
    ];
    for (delivering, printed, expected) in table {
        assert_eq!(steps(&stays(printed), delivering), expected, "{delivering:?} {printed}");
    }
    let decision = decide(&stays(1), leaving(90_000, 2), NOW);
    assert_eq!(decision.next, Delivering::Submitting { end: 71, presses: 3 });
    let Delivering::Leaving { is_ignored, seen_at, .. } =
        decide(&stays(1), leaving(90_000, 4), NOW).next
    else {
        panic!("it leaves");
    };
    assert!(is_ignored && seen_at == NOW);
    // Not while the screen changes, nor with the person's keys in the composer.
    let changing = Observation { rests_at: Some(NOW.plus(1)), ..stays(1) };
    assert_eq!(steps(&changing, leaving(90_000, 1)), [Step::Delay(None)]);
    let touched = TextFacts { interference: Interference::Keys, ..TEXT };
    let touched = Observation { text: Some(touched), ..stays(1) };
    let told = Step::Delay(Some(Obstacle::NoEnterTaken));
    assert_eq!(steps(&touched, leaving(90_000, 1)), [told]);
    let other = TextFacts { is_reader_here: false, ..TEXT };
    let other = Observation { text: Some(other), ..stays(1) };
    let told = Step::Delay(Some(Obstacle::OtherProgram));
    assert_eq!(steps(&other, leaving(90_000, 1)), [told, Step::PassKeys(true)]);
}

#[test]
fn composer_is_looked_at_less_often_once_the_enter_is_ignored() {
    for (presses, is_ignored, ms) in
        [(1, false, 30), (3, false, 30), (4, false, 1000), (1, true, 1000)]
    {
        let (since, checked_at, seen_at) = (Moment(1), Moment(500), Moment(1));
        let delivering = Delivering::Leaving { since, presses, checked_at, seen_at, is_ignored };
        assert_eq!(deadline(&recipe("gemini"), &delivering, None), Some(checked_at.plus(ms)));
    }
    let recipe = recipe("gemini");
    assert_eq!(deadline(&recipe, &WAITING, None), None);
    assert_eq!(deadline(&recipe, &settling(10), None), Some(Moment(160)));
    assert!(may_press(&recipe, &settling(10), None, Moment(160)));
    assert!(!may_press(&recipe, &settling(10), None, Moment(159)));
    assert!(may_press(&recipe, &leaving(10, 1), None, Moment(710)));
    assert!(!may_press(&recipe, &leaving(10, 1), None, Moment(709)));
    assert!(!may_press(&recipe, &WAITING, None, NOW));
}

#[test]
fn text_that_seemed_to_leave_is_submitted_again() {
    let recipe = recipe("gemini");
    let left = |pressed, presses| {
        let (pressed_at, checked_at) = (Moment(pressed), Moment(pressed));
        Delivering::Waiting { block: None, left: Some(Left { pressed_at, presses, checked_at }) }
    };
    let shown = |printed| Observation {
        printed_at: Some(Moment(printed)),
        has_next: false,
        ..holds(&recipe)
    };
    // The screen is unchanged for a second, or for three seconds after an Enter without effect.
    let table: [(u64, u32, u64, bool); 6] = [
        (90_000, 1, 99_000, true),
        (90_000, 1, 99_001, false),
        (97_000, 1, 97_000, true),
        (97_001, 1, 97_001, false),
        (90_000, 3, 99_000, true),
        (90_000, 4, 99_000, false),
    ];
    for (pressed, presses, printed, is_pressed) in table {
        let expected: &[Step] = if is_pressed { &[Step::SubmitAgain] } else { &[] };
        let decision = decide(&shown(printed), left(pressed, presses), NOW);
        assert_eq!(decision.steps, expected, "{pressed} {presses} {printed}");
        if is_pressed {
            assert_eq!(decision.next, left(NOW.0, presses + 1));
        }
    }
    for change in [
        (&|seen: &mut Observation<'_>| seen.shown.holds_own = false) as Change<'_>,
        &|seen| seen.shows_work = true,
        &|seen| seen.is_recorded_at_work = true,
        &|seen| seen.text = Some(TextFacts { is_reader_here: false, ..TEXT }),
        &|seen| seen.text = Some(TextFacts { is_unconfirmed: false, ..TEXT }),
        &|seen| seen.text = None,
    ] {
        let mut seen = shown(99_000);
        change(&mut seen);
        assert_eq!(steps(&seen, left(90_000, 1)), [], "{seen:?}");
    }
    // One look is enough until the screen changes.
    let mut seen = shown(99_000);
    seen.shown.holds_own = false;
    let looked = decide(&seen, left(90_000, 1), NOW).next;
    assert_eq!(steps(&shown(99_000), looked), []);
    assert_eq!(steps(&Observation { printed_at: None, ..shown(1) }, left(90_000, 1)), []);
}

#[test]
fn accepted_text_enters_the_next_stage() {
    let (gemini, generic) = (recipe("gemini"), recipe("agent"));
    let typing = Delivering::Typing { end: 70 };
    let submitting = Delivering::Submitting { end: 71, presses: 2 };
    assert_eq!(written(&gemini, typing, 69, NOW), Decision::stay(typing));
    assert_eq!(written(&gemini, typing, 70, NOW), Decision::stay(settling(NOW.0)));
    assert_eq!(written(&gemini, submitting, 70, NOW), Decision::stay(submitting));
    assert_eq!(written(&gemini, submitting, 71, NOW), Decision::stay(leaving(NOW.0, 2)));
    assert_eq!(written(&generic, submitting, 71, NOW).steps, [Step::Complete]);
    assert_eq!(written(&generic, submitting, 70, NOW), Decision::stay(submitting));
    assert_eq!(written(&gemini, WAITING, 99, NOW), Decision::stay(WAITING));
    let seen = ready(&gemini);
    assert_eq!(decide(&seen, typing, NOW), Decision::stay(typing));
    assert_eq!(decide(&seen, submitting, NOW), Decision::stay(submitting));
}
