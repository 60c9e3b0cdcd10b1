//! Requests of the commands to the daemon, and its answers.

use super::failure::Failure;
use client::{
    ANSWER_TIMEOUT, Client, ClientError, Delivery,
    home::{agent_around, nearest},
};
use protocol::{
    code::NackCode,
    name::GUEST,
    payload::Nack,
    relay::{AgentRow, Agents, Page, Process, RequestName, Status},
    text::escaped,
    typed,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::time::Duration;

/// The number of rows of a list in one request.
const ROWS: usize = 500;

/// Advice for a guest who wants to be the operator.
const NO_KEY: &str = "your home lacks the operator.key of this daemon; name its home with --home";

/// Sends a request to `@relay`, and returns the `data` of its answer.
pub(super) fn call(
    client: &Client,
    name: RequestName,
    data: Option<&RawValue>,
) -> Result<String, Failure> {
    call_within(ANSWER_TIMEOUT, client, name, data)
}

fn call_within(
    time: Duration,
    client: &Client,
    name: RequestName,
    data: Option<&RawValue>,
) -> Result<String, Failure> {
    let takes_id = matches!(name, RequestName::Message | RequestName::Redeliver);
    let answer = client.request_within(time, name, data).map_err(|error| match error {
        // The request is valid, but names an id that does not exist.
        ClientError::Refused(nack) if nack.code == NackCode::NotFound.as_str() => {
            let failure = Failure::failed(escaped(&nack.message)).refused(&nack.code);
            failure.hint("`agent-relay history` shows ids")
        }
        ClientError::Refused(nack) if nack.code == NackCode::Forbidden.as_str() => {
            forbidden(client, name, &nack)
        }
        // The beginning of several ids.
        ClientError::Refused(nack) if nack.code == NackCode::Invalid.as_str() && takes_id => {
            Failure::failed(escaped(&nack.message)).refused(&nack.code).hint("give more of it")
        }
        ClientError::Refused(nack) => {
            let why = escaped(&nack.message);
            Failure::failed(format!("the daemon refused \"{name}\": {why}")).refused(&nack.code)
        }
        other => other.into(),
    })?;
    Ok(data_of(&answer).unwrap_or("{}").to_owned())
}

/// Sends `@relay` a request with `data`, like [`call`].
pub(super) fn call_with(
    client: &Client,
    name: RequestName,
    data: &impl Serialize,
) -> Result<String, Failure> {
    call(client, name, Some(&to_raw_value(data).expect("a request is JSON")))
}

/// The failure of a request that the client may not make.
fn forbidden(client: &Client, name: RequestName, nack: &Nack) -> Failure {
    let command = match name {
        RequestName::Stop => "down",
        RequestName::Reload => "policy reload",
        name => name.as_str(),
    };
    // Everybody may ask for some rows of these lists.
    let is_partly_allowed =
        matches!(name, RequestName::Message | RequestName::Inbox | RequestName::History);
    let failure = match agent_around() {
        Some(_) if is_partly_allowed => Failure::failed(escaped(&nack.message)),
        Some(_) => operators_only(command),
        None if client.name().starts_with(GUEST) => operators_only(command),
        None => Failure::failed(escaped(&nack.message)),
    };
    failure.refused(&nack.code)
}

/// The failure of a command that needs the operator's key.
pub(super) fn operators_only(command: &str) -> Failure {
    match agent_around() {
        Some(agent) => {
            let message = format!("only you can run \"{command}\", not {}", escaped(&agent));
            Failure::failed(message).hint("use a terminal outside of agents")
        }
        None => Failure::failed(format!("a guest cannot run \"{command}\"")).hint(NO_KEY),
    }
}

/// Returns the `data` of a delivery's payload.
pub(super) fn data_of(delivery: &Delivery) -> Option<&str> {
    delivery.data.as_deref().map(RawValue::get)
}

/// Parses an answer of the daemon to a request.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    name: RequestName,
    json: &'a str,
) -> Result<T, Failure> {
    typed::read(json).map_err(|why| {
        Failure::failed(format!("the daemon's answer to `{name}` is not understood: {why}"))
    })
}

