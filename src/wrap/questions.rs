//! Questions of other agents that wait for the agent's answer.

use client::{Delivery, Reply};
use protocol::{Moment, payload::Sync};
use serde_json::{json, value::to_raw_value};
use std::collections::VecDeque;
use terminal::OutgoingMessage;

/// The most open questions. Beyond that, the oldest is forgotten, and a reply to it is sent as an
/// ordinary message.
const QUESTIONS_MAX: usize = 1024;

/// Open questions, oldest first.
#[derive(Default)]
pub(super) struct Questions(VecDeque<Question>);

struct Question {
    delivery_id: String,
    seq: u64,
    from: String,
    asks: Sync,
    until: Moment,
}

impl Questions {
    /// Remembers a delivery with a question. The timeout began when the question was sent, so
    /// `until` is an upper bound.
    pub(super) fn note(&mut self, now: Moment, delivery: &Delivery) {
        let Some(asks) = delivery.sync.as_deref().cloned() else { return };
        let until = now.plus(asks.timeout_ms.unwrap_or(Sync::TIMEOUT_MS));
        if self.0.iter().any(|known| known.delivery_id == delivery.id) {
            return;
        }
        if self.0.len() == QUESTIONS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Question {
            delivery_id: delivery.id.clone(),
            seq: delivery.seq,
            from: delivery.from.clone(),
            asks,
            until,
        });
    }

    /// Converts a message into the answer to an open question, if the message replies to that
    /// question and goes only to the agent that asked.
    pub(super) fn answer(&mut self, now: Moment, message: &OutgoingMessage) -> Option<Reply> {
        self.0.retain(|question| question.until > now);
        let reply_to = message.reply_to.as_deref().filter(|_| message.topic.is_none())?;
        let index = self.0.iter().position(|question| {
            question.delivery_id == reply_to && question.from.eq_ignore_ascii_case(&message.to)
        })?;
        let Question { delivery_id, seq, asks, .. } = self.0.remove(index)?;
        let data = to_raw_value(&json!({"body": message.body})).expect("a text is JSON");
        Some(Reply {
            delivery_id,
            seq: Some(seq),
            sync: asks,
            response: Some(true),
            data: Some(data),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Questions {
        let asks = Sync { correlation_id: "c".to_owned(), timeout_ms: Some(100), blocking: true };
        let (delivery_id, from) = ("d-1".to_owned(), "Ann".to_owned());
        Questions([Question { delivery_id, seq: 7, from, asks, until: Moment(100) }].into())
    }

    fn message(to: &str, reply_to: &str, topic: Option<&str>) -> OutgoingMessage {
        OutgoingMessage {
            to: to.to_owned(),
            topic: topic.map(str::to_owned),
            thread: None,
            kind: "message".to_owned(),
            body: "8080".to_owned(),
            data: None,
            meta: None,
            reply_to: Some(reply_to.to_owned()),
        }
    }

    #[test]
    fn first_reply_in_time_is_the_answer() {
        let mut questions = questions();
        assert!(questions.answer(Moment(99), &message("Ann", "d-2", None)).is_none());
        assert!(questions.answer(Moment(99), &message("Bob", "d-1", None)).is_none());
        assert!(questions.answer(Moment(99), &message("Ann", "d-1", Some("t"))).is_none());
        let reply = questions.answer(Moment(99), &message("ann", "d-1", None)).unwrap();
        assert_eq!(
            (reply.delivery_id.as_str(), reply.seq, reply.response),
            ("d-1", Some(7), Some(true))
        );
        assert_eq!(reply.data.unwrap().get(), r#"{"body":"8080"}"#);
        assert!(questions.answer(Moment(99), &message("Ann", "d-1", None)).is_none(), "once");
    }

    #[test]
    fn command_lines_question_is_answered_only_to_it() {
        for asker in ["@operator", "@guest-1a2b3c4d"] {
            let mut questions = questions();
            questions.0[0].from = asker.to_owned();
            for to in ["Ann", "@guest-00112233", "*"] {
                assert!(questions.answer(Moment(0), &message(to, "d-1", None)).is_none(), "{to}");
            }
            assert!(questions.answer(Moment(0), &message(asker, "d-1", None)).is_some());
        }
    }

    #[test]
    fn late_reply_is_an_ordinary_message() {
        assert!(questions().answer(Moment(100), &message("Ann", "d-1", None)).is_none());
    }
}
