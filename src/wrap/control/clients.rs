//! The clients of the control endpoint, and the output and answers that wait for each client.
//!
//! An attached terminal of the same size as the agent's terminal gets the output as it comes. A
//! terminal of another size, or one that reads too slowly, gets snapshots of the screen, each after
//! the last snapshot was written. So no client delays the agent, and each client needs bounded
//! memory.

use super::server::{ClientEvent, ClientHandle, ClientId, ControlEndpoint, ControlServer};
use crate::wrap::{
    edits::Edit,
    focus::{Askers, FocusReports},
    paste::{self, Paste},
};
use crossbeam_channel::{Receiver, never};
use platform::pty::Size;
use protocol::{
    Moment,
    control::{Answer, Bytes, Dialog, Ended, Request},
    hook,
    secret::Secret,
};
use std::{collections::BTreeMap, io, mem};
use terminal::{
    attention::KEY_MS,
    keys::KeystrokeFilter,
    overlay::{Overlay, Sign},
    screen::{Screen, tail::Tail},
};

/// The most terminals attached at a time.
const ATTACHED_MAX: usize = 8;

/// How long a client may stay without a request before it is disconnected, unless it is attached or
/// awaits the command's end.
const IDLE_MS: u64 = 5000;

/// How long a client may leave output unread before it is disconnected.
const STALLED_MS: u64 = 60_000;

/// The most bytes of output that wait for one client. Beyond that, a snapshot replaces the output.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The most bytes of answers that wait for one client. A client that leaves more unread is
/// disconnected.
const ANSWERS_BYTES_MAX: usize = 64 * 1024;

/// The least time between two snapshots for one client.
const SNAPSHOT_MS: u64 = 50;

/// The size before the agent has a terminal, which no terminal has.
const NO_SIZE: Size = Size { rows: 0, cols: 0 };

/// The smallest and the largest size of the agent's terminal.
const SIZES: [Size; 2] = [Size { rows: 1, cols: 2 }, Size { rows: 250, cols: 600 }];

/// A client's request that the driver has to carry out.
pub(in crate::wrap) enum Action {
    /// Resize the agent's terminal.
    Resize(Size),
    /// Hold the agent's messages, or release them.
    Hold(bool),
    /// Press the key of this choice, if this dialog is on the screen, and answer.
    Choose(Dialog, usize),
    /// End the agent's command.
    Stop,
    /// Send the agent's state to the client.
    SendState,
    /// Tell the client the facts about the terminal.
    Explain,
    /// Handle a hook's report, and answer it.
    Hook(hook::Report),
    /// Note that a hook has disconnected without PRINTED.
    HookUnconfirmed,
    /// Hand over the message with this beginning of its id, or all messages, and answer.
    Take(Option<String>),
    /// Count a message to this recipient, and answer.
    Count(String),
    /// Note that the agent has written to its person.
    Wrote,
    /// Note an edit of a file, and answer.
    Edited(Edit),
}

/// All clients of the control endpoint.
pub(in crate::wrap) struct ControlClients {
    server: Option<ControlServer>,
    /// The key of the agent's commands and hooks.
    key: Secret,
    pub(in crate::wrap) events: Receiver<(ClientId, ClientEvent)>,
    clients: BTreeMap<ClientId, Client>,
    /// The end of a paste from a client that is gone.
    left_keys: Vec<u8>,
    /// The overlay of attached terminals.
    overlay: Overlay,
    /// A buffer for the output that it passes on.
    shown: Vec<u8>,
    tail: Tail,
    /// The clients that have asked attached terminals to report their focus.
    askers: Askers,
    size: Size,
    /// Whether the agent's terminal gets the size of the last terminal attached to drive it.
    follows_size: bool,
    /// Whether the command has ended; further clients are not served.
    is_over: bool,
}

