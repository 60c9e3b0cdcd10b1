//! The threads that follow the daemon for `top`: one lists the agents, one receives the messages
//! that are routed. Each has its own connection, and joins again after the daemon was away.

use super::{message_list::Message, model::Update};
use crate::cli::{
    agents::{Agent, Wrappers},
    conversation::{Conversation, Several},
    failure::Failure,
    identity::Identity,
    mailbox,
    messages::{DeliveryWords, each_row, payload_text, short_id},
    moment,
    request::{call, data_of, each_agent, parse},
    restore, tap,
};
use client::{
    self, Client, Delivery, Event, Settings,
    home::{Context, HomeOptions},
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, select};
use platform::clock;
use protocol::{
    activity::Activity,
    control::AgentState,
    name::EVERYONE,
    payload::ANSWER,
    relay::{
        AgentRow, HistoryRequest, InboxRequest, MessageRow, Page, RequestName, Status, TapCopy,
    },
    text::{escaped, escaped_text},
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    iter,
    time::Duration,
};

/// The time between two lists of agents, and before another attempt to join.
const POLL_MS: u64 = 1000;

/// The pause after a short read of messages. It delays messages, but handling them together costs
/// less.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// The most messages that are handed over together.
const TOGETHER_MAX: usize = 256;

/// One in this many lists of agents comes with the states of all wrappers and the dead letters.
const POLLS_PER_FULL: u32 = 5;

/// The longest wait for the answers of all wrappers together.
const WRAPPERS_MS: u64 = 200;

/// The most dead letters that are listed, and the most messages of the mailbox.
const LETTERS_MAX: usize = 200;

/// The maximum number of agents in one list with a query for the oldest message.
const OLDEST_MAX: usize = 20;

/// The most messages of the history that are shown after a connection was made.
const HISTORY_MAX: usize = 100;

/// The longest part of a text that is kept, in characters.
const TEXT_CHARS: usize = 4000;

/// The end of a text that is cut.
const CUT: &str = "…\n\n(`agent-relay read ID` shows the rest)";

/// The text that replaces one that is too long to be listed.
const LONG: &str = "(too long to be shown here: `agent-relay read ID` shows it)";

/// The reason why a connection is not used any more.
enum End {
    /// `top` ends.
    Stopped,
    /// The daemon has gone, or refuses.
    Lost(String),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure.line().unwrap_or_default())
    }
}

/// The means to join a daemon, in a thread of `top`.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) options: HomeOptions,
    pub(super) context: Context,
    pub(super) updates: Sender<Update>,
}

impl Source {
    /// Joins the running daemon as the person, without output on the terminal.
    pub(super) fn join(&mut self) -> Result<Client, Failure> {
        self.join_with_pauses(Duration::ZERO)
    }

    fn join_with_pauses(&mut self, read_pause: Duration) -> Result<Client, Failure> {
        self.context.reread_endpoint()?;
        let identity = Identity::of_person(&self.context);
        let settings = |endpoint: &str| Settings { read_pause, ..identity.settings(endpoint) };
        Ok(self.context.try_join(&settings)?)
    }

    fn send(&self, update: Update) -> Result<(), End> {
        self.updates.send(update).map_err(|_| End::Stopped)
    }

    /// Lists the agents until `wake` has no sender. A message there asks for a list at once.
    pub(super) fn follow_agents(mut self, wake: &Receiver<()>) {
        loop {
            // Needed without a daemon, too: after a reboot, none runs until an agent runs.
            let joined = self.send_cut_off().and_then(|()| Ok(self.join()?));
            let end = joined.and_then(|client| {
                self.send(Update::Joined(client.endpoint().to_owned()))?;
                self.list_agents(&client, wake)
            });
            let Err(End::Lost(why)) = end else { return };
            if self.updates.send(Update::Away(why)).is_err() || !pause(wake) {
                return;
            }
        }
    }

    /// Receives the messages that are routed until `stop` has no sender.
    pub(super) fn follow_messages(mut self, stop: &Receiver<()>) {
        loop {
            let joined = self.join_with_pauses(READ_PAUSE);
            let end = joined.map_err(End::from).and_then(|client| {
                call(&client, RequestName::Tap, None)?;
                self.send(Update::Following(Ok(())))?;
                // Done after a reconnection, too, to add the messages that were routed meanwhile.
                self.send_history(&client)?;
                self.receive_messages(&client, stop)
            });
            let Err(End::Lost(why)) = end else { return };
            if self.updates.send(Update::Following(Err(why))).is_err() || !pause(stop) {
                return;
            }
        }
    }

