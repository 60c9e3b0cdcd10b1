//! How each kind of program takes text: as data, chosen by the command's name.
//!
//! A recipe decides from what the screen shows whether something may be typed now, and in which form.
//! Where it is in doubt it says no: the message waits, and the reason is shown.

mod book;
mod expands;
mod spot;

pub use book::{Book, BookError, Version};
pub use expands::Expands;
pub(crate) use expands::is_blank;
pub use spot::{Spot, before};

use super::{keyboard::Reader, obstacle::Obstacle, transcript::Format};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a program of one kind needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The recipe's own name.
    pub name: String,
    /// What the program does with what is typed.
    pub reads: Reads,
    /// What sends the text off.
    pub submit: String,
    /// A line feed does so as well, though the program has an editor.
    pub line_feed_submits: bool,
    /// The screen has stood still for so long before something is typed.
    pub quiet_ms: u64,
    /// The person has not touched a key for so long.
    pub untouched_ms: u64,
    /// A program that shows nothing at all is taken to be ready after this time.
    pub start_ms: u64,
    /// From the text's having been typed to the Enter, at least: until the screen stands still again.
    pub guard_ms: u64,
    /// And at most.
    pub guard_ms_max: u64,
    /// The transcript that it writes.
    pub transcript: Option<&'static Format>,
    /// When its agent is at work the transcript says, not the screen.
    pub turns: Option<Turns>,
    /// It takes text in while its agent works.
    pub while_busy: bool,
    /// Its composer reads keys: while the terminal gathers lines, it does not read.
    pub raw_mode: bool,
    /// What it finds in its environment, where that has no such variable.
    pub environment: BTreeMap<String, String>,
    /// What its command gets behind its name; see [`Recipe::arguments`].
    arguments: Vec<String>,
    /// Blanks that it leaves in front of its agent's words.
    pub margin: u8,
    /// What it would make more of than text.
    pub expands: Expands,
    /// What it shows.
    looks: Looks,
}

/// What a program does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// It reads it as text.
    Text,
    /// It runs it, as sh does.
    Shell,
}

/// How a frame is made harmless where it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is, for programs that read text.
    Plain,
    /// A here-document for a command that does nothing (bash, zsh); pasted.
    HereDocument,
}

/// What tells the turns of a program's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turns {
    /// The transcript.
    Transcript,
}

/// What a program shows when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Looks {
    composer: Vec<String>,
    shell_mode: Vec<String>,
    ghosts: Vec<String>,
    busy: Vec<String>,
    dialog: Vec<String>,
}

/// What is known of a program beside its screen.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The program that reads the terminal.
    pub reader: &'a Reader,
    /// Prompts at which a shell begins a command, and does not go on with one.
    pub prompts: &'a [String],
    /// The transcript says that its agent is at work.
    pub at_work: bool,
}

impl Recipe {
    /// What the command gets behind its name: `{NAME}` in it is the value of this variable, as a TOML string.
    pub fn arguments(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let filled = |argument: &String| {
            variables.iter().fold(argument.clone(), |argument, (name, value)| {
                argument.replace(&format!("{{{name}}}"), &toml_string(value))
            })
        };
        self.arguments.iter().map(filled).collect()
    }

