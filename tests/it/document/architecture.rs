//! ARCHITECTURE.md, compared with the code: paths, crates, threads. Its table of permissions is
//! checked by `tidy`.

use super::{part, ticked};
use crate::tidy::{SOURCES, Source};
use std::{collections::BTreeSet, fs, path::Path};

const ARCHITECTURE: &str = include_str!("../../../ARCHITECTURE.md");

/// Checks paths in backticks. `greet` and `FEATURE` stand for names that a reader chooses.
#[test]
fn named_paths_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src/", "crates/", "platform/", "tests/", "fuzz/", "ci/", "docs/"];
    let paths: Vec<_> = ARCHITECTURE
        .split("```")
        .step_by(2)
        .flat_map(str::lines)
        .flat_map(ticked)
        .filter(|path| folders.iter().any(|folder| path.starts_with(folder)))
        .filter(|path| !path.contains("greet") && !path.contains("FEATURE") && !path.contains(' '))
        .collect();
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "there is no {path}");
    }
}

#[test]
fn code_map_has_every_crate_and_folder_of_the_program() {
    let code_map = part(ARCHITECTURE, "## ", "Code map");
    for folder in ["src", "crates"] {
        let inside = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(inside).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_folder = entry.file_type().unwrap().is_dir();
            assert!(!is_folder || code_map.contains(&format!("`{folder}/{name}/")), "{name}");
        }
    }
}

#[test]
fn threads_are_those_of_the_waiting_table() {
    let table = part(ARCHITECTURE, "## ", "Who waits for whom");
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let listed: BTreeSet<_> = cells.flat_map(ticked).map(str::to_owned).collect();
    assert_eq!(SOURCES.iter().flat_map(thread_names).collect::<BTreeSet<_>>(), listed);

    let names = |code| thread_names(&Source::new("src/a.rs", code));
    let builder = r#"thread::Builder::new().name(format!("reader-{id}")).spawn(g)"#;
    assert_eq!(names(builder), ["reader-*"]);
    assert_eq!(names(r#"spawn("y", || g("z")); named("agent");"#), ["y"]);
    assert_eq!(names(r#"#[cfg(test)] mod tests { fn f() { spawn("y"); } }"#), [""; 0]);
}

/// The names that a file gives to threads. `*` stands for a part that is filled in at run time.
fn thread_names(source: &Source) -> Vec<String> {
    // In files without `thread::Builder`, `name` and `named` do not name threads.
    let builds = source.paths.iter().any(|path| path.has("thread::Builder"));
    let calls = (0..source.tokens.len()).filter(|&at| {
        let names = ["spawn", "name", "named"].iter().take(if builds { 3 } else { 1 });
        !source.tokens[at].is_test && names.copied().any(|name| name == source.at(at))
    });
    let arguments = calls.filter(|at| source.at(at + 1) == "(").map(|at| at + 2);
    let literals =
        arguments.map(|at| source.at(if source.at(at) == "format" { at + 3 } else { at }));
    let named = |literal: &str| {
        let parts = literal.trim_matches('"').split(['{', '}']).enumerate();
        parts.map(|(number, part)| if number % 2 == 0 { part } else { "*" }).collect()
    };
    literals.filter(|literal| literal.starts_with('"')).map(named).collect()
}
