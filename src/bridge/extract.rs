//! Bytes of a terminal in, messages out.
//!
//! ```text
//! bytes -> Screen -> rows -> Page: lines -> Scanner: messages -> old or new?
//! ```
//!
//! Rows that scrolled off are read for good, in order; rows that stand on the screen are read by a copy
//! each time somebody looks, and what they say counts once they have stood still. What was taken
//! already is known again by where it stands in the order of all, never by its text alone: an agent may
//! say the same thing twice. The rules are the protocol's, in its last section.

mod block;
mod body;
mod fence;
mod injected;
mod line;
pub mod marks;
mod opener;
mod page;
mod pictures;
mod rejoin;
mod scan;
mod still;
mod taken;
mod target;
mod torn;

use self::injected::Injected;
use self::line::Line;
use self::page::Page;
use self::pictures::{Moved, Pictures};
use self::scan::{Item, More, Rules, Scanner};
use self::still::{STILL_MS, Stillness};
use self::taken::{Identity, Replay, Standing, Taken};
use self::torn::Torn;
use super::outgoing::OutgoingMessage;
use super::screen::{Discontinuity, Row, Screen, ScreenObserver, VisibleRows};
use crate::protocol::Moment;

/// Without a byte for this long the turn is over.
pub(super) const SILENCE_MS: u64 = 60_000;

/// How often the rows are looked at while bytes flow.
const SAMPLE_MS: u64 = 50;

/// A picture that a program began and did not end within this time is taken as it is.
pub(super) const PICTURE_MS: u64 = 1_000;

/// Bodies of one text that are read again without regard to their fences.
const PLAIN_BODIES_MAX: usize = 32;

/// How many messages that scrolled off an alternate screen belong to the picture they were part of.
const PICTURE_MESSAGES_MAX: usize = 256;

/// How many messages that stand on the primary screen, or were painted over there, are known again.
const SHOWN_MAX: usize = 256;

/// Something that looked like a message and is none: the agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which rule it broke.
    pub what: Fault,
    /// One sentence that says what was wrong and how it goes right.
    pub sentence: String,
    /// The row where it began.
    pub row: String,
}

/// Which rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An opener with a target, tag or topic that is not allowed.
    Opener,
    /// A message or block that was not closed.
    Unclosed,
    /// A block that is not the JSON it has to be.
    Block,
    /// A body over the limit.
    TooLarge,
    /// A message that says nothing.
    Empty,
    /// A message in a frame that the agent quotes.
    Quoted,
    /// A message in a code fence that was never closed.
    Fenced,
    /// A message that was painted over before it was closed.
    Torn,
}

/// What extraction says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Extracted {
    /// A message to send.
    Found(OutgoingMessage),
    /// A sentence for the agent (the bridge types the first few of a turn).
    Problem(Problem),
}

/// Reads messages off a screen.
pub struct Extractor {
    screen: Screen,
    reader: Reader,
    /// When the last bytes came.
    fed: Moment,
    /// When the rows were last looked at, and whether bytes came since.
    sampled: Moment,
    changed: bool,
    /// When rows will have stood still.
    due: Option<Moment>,
    /// Since when that waits for the end of a picture.
    held: Option<Moment>,
    /// Bytes came since the last turn's end.
    turn_open: bool,
}

impl Extractor {
    /// For a child that runs: rows are final when they scroll off or have stood for 250 ms.
    pub fn live(columns: usize, rows: usize) -> Self {
        Self::new(columns, rows, true, Injected::default())
    }

    /// For recorded bytes, which have no times: rows are final when they scroll off, when their
    /// alternate screen is left, and at the end.
    pub fn offline(columns: usize, rows: usize) -> Self {
        Self::new(columns, rows, false, Injected::by_form())
    }

    fn new(columns: usize, rows: usize, live: bool, injected: Injected) -> Self {
        let screen = Screen::new(columns, rows);
        let (columns, rows) = screen.size();
        let rules = Rules { columns: Some(columns), injected, ..Rules::default() };
        Self {
            screen,
            reader: Reader { rules, rows, live, ..Reader::default() },
            fed: Moment::default(),
            sampled: Moment::default(),
            changed: false,
            due: None,
            held: None,
            turn_open: false,
        }
    }