    /// Whether the command is told this variable by an argument.
    pub fn has_argument_for(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.contains(&format!("{{{name}}}")))
    }

    /// The form in which something may be typed now, or why nothing may.
    pub fn form(&self, spot: &Spot, known: Known<'_>) -> Result<Form, Obstacle> {
        match known.reader {
            Reader::Barred(why, _) => Err(*why),
            Reader::Unseen => Err(Obstacle::Unidentified),
            _ if self.is_asking(spot) => Err(Obstacle::Dialog),
            Reader::Agent(name) if *name == self.name && self.shows_composer() => {
                self.at_composer(spot, known)
            }
            Reader::Agent(_) => Err(Obstacle::OtherProgram),
            Reader::Shell if self.shows_composer() => Err(Obstacle::Shell),
            Reader::Shell => self.at_shell_prompt(spot, known),
            Reader::Accepted => self.by_general_signs(spot, known),
        }
    }

    /// A prompt is certain only where the shell's line editor says that it reads, and where it is
    /// known that no command is unfinished: in an open quote, a here-document would run.
    fn at_shell_prompt(&self, spot: &Spot, known: Known<'_>) -> Result<Form, Obstacle> {
        match () {
            () if spot.alternate => Err(Obstacle::OtherScreen),
            () if spot.is_shell() && known.prompts.contains(&spot.before) => Ok(Form::HereDocument),
            () => Err(Obstacle::NoPrompt),
        }
    }

    fn by_general_signs(&self, spot: &Spot, known: Known<'_>) -> Result<Form, Obstacle> {
        match () {
            () if self.is_busy(spot, known) => Err(Obstacle::Busy),
            // One that doesn't want pastes marked takes keys as commands: a pager, an editor.
            () if spot.alternate && !spot.bracketed_paste => Err(Obstacle::OtherScreen),
            () if spot.alternate => Ok(Form::Plain),
            () if spot.cursor_visible && spot.ends_like_a_shell() => Err(Obstacle::Shell),
            () if spot.cursor_visible && spot.ends_like_python() => Err(Obstacle::Interpreter),
            () => Ok(Form::Plain),
        }
    }

    /// Whether its look says when the program has finished what it was told.
    #[must_use]
    pub fn shows_idle(&self) -> bool {
        self.reads == Reads::Shell || self.shows_composer()
    }

    /// Whether the program has finished what it was told, by its look.
    #[must_use]
    pub fn looks_idle(&self, spot: &Spot, known: Known<'_>) -> bool {
        self.shows_idle() && self.form(spot, known).is_ok() && !spot.shows(&self.looks.busy)
    }

    /// Whether a line feed is a line break in what is typed, as in editors of several rows. They want pastes
    /// marked.
    #[must_use]
    pub fn line_feed_breaks(&self, bracketed_paste: bool) -> bool {
        let submits = self.line_feed_submits || self.submit.contains('\n');
        self.reads == Reads::Text && bracketed_paste && !submits
    }

    /// Whether its agent is at work, by its look.
    #[must_use]
    pub fn looks_busy(&self, spot: &Spot) -> bool {
        spot.shows(&self.looks.busy)
    }

    /// Whether what was typed stands where it was typed, so that an Enter sends it off and nothing else: the
    /// cursor is at the end of it, which is a bracket, also where the program shows a word in its place.
    #[must_use]
    pub fn holds_text(&self, spot: &Spot) -> bool {
        !self.is_asking(spot) && (!self.shows_composer() || spot.follows_bracket())
    }

    /// Whether it asks its person something. What was typed and stands there may say the same.
    #[must_use]
    pub fn shows_dialog(&self, spot: &Spot) -> bool {
        let asks =
            self.is_asking(spot) || (self.line(spot).is_none() && spot.shows(&self.looks.dialog));
        asks && !self.holds_text(spot)
    }

    /// What stands in the line to type into, before the cursor. The frame of a dialog may look like that of
    /// the line.
    fn line<'a>(&self, spot: &'a Spot) -> Option<&'a str> {
        let line = typed(&self.looks.composer, &spot.before)?;
        let is_blank = !line.is_empty() && line.trim().is_empty();
        (!is_blank || !spot.shows(&self.looks.dialog)).then_some(line)
    }

    /// It is known how its line to type into looks.
    #[must_use]
    pub fn shows_composer(&self) -> bool {
        !self.looks.composer.is_empty()
    }

    /// A program whose line to type into is known gets text there alone, and only while it is empty.
    fn at_composer(&self, spot: &Spot, known: Known<'_>) -> Result<Form, Obstacle> {
        if spot.alternate && !spot.bracketed_paste {
            return Err(Obstacle::OtherScreen);
        }
        if typed(&self.looks.shell_mode, &spot.before).is_some() {
            return Err(Obstacle::ShellMode);
        }
        match self.line(spot) {
            Some("") => {}
            Some(_) => return Err(Obstacle::HalfTyped),
            None if spot.shows(&self.looks.dialog) => return Err(Obstacle::Dialog),
            None => return Err(Obstacle::NoPrompt),
        }
        if !spot.after.is_empty() && !self.looks.ghosts.contains(&spot.after) {
            return Err(Obstacle::HalfTyped);
        }
        if self.is_busy(spot, known) { Err(Obstacle::Busy) } else { Ok(Form::Plain) }
    }

    /// An Enter would answer something. Where a line to type into is seen, nothing is asked.
    fn is_asking(&self, spot: &Spot) -> bool {
        spot.asking || (!self.shows_composer() && spot.shows(&self.looks.dialog))
    }

    fn is_busy(&self, spot: &Spot, known: Known<'_>) -> bool {
        !self.while_busy && (known.at_work || spot.shows(&self.looks.busy))
    }
}

