//! Groups of agents as addresses: `@reviewers` means its agents.

use super::{failure::Failure, identity::wrapper_around};
use crate::wrap::teams::{self, Sender};
use client::home::{HomeOptions, agent_around};
use platform::paths;
use protocol::{name::group_of, text::escaped};
use std::path::PathBuf;

/// Replaces each group among addresses by its agents. Each agent occurs once. A sending agent,
/// `from`, is removed from groups.
pub(super) fn expanded<'a>(
    options: &HomeOptions,
    addresses: impl IntoIterator<Item = &'a str>,
    from: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let mut agents = Vec::<String>::new();
    let mut add = |name: String| {
        if !agents.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            agents.push(name);
        }
    };
    for address in addresses {
        match group_of(address) {
            Some(_) => members(options, address, from)?.into_iter().for_each(&mut add),
            None => add(address.to_owned()),
        }
    }
    Ok(agents)
}

fn members(
    options: &HomeOptions,
    address: &str,
    from: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let around = agent_around();
    let directory = paths::current_directory().map_err(Failure::because)?;
    let sender = Sender { name: from.or(around.as_deref()), directory: Some(&directory) };
    teams::members(&home(options)?, address, &sender).map_err(|why| {
        Failure::usage(why).hint("`agent-relay team status` shows the agents of a team")
    })
}

/// The line about the groups of teams that are up, if there are any.
pub(super) fn in_words(options: &HomeOptions) -> Result<Option<String>, Failure> {
    let groups = teams::groups(&home(options)?).map_err(Failure::because)?;
    let words = groups.iter().map(|(address, agents)| format!("{address} ({})", agents.join(", ")));
    let words: Vec<_> = words.collect();
    Ok((!words.is_empty()).then(|| format!("groups: {}", escaped(&words.join(", ")))))
}

/// The home with the teams: inside an agent, its wrapper's home.
fn home(options: &HomeOptions) -> Result<PathBuf, Failure> {
    let of_wrapper = wrapper_around().and_then(|it| it.run_directory.parent().map(PathBuf::from));
    of_wrapper.map_or_else(|| Ok(options.home()?), Ok)
}
