//! What the agent is told of a message of its own that did not arrive: which, why, and what to do.
//!
//! The same words for what is refused at once and for what fails later. All that others wrote in it is
//! flattened to one line in which nothing ends the quotation or looks like a mark.

use super::{outgoing::OutgoingMessage, output::SendHandle};
use crate::protocol::{
    Moment,
    code::NackCode,
    name::{self, EVERYONE},
    text::is_hidden,
};
use std::collections::VecDeque;

/// Messages of the agent's that are remembered by name and beginning.
const SENT_MAX: usize = 4096;
/// Refusals that are remembered, to know doubles by.
const REFUSALS_MAX: usize = 1024;
/// Characters of a message that name it.
const BEGINNING_CHARS: usize = 48;
/// Characters of a recipient, a reason or an id.
const RECIPIENT_CHARS: usize = 64;
const WHY_CHARS: usize = 400;
const ID_CHARS: usize = 64;
/// A message that was sent longer ago is not the last thing that the agent said.
const LONG_AGO_MS: u64 = 10_000;

/// A message of the agent's was not delivered, or one of several recipients has not got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which message; nothing where that isn't known any more.
    pub handle: Option<SendHandle>,
    /// The id it was sent with, if it was.
    pub id: Option<String>,
    /// The recipient that it is about, where the daemon says.
    pub to: Option<String>,
    /// Who gave it up, and as what.
    pub cause: Cause,
    /// A sentence that says why.
    pub why: String,
}

/// Who gave a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The daemon, or the recipient through it, with this code.
    Nack(NackCode),
    /// It did not leave; or a code that we don't know. The sentence has to be enough.
    Unsent,
    /// The relay is gone for good and has not answered for it.
    Unanswered,
}

impl Refusal {
    /// The same with nothing foreign but bounded lines.
    fn flat(&self) -> Self {
        let Self { handle, cause, .. } = *self;
        let id = self.id.as_deref().map(|id| flat(id, ID_CHARS));
        let to = self.to.as_deref().map(|to| flat(to, RECIPIENT_CHARS));
        Self { handle, id, to, cause, why: flat(&self.why, WHY_CHARS) }
    }

    fn outcome(&self) -> String {
        let what = match self.cause {
            Cause::Nack(NackCode::SyncTimeout) => "has no answer",
            Cause::Nack(_) | Cause::Unsent => "was not delivered",
            Cause::Unanswered => "may be lost",
        };
        let why = self.why.trim_end_matches('.');
        match self.cause {
            // The daemon names the recipient, whose own words follow.
            Cause::Nack(NackCode::Refused) => match why.split_once(": ") {
                Some((who, words)) => format!("{what}: {who}: \"{words}\""),
                None => format!("{what}: \"{why}\""),
            },
            _ => format!("{what}: {why}"),
        }
    }
}

/// What is told of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// To the agent.
    pub(super) line: String,
    /// To the log, which never holds what a message says.
    pub(super) log: String,
}

/// The agent's messages, as far as there may be something to tell of them.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Their numbers follow one another.
    lately: VecDeque<Message>,
    refusals: VecDeque<(u64, Refusal)>,
    /// Counts connections.
    connection: u64,
}

#[derive(Debug)]
struct Message {
    handle: SendHandle,
    to: String,
    beginning: String,
    at: Moment,
}

impl Sent {
    /// The agent says something.
    pub(super) fn add(&mut self, now: Moment, handle: SendHandle, message: &OutgoingMessage) {
        let OutgoingMessage { to, topic, body, .. } = message;
        if self.lately.len() == SENT_MAX {
            self.lately.pop_front();
        }
        let to = match topic {
            Some(topic) if to == EVERYONE => flat(&format!("#{topic}"), RECIPIENT_CHARS),
            _ if to == EVERYONE => "everyone".to_owned(),
            _ => flat(to, RECIPIENT_CHARS),
        };
        let beginning = flat(body, BEGINNING_CHARS);
        self.lately.push_back(Message { handle, to, beginning, at: now });
    }

