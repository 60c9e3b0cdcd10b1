//! How each kind of program takes text: as data, chosen by the command's name.
//!
//! A recipe decides from what the screen shows whether something may be typed now, and in which form.
//! Where it is in doubt it says no: the message waits, and the reason is shown.

use super::{
    dialog,
    inject::Form,
    screen::{Look, Screen},
};
use std::fmt;

/// What a program of one kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The recipe's own name.
    pub name: &'static str,
    /// What the program does with what is typed.
    pub reads: Reads,
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
    /// The commands it is for, without directory and extension; versions at their end don't count.
    commands: &'static [&'static str],
    /// Reads the command's arguments: whether they make it something that is talked to.
    prompts: Option<Prompts>,
}

/// What a program does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// It reads it as text.
    Text,
    /// It runs it, as sh does.
    Shell,
    /// It runs it, as Python does.
    Python,
    /// It runs it, in a language for which there is no harmless form.
    OtherShell,
}

/// When a shell or an interpreter is one that prompts, rather than one that runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prompts {
    /// Letters of options after which it runs what its arguments say.
    runs: &'static str,
    /// Letters of options after which it prompts all the same.
    stays: &'static str,
    /// Options whose value is an argument of its own.
    valued: &'static [&'static str],
}

const SH: Prompts =
    Prompts { runs: "c", stays: "s", valued: &["--rcfile", "--init-file", "-o", "+o", "-O", "+O"] };

const GENERIC: Recipe = Recipe {
    name: "generic",
    reads: Reads::Text,
    quiet_ms: 300,
    untouched_ms: 1000,
    start_ms: 2000,
    // Known CLIs need up to 120 ms to tell an Enter from the end of a paste.
    guard_ms: 150,
    guard_ms_max: 2000,
    commands: &[],
    prompts: None,
};

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "shell",
        reads: Reads::Shell,
        quiet_ms: 150,
        guard_ms: 30,
        commands: &["sh", "bash", "zsh", "dash"],
        prompts: Some(SH),
        ..GENERIC
    },
    Recipe {
        name: "python",
        reads: Reads::Python,
        quiet_ms: 150,
        guard_ms: 30,
        commands: &["python", "ipython", "pypy"],
        prompts: Some(Prompts { runs: "cm", stays: "i", valued: &["-W", "-X"] }),
        ..GENERIC
    },
    Recipe {
        name: "other-shell",
        reads: Reads::OtherShell,
        commands: &[
            "fish",
            "nu",
            "elvish",
            "xonsh",
            "pwsh",
            "powershell",
            "cmd",
            "tcsh",
            "csh",
            "ksh",
            "mksh",
            "ash",
            "rc",
            "osh",
            "ysh",
            "node",
            "irb",
            "lua",
            "ghci",
        ],
        prompts: Some(Prompts { runs: "ce", stays: "i", valued: &[] }),
        ..GENERIC
    },
];

impl Recipe {
    /// The recipe for a command, by its name and arguments.
    #[must_use]
    pub fn choose(command: &[String]) -> Self {
        let Some((name, arguments)) = command.split_first() else { return GENERIC };
        let name = base_name(name);
        let fits = |recipe: &&Self| {
            recipe.commands.contains(&name.as_str())
                && recipe.prompts.is_none_or(|prompts| prompts.does_prompt(arguments))
        };
        RECIPES.iter().find(fits).copied().unwrap_or(GENERIC)
    }

    /// The form in which something may be typed now, or why nothing may.
    ///
    /// `foreground` is whether the terminal's foreground is the command itself, where the system says.
    pub fn form(&self, spot: &Spot, foreground: Option<bool>) -> Result<Form, Obstacle> {
        match self.reads {
            Reads::OtherShell => Err(Obstacle::Shell),
            _ if spot.asking => Err(Obstacle::Dialog),
            _ if spot.alternate => self.on_alternate_screen(spot, foreground),
            _ if spot.is_python() => Ok(Form::Comment),
            _ if foreground == Some(false) => Err(Obstacle::OtherProgram),
            Reads::Text if spot.cursor_visible && spot.ends_like_a_shell() => Err(Obstacle::Shell),
            Reads::Text => Ok(Form::Plain),
            Reads::Shell if spot.is_shell(foreground) => Ok(Form::HereDocument),
            Reads::Shell | Reads::Python => Err(Obstacle::NoPrompt),
        }
    }

    /// Whether its look says when the program has finished what it was told.
    #[must_use]
    pub fn shows_idle(&self) -> bool {
        matches!(self.reads, Reads::Shell | Reads::Python)
    }

    /// Whether the program has finished what it was told, by its look.
    #[must_use]
    pub fn looks_idle(&self, spot: &Spot, foreground: Option<bool>) -> bool {
        self.shows_idle() && self.form(spot, foreground).is_ok()
    }

