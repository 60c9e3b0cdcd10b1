//! What commands have in common: checked names, times, and what the daemon answers.

use super::{
    Failure,
    identity::{Identity, or_print},
    place::{Asked, Place},
    print::{foreign_line, say},
};
use crate::{
    client::{Client, ClientError, Delivery, Event, Settings, State},
    protocol::{
        code::NackCode,
        name::{GUEST, Name},
        payload::{IMPORTANCE_MAX, Nack, THREAD_BYTES_MAX},
        relay::{AgentRow, Agents, Page, Process, Status},
        typed,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Rows of a list that are asked for at once.
const ROWS: usize = 500;

/// What a guest is told who would rather be the operator.
const NO_KEY: &str = "; you are a guest there, since its operator.key is not in your home: name the \
                      daemon's home with --home";

/// Joins the daemon that runs, as who this process is.
pub(super) fn join(asked: &Asked) -> Result<Client, Failure> {
    let joined = asked.place().and_then(|place| {
        let identity = Identity::of_process(&place)?;
        place.join(&|endpoint| identity.settings(endpoint))
    });
    joined.map_err(or_print)
}

/// A guest at the daemon that runs.
pub(super) fn guest(place: &Place) -> Result<Client, Failure> {
    place.join(&|endpoint| Settings::guest(endpoint))
}

/// The answer's `data`.
pub(super) fn ask(client: &Client, body: &str, data: Option<&RawValue>) -> Result<String, Failure> {
    let answer = client.request(body, data).map_err(|error| match error {
        // What was named is no mistake of the request's.
        ClientError::Refused(nack) if nack.code == NackCode::NotFound.as_str() => {
            let why = foreign_line(&nack.message);
            Failure::failed(format!("{why}: inbox, history and dead-letters show ids"))
        }
        ClientError::Refused(nack) => Failure::failed(format!(
            "the daemon refused `{body}`: {} ({}){}",
            foreign_line(&nack.message),
            foreign_line(&nack.code),
            if is_shut_out(client, &nack) { NO_KEY } else { "" }
        )),
        other => other.into(),
    })?;
    Ok(data_of(&answer).unwrap_or("{}").to_owned())
}

/// Whether more would be allowed to who has the key that runs the place.
fn is_shut_out(client: &Client, nack: &Nack) -> bool {
    client.name().starts_with(GUEST) && nack.code == NackCode::Forbidden.as_str()
}

pub(super) fn data_of(delivery: &Delivery) -> Option<&str> {
    delivery.data.as_deref().map(RawValue::get)
}

/// Reads an answer of the daemon's.
pub(super) fn read<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T, Failure> {
    typed::read(json).map_err(|why| {
        Failure::failed(format!("the daemon's answer to `{what}` can't be read: {why}"))
    })
}

/// What the daemon says about its process; an older one says nothing.
pub(super) fn about(client: &Client) -> Result<Option<Process<'static>>, Failure> {
    let json = ask(client, "status", None)?;
    let status: Status<'_> = read("status", &json)?;
    let Some(daemon) = status.daemon else { return Ok(None) };
    let it: Process<'_> = read("status", daemon.get())?;
    Ok(Some(Process {
        pid: it.pid,
        endpoint: it.endpoint.into_owned().into(),
        home: it.home.into_owned().into(),
        left: it.left.map(|left| left.into_owned().into()),
        ..it
    }))
}

/// Shows `each` every agent that the daemon knows, page by page.
pub(super) fn each_agent(
    client: &Client,
    mut each: impl FnMut(AgentRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut page = Page { cursor: None, limit: Some(ROWS) };
    loop {
        let data = serde_json::value::to_raw_value(&page).expect("a page is JSON");
        let json = ask(client, "agents", Some(&data))?;
        let Agents { agents, next_cursor } = read("agents", &json)?;
        agents.into_iter().try_for_each(&mut each)?;
        let next = next_cursor.map(Into::into);
        if next.is_none() || next == page.cursor {
            return Ok(());
        }
        page.cursor = next;
    }
}

/// What else happens while a command waits, said in passing.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// The daemon was lost, which is said once.
    is_away: bool,
}

impl Aside {
    pub(super) fn note(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::State(State::Backoff { why, .. }) if !self.is_away => {
                self.is_away = true;
                say(format_args!("{}; trying again", foreign_line(&why)));
            }
            Event::State(State::Ready(_)) if self.is_away => {
                self.is_away = false;
                say("connected again");
            }
            Event::Complaint(fault) => {
                let (message, code) = (foreign_line(&fault.message), foreign_line(&fault.code));
                say(format_args!("{message} ({code})"));
            }
            Event::Missed { why } => {
                let why = foreign_line(&why);
                say(format_args!("messages sent at most once may be missing: {why}"));
            }
            Event::Ended(ended) => return Err(ended.into()),
            Event::State(_)
            | Event::Delivered(_)
            | Event::Accepted { .. }
            | Event::Refused { .. }
            | Event::Answered { .. }
            | Event::Busy { .. }
            | Event::Subscribed { .. } => {}
        }
        Ok(())
    }
}

