//! The meaning of keys and of the mouse in `top`.

use super::{
    action::{Action, HELP_ROWS, Step},
    editor::Edit,
    layout,
    message_list::List,
    model::Mode,
};
use ratatui::{
    crossterm::event::{
        Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
    },
    layout::Position,
};

/// The keys and their effects, for the help.
pub(super) const HELP: [(&str, &str); HELP_ROWS] = [
    ("Up, Down, j, k", "select an agent or a message"),
    ("Enter", "attach to the agent (Ctrl-\\ comes back); read the message"),
    ("n", "go to the next agent that waits for you"),
    ("1 to 9", "press the choice with that number in the agent's dialog"),
    ("m", "send a message to the agent, or to the sender of the message"),
    ("h", "hold the agent's messages, or release them"),
    ("s", "stop the agent, after a question"),
    ("a", "start a new agent in the background"),
    ("R", "start the agents again that were cut off, such as by a reboot"),
    ("H", "hide agents that are away, or show those with mail again"),
    ("Tab", "go to the messages, or back to the agents"),
    ("i", "show your inbox, or the conversation again"),
    ("t", "take the chosen message out of your inbox"),
    ("d", "show the dead letters, or the conversation again"),
    ("r", "deliver the chosen dead letter again"),
    ("/", "show only agents and messages with a text"),
    ("Esc", "go back: to the agents, to the newest messages, to all"),
    ("PgUp, PgDn, g, G", "go by pages, to the first, to the last"),
    ("Click, wheel", "select; scroll the messages"),
    ("q, Ctrl-C", "quit; the agents run on"),
    ("!, ✓", "mark an agent that waits for you; that has finished, unseen"),
];

/// Returns the action of an event, if it has one.
pub(super) fn action(event: Event, mode: &Mode) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => None,
        Event::Key(key) if is_ctrl(key, 'c') => Some(Action::Quit),
        Event::Key(key) => match mode {
            Mode::Normal => normal(key),
            Mode::Help(_) | Mode::Reading(..) => Some(page(key)),
            Mode::Filter(_) | Mode::Message { .. } | Mode::Spawn(_) => typed(key),
            Mode::Stop(_) => Some(answer(key)),
        },
        Event::Paste(text) => Some(Action::Edit(Edit::Insert(text))),
        Event::Mouse(mouse) => {
            let at = Position::new(mouse.column, mouse.row);
            match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => Some(Action::Click(at)),
                MouseEventKind::ScrollUp => Some(Action::Wheel { at, up: true }),
                MouseEventKind::ScrollDown => Some(Action::Wheel { at, up: false }),
                _ => None,
            }
        }
        Event::Resize(columns, rows) => {
            let (columns, rows) = layout::limited(columns, rows);
            Some(Action::Resize(columns, rows))
        }
        Event::FocusGained | Event::FocusLost => None,
    }
}

fn is_ctrl(key: KeyEvent, letter: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(letter)
}

/// The action of a key while the help or a message fills the panes: steps scroll, and most other
/// keys end that.
fn page(key: KeyEvent) -> Action {
    match normal(key) {
        Some(action @ (Action::Step(_) | Action::Quit | Action::Message)) => action,
        Some(action @ (Action::Take | Action::Redeliver)) => action,
        _ => Action::Back,
    }
}

/// The action of a key while a question is asked.
fn answer(key: KeyEvent) -> Action {
    match key.code {
        KeyCode::Char('y' | 's') | KeyCode::Enter => Action::Submit,
        _ => Action::Back,
    }
}

/// The action of a key while no line is typed.
fn normal(key: KeyEvent) -> Option<Action> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Action::Step(Step::Up),
        KeyCode::Down | KeyCode::Char('j') => Action::Step(Step::Down),
        KeyCode::PageUp => Action::Step(Step::PageUp),
        KeyCode::PageDown => Action::Step(Step::PageDown),
        KeyCode::Home | KeyCode::Char('g') => Action::Step(Step::First),
        KeyCode::End | KeyCode::Char('G') => Action::Step(Step::Last),
        KeyCode::Enter => Action::Open,
        KeyCode::Tab | KeyCode::BackTab => Action::SwitchPane,
        KeyCode::Esc => Action::Back,
        KeyCode::Char('n') => Action::Next,
        KeyCode::Char('m') => Action::Message,
        KeyCode::Char('h') => Action::Hold,
        KeyCode::Char('H') => Action::HideAway,
        KeyCode::Char('s') => Action::Stop,
        KeyCode::Char('a') => Action::Spawn,
        KeyCode::Char('R') => Action::Restore,
        KeyCode::Char(digit @ '1'..='9') => Action::Choose(digit as usize - '0' as usize),
        KeyCode::Char('r') => Action::Redeliver,
        KeyCode::Char('t') => Action::Take,
        KeyCode::Char('d') => Action::Show(List::DeadLetters),
        KeyCode::Char('i') => Action::Show(List::Mailbox),
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    })
}