impl ControlClients {
    /// No clients, until an endpoint is served.
    pub(in crate::wrap) fn new(key: &Secret, overlay: Overlay, follows_size: bool) -> Self {
        Self {
            server: None,
            key: key.clone(),
            events: never(),
            clients: BTreeMap::new(),
            left_keys: Vec::new(),
            askers: Askers { program: false, wrapper: overlay.reports_focus() },
            overlay,
            shown: Vec::new(),
            tail: Tail::default(),
            size: NO_SIZE,
            follows_size,
            is_over: false,
        }
    }

    /// Serves an endpoint, if there is one.
    pub(in crate::wrap) fn listen(&mut self, endpoint: Option<ControlEndpoint>) -> io::Result<()> {
        if let Some(endpoint) = endpoint {
            let server = ControlServer::start(endpoint)?;
            self.events = server.events.clone();
            self.server = Some(server);
        }
        Ok(())
    }

    /// Counts attached terminals. Snapshots do not count.
    pub(in crate::wrap) fn attached(&self) -> usize {
        let attachments = self.clients.values().filter_map(|client| client.attachment.as_ref());
        attachments.filter(|attachment| !attachment.looks).count()
    }

    /// Counts attached terminals where the person looks at the agent.
    pub(in crate::wrap) fn watching(&self, now: Moment) -> usize {
        let attachments = self.clients.values().filter_map(|client| client.attachment.as_ref());
        attachments.filter(|attachment| attachment.is_watched(now)).count()
    }

    /// Alerts the person in all attached terminals.
    pub(in crate::wrap) fn alert(&mut self, alert: &[u8]) {
        for client in self.clients.values_mut() {
            client.alert = Some(alert.to_owned()).filter(|_| client.attachment.is_some());
        }
    }

    /// Handles an event. Returns what the driver has to do.
    pub(in crate::wrap) fn handle(
        &mut self,
        now: Moment,
        id: ClientId,
        event: ClientEvent,
    ) -> Option<Action> {
        match event {
            ClientEvent::Connected(handle) if !self.is_over => {
                self.clients.insert(id, Client::new(now, handle));
            }
            ClientEvent::Connected(_) => {}
            ClientEvent::Requested(request) => {
                let attached =
                    self.clients.values().filter(|client| client.attachment.is_some()).count();
                let (size, askers) = (self.size, self.askers);
                let client = self.clients.get_mut(&id)?;
                client.requested_at = now;
                return match client.handle(now, request, attached, &self.key, askers)? {
                    Action::Resize(wanted) if !self.follows_size || wanted == size => None,
                    action => Some(action),
                };
            }
            ClientEvent::Rejected(message) => {
                let client = self.clients.get_mut(&id)?;
                client.refuse(message);
                (client.is_closing, client.awaits_end) = (true, false);
            }
            ClientEvent::Written => self.clients.get_mut(&id)?.writing_since = None,
            ClientEvent::Disconnected => {
                let client = self.clients.remove(&id)?;
                self.left_keys.extend_from_slice(client.end_of_paste());
                return client.is_unconfirmed.then_some(Action::HookUnconfirmed);
            }
        }
        None
    }

    /// Handles as keys the bytes that began like a terminal's answer but did not complete it, and
    /// lets other terminals continue if a paste has stalled.
    pub(in crate::wrap) fn expire_keys(&mut self, now: Moment) {
        for client in self.clients.values_mut() {
            client.expire_keys(now, self.askers);
            client.paste.expire(now);
        }
    }

    /// Takes the keys of one client, if any have keys waiting. While a paste is open, only its
    /// client's keys are taken.
    pub(in crate::wrap) fn take_keys(&mut self, now: Moment) -> Option<Vec<u8>> {
        if !self.left_keys.is_empty() {
            return Some(mem::take(&mut self.left_keys));
        }
        let is_pasting = self.is_pasting();
        let mut clients =
            self.clients.values_mut().filter(|client| !is_pasting || client.paste.holds_others());
        clients.find_map(|client| client.take_keys(now))
    }

    /// Whether a client is in the middle of a paste.
    pub(in crate::wrap) fn is_pasting(&self) -> bool {
        self.clients.values().any(|client| client.paste.holds_others())
    }

