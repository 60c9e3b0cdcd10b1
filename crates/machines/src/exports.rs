//! The agents of this machine that other machines may reach: named ones, and those whose names
//! match a pattern, as long as the daemon knows them.

use super::{
    border::AGENTS_MAX,
    details,
    local::Daemon,
    selector::{Selector, listed},
};
use client::{Client, ClientError, Settings};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use details::Details;
use protocol::{
    name::Name,
    relay::{Agents, Page, RequestName},
};
use serde_json::value::to_raw_value;
use std::{io, thread, time::Duration};

/// The interval of queries for agents that match a pattern.
const PATTERNS_PERIOD: Duration = Duration::from_secs(2);

/// The interval of queries for the programs of named agents.
const DETAILS_PERIOD: Duration = Duration::from_secs(10);

/// The longest wait for an answer of the daemon.
const ANSWER: Duration = Duration::from_secs(2);

/// The most pages of the daemon's agents that are asked for.
const PAGES_MAX: usize = 64;

/// The most bytes of the exported names as a list in JSON. They have to fit into a machine's
/// announcement.
pub const NAMES_BYTES_MAX: usize = 7_168;

/// The overhead of a name in such a list, in bytes.
const QUOTES_BYTES: usize = 3;

/// The exported agents at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The agents: first the named ones, then those that match a pattern, by name.
    pub agents: Vec<Name>,
    /// The selected agents that are not exported, since there are too many.
    pub left_out: Vec<Name>,
    /// The programs and directories of the agents, if other machines get them.
    pub details: details::All,
}

impl Exported {
    /// A line for the log about the agents that are left out, if any.
    #[must_use]
    pub fn excess(&self) -> Option<String> {
        let (most, left_out) = (AGENTS_MAX, &self.left_out);
        (!left_out.is_empty()).then(|| {
            format!(
                "{} agents are not exported, since {most} agents and {NAMES_BYTES_MAX} bytes of \
                 names are the most: {}",
                left_out.len(),
                listed(left_out)
            )
        })
    }
}

/// An agent of this machine, as the daemon lists it.
#[derive(Debug)]
struct Known {
    name: Name,
    is_here: bool,
    details: Details,
}

/// The exported agents, which follow the daemon's.
#[derive(Debug)]
pub struct Exports {
    daemon: Daemon,
    selectors: Vec<Selector>,
    /// Whether other machines get the agents' programs and directories.
    tells_details: bool,
    /// The connection to the daemon, unless it is lost.
    client: Option<Client>,
    exported: Exported,
}

impl Exports {
    /// The selected agents. Only the named ones are known before [`ask`](Self::ask).
    #[must_use]
    pub fn new(daemon: Daemon, selectors: Vec<Selector>, tells_details: bool) -> Self {
        let exported = select(&selectors, &[], false);
        Self { daemon, selectors, tells_details, client: None, exported }
    }

    /// The exported agents, as far as they are known.
    #[must_use]
    pub const fn exported(&self) -> &Exported {
        &self.exported
    }

    /// Asks the daemon. Returns whether something has changed. While the daemon does not answer,
    /// its last answer counts.
    pub fn ask(&mut self) -> bool {
        if self.period().is_none() {
            return false;
        }
        let Ok(known) = self.known() else {
            self.client = None;
            return false;
        };
        let exported = select(&self.selectors, &known, self.tells_details);
        let is_changed = exported != self.exported;
        self.exported = exported;
        is_changed
    }

    /// Starts a thread that asks the daemon regularly, and calls `notify` for each change. It ends
    /// when `notify` returns false, or when the returned value is dropped.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn follow(
        mut self,
        mut notify: impl FnMut(Exported) -> bool + Send + 'static,
    ) -> io::Result<Following> {
        let (stop, stopped) = bounded(0);
        let Some(period) = self.period() else { return Ok(Following { _stop: stop }) };
        // Waits for: the daemon (2 s a page), then the end of the link, or 10 s (2 s with a
        // pattern); the channel of the link or of `local`. Not joined: ends with its link.
        thread::Builder::new().name("exports".to_owned()).spawn(move || {
            loop {
                if self.ask() && !notify(self.exported.clone()) {
                    return;
                }
                match stopped.recv_timeout(period) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Following { _stop: stop })
    }

    /// The interval of queries to the daemon; `None` if none are needed.
    fn period(&self) -> Option<Duration> {
        let has_patterns = self.selectors.iter().any(Selector::is_pattern);
        let details = self.tells_details.then_some(DETAILS_PERIOD);
        has_patterns.then_some(PATTERNS_PERIOD).or(details)
    }

    /// Asks the daemon for the agents of this machine.
    fn known(&mut self) -> Result<Vec<Known>, ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            absent => {
                let guest = Settings::guest(&self.daemon.endpoint);
                absent
                    .insert(Client::join(Settings { server: self.daemon.server.clone(), ..guest })?)
            }
        };
        let (mut all, mut page) = (Vec::new(), Page::default());
        for _ in 0..PAGES_MAX {
            let data = to_raw_value(&page).expect("a page is JSON");
            let answer = client.request_within(ANSWER, RequestName::Agents, Some(&data))?;
            let json = answer.data.as_deref().map_or("{}", |data| data.get());
            // A later daemon may answer in another form, which is ignored.
            let Agents { agents, next_cursor } = serde_json::from_str(json).unwrap_or_default();
            for row in agents {
                // The names of other machines' agents, guests and the daemon itself have other
                // forms.
                let Ok(name) = Name::parse(&row.name) else { continue };
                let program = row.program.map(Into::into);
                let details = Details { program, directory: row.directory.map(Into::into) };
                all.push(Known { name, is_here: row.here, details });
            }
            let Some(cursor) = next_cursor else { break };
            page.cursor = Some(cursor.into_owned());
        }
        Ok(all)
    }
}

