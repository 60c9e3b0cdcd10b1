//! The book of all recipes: the recipes of recipes.toml and the built-in ones.

use super::{Reads, Recipe};
use crate::{
    agents,
    keyboard::{Operand, Recognised, is_shell, name_of, operand},
    transcript::Format,
};
use serde::{
    Deserialize, Deserializer,
    de::{
        Error as _,
        value::{self, StrDeserializer},
    },
};
use std::{mem, ops::Range};
use toml::{Table, Value};

/// The built-in recipes for programs other than agent CLIs.
const GENERAL: &str = include_str!("generic.toml");

/// The name of the recipe for all other commands.
const GENERIC: &str = "generic";

/// The maximum time in a recipe, in milliseconds.
const MS_MAX: i64 = 60_000;

/// The minimum length of a path part that identifies a program, in bytes. Shorter parts would match
/// too many paths.
const PROGRAM_PART_MIN: usize = 4;

/// The entries of all recipes, in order. The first recipe that matches a command is used. Entries
/// with the same name form one recipe; each key has its value from the first entry that sets it for
/// this system and version.
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

/// A file of recipes: its entries as written, or each as a recipe with its position.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "T: Deserialize<'de>")]
struct RecipeFile<T> {
    #[serde(default = "Vec::new")]
    recipe: Vec<T>,
}

/// An entry of a file.
#[derive(Clone, Debug)]
struct Entry {
    /// The keys that it sets.
    keys: Table,
    /// The recipe with these keys, and no others.
    recipe: Recipe,
}

/// The entries that apply to a system and a version.
struct Entries<'a>(Vec<&'a Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum System {
    Linux,
    Macos,
    Windows,
}

impl System {
    /// Returns the system with this name in [`std::env::consts::OS`].
    fn named(name: &str) -> Option<Self> {
        Self::deserialize(StrDeserializer::<value::Error>::new(name)).ok()
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
        let all = Entries(entries.iter().collect());
        let advice = entries[..own].iter().filter(|entry| entry.keys.contains_key("busy"));
        let advice = advice.map(|entry| &entry.recipe.name);
        let advice = advice.filter(|name| all.with(name, "composer").is_some()).map(|name| {
            format!(
                "the recipe {name:?} has busy, which counts above and below the input line: write \
                 busy_status or busy_footer, whichever is meant"
            )
        });
        let advice = advice.collect();
        Ok(Self { entries, advice })
    }

    /// Returns sentences about keys in the file that still work but have better replacements.
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
        let found = entries.find(|recipe| prompts && entries.has_command(recipe, &name));
        let reads = found.and_then(|recipe| entries.with(recipe, "reads"));
        let is_shell = match reads {
            Some(entry) => entry.reads == Reads::Shell,
            None => prompts && is_shell(&name) && arguments.iter().all(|word| is_option(word)),
        };
        Recipe { is_shell, ..entries.recipe(found.unwrap_or(GENERIC)) }
    }

    /// Returns the recipe with this name.
    #[must_use]
    pub fn named(&self, name: &str, system: &str) -> Recipe {
        self.entries_for(system, None).recipe(name)
    }

    /// Returns the agent CLI or shell of an executable or script at this path.
    #[must_use]
    pub fn recognise(&self, path: &str, system: &str) -> Option<Recognised> {
        let (name, path) = (name_of(path), path.replace('\\', "/"));
        let entries = self.entries_for(system, None);
        let has_part = |entry: &Recipe| entry.programs.iter().any(|part| path.contains(part));
        let recipe = entries.find(|recipe| {
            entries.has_command(recipe, &name)
                || entries.with(recipe, "programs").is_some_and(has_part)
        })?;
        match entries.with(recipe, "reads").map(|entry| entry.reads) {
            Some(Reads::Shell) => Some(Recognised::Shell),
            _ => entries.with(recipe, "composer").map(|_| Recognised::Agent(recipe.to_owned())),
        }
    }

    fn entries_for(&self, system: &str, version: Option<&Version>) -> Entries<'_> {
        Entries(self.entries.iter().filter(|entry| entry.is_for(system, version)).collect())
    }
}

impl<'a> Entries<'a> {
    /// Returns the name of the first recipe that `fits`.
    fn find(&self, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
        self.0.iter().map(|entry| &*entry.recipe.name).find(|name| fits(name))
    }

    /// Returns the entry that sets a key of the recipe with this name.
    fn with(&self, name: &str, key: &str) -> Option<&'a Recipe> {
        let mut same = self.0.iter().filter(|entry| entry.recipe.name == name);
        same.find(|entry| entry.keys.contains_key(key)).map(|entry| &entry.recipe)
    }

    fn has_command(&self, name: &str, command: &str) -> bool {
        let entry = self.with(name, "commands");
        entry.is_some_and(|entry| entry.commands.iter().any(|known| known == command))
    }

    /// Merges the entries with this name into one recipe. Keys that none of them sets come from the
    /// generic recipe.
    fn recipe(&self, name: &str) -> Recipe {
        let mut keys = Table::new();
        for name in [name, GENERIC] {
            let same = self.0.iter().filter(|entry| entry.recipe.name == name);
            for (key, value) in same.flat_map(|entry| &entry.keys) {
                keys.entry(key).or_insert_with(|| value.clone());
            }
        }
        let mut recipe: Recipe = keys.try_into().expect("its entries are recipes, too");
        recipe.is_shell = recipe.reads == Reads::Shell;
        recipe.expands.pictures = mem::take(&mut recipe.pictures);
        recipe
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+', '/'])
}