/// In single quotes where that can be: shells of Windows take the others away.
fn toml_string(text: &str) -> String {
    match text.contains(|c: char| c == '\'' || c.is_control()) {
        false => format!("'{text}'"),
        true => toml::Value::from(text).to_string(),
    }
}

/// What follows the longest of these looks.
fn typed<'a>(looks: &[String], before: &'a str) -> Option<&'a str> {
    let typed = looks.iter().filter_map(|look| typed_behind(look, before));
    typed.min_by_key(|text| text.len())
}

/// What follows a look of the line to type into; with `^` first, blanks may stand before that.
fn typed_behind<'a>(look: &str, before: &'a str) -> Option<&'a str> {
    match look.strip_prefix('^') {
        Some(look) => before.trim_start().strip_prefix(look),
        None => before.strip_prefix(look),
    }
}

#[cfg(test)]
mod screens;
#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn chosen(command: &str, name: &str) {
        assert_eq!(recipe(command).name, name, "{command:?}");
    }

    #[test]
    fn a_command_has_its_recipe_unless_it_runs_a_script() {
        for shell in ["bash", "zsh -l", "bash --norc -i", "bash --rcfile x -o vi", "-bash"] {
            chosen(shell, "shell");
        }
        chosen("C:\\Git\\bin\\BASH.EXE", "shell");
        chosen("bash -s x", "shell");
        for script in ["bash agent.sh", "sh -c claude", "bash -lc claude", "bash -o vi agent.sh"] {
            chosen(script, "generic");
        }
        for agent in ["fish", "python3", "agent", "cat", "node agent.js", "shh", ""] {
            chosen(agent, "generic");
        }
        for agent in ["claude", "codex", "gemini", "opencode", "aider"] {
            chosen(agent, agent);
        }
        chosen("/opt/agy", "antigravity");
    }

    fn recipe(command: &str) -> Recipe {
        let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
        Book::default().choose(&command, "linux", None)
    }

    fn at(before: &str) -> Spot {
        Spot { before: before.to_owned(), at: ' ', cursor_visible: true, ..Spot::default() }
    }

    #[track_caller]
    fn judged(command: &str, spot: &Spot, expected: Result<Form, Obstacle>) {
        let recipe = recipe(command);
        let reader = crate::bridge::script::reader(&recipe);
        let prompts = [spot.before.clone()];
        let known = Known { reader: &reader, prompts: &prompts, at_work: false };
        assert_eq!(recipe.form(spot, known), expected, "{command} {spot:?}");
    }

    #[test]
    fn shell_gets_a_here_document_only_while_its_line_editor_reads() {
        let reads = |before| Spot { bracketed_paste: true, ..at(before) };
        for prompt in ["$ ", "root@host:/# ", "ann% ", "~/x ❯ ", "➜  ~ git:(main) ", "lambda "]
        {
            judged("bash", &reads(prompt), Ok(Form::HereDocument));
            judged("bash", &at(prompt), Err(Obstacle::NoPrompt));
        }
        for none in ["", "  ", "> ", "quote> ", "heredoc> ", "mysql> "] {
            judged("zsh", &reads(none), Err(Obstacle::NoPrompt));
        }
        judged("bash", &Spot { at: 'x', ..reads("$ ") }, Err(Obstacle::NoPrompt));
        judged("bash", &Spot { alternate: true, ..reads("$ ") }, Err(Obstacle::OtherScreen));
        let known = Known { reader: &Reader::Shell, prompts: &["$ ".to_owned()], at_work: false };
        assert_eq!(recipe("bash").form(&reads("∙ "), known), Err(Obstacle::NoPrompt));
    }

    #[test]
    fn form_follows_the_program_that_reads() {
        let claude = recipe("claude");
        let spot = Spot { bracketed_paste: true, ..at("❯ ") };
        let form = |reader: Reader| {
            claude.form(&spot, Known { reader: &reader, prompts: &[], at_work: false })
        };
        assert_eq!(form(Reader::Agent("claude".into())), Ok(Form::Plain));
        assert_eq!(form(Reader::Agent("codex".into())), Err(Obstacle::OtherProgram));
        assert_eq!(form(Reader::Shell), Err(Obstacle::Shell));
        assert_eq!(form(Reader::Unseen), Err(Obstacle::Unidentified));
        for why in [Obstacle::Session, Obstacle::Nested, Obstacle::Shell, Obstacle::Suspended] {
            assert_eq!(form(Reader::Barred(why, None)), Err(why));
        }
    }

    #[test]
    fn accepted_program_gets_no_text_at_a_prompt_that_looks_like_a_shells() {
        for before in ["$ ", "# ", "host% ", "PS C:\\Users> ", "C:\\Users> ", "db=# "] {
            judged("agent", &at(before), Err(Obstacle::Shell));
        }
        for before in ["", "> ", "│ > ", "100%", "Say $"] {
            judged("agent", &at(before), Ok(Form::Plain));
        }
        judged("agent", &Spot { cursor_visible: false, ..at("45% ") }, Ok(Form::Plain));
    }

    #[test]
    fn accepted_program_gets_text_on_a_full_screen_only_if_it_wants_pastes_marked() {
        let full = |bracketed_paste| Spot { alternate: true, bracketed_paste, ..at("") };
        judged("agent", &full(true), Ok(Form::Plain));
        judged("agent", &full(false), Err(Obstacle::OtherScreen));
    }

    #[test]
    fn programs_whose_line_to_type_into_is_not_known_are_left_alone_while_they_ask_or_work() {
        let shows = |rows: &[&str]| Spot {
            alternate: true,
            bracketed_paste: true,
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            ..at("")
        };
        judged("agy", &shows(&["⚠ Approval Required", "  No, deny access"]), Err(Obstacle::Dialog));
        judged("agy", &shows(&["> Yes, I trust this folder"]), Err(Obstacle::Dialog));
        judged("agy", &shows(&["esc to cancel"]), Err(Obstacle::Busy));
        judged("agy", &shows(&["> "]), Ok(Form::Plain));
        let spot = shows(&["⚠ Approval Required"]);
        assert!(!recipe("agy").holds_text(&spot), "no Enter comes after all");
    }

    #[test]
    fn a_line_in_the_middle_of_the_screen_is_known_by_its_frame() {
        let framed = |before: &str, rows: &[&str]| Spot {
            alternate: true,
            bracketed_paste: true,
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            ..at(before)
        };
        for empty in ["┃  ", "  ┃  ", "             ┃  "] {
            judged("opencode", &framed(empty, &[]), Ok(Form::Plain));
            judged("opencode", &framed(&format!("{empty}x"), &[]), Err(Obstacle::HalfTyped));
        }
        let asks = ["△ Permission required"];
        for (before, why) in
            [("  ┃   ", Obstacle::Dialog), ("  ┃  x", Obstacle::HalfTyped), ("", Obstacle::Dialog)]
        {
            judged("opencode", &framed(before, &asks), Err(why));
        }
        judged("opencode", &framed("  ┃   ", &[]), Err(Obstacle::HalfTyped));
        judged("opencode", &framed("  ", &[]), Err(Obstacle::NoPrompt));
    }

    /// The last thing of it is a bracket.
    #[test]
    fn what_was_typed_is_seen_before_the_cursor_or_behind_one_that_stayed() {
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
    fn aider_gets_text_at_its_prompt_alone() {
        for prompt in ["> ", "ask> ", "architect> "] {
            judged("aider", &at(prompt), Ok(Form::Plain));
        }
        let question = "Add src/main.rs to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: ";
        let asks = Spot { rows: vec![question.to_owned()], ..at(question) };
        judged("aider", &asks, Err(Obstacle::Dialog));
        for none in ["", "multi> ", "⠋ Waiting for gpt"] {
            judged("aider", &at(none), Err(Obstacle::NoPrompt));
        }
        judged("aider", &at("> half"), Err(Obstacle::HalfTyped));
    }
}