/// The action of a key while a line is typed.
fn typed(key: KeyEvent) -> Option<Action> {
    // AltGr comes as Ctrl and Alt together, and its characters are text.
    let control = key.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
    let edit = match (key.code, control) {
        (KeyCode::Enter, _) => return Some(Action::Submit),
        (KeyCode::Esc, _) => return Some(Action::Back),
        (KeyCode::Backspace, _) => Edit::Backspace,
        (KeyCode::Delete, _) => Edit::Delete,
        (KeyCode::Left, _) => Edit::Left,
        (KeyCode::Right, _) => Edit::Right,
        (KeyCode::Home, _) => Edit::Home,
        (KeyCode::End, _) => Edit::End,
        (KeyCode::Char(letter), KeyModifiers::CONTROL) => match letter {
            'a' => Edit::Home,
            'e' => Edit::End,
            'h' => Edit::Backspace,
            'u' => Edit::Clear,
            'w' => Edit::Word,
            _ => return None,
        },
        (KeyCode::Char(_), KeyModifiers::ALT) => return None,
        (KeyCode::Char(letter), _) => Edit::Insert(letter.to_string()),
        (KeyCode::Tab, _) => Edit::Insert(" ".to_owned()),
        _ => return None,
    };
    Some(Action::Edit(edit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::editor::Editor;
    use ratatui::crossterm::event::MouseEvent;

    fn press(code: KeyCode, modifiers: KeyModifiers, mode: &Mode) -> Option<Action> {
        action(Event::Key(KeyEvent::new(code, modifiers)), mode)
    }

    #[test]
    fn letters_are_commands_or_text() {
        let typing = Mode::Filter(Editor::default());
        let inserted = |text: &str| Some(Action::Edit(Edit::Insert(text.to_owned())));
        let reading = Mode::Reading(Box::default(), 0);
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('q'), none, &Mode::Normal), Some(Action::Quit));
        assert_eq!(press(KeyCode::Char('q'), none, &typing), inserted("q"));
        assert_eq!(press(KeyCode::Char('q'), none, &Mode::Help(0)), Some(Action::Quit));
        assert_eq!(press(KeyCode::Char('x'), none, &reading), Some(Action::Back));
        let down = Some(Action::Step(Step::Down));
        assert_eq!(press(KeyCode::Char('j'), none, &reading), down);
        assert_eq!(press(KeyCode::Char('x'), none, &Mode::Normal), None);
        let alt_gr = KeyModifiers::CONTROL | KeyModifiers::ALT;
        assert_eq!(press(KeyCode::Char('@'), alt_gr, &typing), inserted("@"));
        assert_eq!(press(KeyCode::Char('x'), KeyModifiers::ALT, &typing), None);
        for mode in [Mode::Normal, Mode::Help(0), typing] {
            let quit = press(KeyCode::Char('c'), KeyModifiers::CONTROL, &mode);
            assert_eq!(quit, Some(Action::Quit));
        }
    }

    #[test]
    fn question_is_answered_by_yes_only() {
        let none = KeyModifiers::NONE;
        let asks = Mode::Stop("Ann".to_owned());
        for (code, action) in [
            (KeyCode::Char('s'), Action::Submit),
            (KeyCode::Char('y'), Action::Submit),
            (KeyCode::Char('n'), Action::Back),
            (KeyCode::Char('1'), Action::Back),
            (KeyCode::Esc, Action::Back),
        ] {
            assert_eq!(press(code, none, &asks), Some(action));
        }
        assert_eq!(press(KeyCode::Char('1'), none, &Mode::Normal), Some(Action::Choose(1)));
        assert_eq!(press(KeyCode::Char('0'), none, &Mode::Normal), None);
        let reading = Mode::Reading(Box::default(), 0);
        assert_eq!(press(KeyCode::Char('1'), none, &reading), Some(Action::Back));
    }

    #[test]
    fn released_key_does_nothing() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(action(Event::Key(key), &Mode::Normal), None);
    }

    #[test]
    fn mouse_and_size_are_actions() {
        let mouse = |kind| {
            let event = MouseEvent { kind, column: 4, row: 2, modifiers: KeyModifiers::NONE };
            action(Event::Mouse(event), &Mode::Normal)
        };
        let at = Position::new(4, 2);
        assert_eq!(mouse(MouseEventKind::Down(MouseButton::Left)), Some(Action::Click(at)));
        assert_eq!(mouse(MouseEventKind::ScrollUp), Some(Action::Wheel { at, up: true }));
        assert_eq!(mouse(MouseEventKind::Moved), None);
        assert_eq!(action(Event::Resize(3, 2), &Mode::Normal), Some(Action::Resize(3, 2)));
        let huge = action(Event::Resize(u16::MAX, u16::MAX), &Mode::Normal);
        assert_eq!(huge, Some(Action::Resize(600, 250)), "a buffer of it would take gigabytes");
    }
}