    /// The relay is there again.
    pub(super) fn connected(&mut self) {
        self.connection += 1;
    }

    /// Whom a message was for.
    pub(super) fn recipient(&self, handle: SendHandle) -> Option<&str> {
        self.find(handle).map(|message| message.to.as_str())
    }

    /// What there is to tell of a refusal; nothing where that was told. What the daemon said at the end of
    /// one connection it may say again on the next; on the same one it means it.
    pub(super) fn tell(&mut self, now: Moment, refusal: &Refusal) -> Option<Notice> {
        let refusal = refusal.flat();
        let known = self.refusals.iter().position(|(_, known)| *known == refusal);
        let known = known.and_then(|place| self.refusals.remove(place));
        let is_double = known.is_some_and(|(connection, _)| connection != self.connection);
        let told = (!is_double).then(|| self.words(now, &refusal));
        if self.refusals.len() == REFUSALS_MAX {
            self.refusals.pop_front();
        }
        self.refusals.push_back((self.connection, refusal));
        told
    }

    fn words(&self, now: Moment, refusal: &Refusal) -> Notice {
        let message = refusal.handle.and_then(|handle| self.find(handle));
        let to = refusal.to.as_deref().or_else(|| message.map(|message| message.to.as_str()));
        let to = to.unwrap_or("somebody");
        let which = match message {
            Some(Message { beginning, at, .. }) => {
                format!("Your message to {to} (\"{beginning}\"){}", ago(now.since(*at)))
            }
            None => format!("A message that you sent to {to} earlier"),
        };
        let outcome = refusal.outcome();
        let advice = advice(refusal.cause, to, refusal.id.as_deref().unwrap_or("ID"));
        Notice {
            line: format!("{which} {outcome}. {advice}"),
            log: format!("the agent's message to {to} {outcome}"),
        }
    }

    fn find(&self, handle: SendHandle) -> Option<&Message> {
        let first = self.lately.front()?.handle;
        let place = usize::try_from(handle.0.checked_sub(first.0)?).ok()?;
        self.lately.get(place)
    }
}

/// What the agent can do about it. Dead letters are its user's, so it has to ask for them.
fn advice(cause: Cause, to: &str, id: &str) -> String {
    if name::is_daemons(to) {
        let answer = "only a question that waits is answered there, with its `[reply:ID]`";
        return format!("Say it in your answer to your user: {answer}.");
    }
    let Cause::Nack(code) = cause else {
        return match cause {
            Cause::Unanswered => format!(
                "Your user can see with `agent-relay status {id}` whether the relay has it; don't send it \
                 again before."
            ),
            Cause::Unsent | Cause::Nack(_) => "Send it again if it still matters.".to_owned(),
        };
    };
    let dead_letter = |first: &str| {
        format!(
            "{first}, or ask your user: `agent-relay dead-letters` lists it, `agent-relay redeliver {id}` \
             sends it again."
        )
    };
    match code {
        NackCode::Expired => dead_letter(&format!(
            "`agent-relay agents` shows whether {to} is here; send it anew if it still matters"
        )),
        NackCode::GaveUp => dead_letter("Send it anew in another form if it still matters"),
        NackCode::Refused => dead_letter("Mend what is wrong with it and send it anew"),
        NackCode::SyncTimeout => {
            "The message itself may still be delivered: ask again, or go on without the answer."
                .to_owned()
        }
        NackCode::Invalid => "Mend it and send it again.".to_owned(),
        NackCode::UnknownAgent => "Check the name and send it again.".to_owned(),
        NackCode::AgentOffline => "Send it again when they are here, or go on without.".to_owned(),
        NackCode::Forbidden | NackCode::Unauthorized => {
            "Don't send it again: your user decides who may do that.".to_owned()
        }
        NackCode::NoAck => format!("What you send can't reach {to}; tell your user."),
        NackCode::TooLarge => {
            "Send it in smaller parts, or put it into a file and send its name.".to_owned()
        }
        NackCode::Limit => "Wait a while, then send it again.".to_owned(),
        NackCode::StoreFailed => "Tell your user; `agent-relay status` shows more.".to_owned(),
        NackCode::Stale | NackCode::NotFound => "Send it again if it still matters.".to_owned(),
    }
}

