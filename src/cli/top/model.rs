//! The state of `top`: the shown data, the selection, and the person's input.

mod act;

use super::{
    agent_list::AgentList,
    editor::Editor,
    layout::Areas,
    message_list::{List, Message, MessageList},
    question::Question,
};
use crate::cli::agents::Agent;
use protocol::{control::Dialog, text::escaped};
use ratatui::layout::Rect;

/// How long a notice is shown.
const NOTICE_MS: u64 = 10_000;

/// News from the daemon and the wrappers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// A daemon was joined, at this endpoint.
    Joined(String),
    /// No daemon is joined, for this reason; another attempt follows.
    Away(String),
    /// All agents.
    Agents(Vec<Agent>),
    /// The names of the agents that were cut off and do not run.
    CutOff(Vec<String>),
    /// The dead letters, the newest last.
    Letters(Vec<Message>),
    /// The number of messages in the person's mailbox, and the newest of them, which are last.
    Mailbox(u64, Vec<Message>),
    /// Messages were routed.
    Messages(Vec<Message>),
    /// Messages are followed now, or cannot be, for this reason.
    Following(Result<(), String>),
    /// The number of messages that were routed too fast to be shown.
    Lost(u64),
    /// The outcome of an order.
    Notice(String),
    /// A choice was made in the dialog of this agent, in words.
    Chosen(String, String),
    /// The agent, and whether its messages are now held.
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
    Reading(Box<Message>, usize),
    Filter(Editor),
    /// The arguments of `agent-relay spawn` are typed.
    Spawn(Editor),
    /// The person is asked whether this agent is to be stopped.
    Stop(String),
    Message {
        to: String,
        editor: Editor,
    },
}

