//! The part of the loop that tracks the present hosts, and announces this one.

use super::{BEAT_MIN, Bridge, DEPUTY, End, Settings, limit};
use crate::{
    local::ToLocal,
    outbox,
    presence::{self, BEAT_BYTES_MAX, Beat, VERSION},
    subject::{self, Token},
};
use async_nats::Message;
use machines::{border::EARLIER_AGENTS_MAX, details, exports::Exported, selector::listed};
use protocol::name::Name;
use std::{
    mem,
    time::{Duration, Instant},
};

/// The bytes of a beat's member `details`, besides its value.
const DETAILS_MEMBER_BYTES: usize = 16;

impl Bridge<'_> {
    /// Handles what came on a subject of presence.
    pub(super) fn beat_came(&mut self, message: &Message) {
        // The subject shows who published; others may have made the server send it here.
        let Some(host) = subject::present(&message.subject) else {
            let line = format!("received an invalid beat; {DEPUTY}; ignored");
            self.report("presence", &line);
            return;
        };
        let mut outputs = Vec::new();
        let input = presence::Input::Beat(&host, &message.payload);
        self.presence.handle(Instant::now(), input, &mut outputs);
        let asked = outputs.contains(&presence::Output::Answer);
        self.present(outputs);
        if asked {
            self.beat(false, false);
        }
    }

    pub(super) fn present(&mut self, outputs: Vec<presence::Output>) {
        let is_present =
            |output: &presence::Output| matches!(output, presence::Output::Present(..));
        if outputs.iter().any(is_present) {
            self.warn_of_excess();
        }
        for output in outputs {
            match output {
                presence::Output::Present(host, names) => {
                    let names = self.settings.imported(&host, names);
                    let list = listed(&names);
                    let (came, agents) = (host.to_string(), names.iter().map(Name::to_string));
                    let agents = agents.collect();
                    self.reporter.update(move |report| report.host_came(&came, agents));
                    let token = Token::of_host(&host);
                    let is_known = self.presences.contains_key(&token);
                    // A host with constantly changing agents gets one line now and then.
                    let topic =
                        if is_known { format!("exports {host}") } else { format!("here {host}") };
                    self.say(&topic, &format!("{host} is here: {list}"));
                    self.last_presence += 1;
                    let presence =
                        *self.presences.entry(token.clone()).or_insert(self.last_presence);
                    self.to_local.push_back(ToLocal::Present(host, names, presence));
                    self.carry(outbox::Input::Restarted(token));
                }
                presence::Output::Stated(host, details) => {
                    let host = host.to_string();
                    self.reporter.update(move |report| report.host_stated(&host, details));
                }
                presence::Output::Absent(host) => {
                    self.say(&format!("gone {host}"), &format!("{host} is gone"));
                    let gone = host.to_string();
                    self.reporter.update(move |report| report.host_left(&gone));
                    let token = Token::of_host(&host);
                    self.presences.remove(&token);
                    self.carry(outbox::Input::Absent(token));
                    self.to_local.push_back(ToLocal::Absent(host));
                }
                presence::Output::Restarted(host) => self.carry(outbox::Input::Restarted(host)),
                presence::Output::Refused(host, why) => {
                    let line = format!("{host} is refused: {why}");
                    self.report(&format!("beat {host}"), &line);
                }
                presence::Output::NoBeat(host) => {
                    let line = format!("an answer of JetStream came as a beat of {host}; {DEPUTY}");
                    self.report(&format!("no beat {host}"), &line);
                }
                presence::Output::Answer => {}
                presence::Output::Taken => self.end = Some(End::Taken),
            }
        }
    }

    /// Exports other agents, and tells the other hosts.
    pub(super) fn exports_changed(&mut self, exported: Exported) {
        if exported.left_out != self.exported.left_out
            && let Some(line) = exported.excess()
        {
            self.report("left out", &line);
        }
        let before = mem::replace(&mut self.exported, exported).agents;
        if before != self.exported.agents {
            self.warn_of_excess();
            self.beat(false, false);
        }
    }

    /// Lists the exported agents that hosts of an earlier version do not accept.
    fn warn_of_excess(&mut self) {
        let (first, agents) = (EARLIER_AGENTS_MAX, &self.exported.agents);
        if agents.len() <= first {
            return;
        }
        let (count, rest) = (agents.len(), listed(&agents[first..]));
        let hosts: Vec<_> = self.presence.earlier().map(ToString::to_string).collect();
        for host in hosts {
            let line = format!(
                "{host} has an earlier version of agent-relay-nats, which takes {first} agents of \
                 {count}: not {rest}"
            );
            self.say(&format!("earlier {host}"), &line);
        }
    }

    /// Does the regular work of a beat.
    pub(super) fn period(&mut self) {
        // The event of a new server is dropped if there are too many.
        self.carry(outbox::Input::Limit(limit(&self.link)));
        self.beat(false, false);
    }

    pub(super) fn beat(&mut self, ask: bool, bye: bool) {
        let now = Instant::now();
        if now.saturating_duration_since(self.last_beat) < BEAT_MIN || !self.link.is_connected() {
            return;
        }
        self.last_beat = now;
        let age = self.presence.age(now);
        let (settings, stream_bytes) = (self.settings, self.stream_bytes);
        let exported = &self.exported;
        let own = Own { settings, instance: self.instance, stream_bytes, exported };
        let beat = own.beat(age, ask, bye);
        // If this beat is lost, the next one or the silence counts.
        self.link.publish_now(subject::presence(&self.here), beat);
    }
}

/// The source of this bridge's announcements.
pub(super) struct Own<'a> {
    pub(super) settings: &'a Settings,
    pub(super) instance: u64,
    pub(super) stream_bytes: Option<i64>,
    pub(super) exported: &'a Exported,
}

impl Own<'_> {
    /// A beat as the bytes of a message.
    pub(super) fn beat(&self, age: Duration, ask: bool, bye: bool) -> bytes::Bytes {
        let mut exports: Vec<_> = self.exported.agents.iter().map(Name::to_string).collect();
        let more = exports.split_off(exports.len().min(EARLIER_AGENTS_MAX));
        let beat = Beat {
            version: VERSION,
            host: self.settings.here.to_string(),
            instance: presence::instance(self.instance),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            exports,
            more,
            takes_more: true,
            takes_topics: !self.settings.topics.is_empty(),
            stream_bytes: self.stream_bytes,
            ask,
            bye,
            details: details::All::new(),
        };
        let bytes = |beat: &Beat| serde_json::to_vec(beat).expect("a beat is JSON");
        // A longer beat would not be read.
        let room = BEAT_BYTES_MAX.saturating_sub(bytes(&beat).len() + DETAILS_MEMBER_BYTES);
        bytes(&Beat { details: details::fitting(&self.exported.details, room), ..beat }).into()
    }
}
