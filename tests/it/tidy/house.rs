//! The house as a whole: its files, and the tables of ARCHITECTURE.md that say who may do what.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::source::Source;

/// What the rules are checked against.
pub(super) struct House {
    /// Layer to the layers that it may use.
    pub(super) layers: BTreeMap<String, BTreeSet<String>>,
    /// Permission to the layers that have it.
    pub(super) permissions: BTreeMap<String, BTreeSet<String>>,
    /// The threads of the waiting table, by the names that they have in the code.
    pub(super) threads: BTreeSet<String>,
}

/// The sections of ARCHITECTURE.md that have to be there, in their order.
const SECTIONS: [&str; 6] =
    ["Picture", "Code map", "Invariants", "Who waits for whom", "Habits", "Glossary"];

impl House {
    /// Reads the blocks fenced as `layers` and `permissions`, and the waiting table.
    pub(super) fn new(architecture: &str) -> Self {
        Self {
            layers: table(architecture, "layers"),
            permissions: table(architecture, "permissions"),
            threads: threads(architecture),
        }
    }

    /// The house of this repository.
    pub(super) fn ours() -> Self {
        Self::new(&architecture())
    }

    /// Whether `layer` has `permission`. One that no line of the table grants is nobody's.
    pub(super) fn permits(&self, permission: &str, layer: &str) -> bool {
        self.permissions.get(permission).is_some_and(|layers| layers.contains(layer))
    }
}

/// The words in backticks in the first column of the waiting table.
fn threads(text: &str) -> BTreeSet<String> {
    let rows = section(text, "Who waits for whom").filter(|line| line.starts_with("| "));
    let firsts = rows.filter_map(|row| row.split('|').nth(1));
    firsts.flat_map(|first| first.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let heading = format!("## {name}");
    let after = text.lines().skip_while(move |line| *line != heading).skip(1);
    after.take_while(|line| !line.starts_with("## "))
}

/// What ARCHITECTURE.md has out of its order, or does not have: sections, and layers in its code map.
pub(super) fn out_of_order(architecture: &str) -> Vec<String> {
    let headings: Vec<_> =
        architecture.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let known: Vec<_> = headings.into_iter().filter(|name| SECTIONS.contains(name)).collect();
    let mut found = Vec::new();
    if known != SECTIONS {
        found.push(format!("its sections are {known:?}; instead: {SECTIONS:?}"));
    }
    let map: String = section(architecture, "Code map").collect();
    let layers = table(architecture, "layers");
    let here = |layer: &str| layer == "platform" || root().join("src").join(layer).exists();
    let here = |layer: &&String| here(layer) || here(&format!("{layer}.rs"));
    let unmapped = layers.keys().filter(here).filter(|layer| {
        let place =
            if *layer == "platform" { "platform".to_owned() } else { format!("src/{layer}") };
        !map.contains(&format!("`{place}/`")) && !map.contains(&format!("`{place}.rs`"))
    });
    found.extend(unmapped.map(|layer| format!("its code map leaves out the layer `{layer}`")));
    found
}

/// ARCHITECTURE.md of this repository.
pub(super) fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md with the tables of layers and permissions")
}

fn table(text: &str, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let fence = format!("```{name}");
    let lines =
        text.lines().skip_while(|line| *line != fence).skip(1).take_while(|line| *line != "```");
    let rows: BTreeMap<_, _> = lines
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?, words.filter(|word| word != "-").collect()))
        })
        .collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md has no block fenced as `{fence}`");
    rows
}

/// `src/router/outbox.rs` is in `router`, `src/bin/x.rs` in `bin`, all of `platform/` in
/// `platform`, `build.rs` in `build`. `src/lib.rs` and everything under `tests/` is in none.
pub(super) fn layer(path: &str) -> Option<&str> {
    if path.starts_with("platform/") {
        return Some("platform");
    }
    if path == "build.rs" {
        return Some("build");
    }
    let inside = path.strip_prefix("src/")?;
    let layer = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    (layer != "lib").then_some(layer)
}

/// Every Rust file of the repository.
pub(super) fn sources() -> Vec<Source> {
    let root = root();
    let mut sources: Vec<_> = files(&root)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a Rust file is readable UTF-8");
            Source::new(&relative(&root, &path), &text)
        })
        .collect();
    let tests: Vec<_> = sources.iter().flat_map(Source::test_files).collect();
    let is_test = |path: &str| {
        tests
            .iter()
            .any(|test| path == format!("{test}.rs") || path.starts_with(&format!("{test}/")))
    };
    for source in sources.iter_mut().filter(|source| is_test(&source.path)) {
        source.tokens.iter_mut().for_each(|token| token.test = true);
    }
    sources
}

/// The recordings and golden files that tests read.
pub(super) fn test_data() -> Vec<String> {
    let root = root();
    let folders = [root.join("tests/data"), root.join("platform/tests/data")];
    let found = folders.iter().filter(|folder| folder.exists()).flat_map(|folder| files(folder));
    found.map(|path| relative(&root, &path)).collect()
}

/// Every file below a folder but for what is built, fetched or hidden; in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository is readable") {
            let path = entry.expect("a folder of the repository is readable").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(root: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(root).expect("found below the root").iter();
    parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
