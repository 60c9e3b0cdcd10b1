//! Recipes: how to type messages into each kind of program.
//!
//! A recipe is data, chosen by the command's name. It decides from the screen whether a text may be
//! typed now, and in which form. In case of doubt, no text is typed: the message waits, and the
//! reason is shown.

mod book;
mod command_output;
mod expands;
mod shown;
mod spot;

use book::System;
pub use book::{Book, BookError, Version};
pub(crate) use command_output::CommandOutput;
pub use expands::Expansions;
pub(crate) use expands::is_blank;
pub use shown::{Shown, Typed};
pub use spot::Spot;
pub(crate) use spot::text_before_cursor;

use super::transcript::Format;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A recipe for typing messages into one kind of program, or the part of one that an entry of a
/// file states. docs/WRAPPER.md has the comments of the keys as a table. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The recipe's name.
    pub name: String,
    /// The names of its program's commands, executables and scripts, without directory, extension
    /// and version.
    commands: Vec<String>,
    /// Parts of the paths of its executables and scripts, such as `"/@openai/codex/"`.
    programs: Vec<String>,
    /// `linux`, `macos`, `windows`; all if absent.
    systems: Option<Vec<System>>,
    /// The program's oldest version. An unknown version counts as the newest.
    from: Option<Version>,
    /// The first version of the program that the entry no longer applies to.
    below: Option<Version>,
    /// What the program does with a line: `text`, `shell` (runs it, as sh does).
    pub reads: Reads,
    /// The format of the transcript that the program writes.
    #[serde(deserialize_with = "book::format")]
    pub transcript: Option<&'static Format>,
    /// `transcript`: the transcript, not the screen, tells whether the agent is at work.
    pub turns: Option<Turns>,
    /// The key that submits a text: Enter in one of four forms.
    pub submit: String,
    /// `true`: Ctrl-J submits a line like Enter. Otherwise it is a line break in programs that read
    /// text and use bracketed paste; after it, nothing is typed until an Enter.
    pub line_feed_submits: bool,
    /// How long the screen must be still before a text is typed.
    pub quiet_ms: u64,
    /// How long no key must be pressed before a text is typed.
    pub untouched_ms: u64,
    /// How long a program that shows nothing must run before it counts as ready, and how long a
    /// known input line must have been there at the start.
    pub start_ms: u64,
    /// The minimum time from a text to its Enter. The Enter also waits until the screen is still
    /// again.
    pub guard_ms: u64,
    /// The maximum time from a text to its Enter.
    pub guard_ms_max: u64,
    /// `true`: text may be typed while the agent works.
    pub while_busy: bool,
    /// How many messages may pass between the agent and another one without a person's prompt and
    /// without work: see [Loops](docs/GUIDE.md#loops).
    pub wake_budget: u32,
    /// `true`: its composer reads keys, so nothing is typed while the terminal collects lines. It
    /// does so for a moment after an editor that the program has started (not known on Windows).
    pub raw_mode: bool,
    /// Variables that the program gets if they are not set: `{ NAME = "value" }`.
    pub environment: BTreeMap<String, String>,
    /// Arguments inserted before the command's own. `{NAME}` is the value of the variable
    /// `AGENT_RELAY_AGENT`, `AGENT_RELAY_KEY_FILE` or `AGENT_RELAY_ENDPOINT` as a TOML string; the
    /// program then does not find the variable in its environment.
    arguments: Vec<String>,
    /// How many columns the program leaves blank before its agent's text.
    pub margin: u8,
    /// `true`: the program counts the columns of each code point of an emoji, like the line editors
    /// of shells. Otherwise the whole emoji has two.
    pub counts_code_points: bool,
    /// Text that the program would expand, with the backslash that prevents it: `'\@'`. With a
    /// blank first: only at the beginning of a word. With the backslash last: only before a name.
    pub expands: Expansions,
    /// Extensions of files that it attaches when their names are pasted at the end of a line or
    /// before a path: `".png"`.
    pictures: Vec<String>,
    /// The text before the cursor in the empty input line; with `^` first, blanks may precede it.
    /// Text is typed only while it is seen, and each submission is checked. Without this key, the
    /// program needs `--accepts-text`.
    composer: Vec<String>,
    /// The beginning of the last row of the input line's frame. If the screen has such a row, all
    /// rows from the cursor to it must begin as `composer` says. A picker's rows do not.
    composer_end: Option<String>,
    /// The text before the cursor while the program would run a typed line.
    shell_mode: Vec<String>,
    /// Texts that the empty input line shows after the cursor. Faint text is ignored anyway.
    ghosts: Vec<String>,
    /// The first characters of the composer's placeholder for a long paste; `"[Past"` if absent.
    pasted: Vec<String>,
    /// Words near the cursor while the agent works; with `^` first, at the beginning of a row. If
    /// the composer is known, they count above and below it; `busy_status` and `busy_footer` are
    /// more exact.
    busy: Vec<String>,
    /// Such words in the rows above the composer.
    busy_status: Vec<String>,
    /// Such words in the rows below the composer.
    busy_footer: Vec<String>,
    /// `true`: the row with such words moves while the agent works, as a clock does. A row that has
    /// stood still for 10 s no longer counts.
    pub work_moves: bool,
    /// `true`: in the program's dialogs, a digit immediately chooses the entry with that number.
    pub digits_choose: bool,
    /// Words near the cursor while the program asks its person something. If the composer is known,
    /// they count while it is not seen, or below a text in it that looks like an entry of a menu.
    /// Do not use a word that is always there.
    dialog: Vec<String>,
    /// Beginnings of questions (`dialog`) that run a command when answered. On the grid, the rows
    /// below are not the agent's words, up to the next question or prompt.
    output_after_question: Vec<String>,
    /// Beginnings of the person's entries that run a command, such as `/run `; with the same
    /// effect.
    output_after_entry: Vec<String>,
    // Whether the program is a shell without a script. Its screen is not read: it shows the output
    // of all that the shell runs.
    #[serde(skip)]
    pub(crate) is_shell: bool,
}

