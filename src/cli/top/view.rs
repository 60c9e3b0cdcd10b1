//! The screen of `top`: the model, drawn into a frame.

use super::{
    editor::Editor,
    keys::HELP,
    layout::Areas,
    message_list::{List, Message},
    model::{Link, Mode, Model},
    question::Question,
};
use crate::cli::{
    agents::{Agent, COLUMNS, Need, names_in_line, sum_of},
    print::counted,
    table::{self, Column, cut},
};
use protocol::{control::Dialog, name::OPERATOR, text::escaped};
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Color, Modifier, Style},
};
use unicode_width::UnicodeWidthStr as _;

/// The columns of a narrow terminal, by their numbers: the mark, the name and the state.
const COLUMNS_NARROW: [usize; 3] = [0, 1, 4];

/// The width that makes a terminal narrow if it has less.
const WIDTH_MIN: u16 = 60;

/// The minimum width of a name; wide terminals show more.
const NAME_COLUMNS: u16 = 24;

/// The keys that the last line always shows.
const KEYS: &str = "? help  q quit";

/// The most rows of a notice: many agents may not be restored, each for a different reason.
const NOTICE_ROWS: usize = 12;

/// The columns of a message's time.
const TIME_COLUMNS: usize = 8;

/// Draws the model.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let whole = frame.area();
    let Areas { top, agents, details, messages, preview, body, bottom } = model.areas();
    // The terminal may be smaller by now than the model knows.
    let [top, agents, details, messages, preview, body, bottom] =
        [top, agents, details, messages, preview, body, bottom]
            .map(|area| area.intersection(whole));
    let style = Styles { has_colours: model.has_colours };
    let mut pane = Pane { buffer: frame.buffer_mut(), style };
    pane.top(model, top);
    match &model.mode {
        Mode::Help(first) => pane.help(*first, body),
        Mode::Reading(message, first) => pane.reading(message, *first, body),
        Mode::Normal | Mode::Filter(_) | Mode::Spawn(_) | Mode::Stop(_) | Mode::Message { .. } => {
            pane.agents(model, agents);
            pane.details(model, details);
            pane.messages(model, messages);
            pane.preview(model, preview);
        }
    }
    if let Some(cursor) = pane.bottom(model, bottom, whole) {
        frame.set_cursor_position(cursor);
    }
}

/// The styles of texts, which need no colour to be told apart.
#[derive(Clone, Copy)]
struct Styles {
    has_colours: bool,
}

impl Styles {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn faint() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn bold() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The style of a selected row. A reversed row has the terminal's own colours, since other
    /// combinations might be unreadable.
    fn selected(self, style: Style, is_active: bool) -> Style {
        match is_active {
            true => Style::new()
                .add_modifier(Modifier::REVERSED | (style.add_modifier & Modifier::BOLD)),
            false => style.add_modifier(Modifier::UNDERLINED),
        }
    }

    fn of_agent(self, agent: &Agent) -> Style {
        match agent.need {
            Need::Permission | Need::Answer => {
                self.coloured(Color::Red).add_modifier(Modifier::BOLD)
            }
            Need::Message => self.coloured(Color::Yellow),
            Need::Look => self.coloured(Color::Green),
            Need::Nothing if agent.is_here => Style::new(),
            Need::Nothing => Self::faint(),
        }
    }

    fn of_message(self, message: &Message) -> Style {
        match (&message.why, message.to == OPERATOR) {
            (Some(_), _) => self.coloured(Color::Red),
            (None, true) => self.coloured(Color::Green).add_modifier(Modifier::BOLD),
            (None, false) => Style::new(),
        }
    }
}

/// A buffer that is drawn into, line by line.
struct Pane<'a> {
    buffer: &'a mut Buffer,
    style: Styles,
}

