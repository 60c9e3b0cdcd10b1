//! The state of `top`: what is shown, what is selected, and what a person types.

use super::{
    action::{Action, Effect, HELP_ROWS, Order, Step},
    agent::Agent,
    agent_list::AgentList,
    editor::{BYTES_MAX, Edit, Editor},
    layout::Areas,
    talk::{List, Said, Talk},
};
use crate::{cli::escape::escaped, protocol::name::OPERATOR};
use ratatui::layout::{Position, Rect};

/// The time for which a notice is shown.
const NOTICE_MS: u64 = 10_000;

/// The messages or rows by which the wheel scrolls.
const WHEEL: isize = 3;

/// News from the daemon and the wrappers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// A daemon was joined, at this endpoint.
    Joined(String),
    /// No daemon is joined, for this reason; another attempt follows.
    Away(String),
    /// All agents.
    Agents(Vec<Agent>),
    /// The dead letters, the newest last.
    Letters(Vec<Said>),
    /// The number of messages in the person's mailbox, and the newest of them, which are last.
    Mailbox(u64, Vec<Said>),
    /// Messages were routed.
    Said(Vec<Said>),
    /// Messages are followed now, or cannot be, for this reason.
    Following(Result<(), String>),
    /// The number of messages that were routed too fast to be shown.
    Lost(u64),
    /// The outcome of an order.
    Notice(String),
    /// The agent whose messages are held now, or no longer.
    Held(String, bool),
    /// The screen of an agent, or the reason why there is none.
    Preview(String, Result<Vec<String>, String>),
}

/// The meaning of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Normal,
    /// The help is shown, from this row on.
    Help(usize),
    /// The whole text of a message is shown, from this row on. The message may be gone from its
    /// list.
    Reading(Box<Said>, usize),
    Filter(Editor),
    Message {
        to: String,
        editor: Editor,
    },
}

/// The connection to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Joined(String),
    Away(String),
}

/// The state of `top`.
#[derive(Clone, Debug)]
pub(super) struct Model {
    columns: u16,
    rows: u16,
    pub(super) has_colours: bool,
    /// The moment for which ages are shown, in milliseconds since 1970.
    pub(super) now: u64,
    pub(super) link: Link,
    agents: AgentList,
    conversation: Talk,
    letters: Talk,
    mailbox: Talk,
    /// The number of messages in the mailbox, of which the newest are known.
    pub(super) mailbox_count: u64,
    /// The list that the pane of messages shows.
    pub(super) list: List,
    /// Whether keys move in the pane of messages, not in that of agents.
    pub(super) is_in_messages: bool,
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// The reason why messages are not followed, if they are not.
    pub(super) unfollowed: Option<String>,
    notice: Option<(String, u64)>,
    preview: Option<(String, Result<Vec<String>, String>)>,
    /// The number of messages that were routed too fast to be shown.
    pub(super) lost: u64,
    is_changed: bool,
}

impl Model {
    pub(super) fn new(columns: u16, rows: u16, has_colours: bool, now: u64) -> Self {
        Self {
            columns,
            rows,
            has_colours,
            now,
            link: Link::Connecting,
            agents: AgentList::default(),
            conversation: Talk::default(),
            letters: Talk::default(),
            mailbox: Talk::default(),
            mailbox_count: 0,
            list: List::Conversation,
            is_in_messages: false,
            filter: String::new(),
            mode: Mode::Normal,
            unfollowed: None,
            notice: None,
            preview: None,
            lost: 0,
            is_changed: true,
        }
    }

    /// Whether something that is shown has changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The columns and rows of the terminal.
    pub(super) fn size(&self) -> (u16, u16) {
        (self.columns, self.rows)
    }

    pub(super) fn areas(&self) -> Areas {
        let shown = self.shown_agents();
        let has_reason = shown.iter().any(|agent| agent.why.is_some());
        Areas::of(self.columns, self.rows, shown.len(), has_reason, self.is_in_messages)
    }

    pub(super) fn agents(&self) -> &AgentList {
        &self.agents
    }

    /// The agents that match the filter.
    pub(super) fn shown_agents(&self) -> Vec<&Agent> {
        self.agents.matching(&self.filter)
    }

    pub(super) fn selected_agent(&self) -> Option<&Agent> {
        self.agents.selected(&self.filter)
    }