    /// Sends an answer to a client. The client may then send another request.
    pub(in crate::wrap) fn send(&mut self, id: ClientId, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.answer(answer);
        }
    }

    /// Answers a hook, or a command of the agent's. Returns whether the client is there.
    pub(in crate::wrap) fn answer(&mut self, now: Moment, id: ClientId, answer: &Answer) -> bool {
        let client = self.clients.get_mut(&id);
        client.map(|client| client.answer_last(now, answer)).is_some()
    }

    /// Passes on the output of the agent's command.
    pub(in crate::wrap) fn printed(&mut self, bytes: &[u8]) {
        self.overlay.pass(bytes, &mut self.shown);
        self.show();
    }

    /// Shows the agent's state in the titles of attached terminals.
    pub(in crate::wrap) fn show_sign(&mut self, sign: Option<Sign>) {
        self.overlay.set_sign(sign, &mut self.shown);
        self.show();
    }

    /// Passes on the output that the overlay has let through.
    fn show(&mut self) {
        if !self.shown.is_empty() {
            self.tail.feed(&self.shown);
            for client in self.clients.values_mut() {
                client.printed(&self.shown, self.size);
            }
            self.shown.clear();
        }
    }

    /// Lets the agent's terminal get the size of the last terminal attached to drive it.
    pub(in crate::wrap) fn follow_size(&mut self) {
        self.follows_size = true;
    }

    /// Notes the new size of the agent's terminal.
    pub(in crate::wrap) fn resized(&mut self, size: Size) {
        self.size = size;
        for client in self.clients.values_mut() {
            client.needs_snapshot = true;
        }
    }

    /// Hands over all that can be written, and disconnects idle and stalled clients. Returns the
    /// hooks among these that have not confirmed their answers.
    pub(in crate::wrap) fn serve(&mut self, now: Moment, screen: &Screen) -> Vec<ClientId> {
        self.askers.program = screen.reports_focus();
        for client in self.clients.values_mut() {
            client.serve(now, screen, self.size, (&self.overlay, &self.tail));
        }
        // Dropping a client's handle closes its connection.
        let ended = self.clients.extract_if(.., |_, client| !client.keeps_connection(now));
        let left_keys = &mut self.left_keys;
        let ended = ended.inspect(|(_, client)| left_keys.extend_from_slice(client.end_of_paste()));
        ended.filter(|(_, client)| client.is_unconfirmed).map(|(id, _)| id).collect()
    }

    /// The moment when [`ControlClients::serve`] or [`ControlClients::expire_keys`] is due without
    /// an event.
    pub(in crate::wrap) fn deadline(&self) -> Option<Moment> {
        let due = |client: &Client| {
            let batch = client.deadline(self.size, &self.tail);
            [batch, client.keys_deadline(), client.paste.deadline()]
        };
        self.clients.values().flat_map(due).flatten().min()
    }

    /// Tells attached clients, and clients that await the end, that the command has ended.
    pub(in crate::wrap) fn send_end(&mut self, ended: &Ended) {
        self.is_over = true;
        for client in self.clients.values_mut() {
            if client.attachment.is_some() || client.awaits_end {
                client.answer(&Answer::Ended(ended.clone()));
            }
            client.is_closing = true;
        }
    }

    /// Whether something is still to be written to a client.
    pub(in crate::wrap) fn is_writing(&self) -> bool {
        self.clients.values().any(|client| !client.is_written())
    }

    /// Unbinds the endpoint and closes all connections.
    pub(in crate::wrap) fn close(self) {
        let Self { server, events, clients, .. } = self;
        drop(events);
        if let Some(server) = server {
            server.stop(clients.into_values().map(|client| client.handle));
        }
    }
}