    fn send_cut_off(&self) -> Result<(), End> {
        let records = restore::cut_off(&self.context.home)?;
        self.send(Update::CutOff(records.into_iter().map(|record| record.name).collect()))
    }

    fn list_agents(&self, client: &Client, wake: &Receiver<()>) -> Result<(), End> {
        // A wrapper that does not answer now keeps its last state.
        let (mut states, mut polls, mut mailbox) = (HashMap::new(), 0_u32, 0);
        let mut oldest = HashMap::new();
        loop {
            let is_full = polls.is_multiple_of(POLLS_PER_FULL);
            // The messages that wait in a wrapper change often, and so do questions.
            let is_asked = |row: &AgentRow<'_>, known: Option<&AgentState>| {
                let is_known = known.is_some_and(|it| it.waiting > 0 || it.dialog.is_some());
                is_full || is_known || asks_person(row)
            };
            let wrappers = Wrappers::new(&self.options, WRAPPERS_MS);
            let mut agents = Vec::new();
            each_agent(client, |row| {
                let asked = Some(&wrappers).filter(|_| is_asked(&row, states.get(&*row.name)));
                if let Some(state) = asked.and_then(|wrappers| wrappers.ask(&row)) {
                    states.insert(row.name.clone().into_owned(), state);
                } else if !row.here {
                    states.remove(&*row.name);
                }
                let state = states.get(&*row.name);
                agents.push(Agent::of(&wrappers.completed(row, state), state));
                Ok(())
            })?;
            add_oldest(client, &mut agents, &mut oldest)?;
            if is_full {
                let known: HashSet<_> = agents.iter().map(|agent| &agent.name).collect();
                states.retain(|name, _| known.contains(name));
            }
            self.send(Update::Agents(agents))?;
            if is_full {
                self.send_cut_off()?;
                self.send(Update::Letters(dead_letters(client)?))?;
            }
            let count = mailbox_count(client)?;
            if is_full || count != mailbox {
                self.send(Update::Mailbox(count, mailbox_of(client, count)?))?;
                mailbox = count;
            }
            polls = if wait(client, wake)? { 0 } else { polls.wrapping_add(1) };
        }
    }

    fn send_history(&self, client: &Client) -> Result<(), End> {
        let request = |page: Page| HistoryRequest {
            cursor: page.cursor,
            limit: page.limit,
            ..Default::default()
        };
        let mut messages: Vec<Message> = Vec::new();
        each_row(client, RequestName::History, HISTORY_MAX, request, |_, row| {
            let next =
                whole(message_of_row(row), Several::of_row(row), &row.to, row.topic.as_deref());
            // A message to several agents has a row for each recipient.
            if messages.iter().all(|other| other.key != next.key) {
                messages.push(next);
            }
            Ok(messages.len() < HISTORY_MAX)
        })?;
        messages.reverse();
        self.send(Update::Messages(messages))
    }

    fn receive_messages(&self, client: &Client, stop: &Receiver<()>) -> Result<(), End> {
        loop {
            let event = select! {
                recv(stop) -> _ => return Err(End::Stopped),
                recv(client.events()) -> event => event.ok(),
            };
            let more = client.events().try_iter().map(Some).take(TOGETHER_MAX);
            let mut messages = Vec::new();
            for event in iter::once(event).chain(more) {
                match event {
                    Some(Event::Delivered(delivery)) => messages.extend(self.copied(&delivery)?),
                    event => lost(event).map_or(Ok(()), Err)?,
                }
            }
            self.send(Update::Messages(messages))?;
        }
    }

    /// The message that a delivery is a copy of, if it is one.
    fn copied(&self, delivery: &Delivery) -> Result<Option<Message>, End> {
        let Some(json) = data_of(delivery).filter(|_| tap::is_copy(delivery)) else {
            return Ok(None);
        };
        let copy: TapCopy<'_> = parse(RequestName::Tap, json)?;
        if copy.lost > 0 {
            self.send(Update::Lost(copy.lost))?;
        }
        let message = message_of_copy(&copy);
        Ok(Some(whole(message, Several::of_copy(&copy), &copy.to, copy.topic.as_deref())))
    }
}

/// Whether an agent asks its person something, as it has reported.
fn asks_person(row: &AgentRow<'_>) -> bool {
    let activity = row.activity.as_deref().and_then(Activity::parse);
    matches!(activity, Some(Activity::WaitsForPermission | Activity::AsksPerson))
}

/// Waits before another attempt. Returns false if `top` ends.
fn pause(wake: &Receiver<()>) -> bool {
    let waited = wake.recv_timeout(Duration::from_millis(POLL_MS));
    !matches!(waited, Err(RecvTimeoutError::Disconnected))
}