    /// The list that is shown in the pane of messages.
    pub(super) fn messages(&self) -> &Talk {
        match self.list {
            List::Conversation => &self.conversation,
            List::DeadLetters => &self.letters,
            List::Mailbox => &self.mailbox,
        }
    }

    fn messages_mut(&mut self) -> &mut Talk {
        match self.list {
            List::Conversation => &mut self.conversation,
            List::DeadLetters => &mut self.letters,
            List::Mailbox => &mut self.mailbox,
        }
    }

    pub(super) fn letters(&self) -> usize {
        self.letters.len()
    }

    /// The message that is read, or else chosen in the pane of messages.
    fn chosen(&self) -> Option<&Said> {
        match &self.mode {
            Mode::Reading(said, _) => Some(said),
            _ => self.messages().chosen(&self.filter),
        }
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(text, _)| &**text)
    }

    /// The screen of the selected agent, if it is known.
    pub(super) fn preview(&self) -> Option<&Result<Vec<String>, String>> {
        let name = &self.selected_agent()?.name;
        self.preview.as_ref().filter(|(of, _)| of == name).map(|(_, screen)| screen)
    }

    /// The agent whose screen is to be shown, and the size of the pane for it.
    pub(super) fn wants_preview(&self) -> Option<(String, Rect)> {
        let area = self.areas().preview;
        let agent = self.selected_agent().filter(|agent| agent.is_here && !area.is_empty())?;
        Some((agent.name.clone(), area))
    }

    /// Sets the time. Ages and notices may change with it.
    pub(super) fn tick(&mut self, now: u64) {
        let before = std::mem::replace(&mut self.now, now);
        if before / 1000 != now / 1000 {
            let mut agents = self.agents.all().iter();
            self.is_changed |= agents.any(|agent| agent.ages_differ(before, now));
        }
        if self.notice.take_if(|(_, until)| *until <= now).is_some() {
            self.is_changed = true;
        }
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Joined(endpoint) => self.set_link(Link::Joined(endpoint)),
            Update::Away(why) => self.set_link(Link::Away(why)),
            Update::Agents(agents) => {
                self.is_changed |= self.agents.replace(agents);
                self.settle();
            }
            Update::Letters(letters) => {
                self.is_changed |= self.letters.replace(letters);
            }
            Update::Mailbox(count, newest) => {
                self.is_changed |= self.mailbox.replace(newest) || count != self.mailbox_count;
                self.mailbox_count = count;
            }
            Update::Said(messages) => {
                for said in messages {
                    self.is_changed |= self.conversation.push(said, &self.filter);
                }
            }
            Update::Following(followed) => {
                let unfollowed = followed.err();
                self.is_changed |= self.unfollowed != unfollowed;
                self.unfollowed = unfollowed;
            }
            Update::Lost(count) => {
                self.lost += count;
                self.is_changed = true;
            }
            Update::Notice(text) => self.set_notice(text),
            Update::Held(name, is_held) => {
                let what = if is_held { "are held" } else { "are typed again" };
                self.set_notice(format!("{}'s messages {what}", escaped(&name)));
                let agent = self.agents.get_mut(&name);
                agent.into_iter().for_each(|agent| agent.is_held = is_held);
            }
            Update::Preview(name, screen) => {
                let preview = Some((name, screen));
                self.is_changed |= self.preview != preview;
                self.preview = preview;
            }
        }
    }

    fn set_link(&mut self, link: Link) {
        self.is_changed |= self.link != link;
        self.link = link;
    }

    pub(super) fn set_notice(&mut self, text: String) {
        self.notice = Some((text, self.now + NOTICE_MS));
        self.is_changed = true;
    }

    /// Carries out an action, and returns its effect outside of the model.
    pub(super) fn act(&mut self, action: Action) -> Option<Effect> {
        self.is_changed = true;
        if !matches!(action, Action::Resize(..) | Action::Wheel { .. }) {
            self.notice = None;
        }
        let mut effect = None;
        match action {
            Action::Resize(columns, rows) => (self.columns, self.rows) = (columns, rows),
            Action::Quit => effect = Some(Effect::Quit),
            Action::Back => self.back(),
            Action::Edit(edit) => self.edit(&edit),
            Action::Submit => effect = self.submit(),
            Action::Click(at) => self.click(at),
            Action::Wheel { at, up } => self.wheel(at, up),
            Action::Step(step) => self.step(step),
            action => effect = self.act_normally(&action),
        }
        self.settle();
        effect
    }

    /// Carries out an action that ends the current mode.
    fn act_normally(&mut self, action: &Action) -> Option<Effect> {
        let chosen = self.chosen().cloned();
        self.mode = Mode::Normal;
        match action {
            Action::Next => match self.agents.select_next(&self.filter) {
                true => self.is_in_messages = false,
                false => self.set_notice("no agent waits for you".to_owned()),
            },
            Action::Open if self.is_in_messages => {
                let reading = chosen.map(|said| Mode::Reading(Box::new(said), 0));
                self.mode = reading.unwrap_or(Mode::Normal);
            }
            Action::Open => return self.of_selected(Effect::Attach),
            Action::Hold => return self.of_selected(|name| Effect::Order(Order::Hold(name))),
            Action::Message => match self.addressee(chosen) {
                Some(to) => self.mode = Mode::Message { to, editor: Editor::default() },
                None => self.set_notice("there is no agent to send to".to_owned()),
            },
            Action::Redeliver => {
                let what = "a dead letter first: d";
                return self.of_chosen(chosen, List::DeadLetters, what, Order::Redeliver);
            }
            Action::Take => {
                let what = "a message to you first: i";
                return self.of_chosen(chosen, List::Mailbox, what, Order::Take);
            }
            Action::Filter => self.mode = Mode::Filter(Editor::new(self.filter.clone())),
            Action::Help => self.mode = Mode::Help(0),
            Action::SwitchPane => self.go_to_messages(!self.is_in_messages),
            Action::Show(list) if *list == self.list => {
                self.list = List::Conversation;
                self.is_in_messages = false;
            }
            Action::Show(list) => {
                self.list = *list;
                self.go_to_messages(true);
            }
            _ => {}
        }
        None
    }

    /// Goes to the pane of messages, where one is chosen then, or to that of agents.
    fn go_to_messages(&mut self, is_in_messages: bool) {
        self.is_in_messages = is_in_messages;
        if is_in_messages && self.chosen().is_none() {
            self.step(Step::Last);
        }
    }

    /// The agent to which a message is begun: the sender of the chosen message, or else the
    /// selected agent.
    fn addressee(&self, chosen: Option<Said>) -> Option<String> {
        let chosen = chosen.filter(|_| self.is_in_messages);
        let sender = chosen.map(|said| said.from).filter(|from| *from != OPERATOR);
        sender.or_else(|| self.selected_agent().map(|agent| agent.name.clone()))
    }

    fn of_selected(&mut self, effect: impl FnOnce(String) -> Effect) -> Option<Effect> {
        let name = self.selected_agent().map(|agent| agent.name.clone());
        if name.is_none() {
            self.set_notice("no agent is selected".to_owned());
        }
        name.map(effect)
    }

    /// The order about the chosen message of a list, or a notice to choose one.
    fn of_chosen(
        &mut self,
        chosen: Option<Said>,
        list: List,
        what: &str,
        order: impl FnOnce(String) -> Order,
    ) -> Option<Effect> {
        let is_shown = self.is_in_messages && self.list == list;
        let id = chosen.filter(|_| is_shown).map(|said| said.id);
        if id.is_none() {
            self.set_notice(format!("choose {what}, then the arrows"));
        }
        id.map(|id| Effect::Order(order(id)))
    }

    fn edit(&mut self, edit: &Edit) {
        let mut has_room = true;
        match &mut self.mode {
            Mode::Filter(editor) => {
                has_room = editor.apply(edit);
                self.filter = editor.text().to_owned();
            }
            Mode::Message { editor, .. } => has_room = editor.apply(edit),
            Mode::Normal | Mode::Help(_) | Mode::Reading(..) => {}
        }
        if !has_room {
            self.set_notice(format!("no room: a line has at most {} KiB", BYTES_MAX >> 10));
        }
    }

    fn submit(&mut self) -> Option<Effect> {
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Message { to, editor } if !editor.text().trim().is_empty() => {
                Some(Effect::Order(Order::Send { to, text: editor.text().to_owned() }))
            }
            _ => None,
        }
    }

    /// Leaves what was entered last: a mode, the scrolled or chosen messages, the filter.
    fn back(&mut self) {
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Filter(_) => self.filter.clear(),
            Mode::Message { .. } | Mode::Help(_) | Mode::Reading(..) => {}
            Mode::Normal if self.is_in_messages || !self.messages().follows() => {
                self.list = List::Conversation;
                self.is_in_messages = false;
                for talk in [&mut self.conversation, &mut self.letters, &mut self.mailbox] {
                    talk.follow();
                }
            }
            Mode::Normal => self.filter.clear(),
        }
    }

    fn click(&mut self, at: Position) {
        if matches!(self.mode, Mode::Help(_) | Mode::Reading(..)) {
            self.mode = Mode::Normal;
            return;
        }
        let areas = self.areas();
        let row = |area: Rect| usize::from(at.y - area.y).checked_sub(1);
        if areas.agents.contains(at) {
            self.is_in_messages = false;
            if let Some(row) = row(areas.agents) {
                self.agents.select_row(&self.filter, row);
            }
        } else if areas.messages.contains(at) {
            self.is_in_messages = true;
            let (filter, height) = (self.filter.clone(), Areas::rows(areas.messages));
            if let Some(row) = row(areas.messages) {
                self.messages_mut().choose_row(&filter, height, row);
            }
        }
    }

    fn wheel(&mut self, at: Position, up: bool) {
        let areas = self.areas();
        let by = if up { WHEEL } else { -WHEEL };
        if self.scroll_page(-by) {
            return;
        }
        if areas.agents.contains(at) {
            return self.agents.step(&self.filter, by.signum().saturating_neg());
        }
        let (filter, height) = (self.filter.clone(), Areas::rows(areas.messages));
        self.messages_mut().scroll(&filter, height, by);
    }

    fn step(&mut self, step: Step) {
        let areas = self.areas();
        if self.scroll_page(step.rows(areas.body.height.into())) {
            return;
        }
        self.mode = Mode::Normal;
        if self.is_in_messages {
            let (filter, height) = (self.filter.clone(), Areas::rows(areas.messages));
            self.messages_mut().choose(&filter, height, step.rows(height));
        } else {
            self.agents.step(&self.filter, step.rows(Areas::rows(areas.agents)));
        }
    }

    /// Scrolls the text that fills the panes by so many rows. Returns false if there is none.
    fn scroll_page(&mut self, by: isize) -> bool {
        let area = self.areas().body;
        let rows = match &self.mode {
            Mode::Help(_) => HELP_ROWS + 1,
            Mode::Reading(said, _) => said.page(area.width.into()).len(),
            _ => 0,
        };
        let most = rows.saturating_sub(area.height.into());
        let (Mode::Help(first) | Mode::Reading(_, first)) = &mut self.mode else { return false };
        *first = first.saturating_add_signed(by).min(most);
        true
    }

    /// Keeps the selected agent visible.
    fn settle(&mut self) {
        let height = Areas::rows(self.areas().agents);
        self.agents.settle(&self.filter, height);
    }
}
#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::top::agent::Need;

    pub(in crate::cli::top) const NOW: u64 = 1_000_000;

    pub(in crate::cli::top) fn agent(name: &str, need: Need, state: &str) -> Agent {
        Agent {
            name: name.to_owned(),
            is_here: state != "away",
            state: state.to_owned(),
            since: NOW - 5000,
            waiting: 0,
            why: None,
            is_held: false,
            need,
        }
    }

    pub(in crate::cli::top) fn said(number: usize, to: &str, text: &str) -> Said {
        Said {
            key: number.to_string(),
            id: format!("{number:08x}-0000-4000-8000-000000000000"),
            short: format!("{number:08x}"),
            time: format!("12:00:{number:02}"),
            from: "Ann".to_owned(),
            to: to.to_owned(),
            text: text.to_owned(),
            why: None,
        }
    }

    fn model() -> Model {
        let mut model = Model::new(80, 24, true, NOW);
        model.update(Update::Joined("/tmp/agent-relay.sock".to_owned()));
        model.update(Update::Agents(vec![
            agent("Ann", Need::Nothing, "working"),
            agent("Dora", Need::Nothing, "away"),
            agent("Bob", Need::Message, "idle"),
            agent("Cid", Need::Permission, "waits for permission"),
        ]));
        model
    }

    fn selected(model: &Model) -> &str {
        &model.selected_agent().unwrap().name
    }

    fn steps(model: &mut Model, steps: &[Step]) {
        for step in steps {
            assert_eq!(model.act(Action::Step(*step)), None);
        }
    }

    #[test]
    fn agents_that_wait_for_their_person_are_first() {
        let model = model();
        let names: Vec<_> = model.shown_agents().iter().map(|agent| &*agent.name).collect();
        assert_eq!(names, ["Cid", "Bob", "Ann", "Dora"]);
        assert_eq!(selected(&model), "Cid");
    }

    #[test]
    fn selection_follows_the_agent() {
        let mut model = model();
        steps(&mut model, &[Step::Down, Step::Down]);
        assert_eq!(selected(&model), "Ann");
        model.update(Update::Agents(vec![
            agent("Ann", Need::Permission, "waits for permission"),
            agent("Bob", Need::Nothing, "idle"),
        ]));
        assert_eq!((selected(&model), model.agents.selected_at("")), ("Ann", Some(0)));
        model.update(Update::Agents(vec![agent("Bob", Need::Nothing, "idle")]));
        assert_eq!(selected(&model), "Bob");
        model.update(Update::Agents(Vec::new()));
        assert_eq!(model.selected_agent(), None);
        for action in [Action::Open, Action::Hold, Action::Message, Action::Step(Step::Last)] {
            assert_eq!(model.act(action), None);
        }
    }

    #[test]
    fn next_goes_round_those_that_wait() {
        let mut model = model();
        for name in ["Bob", "Cid", "Bob"] {
            model.act(Action::Next);
            assert_eq!(selected(&model), name);
        }
        model.update(Update::Agents(vec![agent("Bob", Need::Nothing, "idle")]));
        model.act(Action::Next);
        assert_eq!(model.notice(), Some("no agent waits for you"));
        model.tick(NOW + NOTICE_MS);
        assert_eq!(model.notice(), None);
    }

    #[test]
    fn orders_name_the_selected_agent() {
        let mut model = model();
        assert_eq!(model.act(Action::Open), Some(Effect::Attach("Cid".to_owned())));
        assert_eq!(model.act(Action::Hold), Some(Effect::Order(Order::Hold("Cid".to_owned()))));
        model.act(Action::Message);
        // A message goes to the agent for which it was begun.
        model.update(Update::Agents(vec![agent("Ann", Need::Permission, "x")]));
        model.act(Action::Edit(Edit::Insert("Go on".to_owned())));
        let sent = Order::Send { to: "Cid".to_owned(), text: "Go on".to_owned() };
        assert_eq!(model.act(Action::Submit), Some(Effect::Order(sent)));
        model.act(Action::Message);
        assert_eq!(model.act(Action::Submit), None, "an empty message is not sent");
        assert_eq!(model.act(Action::Quit), Some(Effect::Quit));
    }

    #[test]
    fn filter_selects_agents_and_messages() {
        let mut model = model();
        model.update(Update::Said(vec![said(1, "Bob", "hello")]));
        model.act(Action::Filter);
        model.act(Action::Edit(Edit::Insert("bO".to_owned())));
        assert_eq!((selected(&model), model.shown_agents().len()), ("Bob", 1));
        assert_eq!(model.messages().matching(&model.filter).len(), 1);
        model.act(Action::Submit);
        assert_eq!(model.filter, "bO");
        model.act(Action::Back);
        assert_eq!((&*model.filter, model.shown_agents().len()), ("", 4));
    }

    #[test]
    fn dead_letter_is_redelivered() {
        let mut model = model();
        model.act(Action::Redeliver);
        assert!(model.notice().is_some());
        let letters = vec![said(1, "Bob", "one"), said(2, "Bob", "two")];
        model.update(Update::Letters(letters.clone()));
        model.act(Action::Show(List::DeadLetters));
        steps(&mut model, &[Step::Up]);
        let redelivered = Order::Redeliver(letters[0].id.clone());
        assert_eq!(model.act(Action::Redeliver), Some(Effect::Order(redelivered)));
        model.act(Action::Open);
        assert!(matches!(model.mode, Mode::Reading(_, 0)), "{:?}", model.mode);
        model.act(Action::Back);
        assert_eq!(model.list, List::DeadLetters);
        model.act(Action::Back);
        assert_eq!((model.list, model.is_in_messages), (List::Conversation, false));
    }

    #[test]
    fn message_that_is_read_stays_although_its_list_changes() {
        let mut model = model();
        let read = said(1, OPERATOR, "one");
        model.update(Update::Mailbox(2, vec![read.clone(), said(2, OPERATOR, "two")]));
        model.act(Action::Show(List::Mailbox));
        steps(&mut model, &[Step::Up]);
        model.act(Action::Open);
        model.update(Update::Mailbox(1, vec![said(2, OPERATOR, "two")]));
        assert_eq!(model.mode, Mode::Reading(Box::new(read.clone()), 0));
        assert_eq!(model.act(Action::Take), Some(Effect::Order(Order::Take(read.id))));
    }

    #[test]
    fn message_to_the_person_is_read_answered_and_taken() {
        let mut model = model();
        assert_eq!(model.act(Action::Take), None);
        assert!(model.notice().is_some());
        let text = (0..100).map(|number| format!("line {number}\n")).collect::<String>();
        model.update(Update::Mailbox(7, vec![said(1, OPERATOR, &text)]));
        model.act(Action::Show(List::Mailbox));
        model.act(Action::Open);
        steps(&mut model, &[Step::Down, Step::PageDown]);
        assert!(matches!(model.mode, Mode::Reading(_, 22)), "{:?}", model.mode);
        steps(&mut model, &[Step::Last]);
        let Mode::Reading(_, last) = model.mode else { panic!("{:?}", model.mode) };
        model.act(Action::Wheel { at: Position::new(3, 3), up: true });
        let Mode::Reading(_, first) = model.mode else { panic!("{:?}", model.mode) };
        assert_eq!(first, last - WHEEL.unsigned_abs());
        model.act(Action::Message);
        let Mode::Message { to, .. } = &model.mode else { panic!("{:?}", model.mode) };
        assert_eq!((&**to, selected(&model)), ("Ann", "Cid"), "the sender gets the answer");
        model.act(Action::Back);
        let id = said(1, OPERATOR, "").id;
        assert_eq!(model.act(Action::Take), Some(Effect::Order(Order::Take(id))));
        model.act(Action::Show(List::Mailbox));
        assert_eq!((model.list, model.is_in_messages), (List::Conversation, false));
    }

    #[test]
    fn mouse_selects_and_scrolls() {
        let mut model = model();
        for number in 0..50 {
            model.update(Update::Said(vec![said(number, OPERATOR, "hello")]));
        }
        let areas = model.areas();
        model.act(Action::Click(Position::new(3, areas.agents.y + 2)));
        assert_eq!(selected(&model), "Bob");
        model.act(Action::Click(Position::new(3, areas.agents.y)));
        assert_eq!(selected(&model), "Bob", "the heading is no agent");
        let at = Position::new(3, areas.messages.y + 1);
        model.act(Action::Wheel { at, up: true });
        assert!(!model.messages().follows());
        model.act(Action::Click(at));
        let first = 50 - Areas::rows(areas.messages) - WHEEL.unsigned_abs();
        assert_eq!(model.chosen().unwrap().key, first.to_string());
        model.act(Action::Wheel { at: Position::new(0, areas.agents.y), up: true });
        assert_eq!(selected(&model), "Cid");
    }

    #[test]
    fn only_changes_are_drawn() {
        let mut model = model();
        assert!(model.take_changed());
        model.update(Update::Joined("/tmp/agent-relay.sock".to_owned()));
        let agents = model.agents().all().to_vec();
        model.update(Update::Agents(agents));
        model.update(Update::Letters(Vec::new()));
        model.tick(NOW + 500);
        assert!(!model.take_changed());
        model.tick(NOW + 1000);
        assert!(model.take_changed(), "ages have changed");
        model.tick(NOW + 3_600_000);
        model.take_changed();
        model.tick(NOW + 3_601_000);
        assert!(!model.take_changed(), "ages of hours do not change each second");
    }

    #[test]
    fn every_size_is_survived() {
        let mut model = model();
        model.update(Update::Said(vec![said(1, "Bob", "hello")]));
        for (columns, rows) in [(0, 0), (1, 1), (20, 5), (0, 9), (9, 0), (500, 300), (3, 2)] {
            model.act(Action::Resize(columns, rows));
            for step in [Step::Last, Step::PageUp, Step::First, Step::PageDown] {
                steps(&mut model, &[step]);
                model.act(Action::SwitchPane);
            }
            model.act(Action::Click(Position::new(0, 0)));
            model.act(Action::Wheel { at: Position::new(1, 1), up: true });
        }
    }
}
