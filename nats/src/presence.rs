//! The present hosts and the agents that they export.
//!
//! Each bridge announces itself every [`BEAT`]. A host that is silent for [`SILENCE_MAX`] is
//! absent. Only the receiver's own monotonic clock counts, so clocks of the hosts may differ.
//!
//! Two bridges of one host would share its messages, so the one that was started later ends; either
//! one if both were started at the same moment.

use crate::subject::Token;
use machines::{border::AGENTS_MAX, details};
use protocol::name::{Host, Name};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The version of what bridges exchange.
pub const VERSION: u32 = 1;

/// The time between two beats.
pub const BEAT: Duration = Duration::from_secs(2);

/// The difference in age that is ignored between two bridges, since a beat takes some time.
const SAME_AGE: Duration = Duration::from_millis(200);

/// The silence that makes a host absent.
pub const SILENCE_MAX: Duration = Duration::from_secs(7);

/// The time that a bridge waits for answers before it joins in.
pub const FIRST_ANSWERS: Duration = Duration::from_millis(500);

/// The minimum interval between two counted changes of a host, so that an unstable host does not
/// keep others busy.
pub const CHANGE_MIN: Duration = Duration::from_secs(1);

/// The greatest number of hosts.
pub const HOSTS_MAX: usize = 256;

/// The largest beat, in bytes.
pub const BEAT_BYTES_MAX: usize = 8 * 1024;

/// The characters that a report quotes of a text that another host chose.
const QUOTED_MAX: usize = 64;

/// The announcement of a host by its bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beat {
    /// The version of its exchange format.
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// The id of the bridge's process.
    pub instance: String,
    /// For how long the bridge has run.
    pub age_ms: u64,
    /// The agents that it exports; the rest of them is in `more`.
    #[serde(default)]
    pub exports: Vec<String>,
    /// The exported agents after the first 20, which is the most that an earlier version takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
    /// Whether the bridge takes `more`.
    #[serde(default)]
    pub takes_more: bool,
    /// Whether the bridge takes messages to everyone or on topics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_topics: bool,
    /// The size of its stream, if it knows it.
    #[serde(default)]
    pub stream_bytes: Option<i64>,
    /// Whether others should answer with a beat at once.
    #[serde(default)]
    pub ask: bool,
    /// Whether the bridge ends.
    #[serde(default)]
    pub bye: bool,
    /// The programs and directories of the exported agents.
    #[serde(default, skip_serializing_if = "details::All::is_empty")]
    pub details: details::All,
}

/// The members of a beat that every version has.
#[derive(Deserialize)]
struct AnyBeat {
    version: u32,
}

/// An input of [`Presence`].
#[derive(Debug)]
pub enum Input<'a> {
    /// A beat came from the bridge that may speak for this host.
    Beat(&'a Token, &'a [u8]),
    /// The deadline has passed.
    Tick,
}

/// An action for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// A host is present and exports these agents, or now exports others. If it takes messages to
    /// everyone or on topics, `all` is among them.
    Present(Host, Vec<Name>),
    /// A present host states this of its agents.
    Stated(Host, details::All),
    /// A host is absent.
    Absent(Host),
    /// The bridge of a host was started again.
    Restarted(Token),
    /// A beat is refused for this reason, which was not reported of this host before.
    Refused(Token, String),
    /// An answer of JetStream came on the subject of a host's beats.
    NoBeat(Token),
    /// Send a beat now.
    Answer,
    /// Another bridge runs for this host and has run for longer.
    Taken,
}

#[derive(Debug)]
struct Peer {
    host: Host,
    instance: String,
    exports: Vec<Name>,
    details: details::All,
    stream_bytes: Option<i64>,
    takes_more: bool,
    absent_at: Instant,
}

impl Peer {
    /// Whether `other` has the same name and exports the same agents.
    fn is_like(&self, other: &Self) -> bool {
        self.host.as_str() == other.host.as_str() && self.exports == other.exports
    }
}