/// The state of one connection.
struct Client {
    handle: ClientHandle,
    /// The moment since which a batch is being written.
    writing_since: Option<Moment>,
    requested_at: Moment,
    answers: Vec<u8>,
    output: Vec<u8>,
    /// An alert for the person, such as a bell.
    alert: Option<Vec<u8>>,
    /// Keys that the terminal side has not accepted yet.
    keys: Vec<u8>,
    paste: Paste,
    /// Whether the client's requests are not read until the terminal side accepts the keys.
    is_paused: bool,
    attachment: Option<Attachment>,
    /// Whether output was lost, so that only a snapshot shows the screen again.
    needs_snapshot: bool,
    snapshot_at: Option<Moment>,
    /// Whether the client has sent STOP and waits for the command's end.
    awaits_end: bool,
    /// Whether the client is a hook that waits, or a command that takes messages, without an
    /// answer.
    awaits_answer: bool,
    /// Whether the client is a hook that has not said that it has printed its answer.
    is_unconfirmed: bool,
    /// Whether the client is disconnected once all answers are written.
    is_closing: bool,
}

/// A terminal that shows the agent's screen.
struct Attachment {
    size: Size,
    /// Finds the person's keys; `None` for a terminal that only views.
    keystrokes: Option<KeystrokeFilter>,
    /// Finds reports of the terminal's focus among the keys.
    focus: FocusReports,
    /// Whether the terminal has the focus, once it has reported.
    is_focused: Option<bool>,
    /// The moment of the last key, or of the beginning.
    last_key: Moment,
    /// Whether the client only looks, and no terminal shows the agent.
    looks: bool,
}

impl Attachment {
    fn new(now: Moment, drives: bool, size: Size, looks: bool) -> Self {
        Self {
            size,
            keystrokes: drives.then(KeystrokeFilter::default),
            focus: FocusReports::default(),
            is_focused: None,
            last_key: now,
            looks,
        }
    }

    /// Whether the person looks at the agent there. A terminal that only views does not report
    /// that.
    fn is_watched(&self, now: Moment) -> bool {
        let is_used = self.is_focused.unwrap_or_else(|| now.since(self.last_key) < KEY_MS);
        !self.looks && (self.keystrokes.is_none() || is_used)
    }

    /// Returns the keys for the program among a terminal's bytes.
    fn keys(&mut self, now: Moment, bytes: &[u8], askers: Askers) -> Vec<u8> {
        let sent = self.focus.read(now, bytes, askers);
        self.is_focused = sent.reports.last().copied().or(self.is_focused);
        if sent.has_keys {
            self.last_key = now;
        }
        sent.keys
    }

    /// Returns the keys that began like an answer or a report but did not complete it.
    fn expired_keys(&mut self, now: Moment, askers: Askers) -> Vec<u8> {
        let late = self.keystrokes.as_mut().map(|keys| keys.expired_keys(now)).unwrap_or_default();
        let mut keys = self.focus.expired_keys(now).unwrap_or_default();
        if !late.is_empty() {
            keys.extend(self.keys(now, &late, askers));
        }
        keys
    }

    fn keys_deadline(&self) -> Option<Moment> {
        let answer = self.keystrokes.as_ref().and_then(KeystrokeFilter::deadline);
        [answer, self.focus.deadline()].into_iter().flatten().min()
    }
}

impl Client {
    fn new(now: Moment, handle: ClientHandle) -> Self {
        Self {
            handle,
            writing_since: None,
            requested_at: now,
            answers: Vec::new(),
            output: Vec::new(),
            alert: None,
            keys: Vec::new(),
            paste: Paste::default(),
            is_paused: false,
            attachment: None,
            needs_snapshot: false,
            snapshot_at: None,
            awaits_end: false,
            awaits_answer: false,
            is_unconfirmed: false,
            is_closing: false,
        }
    }

