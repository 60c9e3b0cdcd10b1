//! ARCHITECTURE.md, compared with the code: paths, crates, threads. Its table of permissions is
//! checked by `tidy`.

use super::{part, ticked};
use crate::tidy::{SOURCES, Source};
use std::{fs, path::Path};

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
fn crates_and_folders_of_the_program_are_listed() {
    let listed = part(ARCHITECTURE, "## ", "Crates");
    for folder in ["src", "crates"] {
        let inside = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(inside).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let is_folder = entry.file_type().unwrap().is_dir();
            assert!(!is_folder || listed.contains(&format!("`{folder}/{name}/")), "{name}");
        }
    }
}

/// Checks that a newcomer can read the page at once.
#[test]
fn page_and_glossary_are_short() {
    assert!(ARCHITECTURE.split_whitespace().count() <= 2_500);
    let glossary = part(ARCHITECTURE, "## ", "Glossary");
    assert!(glossary.lines().filter(|line| line.starts_with("- **")).count() <= 25);
}

/// Checks that every thread of the program has a name, and above its start a comment that says what
/// the thread waits for: `// Waits for: …`.
#[test]
fn threads_say_what_they_wait_for() {
    let silent: Vec<_> = SOURCES.iter().flat_map(silent_threads).collect();
    assert!(
        silent.is_empty(),
        "no `// Waits for: …` above the start of a named thread: {silent:#?}"
    );
    let names = SOURCES.iter().flat_map(thread_names).count();
    assert!(names > 50, "only {names} threads have a name");

    let silent = |code| silent_threads(&Source::new("src/a.rs", code)).len();
    assert_eq!(silent("fn f() {\n // Waits for: keys.\n // Not joined.\n spawn(\"y\", g);\n}"), 0);
    assert_eq!(silent("fn f() {\n // Waits for: keys.\n let a =\n spawn(\"y\", g);\n}"), 0);
    assert_eq!(
        silent("fn f() {\n // Waits for: keys.\n spawn(\"y\", g);\n spawn(\"z\", g);\n}"),
        1
    );
    assert_eq!(silent("fn f() {\n // Waits for:\n spawn(\"y\", g);\n}"), 1);
    assert_eq!(silent("fn f() {\n // Waits for: keys.\n\n spawn(\"y\", g);\n}"), 1);
    assert_eq!(silent("use std::thread; fn f() { thread::spawn(g); }"), 1);
    assert_eq!(silent("#[cfg(test)] mod tests { fn f() { spawn(\"y\"); thread::spawn(g); } }"), 0);

    let names = |code| {
        let source = Source::new("src/a.rs", code);
        thread_names(&source).map(|at| source.at(at).to_owned()).collect::<Vec<_>>()
    };
    let builder = r#"thread::Builder::new().name(format!("reader-{id}")).spawn(g)"#;
    assert_eq!(names(builder), [r#""reader-{id}""#]);
    assert_eq!(names(r#"spawn("y", || g("z")); named("agent");"#), [r#""y""#]);
}

/// The starts of threads without a name or without a comment, each with its line.
fn silent_threads(source: &Source) -> Vec<String> {
    let unnamed = source.paths.iter().filter(|path| !path.is_test && path.has("thread::spawn"));
    let unnamed = unnamed.map(|path| path.line);
    let silent = thread_names(source).filter(|&at| !is_explained(source, at));
    let silent = silent.map(|at| source.tokens[at].line);
    unnamed.chain(silent).map(|line| format!("{}:{line}", source.path)).collect()
}

/// Whether the comment directly above the statement of a token says what a thread waits for.
fn is_explained(source: &Source, token: usize) -> bool {
    let is_end = |at: &usize| matches!(source.at(*at), ";" | "{" | "}");
    let first = (0..token).rev().find(is_end).map_or(0, |end| end + 1);
    let above = source.text.lines().take(source.tokens[first].line - 1).collect::<Vec<_>>();
    let comments = above.iter().rev().map(|line| line.trim());
    let mut comments = comments.take_while(|line| line.starts_with("//"));
    comments.any(|line| line.strip_prefix("// Waits for: ").is_some_and(|text| text.len() > 3))
}

/// The literals that name threads outside tests, by their tokens.
fn thread_names(source: &Source) -> impl Iterator<Item = usize> {
    // In files without `thread::Builder`, `name` does not name threads.
    let builds = source.paths.iter().any(|path| path.has("thread::Builder"));
    let calls = (0..source.tokens.len()).filter(move |&at| {
        let names_thread = source.at(at) == "spawn" || builds && source.at(at) == "name";
        names_thread && source.at(at + 1) == "(" && !source.tokens[at].is_test
    });
    let literals = calls.map(|at| if source.at(at + 2) == "format" { at + 5 } else { at + 2 });
    literals.filter(|&at| source.at(at).starts_with('"'))
}