/// How a program treats a typed line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// Reads the typed text as text.
    #[default]
    Text,
    /// Runs the typed text, as sh does.
    Shell,
}

/// The form for typing a text so that it does no harm.
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

impl Recipe {
    /// Returns the arguments that the recipe adds before the command's own. In them, `{NAME}` is
    /// replaced with the value of the variable NAME, as a TOML string.
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

    /// Returns the texts that distinguish command output from the agent's words on the grid.
    pub(crate) fn command_output(&self) -> CommandOutput {
        CommandOutput(self.clone())
    }

    /// Whether a line feed is a line break in the text, as in multi-line composers. All of these
    /// use bracketed paste.
    #[must_use]
    pub(crate) fn line_feed_breaks(&self, bracketed_paste: bool) -> bool {
        let submits = self.line_feed_submits || self.submit.contains('\n');
        self.reads == Reads::Text && bracketed_paste && !submits
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

#[cfg(test)]
mod tests {
    mod screens;

    use super::*;
    use crate::{keyboard::Reader, obstacle::Obstacle};

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
        check_choice("/opt/agy", "agy");
    }

    #[test]
    fn shell_without_a_script_is_a_shell() {
        for shell in ["bash", "sh", "/bin/dash -i", "fish", "pwsh", "powershell.exe", "cmd.exe /k"]
        {
            assert!(recipe(shell).is_shell, "{shell}");
        }
        for other in [
            "sh agent.sh",
            "bash -c x",
            "cmd /c agent.cmd",
            "pwsh -File x",
            "pwsh ./x.ps1",
            "rc",
            "claude",
            "cat",
        ] {
            assert!(!recipe(other).is_shell, "{other}");
        }
        let own = Book::with("[[recipe]]\nname = \"rc\"\ncommands = [\"rc\"]\nreads = \"text\"\n");
        assert!(!own.unwrap().choose(&["rc".to_owned()], "linux", None).is_shell);
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
        let shown = recipe.read(spot, &reader, &prompts, &Typed::default());
        assert_eq!(shown.form, expected, "{command} {spot:?}");
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
        let shown = recipe("bash").read(
            &reads("∙ "),
            &Reader::Shell,
            &["$ ".to_owned()],
            &Typed::default(),
        );
        assert_eq!(shown.form, Err(Obstacle::NoPrompt));
    }

    #[test]
    fn form_depends_on_the_reader() {
        let claude = recipe("claude");
        let spot = Spot { bracketed_paste: true, ..at("❯ ") };
        let form = |reader: Reader| claude.read(&spot, &reader, &[], &Typed::default()).form;
        assert_eq!(form(Reader::Agent("claude".into())), Ok(Form::Plain));
        assert_eq!(form(Reader::Agent("codex".into())), Err(Obstacle::OtherProgram));
        assert_eq!(form(Reader::Shell), Err(Obstacle::Shell));
        assert_eq!(form(Reader::Unseen), Err(Obstacle::Unidentified));
        for why in [Obstacle::Conduit, Obstacle::Nested, Obstacle::Shell, Obstacle::Suspended] {
            assert_eq!(form(Reader::Barred(why, None)), Err(why));
        }
    }

    #[test]
    fn accepted_program_gets_no_text_at_a_shell_like_prompt() {
        for before in ["$ ", "# ", "host% ", "PS C:\\Users> ", "C:\\Users> ", "db=# "] {
            check_form("agent", &at(before), Err(Obstacle::Shell));
        }
        for before in ["", "> ", "│ > ", "100%", "Say $"] {
            check_form("agent", &at(before), Ok(Form::Plain));
        }
        check_form("agent", &Spot { cursor_visible: false, ..at("45% ") }, Ok(Form::Plain));
    }

    #[test]
    fn accepted_full_screen_program_gets_text_only_with_bracketed_paste() {
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
        check_form("agy", &shows(&["> "]), Ok(Form::Plain));
        let typed = Typed { frames: vec!["a"], own: Some("a") };
        let read = |rows: &[&str]| recipe("agy").read(&shows(rows), &Reader::Accepted, &[], &typed);
        assert!(!read(&["⚠ Approval Required"]).holds_own, "no Enter follows");
        assert_eq!(read(&["esc to cancel"]).busy.as_deref(), Some("esc to cancel"));
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
    fn typed_text_is_recognised_by_its_mark_before_or_after_the_cursor() {
        let gemini = recipe("gemini");
        let holds = |before: &str, after: &str, above: &str| {
            // Qwen Code draws a character without width after the cursor.
            let rows = vec![above.to_owned(), format!("{before}{after}\u{200b}")];
            let spot = Spot { after: after.to_owned(), rows, row: 1, ..at(before) };
            let typed = Typed { frames: vec!["1a2b3c"], own: Some("1a2b3c") };
            gemini.read(&spot, &Reader::Agent("gemini".into()), &[], &typed).holds_own
        };
        for (before, after, above) in [
            ("   [/relay 1a2b3c]", "", ""),
            (" > [/relay 1a2b3c]", "", ""),
            ("   3c]", "", "   [/relay 1a2b"),
            ("   1a2b3c]", "", "   [/relay"),
            ("   ", "", "   [/relay 1a2b3c]"),
            ("   ", "[/relay 1a2b3c]", "   hello"),
            (" > [Pasted Text: 12 lines]", "", ""),
        ] {
            assert!(holds(before, after, above), "{before:?}");
        }
        for (before, after, above) in [
            (" > ", "", " [/relay 1a2b3c]"),
            (" > ", "Type your message", ""),
            ("   ", "x", "   [/relay 1a2b3c]"),
            (" > ", "[/relay 1a2b3c]", ""),
            ("   [/relay 4d5e6f]", "", ""),
            ("   ❯ 3. [/relay 1a2b3c]", "", ""),
            (" > an answer [y]", "", ""),
            (" > [Pasted Text: 12 lines] [Pasted Text: 3 lines]", "", ""),
            (" > [Pasted Text: 12 lines] and [this]", "", ""),
        ] {
            assert!(!holds(before, after, above), "{before:?}");
        }
    }

    /// The cursor is in the draft's last row, in an empty row, or in the empty first row.
    #[test]
    fn draft_of_several_rows_is_a_draft() {
        for (command, prompt, indent) in [("codex", "› ", "  "), ("gemini", " > ", "   ")] {
            let shows = |rows: &[String], row: usize, before: &str| {
                let rows = rows.iter().cloned().chain([String::new(), "  project".into()]);
                Spot { bracketed_paste: true, rows: rows.collect(), row, ..at(before) }
            };
            let rows = ["• Done.".into(), format!("{prompt}one"), format!("{indent}two")];
            check_form(command, &shows(&rows, 2, &rows[2]), Err(Obstacle::HalfTyped));
            let rows = [format!("{prompt}one"), String::new(), indent.to_owned()];
            check_form(command, &shows(&rows, 2, indent), Err(Obstacle::HalfTyped));
            let rows = [prompt.to_owned(), format!("{indent}two")];
            check_form(command, &shows(&rows, 0, prompt), Err(Obstacle::HalfTyped));
            check_form(command, &shows(&[prompt.to_owned()], 0, prompt), Ok(Form::Plain));
            // Entries of a menu, in a draft.
            let rows = [format!("{prompt}1. one"), format!("{indent}2. two")];
            check_form(command, &shows(&rows, 1, &rows[1]), Err(Obstacle::HalfTyped));
            // Not a draft: the rows of the conversation.
            let rows = [format!("{prompt}one"), "• Done.".into(), format!("{indent}two")];
            check_form(command, &shows(&rows, 2, &rows[2]), Err(Obstacle::NoPrompt));
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