/// The name that is here and looks most like one that nobody has.
pub(super) fn nearest(wanted: &str, client: &Client) -> Option<String> {
    let mut here = Vec::new();
    let listed = each_agent(client, |agent| {
        here.extend(agent.here.then(|| agent.name.into_owned()));
        Ok(())
    });
    // Without a list there is no advice, and the refusal itself is said anyway.
    listed.ok().and_then(|()| closest(wanted, here.into_iter()))
}

pub(super) fn closest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let allowed = (wanted.chars().count() / 3).clamp(1, 3);
    names
        .map(|name| (distance(&wanted.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Characters to be added, left out or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, character) in one.chars().enumerate() {
        let mut corner = above;
        row[0] = above + 1;
        for (place, candidate) in other.iter().enumerate() {
            let replaced = corner + usize::from(character != *candidate);
            corner = row[place + 1];
            row[place + 1] = replaced.min(corner + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// Checks the name of an option.
pub(super) fn agent_name(text: &str) -> Result<String, String> {
    let text = super::argv::text(text)?;
    Name::parse(&text).map(|name| name.as_str().to_owned()).map_err(|error| format!("{error}"))
}

/// How many messages.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "a whole number of messages, 1 at least".to_owned())
}

/// A label for a conversation.
pub(super) fn label(text: &str) -> Result<String, String> {
    let text = super::argv::text(text)?;
    let is_short = text.len() <= THREAD_BYTES_MAX;
    is_short.then_some(text).ok_or_else(|| format!("a label of at most {THREAD_BYTES_MAX} bytes"))
}

/// How urgent a message is.
pub(super) fn importance(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| *number <= IMPORTANCE_MAX);
    number.ok_or_else(|| format!("a whole number from 0 to {IMPORTANCE_MAX}"))
}

/// `500ms`, `60s`, `5m`, `2h`, `1d`; a bare number is seconds.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    const NO_TIME: &str =
        "a time is a whole number and ms, s, m, h or d, such as 60s; a bare number is seconds";
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(NO_TIME.to_owned()),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NO_TIME.to_owned());
    }
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(0) => Err("no time at all is too short: give more than 0".to_owned()),
        Some(ms) => Ok(ms),
        None => Err("that is longer than this program can count".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let names = || ["Bob", "Barbara", "Cid"].into_iter().map(str::to_owned);
        assert_eq!(closest("bop", names()).as_deref(), Some("Bob"));
        assert_eq!(closest("Barbra", names()).as_deref(), Some("Barbara"));
        assert_eq!(closest("Zoe", names()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(milliseconds("60"), Ok(60_000));
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("2h"), Ok(7_200_000));
        for (wrong, why) in [
            ("", "such as 60s"),
            ("s", "such as 60s"),
            ("-1s", "such as 60s"),
            ("+1s", "such as 60s"),
            ("1.5s", "such as 60s"),
            ("1w", "a bare number is seconds"),
            ("0s", "more than 0"),
            ("0", "more than 0"),
            ("99999999999999999999d", "longer than"),
            ("999999999999999999d", "longer than"),
        ] {
            let said = milliseconds(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