    /// The one-line form `->relay:Bob hello` counts as well. It is off by default: it matches ordinary
    /// output too easily.
    pub fn allow_inline(&mut self) {
        self.reader.rules.inline = true;
    }

    /// The program leaves so many blanks in front of what its agent says; they count as none.
    pub fn skip_margin(&mut self, blanks: usize) {
        self.reader.rules.margin = blanks;
    }

    /// The child wrote `bytes`.
    pub fn feed(&mut self, now: Moment, bytes: &[u8], out: &mut Vec<Extracted>) {
        if self.reader.live {
            self.tick(now, out);
            let sample = self.changed && !self.screen.synchronizing();
            if sample && now >= self.sampled.plus(SAMPLE_MS) {
                self.sample(now);
            }
        }
        self.screen.feed(bytes, &mut self.reader);
        self.touched(now);
        out.append(&mut self.reader.found);
    }

    /// The terminal has another size (clamped to what is sane).
    pub fn resize(&mut self, now: Moment, columns: usize, rows: usize, out: &mut Vec<Extracted>) {
        self.tick(now, out);
        let before = self.screen.size();
        self.screen.resize(columns, rows, &mut self.reader);
        if self.screen.size() != before {
            self.reader.resized(self.screen.size());
        }
        self.touched(now);
        out.append(&mut self.reader.found);
    }

    /// Time passed; there is something to do at `deadline`.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        if !self.reader.live {
            return;
        }
        if self.due.is_some_and(|due| due <= now) {
            self.look(now);
        }
        if self.turn_open && now >= self.fed.plus(SILENCE_MS) {
            self.end_turn(now);
        }
        out.append(&mut self.reader.found);
    }

    /// Somebody who knows the program saw that the agent's turn is over.
    pub fn turn_over(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        self.end_turn(now);
        out.append(&mut self.reader.found);
    }

    /// No more bytes come: everything is final.
    pub fn finish(&mut self, now: Moment, out: &mut Vec<Extracted>) {
        self.reader.finishing = true;
        self.screen.leave_alternate(&mut self.reader);
        self.end_turn(now);
        self.due = None;
        out.append(&mut self.reader.found);
    }

    /// All messages and problems of a recording.
    pub fn read_recording(mut self, bytes: &[u8]) -> (Vec<OutgoingMessage>, Vec<Problem>) {
        let mut found = Vec::new();
        self.feed(Moment::default(), bytes, &mut found);
        self.finish(Moment::default(), &mut found);
        sorted(found)
    }

    /// When `tick` has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        let silence = self.turn_open.then(|| self.fed.plus(SILENCE_MS));
        [self.due, silence].into_iter().flatten().min().filter(|_| self.reader.live)
    }

    /// `body` is being typed into the agent as it is, in a frame with these six digits: what the
    /// screen shows of it is no message. For screens that are only looked at; where what the agent
    /// says is read there, no mark is typed whole.
    pub fn remember_injected(&mut self, hex: &str, body: &str) {
        self.reader.rules.injected.remember(hex, body);
    }

    /// A frame with these digits is being typed, with its marks escaped.
    pub fn remember_escaped(&mut self, hex: &str) {
        self.reader.rules.injected.remember_escaped(hex);
    }

    /// The agent is in the middle of a message: what is typed now would become a part of it.
    pub fn is_in_message(&self) -> bool {
        self.reader.gathers
    }

    /// The screen, for who has to know what stands on it.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// The screen, for its answers.
    pub fn screen_mut(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn touched(&mut self, now: Moment) {
        self.fed = now;
        self.changed = true;
        self.turn_open = true;
        let still = now.plus(STILL_MS);
        self.due = Some(self.due.map_or(still, |due| due.min(still)));
    }

    /// What changed did so by the last bytes.
    fn sample(&mut self, now: Moment) {
        if self.reader.pictures.is_some() && !self.screen.synchronizing() {
            self.reader.next_picture(self.screen.visible_rows());
        }
        self.reader.rows_scrolling_off(self.screen.visible_rows(), 0);
        self.reader.still.look(&self.screen, self.fed);
        self.sampled = now;
        self.changed = false;
    }

    fn look(&mut self, now: Moment) {
        if self.screen.synchronizing() {
            let end = self.held.get_or_insert(now).plus(PICTURE_MS);
            if now < end {
                // Once it stood still, only more bytes can make a difference; they set a due of their own.
                let still = Some(self.fed.plus(STILL_MS)).filter(|&still| still > now);
                self.due = Some(still.map_or(end, |still| still.min(end)));
                return;
            }
        }
        self.held = None;
        self.sample(now);
        self.reader.look(Look { now, cursor: self.screen.cursor().row, all: false });
        self.due = self.reader.still.next(now);
    }

    fn end_turn(&mut self, now: Moment) {
        self.turn_open = false;
        self.sample(now);
        self.reader.end_turn(Look { now, cursor: self.screen.cursor().row, all: true });
    }
}