    fn handle(
        &mut self,
        now: Moment,
        request: Request,
        attached: usize,
        agents_key: &Secret,
        askers: Askers,
    ) -> Option<Action> {
        if let Request::Hook { key, .. }
        | Request::Take { key, .. }
        | Request::Count { key, .. }
        | Request::Wrote { key } = &request
        {
            if key != agents_key {
                return self.refuse("only the agent's own commands and hooks may ask this");
            }
            self.awaits_answer = true;
        }
        if let Request::Edited { key, by: None, .. } = &request
            && key.as_ref() != Some(agents_key)
        {
            return self.refuse("only the agent's own hooks may tell of its edits");
        }
        match request {
            Request::Attach { .. } if self.attachment.is_none() && attached >= ATTACHED_MAX => {
                self.refuse(format!("{attached} terminals show it already: detach one of them"))
            }
            Request::Attach { drive, columns, rows, looks } => {
                let size = Size { rows, cols: columns };
                self.attachment = Some(Attachment::new(now, drive, size, looks));
                self.needs_snapshot = true;
                drive.then_some(Action::Resize(clamp(size)))
            }
            Request::Resize { columns, rows } => {
                let Some(attachment) = &mut self.attachment else {
                    return self.refuse("only an attached terminal has a size");
                };
                attachment.size = Size { rows, cols: columns };
                self.needs_snapshot = true;
                let size = clamp(attachment.size);
                attachment.keystrokes.is_some().then_some(Action::Resize(size))
            }
            Request::Keys { bytes } => self.press(now, &bytes.0, askers),
            Request::Hold => Some(Action::Hold(true)),
            Request::Release => Some(Action::Hold(false)),
            Request::Choose { dialog, choice } => Some(Action::Choose(dialog, choice)),
            Request::Stop => {
                self.awaits_end = true;
                Some(Action::Stop)
            }
            Request::State => Some(Action::SendState),
            Request::Why => Some(Action::Explain),
            Request::Hook { report, .. } => Some(Action::Hook(report)),
            Request::Printed => {
                self.is_unconfirmed = false;
                self.is_closing = true;
                None
            }
            Request::Take { id, .. } => Some(Action::Take(id)),
            Request::Count { to, .. } => Some(Action::Count(to)),
            Request::Wrote { .. } => {
                self.is_closing = true;
                Some(Action::Wrote)
            }
            Request::Edited { by, path, ago_ms, .. } => match Edit::new(by, path, ago_ms) {
                Ok(edit) => Some(Action::Edited(edit)),
                Err(why) => self.refuse(why),
            },
        }
    }

    fn press(&mut self, now: Moment, bytes: &[u8], askers: Askers) -> Option<Action> {
        if let Some(attachment) = &mut self.attachment
            && let Some(keystrokes) = &mut attachment.keystrokes
        {
            let pressed = keystrokes.keys(now, bytes);
            self.keys.extend(attachment.keys(now, &pressed, askers));
            self.is_paused = true;
            return None;
        }
        self.handle.accept_keys();
        self.refuse("a terminal that only views cannot type: attach without --view")
    }

    fn expire_keys(&mut self, now: Moment, askers: Askers) {
        let late = self.attachment.as_mut().map(|attachment| attachment.expired_keys(now, askers));
        self.keys.extend(late.into_iter().flatten());
    }

    fn keys_deadline(&self) -> Option<Moment> {
        self.attachment.as_ref()?.keys_deadline()
    }

    fn take_keys(&mut self, now: Moment) -> Option<Vec<u8>> {
        let was_paused = mem::take(&mut self.is_paused);
        if was_paused {
            self.handle.accept_keys();
        }
        let keys = (was_paused || !self.keys.is_empty()).then(|| mem::take(&mut self.keys))?;
        self.paste.feed(now, &keys);
        Some(keys)
    }

    /// Refuses a request, so that the driver has nothing to do.
    fn refuse(&mut self, message: impl Into<String>) -> Option<Action> {
        self.answer(&Answer::Error { message: message.into() });
        None
    }

    fn answer(&mut self, answer: &Answer) {
        if self.answers.len() > ANSWERS_BYTES_MAX {
            self.handle.hang_up();
            self.is_closing = true;
            return;
        }
        answer.append(&mut self.answers);
    }

    /// Sends the last answer of the connection. A hook confirms that it has printed a text.
    fn answer_last(&mut self, now: Moment, answer: &Answer) {
        self.answer(answer);
        self.awaits_answer = false;
        self.requested_at = now;
        self.is_unconfirmed = matches!(answer, Answer::Hooked { text: Some(_) });
        self.is_closing |= !self.is_unconfirmed;
    }