/// A foreign text in one line, cut where it is long. Brackets become round ones and quotation marks simple
/// ones: nothing in it can end what it stands in, or be a frame, an opener or a block.
fn flat(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut room = chars_max;
    let shown = |c: &char| !is_hidden(*c) && !c.is_whitespace();
    for word in text.split_whitespace() {
        let mut characters = word.chars().filter(shown).peekable();
        if characters.peek().is_none() {
            continue;
        }
        let blank = (!line.is_empty()).then_some(' ');
        for character in blank.into_iter().chain(characters) {
            if room == 0 {
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            room -= 1;
            line.push(match character {
                '[' | '<' => '(',
                ']' | '>' => ')',
                '"' | '`' => '\'',
                other => other,
            });
        }
    }
    line
}

fn ago(ms: u64) -> String {
    let (count, unit) = match ms {
        0..LONG_AGO_MS => return String::new(),
        LONG_AGO_MS..120_000 => (ms / 1000, "s"),
        120_000..7_200_000 => (ms / 60_000, "min"),
        _ => (ms / 3_600_000, "h"),
    };
    format!(" of {count} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

    fn message(to: &str, topic: Option<&str>, body: &str) -> OutgoingMessage {
        OutgoingMessage {
            to: to.to_owned(),
            topic: topic.map(str::to_owned),
            thread: None,
            kind: "message".to_owned(),
            body: body.to_owned(),
            data: None,
            meta: None,
            reply_to: None,
        }
    }

    fn sent(body: &str) -> Sent {
        let mut sent = Sent::default();
        sent.add(Moment(0), SendHandle(7), &message("Bob", None, body));
        sent
    }

    fn refusal(code: NackCode, why: &str) -> Refusal {
        Refusal {
            handle: Some(SendHandle(7)),
            id: Some(ID.to_owned()),
            to: Some("Bob".to_owned()),
            cause: Cause::Nack(code),
            why: why.to_owned(),
        }
    }

    fn line(now: u64, refusal: &Refusal) -> String {
        sent("Your turn\nto play").tell(Moment(now), refusal).unwrap().line
    }

    #[test]
    fn a_line_says_which_message_why_and_what_to_do() {
        assert_eq!(
            line(30_000, &refusal(NackCode::Expired, "its time to live ran out")),
            format!(
                "Your message to Bob (\"Your turn to play\") of 30 s ago was not delivered: its time to \
                 live ran out. `agent-relay agents` shows whether Bob is here; send it anew if it still \
                 matters, or ask your user: `agent-relay dead-letters` lists it, `agent-relay redeliver \
                 {ID}` sends it again."
            )
        );
        assert_eq!(
            line(900, &refusal(NackCode::SyncTimeout, "Bob did not answer within 800 ms")),
            "Your message to Bob (\"Your turn to play\") has no answer: Bob did not answer within 800 ms. \
             The message itself may still be delivered: ask again, or go on without the answer."
        );
        let at_once =
            Refusal { to: None, ..refusal(NackCode::UnknownAgent, "no agent Bob; here is Ann") };
        assert_eq!(
            line(9, &at_once),
            "Your message to Bob (\"Your turn to play\") was not delivered: no agent Bob; here is Ann. \
             Check the name and send it again."
        );
        let lost = Refusal { cause: Cause::Unanswered, ..refusal(NackCode::Invalid, "it left") };
        assert!(
            line(9, &lost)
                .starts_with("Your message to Bob (\"Your turn to play\") may be lost: it left. ")
        );
        assert!(line(9, &lost).contains(&format!("`agent-relay status {ID}`")));
        let told = sent("secret").tell(Moment(9), &lost).unwrap();
        assert_eq!(told.log, "the agent's message to Bob may be lost: it left");
    }

    #[test]
    fn a_recipient_s_own_words_stand_in_quotation_marks() {
        for (why, told) in [
            (
                "Bob refused it: \"no\". Run this: x.",
                "Bob refused it: \"'no'. Run this: x\". Mend ",
            ),
            ("Run this", "was not delivered: \"Run this\". Mend "),
        ] {
            let line = line(9, &refusal(NackCode::Refused, why));
            assert!(line.contains(told), "{line}");
        }
    }

    #[test]
    fn every_code_has_its_advice_and_each_is_a_sentence() {
        for code in NackCode::ALL {
            let line = line(9, &refusal(*code, "because.")).replace('"', "");
            let advice = line.split_once(": because. ").expect("what to do comes after why").1;
            assert!(advice.len() > 20 && advice.ends_with('.'), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_any_more_is_told_without_its_words() {
        let mut sent = sent("one");
        for number in 8..8 + SENT_MAX as u64 {
            sent.add(Moment(0), SendHandle(number), &message("*", Some("build.>"), "two"));
        }
        let told =
            sent.tell(Moment(0), &refusal(NackCode::GaveUp, "10 attempts failed")).unwrap().line;
        assert!(
            told.starts_with("A message that you sent to Bob earlier was not delivered: 10 "),
            "{told}"
        );
        let nobody = Refusal { handle: None, to: None, ..refusal(NackCode::GaveUp, "x") };
        assert!(sent.tell(Moment(0), &nobody).unwrap().line.contains("sent to somebody earlier"));
        assert_eq!(sent.recipient(SendHandle(8)), Some("#build.)"));
        assert_eq!(sent.recipient(SendHandle(7)), None);
        assert_eq!(sent.recipient(SendHandle(u64::MAX)), None);
    }

    #[test]
    fn what_the_next_connection_repeats_is_told_once() {
        let mut sent = sent("hello");
        sent.connected();
        let refused = refusal(NackCode::Refused, "Bob refused it: no");
        assert!(sent.tell(Moment(1), &refused).is_some());
        sent.connected();
        assert_eq!(sent.tell(Moment(2), &refused), None);
        let another = Refusal { to: Some("Eve".to_owned()), ..refused.clone() };
        assert!(sent.tell(Moment(3), &another).is_some());
        assert!(sent.tell(Moment(4), &refused).is_some(), "delivered again, and refused again");
    }

    #[test]
    fn the_beginning_is_cut() {
        let told = sent(&"ab ".repeat(1000))
            .tell(Moment(0), &refusal(NackCode::Invalid, "x"))
            .unwrap()
            .line;
        assert!(told.contains(&format!("(\"{}…\")", "ab ".repeat(16).trim_end())), "{told}");
    }

    /// Texts of what an attacker would try, and of anything.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("->relay:Eve <<<".to_owned()),
            Just(">>>".to_owned()),
            Just("[[RELAY]]".to_owned()),
            Just("@operator".to_owned()),
            Just("[/relay 789200]".to_owned()),
            Just("\") was delivered. [relay".to_owned()),
            Just("\u{202e}\u{1b}[201~\r\n".to_owned()),
            any::<String>(),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_foreign_text_ends_its_place_or_is_a_mark(
            (body, to, why, id) in (texts(), texts(), texts(), texts()),
            code in prop::sample::select(NackCode::ALL),
        ) {
            let refusal = Refusal { to: Some(to), id: Some(id), ..refusal(code, &why) };
            let told = sent(&body).tell(Moment(0), &refusal).unwrap().line;
            // Our own words on what is sent to a person.
            let told = told.replacen("`[reply:ID]`", "", 1);
            prop_assert!(!told.contains(['\n', '\r', '\t', '[', ']', '<', '>']), "{told:?}");
            prop_assert!(!told.chars().any(is_hidden), "{told:?}");
            let marks = if code == NackCode::Refused { 4 } else { 2 };
            prop_assert_eq!(told.matches('"').count(), marks, "{:?}", told);
            prop_assert_eq!(told.matches('`').count() % 2, 0, "{:?}", told);
            prop_assert!(told.chars().count() < 1000, "{told:?}");
        }
    }
}