/// All messages and problems of a recording of a program that leaves no margin.
pub fn extract_recording(
    bytes: &[u8],
    columns: usize,
    rows: usize,
) -> (Vec<OutgoingMessage>, Vec<Problem>) {
    Extractor::offline(columns, rows).read_recording(bytes)
}

/// Reads messages out of texts that stood on no screen, as a transcript has them.
pub struct Prose {
    rules: Rules,
    injected: Injected,
}

impl Prose {
    /// A reader of what the agent says; `inline` as for [`Extractor::allow_inline`].
    pub fn new(inline: bool) -> Self {
        let rules = Rules { inline, fenced_bodies: true, ..Rules::default() };
        Self { rules, injected: Injected::default() }
    }

    /// `body` is typed into the agent, in a frame with these six digits: who quotes the whole frame
    /// does not say what stands in it.
    pub fn remember_injected(&mut self, hex: &str, body: &str) {
        self.injected.remember(hex, body);
    }

    /// One whole text of the agent's: what it doesn't close was never closed.
    pub fn read(&mut self, text: &str, out: &mut Vec<Extracted>) {
        self.rules.plain_bodies.clear();
        self.rules.quotes = self.injected.quotes(text);
        let items = loop {
            let items = self.scan(text);
            // A fence that a body opens may be closed by another one's beginning, far below.
            let unclosed = items
                .iter()
                .find(|item| item.is_unclosed() && !self.rules.plain_bodies.contains(&item.first));
            match unclosed {
                Some(item) if self.rules.plain_bodies.len() < PLAIN_BODIES_MAX => {
                    self.rules.plain_bodies.push(item.first);
                }
                _ => break items,
            }
        };
        out.extend(items.into_iter().map(|item| item.what));
    }

    fn scan(&self, text: &str) -> Vec<Item> {
        let (mut scanner, mut items) = (Scanner::default(), Vec::new());
        for (number, line) in (0..).zip(text.split('\n')) {
            scanner.line(Line::plain(line, number), &self.rules, &mut items);
        }
        scanner.end_turn(&mut items);
        items
    }
}

fn sorted(found: Vec<Extracted>) -> (Vec<OutgoingMessage>, Vec<Problem>) {
    let (mut messages, mut problems) = (Vec::new(), Vec::new());
    for one in found {
        match one {
            Extracted::Found(message) => messages.push(message),
            Extracted::Problem(problem) => problems.push(problem),
        }
    }
    (messages, problems)
}

/// What reads along with the screen.
#[derive(Default)]
struct Reader {
    rules: Rules,
    rows: usize,
    live: bool,
    /// No more bytes come.
    finishing: bool,
    /// The screen that is shown, and the primary one while it isn't.
    page: Page,
    primary: Option<Page>,
    /// What the alternate screen's pictures show, of a program that says when one is whole.
    pictures: Option<Pictures>,
    still: Stillness,
    taken: Taken,
    torn: Torn,
    replay: Replay,
    /// What was taken from rows of the primary screen that did not scroll off yet, in order.
    shown: Vec<Identity>,
    /// What scrolled off the alternate screen's picture and was judged.
    picture: Vec<Identity>,
    /// When the last turn ended.
    ended: Moment,
    found: Vec<Extracted>,
    /// The agent had begun a message, and not ended it, at the last look.
    gathers: bool,
}

