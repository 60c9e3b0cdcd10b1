//! What the simulated clients do, and what happens to them.

use super::{
    Actor, Checked, FAILURES_MAX, NAMES, PATTERNS, TOPICS, Tenure, World, audit::ensure, limits,
    model::Said,
};
use crate::{
    protocol::{
        code::{ErrorCode, Violation},
        envelope::{Header, Kind},
        topic::Pattern,
    },
    router::{ClientId, Input},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl World {
    pub(super) fn join(&mut self) -> Checked {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.actors.insert(id, Actor::default());
        self.handle(Input::Connected(id))?;
        if self.one_in(8) {
            return Ok(());
        }
        let name = NAMES[self.below(NAMES.len())];
        let name = if self.one_in(2) { name.to_uppercase() } else { name.to_owned() };
        let token = self.some_token(&name.to_lowercase());
        if let Some(token) = &token {
            self.claim(id, token.clone());
        }
        if token.is_some() && self.one_in(3) {
            self.say_resume(id, &json!({"agent": name, "resume_token": token}))?;
            if self.actors.get(&id).is_none_or(|actor| actor.name.is_some()) {
                return Ok(());
            }
        }
        let most = [0, 1, 2, 256][self.below(4)];
        let (ack, resume) = (!self.one_in(8), self.one_in(2));
        let capabilities = json!({"ack": ack, "resume": resume, "max_inflight": most});
        let mut hello = json!({"agent": name, "capabilities": capabilities});
        if self.one_in(8) {
            hello = json!({"mode": "guest"});
        }
        hello["session"] = json!({"resume_token": token});
        self.say(id, Header::new(Kind::Hello, "h", 1), &hello)
    }

    /// A token for a name: mostly its own, but also one that is used up, another's, or made up.
    fn some_token(&mut self, name: &str) -> Option<String> {
        let kind = self.below(8);
        let own = self.tenures.get(name);
        match kind {
            0..4 => own.map(|tenure| tenure.token.clone()),
            4 => own.and_then(|tenure| tenure.spent.clone()),
            5 => self.tenures.values().next().map(|tenure| tenure.token.clone()),
            6 => Some("stolen".to_owned()),
            _ => None,
        }
    }

    pub(super) fn claim(&mut self, id: ClientId, token: String) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.claim = Some(token);
        }
    }

    pub(super) fn resume(&mut self) -> Checked {
        let agent = |name: &String| !name.starts_with('@');
        let Some(id) = self.some_actor(|actor| actor.name.as_ref().is_some_and(agent)) else {
            return Ok(());
        };
        self.say_resume(id, &json!({}))
    }

    /// RESUME of streams that were heard, or of all, from where they were heard to, or from elsewhere.
    pub(super) fn say_resume(&mut self, id: ClientId, more: &Value) -> Checked {
        let Some(actor) = self.actors.get(&id) else { return Ok(()) };
        let name = match &actor.name {
            Some(name) => name.clone(),
            None => more["agent"].as_str().unwrap_or_default().to_lowercase(),
        };
        let mut places = self.model.places(&name);
        let (back, forwards) = (self.below(4) as u64, u64::from(self.one_in(5)));
        for place in &mut places {
            place.last_seq = place.last_seq.saturating_sub(back) + forwards;
        }
        let mut resume = more.clone();
        if self.one_in(3) {
            let last = places.iter().map(|place| place.last_seq).min().unwrap_or(0);
            places.iter_mut().for_each(|place| place.last_seq = last);
            let topics: Vec<_> = TOPICS.into_iter().chain([""]).collect();
            resume["streams"] =
                topics.iter().map(|topic| (*topic, json!({"last_seq": last}))).collect();
        } else {
            resume["streams"] = places
                .iter()
                .map(|place| {
                    json!({"topic": place.topic, "peer": place.peer, "last_seq": place.last_seq})
                })
                .collect();
        }
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.asked = places;
        }
        self.say(id, Header::new(Kind::Resume, "r", 1), &resume)
    }

    pub(super) fn vanish(&mut self) -> Checked {
        let Some(id) = self.some_actor(|_| true) else { return Ok(()) };
        if self.one_in(4) {
            self.say(id, Header::new(Kind::Bye, "b", 1), &json!({"reason": "enough"}))?;
            if self.one_in(2) {
                return Ok(());
            }
        }
        self.disconnect(id)
    }

    pub(super) fn disconnect(&mut self, id: ClientId) -> Checked {
        self.handle(Input::Disconnected(id))
    }

    /// SEND: to one, to all, to a topic, or once more; floods are many in a row.
    pub(super) fn speak(&mut self) -> Checked {
        let Some(id) = self.some_member() else { return Ok(()) };
        let times = if self.one_in(10) { 12 } else { 1 };
        for _ in 0..times {
            let Some(name) = self.actors.get(&id).and_then(|actor| actor.name.clone()) else {
                return Ok(());
            };
            if self.one_in(5)
                && let Some(again) = self.model.repeatable(&name)
            {
                self.send(id, again)?;
                continue;
            }
            let said = self.new_said(name);
            self.send(id, said)?;
        }
        Ok(())
    }

    pub(super) fn new_said(&mut self, from: String) -> Said {
        let number = self.next_send;
        self.next_send += 1;
        let (to, topic) = match self.below(10) {
            0..6 => {
                let topic = self.one_in(4).then(|| TOPICS[self.below(TOPICS.len())]);
                (Some(self.recipient()), topic)
            }
            6..8 => (Some("*"), None),
            _ => (None, Some(TOPICS[self.below(TOPICS.len())])),
        };
        let ttl = self.one_in(5).then(|| self.below(2_000) as u64);
        let length = if self.one_in(10) { 900 } else { self.below(60) };
        Said {
            id: format!("s{number}"),
            from,
            to,
            topic,
            requires_ack: self.one_in(2),
            ttl,
            payload: format!("{{ \"body\":\"{}\",\"n\":{number}}}", "x".repeat(length)),
        }
    }

    /// Somebody who is here, most of the time.
    pub(super) fn recipient(&mut self) -> &'static str {
        let members = self.members();
        let here: Vec<_> = NAMES.into_iter().filter(|name| members.contains_key(*name)).collect();
        match self.pick(&here) {
            Some(name) if !self.one_in(5) => name,
            _ => NAMES[self.below(NAMES.len())],
        }
    }

    /// Who isn't read from takes its answers before it says more: what is said is heard in its own step.
    pub(super) fn be_read(&mut self, id: ClientId) -> Checked {
        let is_gated = self.router.clients.get(&id).is_some_and(|client| client.is_gated);
        if is_gated { self.write_all(id) } else { Ok(()) }
    }

    pub(super) fn send(&mut self, id: ClientId, said: Said) -> Checked {
        self.be_read(id)?;
        let here = self.recipients(id, &said);
        self.model.begin(&said, here);
        let mut meta = json!({"requires_ack": said.requires_ack});
        if let Some(ttl) = said.ttl {
            meta["ttl_ms"] = json!(ttl);
        }
        let (mut bytes, meta) = (Vec::new(), meta.to_string());
        let header =
            Header { to: said.to, topic: said.topic, ..Header::new(Kind::Send, &said.id, 1) };
        header.append_raw(&mut bytes, &[("payload", &said.payload), ("payload_meta", &meta)]);
        self.note(|| {
            let Said { id, from, to, topic, requires_ack, .. } = &said;
            format!("{from} SEND {id} to {to:?} #{topic:?} ack {requires_ack}")
        });
        self.handle(Input::Frame(id, &bytes[4..]))
    }

    /// Who hears it, by the rules: nobody's queue is known here.
    pub(super) fn recipients(&self, sender: ClientId, said: &Said) -> BTreeSet<String> {
        let hears = |tenure: &Tenure, topic: &str| {
            let is_here = tenure.away_since.is_none();
            let waits = said.requires_ack && tenure.resumes && tenure.acknowledges;
            let mut patterns = tenure.patterns.iter();
            (is_here || waits && tenure.is_good_at(self.now))
                && patterns.any(|pattern| Pattern::parse(pattern).unwrap().matches(topic))
        };
        let mut names: BTreeSet<_> = match (said.to, said.topic) {
            (Some(name), _) if name != "*" => return BTreeSet::from([name.to_owned()]),
            (_, Some(topic)) => {
                let all = self.tenures.iter().filter(|(_, tenure)| hears(tenure, topic));
                all.map(|(name, _)| name.clone()).collect()
            }
            (_, None) => self.members().into_keys().collect(),
        };
        let own = self.actors[&sender].name.clone();
        names.retain(|name| !name.starts_with('@') && own.as_ref() != Some(name));
        names
    }

    pub(super) fn acknowledge(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let count = self.actors[&id].heard.len();
        if self.one_in(3) {
            while let Some(heard) = self.actors.get_mut(&id).and_then(|actor| actor.heard.pop()) {
                self.ack(id, &heard, None)?;
            }
            return Ok(());
        }
        let place = self.below(count);
        let heard = self.actors[&id].heard[place].clone();
        let cumulative = self.one_in(3).then_some(u64::MAX);
        self.ack(id, &heard, cumulative)
    }

    pub(super) fn ack(
        &mut self,
        id: ClientId,
        heard: &super::Heard,
        cumulative: Option<u64>,
    ) -> Checked {
        self.be_read(id)?;
        self.model.acknowledges(&heard.key, cumulative.is_some());
        let mut ack = json!({"ack_id": heard.id});
        if let Some(seq) = cumulative {
            ack["cumulative_seq"] = json!(seq);
        }
        self.say(id, Header::new(Kind::Ack, "a", 1), &ack)
    }

    pub(super) fn give_back(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let place = self.below(self.actors[&id].heard.len());
        let heard = self.actors[&id].heard[place].clone();
        self.be_read(id)?;
        let mut nack = json!({"ack_id": heard.id, "code": "LATER"});
        if !self.one_in(4) {
            nack["retry_after_ms"] = json!(self.below(400));
            self.model.gives_back(&heard.key);
        } else {
            self.model.refuses(&heard.key);
        }
        self.say(id, Header::new(Kind::Nack, "n", 1), &nack)
    }

    /// A message that whoever hears it fails at, again and again.
    pub(super) fn kill_readers(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| actor.name.is_some() && !actor.heard.is_empty())
        else {
            return Ok(());
        };
        let heard = self.actors[&id].heard[0].clone();
        for _ in 0..FAILURES_MAX {
            if self.actors.get(&id).is_none_or(|actor| actor.name.is_none()) {
                return Ok(());
            }
            self.be_read(id)?;
            self.model.gives_back(&heard.key);
            let nack = json!({"ack_id": heard.id, "code": "LATER", "retry_after_ms": 0});
            self.say(id, Header::new(Kind::Nack, "n", 1), &nack)?;
            self.write_all(id)?;
            self.wait(50)?;
        }
        Ok(())
    }

    /// Some of what was handed out is written, to the last byte or not.
    pub(super) fn read(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| !actor.stalls && !actor.unwritten.is_empty()) else {
            return Ok(());
        };
        let all = self.actors[&id].unwritten_bytes();
        let bytes = if self.one_in(3) { 1 + self.below(all) } else { all };
        self.write(id, bytes)?;
        if let Some(actor) = self.actors.get_mut(&id)
            && let Some(nonce) = actor.nonce.take()
            && actor.name.is_some()
        {
            return self.say(id, Header::new(Kind::Pong, "p", 1), &json!({"nonce": nonce}));
        }
        Ok(())
    }

    pub(super) fn write_all(&mut self, id: ClientId) -> Checked {
        match self.actors.get(&id).map(Actor::unwritten_bytes) {
            None | Some(0) => Ok(()),
            Some(bytes) => self.write(id, bytes),
        }
    }

    pub(super) fn write(&mut self, id: ClientId, bytes: usize) -> Checked {
        let Some(actor) = self.actors.get_mut(&id) else { return Ok(()) };
        actor.written += bytes;
        while let Some(first) = actor.unwritten.front()
            && first.bytes <= actor.written
        {
            actor.written -= first.bytes;
            if let Some(key) = actor.unwritten.pop_front().and_then(|handed| handed.once) {
                self.model.was_written(&key);
            }
        }
        self.handle(Input::Written(id, bytes))
    }

    pub(super) fn subscribe(&mut self) -> Checked {
        let Some(id) = self.some_member() else { return Ok(()) };
        let pattern = PATTERNS[self.below(PATTERNS.len())];
        let kind = if self.one_in(3) { Kind::Unsubscribe } else { Kind::Subscribe };
        let name = self.actors[&id].name.clone().unwrap_or_default();
        self.say(id, Header { topic: Some(pattern), ..Header::new(kind, "t", 1) }, &json!({}))?;
        let Some(Tenure { patterns, .. }) = self.tenures.get_mut(&name) else { return Ok(()) };
        let parsed = Pattern::parse(pattern).expect("it is one");
        let session = self.router.roster.find(&name).map(|agent| self.router.session_of(agent));
        let is_taken = session.is_some_and(|session| session.subscriptions.contains(&parsed));
        match kind {
            Kind::Unsubscribe => patterns.remove(pattern),
            _ if patterns.len() == limits().subscriptions_max => false,
            _ if is_taken => patterns.insert(pattern),
            _ => {
                let is_full = !self.router.has_room_to_subscribe(&parsed);
                return ensure(is_full, || format!("{name} may not hear {pattern}"));
            }
        };
        Ok(())
    }

    /// What no good client says; nobody else may notice.
    pub(super) fn lie(&mut self) -> Checked {
        let Some(id) = self.some_actor(|actor| !actor.is_closing) else { return Ok(()) };
        let own = self.actors[&id].name.as_deref();
        let mut heard = self.actors.values().flat_map(|actor| &actor.heard);
        let foreign = heard.find(|heard| own != Some(&*heard.key.1));
        let foreign = foreign.map_or_else(|| "none".to_owned(), |heard| heard.id.clone());
        let is_member = self.actors[&id].name.is_some();
        let header = |kind| Header::new(kind, "l", 1);
        match self.below(8) {
            0 => self.frame(id, b"[]"),
            1 => {
                self.frame(id, b"{\"v\":1,\"type\":\"WHAT\",\"id\":\"i\",\"ts\":1,\"payload\":{}}")
            }
            2 => self.say(id, header(Kind::Welcome), &json!({"agent": "ann"})),
            3 => self.say(id, header(Kind::Hello), &json!({"agent": "admin"})),
            4 if is_member => self.say(id, header(Kind::Ack), &json!({"ack_id": foreign})),
            5 if is_member => {
                let forged = Header { from: Some("root"), to: Some("ann"), ..header(Kind::Send) };
                self.say(id, forged, &json!({"body": "forged"}))
            }
            6 if is_member => {
                let request = Header { to: Some("@relay"), ..header(Kind::Send) };
                self.say(id, request, &json!({"kind": "request", "body": "tap"}))
            }
            _ => {
                let broken = Violation::new(ErrorCode::FrameTooLarge, "too large");
                self.handle(Input::Violated(id, broken))
            }
        }
    }

    pub(super) fn stall(&mut self) -> Checked {
        if let Some(id) = self.some_actor(|_| true)
            && let Some(actor) = self.actors.get_mut(&id)
        {
            actor.stalls = !actor.stalls;
        }
        Ok(())
    }

    /// The daemon itself is stopped for a while.
    pub(super) fn sleep(&mut self) -> Checked {
        self.now += 1 + self.below(30_000) as u64;
        let now = self.now;
        self.note(|| format!("slept until {now}"));
        self.handle(Input::Tick)
    }

    pub(super) fn wait(&mut self, ms: u64) -> Checked {
        let until = self.now + ms;
        while let Some(due) = self.router.deadline().filter(|due| due.0 <= until) {
            self.now = self.now.max(due.0);
            self.handle(Input::Tick)?;
        }
        self.now = until;
        Ok(())
    }
}