    /// A full screen that doesn't want pastes marked takes keys as commands: a pager, an editor.
    fn on_alternate_screen(&self, spot: &Spot, foreground: Option<bool>) -> Result<Form, Obstacle> {
        let agent = self.reads == Reads::Text && foreground != Some(false);
        if agent && spot.bracketed_paste { Ok(Form::Plain) } else { Err(Obstacle::OtherScreen) }
    }
}

impl Prompts {
    fn does_prompt(&self, arguments: &[String]) -> bool {
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if self.valued.contains(&argument.as_str()) {
                arguments.next();
                continue;
            }
            let Some(option) = argument.strip_prefix(['-', '+']) else { return false };
            let letters = if option.starts_with('-') { "" } else { option };
            if letters.contains(|letter| self.stays.contains(letter)) {
                return true;
            }
            if letters.contains(|letter| self.runs.contains(letter)) {
                return false;
            }
        }
        true
    }
}

/// A command's name without directory, `.exe` and version: `/usr/bin/python3.11` is `python`.
fn base_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.trim_start_matches('-')
        .trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c))
        .to_owned()
}

/// The spot where something would be typed: what of the screen a recipe looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The cursor's row, up to the cursor.
    pub before: String,
    /// The character at the cursor.
    pub at: char,
    /// The program has not hidden the cursor.
    pub cursor_visible: bool,
    /// A full screen is shown.
    pub alternate: bool,
    /// The program wants pastes marked.
    pub bracketed_paste: bool,
    /// The program is in the middle of a picture.
    pub synchronizing: bool,
    /// The program asks something that an Enter would answer.
    pub asking: bool,
}

/// What stands on the cursor's row, up to the cursor.
#[must_use]
pub fn before(screen: &Screen) -> String {
    let cursor = screen.cursor();
    text(&screen.look(cursor.row), cursor.column)
}

fn text(row: &[Look], end: usize) -> String {
    row.iter().take(end).map(|look| look.character).collect()
}

impl Spot {
    /// Looks at a screen.
    #[must_use]
    pub fn of(screen: &Screen) -> Self {
        let cursor = screen.cursor();
        let row = screen.look(cursor.row);
        let before = text(&row, cursor.column);
        let rows: Vec<_> = (0..screen.size().1).map(|index| screen.row(index).text).collect();
        Self {
            asking: dialog::is_asking(&rows, &before),
            before,
            at: row.get(cursor.column).map_or(' ', |look| look.character),
            cursor_visible: cursor.visible,
            alternate: screen.alternate(),
            bracketed_paste: screen.bracketed_paste(),
            synchronizing: screen.synchronizing(),
        }
    }

    /// A shell's line editor waits for a line to begin.
    fn is_shell(&self, foreground: Option<bool>) -> bool {
        if self.at != ' ' || self.before.trim().is_empty() {
            return false;
        }
        // Where the shell itself is in front and asks for marked pastes, it reads a line, whatever
        // its prompt looks like; `>` at its end may be that of an unfinished command.
        let reads = foreground == Some(true) && self.bracketed_paste;
        (reads && !self.before.trim_end().ends_with('>')) || ends_like_a_prompt(&self.before)
    }

    fn is_python(&self) -> bool {
        let number = self.before.strip_prefix("In [").and_then(|rest| rest.strip_suffix("]: "));
        let ipython = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        self.at == ' ' && (ipython || self.before == ">>> ")
    }

    /// A prompt behind which what is typed runs, of some shell.
    fn ends_like_a_shell(&self) -> bool {
        let windows = self.before.trim_end().ends_with('>')
            && (self.before.starts_with("PS ") || self.before[..].get(1..3) == Some(":\\"));
        windows || ends_like_a_prompt(&self.before)
    }
}

fn ends_like_a_prompt(before: &str) -> bool {
    ["$ ", "# ", "% ", "❯ ", "➜ "].iter().any(|end| before.ends_with(end))
}