impl Entry {
    fn is_for(&self, system: &str, version: Option<&Version>) -> bool {
        let Recipe { systems, from, below, .. } = &self.recipe;
        let is_from = |from: &Version| version.is_none_or(|version| version >= from);
        let is_below = |below: &Version| version.is_some_and(|version| version < below);
        let is_listed =
            |all: &Vec<System>| System::named(system).is_some_and(|it| all.contains(&it));
        systems.as_ref().is_none_or(is_listed)
            && from.as_ref().is_none_or(is_from)
            && below.as_ref().is_none_or(is_below)
    }

    /// Checks that the recipe presses no key except Enter, and waits for a limited time.
    fn check(&self) -> Result<(), String> {
        let Self { keys, recipe } = self;
        if !keys.contains_key("name") {
            return Err("missing field `name`".to_owned());
        }
        let mut times = ["quiet_ms", "untouched_ms", "start_ms", "guard_ms", "guard_ms_max"].iter();
        let ms = |name: &str| keys.get(name).and_then(Value::as_integer);
        if let Some(name) = times.find(|name| ms(name) > Some(MS_MAX)) {
            return Err(format!("{name} must be at most {MS_MAX}"));
        }
        if keys.contains_key("wake_budget") && recipe.wake_budget == 0 {
            return Err("wake_budget must be at least 1".to_owned());
        }
        let submits = ["\r", "\n", "\r\n", "\x1b\r"];
        if keys.contains_key("submit") && !submits.contains(&&*recipe.submit) {
            return Err("submit must be an Enter: \"\\r\", \"\\n\", \"\\r\\n\" or \"\\u001b\\r\""
                .to_owned());
        }
        let is_variable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let mut variables = recipe.environment.iter();
        if variables.any(|(name, value)| !is_variable(name) || value.contains('\0')) {
            return Err(
                "a variable's name must not be empty or contain = or NUL, nor its value NUL"
                    .to_owned(),
            );
        }
        if recipe.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err("an argument must not contain NUL".to_owned());
        }
        if recipe.programs.iter().any(|part| part.len() < PROGRAM_PART_MIN) {
            return Err(format!(
                "a part of a program's path must have at least {PROGRAM_PART_MIN} bytes"
            ));
        }
        let Recipe { composer, shell_mode, pasted, busy, busy_status, busy_footer, dialog, .. } =
            recipe;
        let patterns = [composer, shell_mode, pasted, busy, busy_status, busy_footer, dialog];
        if patterns.into_iter().flatten().any(|text| text.trim().is_empty()) {
            return Err("a text that the program shows must not be blank".to_owned());
        }
        Ok(())
    }
}

/// Deserialises the name of a transcript's format.
pub(super) fn format<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<&'static Format>, D::Error> {
    let name = String::deserialize(from)?;
    let unknown = || {
        let names: Vec<_> = agents::formats().map(|format| format.name).collect();
        D::Error::custom(format!("no transcript format {name:?}: write one of {names:?}"))
    };
    agents::format(&name).map(Some).ok_or_else(unknown)
}

fn read(text: &str) -> Result<Vec<Entry>, BookError> {
    let error = |error: toml::de::Error| BookError {
        span: error.span(),
        reason: error.message().replace('\n', " "),
    };
    let recipes: RecipeFile<toml::Spanned<Recipe>> = toml::from_str(text).map_err(error)?;
    let entries: RecipeFile<Table> = toml::from_str(text).map_err(error)?;
    let checked = entries.recipe.into_iter().zip(recipes.recipe).map(|(mut keys, recipe)| {
        // Words without a region count in both.
        if let Some(busy) = keys.get("busy").cloned() {
            keys.entry("busy_status").or_insert_with(|| busy.clone());
            keys.entry("busy_footer").or_insert(busy);
        }
        let span = Some(recipe.span());
        let entry = Entry { keys, recipe: recipe.into_inner() };
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
            assert!(entries.iter().all(|entry| entry.recipe.name == agent.name), "{}", agent.name);
        }
    }

    #[test]
    fn words_without_a_region_count_in_both_and_are_advised_against() {
        let text = "[[recipe]]\nname = 'claude'\nbusy = ['Hm']\n\
            [[recipe]]\nname = 'mine'\ncommands = ['agent']\nbusy = ['Hm']";
        let book = Book::with(text).unwrap();
        let [advice] = book.advice() else { panic!("{:?}", book.advice()) };
        assert!(advice.contains("\"claude\"") && advice.contains("busy_footer"), "{advice}");
        let claude = book.named("claude", "linux");
        assert_eq!([claude.busy_status, claude.busy_footer], [["Hm"], ["Hm"]]);
        assert!(Book::default().advice().is_empty());
    }

    #[test]
    fn earlier_recipe_does_not_hide_an_agents_recipe() {
        let book = Book::default();
        for agent in agents::AGENTS {
            let name = agent.name;
            let Recipe { commands, programs, .. } = book.named(name, "linux");
            for command in &commands {
                assert_eq!(book.choose(slice::from_ref(command), "linux", None).name, name);
            }
            for path in commands.into_iter().chain(programs) {
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
