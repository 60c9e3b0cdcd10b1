//! The repository's files, and the table of ARCHITECTURE.md that says which code may do what.

use super::source::Source;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::LazyLock,
};
use walkdir::{DirEntry, WalkDir};

type Table = BTreeMap<String, BTreeSet<String>>;

/// Each permission with the crates and modules that have it.
static PERMISSIONS: LazyLock<Table> = LazyLock::new(|| table("permissions"));

/// The block of ARCHITECTURE.md that is fenced as `name`: the first word of each line, with the
/// line's other words.
fn table(name: &str) -> Table {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, after) = text.split_once(&format!("```{name}\n")).expect("the block");
    let lines = after.lines().take_while(|line| *line != "```");
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.filter(|word| word != "-").collect()))
    };
    lines.filter_map(row).collect()
}

/// Whether the crate or a module of a file has the permission. The folders of `src/` count as
/// crates here: `crates/router/src/mail.rs` is in `router/mail`, `src/cli/up.rs` in `cli/up`.
pub(super) fn permits(permission: &str, path: &str) -> bool {
    let inside = match path.strip_prefix("crates/") {
        Some(inside) => inside.replacen("/src/", "/", 1),
        None => path.strip_prefix("src/").unwrap_or(path).to_owned(),
    };
    PERMISSIONS[permission].iter().any(|name| {
        let rest = inside.strip_prefix(&**name);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

/// Every Rust file of the repository. Modules that are declared under `#[cfg(test)]` count as
/// tests.
pub(crate) static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let rust = files("").into_iter().filter(|path| path.ends_with(".rs"));
    let text = |path: &str| fs::read_to_string(root().join(path)).expect("a readable file");
    let mut sources: Vec<_> = rust.map(|path| Source::new(&path, &text(&path))).collect();
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

/// Every file below a folder, without hidden files and build output. Paths are sorted, and relative
/// to the root of the repository.
pub(super) fn files(folder: &str) -> Vec<String> {
    let is_shown = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !name.starts_with('.') && name != "target"
    };
    let walk = WalkDir::new(root().join(folder)).sort_by_file_name().into_iter();
    let entries = walk.filter_entry(is_shown).map(|entry| entry.expect("a readable folder"));
    let relative = |entry: DirEntry| {
        let path = entry.path().strip_prefix(root()).expect("found below the root");
        path.to_string_lossy().replace('\\', "/")
    };
    entries.filter(|entry| entry.file_type().is_file()).map(relative).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