/// Waits until the next list of agents is due. Returns whether it was requested.
fn wait(client: &Client, wake: &Receiver<()>) -> Result<bool, End> {
    let until = clock::monotonic_ms() + POLL_MS;
    loop {
        let left = Duration::from_millis(until.saturating_sub(clock::monotonic_ms()));
        select! {
            recv(wake) -> woken => return woken.map(|()| true).map_err(|_| End::Stopped),
            recv(client.events()) -> event => lost(event.ok()).map_or(Ok(()), Err)?,
            default(left) => break,
        }
    }
    match wake.try_recv() {
        Err(TryRecvError::Disconnected) => Err(End::Stopped),
        other => Ok(other.is_ok()),
    }
}

/// The end of a connection, if an event is one. The event `None` means that the client has ended.
fn lost(event: Option<Event>) -> Option<End> {
    match event {
        Some(Event::State(client::ConnectionState::Backoff { why, .. })) => {
            Some(End::Lost(escaped(&why)))
        }
        Some(Event::Ended(ended)) => Some(End::Lost(escaped(&ended.to_string()))),
        Some(_) => None,
        None => Some(End::Lost("the connection has ended".to_owned())),
    }
}

/// The number of messages in the person's mailbox.
fn mailbox_count(client: &Client) -> Result<u64, Failure> {
    let json = call(client, RequestName::Status, None)?;
    Ok(parse::<Status<'_>>(RequestName::Status, &json)?.mailbox)
}

/// Adds the age of the oldest waiting message to each agent with waiting messages. Asks only about
/// agents with a changed number of waiting messages.
fn add_oldest(
    client: &Client,
    agents: &mut [Agent],
    known: &mut HashMap<String, (u64, Option<u64>)>,
) -> Result<(), Failure> {
    let before = std::mem::take(known);
    let mut asked = 0;
    for agent in agents.iter_mut().filter(|agent| agent.waiting > 0) {
        let found = before.get(&agent.name).filter(|(waiting, _)| *waiting == agent.waiting);
        let found = match found {
            Some(found) => *found,
            None if asked == OLDEST_MAX => continue,
            None => {
                asked += 1;
                (agent.waiting, oldest_of(client, &agent.name)?)
            }
        };
        agent.oldest = found.1;
        known.insert(agent.name.clone(), found);
    }
    Ok(())
}

/// The time when the oldest message in an agent's inbox was accepted. `None` if there is none, or
/// if this client may not look into it.
fn oldest_of(client: &Client, name: &str) -> Result<Option<u64>, Failure> {
    let request =
        |Page { cursor, limit }| InboxRequest { of: Some(name.to_owned()), cursor, limit };
    let mut oldest = None;
    let listed = each_row(client, RequestName::Inbox, 1, request, |_, row| {
        oldest = Some(row.taken);
        Ok(false)
    });
    match listed {
        Err(failure) if !failure.is_refused() => Err(failure),
        _ => Ok(oldest),
    }
}

/// The newest messages in the person's mailbox, the newest last.
fn mailbox_of(client: &Client, count: u64) -> Result<Vec<Message>, Failure> {
    let mut messages = VecDeque::new();
    if count == 0 {
        // Only operators have a mailbox and may ask for it.
        return Ok(Vec::new());
    }
    let request = |Page { cursor, limit }| InboxRequest { of: None, cursor, limit };
    each_row(client, RequestName::Inbox, LETTERS_MAX, request, |_, row| {
        if !mailbox::is_being_stored(row) {
            if messages.len() == LETTERS_MAX {
                messages.pop_front();
            }
            messages.push_back(Message { key: row.id.clone().into_owned(), ..message_of_row(row) });
        }
        Ok(true)
    })?;
    Ok(messages.into())
}

/// The newest dead letters, the newest last.
fn dead_letters(client: &Client) -> Result<Vec<Message>, Failure> {
    let mut letters = Vec::new();
    each_row(
        client,
        RequestName::DeadLetters,
        LETTERS_MAX,
        |page| page,
        |_, row| {
            let state = DeliveryWords::of(row);
            let code = escaped(row.delivery.code.as_deref().unwrap_or_default());
            let why = match state.reason {
                Some(reason) => format!("{code}: {reason}"),
                None => code,
            };
            let time = moment::short(row.delivery.ended.unwrap_or(row.taken));
            letters.push(Message {
                key: row.id.clone().into_owned(),
                to: with_topic(&row.to, row.topic.as_deref()),
                why: Some(why),
                time,
                ..message_of_row(row)
            });
            Ok(letters.len() < LETTERS_MAX)
        },
    )?;
    letters.reverse();
    Ok(letters)
}

/// A message of the history.
fn message_of_row(row: &MessageRow<'_>) -> Message {
    let to = if row.to_everyone { EVERYONE } else { &row.to };
    let text = row.payload.map_or_else(|| LONG.to_owned(), payload_text);
    let short = moment::short(row.taken);
    Message {
        key: format!("{} {}", row.from, row.send_id),
        id: row.id.clone().into_owned(),
        short: short_id(&row.id),
        // Messages of today are shown with seconds, as new ones are.
        time: if short.contains(':') { moment::time(row.taken) } else { short },
        from: escaped(&row.from),
        to: with_topic(to, row.topic.as_deref()),
        conversation: Conversation::of_row(row),
        text: beginning(text),
        why: None,
    }
}

/// A message or an answer that was routed just now.
fn message_of_copy(copy: &TapCopy<'_>) -> Message {
    let id = tap::id(copy);
    let text = match (&copy.answer, copy.payload) {
        (Some(_), _) => tap::text(copy),
        (None, Some(payload)) => payload_text(payload),
        (None, None) => LONG.to_owned(),
    };
    // The history has the answer under such an id, too.
    let answer = copy.answer.as_ref().and(copy.id.as_deref()).map(|id| format!("{ANSWER}-{id}"));
    Message {
        key: format!("{} {}", copy.from, answer.as_deref().unwrap_or(&copy.send_id)),
        id: id.to_owned(),
        short: short_id(id),
        time: moment::time(clock::unix_ms()),
        from: escaped(&copy.from),
        to: with_topic(&copy.to, copy.topic.as_deref()),
        conversation: Conversation::of_copy(copy),
        text: beginning(text),
        why: None,
    }
}

/// The message to several agents that this one, to this agent, is part of.
fn whole(part: Message, several: Option<Several>, to: &str, topic: Option<&str>) -> Message {
    match several {
        Some(several) => {
            let to = with_topic(&several.recipients(to), topic);
            Message { key: several.key, to, ..part }
        }
        None => part,
    }
}

fn with_topic(to: &str, topic: Option<&str>) -> String {
    let topic = topic.map(|topic| format!(" on {}", escaped(topic))).unwrap_or_default();
    format!("{}{topic}", escaped(to))
}

/// The beginning of a text, escaped.
fn beginning(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS) {
        text.truncate(end);
        text.push_str(CUT);
    }
    escaped_text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_escaped_and_cut() {
        let copied = |members: &str| {
            let json = format!(
                r#"{{"send_id":"3f2504e0-4f89","from":"Ann","to":"Bob","topic":"a.b","recipients":1,
                "requires_ack":true{members}}}"#
            );
            message_of_copy(&serde_json::from_str(&json).unwrap())
        };
        let message =
            copied(r#","payload":{"kind":"message","body":"one\n\ttwo\u001b[2J  three"}"#);
        assert_eq!(message.text, "one\n\ttwo\\u{1b}[2J  three");
        assert_eq!((&*message.short, &*message.to), ("3f2504e0", "Bob on a.b"));
        let answer = r#","id":"1a2b3c4d-55f7","answer":{"id":"5e6f7a8b-55f7","response":true}"#;
        let answer = copied(answer);
        assert_eq!((&*answer.key, &*answer.short), ("Ann answer-1a2b3c4d-55f7", "5e6f7a8b"));
        assert_eq!(answer.line(80), "re 1a2b3c4d: yes");
        let json = r#"{"send_id":"3f2504e0-4f89","from":"Cid","to":"Bob","recipients":1,"requires_ack":true}"#;
        let of_another = message_of_copy(&serde_json::from_str(json).unwrap());
        assert_ne!(of_another.key, message.key, "ids are those of their sender");
        let parts = ["one", "one", "two"].map(|text| {
            let json = format!(
                r#"{{"send_id":"{text}","from":"Cid","to":"Bob","recipients":1,"requires_ack":true,
                "payload":{{"body":"{text}"}},
                "payload_meta":{{"group":{{"id":"g","name":"@all","size":3}}}}}}"#
            );
            let copy = serde_json::from_str(&json).unwrap();
            whole(message_of_copy(&copy), Several::of_copy(&copy), "Bob", Some("t"))
        });
        assert_eq!(parts[0].to, "Bob and 2 more (@all) on t");
        assert_eq!(parts[0].key, parts[1].key);
        assert_ne!(parts[0].key, parts[2].key, "another text is not hidden");
        let long = format!(r#","payload":{{"kind":"message","body":"{}"}}"#, "é".repeat(100_000));
        assert_eq!(copied(&long).text, format!("{}{CUT}", "é".repeat(TEXT_CHARS)));
    }
}