impl Mode {
    /// Whether the agents and the messages are drawn, rather than a page.
    fn draws_panes(&self) -> bool {
        !matches!(self, Self::Help(_) | Self::Reading(..))
    }
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
    /// The current time for ages, in milliseconds since 1970.
    pub(super) now: u64,
    pub(super) link: Link,
    agents: AgentList,
    /// Whether the agents were listed once.
    has_agents: bool,
    cut_off: Vec<String>,
    conversation: MessageList,
    /// Whether the history was read once.
    has_history: bool,
    letters: MessageList,
    mailbox: MessageList,
    /// The number of messages in the mailbox. Only the newest are known.
    pub(super) mailbox_count: u64,
    /// The list that the pane of messages shows.
    pub(super) list: List,
    /// Whether keys move in the pane of messages, not in the pane of agents.
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
    /// The dialog that the last drawing showed completely, so that the person has seen it, and its
    /// agent.
    drawn_dialog: Option<(String, Dialog)>,
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
            has_agents: false,
            cut_off: Vec::new(),
            conversation: MessageList::default(),
            has_history: false,
            letters: MessageList::default(),
            mailbox: MessageList::default(),
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
            drawn_dialog: None,
        }
    }

    /// Whether something that is shown has changed since the last call, so that it is drawn now.
    pub(super) fn take_changed(&mut self) -> bool {
        let is_changed = std::mem::take(&mut self.is_changed);
        if is_changed {
            let drawn = self.answerable();
            self.drawn_dialog = drawn.map(|(name, dialog)| (name.to_owned(), dialog.clone()));
        }
        is_changed
    }

    /// The selected agent and its dialog, if the panes are drawn and have room for the whole
    /// question, since a person should not choose without it.
    pub(super) fn answerable(&self) -> Option<(&str, &Dialog)> {
        let agent = self.selected_agent().filter(|_| self.mode.draws_panes())?;
        let dialog = agent.dialog.as_ref()?;
        let is_whole = Question::fitted(dialog, self.areas().details).is_whole;
        is_whole.then_some((&agent.name, dialog))
    }

    /// The columns and rows of the terminal.
    pub(super) fn size(&self) -> (u16, u16) {
        (self.columns, self.rows)
    }

    pub(super) fn areas(&self) -> Areas {
        let shown = self.shown_agents();
        // A row for the selected agent, and one for the reason why its messages wait.
        let has_reason = shown.iter().any(|agent| agent.why.is_some());
        let details = usize::from(!shown.is_empty()) + usize::from(has_reason);
        let asked = self.selected_agent().and_then(|agent| agent.dialog.as_ref());
        let asked =
            asked.map_or(0, |dialog| 1 + dialog.text.lines().count() + dialog.choices.len());
        let agents = shown.len() + self.lines_below_agents();
        Areas::of(self.columns, self.rows, agents, details.max(asked), self.is_in_messages)
    }

    /// Whether an agent waits for its person.
    pub(super) fn waits_for_person(&self) -> bool {
        self.agents.all().iter().any(Agent::asks_person)
    }

    /// Whether the agents are not known yet, since they are being listed.
    pub(super) fn lists_agents(&self) -> bool {
        !self.has_agents && !matches!(self.link, Link::Away(_))
    }

    /// Whether the messages of the history are known. Those that are routed come after them.
    pub(super) fn has_history(&self) -> bool {
        self.has_history
    }

    pub(super) fn agents(&self) -> &AgentList {
        &self.agents
    }

    /// The agents that match the filter.
    pub(super) fn shown_agents(&self) -> Vec<&Agent> {
        self.agents.matching(&self.filter)
    }

    /// The rows of agents that are visible at once.
    fn agent_rows(&self) -> usize {
        Areas::rows(self.areas().agents).saturating_sub(self.lines_below_agents())
    }

    fn lines_below_agents(&self) -> usize {
        let has_sum = !self.summed_up_agents().is_empty();
        usize::from(has_sum) + usize::from(!self.offered().is_empty())
    }

    /// The agents that have one line together. Agents that were cut off have a separate line.
    pub(super) fn summed_up_agents(&self) -> Vec<&Agent> {
        let offered = self.offered();
        let mut agents = self.agents.summed_up(&self.filter);
        agents.retain(|agent| !offered.iter().any(|name| name.eq_ignore_ascii_case(&agent.name)));
        agents
    }

    /// The names of the agents that were cut off. The daemon may know that one runs.
    pub(super) fn cut_off(&self) -> Vec<&str> {
        let runs = |name: &str| {
            let mut agents = self.agents.all().iter();
            agents.any(|agent| agent.is_here && agent.name.eq_ignore_ascii_case(name))
        };
        self.cut_off.iter().map(|name| &**name).filter(|name| !runs(name)).collect()
    }

    /// The names of the agents that were cut off, if the list offers to start them again.
    pub(super) fn offered(&self) -> Vec<&str> {
        match self.hides_away() || !self.filter.is_empty() {
            true => Vec::new(),
            false => self.cut_off(),
        }
    }

    pub(super) fn hides_away(&self) -> bool {
        self.agents.hides_away()
    }

    pub(super) fn selected_agent(&self) -> Option<&Agent> {
        self.agents.selected(&self.filter)
    }

    /// The list that is shown in the pane of messages.
    pub(super) fn messages(&self) -> &MessageList {
        match self.list {
            List::Conversation => &self.conversation,
            List::DeadLetters => &self.letters,
            List::Mailbox => &self.mailbox,
        }
    }

    fn messages_mut(&mut self) -> &mut MessageList {
        match self.list {
            List::Conversation => &mut self.conversation,
            List::DeadLetters => &mut self.letters,
            List::Mailbox => &mut self.mailbox,
        }
    }

    pub(super) fn letters(&self) -> usize {
        self.letters.len()
    }

    /// The open message, or else the selected one in the pane of messages.
    fn chosen(&self) -> Option<&Message> {
        match &self.mode {
            Mode::Reading(message, _) => Some(message),
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

    /// The agent that needs its screen shown, and the size of the pane for it.
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
                self.is_changed |= self.agents.replace(agents) || !self.has_agents;
                self.has_agents = true;
                self.settle();
            }
            Update::CutOff(names) => {
                self.is_changed |= self.cut_off != names;
                self.cut_off = names;
                self.settle();
            }
            Update::Letters(letters) => {
                self.is_changed |= self.letters.replace(letters);
            }
            Update::Mailbox(count, newest) => {
                self.is_changed |= self.mailbox.replace(newest) || count != self.mailbox_count;
                self.mailbox_count = count;
            }
            Update::Messages(messages) => {
                self.is_changed |= !self.has_history;
                self.has_history = true;
                for message in messages {
                    self.is_changed |= self.conversation.push(message, &self.filter);
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
            Update::Chosen(name, what) => {
                self.set_notice(format!("{}: {what}", escaped(&name)));
                self.agents.get_mut(&name).into_iter().for_each(|agent| agent.dialog = None);
                self.settle();
            }
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
}

#[cfg(test)]
pub(super) mod tests {
    use super::{act::WHEEL, *};
    use crate::cli::agents::{Need, Place};
    use crate::cli::top::{
        action::{Action, Effect, Order, Step},
        editor::Edit,
    };
    use protocol::name::OPERATOR;
    use ratatui::layout::Position;

    pub(in crate::cli::top) const NOW: u64 = 1_000_000;

    pub(in crate::cli::top) fn agent(name: &str, need: Need, state: &str) -> Agent {
        Agent {
            name: name.to_owned(),
            is_here: state != "away",
            is_away: state == "away",
            program: "claude".to_owned(),
            place: Place { path: "~/src/web".to_owned(), short: "web (main)".to_owned() },
            is_working: state == "working",
            state: state.to_owned(),
            since: NOW - 5000,
            waiting: 0,
            oldest: None,
            route: "its messages are typed",
            why: None,
            is_held: false,
            need,
            dialog: None,
            context: None,
        }
    }

    pub(in crate::cli::top) fn message(number: usize, to: &str, text: &str) -> Message {
        Message {
            key: number.to_string(),
            id: format!("{number:08x}-0000-4000-8000-000000000000"),
            short: format!("{number:08x}"),
            time: format!("12:00:{number:02}"),
            from: "Ann".to_owned(),
            to: to.to_owned(),
            text: text.to_owned(),
            ..Message::default()
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
        assert_eq!(names, ["Cid", "Bob", "Ann"]);
        assert_eq!(selected(&model), "Cid");
        let mut model = model;
        let idle = [agent("Ann", Need::Nothing, "idle"), agent("Bob", Need::Nothing, "working")];
        model.update(Update::Agents(idle.to_vec()));
        assert_eq!(model.shown_agents()[0].name, "Bob", "those that work, then the others");
    }

    #[test]
    fn agents_that_are_away_have_one_line_unless_they_have_mail() {
        let names = |model: &Model| {
            let of = |agents: Vec<&Agent>| -> Vec<_> {
                agents.iter().map(|agent| agent.name.clone()).collect()
            };
            (of(model.shown_agents()), of(model.summed_up_agents()))
        };
        let mut model = model();
        let mail = Agent { waiting: 1, ..agent("Eve", Need::Nothing, "away") };
        let away = agent("Dora", Need::Nothing, "away");
        model.update(Update::Agents(vec![agent("Ann", Need::Nothing, "idle"), mail, away]));
        let all = (vec!["Ann".to_owned(), "Eve".to_owned()], vec!["Dora".to_owned()]);
        assert_eq!(names(&model), all);
        model.act(Action::HideAway);
        assert_eq!(names(&model).0, ["Ann"]);
        assert_eq!(names(&model).1, ["Dora", "Eve"]);
        model.act(Action::HideAway);
        assert_eq!(names(&model), all);
        model.act(Action::Filter);
        model.act(Action::Edit(Edit::Insert("do".to_owned())));
        assert_eq!(names(&model), (vec!["Dora".to_owned()], Vec::new()));
    }

    pub(in crate::cli::top) fn dialog(typed: u64) -> Dialog {
        Dialog {
            text: "Bash command\nrm -r target\nDo you want to proceed?".to_owned(),
            choices: ["Yes", "Yes, and always allow rm", "No"].map(str::to_owned).to_vec(),
            typed,
        }
    }

    /// A dialog that came after the last drawing gets no key, whatever the person has seen before.
    #[test]
    fn choice_is_made_in_the_dialog_that_was_drawn() {
        let mut model = model();
        let asks = |name: &str, typed| Agent {
            dialog: Some(dialog(typed)),
            ..agent(name, Need::Permission, "waits for permission")
        };
        let chosen = |name: &str, typed, choice| {
            let (name, dialog) = (name.to_owned(), dialog(typed));
            Some(Effect::Order(Order::Choose { name, dialog, choice }))
        };
        model.update(Update::Agents(vec![asks("Ann", 1), asks("Bob", 1)]));
        assert_eq!(model.act(Action::Choose(1)), None, "nothing was drawn");
        assert!(model.notice().is_some());
        assert!(model.take_changed());
        steps(&mut model, &[Step::First]);
        model.take_changed();
        assert_eq!(model.act(Action::Choose(2)), chosen("Ann", 1, 2));
        model.update(Update::Agents(vec![asks("Ann", 2), asks("Bob", 1)]));
        assert_eq!(model.act(Action::Choose(1)), chosen("Ann", 1, 1), "its wrapper refuses it");
        model.take_changed();
        assert_eq!(model.act(Action::Choose(3)), chosen("Ann", 2, 3));
        assert_eq!(model.act(Action::Choose(4)), None);
        assert_eq!(model.notice(), Some("there are 3 choices"));
        model.update(Update::Chosen("Ann".to_owned(), "3 No".to_owned()));
        assert_eq!(model.notice(), Some("Ann: 3 No"));
        model.take_changed();
        assert_eq!(model.act(Action::Choose(1)), None);
        model.act(Action::Next);
        assert_eq!(model.act(Action::Choose(1)), None, "Bob's was not drawn");
        model.take_changed();
        model.act(Action::SwitchPane);
        assert_eq!(model.act(Action::Choose(1)), None, "the messages are in front");
        model.act(Action::SwitchPane);
        assert_eq!(model.act(Action::Choose(1)), chosen("Bob", 1, 1));
    }

    /// A question cannot be answered while a page covers the panes, or in a terminal too small for
    /// the question and all choices.
    #[test]
    fn question_that_is_not_drawn_whole_gets_no_choice() {
        let asks = Agent { dialog: Some(dialog(1)), ..agent("Cid", Need::Permission, "waits") };
        let mut model = model();
        model.update(Update::Agents(vec![asks]));
        let mut chooses = |actions: &[Action]| {
            for action in actions {
                model.act(action.clone());
            }
            model.take_changed();
            model.act(Action::Choose(1)).is_some()
        };
        assert!(chooses(&[]));
        assert!(!chooses(&[Action::Help]));
        assert!(chooses(&[Action::Message]), "the panes stay");
        // One row has the question, and one the choices.
        for (columns, rows, is_whole) in
            [(80, 7, false), (80, 24, true), (60, 11, true), (60, 9, false), (20, 24, true)]
        {
            assert_eq!(chooses(&[Action::Resize(columns, rows)]), is_whole, "{columns}x{rows}");
        }
        model.act(Action::Resize(80, 7));
        model.take_changed();
        model.act(Action::Choose(1));
        let why = "the question is not shown whole: Enter attaches to the agent";
        assert_eq!(model.notice(), Some(why));
    }

    #[test]
    fn agent_is_stopped_after_a_question_and_started_by_a_line() {
        let mut model = model();
        model.act(Action::Stop);
        assert_eq!(model.mode, Mode::Stop("Cid".to_owned()));
        model.act(Action::Back);
        assert_eq!(model.mode, Mode::Normal);
        model.act(Action::Stop);
        // The agent that was asked about is stopped, whatever is selected by now.
        model.update(Update::Agents(vec![agent("Ann", Need::Permission, "x")]));
        let stop = Effect::Order(Order::Stop("Cid".to_owned()));
        assert_eq!(model.act(Action::Submit), Some(stop));
        model.act(Action::Spawn);
        assert_eq!(model.act(Action::Submit), None, "an empty line starts nothing");
        model.act(Action::Spawn);
        model.act(Action::Edit(Edit::Insert("Bob -- codex".to_owned())));
        let spawn = Effect::Order(Order::Spawn("Bob -- codex".to_owned()));
        assert_eq!(model.act(Action::Submit), Some(spawn));
        model.update(Update::Agents(vec![agent("Dora", Need::Nothing, "away")]));
        model.act(Action::Stop);
        assert_eq!(model.mode, Mode::Normal);
        assert!(model.notice().is_some());
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
        // A message goes to the agent that it was begun for.
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
        model.update(Update::Messages(vec![message(1, "Bob", "hello")]));
        model.act(Action::Filter);
        model.act(Action::Edit(Edit::Insert("bO".to_owned())));
        assert_eq!((selected(&model), model.shown_agents().len()), ("Bob", 1));
        assert_eq!(model.messages().matching(&model.filter).len(), 1);
        model.act(Action::Submit);
        assert_eq!(model.filter, "bO");
        model.act(Action::Back);
        assert_eq!((&*model.filter, model.shown_agents().len()), ("", 3));
    }

    #[test]
    fn dead_letter_is_redelivered() {
        let mut model = model();
        model.act(Action::Redeliver);
        assert!(model.notice().is_some());
        let letters = vec![message(1, "Bob", "one"), message(2, "Bob", "two")];
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
    fn open_message_stays_when_its_list_changes() {
        let mut model = model();
        let read = message(1, OPERATOR, "one");
        model.update(Update::Mailbox(2, vec![read.clone(), message(2, OPERATOR, "two")]));
        model.act(Action::Show(List::Mailbox));
        steps(&mut model, &[Step::Up]);
        model.act(Action::Open);
        model.update(Update::Mailbox(1, vec![message(2, OPERATOR, "two")]));
        assert_eq!(model.mode, Mode::Reading(Box::new(read.clone()), 0));
        assert_eq!(model.act(Action::Take), Some(Effect::Order(Order::Take(read.id))));
    }

    #[test]
    fn message_to_the_person_is_read_answered_and_taken() {
        let mut model = model();
        assert_eq!(model.act(Action::Take), None);
        assert!(model.notice().is_some());
        let text = (0..100).map(|number| format!("line {number}\n")).collect::<String>();
        model.update(Update::Mailbox(7, vec![message(1, OPERATOR, &text)]));
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
        let id = message(1, OPERATOR, "").id;
        assert_eq!(model.act(Action::Take), Some(Effect::Order(Order::Take(id))));
        model.act(Action::Show(List::Mailbox));
        assert_eq!((model.list, model.is_in_messages), (List::Conversation, false));
    }

    #[test]
    fn mouse_selects_and_scrolls() {
        let mut model = model();
        for number in 0..50 {
            model.update(Update::Messages(vec![message(number, OPERATOR, "hello")]));
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
        model.update(Update::Messages(vec![message(1, "Bob", "hello")]));
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
