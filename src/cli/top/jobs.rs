//! The thread that carries out a person's orders in `top`, so that the screen never waits, and the
//! thread that starts agents, so that other orders do not wait for that.

use super::{action::Order, feed::Source, model::Update, own_command, spawn, words};
use crate::{
    cli::{
        failure::{Failure, TIMED_OUT},
        identity::Identity,
        mailbox,
        messages::short_id,
        print::{LINE_PREFIX, counted},
        request::{call_with, parse},
        send::{delivery_of, not_delivered},
        wrapped::{self, ANSWER, RUN_DIRECTORY, explain},
    },
    wrap::{
        attach,
        control::client::{ControlClient, ControlError},
    },
};
use client::{Event, Meta, Outgoing};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use platform::{clock, pty::Size};
use protocol::{
    control::{Dialog, Request},
    relay::{RedeliverRequest, Redelivered, RequestName},
    text::escaped,
};
use serde::Deserialize;
use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    thread::JoinHandle,
    time::Duration,
};

/// The longest wait until the daemon has accepted a message.
const ACCEPTED_MS: u64 = 10_000;

/// The longest wait for the screen of an agent.
const SCREEN: Duration = Duration::from_millis(500);

/// A job for the thread.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Order(Order),
    /// Asks for this size of an agent's screen.
    Preview(String, Size),
}

impl Source {
    /// Carries out jobs until there are no senders any more.
    pub(super) fn carry_out(mut self, jobs: &Receiver<Job>) {
        let mut starting = Starting::default();
        for job in jobs {
            let update = match job {
                Job::Preview(name, size) => {
                    let screen = self.screen(&name, size).map_err(sentence);
                    Some(Update::Preview(name, screen))
                }
                Job::Order(order) => {
                    let done = self.order(order, &mut starting);
                    done.unwrap_or_else(|failure| Some(Update::Notice(sentence(failure))))
                }
            };
            if update.is_some_and(|update| self.updates.send(update).is_err()) {
                return;
            }
        }
    }

    /// Carries out an order, and returns its outcome. The outcome of a start comes later.
    fn order(&mut self, order: Order, starting: &mut Starting) -> Result<Option<Update>, Failure> {
        let done = match order {
            Order::Send { to, text } => Update::Notice(self.send_message(&to, text)?),
            Order::Hold(name) => {
                let is_held = self.toggle_hold(&name)?;
                Update::Held(name, is_held)
            }
            Order::Choose { name, dialog, choice } => self.choose(name, dialog, choice)?,
            Order::Stop(name) => Update::Notice(self.stop(&name)?),
            Order::Spawn(line) => {
                let source = self.clone();
                starting.begin(move || source.tell(source.spawn(&line)))?;
                return Ok(None);
            }
            Order::Restore => {
                let source = self.clone();
                starting.begin(move || source.tell(source.restore()))?;
                Update::Notice("starting the agents again that were cut off".to_owned())
            }
            Order::Redeliver(id) => Update::Notice(self.redeliver(id)?),
            Order::Take(id) => {
                let taken = format!("{} is taken out of your inbox", short_id(&id));
                mailbox::take(&self.join()?, vec![id])?;
                Update::Notice(taken)
            }
        };
        Ok(Some(done))
    }