/// Asks the daemon about its process. `None` from an older daemon, which does not report it.
pub(super) fn daemon_process(client: &Client) -> Result<Option<Process<'static>>, Failure> {
    let json = call(client, RequestName::Status, None)?;
    let status: Status<'_> = parse(RequestName::Status, &json)?;
    let Some(daemon) = status.daemon else { return Ok(None) };
    let process: Process<'_> = parse(RequestName::Status, daemon.get())?;
    Ok(Some(Process {
        pid: process.pid,
        endpoint: process.endpoint.into_owned().into(),
        home: process.home.into_owned().into(),
        left: process.left.map(|left| left.into_owned().into()),
        ..process
    }))
}

/// Calls `each` with every agent that the daemon knows, page by page.
pub(super) fn each_agent(
    client: &Client,
    mut each: impl FnMut(AgentRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut page = Page { cursor: None, limit: Some(ROWS) };
    loop {
        let json = call_with(client, RequestName::Agents, &page)?;
        let Agents { agents, next_cursor } = parse(RequestName::Agents, &json)?;
        agents.into_iter().try_for_each(&mut each)?;
        let next = next_cursor.map(Into::into);
        if next.is_none() || next == page.cursor {
            return Ok(());
        }
        page.cursor = next;
    }
}

/// Calls `with` with the row of an agent, or with `None` if the daemon does not know the name.
pub(super) fn agent_row<T>(
    client: &Client,
    name: &str,
    with: impl FnOnce(Option<&AgentRow<'_>>) -> T,
) -> Result<T, Failure> {
    agent_row_within(ANSWER_TIMEOUT, client, name, with)
}

/// As [`agent_row`], with a limit for the time until the daemon answers.
pub(super) fn agent_row_within<T>(
    time: Duration,
    client: &Client,
    name: &str,
    with: impl FnOnce(Option<&AgentRow<'_>>) -> T,
) -> Result<T, Failure> {
    let page = Page { cursor: Some(just_before(name)), limit: Some(1) };
    let page = to_raw_value(&page).expect("a request is JSON");
    let json = call_within(time, client, RequestName::Agents, Some(&page))?;
    let Agents { agents, .. } = parse(RequestName::Agents, &json)?;
    Ok(with(agents.iter().find(|row| row.name.eq_ignore_ascii_case(name))))
}

/// Returns a text that is not a valid name and directly precedes `name` in the order of the
/// daemon's list.
fn just_before(name: &str) -> String {
    let mut text = name.to_ascii_lowercase();
    if let Some(last) = text.pop() {
        text.extend(char::from_u32(u32::from(last).saturating_sub(1)));
        text.push('\u{7f}');
    }
    text
}

/// Returns the name of the connected agent that is most similar to the unknown name `wanted`.
pub(super) fn nearest_agent(wanted: &str, client: &Client) -> Option<String> {
    let mut connected = Vec::new();
    let listed = each_agent(client, |agent| {
        connected.extend(agent.here.then(|| agent.name.into_owned()));
        Ok(())
    });
    // If the agents cannot be listed, the refusal is reported without a suggestion.
    listed.ok().and_then(|()| nearest(wanted, connected.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_between_a_name_and_the_text_just_before_it() {
        for name in ["Bob", "a", "x-1", "x.0", "x_"] {
            let (before, name) = (just_before(name), name.to_ascii_lowercase());
            assert!(before < name, "{name}");
            let shorter = &name[..name.len() - 1];
            for other in ["", "-", "-zz", ".", ".zz", "0", "9z", "_", "_zz", "a", "az", "bz", "zz"]
            {
                let other = format!("{shorter}{other}");
                assert!(other <= before || other >= name, "{other} {name}");
            }
        }
    }
}