impl Pane<'_> {
    /// Draws a line of an area, which is cut at its width. A row outside of the area is left out.
    fn line(&mut self, area: Rect, row: usize, text: &str, style: Style) {
        if row >= usize::from(area.height) || area.is_empty() {
            return;
        }
        let line = Rect { y: area.y + u16::try_from(row).unwrap_or(0), height: 1, ..area };
        let text = cut(text, line.width.into());
        self.buffer.set_stringn(line.x, line.y, text, line.width.into(), style);
        self.buffer.set_style(line, style);
    }

    fn top(&mut self, model: &Model, area: Rect) {
        let agents = model.agents().all();
        let here = agents.iter().filter(|agent| agent.is_here).count();
        let wait = agents.iter().filter(|agent| agent.needs_person()).count();
        let mut parts = vec![format!("{}, {here} here", counted(agents.len() as u64, "agent"))];
        let verb = if wait == 1 { "waits" } else { "wait" };
        parts.extend((wait > 0).then(|| format!("{wait} {verb} for you")));
        let finished = agents.iter().filter(|agent| agent.need == Need::Look).count();
        parts.extend((finished > 0).then(|| format!("{finished} finished")));
        let letters = model.letters() as u64;
        parts.extend((letters > 0).then(|| counted(letters, "dead letter")));
        let mail = model.mailbox_count;
        parts.extend((mail > 0).then(|| counted(mail, "message") + " for you"));
        let is_filtered = !model.filter.is_empty();
        parts.extend(is_filtered.then(|| format!("only {:?}", escaped(&model.filter))));
        let (text, style) = match &model.link {
            Link::Connecting => ("connecting to the daemon".to_owned(), Styles::faint()),
            Link::Away(why) => {
                let style = self.style.coloured(Color::Red).add_modifier(Modifier::BOLD);
                (format!("not connected, trying again: {why}"), style)
            }
            Link::Joined(endpoint) => {
                parts.push(escaped(endpoint));
                (parts.join("  "), Styles::bold())
            }
        };
        self.line(area, 0, &text, style);
    }

    fn agents(&mut self, model: &Model, area: Rect) {
        let shown = model.shown_agents();
        let is_narrow = area.width < WIDTH_MIN;
        let is_shown = |column: usize| !is_narrow || COLUMNS_NARROW.contains(&column);
        let cells = |agent: &&Agent| -> Vec<String> {
            let mut cells = agent.cells(model.now);
            cells[1] = cut(&cells[1], NAME_COLUMNS.max(area.width / 6).into());
            let cells = cells.into_iter().enumerate().filter(|(column, _)| is_shown(*column));
            cells.map(|(_, cell)| cell).collect()
        };
        let cells: Vec<_> = shown.iter().map(cells).collect();
        let columns = COLUMNS.iter().enumerate().filter(|(column, _)| is_shown(*column));
        let columns: Vec<_> = columns.map(|(_, column)| *column).collect();
        let mut lines = table::lines(&columns, &cells, area.width.into()).into_iter();
        let heading = lines.next().unwrap_or_default();
        self.line(area, 0, &heading, Styles::bold());
        let below = self.below_agents(model);
        if shown.is_empty() && below.is_empty() {
            let text = match &*model.filter {
                "" if model.lists_agents() => return,
                "" => "no agents; start one with `agent-relay claude`",
                _ => "no agent matches the filter",
            };
            return self.line(area, 1, text, Styles::faint());
        }
        let height = area.height.saturating_sub(u16::try_from(below.len()).unwrap_or(u16::MAX));
        let rows = Rect { height, ..area };
        let first_below = shown.len().min(Areas::rows(rows)) + 1;
        for (at, (line, style)) in below.iter().enumerate() {
            self.line(area, first_below + at, line, *style);
        }
        let selected = model.agents().selected_at(&model.filter);
        let visible = lines.zip(&shown).enumerate().skip(model.agents().first());
        for (row, (at, (line, agent))) in visible.take(Areas::rows(rows)).enumerate() {
            let mut style = self.style.of_agent(agent);
            if selected == Some(at) {
                style = self.style.selected(style, !model.is_in_messages);
            }
            self.line(area, row + 1, &line, style);
        }
    }

    /// The lines below the agents.
    fn below_agents(&self, model: &Model) -> Vec<(String, Style)> {
        let summed_up: Vec<_> =
            model.summed_up_agents().into_iter().map(|agent| &*agent.name).collect();
        let sum = if model.hides_away() { hidden(&summed_up) } else { sum_of(&summed_up) };
        let sum = sum.map(|sum| (sum, Styles::faint()));
        let offer = offer_of(&model.offered()).map(|it| (it, self.style.coloured(Color::Yellow)));
        sum.into_iter().chain(offer).collect()
    }

    /// Draws how the selected agent gets its messages, and its question, or which messages wait and
    /// why.
    fn details(&mut self, model: &Model, area: Rect) {
        let Some(agent) = model.selected_agent() else { return };
        let style = self.style.of_agent(agent);
        self.line(area, 0, &agent.details(model.now), style);
        match (&agent.dialog, &agent.why) {
            (Some(dialog), _) => self.dialog(dialog, area, style),
            (None, Some((why, _))) => self.line(area, 1, &format!("  {why}"), style),
            (None, None) => {}
        }
    }

    /// Draws a dialog's text and its choices in the rows below the first one.
    fn dialog(&mut self, dialog: &Dialog, area: Rect, style: Style) {
        let Question { text, choices, .. } = Question::fitted(dialog, area);
        let text = text.into_iter().map(|line| (line, style));
        let choices = choices.into_iter().map(|line| (line, Styles::bold()));
        for (row, (line, style)) in text.chain(choices).enumerate() {
            self.line(area, row + 1, &format!("  {line}"), style);
        }
    }

    fn messages(&mut self, model: &Model, area: Rect) {
        self.line(area, 0, &messages_heading(model), Styles::bold());
        if model.messages().matching(&model.filter).is_empty() {
            let text = match (model.list, &*model.filter) {
                (List::Conversation, _) if !model.has_history() => return,
                (List::Conversation, "") => "no messages yet",
                (List::DeadLetters, "") => "no message failed to arrive",
                (List::Mailbox, "") => "nothing waits for you",
                _ => "no message matches the filter",
            };
            return self.line(area, 1, text, Styles::faint());
        }
        let visible = model.messages().visible(&model.filter, Areas::rows(area));
        for (row, (message, is_chosen)) in visible.into_iter().enumerate() {
            let mut style = self.style.of_message(message);
            if is_chosen {
                style = self.style.selected(style, model.is_in_messages);
            }
            self.line(area, row + 1, &message_line(message, area.width), style);
        }
    }

    /// Draws the screen of the selected agent after a line.
    fn preview(&mut self, model: &Model, area: Rect) {
        let Rect { x, y, width, height } = area;
        for row in 0..usize::from(height) {
            self.line(Rect { width: width.min(1), ..area }, row, "│", Styles::faint());
        }
        let area = Rect::new(x + 2, y, width.saturating_sub(2), height);
        let Some(agent) = model.selected_agent() else { return };
        self.line(area, 0, &format!("SCREEN of {}", escaped(&agent.name)), Styles::bold());
        match model.preview() {
            Some(Ok(rows)) => {
                // The last rows show the activity.
                let first = rows.len().saturating_sub(Areas::rows(area));
                for (row, text) in rows[first..].iter().enumerate() {
                    self.line(area, row + 1, &escaped(text), Style::new());
                }
            }
            Some(Err(why)) => self.broken(area, 1, why),
            None => {}
        }
    }

    /// Draws the help from a row on.
    fn help(&mut self, first: usize, area: Rect) {
        let columns = [Column::whole("KEY"), Column::cut("", 12)];
        let rows = HELP.map(|(key, what)| vec![key.to_owned(), what.to_owned()]);
        let lines = table::lines(&columns, &rows, area.width.into());
        self.page(&lines, first, area);
    }

    /// Draws the chosen message with its whole text, beginning at a row.
    fn reading(&mut self, message: &Message, first: usize, area: Rect) {
        self.page(&message.page(area.width.into()), first, area);
    }

    /// Draws lines, beginning at one of them. The very first line is a heading.
    fn page(&mut self, lines: &[String], first: usize, area: Rect) {
        for (row, (at, line)) in lines.iter().enumerate().skip(first).enumerate() {
            self.line(area, row, line, if at == 0 { Styles::bold() } else { Style::new() });
        }
    }

    /// Draws a text, beginning at a row, broken between words.
    fn broken(&mut self, area: Rect, from: usize, text: &str) {
        let broken = table::broken(text, usize::from(area.width).max(1), 0);
        for (row, line) in broken.lines().enumerate() {
            self.line(area, from + row, line, Style::new());
        }
    }

    /// Draws the last line: keys, a notice, or the input line. Returns the cursor of the input
    /// line.
    fn bottom(&mut self, model: &Model, area: Rect, whole: Rect) -> Option<Position> {
        match (&model.mode, model.notice()) {
            (Mode::Filter(editor), _) => return self.typed("/", editor, area),
            (Mode::Spawn(editor), _) => return self.typed("agent-relay spawn ", editor, area),
            (Mode::Stop(name), _) => {
                let question = format!("stop {}? y stops it, other keys do not", escaped(name));
                self.line(area, 0, &question, Styles::bold());
            }
            (Mode::Message { to, editor }, _) => {
                return self.typed(&format!("to {}: ", escaped(to)), editor, area);
            }
            (Mode::Normal, Some(notice)) => self.notice(notice, area, whole),
            _ => self.line(area, 0, &keys(model, area.width.into()), Styles::faint()),
        }
        None
    }

    /// Draws a notice that ends on the last line, and covers rows above it if it is long.
    fn notice(&mut self, notice: &str, last: Rect, whole: Rect) {
        let broken = |line| table::broken(&escaped(line), usize::from(last.width).max(1), 0);
        let broken = notice.lines().map(broken).collect::<Vec<_>>().join("\n");
        let rows = u16::try_from(broken.lines().count().min(NOTICE_ROWS)).unwrap_or(1);
        let y = last.bottom().saturating_sub(rows);
        let area = Rect { y, height: rows, ..last }.intersection(whole);
        for position in area.positions() {
            self.buffer[position].reset();
        }
        for (row, line) in broken.lines().enumerate() {
            self.line(area, row, line, Styles::bold());
        }
    }

    /// Draws the input line after a label. Returns the cursor's position.
    fn typed(&mut self, label: &str, editor: &Editor, area: Rect) -> Option<Position> {
        // At least half of the line is for the input.
        let label = cut(label, usize::from(area.width / 2));
        let before = label.width();
        let (text, cursor) = editor.shown(usize::from(area.width).saturating_sub(before));
        self.line(area, 0, &(label + &text), Style::new());
        let column = u16::try_from(before + cursor).unwrap_or(u16::MAX);
        let at = Position::new(area.x.saturating_add(column), area.y);
        Some(at).filter(|at| area.contains(*at))
    }
}