    /// Sends a message as the person.
    fn send_message(&mut self, to: &str, text: String) -> Result<String, Failure> {
        Identity::of_person(&self.context).check_is_person()?;
        let client = self.join()?;
        let meta = Meta { requires_ack: true, ..Meta::default() };
        let message = Outgoing { to: Some(to.to_owned()), body: text, meta, ..Outgoing::default() };
        let sent = client.send(message)?;
        let until = clock::monotonic_ms() + ACCEPTED_MS;
        loop {
            let left = Duration::from_millis(until.saturating_sub(clock::monotonic_ms()));
            match client.events().recv_timeout(left) {
                Ok(Event::Accepted { send_id, away, .. }) if send_id == sent => {
                    let away = if away { ", who is away: it waits" } else { "" };
                    let id = delivery_of(&client, &sent)?.map_or(sent.0, |delivery| delivery.id);
                    return Ok(format!("sent {} to {}{away}", short_id(&id), escaped(to)));
                }
                Ok(Event::Refused { send_id, nack }) if send_id == sent => {
                    return Err(not_delivered(&client, to, &nack));
                }
                Ok(Event::Ended(ended)) => return Err(ended.into()),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("the message to {} was not accepted in time", escaped(to));
                    return Err(Failure::new(TIMED_OUT, why));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed("the connection has ended"));
                }
            }
        }
    }

    /// Holds an agent's messages, or releases them. Returns whether they are held now.
    fn toggle_hold(&self, name: &str) -> Result<bool, Failure> {
        let wrapper = wrapped::connect(&self.options, name)?;
        let ask = |request: &Request| {
            let state = wrapper.request_state(request, ANSWER);
            state.map_err(|error| explain(name, &error))
        };
        let request = if ask(&Request::State)?.held { Request::Release } else { Request::Hold };
        Ok(ask(&request)?.held)
    }

    /// Presses the key of a choice, unless the agent shows another dialog by now.
    fn choose(&self, name: String, dialog: Dialog, choice: usize) -> Result<Update, Failure> {
        let chosen = dialog.choices.get(choice - 1).cloned().unwrap_or_default();
        let wrapper = wrapped::connect(&self.options, &name)?;
        let chosen = format!("{choice} {chosen}");
        let asked = wrapper.request_state(&Request::Choose { dialog, choice }, ANSWER);
        asked.map_err(|error| explain(&name, &error))?;
        Ok(Update::Chosen(name, chosen))
    }

    fn stop(&self, name: &str) -> Result<String, Failure> {
        let wrapper = wrapped::connect(&self.options, name)?;
        wrapper.begin_to_stop();
        wrapper.await_end(ANSWER).map_err(|error| explain(name, &error))?;
        Ok(format!("{} ended", escaped(name)))
    }

    /// Shows how a start of agents went, unless `top` has ended.
    fn tell(&self, started: Result<String, Failure>) {
        let told = started.unwrap_or_else(sentence);
        drop(self.updates.send(Update::Notice(told)));
    }

    /// Runs `agent-relay spawn` with a command line. Returns the first line that it prints.
    fn spawn(&self, line: &str) -> Result<String, Failure> {
        let words = words::split(line).map_err(Failure::failed)?;
        let output = self.output("spawn", words)?;
        match output.status.success() {
            true => Ok(first_line(&output.stdout)),
            false => Err(Failure::failed(first_line(&output.stderr))),
        }
    }

    /// Runs a command of this program to its end.
    fn output(
        &self,
        command: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Output, Failure> {
        let mut own = own_command(&self.options)?;
        own.arg(command).args(arguments).stdin(Stdio::null());
        own.output().map_err(Failure::because)
    }

    /// Runs `agent-relay restore`. Returns the agents that run now, and each failure on a separate
    /// line.
    fn restore(&self) -> Result<String, Failure> {
        let output = self.output("restore", ["--all", "--json"])?;
        if output.stdout.is_empty() && !output.status.success() {
            return Err(Failure::failed(first_line(&output.stderr)));
        }
        restored(&String::from_utf8_lossy(&output.stdout))
    }

    fn redeliver(&mut self, id: String) -> Result<String, Failure> {
        let client = self.join()?;
        let json = call_with(&client, RequestName::Redeliver, &RedeliverRequest { id })?;
        let done: Redelivered = parse(RequestName::Redeliver, &json)?;
        Ok(match done.why {
            Some(why) if done.redelivered == 0 => format!("not redelivered: {}", escaped(&why)),
            _ => format!("{} on the way again", counted(done.redelivered, "message")),
        })
    }

    /// The rows of an agent's screen.
    fn screen(&self, name: &str, size: Size) -> Result<Vec<String>, Failure> {
        let run_directory = self.options.home()?.join(RUN_DIRECTORY);
        let wrapper =
            ControlClient::connect(&run_directory, name).map_err(|error| match error {
                ControlError::NotRunning => Failure::failed("it is not wrapped on this machine"),
                error => explain(name, &error),
            })?;
        attach::screen(&wrapper, size, SCREEN).map_err(|error| explain(name, &error))
    }
}