/// Why nothing is typed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The program has shown nothing yet.
    Starting,
    /// Its screen changes.
    Printing,
    /// A key was pressed a moment ago.
    Typing,
    /// A line was begun and not sent off.
    HalfTyped,
    /// It has not read what was typed before.
    NotReading,
    /// A full-screen program that takes keys.
    OtherScreen,
    /// Another program has the terminal's foreground.
    OtherProgram,
    /// The program asks its person something.
    Dialog,
    /// The shell or interpreter shows no prompt.
    NoPrompt,
    /// What is typed would be run.
    Shell,
    /// Its person wants nothing typed for now.
    Held,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "the program has not shown anything yet",
            Self::Printing => "the agent is printing",
            Self::Typing => "somebody is typing",
            Self::HalfTyped => "a line is half typed",
            Self::NotReading => "the program does not read what is typed",
            Self::OtherScreen => "a full-screen program is shown that takes keys, not text",
            Self::OtherProgram => "another program is in the terminal's foreground",
            Self::Dialog => "the program asks something, which an Enter would answer",
            Self::NoPrompt => "there is no prompt",
            Self::Shell => "what is typed would be run by a shell",
            Self::Held => "its person holds its messages",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn chosen(command: &str, name: &str) {
        let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(Recipe::choose(&command).name, name, "{command:?}");
    }

    #[test]
    fn a_command_has_its_recipe_unless_it_runs_a_script() {
        for shell in
            ["bash", "/bin/sh", "zsh -l", "bash --norc -i", "bash --rcfile x -o vi", "-bash"]
        {
            chosen(shell, "shell");
        }
        chosen("C:\\Git\\bin\\BASH.EXE", "shell");
        chosen("bash -s x", "shell");
        for script in ["bash agent.sh", "sh -c claude", "bash -lc claude", "bash -o vi agent.sh"] {
            chosen(script, "generic");
        }
        for python in
            ["python3", "/usr/bin/python3.11 -i", "python -q -X dev", "python -i agent.py"]
        {
            chosen(python, "python");
        }
        for script in
            ["python3 agent.py", "python3 -u -m agent", "python3 -c x", "python -W i a.py"]
        {
            chosen(script, "generic");
        }
        for other in ["fish", "pwsh -NoLogo", "cmd.exe", "node"] {
            chosen(other, "other-shell");
        }
        for agent in ["claude", "cat", "node agent.js", "shh", ""] {
            chosen(agent, "generic");
        }
    }

    fn recipe(command: &str) -> Recipe {
        Recipe::choose(&[command.to_owned()])
    }

    fn at(before: &str) -> Spot {
        Spot { before: before.to_owned(), at: ' ', cursor_visible: true, ..Spot::default() }
    }

    #[track_caller]
    fn judged(
        command: &str,
        spot: &Spot,
        foreground: Option<bool>,
        expected: Result<Form, Obstacle>,
    ) {
        assert_eq!(recipe(command).form(spot, foreground), expected, "{command} {spot:?}");
    }

    #[test]
    fn a_shell_gets_its_here_document_at_its_prompt_only() {
        for prompt in ["$ ", "root@host:/# ", "ann% ", "~/x ❯ "] {
            judged("bash", &at(prompt), None, Ok(Form::HereDocument));
            judged("bash", &at(prompt), Some(true), Ok(Form::HereDocument));
            judged("bash", &at(prompt), Some(false), Err(Obstacle::OtherProgram));
        }
        for none in ["", "$ ls", "> ", "quote> ", "Password: ", "mysql> "] {
            judged("bash", &at(none), None, Err(Obstacle::NoPrompt));
        }
        let reads = |before| Spot { bracketed_paste: true, ..at(before) };
        judged("zsh", &reads("➜  ~ git:(main) "), Some(true), Ok(Form::HereDocument));
        judged("zsh", &reads("➜  ~ git:(main) "), None, Err(Obstacle::NoPrompt));
        judged("zsh", &reads("heredoc> "), Some(true), Err(Obstacle::NoPrompt));
        judged("zsh", &reads("  "), Some(true), Err(Obstacle::NoPrompt));
        judged("bash", &Spot { at: 'x', ..at("$ ") }, Some(true), Err(Obstacle::NoPrompt));
    }

    #[test]
    fn python_gets_comments_wherever_its_prompt_is_seen() {
        for command in ["python3", "bash", "ssh"] {
            judged(command, &at(">>> "), None, Ok(Form::Comment));
            judged(command, &at(">>> "), Some(false), Ok(Form::Comment));
            judged(command, &at("In [12]: "), None, Ok(Form::Comment));
        }
        for none in ["", "... ", ">>> x", "   >>> "] {
            judged("python3", &at(none), None, Err(Obstacle::NoPrompt));
        }
    }

    #[test]
    fn nothing_is_typed_where_it_would_run() {
        for before in ["$ ", "# ", "host% ", "PS C:\\Users> ", "C:\\Users> ", "db=# "] {
            judged("ssh", &at(before), None, Err(Obstacle::Shell));
        }
        for before in ["", "> ", "│ > ", "100%", "Say $"] {
            judged("claude", &at(before), None, Ok(Form::Plain));
        }
        judged("claude", &Spot { cursor_visible: false, ..at("45% ") }, None, Ok(Form::Plain));
        judged("claude", &at("> "), Some(false), Err(Obstacle::OtherProgram));
        judged("fish", &at("> "), None, Err(Obstacle::Shell));
        judged("fish", &at(">>> "), None, Err(Obstacle::Shell));
    }

    #[test]
    fn a_full_screen_takes_text_only_if_it_is_the_agents_and_says_so() {
        let full = |bracketed_paste| Spot { alternate: true, bracketed_paste, ..at("") };
        judged("claude", &full(true), None, Ok(Form::Plain));
        judged("claude", &full(true), Some(true), Ok(Form::Plain));
        judged("claude", &full(false), None, Err(Obstacle::OtherScreen));
        judged("claude", &full(true), Some(false), Err(Obstacle::OtherScreen));
        judged("bash", &full(true), None, Err(Obstacle::OtherScreen));
        judged(
            "python3",
            &Spot { alternate: true, ..at(">>> ") },
            None,
            Err(Obstacle::OtherScreen),
        );
    }
}