/// The line about agents that the person has hidden, if there are any.
fn hidden(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} away, hidden (H shows them)", names.len()))
}

/// The line about agents that were cut off, if there are any.
fn offer_of(names: &[&str]) -> Option<String> {
    let them = if names.len() == 1 { "it" } else { "them" };
    let list = names_in_line(names);
    let offer = || format!("{} cut off (R starts {them} again): {list}", names.len());
    (!names.is_empty()).then(offer)
}

/// The heading of the pane of messages.
fn messages_heading(model: &Model) -> String {
    let mut heading = match model.list {
        List::Conversation => "MESSAGES".to_owned(),
        List::DeadLetters => "DEAD LETTERS".to_owned(),
        List::Mailbox => "YOUR INBOX".to_owned(),
    };
    if !model.messages().follows() {
        heading.push_str(" (Esc: newest)");
    }
    if model.list == List::Conversation {
        if model.lost > 0 {
            heading.push_str(&format!(" ({} too fast to be shown)", model.lost));
        }
        // Without a connection, the first line says why.
        if let (Link::Joined(_), Some(why)) = (&model.link, &model.unfollowed) {
            heading.push_str(&format!(" (new ones are not shown: {why})"));
        }
    }
    heading
}

/// The keys that can be used now, as many as have room; the most important ones are first.
fn keys(model: &Model, width: usize) -> String {
    let mut keys: Vec<&str> = match (&model.mode, model.list) {
        (Mode::Help(_), _) => vec!["Up, Down scroll", "Esc back"],
        (Mode::Reading(..), List::Mailbox) => {
            vec!["Up, Down scroll", "m answer", "t take", "Esc back"]
        }
        (Mode::Reading(..), List::DeadLetters) => {
            vec!["Up, Down scroll", "r redeliver", "Esc back"]
        }
        (Mode::Reading(..), List::Conversation) => vec!["Up, Down scroll", "m answer", "Esc back"],
        (_, List::Mailbox) if model.is_in_messages => {
            vec!["Enter read", "m answer", "t take", "Esc back", "/ filter"]
        }
        (_, List::DeadLetters) if model.is_in_messages => {
            vec!["Enter read", "r redeliver", "Esc back", "/ filter"]
        }
        _ if model.is_in_messages => vec!["Enter read", "m answer", "Esc back", "/ filter"],
        _ => match model.answerable() {
            Some(_) => vec!["1-9 answer", "n next", "Enter attach", "m send", "h hold"],
            None => vec!["Enter attach", "n next", "m send", "h hold", "s stop", "a new"],
        },
    };
    if model.mode == Mode::Normal {
        if !model.is_in_messages && !model.offered().is_empty() {
            keys.insert(1, "R restore");
        }
        keys.extend((model.mailbox_count > 0 && model.list != List::Mailbox).then_some("i inbox"));
        let has_letters = model.letters() > 0 && model.list != List::DeadLetters;
        keys.extend(has_letters.then_some("d dead letters"));
        if !model.is_in_messages {
            keys.extend(["Tab messages", "/ filter"]);
        }
    }
    let with = |keys: &[&str]| [keys, &[KEYS]].concat().join("  ");
    while with(&keys).width() > width && keys.pop().is_some() {}
    with(&keys)
}

/// A message on one line: time, id, route and text. Narrow terminals leave out time and id.
fn message_line(message: &Message, width: u16) -> String {
    let Message { short, time, from, to, why, .. } = message;
    let before = match width {
        WIDTH_MIN.. => format!("{time:<TIME_COLUMNS$} {short}  "),
        40.. => format!("{time:<TIME_COLUMNS$} "),
        _ => String::new(),
    };
    let why = why.as_ref().map(|why| format!("({why}) ")).unwrap_or_default();
    let [from, to] = [from, to].map(|name| cut(name, NAME_COLUMNS.min(width / 4).into()));
    format!("{before}{from} -> {to}: {why}{}", message.line(width.into()))
}

#[cfg(test)]
mod tests;