/// A message or a problem as it was read.
struct Said {
    identity: Identity,
    what: Extracted,
}

impl Said {
    fn of(item: Item) -> Self {
        Self { identity: Identity::of(&item.what), what: item.what }
    }
}

/// When and how the visible rows are looked at.
#[derive(Clone, Copy)]
struct Look {
    now: Moment,
    /// The cursor's row, which is never final while the turn goes on.
    cursor: usize,
    /// The turn is over: all rows count as they are.
    all: bool,
}

impl ScreenObserver for Reader {
    fn rows_scrolling_off(&mut self, view: VisibleRows<'_>, rows: usize) {
        let is_read = self.primary.is_none() && self.page.top() > 0;
        if is_read && self.still.is_painted_over(view, rows) {
            // As if they had been erased before.
            self.discontinuity(Discontinuity::AllRowsErased);
        }
    }

    fn row_scrolled_off(&mut self, row: &Row) {
        if let Some(pictures) = &mut self.pictures {
            if !pictures.scroll(row) {
                self.new_picture();
            }
            return;
        }
        self.still.scroll();
        self.read_for_good(row);
    }

    fn update_completed(&mut self, view: VisibleRows<'_>) {
        if self.primary.is_some() {
            self.next_picture(view);
        }
    }

    fn leaving_alternate(&mut self, view: VisibleRows<'_>) {
        // With a clock, rows have stood or they have not.
        if self.live && !self.finishing {
            return;
        }
        if self.pictures.is_some() {
            self.next_picture(view);
        }
        let (mut page, mut items) = (self.page.clone(), Vec::new());
        let pictured = self.pictures.as_ref().map(|pictures| pictures.text().0.to_vec());
        let rows = pictured.unwrap_or_else(|| view.to_vec());
        rows.iter().for_each(|row| page.row(row, &self.rules, &mut items));
        page.end_turn(&self.rules, &mut items);
        let items = items.into_iter().filter_map(|item| self.torn.pass(item));
        let said = items.map(Said::of).collect();
        self.judge_picture(said);
    }

    fn discontinuity(&mut self, cause: Discontinuity) {
        let (alternate, resized) = (self.primary.is_some(), self.replay.after_resize());
        match cause {
            // What else begins like this says nothing of the rows below.
            Discontinuity::FirstRowErased if !resized => return,
            Discontinuity::Resized
            | Discontinuity::AlternateShown
            | Discontinuity::PrimaryShown => self.still.forget(),
            Discontinuity::AlternateRepainted
            | Discontinuity::FirstRowErased
            | Discontinuity::ScreenCleared
            | Discontinuity::AllRowsErased
            | Discontinuity::HistoryCleared
            | Discontinuity::Reset => self.still.repaint(),
        }
        match cause {
            Discontinuity::AlternateRepainted => return self.new_picture(),
            Discontinuity::ScreenCleared | Discontinuity::HistoryCleared if alternate => {
                return self.new_picture();
            }
            // Until here the program may have painted for the size before.
            Discontinuity::ScreenCleared | Discontinuity::FirstRowErased if resized => {
                self.drop_open()
            }
            // What is open may not be what goes on below.
            Discontinuity::AllRowsErased => self.drop_open(),
            Discontinuity::ScreenCleared | Discontinuity::FirstRowErased => {
                return self.page.tear();
            }
            Discontinuity::HistoryCleared | Discontinuity::Reset => {
                let open = self.page.forget();
                open.into_iter().for_each(|item| self.torn.add(item));
            }
            Discontinuity::Resized => {
                if alternate {
                    self.new_picture();
                }
            }
            Discontinuity::AlternateShown => {
                self.primary = Some(std::mem::take(&mut self.page));
                self.picture.clear();
            }
            Discontinuity::PrimaryShown => {
                self.pictures = None;
                self.page = self.primary.take().unwrap_or_default();
                self.page.tear();
            }
        }
        self.repainted(cause == Discontinuity::Resized);
    }
}

