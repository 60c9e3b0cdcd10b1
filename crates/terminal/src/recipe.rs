//! Recipes: the way in which messages are typed into each kind of program.
//!
//! A recipe is data and is chosen by the command's name. From the screen it decides whether a text
//! may be typed now, and in which form. If it is in doubt, no text is typed: the message waits, and
//! the reason is shown.

mod book;
mod expands;
mod spot;

pub use book::{Book, BookError, Version};
pub use expands::Expansions;
pub(crate) use expands::is_blank;
pub use spot::Spot;
pub(crate) use spot::text_before_cursor;

use super::{keyboard::Reader, obstacle::Obstacle, transcript::Format};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A recipe for typing messages into one kind of program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The recipe's name.
    pub name: String,
    /// The program's treatment of a line that is typed into it.
    pub reads: Reads,
    /// The keys that submit a text.
    pub submit: String,
    /// Whether a line feed submits a text as well, although the program accepts several lines.
    pub line_feed_submits: bool,
    /// The time for which the screen must not have changed before a text is typed, in milliseconds.
    pub quiet_ms: u64,
    /// The time for which the person must not have pressed a key before a text is typed, in
    /// milliseconds.
    pub untouched_ms: u64,
    /// The time after which a program that shows nothing counts as ready, in milliseconds. At the
    /// start, an empty composer must have been on the screen for the same time.
    pub start_ms: u64,
    /// The shortest time from a text to the keys that submit it, in milliseconds. The keys wait
    /// longer while the screen changes.
    pub guard_ms: u64,
    /// The longest time from a text to the keys that submit it, in milliseconds.
    pub guard_ms_max: u64,
    /// The format of the transcript that the program writes.
    pub transcript: Option<&'static Format>,
    /// The source that tells whether the agent is at work; `None` for the screen.
    pub turns: Option<Turns>,
    /// Whether the program accepts typed text while its agent works.
    pub while_busy: bool,
    /// The most messages between the agent and another one without a prompt of a person and without
    /// work.
    pub wake_budget: u32,
    /// Whether the composer reads single keys. If so, the program does not read its input yet while
    /// the terminal is in line mode.
    pub raw_mode: bool,
    /// Environment variables that the program gets, unless they are set already.
    pub environment: BTreeMap<String, String>,
    /// Arguments for the command; see [`Recipe::arguments`].
    arguments: Vec<String>,
    /// The number of columns that the program leaves blank in front of its agent's text.
    pub margin: u8,
    /// Whether the program counts the columns of each code point of an emoji.
    pub counts_code_points: bool,
    /// The parts of a text that the program would expand.
    pub expands: Expansions,
    patterns: Patterns,
}

/// The way in which a program treats a line that is typed into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// Reads the typed text as text.
    Text,
    /// Runs the typed text, as sh does.
    Shell,
}

/// The form in which a text is typed, so that it does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text itself, for programs that read text.
    Plain,
    /// A pasted here-document for a command that does nothing, for bash and zsh.
    HereDocument,
}

/// A source, other than the screen, that tells whether an agent is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turns {
    /// The transcript that its program writes.
    Transcript,
}

/// The texts by which a program's states are recognised on its screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    composer: Vec<String>,
    shell_mode: Vec<String>,
    ghosts: Vec<String>,
    busy: Vec<String>,
    dialog: Vec<String>,
}

/// Facts that the screen does not show about the program that reads the terminal.
#[derive(Clone, Copy, Debug)]
pub struct ReaderState<'a> {
    /// The program that reads the terminal.
    pub reader: &'a Reader,
    /// The prompts at which a command begins in the shell. At other prompts, a command continues.
    pub prompts: &'a [String],
    /// Whether the agent is at work, according to its transcript.
    pub at_work: bool,
}

impl Recipe {
    /// Returns the arguments that the recipe puts in front of the command's own. In them, `{NAME}`
    /// is replaced by the value of the variable NAME, as a TOML string.
    pub fn arguments(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let filled = |argument: &String| {
            variables.iter().fold(argument.clone(), |argument, (name, value)| {
                argument.replace(&format!("{{{name}}}"), &toml_string(value))
            })
        };
        self.arguments.iter().map(filled).collect()
    }