/// A line of what `agent-relay restore --json` prints: about an agent that was started, or a
/// failure.
#[derive(Deserialize)]
#[serde(untagged)]
enum Restored {
    Agent { name: String, pid: Option<u32> },
    Failure { message: String, hint: Option<String> },
}

/// Words about what `agent-relay restore --json` has printed.
fn restored(printed: &str) -> Result<String, Failure> {
    let (mut names, mut lines) = (Vec::new(), Vec::new());
    for line in printed.lines() {
        match serde_json::from_str(line).map_err(Failure::because)? {
            Restored::Agent { name, pid: Some(_) } => names.push(name),
            Restored::Agent { name, pid: None } => {
                lines.push(format!("{name} ran, and has ended already"));
            }
            Restored::Failure { message, hint } => {
                // After a line, there may be the last ones on a screen.
                let said: Vec<_> = message.lines().take(2).map(str::trim).collect();
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                lines.push(said.join(" ") + &hint);
            }
        }
    }
    match &*names {
        [] if lines.is_empty() => lines.push("no agent was cut off".to_owned()),
        [] => {}
        [name] => lines.insert(0, format!("{name} runs again")),
        names => lines.insert(0, format!("{} run again", names.join(", "))),
    }
    Ok(lines.join("\n"))
}

/// The thread that starts agents, at most one at a time.
#[derive(Default)]
struct Starting(Option<JoinHandle<()>>);

impl Starting {
    fn begin(&mut self, start: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Err(Failure::failed("agents are being started: try again after that"));
        }
        // Waits for: the commands `spawn` and `restore`, then the main thread's channel. Not
        // joined: ends with the process.
        self.0 = Some(spawn("top start", start)?);
        Ok(())
    }
}

/// The first line of a command's output.
fn first_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().find(|line| !line.is_empty()).unwrap_or_default();
    line.trim_start_matches(LINE_PREFIX).to_owned()
}

fn sentence(failure: Failure) -> String {
    failure.line().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn agents_that_run_again_and_failures_have_a_line_each() {
        let failed =
            r#"{"schema":"agent-relay.error/1","code":"FAILED","exit_code":1,"message":"Eve
ended at once:\n    no\n    way"}"#
                .replace('\n', " ");
        let gone = r#"{"message":"Gone ran in /x, which is gone","hint":"do"}"#;
        let run = |name: &str| {
            format!(r#"{{"schema":"agent-relay.restored/1","name":"{name}","pid":7}}"#)
        };
        let printed = [run("Ann"), failed, run("Bob"), gone.to_owned()].join("\n");
        let told = restored(&printed).unwrap();
        let lines =
            ["Ann, Bob run again", "Eve ended at once: no", "Gone ran in /x, which is gone; do"];
        assert_eq!(told.lines().collect::<Vec<_>>(), lines);
        assert_eq!(restored(&run("Ann")).unwrap(), "Ann runs again");
        assert_eq!(restored("").unwrap(), "no agent was cut off");
        assert!(restored("{}").is_err());
    }

    /// The thread with the orders continues at once.
    #[test]
    fn one_agent_is_started_at_a_time() {
        let mut starting = Starting::default();
        let (end, ended) = bounded::<()>(0);
        starting.begin(move || assert!(ended.recv().is_err())).unwrap();
        let refused = starting.begin(|| panic!("two at a time")).unwrap_err();
        assert!(sentence(refused).contains("agents are being started"));
        drop(end);
        starting.0.take().unwrap().join().unwrap();
        let (sender, started) = bounded(1);
        starting.begin(move || sender.send(()).unwrap()).unwrap();
        started.recv().unwrap();
    }
}
