//! `listen`: be an agent that prints what it hears.

use super::{
    DONE, Failure, argv,
    ask::{Aside, agent_name, whole},
    identity::{check_name, key_of},
    launch::join_or_start,
    place::Asked,
    print::{Colour, Out, foreign_line, indented},
    restart::Starter,
};
use crate::{
    client::{Client, Delivery, Event, Settings},
    protocol::{payload::Capabilities, secret::Secret, topic::Pattern},
};
use argh::{ArgsInfo, FromArgs};

/// Join as an agent and print what it is sent, acknowledging each message once it is printed.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "listen",
    help_triggers("--help"),
    example = "agent-relay listen --as Watcher --topic \"build.>\"",
    example = "agent-relay listen --as Watcher --count 1 --json"
)]
pub(super) struct Listen {
    /// the name to join as
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    name: String,

    /// where the key is of the name, if it has one; keys/NAME in the home where absent
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    key_file: Option<String>,

    /// a topic to hear, with * and > as wildcards; may be given again
    #[argh(option, arg_name = "pattern", from_str_fn(argv::text))]
    topic: Vec<String>,

    /// end after so many messages
    #[argh(option, from_str_fn(whole))]
    count: Option<u64>,

    /// print each DELIVER envelope as one line of JSON
    #[argh(switch)]
    json: bool,
}

impl Listen {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        check_name(&self.name)?;
        for pattern in &self.topic {
            Pattern::parse(pattern).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let mut place = asked.place()?;
        let key = key_of(&place.home, &self.name, self.key_file.as_deref())?;
        let starter = Starter::begin(&place, &self.name)?;
        let client = join_or_start(&mut place, &|endpoint| {
            let when_absent = Some(starter.when_absent(endpoint));
            Settings { when_absent, ..self.settings(endpoint, key.clone()) }
        })?;
        for pattern in &self.topic {
            client.subscribe(pattern)?;
        }
        let mut out = Out::new();
        let mut aside = Aside::default();
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            match client.events().recv() {
                Ok(Event::Delivered(delivery)) => {
                    self.hear(&client, &mut out, &delivery)?;
                    left -= 1;
                }
                Ok(event) => aside.note(event)?,
                Err(_) => return Err(Failure::failed("the connection is over")),
            }
        }
        Ok(DONE)
    }

    /// It never has more on the way than it will print.
    fn settings(&self, endpoint: &str, key: Option<Secret>) -> Settings {
        let usual = Capabilities { resume: true, ..Capabilities::default() };
        let max_inflight = self.count.unwrap_or(u64::MAX).min(usual.max_inflight);
        let capabilities = Capabilities { max_inflight, ..usual };
        Settings { capabilities, key, ..Settings::agent(endpoint, &self.name) }
    }

    fn hear(&self, client: &Client, out: &mut Out, delivery: &Delivery) -> Result<(), Failure> {
        if self.json {
            out.json_text("deliver", delivery.json())?;
        } else {
            let from = out.paint(Colour::Bold, foreign_line(&delivery.from));
            let topic = delivery.topic.as_deref().map(foreign_line);
            let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
            let asks = if delivery.sync.is_some() { " asks" } else { "" };
            let body = indented(&delivery.body);
            out.line(format_args!("{from}{asks}{topic}: {body}"))?;
        }
        client.acknowledge(&delivery.id);
        Ok(())
    }
}
