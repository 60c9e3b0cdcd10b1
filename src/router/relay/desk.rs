//! Requests that wait for the store, or for the policy file, so that each connection is answered in the order in which it asked.
//!
//! While the store looks something up for a connection, its later requests stand in line here. A
//! connection has one question at a time, so the answer is known by whose it is.

use super::{asked::Asked, raw};
use crate::{
    protocol::{
        code::NackCode,
        payload::{Empty, MessagePayload},
    },
    record::{Query, QueryResult},
    router::{
        ClientId, FastMap, Output, Router,
        send::{Refusal, Said},
    },
};
use std::collections::VecDeque;

/// Requests of one connection that may wait for an earlier one.
const WAITING_MAX: usize = 32;

/// What has to be done before a request is answered.
#[derive(Debug)]
pub(super) enum Errand {
    /// The store is asked.
    Query(Query),
    /// The policy file is read again.
    Reload,
}

/// Those of connections that wait for something.
pub(in crate::router) type Desks = FastMap<ClientId, Desk>;

/// One connection's.
#[derive(Debug)]
pub(in crate::router) struct Desk {
    /// What the store was asked for.
    first: Request,
    /// It was asked a second time, since what it found was overtaken.
    is_second: bool,
    /// What follows.
    waiting: VecDeque<Request>,
}

/// What a connection asked for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) client: ClientId,
    pub(super) send_id: Box<str>,
    pub(super) requires_ack: bool,
    pub(super) asked: Result<Asked, Refusal>,
}

impl Router {
    /// A SEND to `@relay`.
    pub(in crate::router) fn request(&mut self, said: &Said<'_>) {
        let envelope = said.envelope;
        let asked = match envelope.typed::<MessagePayload<'_>>(envelope.payload) {
            Ok(spoken) => Asked::read(&spoken),
            Err(violation) => Err((NackCode::Invalid, violation.message)),
        };
        let (send_id, requires_ack) = ((&*envelope.id).into(), said.requires_ack);
        let request = Request { client: said.client, send_id, requires_ack, asked };
        match self.desks.get_mut(&said.client) {
            None => self.take_up(request, VecDeque::new()),
            Some(desk) if desk.waiting.len() < WAITING_MAX => desk.waiting.push_back(request),
            Some(_) => {
                let why = format!("{WAITING_MAX} requests wait already: send it after an answer");
                self.refuse(said.client, &envelope.id, NackCode::Limit, why);
            }
        }
    }

    /// Serves a request and those that wait for it, up to the next one that the store is asked for.
    fn take_up(&mut self, request: Request, mut waiting: VecDeque<Request>) {
        let mut next = Some(request);
        while let Some(first) = next {
            match self.serve(&first) {
                Ok(None) => {}
                Ok(Some(errand)) => {
                    return self.go(errand, Desk { first, is_second: false, waiting });
                }
                Err((code, why)) => self.refuse(first.client, &first.send_id, code, why),
            }
            next = waiting.pop_front();
        }
    }

    fn go(&mut self, errand: Errand, desk: Desk) {
        let client = desk.first.client;
        // One of the requests before it may have ended everything.
        if self.seat_of(client).is_some() {
            self.out.push(match errand {
                Errand::Query(query) => Output::Query(client, Box::new(query)),
                Errand::Reload => Output::Reload(client),
            });
            self.desks.insert(client, desk);
        }
    }

    /// The store has found what was asked for. Who is gone meanwhile is forgotten here.
    pub(in crate::router) fn found(
        &mut self,
        client: ClientId,
        found: Result<QueryResult, String>,
    ) {
        let Some(desk) = self.desks.remove(&client) else { return };
        let Desk { first, is_second, waiting } = desk;
        if let Ok(found) = &found
            && !is_second
            && found.rows.iter().any(|row| self.is_overtaken(row))
            && let Ok(Some(errand)) = self.serve(&first)
        {
            return self.go(errand, Desk { first, is_second: true, waiting });
        }
        if let Err((code, why)) = self.concluded(&first, found) {
            self.refuse(client, &first.send_id, code, why);
        }
        self.take_up_next(waiting);
    }

    /// The policy file was read again, and is in force if it is sound.
    pub(in crate::router) fn reloaded(&mut self, client: ClientId, result: Result<(), String>) {
        let Some(desk) = self.desks.remove(&client) else { return };
        match result {
            Ok(()) => self.respond(&desk.first, Asked::Reload.name(), &raw(&Empty {})),
            Err(why) => self.refuse(client, &desk.first.send_id, NackCode::Invalid, why),
        }
        self.take_up_next(desk.waiting);
    }

    fn take_up_next(&mut self, mut waiting: VecDeque<Request>) {
        if let Some(next) = waiting.pop_front() {
            self.take_up(next, waiting);
        }
    }

    fn concluded(
        &mut self,
        first: &Request,
        found: Result<QueryResult, String>,
    ) -> Result<(), Refusal> {
        let asked = first.asked.as_ref().map_err(Clone::clone)?;
        let found = found.map_err(|why| {
            (NackCode::StoreFailed, format!("the store could not look it up: {why}"))
        })?;
        let data = self.conclude(first.client, asked, found)?;
        self.respond(first, asked.name(), &data);
        Ok(())
    }
}