    /// Whether an argument contains the value of this variable.
    pub fn has_argument_for(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.contains(&format!("{{{name}}}")))
    }

    /// Returns the form in which a text may be typed now.
    ///
    /// # Errors
    /// The obstacle because of which no text may be typed now.
    pub fn form(&self, spot: &Spot, state: ReaderState<'_>) -> Result<Form, Obstacle> {
        match state.reader {
            Reader::Barred(why, _) => Err(*why),
            Reader::Unseen => Err(Obstacle::Unidentified),
            _ if self.is_asking(spot) => Err(Obstacle::Dialog),
            Reader::Agent(name) if *name == self.name && self.shows_composer() => {
                self.at_composer(spot, state)
            }
            Reader::Agent(_) => Err(Obstacle::OtherProgram),
            Reader::Shell if self.shows_composer() => Err(Obstacle::Shell),
            Reader::Shell => self.at_shell_prompt(spot, state),
            Reader::Accepted => self.by_general_signs(spot, state),
        }
    }

    /// Returns the form at a shell's prompt. The line editor must be reading, and no command may be
    /// unfinished: within an open quote, the shell would run the lines of a here-document.
    fn at_shell_prompt(&self, spot: &Spot, state: ReaderState<'_>) -> Result<Form, Obstacle> {
        match () {
            () if spot.alternate => Err(Obstacle::OtherScreen),
            () if spot.is_shell() && state.prompts.contains(&spot.before) => Ok(Form::HereDocument),
            () => Err(Obstacle::NoPrompt),
        }
    }

    /// Returns the form for a program without a recipe of its own.
    fn by_general_signs(&self, spot: &Spot, state: ReaderState<'_>) -> Result<Form, Obstacle> {
        match () {
            () if self.is_busy(spot, state) => Err(Obstacle::Busy),
            // Full-screen programs without bracketed paste, such as pagers and editors, take keys
            // as commands.
            () if spot.alternate && !spot.bracketed_paste => Err(Obstacle::OtherScreen),
            () if spot.alternate => Ok(Form::Plain),
            () if spot.cursor_visible && spot.ends_like_a_shell() => Err(Obstacle::Shell),
            () if spot.cursor_visible && spot.ends_like_python() => Err(Obstacle::Interpreter),
            () => Ok(Form::Plain),
        }
    }

    /// Whether the screen of this kind of program tells when the program is idle.
    #[must_use]
    pub(crate) fn shows_idle(&self) -> bool {
        self.reads == Reads::Shell || self.shows_composer()
    }

    /// Whether the program is idle, according to its screen.
    #[must_use]
    pub fn looks_idle(&self, spot: &Spot, state: ReaderState<'_>) -> bool {
        self.shows_idle() && self.form(spot, state).is_ok() && !spot.shows(&self.patterns.busy)
    }

    /// Whether a line feed is a line break in the text. This holds for composers of several lines,
    /// all of which use bracketed paste.
    #[must_use]
    pub(crate) fn line_feed_breaks(&self, bracketed_paste: bool) -> bool {
        let submits = self.line_feed_submits || self.submit.contains('\n');
        self.reads == Reads::Text && bracketed_paste && !submits
    }

    /// Whether the agent is at work, according to the screen.
    #[must_use]
    pub(crate) fn looks_busy(&self, spot: &Spot) -> bool {
        spot.shows(&self.patterns.busy)
    }

    /// Whether the composer holds the typed text, so that an Enter submits that text and nothing
    /// else. The cursor must follow the closing bracket of the text's frame. Programs that show a
    /// word in place of a long paste put the word in brackets as well.
    #[must_use]
    pub fn holds_text(&self, spot: &Spot) -> bool {
        !self.is_asking(spot) && (!self.shows_composer() || spot.bracketed_row().is_some())
    }

    /// Whether the composer of an idle program holds the text in the frame with these digits, or a
    /// word in place of it, and no words of a dialog are shown.
    #[must_use]
    pub(crate) fn holds_frame(&self, spot: &Spot, hex: &str) -> bool {
        let end = format!("[/relay {hex}]");
        let is_own = |row: &str| {
            let text = after_prompt(&self.patterns.composer, row);
            row.ends_with(&end) || text.is_some_and(|text| text.starts_with('['))
        };
        let is_busy = spot.shows(&self.patterns.busy) || spot.shows(&self.patterns.dialog);
        self.shows_composer()
            && self.holds_text(spot)
            && !is_busy
            && spot.bracketed_row().is_some_and(is_own)
    }

    /// Whether the program asks the person something. A screen on which the composer holds the
    /// typed text does not count, since the text may contain the words of a dialog.
    #[must_use]
    pub(crate) fn shows_dialog(&self, spot: &Spot) -> bool {
        let asks = self.is_asking(spot)
            || (self.composer_text(spot).is_none() && spot.shows(&self.patterns.dialog));
        asks && !self.holds_text(spot)
    }

    /// Returns the composer's text before the cursor. `None` if no composer is shown, or for a
    /// dialog whose frame looks like the composer's.
    fn composer_text<'a>(&self, spot: &'a Spot) -> Option<&'a str> {
        let text = after_prompt(&self.patterns.composer, &spot.before)?;
        let is_blank = !text.is_empty() && text.trim().is_empty();
        (!is_blank || !spot.shows(&self.patterns.dialog)).then_some(text)
    }

    /// Whether the recipe knows the look of the program's composer.
    #[must_use]
    pub fn shows_composer(&self) -> bool {
        !self.patterns.composer.is_empty()
    }

    /// Returns the form for a program whose composer is known. A text is typed only into the
    /// composer, while it is empty.
    fn at_composer(&self, spot: &Spot, state: ReaderState<'_>) -> Result<Form, Obstacle> {
        if spot.alternate && !spot.bracketed_paste {
            return Err(Obstacle::OtherScreen);
        }
        if after_prompt(&self.patterns.shell_mode, &spot.before).is_some() {
            return Err(Obstacle::ShellMode);
        }
        match self.composer_text(spot) {
            Some("") => {}
            Some(_) => return Err(Obstacle::HalfTyped),
            None if spot.shows(&self.patterns.dialog) => return Err(Obstacle::Dialog),
            None => return Err(Obstacle::NoPrompt),
        }
        if !spot.after.is_empty() && !self.patterns.ghosts.contains(&spot.after) {
            return Err(Obstacle::HalfTyped);
        }
        if self.is_busy(spot, state) { Err(Obstacle::Busy) } else { Ok(Form::Plain) }
    }

    /// Whether an Enter would answer a question. For a program whose composer is known, the words
    /// of a dialog alone are no question: they may stand beside the composer.
    fn is_asking(&self, spot: &Spot) -> bool {
        spot.asking || (!self.shows_composer() && spot.shows(&self.patterns.dialog))
    }

    fn is_busy(&self, spot: &Spot, state: ReaderState<'_>) -> bool {
        !self.while_busy && (state.at_work || spot.shows(&self.patterns.busy))
    }
}