/// The present hosts. The module describes it.
#[derive(Debug)]
pub struct Presence {
    here: Token,
    instance: String,
    begun: Instant,
    peers: BTreeMap<Token, Peer>,
    /// When each host last came, went or changed.
    changed: BTreeMap<Token, Instant>,
    refused: BTreeMap<Token, String>,
}

impl Presence {
    /// The initial presence for the bridge `instance` of the host `here`.
    #[must_use]
    pub fn new(here: Token, instance: String, now: Instant) -> Self {
        let (peers, changed, refused) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { here, instance, begun: now, peers, changed, refused }
    }

    /// The time of the next [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.peers.values().map(|peer| peer.absent_at).min()
    }

    /// A host in its own spelling, if it is present.
    #[must_use]
    pub fn host(&self, token: &Token) -> Option<&Host> {
        Some(&self.peers.get(token)?.host)
    }

    /// Whether a present host's bridge is this instance.
    #[must_use]
    pub fn is_instance(&self, token: &Token, instance: u64) -> bool {
        let known = self.peers.get(token).map(|peer| u64::from_str_radix(&peer.instance, 16));
        known == Some(Ok(instance))
    }

    /// The size of a present host's stream, if that host knows it.
    #[must_use]
    pub fn stream_bytes(&self, token: &Token) -> Option<i64> {
        self.peers.get(token)?.stream_bytes
    }

    /// The present hosts with bridges of an earlier version, which accept only the first agents.
    pub fn earlier(&self) -> impl Iterator<Item = &Host> {
        self.peers.values().filter(|peer| !peer.takes_more).map(|peer| &peer.host)
    }

    /// How long this bridge has run.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// Handles an input at a time.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, outputs: &mut Vec<Output>) {
        match input {
            Input::Beat(token, bytes) if is_answer(bytes) => {
                outputs.push(Output::NoBeat(token.clone()));
            }
            Input::Beat(token, bytes) => match read(token, bytes) {
                Ok((beat, peer)) => self.beat(now, token, &beat, peer, outputs),
                Err(why) => self.refuse(token, why, outputs),
            },
            Input::Tick => self.expire(now, outputs),
        }
    }

    fn beat(
        &mut self,
        now: Instant,
        token: &Token,
        beat: &Beat,
        (host, exports): (Host, Vec<Name>),
        outputs: &mut Vec<Output>,
    ) {
        if *token == self.here {
            self.own_beat(now, beat, outputs);
            return;
        }
        if beat.ask {
            outputs.push(Output::Answer);
        }
        if beat.bye {
            if self.peers.get(token).is_some_and(|peer| peer.instance == beat.instance) {
                self.remove(now, token, outputs);
            }
            return;
        }
        if self.peers.len() == HOSTS_MAX && !self.peers.contains_key(token) {
            self.refuse(token, format!("{HOSTS_MAX} hosts are here already"), outputs);
            return;
        }
        self.refused.remove(token);
        let peer = Peer {
            host,
            instance: beat.instance.clone(),
            details: details::checked(&beat.details, &exports),
            exports,
            stream_bytes: beat.stream_bytes,
            takes_more: beat.takes_more,
            absent_at: now + SILENCE_MAX,
        };
        let known = self.peers.get_mut(token);
        let is_changed = known.as_ref().is_none_or(|known| !known.is_like(&peer));
        let is_stated =
            known.as_ref().map_or(&details::All::new(), |known| &known.details) != &peer.details;
        let is_restarted = known.as_ref().is_some_and(|known| known.instance != peer.instance);
        if (is_changed || is_restarted) && !self.may_change(now, token) {
            // Its next beat counts.
            return;
        }
        if is_restarted {
            outputs.push(Output::Restarted(token.clone()));
        }
        if is_changed {
            outputs.push(Output::Present(peer.host.clone(), peer.exports.clone()));
        }
        if is_stated {
            outputs.push(Output::Stated(peer.host.clone(), peer.details.clone()));
        }
        self.peers.insert(token.clone(), peer);
    }

    /// Whether a change of a host counts now. If so, no other one does for some time.
    fn may_change(&mut self, now: Instant, token: &Token) -> bool {
        self.changed.retain(|_, at| now < *at + CHANGE_MIN);
        let may = !self.changed.contains_key(token);
        if may {
            self.changed.insert(token.clone(), now);
        }
        may
    }

    /// Handles a beat for this host: its own, or of another bridge.
    fn own_beat(&self, now: Instant, beat: &Beat, outputs: &mut Vec<Output>) {
        if beat.instance == self.instance || beat.bye {
            return;
        }
        let (own, other) = (self.age(now), Duration::from_millis(beat.age_ms));
        // The age was sent some time ago, so nearly equal ages decide nothing.
        let is_older = if own.abs_diff(other) < SAME_AGE {
            beat.instance > self.instance
        } else {
            other > own
        };
        if is_older {
            outputs.push(Output::Taken);
        } else {
            outputs.push(Output::Answer);
        }
    }

    fn expire(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let silent = self.peers.iter().filter(|(_, peer)| peer.absent_at <= now);
        for host in silent.map(|(host, _)| host.clone()).collect::<Vec<_>>() {
            self.remove(now, &host, outputs);
        }
    }

    fn remove(&mut self, now: Instant, token: &Token, outputs: &mut Vec<Output>) {
        if let Some(peer) = self.peers.remove(token) {
            self.changed.insert(token.clone(), now);
            outputs.push(Output::Absent(peer.host));
        }
    }

    /// Reports a reason once. The last valid beat counts until the host is silent.
    fn refuse(&mut self, host: &Token, why: String, outputs: &mut Vec<Output>) {
        let known = self.refused.get(host) == Some(&why);
        if known || self.refused.len() == HOSTS_MAX && !self.refused.contains_key(host) {
            return;
        }
        self.refused.insert(host.clone(), why.clone());
        outputs.push(Output::Refused(host.clone(), why));
    }
}