impl Reader {
    /// What is open may not be what goes on below, and may be painted again.
    fn drop_open(&mut self) {
        let open = self.page.resize();
        open.into_iter().for_each(|item| self.torn.add(item));
    }

    /// Whatever stands on the screen may be shown again from here on.
    fn repainted(&mut self, resized: bool) {
        self.shown.clear();
        self.replay = self.replay.again(&self.taken, resized);
    }

    /// The terminal has another size, and has pushed off the top what has no place in it. That was laid out
    /// for the old size, and goes on what was read before; the program may show all of it again.
    fn resized(&mut self, (columns, rows): (usize, usize)) {
        self.rules.columns = Some(columns);
        self.rows = rows;
        self.drop_open();
        self.repainted(true);
    }

    fn new_picture(&mut self) {
        if self.page.top() > 0 {
            self.page = Page::default();
        }
        self.picture.clear();
        self.pictures = None;
    }

    /// A picture of the alternate screen is whole.
    fn next_picture(&mut self, view: VisibleRows<'_>) {
        let painted = view.to_vec();
        let Some(mut pictures) = self.pictures.take() else {
            self.pictures = Some(Pictures::of(painted));
            return;
        };
        match pictures.next(painted) {
            Moved::By(rows @ 0..) => (0..rows).for_each(|_| self.still.scroll()),
            Moved::By(_) => self.still.forget(),
            Moved::Anew => {
                self.new_picture();
                self.still.repaint();
            }
        }
        for row in pictures.read() {
            self.read_for_good(&row);
        }
        self.pictures = Some(pictures);
    }

    /// Reads a row that has gone off the top, or so far above it that it stays there.
    fn read_for_good(&mut self, row: &Row) {
        let mut items = Vec::new();
        self.page.row(row, &self.rules, &mut items);
        for item in items {
            if let Some(item) = self.torn.pass(item) {
                self.settle(item);
            }
        }
    }

    /// The rows that are not read for good, and how many of them stand above the screen.
    fn rows(&self) -> (Vec<&Row>, usize) {
        match &self.pictures {
            Some(pictures) => {
                let (rows, above) = pictures.text();
                (rows.iter().collect(), above)
            }
            None => (self.still.rows().collect(), 0),
        }
    }

    /// Takes what is final for good, unless it was taken while it stood on the screen.
    fn settle(&mut self, item: Item) {
        let said = Said::of(item);
        let identity = said.identity;
        if self.primary.is_some() {
            self.judge_picture(vec![said]);
            return self.keep_in_picture(identity);
        }
        let standing = self.replay.judge(identity, &self.taken);
        if standing == Standing::Again {
            return;
        }
        if let Some(at) = self.shown.iter().position(|&shown| shown == identity) {
            self.shown.drain(..=at);
        } else if let Standing::Between(number) = standing {
            self.replay.pass(number);
            self.take_before(number, said);
        } else {
            self.take(said);
        }
    }

    fn take(&mut self, said: Said) {
        self.taken.push(said.identity);
        self.found.push(said.what);
    }

    /// Takes what stands before the message of this number.
    fn take_before(&mut self, number: usize, said: Said) {
        self.taken.insert(number, said.identity);
        self.found.push(said.what);
    }

