//! The book of all recipes: the recipes of recipes.toml and the built-in ones.

use super::{Expansions, Patterns, Reads, Recipe, Turns, expands::Expansion};
use crate::{
    agents,
    keyboard::{Operand, Recognised, is_shell, name_of, operand},
    transcript::Format,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{collections::BTreeMap, ops::Range};

/// The built-in recipes for programs other than agent CLIs.
const GENERAL: &str = include_str!("generic.toml");

/// The name of the recipe for commands that have no other.
const GENERIC: &str = "generic";

/// The longest time that a recipe may name, in milliseconds.
const MS_MAX: u64 = 60_000;

/// The shortest part of a path that may identify a program, in bytes. Shorter parts would fit too
/// many paths.
const PROGRAM_PART_MIN: usize = 4;

/// The entries of all recipes, in order. The first recipe that fits a command is used. Entries with
/// the same name form one recipe, in which each key has the value of the first entry that sets it
/// for this system and version.
#[derive(Clone, Debug)]
pub struct Book {
    entries: Vec<Entry>,
    advice: Vec<String>,
}

/// An error in recipes.toml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookError {
    /// The range of bytes in the file's text that is wrong, if it is known.
    pub span: Option<Range<usize>>,
    /// A sentence that says what is wrong and what would be right.
    pub reason: String,
}

/// The numbers of a program's version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u32>);

