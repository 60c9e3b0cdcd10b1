//! Tests of single assessments. The scripts in `source/tests.rs` test which messages are sent as a
//! result.

use super::*;

const FIRST: TranscriptId = TranscriptId(1);
const SECOND: TranscriptId = TranscriptId(2);

/// The time of the Enter, the records and the answer on the screen.
const NOW: Moment = Moment(100_000);

/// Returns an ownership after an Enter typed here, with a prompt and an answer in each candidate.
fn scene(candidates: &[(TranscriptId, &str, &str)]) -> Ownership {
    let mut ownership = Ownership::default();
    ownership.enter(NOW, String::new());
    for (id, prompt, reply) in candidates {
        ownership.admit(*id);
        ownership.record(NOW, *id, &Record::Prompt((*prompt).to_owned()));
        ownership.record(NOW, *id, &Record::Reply((*reply).to_owned()));
    }
    ownership
}

fn compare(ownership: &mut Ownership, screen: &str) {
    assert!(ownership.compare(NOW, || screen.to_owned()));
}

#[track_caller]
fn check(ownership: &Ownership, after_ms: u64, expected: Assessment) {
    let candidate = ownership.find(FIRST).expect("it was admitted");
    assert_eq!(ownership.judge(NOW.plus(after_ms), candidate), expected);
}

#[test]
fn prompt_long_after_the_last_enter_was_submitted_elsewhere() {
    for (after_ms, expected) in [
        (SUBMITTED_MS - 1, Assessment::NotOnScreen),
        (SUBMITTED_MS, Assessment::SubmittedElsewhere),
    ] {
        let mut ownership = scene(&[]);
        ownership.admit(FIRST);
        let prompt = Record::Prompt("who are you".to_owned());
        ownership.record(NOW.plus(after_ms), FIRST, &prompt);
        check(&ownership, after_ms, expected);
    }
}

#[test]
fn prompt_and_answer_must_both_be_on_the_screen() {
    for (screen, expected) in [
        ("whoareyou", Assessment::NotOnScreen),
        ("Itsme", Assessment::NotOnScreen),
        ("whoareyouItsme", Assessment::Own),
    ] {
        let mut ownership = scene(&[(FIRST, "who are you", "It's me")]);
        compare(&mut ownership, screen);
        ownership.searched(NOW.plus(1), true);
        check(&ownership, 1, expected);
    }
}

#[test]
fn verdict_waits_for_a_search_and_for_records_of_others() {
    let both = [(FIRST, "who are you", "It's me"), (SECOND, "go on", "I do so")];
    for (candidates, is_alone, late_ms) in [
        (&both[..1], true, 0),
        (&both[..], true, ANSWER_RECORDED_MS),
        (&both[..1], false, TRANSCRIPT_BEGUN_MS),
    ] {
        let mut ownership = scene(candidates);
        compare(&mut ownership, "whoareyouItsme");
        check(&ownership, late_ms, Assessment::TooEarly);
        ownership.searched(NOW, is_alone);
        check(&ownership, late_ms, Assessment::TooEarly);
        ownership.searched(NOW.plus(1), is_alone);
        if late_ms > 0 {
            check(&ownership, late_ms - 1, Assessment::TooEarly);
        }
        check(&ownership, late_ms, Assessment::Own);
    }
}

#[test]
fn candidate_with_the_same_prompt_is_a_rival_unless_its_answer_differs() {
    for (reply, expected) in [("It's me", Assessment::HasRival), ("Not you", Assessment::Own)] {
        let mut ownership =
            scene(&[(FIRST, "who are you", "It's me"), (SECOND, "who are you", reply)]);
        compare(&mut ownership, "whoareyouItsme");
        ownership.searched(NOW.plus(1), true);
        check(&ownership, ANSWER_RECORDED_MS, expected);
    }
}

#[test]
fn rival_stays_a_rival_after_its_turn_ends() {
    let same = |id| (id, "who are you", "It's me");
    let mut ownership = scene(&[same(FIRST), same(SECOND)]);
    compare(&mut ownership, "whoareyouItsme");
    ownership.searched(NOW.plus(1), true);
    assert!(ownership.end_turn(SECOND), "its prompt and answer were on the screen");
    check(&ownership, TRANSCRIPT_BEGUN_MS, Assessment::HasRival);
}

#[test]
fn evidence_does_not_count_once_the_system_names_a_transcript() {
    let mut ownership = scene(&[(FIRST, "who are you", "It's me")]);
    compare(&mut ownership, "whoareyouItsme");
    ownership.searched(NOW.plus(1), true);
    assert_eq!(ownership.proven(NOW.plus(1)), Some(FIRST));
    ownership.admit(SECOND);
    ownership.is_named_by_system = true;
    assert!(ownership.own(SECOND));
    assert_eq!(ownership.proven(NOW.plus(1)), None);
}