    fn printed(&mut self, bytes: &[u8], size: Size) {
        let Some(attachment) = &self.attachment else { return };
        let is_full = self.output.len() + bytes.len() > OUTPUT_BYTES_MAX;
        if self.needs_snapshot || is_full || attachment.size != size {
            self.output = Vec::new();
            self.needs_snapshot = true;
        } else {
            Answer::Output { bytes: Bytes(bytes.to_vec()) }.append(&mut self.output);
        }
    }

    fn serve(
        &mut self,
        now: Moment,
        screen: &Screen,
        size: Size,
        (overlay, tail): (&Overlay, &Tail),
    ) {
        if self.writing_since.is_some() {
            return;
        }
        let mut batch = mem::take(&mut self.output);
        if self.next_snapshot_at(size, tail).is_some_and(|at| at <= now || self.is_closing)
            && let Some(attachment) = &self.attachment
        {
            let shown = attachment.size;
            let snapshot = screen.snapshot(shown.cols.into(), shown.rows.into());
            let mut bytes = snapshot.into_bytes();
            overlay.append_state(&mut bytes);
            if shown == size {
                bytes.extend_from_slice(tail.unfinished().unwrap_or_default());
            }
            let Size { rows, cols: columns } = size;
            Answer::Screen { columns, rows, bytes: Bytes(bytes) }.append(&mut batch);
            self.needs_snapshot = false;
            self.snapshot_at = Some(now);
        }
        if tail.unfinished().is_some_and(<[u8]>::is_empty)
            && let Some(alert) = self.alert.take()
        {
            Answer::Output { bytes: Bytes(alert) }.append(&mut batch);
        }
        batch.append(&mut self.answers);
        if !batch.is_empty() && self.handle.send(batch) {
            self.writing_since = Some(now);
        }
    }

    /// The moment when a snapshot is due, if the client needs one.
    fn next_snapshot_at(&self, size: Size, tail: &Tail) -> Option<Moment> {
        let attachment = self.attachment.as_ref().filter(|_| self.needs_snapshot)?;
        // Later output continues an escape sequence that is too long to be sent again after a
        // snapshot, so the snapshot waits for its end.
        if attachment.size == size && tail.unfinished().is_none() {
            return None;
        }
        Some(self.snapshot_at.map(|at| at.plus(SNAPSHOT_MS)).unwrap_or_default())
    }

    fn deadline(&self, size: Size, tail: &Tail) -> Option<Moment> {
        match self.writing_since {
            Some(since) => Some(since.plus(STALLED_MS)),
            None => self.next_snapshot_at(size, tail).or_else(|| self.idle_until()),
        }
    }

    fn idle_until(&self) -> Option<Moment> {
        let may_idle = self.attachment.is_some() || self.awaits_end || self.awaits_answer;
        (!may_idle).then(|| self.requested_at.plus(IDLE_MS))
    }

    /// The keys that end the paste that the client has left open, if there is one.
    fn end_of_paste(&self) -> &'static [u8] {
        if self.paste.is_unfinished() { paste::ENDS } else { &[] }
    }

    /// Whether the connection is kept.
    fn keeps_connection(&self, now: Moment) -> bool {
        match self.writing_since {
            Some(since) if since.plus(STALLED_MS) > now => true,
            Some(_) => {
                tracing::warn!("a terminal that read nothing for {STALLED_MS} ms is disconnected");
                self.handle.hang_up();
                false
            }
            // The wrapper closes the connection when all of the agent's processes have ended.
            None if self.awaits_end => true,
            None => !self.is_closing && self.idle_until().is_none_or(|until| until > now),
        }
    }

    fn is_written(&self) -> bool {
        self.writing_since.is_none() && self.answers.is_empty() && self.output.is_empty()
    }
}

/// Limits a size to one that an agent can work with.
fn clamp(size: Size) -> Size {
    let [least, most] = SIZES;
    Size {
        rows: size.rows.clamp(least.rows, most.rows),
        cols: size.cols.clamp(least.cols, most.cols),
    }
}