impl Version {
    /// Parses a version such as `2.1.197`. Text after the numbers is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let numbers: Result<Vec<u32>, _> = text[..end].split('.').map(str::parse).collect();
        numbers.ok().map(Self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let version =
            Self::parse(&text).filter(|_| text.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        version.ok_or_else(|| D::Error::custom(format!("{text:?} is not a version: write \"2.1\"")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    #[serde(default)]
    recipe: Vec<toml::Spanned<Entry>>,
}

/// An entry of a file: a recipe, or a part of one. docs/WRAPPER.md has the comments of the keys as
/// a table. Times are in milliseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The recipe's name.
    name: String,
    /// The names of commands, executables and scripts of its program, without directory, extension
    /// and version.
    commands: Option<Vec<String>>,
    /// Parts of the paths of its executables and scripts, such as `"/@openai/codex/"`.
    programs: Option<Vec<String>>,
    /// `linux`, `macos`, `windows`; all if absent.
    systems: Option<Vec<System>>,
    /// The program's oldest version. An unknown version counts as the newest.
    from: Option<Version>,
    /// The program's first version for which the entry no longer holds.
    below: Option<Version>,
    /// What the program does with a line: `text`, `shell` (runs it, as sh does).
    reads: Option<Reads>,
    /// The format of the transcript that the program writes.
    #[serde(default, deserialize_with = "format")]
    transcript: Option<&'static Format>,
    /// `transcript`: whether the agent is at work is read there, and not from the screen.
    turns: Option<Turns>,
    /// The keys that send a text off: an Enter in one of four forms.
    submit: Option<String>,
    /// `true`: Ctrl-J sends a line off as Enter does. Otherwise it is a line break in programs that
    /// read text and mark pastes, and nothing is typed behind it until an Enter.
    line_feed_submits: Option<bool>,
    /// How long the screen must be still before a text is typed.
    quiet_ms: Option<u64>,
    /// The time for which no key must be pressed before a text is typed.
    untouched_ms: Option<u64>,
    /// The time after which a program that shows nothing at all counts as ready, and for which a
    /// known input line must have been there at the start.
    start_ms: Option<u64>,
    /// The least time from a text to its Enter, which also waits until the screen stands still
    /// again.
    guard_ms: Option<u64>,
    /// The longest time from a text to its Enter.
    guard_ms_max: Option<u64>,
    /// `true`: text may be typed while the agent works.
    while_busy: Option<bool>,
    /// The most messages that pass between the agent and another one without a prompt of a person
    /// and without work: see [Loops](docs/WRAPPER.md#loops).
    wake_budget: Option<u32>,
    /// `true`: its composer reads keys, so nothing is typed while the terminal collects lines, as
    /// for a moment after an editor that the program has started (not known on Windows).
    raw_mode: Option<bool>,
    /// Variables that the program gets if they are not set: `{ NAME = "value" }`.
    environment: Option<BTreeMap<String, String>>,
    /// Arguments that its command gets before its own. `{NAME}` is the value of the variable
    /// `AGENT_RELAY_AGENT`, `AGENT_RELAY_KEY_FILE` or `AGENT_RELAY_ENDPOINT` as a TOML string,
    /// which the program then does not find in its environment.
    arguments: Option<Vec<String>>,
    /// The number of columns that the program leaves blank in front of everything that its agent
    /// says.
    margin: Option<u8>,
    /// `true`: the program counts the columns of each code point of an emoji, as line editors of
    /// shells do. Otherwise the whole emoji has two.
    counts_code_points: Option<bool>,
    /// What the program would treat as more than text, with the backslash that prevents it: `'\@'`.
    /// With a blank first: only at the beginning of a word. With the backslash last: only before a
    /// name.
    expands: Option<Vec<Expansion>>,
    /// Endings of the names of files that it attaches when they are pasted at the end of a line or
    /// before a path: `".png"`.
    pictures: Option<Vec<String>>,
    /// The text before the cursor in the empty input line; with `^` first, blanks may precede it.
    /// Nothing is typed unless it is seen, and sending off is checked. Without it, the program
    /// needs `--accepts-text`.
    composer: Option<Vec<String>>,
    /// The beginning of the last row of the input line's frame. If the screen has such a row, all
    /// rows from the cursor to it must begin as `composer` says; those of a picker do not.
    composer_end: Option<String>,
    /// The text that stands there while a typed line would be run.
    shell_mode: Option<Vec<String>>,
    /// Texts that the empty input line shows behind the cursor. Faint text is ignored anyway.
    ghosts: Option<Vec<String>>,
    /// The first characters of what the composer shows in place of a long paste; `"[Past"` if
    /// absent.
    pasted: Option<Vec<String>>,
    /// Words near the cursor while the agent works; with `^` first, at the beginning of a row. If
    /// the composer is known: in place of `busy_status` and `busy_footer`, which say where.
    busy: Option<Vec<String>>,
    /// Such words in the rows above the composer.
    busy_status: Option<Vec<String>>,
    /// Such words in the rows below the composer.
    busy_footer: Option<Vec<String>>,
    /// `true`: the row with such words moves while the agent works, as a clock does. One that has
    /// stood still for 10 s counts no more.
    work_moves: Option<bool>,
    /// Words near the cursor while the program asks its person something. If the composer is known,
    /// they count while it is not seen, or below a text in it that looks like an entry of a menu. So
    /// no word that always stands there.
    dialog: Option<Vec<String>>,
    /// Beginnings of questions (`dialog`) whose answer runs a command. On the grid, the rows below
    /// are not the agent's words, up to the next question or prompt.
    output_after_question: Option<Vec<String>>,
    /// Beginnings of the person's entries that run a command, such as `/run `; with the same effect.
    output_after_entry: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum System {
    Linux,
    Macos,
    Windows,
}

impl System {
    /// Returns the system's name in [`std::env::consts::OS`].
    const fn as_str(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Macos => "macos",
            Self::Windows => "windows",
        }
    }
}

impl Default for Book {
    fn default() -> Self {
        let recipes = agents::AGENTS.iter().map(|agent| agent.recipe).chain([GENERAL]);
        let entries = recipes.flat_map(|recipe| read(recipe).expect("a test reads all of them"));
        Self { entries: entries.collect(), advice: Vec::new() }
    }
}

impl Book {
    /// Returns the recipes of a file's text, followed by the built-in recipes.
    ///
    /// # Errors
    /// If the text is not a valid file of recipes.
    pub fn with(text: &str) -> Result<Self, BookError> {
        let mut entries = read(text)?;
        let own = entries.len();
        entries.extend(Self::default().entries);
        let all: Vec<_> = entries.iter().collect();
        let has_composer = |entry: &&Entry| merged(&all, &entry.name).composer.is_some();
        let advice = entries[..own].iter().filter(|entry| entry.busy.is_some());
        let advice = advice.filter(has_composer).map(|entry| {
            format!(
                "the recipe {:?} has busy, which counts above and below the input line: write \
                 busy_status or busy_footer, whichever is meant",
                entry.name
            )
        });
        let advice = advice.collect();
        Ok(Self { entries, advice })
    }

    /// Returns sentences about keys of a file that still hold, and for which there are better ones.
    #[must_use]
    pub fn advice(&self) -> &[String] {
        &self.advice
    }

    /// Returns the recipe for a command line on this system. An unknown version counts as the
    /// newest.
    #[must_use]
    pub fn choose(&self, command: &[String], system: &str, version: Option<&Version>) -> Recipe {
        let path = command.first().map_or("", String::as_str);
        let name = name_of(path);
        let arguments = command.get(1..).unwrap_or_default();
        // A shell or an interpreter that runs a script does not read text at a prompt.
        let prompts = operand(path, arguments).is_none_or(|operand| operand == Operand::Prompt);
        let entries = self.entries_for(system, version);
        let fits = |entry: &Entry| {
            entry.commands.iter().flatten().any(|command| *command == name) && prompts
        };
        let generic = merged(&entries, GENERIC);
        let found = entries.iter().map(|entry| merged(&entries, &entry.name)).find(fits);
        let is_shell = match found.as_ref().and_then(|entry| entry.reads) {
            Some(reads) => reads == Reads::Shell,
            None => prompts && is_shell(&name) && arguments.iter().all(|word| is_option(word)),
        };
        let entry = found.map_or_else(|| generic.clone(), |entry| entry.or(&generic));
        Recipe { is_shell, ..entry.recipe() }
    }

    /// Returns the recipe with this name.
    #[must_use]
    pub fn named(&self, name: &str, system: &str) -> Recipe {
        let entries = self.entries_for(system, None);
        merged(&entries, name).or(&merged(&entries, GENERIC)).recipe()
    }

    /// Returns the agent CLI or shell to which an executable or script at this path belongs.
    #[must_use]
    pub fn recognise(&self, path: &str, system: &str) -> Option<Recognised> {
        let (name, path) = (name_of(path), path.replace('\\', "/"));
        let entries = self.entries_for(system, None);
        let fits = |entry: &Entry| {
            entry.commands.iter().flatten().any(|command| *command == name)
                || entry.programs.iter().flatten().any(|part| path.contains(part))
        };
        let entry = entries.iter().map(|entry| merged(&entries, &entry.name)).find(fits)?;
        match entry.reads {
            Some(Reads::Shell) => Some(Recognised::Shell),
            _ => entry.composer.map(|_| Recognised::Agent(entry.name)),
        }
    }

    fn entries_for(&self, system: &str, version: Option<&Version>) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| entry.is_for(system, version)).collect()
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+', '/'])
}

/// Merges the entries with this name into one.
fn merged(entries: &[&Entry], name: &str) -> Entry {
    let same = entries.iter().filter(|entry| entry.name == name).map(|entry| (*entry).clone());
    same.reduce(|first, next| first.or(&next)).unwrap_or_default()
}

impl Entry {
    fn is_for(&self, system: &str, version: Option<&Version>) -> bool {
        let systems = self.systems.as_ref();
        let above = |from: &Version| version.is_none_or(|version| version >= from);
        let below = |below: &Version| version.is_some_and(|version| version < below);
        systems.is_none_or(|all| all.iter().any(|listed| listed.as_str() == system))
            && self.from.as_ref().is_none_or(above)
            && self.below.as_ref().is_none_or(below)
    }

    /// Merges two entries. Keys that are not set in this entry have the values of `base`.
    fn or(self, base: &Self) -> Self {
        let base = base.clone();
        Self {
            name: self.name,
            commands: self.commands.or(base.commands),
            programs: self.programs.or(base.programs),
            systems: self.systems.or(base.systems),
            from: self.from.or(base.from),
            below: self.below.or(base.below),
            reads: self.reads.or(base.reads),
            transcript: self.transcript.or(base.transcript),
            turns: self.turns.or(base.turns),
            submit: self.submit.or(base.submit),
            line_feed_submits: self.line_feed_submits.or(base.line_feed_submits),
            quiet_ms: self.quiet_ms.or(base.quiet_ms),
            untouched_ms: self.untouched_ms.or(base.untouched_ms),
            start_ms: self.start_ms.or(base.start_ms),
            guard_ms: self.guard_ms.or(base.guard_ms),
            guard_ms_max: self.guard_ms_max.or(base.guard_ms_max),
            while_busy: self.while_busy.or(base.while_busy),
            wake_budget: self.wake_budget.or(base.wake_budget),
            raw_mode: self.raw_mode.or(base.raw_mode),
            environment: self.environment.or(base.environment),
            arguments: self.arguments.or(base.arguments),
            margin: self.margin.or(base.margin),
            counts_code_points: self.counts_code_points.or(base.counts_code_points),
            expands: self.expands.or(base.expands),
            pictures: self.pictures.or(base.pictures),
            composer: self.composer.or(base.composer),
            composer_end: self.composer_end.or(base.composer_end),
            shell_mode: self.shell_mode.or(base.shell_mode),
            ghosts: self.ghosts.or(base.ghosts),
            pasted: self.pasted.or(base.pasted),
            busy: self.busy.or(base.busy),
            busy_status: self.busy_status.or(base.busy_status),
            busy_footer: self.busy_footer.or(base.busy_footer),
            work_moves: self.work_moves.or(base.work_moves),
            dialog: self.dialog.or(base.dialog),
            output_after_question: self.output_after_question.or(base.output_after_question),
            output_after_entry: self.output_after_entry.or(base.output_after_entry),
        }
    }

    fn recipe(self) -> Recipe {
        Recipe {
            name: self.name,
            is_shell: self.reads == Some(Reads::Shell),
            reads: self.reads.unwrap_or(Reads::Text),
            submit: self.submit.unwrap_or_default(),
            line_feed_submits: self.line_feed_submits.unwrap_or_default(),
            quiet_ms: self.quiet_ms.unwrap_or_default(),
            untouched_ms: self.untouched_ms.unwrap_or_default(),
            start_ms: self.start_ms.unwrap_or_default(),
            guard_ms: self.guard_ms.unwrap_or_default(),
            guard_ms_max: self.guard_ms_max.unwrap_or_default(),
            transcript: self.transcript,
            turns: self.turns,
            while_busy: self.while_busy.unwrap_or_default(),
            wake_budget: self.wake_budget.unwrap_or_default(),
            raw_mode: self.raw_mode.unwrap_or_default(),
            environment: self.environment.unwrap_or_default(),
            arguments: self.arguments.unwrap_or_default(),
            margin: self.margin.unwrap_or_default(),
            counts_code_points: self.counts_code_points.unwrap_or_default(),
            work_moves: self.work_moves.unwrap_or_default(),
            expands: Expansions {
                words: self.expands.unwrap_or_default(),
                pictures: self.pictures.unwrap_or_default(),
            },
            patterns: Patterns {
                composer: self.composer.unwrap_or_default(),
                composer_end: self.composer_end,
                shell_mode: self.shell_mode.unwrap_or_default(),
                ghosts: self.ghosts.unwrap_or_default(),
                pasted: self.pasted.unwrap_or_default(),
                busy: self.busy.unwrap_or_default(),
                busy_status: self.busy_status.unwrap_or_default(),
                busy_footer: self.busy_footer.unwrap_or_default(),
                dialog: self.dialog.unwrap_or_default(),
                output_after_question: self.output_after_question.unwrap_or_default(),
                output_after_entry: self.output_after_entry.unwrap_or_default(),
            },
        }
    }

    /// Returns the entry with the words of `busy` in both parts of the screen where they may stand.
    fn with_regions(self) -> Self {
        let busy_status = self.busy_status.or_else(|| self.busy.clone());
        let busy_footer = self.busy_footer.or_else(|| self.busy.clone());
        Self { busy_status, busy_footer, ..self }
    }

    /// Checks that the recipe presses no key except Enter, and waits for a limited time.
    fn check(&self) -> Result<(), String> {
        let times = [
            ("quiet_ms", self.quiet_ms),
            ("untouched_ms", self.untouched_ms),
            ("start_ms", self.start_ms),
            ("guard_ms", self.guard_ms),
            ("guard_ms_max", self.guard_ms_max),
        ];
        if let Some((name, _)) = times.iter().find(|(_, ms)| ms.is_some_and(|ms| ms > MS_MAX)) {
            return Err(format!("{name} must be at most {MS_MAX}"));
        }
        if self.wake_budget == Some(0) {
            return Err("wake_budget must be at least 1".to_owned());
        }
        let submits = ["\r", "\n", "\r\n", "\x1b\r"];
        if self.submit.as_ref().is_some_and(|keys| !submits.contains(&keys.as_str())) {
            return Err("submit must be an Enter: \"\\r\", \"\\n\", \"\\r\\n\" or \"\\u001b\\r\""
                .to_owned());
        }
        let is_variable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        if self
            .environment
            .iter()
            .flatten()
            .any(|(name, value)| !is_variable(name) || value.contains('\0'))
        {
            return Err(
                "a variable's name must not be empty or contain = or NUL, nor its value NUL"
                    .to_owned(),
            );
        }
        if self.arguments.iter().flatten().any(|argument| argument.contains('\0')) {
            return Err("an argument must not contain NUL".to_owned());
        }
        if self.programs.iter().flatten().any(|part| part.len() < PROGRAM_PART_MIN) {
            return Err(format!(
                "a part of a program's path must have at least {PROGRAM_PART_MIN} bytes"
            ));
        }
        let Self { composer, shell_mode, pasted, busy, busy_status, busy_footer, dialog, .. } =
            self;
        let patterns = [composer, shell_mode, pasted, busy, busy_status, busy_footer, dialog];
        if patterns.into_iter().flatten().flatten().any(|text| text.trim().is_empty()) {
            return Err("a text that the program shows must not be blank".to_owned());
        }
        Ok(())
    }
}

/// Deserialises the name of a transcript's format.
fn format<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'static Format>, D::Error> {
    let name = String::deserialize(from)?;
    let unknown = || {
        let names: Vec<_> = agents::formats().map(|format| format.name).collect();
        D::Error::custom(format!("no transcript format {name:?}: write one of {names:?}"))
    };
    agents::format(&name).map(Some).ok_or_else(unknown)
}

fn read(text: &str) -> Result<Vec<Entry>, BookError> {
    let file: RecipeFile = toml::from_str(text).map_err(|error| BookError {
        span: error.span(),
        reason: error.message().replace('\n', " "),
    })?;
    let checked = file.recipe.into_iter().map(|entry| {
        let span = Some(entry.span());
        let entry = entry.into_inner().with_regions();
        entry.check().map_err(|reason| BookError { span, reason }).map(|()| entry)
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    fn choose(book: &Book, system: &str, version: Option<&str>) -> Recipe {
        let version = version.and_then(Version::parse);
        book.choose(&["agent".to_owned()], system, version.as_ref())
    }

    #[test]
    fn built_in_recipes_are_valid() {
        assert!(read(GENERAL).unwrap().len() > 2);
        for agent in agents::AGENTS {
            let entries = read(agent.recipe).unwrap();
            assert!(!entries.is_empty(), "{}", agent.name);
            assert!(entries.iter().all(|entry| entry.name == agent.name), "{}", agent.name);
        }
    }

    #[test]
    fn words_without_a_region_count_in_both_and_are_advised_against() {
        let text = "[[recipe]]\nname = 'claude'\nbusy = ['Hm']\n\
            [[recipe]]\nname = 'mine'\ncommands = ['agent']\nbusy = ['Hm']";
        let book = Book::with(text).unwrap();
        let [advice] = book.advice() else { panic!("{:?}", book.advice()) };
        assert!(advice.contains("\"claude\"") && advice.contains("busy_footer"), "{advice}");
        let patterns = book.named("claude", "linux").patterns;
        assert_eq!([patterns.busy_status, patterns.busy_footer], [["Hm"], ["Hm"]]);
        assert!(Book::default().advice().is_empty());
    }

    #[test]
    fn earlier_recipe_does_not_hide_an_agents_recipe() {
        let book = Book::default();
        for agent in agents::AGENTS {
            let name = agent.name;
            let merged = merged(&book.entries_for("linux", None), name);
            let (commands, programs) = (merged.commands.unwrap(), merged.programs);
            for command in &commands {
                assert_eq!(book.choose(slice::from_ref(command), "linux", None).name, name);
            }
            for path in commands.into_iter().chain(programs.into_iter().flatten()) {
                let recognised = book.recognise(&path, "linux");
                let expected = Recognised::Agent(name.to_owned());
                assert!(recognised.is_none_or(|program| program == expected), "{path}: {name}");
            }
        }
    }

    #[test]
    fn file_changes_known_recipes_and_adds_others() {
        let book = Book::with(
            "[[recipe]]\nname = 'claude'\nquiet_ms = 7\n[[recipe]]\nname = 'mine'\ncommands = ['claude-x', 'agent']\ncomposer = ['$ ']",
        );
        let book = book.unwrap();
        let claude = book.choose(&["claude".to_owned()], "linux", None);
        assert_eq!((claude.quiet_ms, claude.transcript), (7, agents::format("claude")));
        let mine = choose(&book, "linux", None);
        assert_eq!((mine.name.as_str(), mine.guard_ms, mine.transcript), ("mine", 150, None));
        let other = book.choose(&["other".to_owned()], "linux", None);
        assert_eq!((other.name.as_str(), other.quiet_ms), ("generic", 300));
    }

    #[test]
    fn recipe_may_be_limited_to_systems_and_versions() {
        let book = Book::with(
            "[[recipe]]\nname = 'old'\ncommands = ['agent']\nbelow = '2.0'\n\
             [[recipe]]\nname = 'windows'\ncommands = ['agent']\nsystems = ['windows']\nfrom = '2.5'\n\
             [[recipe]]\nname = 'new'\ncommands = ['agent']",
        );
        let book = book.unwrap();
        for (system, version, name) in [
            ("linux", None, "new"),
            ("linux", Some("1.99.3"), "old"),
            ("linux", Some("2.0"), "new"),
            ("windows", None, "windows"),
            ("windows", Some("2.4.9"), "new"),
            ("windows", Some("2.10.0-beta"), "windows"),
        ] {
            assert_eq!(choose(&book, system, version).name, name, "{system} {version:?}");
        }
    }

    #[test]
    fn entries_of_one_name_are_one_recipe() {
        let book = Book::with(
            "[[recipe]]\nname = 'claude'\nsystems = ['windows']\nquiet_ms = 1\n\
             [[recipe]]\nname = 'generic'\nbelow = '2.0'\nstart_ms = 2",
        );
        let book = book.unwrap();
        let claude = |system, version: &str| {
            let recipe =
                book.choose(&["claude".to_owned()], system, Version::parse(version).as_ref());
            (recipe.quiet_ms, recipe.start_ms, recipe.transcript)
        };
        let transcript = agents::format("claude");
        assert_eq!(claude("linux", "2.1"), (100, 2000, transcript));
        assert_eq!(claude("windows", "2.1"), (1, 2000, transcript));
        assert_eq!(claude("windows", "1.9"), (1, 2, transcript));
    }

    #[test]
    fn guard_time_is_longer_on_windows() {
        for name in agents::AGENTS.iter().map(|agent| agent.name).chain([GENERIC]) {
            let guard = |system| Book::default().named(name, system).guard_ms;
            assert!(guard("windows") >= 300 && guard("linux") < 200, "{name}");
        }
    }

    #[test]
    fn error_names_its_place() {
        for (text, words) in [
            ("[[recipe]]\nname = 'a'\nquiet = 3", "quiet"),
            ("[[recipe]]\ncommands = ['a']", "name"),
            ("[[recipe]]\nname = 'a'\nsubmit = \"\\u0003\"", "Enter"),
            ("[[recipe]]\nname = 'a'\nguard_ms = 60001", "60000"),
            ("[[recipe]]\nname = 'a'\nwake_budget = 0", "at least 1"),
            ("[[recipe]]\nname = 'a'\nbusy = [' ']", "blank"),
            ("[[recipe]]\nname = 'a'\nfrom = 'two'", "version"),
            (
                "[[recipe]]\nname = 'a'\ntranscript = 'two'",
                "\"claude\", \"codex\", \"gemini\", \"qwen\"",
            ),
            ("[[recipe]]\nname = 'a'\nexpands = ['@']", "backslash"),
            ("recipe = 3", "recipe"),
        ] {
            let error = Book::with(text).unwrap_err();
            let all = format!("{} {:?}", error.reason, error.span);
            assert!(error.span.is_some() && all.contains(words) || text == "recipe = 3", "{all}");
        }
    }
}
