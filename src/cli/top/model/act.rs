//! The actions of a person on the state of `top`.

use super::{Mode, Model};
use crate::cli::top::{
    action::{Action, Effect, HELP_ROWS, Order, Step},
    editor::{BYTES_MAX, Edit, Editor},
    layout::Areas,
    message_list::{List, Message},
};
use protocol::name::OPERATOR;
use ratatui::layout::{Position, Rect};

/// The number of messages or rows that the wheel scrolls.
pub(super) const WHEEL: isize = 3;

impl Model {
    /// Carries out an action, and returns its effect outside of the model.
    pub(in crate::cli::top) fn act(&mut self, action: Action) -> Option<Effect> {
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
                let reading = chosen.map(|message| Mode::Reading(Box::new(message), 0));
                self.mode = reading.unwrap_or(Mode::Normal);
            }
            Action::Open => return self.of_selected(Effect::Attach),
            Action::Hold => return self.of_selected(|name| Effect::Order(Order::Hold(name))),
            Action::Choose(choice) => return self.choose(*choice),
            Action::Stop => match self.selected_agent().filter(|agent| agent.is_here) {
                Some(agent) => self.mode = Mode::Stop(agent.name.clone()),
                None => self.set_notice("no agent that is here is selected".to_owned()),
            },
            Action::Spawn => self.mode = Mode::Spawn(Editor::default()),
            Action::Restore if self.cut_off().is_empty() => {
                self.set_notice("no agent was cut off".to_owned());
            }
            Action::Restore => return Some(Effect::Order(Order::Restore)),
            Action::HideAway => self.agents.toggle_away(),
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

    /// The order to press the key of a choice in the dialog that was drawn for the selected agent,
    /// or a notice why not.
    fn choose(&mut self, choice: usize) -> Option<Effect> {
        let name = self.selected_agent().map(|agent| agent.name.clone());
        let drawn = self.drawn_dialog.clone().filter(|(of, _)| name.as_ref() == Some(of));
        match drawn {
            _ if self.is_in_messages => self.set_notice("Tab goes back to the agents".to_owned()),
            Some((name, dialog)) if choice <= dialog.choices.len() => {
                return Some(Effect::Order(Order::Choose { name, dialog, choice }));
            }
            Some((_, dialog)) => {
                self.set_notice(format!("there are {} choices", dialog.choices.len()));
            }
            None => {
                let asks = self.selected_agent().is_some_and(|agent| agent.dialog.is_some());
                let why = match asks && self.answerable().is_none() {
                    true => "the question is not shown whole: Enter attaches to the agent",
                    false => "no question with numbers is shown",
                };
                self.set_notice(why.to_owned());
            }
        }
        None
    }

    /// Goes to the pane of messages, choosing one, or to the pane of agents.
    fn go_to_messages(&mut self, is_in_messages: bool) {
        self.is_in_messages = is_in_messages;
        if is_in_messages && self.chosen().is_none() {
            self.step(Step::Last);
        }
    }

    /// The recipient of a new message: the sender of the chosen message, or else the selected
    /// agent.
    fn addressee(&self, chosen: Option<Message>) -> Option<String> {
        let chosen = chosen.filter(|_| self.is_in_messages);
        let sender = chosen.map(|message| message.from).filter(|from| *from != OPERATOR);
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
        chosen: Option<Message>,
        list: List,
        what: &str,
        order: impl FnOnce(String) -> Order,
    ) -> Option<Effect> {
        let is_shown = self.is_in_messages && self.list == list;
        let id = chosen.filter(|_| is_shown).map(|message| message.id);
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
            Mode::Message { editor, .. } | Mode::Spawn(editor) => has_room = editor.apply(edit),
            Mode::Normal | Mode::Stop(_) | Mode::Help(_) | Mode::Reading(..) => {}
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
            Mode::Spawn(editor) if !editor.text().trim().is_empty() => {
                Some(Effect::Order(Order::Spawn(editor.text().to_owned())))
            }
            Mode::Stop(name) => Some(Effect::Order(Order::Stop(name))),
            _ => None,
        }
    }

    /// Leaves the innermost state: a mode, the scrolled or chosen messages, the filter.
    fn back(&mut self) {
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Filter(_) => self.filter.clear(),
            Mode::Message { .. }
            | Mode::Spawn(_)
            | Mode::Stop(_)
            | Mode::Help(_)
            | Mode::Reading(..) => {}
            Mode::Normal if self.is_in_messages || !self.messages().follows() => {
                self.list = List::Conversation;
                self.is_in_messages = false;
                for list in [&mut self.conversation, &mut self.letters, &mut self.mailbox] {
                    list.follow();
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
            if let Some(row) = row(areas.agents).filter(|row| *row < self.agent_rows()) {
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
            self.agents.step(&self.filter, step.rows(self.agent_rows()));
        }
    }

    /// Scrolls the text that fills the panes by this many rows. Returns false if there is none.
    fn scroll_page(&mut self, by: isize) -> bool {
        let area = self.areas().body;
        let rows = match &self.mode {
            Mode::Help(_) => HELP_ROWS + 1,
            Mode::Reading(message, _) => message.page(area.width.into()).len(),
            _ => 0,
        };
        let most = rows.saturating_sub(area.height.into());
        let (Mode::Help(first) | Mode::Reading(_, first)) = &mut self.mode else { return false };
        *first = first.saturating_add_signed(by).min(most);
        true
    }

    /// Keeps the selected agent visible.
    pub(super) fn settle(&mut self) {
        let height = self.agent_rows();
        self.agents.settle(&self.filter, height);
    }
}
