//! A program's state, as its recipe reads it from the screen.
//!
//! Words count only in the part of the screen where the program itself writes them: the question in
//! place of the composer, the signs of work in the rows just above or below it. Everything above
//! that is the conversation, which may contain any words.

use super::{
    Form, Reads, Recipe, Spot,
    spot::{MARK_ROWS, is_line, shows},
};
use crate::{dialog, keyboard::Reader, obstacle::Obstacle};

/// The maximum number of status rows above a program's composer.
const STATUS_ROWS: usize = 6;

/// The maximum number of a composer's rows.
const COMPOSER_ROWS: usize = 20;

/// The result of reading the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The form for typing a text, or the obstacle on the screen. An agent at work is no obstacle
    /// here.
    pub form: Result<Form, Obstacle>,
    /// Whether the composer holds only the text on its way, so that Enter submits that text.
    pub holds_own: bool,
    /// Whether the program asks its person something that Enter would answer.
    pub asks: bool,
    /// Whether the composer begins above the cursor's row.
    pub is_multirow: bool,
    /// The row that says that the agent works.
    pub busy: Option<String>,
}

/// The frames that were typed here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed<'a> {
    /// The digits of the last frames.
    pub frames: Vec<&'a str>,
    /// The digits of the frame that is on its way, or may still be in the composer.
    pub own: Option<&'a str>,
}

impl Shown {
    /// Whether the input line is shown, empty or begun. A line of several rows requires that the
    /// person has typed something: other rows of the screen may look like one.
    #[must_use]
    pub(crate) fn shows_line(&self, has_draft: bool) -> bool {
        match self.form {
            Ok(_) => true,
            Err(Obstacle::HalfTyped) => has_draft || !self.is_multirow,
            Err(_) => false,
        }
    }
}

/// The program's composer on the screen.
struct Composer<'a> {
    /// The row of the spot where it begins.
    row: usize,
    /// The text between the prompt and the cursor, in the first row.
    text: &'a str,
}

impl Recipe {
    /// Reads the screen of the program that reads the terminal. `prompts` are the shell prompts
    /// that begin a command.
    #[must_use]
    pub fn read(
        &self,
        spot: &Spot,
        reader: &Reader,
        prompts: &[String],
        typed: &Typed<'_>,
    ) -> Shown {
        let mut foreign = spot.without(&typed.frames);
        let composer = self.composer(spot);
        // The text is not fully painted yet, or continues above the screen.
        if let (Some(composer), Some(hex)) = (&composer, typed.own)
            && spot.rows[composer.row].contains(&format!("[relay {hex} "))
        {
            foreign[composer.row..=spot.row].fill("");
        }
        let asks = self.asks(&foreign, spot, composer.as_ref());
        let holds_own = match self.shows_composer() {
            true => typed.own.is_some_and(|hex| self.holds(spot, &foreign, hex)),
            false => !asks,
        };
        let asks = asks && !holds_own;
        Shown {
            form: self.form(spot, reader, prompts, asks, composer.as_ref()),
            holds_own,
            asks,
            is_multirow: composer.as_ref().is_some_and(|composer| composer.row < spot.row),
            busy: self.busy_row(&foreign, spot, composer.as_ref()).map(str::to_owned),
        }
    }

    /// Whether this program's screen tells when the program is idle.
    #[must_use]
    pub(crate) fn shows_idle(&self) -> bool {
        self.reads == Reads::Shell || self.shows_composer()
    }

    /// Whether the recipe describes the program's composer.
    #[must_use]
    pub fn shows_composer(&self) -> bool {
        !self.composer.is_empty()
    }

    fn form(
        &self,
        spot: &Spot,
        reader: &Reader,
        prompts: &[String],
        asks: bool,
        composer: Option<&Composer<'_>>,
    ) -> Result<Form, Obstacle> {
        match reader {
            Reader::Barred(why, _) => Err(*why),
            Reader::Unseen => Err(Obstacle::Unidentified),
            _ if asks => Err(Obstacle::Dialog),
            Reader::Agent(name) if *name == self.name && self.shows_composer() => {
                self.at_composer(spot, composer)
            }
            Reader::Agent(_) => Err(Obstacle::OtherProgram),
            Reader::Shell if self.shows_composer() => Err(Obstacle::Shell),
            Reader::Shell => at_shell_prompt(spot, prompts),
            Reader::Accepted => by_general_signs(spot),
        }
    }