/// A bridge's instance, as a beat states it.
#[must_use]
pub fn instance(number: u64) -> String {
    format!("{number:016x}")
}

/// Whether bytes are an answer of JetStream's API.
fn is_answer(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let answer = serde_json::from_slice::<Answer<'_>>(bytes);
    answer.is_ok_and(|answer| answer.kind.starts_with("io.nats.jetstream.api."))
}

/// Reads a beat that came on the subject of a host, with the host and the agents that it names.
fn read(token: &Token, bytes: &[u8]) -> Result<(Beat, (Host, Vec<Name>)), String> {
    if bytes.len() > BEAT_BYTES_MAX {
        return Err(format!("its beat has more than {BEAT_BYTES_MAX} bytes"));
    }
    let unreadable = |error| format!("its beat is unreadable: {error}");
    let AnyBeat { version } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if version != VERSION {
        return Err(format!(
            "it speaks version {version}, this bridge version {VERSION}; install the same release \
             on both"
        ));
    }
    let beat: Beat = serde_json::from_slice(bytes).map_err(unreadable)?;
    let host = Host::parse(&beat.host).ok().filter(|host| Token::of_host(host) == *token);
    let host = host.ok_or_else(|| format!("its beat names the host {:?}", quoted(&beat.host)))?;
    if beat.exports.len() + beat.more.len() > AGENTS_MAX {
        return Err(format!("it exports more than {AGENTS_MAX} agents"));
    }
    let mut exports: Vec<Name> = Vec::new();
    for text in beat.exports.iter().chain(&beat.more) {
        let name = Name::parse(text)
            .map_err(|why| format!("it exports {:?}, which is no name: {why}", quoted(text)))?;
        if exports.contains(&name) {
            return Err(format!("it exports {name} twice"));
        }
        exports.push(name);
    }
    exports.sort_by_key(Name::folded);
    exports.extend(beat.takes_topics.then(Name::all));
    Ok((beat, (host, exports)))
}

/// The beginning of a text that another host chose.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}

#[cfg(test)]
mod tests;
