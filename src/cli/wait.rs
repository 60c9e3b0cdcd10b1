//! `wait`: wait until an agent is idle, has ended, or has a message.

use super::{
    changes::{change_in, follow, join_again, parse_change},
    failure::{DONE, Failure, TIMED_OUT},
    join::join,
    request::{agent_row_within, nearest_agent},
    values::{Awaited, agent_of_any_machine, awaited, milliseconds},
    wrapped::RUN_DIRECTORY,
};
use crate::wrap::control::client::ControlClient;
use argh::{ArgsInfo, FromArgs};
use client::{ANSWER_TIMEOUT, Client, ConnectionState, Delivery, Event, home::HomeOptions};
use crossbeam_channel::RecvTimeoutError;
use platform::clock;
use protocol::{activity::Activity, calendar::time_limit, relay::AgentRow, text::escaped};
use std::{borrow::Cow, path::Path, thread, time::Duration};

/// The time between two queries to the daemon while it does not report the awaited change.
const POLL_MS: u64 = 250;

/// The time before the daemon is queried again although it has reported no change: a wrapper's
/// reports on messages are not changes.
const LOOK_MS: u64 = 2000;

/// The least time for an answer of the daemon, also if --timeout is shorter.
const ANSWER_MIN: Duration = Duration::from_secs(1);

/// How long a state must be out of reach before `wait` fails. A wrapper reports its agent's
/// activity shortly after it has joined, and reconnects within a second.
const HOPELESS_MS: u64 = 3000;

/// Wait until an agent is idle, has ended, or has a message that it has not got.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "wait",
    help_triggers("--help"),
    example = "agent-relay wait Ann idle",
    example = "agent-relay wait Ann ended --timeout 10m",
    note = "The exit code is 0 when the state holds, and 4 after --timeout."
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
enum Progress {
    Reached,
    /// Not yet; a sentence describes the agent's activity. The daemon reports a change.
    Pending(String),
    /// Not yet, and the daemon will report no change when the state is reached.
    Unwatched(String),
    /// The state will not be reached; a sentence says why.
    Hopeless(String),
}

impl Wait {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        agent_of_any_machine(&self.name).map_err(Failure::usage)?;
        let client = join(options)?;
        let run_directory = options.home()?.join(RUN_DIRECTORY);
        let until = self.timeout.map(|ms| clock::monotonic_ms().saturating_add(ms));
        let mut changes = AgentChanges::begin(options, &self.name, self.state);
        let mut hopeless_since = None;
        let left = |now| until.map_or(u64::MAX, |until| until.saturating_sub(now));
        loop {
            let limit = Duration::from_millis(left(clock::monotonic_ms()));
            let limit = limit.clamp(ANSWER_MIN, ANSWER_TIMEOUT);
            let progress = match self.look(limit, &client, &run_directory) {
                Err(failure) if failure.code == TIMED_OUT => {
                    Progress::Unwatched("the daemon does not answer".to_owned())
                }
                progress => progress?,
            };
            let now = clock::monotonic_ms();
            let (words, pause_ms) = match progress {
                Progress::Reached => return Ok(DONE),
                Progress::Pending(words) => {
                    hopeless_since = None;
                    (words, LOOK_MS)
                }
                Progress::Unwatched(words) => {
                    hopeless_since = None;
                    (words, POLL_MS)
                }
                Progress::Hopeless(why) => {
                    if now - *hopeless_since.get_or_insert(now) >= HOPELESS_MS {
                        return Err(Failure::failed(why));
                    }
                    (why, POLL_MS)
                }
            };
            let left = left(now);
            if left == 0 {
                let waited = time_limit(self.timeout.unwrap_or_default());
                let message = format!("{} after {waited}: {words}", missed(self.state));
                return Err(Failure::new(TIMED_OUT, message));
            }
            changes.pause(left.min(pause_ms));
        }
    }

    fn look(
        &self,
        limit: Duration,
        client: &Client,
        run_directory: &Path,
    ) -> Result<Progress, Failure> {
        let name = &self.name;
        let has_wrapper = || ControlClient::connect(run_directory, name).is_ok();
        let progress = agent_row_within(limit, client, name, |row| {
            Some(progress(self.state, row?, has_wrapper))
        })?;
        Ok(progress.unwrap_or_else(|| {
            let nearest = nearest_agent(name, client).map(|name| escaped(&name));
            Progress::Hopeless(match nearest {
                Some(nearest) => format!("no agent named {name:?} (did you mean {nearest:?}?)"),
                None => format!("no agent named {name:?}; `agent-relay agents` lists all"),
            })
        }))
    }
}

const fn missed(state: Awaited) -> &'static str {
    match state {
        Awaited::Idle => "not idle",
        Awaited::Ended => "not ended",
        Awaited::Message => "no message",
    }
}