    /// Reads the visible rows, and takes what is new of what is final.
    fn look(&mut self, look: Look) {
        let (mut page, mut items) = (self.page.clone(), Vec::new());
        let (rows, above) = self.rows();
        rows.iter().for_each(|row| page.row(row, &self.rules, &mut items));
        let opened = page.open_since();
        self.gathers = page.gathers() && !look.all;
        if look.all {
            page.end_turn(&self.rules, &mut items);
        }
        let top = self.page.top() + above as u64;
        // What follows a message that may still change is not judged before it.
        let end =
            items.iter().position(|item| item.is_message() && !self.is_final(item, top, look));
        items.truncate(end.unwrap_or(items.len()));
        items.retain(|item| item.is_message() || self.is_final(item, top, look));
        let items = items.into_iter().filter_map(|item| self.torn.pass(item));
        let said: Vec<Said> = items.map(Said::of).collect();
        match self.primary {
            Some(_) => self.judge_picture(said),
            None => self.judge_rows(said, look),
        }
        if let Some(opened) = opened.filter(|_| look.all) {
            let rows: Vec<Row> = self.rows().0.into_iter().cloned().collect();
            self.page.mark_end(opened, rows.iter());
        }
    }

    /// Whether all rows of an item are final, and nothing more can come on its last one.
    fn is_final(&self, item: &Item, top: u64, look: Look) -> bool {
        if look.all {
            return true;
        }
        let visible = |row: u64| usize::try_from(row.saturating_sub(top)).unwrap_or(usize::MAX);
        let ended =
            |row: u64| self.still.since(visible(row)).is_some_and(|since| since < self.ended);
        let stood = (item.first.max(top)..=item.last).all(|row| {
            self.still.stood(visible(row), look.now) && (visible(row) != look.cursor || ended(row))
        });
        let last = visible(item.last);
        stood
            && match item.more {
                More::Nothing => true,
                More::Reopens => ended(item.last) || self.still.text_below(last),
                More::Completes => ended(item.last) || self.still.text_right_below(last),
            }
    }

    /// Takes what is new on the primary screen.
    fn judge_rows(&mut self, messages: Vec<Said>, look: Look) {
        let (mut replay, mut at, mut present) = (self.replay.clone(), 0, Vec::new());
        for said in messages {
            let identity = said.identity;
            present.push(identity);
            let standing = replay.judge(identity, &self.taken);
            if standing == Standing::Again {
                continue;
            }
            let known = self.shown[at..].iter().position(|&known| known == identity);
            if let Some(found) = known {
                at += found + 1;
            } else if let Standing::Between(number) = standing {
                replay.pass(number);
                self.replay.make_room(number);
                self.take_before(number, said);
            } else {
                self.shown.insert(at, identity);
                at += 1;
                self.take(said);
            }
        }
        if look.all {
            // A repaint is over with its turn; what comes now is said anew.
            self.replay = Replay::default();
            self.shown = present;
        }
        // Last come those that were erased longest ago.
        self.shown.truncate(SHOWN_MAX);
    }

    /// A message scrolled off the picture it was part of, and was judged.
    fn keep_in_picture(&mut self, message: Identity) {
        if self.picture.len() == PICTURE_MESSAGES_MAX {
            self.picture.remove(0);
        }
        self.picture.push(message);
    }

    /// Takes what is new of a picture: of these messages, and those that scrolled off before them.
    fn judge_picture(&mut self, mut messages: Vec<Said>) {
        let visible = messages.iter().map(|said| said.identity);
        let picture: Vec<Identity> = self.picture.iter().copied().chain(visible).collect();
        // What stands before all that was taken, and was not read before.
        if let Some((first, number)) = Replay::first_again(&picture, &self.taken) {
            let before = first.saturating_sub(self.picture.len());
            for (said, number) in messages.drain(..before).zip(number..) {
                self.take_before(number, said);
            }
        }
        let mut replay = Replay::of(&self.taken);
        for &message in picture.iter().take(picture.len() - messages.len()) {
            replay.judge(message, &self.taken);
        }
        for said in messages {
            match replay.judge(said.identity, &self.taken) {
                Standing::Again => {}
                Standing::First => self.take(said),
                Standing::Between(number) => {
                    replay.pass(number);
                    self.take_before(number, said);
                }
            }
        }
    }

    fn end_turn(&mut self, look: Look) {
        self.look(look);
        self.found.extend(self.torn.end_turn());
        self.ended = look.now;
    }
}

#[cfg(test)]
mod prose;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod wrapped;
