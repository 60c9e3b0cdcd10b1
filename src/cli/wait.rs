//! `wait`: wait until an agent is idle, has ended, or has a message.

use super::{
    context::GlobalOptions,
    escape::escaped,
    failure::{DONE, Failure, TIMED_OUT},
    join::join,
    request::{agent_row, nearest_agent},
    values::{Awaited, awaited, milliseconds},
    wrapped::{RUN_DIRECTORY, check_name},
};
use crate::{
    client::Client,
    protocol::{activity::Activity, relay::AgentRow},
    wrap::control::client::ControlClient,
};
use argh::{ArgsInfo, FromArgs};
use platform::clock;
use std::{path::Path, thread, time::Duration};

/// The time between two questions to the daemon, which sends no notice of these changes.
const POLL_MS: u64 = 250;

/// The time for which waiting must be hopeless before it ends: a wrapper tells the daemon what its
/// agent does shortly after it has joined, and reconnects within a second.
const HOPELESS_MS: u64 = 3000;

/// Wait until an agent is idle, has ended, or has a message that it has not got.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "wait",
    help_triggers("--help"),
    example = "agent-relay wait Ann idle",
    example = "agent-relay wait Ann ended --timeout 10m",
    note = "The exit code is 0 once it is so, and 4 after --timeout."
)]
pub(super) struct Wait {
    /// the longest time to wait; default: without end
    #[argh(option, arg_name = "time", from_str_fn(milliseconds))]
    timeout: Option<u64>,

    /// the agent's name
    #[argh(positional, arg_name = "agent")]
    name: String,

    /// idle: the agent waits for a prompt; ended: it has left, and nothing runs under its name;
    /// message: a message waits for it
    #[argh(positional, arg_name = "state", from_str_fn(awaited))]
    state: Awaited,
}

/// How far an agent is from the awaited state.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Reached,
    /// Not yet; a sentence says what the agent does.
    Pending(String),
    /// The state will not be seen; a sentence says why.
    Hopeless(String),
}

impl Wait {
    pub(super) fn run(self, options: &GlobalOptions) -> Result<i32, Failure> {
        check_name(&self.name)?;
        let client = join(options)?;
        let run_directory = options.home()?.join(RUN_DIRECTORY);
        let until = self.timeout.map(|ms| clock::monotonic_ms().saturating_add(ms));
        let mut hopeless_since = None;
        loop {
            let seen = match self.look(&client, &run_directory) {
                Err(failure) if failure.code == TIMED_OUT => {
                    Seen::Pending("the daemon does not answer".to_owned())
                }
                seen => seen?,
            };
            let now = clock::monotonic_ms();
            let words = match seen {
                Seen::Reached => return Ok(DONE),
                Seen::Pending(words) => {
                    hopeless_since = None;
                    words
                }
                Seen::Hopeless(why) => {
                    if now - *hopeless_since.get_or_insert(now) >= HOPELESS_MS {
                        return Err(Failure::failed(why));
                    }
                    why
                }
            };
            let left = until.map_or(u64::MAX, |until| until.saturating_sub(now));
            if left == 0 {
                let message = format!("{} is not reached in time: {words}", self.state.word());
                return Err(Failure::new(TIMED_OUT, message));
            }
            thread::sleep(Duration::from_millis(left.min(POLL_MS)));
        }
    }

    fn look(&self, client: &Client, run_directory: &Path) -> Result<Seen, Failure> {
        let name = &self.name;
        let has_wrapper = || ControlClient::connect(run_directory, name).is_ok();
        let seen = agent_row(client, name, |row| Some(seen(self.state, row?, has_wrapper)))?;
        Ok(seen.unwrap_or_else(|| {
            let nearest = nearest_agent(name, client).map(|name| escaped(&name));
            Seen::Hopeless(match nearest {
                Some(nearest) => format!("no agent named {name:?} (did you mean {nearest:?}?)"),
                None => format!("no agent named {name:?}; `agent-relay agents` lists all"),
            })
        }))
    }
}

/// Judges the row of an agent. `has_wrapper` tells whether its wrapper runs although the agent is
/// away.
fn seen(state: Awaited, row: &AgentRow<'_>, has_wrapper: impl FnOnce() -> bool) -> Seen {
    let name = escaped(&row.name);
    let away = || format!("{name} is away; `agent-relay run {name} -- COMMAND` starts it");
    match state {
        Awaited::Message if row.waiting > 0 => Seen::Reached,
        Awaited::Message => Seen::Pending(format!("nothing waits for {name}")),
        Awaited::Ended if row.here => Seen::Pending(format!("{name} is here")),
        Awaited::Ended if row.reconnecting || has_wrapper() => {
            Seen::Pending(format!("{name} is reconnecting"))
        }
        Awaited::Ended => Seen::Reached,
        Awaited::Idle if row.reconnecting => Seen::Pending(format!("{name} is reconnecting")),
        Awaited::Idle if !row.here => Seen::Hopeless(away()),
        Awaited::Idle => match row.activity.as_deref() {
            None => Seen::Hopeless(format!(
                "it is not known when {name} is idle: its program has no recipe that shows it, or \
                 nothing wraps it"
            )),
            Some(known) => match Activity::parse(known) {
                Some(Activity::Idle) => Seen::Reached,
                Some(activity) => Seen::Pending(format!("{name} {}", activity.words())),
                None => Seen::Pending(format!("{name} {}", escaped(known))),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(members: &str) -> AgentRow<'_> {
        let json = format!(
            r#"{{"name":"Ann","since":1,"queued":0,"queued_bytes":0,"in_flight":0,"subscriptions":0,
            {members}}}"#
        );
        let row: AgentRow<'_> = serde_json::from_str(&json).unwrap();
        AgentRow {
            name: "Ann".into(),
            session: None,
            why: None,
            activity: row.activity.map(|text| text.into_owned().into()),
            activity_source: None,
            ..row
        }
    }

    #[test]
    fn states_are_told_by_the_row() {
        let pending = |words: &str| Seen::Pending(words.to_owned());
        let hopeless = |words: &str| Seen::Hopeless(words.to_owned());
        for (state, members, expected) in [
            (Awaited::Idle, r#""here":true,"activity":"idle""#, Seen::Reached),
            (
                Awaited::Idle,
                r#""here":true,"activity":"waits-for-permission""#,
                pending("Ann waits for permission"),
            ),
            (Awaited::Idle, r#""here":true,"activity":"later""#, pending("Ann later")),
            (
                Awaited::Idle,
                r#""here":false"#,
                hopeless("Ann is away; `agent-relay run Ann -- COMMAND` starts it"),
            ),
            (Awaited::Idle, r#""here":false,"reconnecting":true"#, pending("Ann is reconnecting")),
            (Awaited::Ended, r#""here":true,"activity":"ended""#, pending("Ann is here")),
            (Awaited::Ended, r#""here":false"#, Seen::Reached),
            (Awaited::Message, r#""here":false,"waiting":1"#, Seen::Reached),
            (Awaited::Message, r#""here":true,"waiting":0"#, pending("nothing waits for Ann")),
        ] {
            assert_eq!(seen(state, &row(members), || false), expected, "{members}");
        }
        let reconnecting = pending("Ann is reconnecting");
        assert_eq!(seen(Awaited::Ended, &row(r#""here":false"#), || true), reconnecting);
        let unknown = seen(Awaited::Idle, &row(r#""here":true"#), || false);
        assert!(
            matches!(&unknown, Seen::Hopeless(why) if why.contains("not known")),
            "{unknown:?}"
        );
    }
}
