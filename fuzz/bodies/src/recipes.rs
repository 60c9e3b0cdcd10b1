//! Fuzzing of recipes.toml. Arbitrary text must be read, or refused with a sentence that names the
//! line. No recipe may press another key than Enter, or wait for an unlimited time.

use agent_relay::config::recipes::parse;
use std::path::Path;
use terminal::{
    keyboard::Reader,
    obstacle::Obstacle,
    recipe::{Book, Form, Recipe, Spot, Typed, Version},
};

/// The longest time in a recipe, in milliseconds.
const MS_MAX: u64 = 60_000;

const COMMANDS: [&str; 8] =
    ["claude", "/usr/bin/codex", "bash -l", "python3 -i", "fish", "agent", "C:\\x\\AGY.EXE", ""];

/// Reads the bytes as recipes.toml, and checks its recipes for some commands and screens.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match parse(Path::new("recipes.toml"), text) {
        Ok(book) => COMMANDS.iter().for_each(|command| check_choices(&book, command, text)),
        Err(error) => {
            let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
            assert!(!error.reason.is_empty() && error.to_string().starts_with("recipes.toml"));
            assert!(!error.reason.contains('\n'), "{error}");
        }
    }
}

fn check_choices(book: &Book, command: &str, text: &str) {
    let command: Vec<_> = command.split(' ').map(str::to_owned).collect();
    for system in ["linux", "macos", "windows", "plan9"] {
        for version in [None, Version::parse("0"), Version::parse("2.1.197")] {
            let recipe = book.choose(&command, system, version.as_ref());
            let times = [recipe.quiet_ms, recipe.untouched_ms, recipe.start_ms];
            let times = times.into_iter().chain([recipe.guard_ms, recipe.guard_ms_max]);
            assert!(times.max() <= Some(MS_MAX), "{recipe:?}");
            assert!(["\r", "\n", "\r\n", "\x1b\r"].contains(&&*recipe.submit), "{recipe:?}");
            check_recipe(&recipe, text);
        }
    }
}

/// Checks a recipe's decisions about screens that show parts of the file.
fn check_recipe(recipe: &Recipe, text: &str) {
    for line in text.split(['"', '\n']).take(16) {
        let rows = vec![line.to_owned(), text.to_owned()];
        let spot = Spot { before: line.to_owned(), at: ' ', rows, ..Spot::default() };
        for alternate in [false, true] {
            let spot = Spot { alternate, bracketed_paste: alternate, ..spot.clone() };
            let asking = Spot { yes_or_no: true, ..spot.clone() };
            let agent = Reader::Agent(recipe.name.clone());
            let typed = Typed { frames: vec!["a"], own: Some("a") };
            for reader in [agent, Reader::Shell, Reader::Accepted] {
                let shown = recipe.read(&spot, &reader, &[], &typed);
                let is_plain = shown.form == Ok(Form::Plain);
                assert!(!is_plain || reader != Reader::Shell, "{recipe:?} {spot:?}");
                assert!(!shown.asks || shown.form.is_err(), "{recipe:?} {spot:?}");
                let asked = recipe.read(&asking, &reader, &[], &typed);
                assert!(!asked.holds_own && (asked.form.is_err() || recipe.shows_composer()));
            }
            let barred = Reader::Barred(Obstacle::Shell, None);
            assert_eq!(
                recipe.read(&spot, &barred, &[], &Typed::default()).form,
                Err(Obstacle::Shell)
            );
        }
    }
}
