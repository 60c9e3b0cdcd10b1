//! The repository's files, and the tables of ARCHITECTURE.md that say which code may do what.

use super::source::Source;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::LazyLock,
};
use walkdir::WalkDir;

/// The tables of ARCHITECTURE.md, against which the rules are checked.
pub(super) struct Architecture {
    /// Each layer with the layers that it may use.
    pub(super) layers: BTreeMap<String, BTreeSet<String>>,
    /// Each permission with the layers and modules that have it.
    permissions: BTreeMap<String, BTreeSet<String>>,
    /// Thread names in the waiting table.
    pub(super) threads: BTreeSet<String>,
    pub(super) code_map: String,
}

impl Architecture {
    pub(super) fn new(text: &str) -> Self {
        let section = |name: &str| {
            let (_, after) = text.split_once(&format!("## {name}\n")).unwrap_or_default();
            after.split("\n## ").next().unwrap_or_default().to_owned()
        };
        let waiting = section("Who waits for whom");
        let rows = waiting.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
        let threads = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_owned);
        Self {
            layers: table(text, "layers"),
            permissions: table(text, "permissions"),
            threads: threads.collect(),
            code_map: section("Code map"),
        }
    }

    /// The tables of this repository.
    pub(super) fn load() -> Self {
        Self::new(&fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md"))
    }

    /// Whether the layer or a module of a file has the permission.
    pub(super) fn permits(&self, permission: &str, path: &str) -> bool {
        let inside = path.strip_prefix("src/").unwrap_or(path);
        self.permissions.get(permission).into_iter().flatten().any(|name| {
            let rest = inside.strip_prefix(&**name);
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    }
}

/// The block that is fenced as `name`: the first word of each line with the others.
fn table(text: &str, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let fence = format!("```{name}\n");
    let (_, after) = text.split_once(&fence).unwrap_or_else(|| panic!("no block `{fence}`"));
    let lines = after.lines().take_while(|line| *line != "```");
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.filter(|word| word != "-").collect()))
    };
    lines.filter_map(row).collect()
}

/// The layer of a file: `src/router/mail.rs` is in `router`, `build.rs` in `build`, all of
/// `platform/` in `platform`. `src/lib.rs` and tests are in none.
pub(super) fn layer(path: &str) -> Option<&str> {
    if path.starts_with("platform/") || path == "build.rs" {
        return path.split(['/', '.']).next();
    }
    path.strip_prefix("src/")?.split(['/', '.']).next().filter(|layer| *layer != "lib")
}

/// Every Rust file of the repository. Modules that are declared under `#[cfg(test)]` are tests.
pub(super) static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let rust = files("").into_iter().filter(|path| path.ends_with(".rs"));
    let read = |path: String| {
        Source::new(&path, &fs::read_to_string(root().join(&path)).expect("a readable file"))
    };
    let mut sources: Vec<_> = rust.map(read).collect();
    let declared = sources.iter().flat_map(|source| {
        let tests = source.after("mod").filter(|(at, _)| source.tokens[*at].is_test);
        tests.map(|(_, name)| [source.module(), vec![name.to_owned()]].concat())
    });
    let tests: BTreeSet<_> = declared.collect();
    for source in &mut sources {
        let module = source.module();
        if tests.iter().any(|test| module.starts_with(test)) {
            source.tokens.iter_mut().chain(&mut source.paths).for_each(|it| it.is_test = true);
        }
    }
    sources
});

/// Every file below a folder but for what is built or hidden, relative to the root, in order.
pub(super) fn files(folder: &str) -> Vec<String> {
    let is_shown = |name: &str| !name.starts_with('.') && name != "target";
    let walk = WalkDir::new(root().join(folder)).sort_by_file_name().into_iter();
    let shown =
        walk.filter_entry(|it| it.depth() == 0 || it.file_name().to_str().is_some_and(is_shown));
    let files =
        shown.map(|entry| entry.expect("a readable folder")).filter(|it| it.file_type().is_file());
    let relative = |path: &std::path::Path| {
        let parts = path.strip_prefix(root()).expect("found below the root").iter();
        parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    files.map(|entry| relative(entry.path())).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