/// Quotes a text as a TOML string, in single quotes if possible, since shells of Windows remove
/// double quotes.
fn toml_string(text: &str) -> String {
    match text.contains(|c: char| c == '\'' || c.is_control()) {
        false => format!("'{text}'"),
        true => toml::Value::from(text).to_string(),
    }
}

/// Returns the text after the longest of these prompts with which the row begins.
fn after_prompt<'a>(prompts: &[String], row: &'a str) -> Option<&'a str> {
    let texts = prompts.iter().filter_map(|prompt| strip_prompt(prompt, row));
    texts.min_by_key(|text| text.len())
}

/// Returns the text after a prompt at the beginning of a row. If the prompt is written with `^`
/// first, blanks may precede it in the row.
fn strip_prompt<'a>(prompt: &str, row: &'a str) -> Option<&'a str> {
    match prompt.strip_prefix('^') {
        Some(prompt) => row.trim_start().strip_prefix(prompt),
        None => row.strip_prefix(prompt),
    }
}

#[cfg(test)]
mod screens;
#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_choice(command: &str, name: &str) {
        assert_eq!(recipe(command).name, name, "{command:?}");
    }

    #[test]
    fn command_that_runs_a_script_gets_the_generic_recipe() {
        for shell in ["bash", "zsh -l", "bash --norc -i", "bash --rcfile x -o vi", "-bash"] {
            check_choice(shell, "shell");
        }
        check_choice("C:\\Git\\bin\\BASH.EXE", "shell");
        check_choice("bash -s x", "shell");
        for script in ["bash agent.sh", "sh -c claude", "bash -lc claude", "bash -o vi agent.sh"] {
            check_choice(script, "generic");
        }
        for agent in ["fish", "python3", "agent", "cat", "node agent.js", "shh", ""] {
            check_choice(agent, "generic");
        }
        check_choice("/opt/agy", "antigravity");
    }

    fn recipe(command: &str) -> Recipe {
        let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
        Book::default().choose(&command, "linux", None)
    }

    fn at(before: &str) -> Spot {
        Spot { before: before.to_owned(), at: ' ', cursor_visible: true, ..Spot::default() }
    }

    #[track_caller]
    fn check_form(command: &str, spot: &Spot, expected: Result<Form, Obstacle>) {
        let recipe = recipe(command);
        let reader = crate::tests::script::reader(&recipe);
        let prompts = [spot.before.clone()];
        let state = ReaderState { reader: &reader, prompts: &prompts, at_work: false };
        assert_eq!(recipe.form(spot, state), expected, "{command} {spot:?}");
    }

    #[test]
    fn shell_gets_a_here_document_only_while_its_line_editor_reads() {
        let reads = |before| Spot { bracketed_paste: true, ..at(before) };
        for prompt in ["$ ", "root@host:/# ", "ann% ", "~/x ❯ ", "➜  ~ git:(main) ", "lambda "]
        {
            check_form("bash", &reads(prompt), Ok(Form::HereDocument));
            check_form("bash", &at(prompt), Err(Obstacle::NoPrompt));
        }
        for none in ["", "  ", "> ", "quote> ", "heredoc> ", "mysql> "] {
            check_form("zsh", &reads(none), Err(Obstacle::NoPrompt));
        }
        check_form("bash", &Spot { at: 'x', ..reads("$ ") }, Err(Obstacle::NoPrompt));
        check_form("bash", &Spot { alternate: true, ..reads("$ ") }, Err(Obstacle::OtherScreen));
        let state =
            ReaderState { reader: &Reader::Shell, prompts: &["$ ".to_owned()], at_work: false };
        assert_eq!(recipe("bash").form(&reads("∙ "), state), Err(Obstacle::NoPrompt));
    }

    #[test]
    fn form_follows_the_program_that_reads() {
        let claude = recipe("claude");
        let spot = Spot { bracketed_paste: true, ..at("❯ ") };
        let form = |reader: Reader| {
            claude.form(&spot, ReaderState { reader: &reader, prompts: &[], at_work: false })
        };
        assert_eq!(form(Reader::Agent("claude".into())), Ok(Form::Plain));
        assert_eq!(form(Reader::Agent("codex".into())), Err(Obstacle::OtherProgram));
        assert_eq!(form(Reader::Shell), Err(Obstacle::Shell));
        assert_eq!(form(Reader::Unseen), Err(Obstacle::Unidentified));
        for why in [Obstacle::Conduit, Obstacle::Nested, Obstacle::Shell, Obstacle::Suspended] {
            assert_eq!(form(Reader::Barred(why, None)), Err(why));
        }
    }

    #[test]
    fn accepted_program_gets_no_text_at_a_prompt_that_looks_like_a_shells() {
        for before in ["$ ", "# ", "host% ", "PS C:\\Users> ", "C:\\Users> ", "db=# "] {
            check_form("agent", &at(before), Err(Obstacle::Shell));
        }
        for before in ["", "> ", "│ > ", "100%", "Say $"] {
            check_form("agent", &at(before), Ok(Form::Plain));
        }
        check_form("agent", &Spot { cursor_visible: false, ..at("45% ") }, Ok(Form::Plain));
    }

    #[test]
    fn accepted_program_gets_text_on_a_full_screen_only_if_it_wants_pastes_marked() {
        let full = |bracketed_paste| Spot { alternate: true, bracketed_paste, ..at("") };
        check_form("agent", &full(true), Ok(Form::Plain));
        check_form("agent", &full(false), Err(Obstacle::OtherScreen));
    }

    #[test]
    fn program_without_known_composer_gets_no_text_while_it_asks_or_works() {
        let shows = |rows: &[&str]| Spot {
            alternate: true,
            bracketed_paste: true,
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            ..at("")
        };
        check_form(
            "agy",
            &shows(&["⚠ Approval Required", "  No, deny access"]),
            Err(Obstacle::Dialog),
        );
        check_form("agy", &shows(&["> Yes, I trust this folder"]), Err(Obstacle::Dialog));
        check_form("agy", &shows(&["esc to cancel"]), Err(Obstacle::Busy));
        check_form("agy", &shows(&["> "]), Ok(Form::Plain));
        let spot = shows(&["⚠ Approval Required"]);
        assert!(!recipe("agy").holds_text(&spot), "no Enter follows");
    }

    #[test]
    fn composer_in_the_middle_of_the_screen_is_recognised_by_its_frame() {
        let framed = |before: &str, rows: &[&str]| Spot {
            alternate: true,
            bracketed_paste: true,
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            ..at(before)
        };
        for empty in ["┃  ", "  ┃  ", "             ┃  "] {
            check_form("opencode", &framed(empty, &[]), Ok(Form::Plain));
            check_form("opencode", &framed(&format!("{empty}x"), &[]), Err(Obstacle::HalfTyped));
        }
        let asks = ["△ Permission required"];
        for (before, why) in
            [("  ┃   ", Obstacle::Dialog), ("  ┃  x", Obstacle::HalfTyped), ("", Obstacle::Dialog)]
        {
            check_form("opencode", &framed(before, &asks), Err(why));
        }
        check_form("opencode", &framed("  ┃   ", &[]), Err(Obstacle::HalfTyped));
        check_form("opencode", &framed("  ", &[]), Err(Obstacle::NoPrompt));
    }

    #[test]
    fn typed_text_is_recognised_by_its_last_bracket_before_or_after_the_cursor() {
        let gemini = |before: &str, after: &str, above: &str| Spot {
            after: after.to_owned(),
            above: above.to_owned(),
            ..at(before)
        };
        for (before, after, above) in [
            ("   [/relay 1a2b3c]", "", ""),
            ("   ", "", "   [/relay 1a2b3c]"),
            ("   ", "[/relay 1a2b3c]", "   hello"),
        ] {
            assert!(recipe("gemini").holds_text(&gemini(before, after, above)), "{before:?}");
        }
        for (before, after, above) in [
            (" > ", "", " [/relay 1a2b3c]"),
            (" > ", "Type your message", ""),
            ("   ", "x", "   [/relay 1a2b3c]"),
            (" > ", "[/relay 1a2b3c]", ""),
        ] {
            assert!(!recipe("gemini").holds_text(&gemini(before, after, above)), "{before:?}");
        }
    }

    #[test]
    fn aider_gets_text_only_at_its_prompt() {
        for prompt in ["> ", "ask> ", "architect> "] {
            check_form("aider", &at(prompt), Ok(Form::Plain));
        }
        let question = "Add src/main.rs to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: ";
        let asks = Spot { rows: vec![question.to_owned()], ..at(question) };
        check_form("aider", &asks, Err(Obstacle::Dialog));
        for none in ["", "multi> ", "⠋ Waiting for gpt"] {
            check_form("aider", &at(none), Err(Obstacle::NoPrompt));
        }
        check_form("aider", &at("> half"), Err(Obstacle::HalfTyped));
    }
}