/// The thread of [`Exports::follow`], which ends when this is dropped.
#[derive(Debug)]
pub struct Following {
    _stop: Sender<()>,
}

/// Selects agents. If there are too many, named ones come first, then those that are connected.
fn select(selectors: &[Selector], known: &[Known], tells_details: bool) -> Exported {
    let mut agents: Vec<_> = selectors.iter().filter_map(Selector::name).cloned().collect();
    let is_selected = |known: &&Known| selectors.iter().any(|it| it.selects(&known.name));
    let mut matching: Vec<_> = known.iter().filter(is_selected).collect();
    matching.retain(|known| !agents.contains(&known.name));
    matching.sort_by_key(|known| (!known.is_here, known.name.folded()));
    let named = agents.len();
    agents.extend(matching.into_iter().map(|known| known.name.clone()));
    let mut bytes = 0;
    let fits = |name: &&Name| {
        bytes += name.as_str().len() + QUOTES_BYTES;
        bytes <= NAMES_BYTES_MAX
    };
    let most = agents.iter().take(AGENTS_MAX).take_while(fits).count();
    let mut left_out = agents.split_off(most);
    agents[named.min(most)..].sort_by_key(Name::folded);
    left_out.sort_by_key(Name::folded);
    let exported = known.iter().filter(|it| tells_details && agents.contains(&it.name));
    let told = exported.filter(|it| it.details != Details::default());
    let details = told.map(|it| (it.name.to_string(), it.details.clone())).collect();
    Exported { agents, left_out, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str, is_here: bool) -> Known {
        let details = Details { program: Some("claude".to_owned()), directory: None };
        Known { name: Name::parse(text).unwrap(), is_here, details }
    }

    fn selectors(texts: &[&str]) -> Vec<Selector> {
        texts.iter().map(|text| Selector::parse(text).unwrap()).collect()
    }

    fn names(all: &[Name]) -> Vec<&str> {
        all.iter().map(Name::as_str).collect()
    }

    #[test]
    fn named_agents_and_those_that_match_are_exported() {
        let all = ["web-2", "Web-1", "web", "api-1", "Ann"].map(|name| known(name, true));
        let exported = select(&selectors(&["zoe", "web-*", "ann"]), &all, false);
        assert_eq!(names(&exported.agents), ["zoe", "ann", "Web-1", "web-2"]);
        assert_eq!((exported.left_out.len(), exported.details.len()), (0, 0));
        assert_eq!(exported.excess(), None);
        let exported = select(&selectors(&["*"]), &all, true);
        assert_eq!(exported.agents.len(), 5);
        assert_eq!(exported.details.len(), 5);
        let exported = select(&selectors(&["db-*"]), &all, true);
        assert_eq!(exported, Exported::default());
    }

    #[test]
    fn agents_that_are_away_are_left_out_before_connected_ones() {
        let all: Vec<_> = (0..AGENTS_MAX + 2)
            .map(|number| known(&format!("web-{number:03}"), number > 2))
            .collect();
        let exported = select(&selectors(&["web-*"]), &all, false);
        assert_eq!(exported.agents.len(), AGENTS_MAX);
        assert_eq!(names(&exported.left_out), ["web-001", "web-002"]);
        assert_eq!(exported.agents[0].as_str(), "web-000");
        let line = exported.excess().unwrap();
        let expected = "2 agents are not exported, since 256 agents and 7168 bytes of names are \
                        the most: web-001, web-002";
        assert_eq!(line, expected);
    }

    #[test]
    fn names_that_are_too_long_together_are_left_out() {
        let all: Vec<_> =
            (0..200).map(|number| known(&format!("web-{number:0>60}"), true)).collect();
        let exported = select(&selectors(&["web-*"]), &all, false);
        let json = serde_json::to_vec(&names(&exported.agents)).unwrap();
        assert!(json.len() <= NAMES_BYTES_MAX + 1, "{}", json.len());
        assert_eq!((exported.agents.len(), exported.left_out.len()), (106, 94));
    }
}
