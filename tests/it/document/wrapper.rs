//! docs/WRAPPER.md and docs/AGENTS.md compared with the code: recipes, examples, and the statements
//! of documents and CI about agent CLIs.

use super::{CONFIGURATION, part, rows, ticked};
use serde::Deserialize;
use std::{collections::BTreeSet, path::Path};
use terminal::{
    agents::{self, AGENTS, Agent},
    obstacle::Obstacle,
    recipe::Book,
};

const DOCUMENT: &str = include_str!("../../../docs/WRAPPER.md");
const GUIDE: &str = include_str!("../../../docs/GUIDE.md");
const AGENTS_PAGE: &str = include_str!("../../../docs/AGENTS.md");
const GENERAL: &str = include_str!("../../../crates/terminal/src/recipe/generic.toml");

/// The parts that each section about an agent CLI has, in this order.
const PARTS: [&str; 4] = ["What it gets", "What it can do", "What is known", "Versions tried"];

#[test]
fn variables_of_agents_are_documented() {
    let homes = agents::formats().map(|format| format.home.variable).collect::<Vec<_>>();
    let of_commands = AGENTS.iter().filter_map(|agent| agent.command_variable).collect();
    for variables in [homes, of_commands] {
        let row = format!("\n| `{}` |", variables.join("`, `"));
        assert!(CONFIGURATION.contains(&row), "{row}");
    }
}

/// Checks that every agent CLI has tests in tests/agents, or that its recipe says that CI does not
/// try it.
#[test]
fn agents_are_tried_in_ci_or_say_that_they_are_not() {
    const INSTALLS: &str = include_str!("../../../ci/agents");
    const TESTS: &str = include_str!("../../agents/cli.rs");
    let lists = INSTALLS.split("clis=(").chain(INSTALLS.split("clis+=(")).skip(1);
    let installed: Vec<_> = lists
        .filter_map(|rest| rest.split_once(')'))
        .flat_map(|(list, _)| list.split(' '))
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents");
    for Agent { name, recipe, .. } in AGENTS {
        let is_installed = installed.contains(name);
        let is_listed = TESTS.contains(&format!("=> \"{name}\""));
        let has_tests = is_listed || folder.join(format!("{name}.rs")).exists();
        let is_untried = recipe.contains("tried by hand") || recipe.contains("never tried");
        assert_eq!((is_installed, has_tests), (!is_untried, !is_untried), "{name}");
    }
}

#[test]
fn recipes_are_documented_with_the_tried_version() {
    #[derive(Deserialize)]
    struct Page {
        recipe: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let recipes = AGENTS.iter().map(|agent| agent.recipe).chain([GENERAL]);
    let recipes = recipes.collect::<Vec<_>>().join("\n");
    let page: Page = toml::from_str(&recipes).unwrap();
    let names: BTreeSet<_> = page.recipe.iter().map(|recipe| recipe.name.as_str()).collect();
    let table: Vec<_> = rows(part(AGENTS_PAGE, "## ", "At a glance")).collect();
    let table: Vec<_> = table.into_iter().filter(|row| row.len() == 8).collect();
    let documented: BTreeSet<_> = table.iter().flat_map(|row| ticked(row[0])).collect();
    assert_eq!(documented, names);
    // The comment above a recipe and the table agree.
    for row in &table {
        let name = ticked(row[0])[0];
        let (before, _) =
            recipes.split_once(&format!("name = \"{name}\"\ncommands")).unwrap_or_default();
        let comment = before.rsplit("\n\n").next().unwrap_or_default();
        assert_eq!(row[2].starts_with("untested"), comment.contains("never tried"), "{name}");
    }
}

#[test]
fn sections_of_agents_have_the_same_parts() {
    let sections: Vec<_> = AGENTS_PAGE.split("\n## ").skip(1).collect();
    let [_, of_agents @ .., _] = &*sections else { panic!("{sections:?}") };
    assert_eq!(of_agents.len(), AGENTS.len() + 2, "each agent CLI, shells, and other programs");
    for section in of_agents {
        let starts = section.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
        let parts: Vec<_> = starts.map(|(name, _)| name).collect();
        assert_eq!(parts, PARTS, "{section}");
    }
}

#[test]
fn shown_reason_is_that_of_the_code() {
    let reason = Obstacle::HalfTyped.words("Ann", None);
    for document in [GUIDE, include_str!("../../../README.md")] {
        assert!(document.replace('\r', "").contains(&format!("\n    {reason}\n")), "{reason}");
    }
}

#[test]
fn documented_recipes_are_valid() {
    let (_, example) = DOCUMENT.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let book = Book::with(example).unwrap();
    let choose = |command: &str, system| book.choose(&[command.to_owned()], system, None);
    assert_eq!(choose("gemini", "windows").guard_ms, 600);
    assert_eq!(choose("gemini", "linux").guard_ms, 150);
    assert_eq!(choose("aider", "linux").submit, "\u{1b}\r");
    assert_eq!(choose("my-agent", "macos").name, "my-agent");
}