/// The changes of the awaited agent, as the daemon reports them.
struct AgentChanges {
    /// The connection that gets the changes; `None` if the daemon does not report them.
    client: Option<Client>,
    name: String,
    awaited: Awaited,
}

impl AgentChanges {
    /// Asks the daemon to report changes. It refuses an agent's command, and an older daemon cannot
    /// do so.
    fn begin(options: &HomeOptions, name: &str, awaited: Awaited) -> Self {
        let client = join_again(options).ok().filter(|client| follow(client).is_ok());
        Self { client, name: name.to_owned(), awaited }
    }

    /// Whether a delivery carries a change that may reach the state, or reports lost changes.
    fn is_wanted(&self, delivery: &Delivery) -> bool {
        let Some(change) = change_in(delivery).and_then(|json| parse_change(json).ok()) else {
            return false;
        };
        let is = |other: &Option<Cow<'_, str>>| {
            other.as_deref().is_some_and(|other| other.eq_ignore_ascii_case(&self.name))
        };
        let is_message = self.awaited == Awaited::Message && is(&change.to);
        change.lost > 0 || is(&change.agent) || is_message
    }

    /// Waits until the daemon reports a change, at most this many milliseconds. If the daemon
    /// reports none, waits for a part of that time.
    fn pause(&mut self, ms: u64) {
        let until = clock::monotonic_ms().saturating_add(ms);
        while let Some(client) = &self.client {
            let left = until.saturating_sub(clock::monotonic_ms());
            match client.events().recv_timeout(Duration::from_millis(left)) {
                Ok(Event::Delivered(delivery)) if self.is_wanted(&delivery) => return,
                // After a reconnect, the daemon reports changes only if it is asked again.
                Ok(Event::State(ConnectionState::Ready(_))) if follow(client).is_ok() => return,
                Ok(Event::State(ConnectionState::Ready(_))) => self.client = None,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => self.client = None,
            }
        }
        let left = until.saturating_sub(clock::monotonic_ms());
        thread::sleep(Duration::from_millis(left.min(POLL_MS)));
    }
}

/// Judges the row of an agent. `has_wrapper` is true if its wrapper runs although the agent is
/// away.
fn progress(state: Awaited, row: &AgentRow<'_>, has_wrapper: impl FnOnce() -> bool) -> Progress {
    let name = escaped(&row.name);
    let away = || format!("{name} is away; `agent-relay run {name} -- COMMAND` starts it");
    match state {
        Awaited::Message if row.waiting > 0 => Progress::Reached,
        Awaited::Message => Progress::Pending(format!("nothing waits for {name}")),
        Awaited::Ended if row.here => Progress::Pending(format!("{name} is here")),
        Awaited::Ended if row.reconnecting || has_wrapper() => {
            Progress::Unwatched(format!("{name} is reconnecting"))
        }
        Awaited::Ended => Progress::Reached,
        Awaited::Idle if row.reconnecting => Progress::Pending(format!("{name} is reconnecting")),
        Awaited::Idle if !row.here => Progress::Hopeless(away()),
        Awaited::Idle => match row.activity.as_deref() {
            None => Progress::Hopeless(format!(
                "it is not known when {name} is idle: its program has no recipe that shows it, or \
                 nothing wraps it"
            )),
            Some(known) => match Activity::parse(known) {
                Some(Activity::Idle) => Progress::Reached,
                Some(activity) => Progress::Pending(format!("{name} {}", activity.words())),
                None => Progress::Pending(format!("{name} {}", escaped(known))),
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
            host: None,
            session: None,
            why: None,
            activity: row.activity.map(|text| text.into_owned().into()),
            activity_source: None,
            unseen: false,
            ..row
        }
    }

    #[test]
    fn states_are_told_by_the_row() {
        let pending = |words: &str| Progress::Pending(words.to_owned());
        let hopeless = |words: &str| Progress::Hopeless(words.to_owned());
        for (state, members, expected) in [
            (Awaited::Idle, r#""here":true,"activity":"idle""#, Progress::Reached),
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
            (Awaited::Ended, r#""here":false"#, Progress::Reached),
            (Awaited::Message, r#""here":false,"waiting":1"#, Progress::Reached),
            (Awaited::Message, r#""here":true,"waiting":0"#, pending("nothing waits for Ann")),
        ] {
            assert_eq!(progress(state, &row(members), || false), expected, "{members}");
        }
        let reconnecting = Progress::Unwatched("Ann is reconnecting".to_owned());
        assert_eq!(progress(Awaited::Ended, &row(r#""here":false"#), || true), reconnecting);
        let unknown = progress(Awaited::Idle, &row(r#""here":true"#), || false);
        assert!(
            matches!(&unknown, Progress::Hopeless(why) if why.contains("not known")),
            "{unknown:?}"
        );
    }
}