    /// Returns the form for a program with a known composer. A text is typed only into an empty
    /// composer.
    fn at_composer(&self, spot: &Spot, composer: Option<&Composer<'_>>) -> Result<Form, Obstacle> {
        if spot.alternate && !spot.bracketed_paste {
            return Err(Obstacle::OtherScreen);
        }
        if after_prompt(&self.shell_mode, &spot.before).is_some() {
            return Err(Obstacle::ShellMode);
        }
        let Some(composer) = composer else { return Err(Obstacle::NoPrompt) };
        // The cursor may be in the first row of a draft of several rows.
        let below = spot.rows.get(spot.row + 1).map_or("", |row| row.trim_end());
        let is_footer = shows([below], &self.busy_footer);
        let continues = self.is_indented(below) && !below.trim().starts_with(is_line) && !is_footer;
        // Each row of such a composer begins with the prompt.
        let above = spot.row.checked_sub(1).and_then(|row| spot.rows.get(row));
        let frames = self.composer.iter().filter(|prompt| prompt.starts_with('^'));
        let mut above = frames.filter_map(|prompt| strip_prompt(prompt, above?));
        let continues = continues || above.any(|text| !text.trim().is_empty());
        let is_empty = composer.row == spot.row && composer.text.is_empty() && !continues;
        let ends_empty = spot.after.is_empty() || self.ghosts.contains(&spot.after);
        if is_empty && ends_empty { Ok(Form::Plain) } else { Err(Obstacle::HalfTyped) }
    }

    /// Finds the composer. Its prompt is in the cursor's row, or above it if the draft has several
    /// rows. A dialog that looks like the composer does not count: its words are below it, or above
    /// it if only blanks follow its mark.
    fn composer<'a>(&self, spot: &'a Spot) -> Option<Composer<'a>> {
        if !self.is_in_frame(spot) {
            return None;
        }
        let Self { composer: prompts, dialog: words, .. } = self;
        let below = |row: usize| spot.rows.get(row + 1..).unwrap_or_default();
        let dialog_words_below = |row| shows(below(row).iter().map(String::as_str), words);
        if let Some(text) = after_prompt(prompts, &spot.before) {
            let is_blank = !text.is_empty() && text.trim().is_empty();
            let is_entry = [text, &spot.after].into_iter().any(dialog::is_entry);
            // In such a frame, an entry of a question may be any text.
            let may_be_entry = is_entry || (!text.is_empty() && self.composer_end.is_some());
            let near = spot.rows[spot.near()..].iter().map(String::as_str);
            let is_dialog =
                (is_blank && shows(near, words)) || (may_be_entry && dialog_words_below(spot.row));
            return (!is_dialog).then_some(Composer { row: spot.row, text });
        }
        if !self.is_indented(&spot.before) {
            return None;
        }
        let above = spot.rows.get(..spot.row)?.iter().enumerate().rev().take(COMPOSER_ROWS);
        let mut rows = above.skip_while(|(_, row)| row.trim().is_empty() || self.is_indented(row));
        let (row, first) = rows.next()?;
        let text = after_prompt(prompts, first).filter(|text| !text.trim().is_empty())?;
        // The cursor may be in any row of a menu.
        let is_dialog = dialog_words_below(if dialog::is_entry(text) { row } else { spot.row });
        (!is_dialog).then_some(Composer { row, text })
    }

    /// Whether all rows from the cursor to the end of the composer's frame belong to the frame, if
    /// the screen shows such an end.
    fn is_in_frame(&self, spot: &Spot) -> bool {
        let Some(end) = &self.composer_end else { return true };
        let is_end = |row: &str| row.trim_start().starts_with(&**end);
        let below = spot.rows.get(spot.row + 1..).unwrap_or_default();
        let Some(last) = below.iter().position(|row| is_end(row)) else { return true };
        let prompts = self.composer.iter();
        let sides: Vec<_> =
            prompts.map(|prompt| prompt.trim_start_matches('^').trim_end()).collect();
        let is_side = |row: &str| sides.iter().any(|side| row.trim_start().starts_with(side));
        below[..last].iter().all(|row| is_side(row))
    }

    /// Whether a row is indented like the text after the composer's prompt.
    fn is_indented(&self, row: &str) -> bool {
        let prompts = self.composer.iter().map(|prompt| prompt.trim_start_matches('^'));
        let widths = prompts.map(|prompt| prompt.chars().count());
        let width = widths.min().unwrap_or_default();
        width > 0 && row.chars().take_while(|c| *c == ' ').count() >= width
    }

    /// Whether the composer holds only the frame with these digits, or only the program's
    /// placeholder for a long paste. The cursor must follow it, and nothing below may ask the
    /// person something.
    fn holds(&self, spot: &Spot, foreign: &[&str], hex: &str) -> bool {
        let Some((row, last)) = spot.bracketed_row() else { return false };
        let below = foreign.get(row + 1..).unwrap_or_default();
        if dialog::menu_row(foreign).is_some_and(|menu| menu > row)
            || shows(below.iter().copied(), &self.dialog)
        {
            return false;
        }
        let text = |row: &str| -> String {
            let text = after_prompt(&self.composer, row).unwrap_or(row);
            text.trim_matches(|c: char| c.is_whitespace() || is_line(c)).to_owned()
        };
        // A narrow composer splits the mark at the frame's end.
        let end = format!("[/relay {hex}]");
        let mut ending = String::new();
        let above = spot.rows[..row].iter().rev().map(String::as_str);
        let is_end = std::iter::once(last).chain(above).take(MARK_ROWS).any(|row| {
            ending.insert_str(0, &text(row));
            ending == end || ending == end.replace(' ', "")
        });
        let last = text(last);
        let is_word = last.find(']') == Some(last.len() - 1);
        is_end || (is_word && self.pasted.iter().any(|word| last.starts_with(&**word)))
    }

    /// Whether the program asks something. If the composer is shown, a menu above it belongs to the
    /// conversation, and a menu in it to the draft, unless words of a dialog are below it.
    /// `foreign` are the rows without frames of ours.
    fn asks(&self, foreign: &[&str], spot: &Spot, composer: Option<&Composer<'_>>) -> bool {
        let dialog = &self.dialog;
        let Some(menu) = dialog::menu_row(foreign) else {
            let first = if self.shows_composer() { spot.near_text() } else { spot.near() };
            let near = foreign[first..].iter().copied();
            return composer.is_none() && (spot.yes_or_no || shows(near, dialog));
        };
        let below = || foreign.get(spot.row + 1..).unwrap_or_default().iter().copied();
        match composer {
            Some(composer) if menu < composer.row => false,
            Some(_) if menu <= spot.row => shows(below(), dialog),
            _ => true,
        }
    }

    fn busy_row<'a>(
        &self,
        foreign: &[&'a str],
        spot: &Spot,
        composer: Option<&Composer<'_>>,
    ) -> Option<&'a str> {
        let Self { busy, busy_status, busy_footer, .. } = self;
        let find = |rows: &[&'a str], words: &[String]| {
            rows.iter().copied().find(|row| shows([*row], words))
        };
        let Some(composer) = composer else {
            let near = &foreign[spot.near()..];
            return [busy, busy_status, busy_footer]
                .into_iter()
                .find_map(|words| find(near, words));
        };
        let status = &foreign[composer.row.saturating_sub(STATUS_ROWS)..composer.row];
        let footer = foreign.get(spot.row + 1..).unwrap_or_default();
        find(status, busy_status).or_else(|| find(footer, busy_footer))
    }
}

