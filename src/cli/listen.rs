//! `listen`: join as an agent, and print the messages that it receives.

use super::{
    context::context,
    failure::{DONE, Failure},
    identity::{check_sender_name, joining_key, key_of},
    join::join_or_start,
    messages::{first_lines, short_id},
    moment,
    notices::Notices,
    print::{Colour, Out, eprint_line},
    restart::Starter,
    values::{agent_name, count},
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, Delivery, Event, Settings,
    home::{HomeOptions, Keys},
};
use platform::clock;
use protocol::{
    payload::Capabilities,
    secret::Secret,
    text::{escaped, indented},
    topic::Pattern,
};
use terminal::frame::Origin;

/// Join as an agent, and print the messages that it receives.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "listen",
    help_triggers("--help"),
    example = "agent-relay listen --as Watcher --topic \"build.>\"",
    example = "agent-relay listen --as Watcher --count 1 --json",
    note = "Each message is acknowledged once it is printed."
)]
pub(super) struct Listen {
    /// the name to join as
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    name: String,

    /// the file with the name's key, if it has one; default: keys/NAME in the home
    #[argh(option, arg_name = "file")]
    key_file: Option<String>,

    /// a topic to subscribe to, with * and > as wildcards; may be repeated
    #[argh(option, arg_name = "pattern")]
    topic: Vec<String>,

    /// end after this many messages
    #[argh(option, arg_name = "count", from_str_fn(count))]
    count: Option<u64>,

    /// print each DELIVER envelope as one line of JSON
    #[argh(switch)]
    json: bool,

    /// print long texts whole, not only their first 10 lines
    #[argh(switch)]
    full: bool,
}

impl Listen {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        check_sender_name(&self.name)?;
        for pattern in &self.topic {
            Pattern::parse(pattern).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let mut context = context(options)?;
        let key = key_of(&context.home, &self.name, self.key_file.as_deref())?;
        let (starter, keys) = (Starter::begin(&context, &self.name)?, Keys::of(&context));
        let client = join_or_start(&mut context, &|endpoint| {
            let when_absent = Some(starter.when_absent(endpoint));
            let key = joining_key(key.as_ref(), &keys, endpoint);
            Settings { when_absent, ..self.settings(endpoint, key) }
        })?;
        for pattern in &self.topic {
            client.subscribe(pattern)?;
        }
        self.announce(&client);
        let mut out = Out::new();
        let mut notices = Notices::default();
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            match client.events().recv() {
                Ok(Event::Delivered(delivery)) => {
                    self.print(&client, &mut out, &delivery)?;
                    left -= 1;
                }
                Ok(event) => notices.print(event)?,
                Err(_) => return Err(Failure::failed("the connection has ended")),
            }
        }
        Ok(DONE)
    }

    /// Settings that limit the messages in flight to those that are to be printed.
    fn settings(&self, endpoint: &str, key: Option<Secret>) -> Settings {
        let default = Capabilities { resume: true, ..Capabilities::default() };
        let max_inflight = self.count.unwrap_or(u64::MAX).min(default.max_inflight);
        let capabilities = Capabilities { max_inflight, ..default };
        Settings { capabilities, key, ..Settings::agent(endpoint, &self.name) }
    }

    /// Prints on standard error what the command listens to.
    fn announce(&self, client: &Client) {
        let name = escaped(client.name());
        let topics = self.topic.iter().map(|topic| format!("\"{}\"", escaped(topic)));
        let topics = topics.collect::<Vec<_>>().join(", ");
        let topics = if topics.is_empty() { topics } else { format!(" and on {topics}") };
        eprint_line(format_args!("listening for messages to {name}{topics}; Ctrl-C ends this"));
    }

    fn print(&self, client: &Client, out: &mut Out, delivery: &Delivery) -> Result<(), Failure> {
        if self.json {
            out.json_text("deliver", delivery.json())?;
        } else {
            let from = out.paint(Colour::Bold, escaped(&delivery.from));
            let topic = delivery.topic.as_deref().map(escaped);
            let topic = topic.map(|topic| format!(" on {topic}")).unwrap_or_default();
            let asks = if delivery.sync.is_some() { " asks" } else { "" };
            let body = indented(&delivery.body);
            let body = if self.full { body } else { first_lines(&body) };
            let (time, id) = (moment::time(clock::unix_ms()), short_id(&delivery.id.to_string()));
            let at = out.paint(Colour::Faint, format!("{time} {id}"));
            out.of_others(Origin::Others, |out| {
                out.line(format_args!("{at} {from}{asks}{topic}: {body}"))
            })?;
        }
        client.acknowledge(&delivery.id);
        Ok(())
    }
}
