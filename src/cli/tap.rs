//! `tap`: everything that is routed, live.

use super::{
    Failure,
    ask::{Aside, ask, data_of, join, read},
    place::Asked,
    print::{Colour, Out, compact, foreign_line, indented, say},
};
use crate::{
    client::{Delivery, Event, State},
    protocol::{
        name::RELAY,
        payload::Spoken,
        relay::{self, TapCopy},
    },
};
use argh::{ArgsInfo, FromArgs};

/// Print every message as it is routed, until Ctrl-C.
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
        let heading = format!("{from} -> {to}{topic}");
        let heading = out.paint(Colour::Bold, heading);
        out.line(format_args!("{heading}: {}", words(&copy)))
    }
}

fn is_copy(delivery: &Delivery) -> bool {
    delivery.from == RELAY && delivery.spoken().kind == relay::TAP
}

/// What was said, as far as it is a text.
fn words(copy: &TapCopy<'_>) -> String {
    let Some(payload) = copy.payload else { return "(too large to be shown)".to_owned() };
    match serde_json::from_str::<Spoken<'_>>(payload.get()) {
        Ok(spoken) => indented(&spoken.body),
        Err(_) => foreign_line(&compact(payload)),
    }
}