/// Returns the form at a shell's prompt. The line editor must be reading, and no command may be
/// unfinished: in an open quotation, the shell would run the lines of a here-document.
fn at_shell_prompt(spot: &Spot, prompts: &[String]) -> Result<Form, Obstacle> {
    match () {
        () if spot.alternate => Err(Obstacle::OtherScreen),
        () if spot.line_editor_waits() && prompts.contains(&spot.before) => Ok(Form::HereDocument),
        () => Err(Obstacle::NoPrompt),
    }
}

/// Returns the form for a program without its own recipe.
fn by_general_signs(spot: &Spot) -> Result<Form, Obstacle> {
    match () {
        // Full-screen programs without bracketed paste, such as pagers and editors, take keys as
        // commands.
        () if spot.alternate && !spot.bracketed_paste => Err(Obstacle::OtherScreen),
        () if spot.alternate => Ok(Form::Plain),
        () if spot.cursor_visible && spot.ends_like_a_shell() => Err(Obstacle::Shell),
        () if spot.cursor_visible && spot.ends_like_python() => Err(Obstacle::Interpreter),
        () => Ok(Form::Plain),
    }
}

/// Returns the text after the longest of these prompts that begins the row.
pub(super) fn after_prompt<'a>(prompts: &[String], row: &'a str) -> Option<&'a str> {
    let texts = prompts.iter().filter_map(|prompt| strip_prompt(prompt, row));
    texts.min_by_key(|text| text.len())
}

/// Returns the text after a prompt at the beginning of a row. With `^` before the prompt, blanks
/// may precede it in the row.
fn strip_prompt<'a>(prompt: &str, row: &'a str) -> Option<&'a str> {
    match prompt.strip_prefix('^') {
        Some(prompt) => row.trim_start().strip_prefix(prompt),
        None => row.strip_prefix(prompt),
    }
}
