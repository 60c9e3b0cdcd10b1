//! `tap`: everything that is routed, live.

use super::{
    Failure,
    ask::{Aside, ask, data_of, join, read},
    place::Asked,
    print::{Colour, Out, compact, foreign_line, indented, say},
    question,
};
use crate::{
    client::{Answer, Delivery, Event, State},
    protocol::{
        name::RELAY,
        payload::MessagePayload,
        relay::{self, TapAnswer, TapCopy},
    },
};
use argh::{ArgsInfo, FromArgs};

/// Print every message, and every answer to a question, as it is routed, until Ctrl-C.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "tap",
    help_triggers("--help"),
    example = "agent-relay tap",
    example = "agent-relay tap --json"
)]
pub(super) struct Tap {
    /// print one JSON object a line for each message
    #[argh(switch)]
    pub(super) json: bool,
}

impl Tap {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let client = join(asked)?;
        let (mut out, mut aside) = (Out::new(), Aside::default());
        ask(&client, "tap", None)?;
        loop {
            match client.events().recv() {
                Ok(Event::Delivered(delivery)) => self.show(&mut out, &delivery)?,
                // A new connection taps nothing yet.
                Ok(event @ Event::State(State::Ready(_))) => {
                    ask(&client, "tap", None)?;
                    aside.note(event)?;
                }
                Ok(event) => aside.note(event)?,
                Err(_) => return Err(Failure::failed("the connection is over")),
            }
        }
    }

    pub(super) fn show(&self, out: &mut Out, delivery: &Delivery) -> Result<(), Failure> {
        let Some(json) = data_of(delivery).filter(|_| is_copy(delivery)) else { return Ok(()) };
        if self.json {
            return out.json_text("tap", json);
        }
        let copy: TapCopy<'_> = read("tap", json)?;
        if copy.lost > 0 {
            say(format_args!("{} messages were too fast to be shown", copy.lost));
        }
        let topic = copy.topic.as_deref().map(foreign_line);
        let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
        let (from, to) = (foreign_line(&copy.from), foreign_line(&copy.to));
        let answering = if copy.answer.is_some() { ", answering" } else { "" };
        let heading = format!("{from} -> {to}{topic}{answering}");
        let heading = out.paint(Colour::Bold, heading);
        out.line(format_args!("{heading}: {}", words(&copy)))
    }
}

fn is_copy(delivery: &Delivery) -> bool {
    delivery.from == RELAY && delivery.kind == relay::TAP
}

/// What was said, as far as it is a text.
fn words(copy: &TapCopy<'_>) -> String {
    if let Some(TapAnswer { response, response_data: data }) = copy.answer {
        let data = data.map(ToOwned::to_owned);
        return indented(&question::words(&Answer { from: copy.from.to_string(), response, data }));
    }
    let Some(payload) = copy.payload else { return "(too large to be shown)".to_owned() };
    match serde_json::from_str::<MessagePayload<'_>>(payload.get()) {
        Ok(spoken) => indented(&spoken.body),
        Err(_) => foreign_line(&compact(payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_and_what_was_answered_are_shown() {
        let shown = |words_of: &str| {
            let copy = format!(
                r#"{{"send_id":"a","from":"Bob","to":"Ann","recipients":1,"requires_ack":false{words_of}}}"#
            );
            words(&serde_json::from_str(&copy).unwrap())
        };
        assert_eq!(shown(r#","payload":{"kind":"message","body":"one\ntwo"}"#), "one\n    two");
        let answer = r#","answer":{"response":true,"responseData":{"body":"one\n\u001b[2J"}}"#;
        assert_eq!(shown(answer), "one\n    \\u{1b}[2J");
        assert_eq!(shown(r#","answer":{"response":false}"#), "no");
        assert_eq!(shown(""), "(too large to be shown)");
    }
}
