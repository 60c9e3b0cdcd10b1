//! The rules, one function each: what a file breaks, and what to write instead.

use std::{collections::BTreeSet, fmt};

use super::{
    house::{House, layer},
    source::{Named, Source},
};

/// A place that breaks a rule.
pub(super) struct Breach {
    path: String,
    line: usize,
    found: String,
    instead: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, found, instead } = self;
        write!(f, "{path}:{line}: {found}; instead: {instead}")
    }
}

/// A rule that one file alone keeps or breaks.
pub(super) type Rule = fn(&Source, &House) -> Vec<Breach>;

/// A layer uses only those that the table gives it. Tests may use all.
pub(super) fn layers(source: &Source, house: &House) -> Vec<Breach> {
    let Some(own) = layer(&source.path) else { return Vec::new() };
    let Some(allowed) = house.layers.get(own) else {
        let instead = "put it into a layer, or the layer into the table of ARCHITECTURE.md";
        return vec![breach(source, 1, &format!("`{own}` is no layer"), instead)];
    };
    let paths = source.paths();
    let foreign =
        paths.iter().filter(|path| !path.test).filter_map(|path| Some((path, target(path, own)?)));
    foreign
        .filter(|(_, target)| *target != own && !allowed.contains(*target))
        .map(|(path, target)| {
            let found = format!("`{own}` uses `{target}` (`{}`)", path.segments.join("::"));
            let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
            let instead = match allowed.join(", ") {
                none if none.is_empty() => "nothing of ours: let the caller hand it in".to_owned(),
                some => format!("only {some} (ARCHITECTURE.md), or let the caller hand it in"),
            };
            breach(source, path.line, &found, &instead)
        })
        .collect()
}

/// The layer that a path from inside `own` leads to.
fn target<'a>(path: &'a Named, own: &str) -> Option<&'a str> {
    let segment = |at: usize| path.segments.get(at).map(String::as_str);
    match segment(0)? {
        "platform" => Some("platform"),
        "agent_relay" => segment(1),
        // In the executables and in `platform`, `crate` is not the library.
        "crate" if !matches!(own, "bin" | "platform") => segment(1),
        _ => None,
    }
}

/// What differs between systems is in `platform/`, and so is all `unsafe`.
pub(super) fn system(source: &Source, _: &House) -> Vec<Breach> {
    if layer(&source.path) == Some("platform") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let instead = "put it behind one function of `platform` that is the same on every system";
    for path in source.paths() {
        let text = path.segments.join("::");
        let outside = ["libc", "windows", "windows_sys", "winapi", "nix", "rustix"];
        let first = path.segments.first().is_some_and(|first| outside.contains(&first.as_str()));
        if first
            || [&["std", "os"], &["consts", "OS"], &["consts", "FAMILY"]]
                .iter()
                .any(|p| has(&path, *p))
        {
            found.push(breach(
                source,
                path.line,
                &format!("`{text}` outside `platform/`"),
                instead,
            ));
        }
    }
    for (at, token) in source.tokens.iter().enumerate() {
        if token.text == "unsafe" {
            found.push(breach(source, token.line, "`unsafe` outside `platform/`", instead));
        }
        let open = at + 1 + usize::from(source.matches(at + 1, &["!"]));
        let condition = matches!(token.text.as_str(), "cfg" | "cfg_attr" | "cfg_select")
            && (source.matches(open, &["("]) || source.matches(open, &["{"]));
        if condition {
            let inside = &source.tokens[open..source.closing(open)];
            let systems =
                |text: &str| matches!(text, "unix" | "windows") || text.starts_with("target_");
            if let Some(system) = inside.iter().find(|token| systems(&token.text)) {
                let text = format!("`{}({})` outside `platform/`", token.text, system.text);
                found.push(breach(source, token.line, &text, instead));
            }
        }
    }
    found
}

/// A line of the table of what only some may do.
struct Permission {
    name: &'static str,
    /// The ends of paths.
    paths: &'static [&'static [&'static str]],
    /// Names that are called, whatever stands before them.
    calls: &'static [&'static str],
    macros: &'static [&'static str],
    instead: &'static str,
}

const PERMISSIONS: [Permission; 4] = [
    Permission {
        name: "clock",
        paths: &[
            &["Instant", "now"],
            &["SystemTime", "now"],
            &["thread", "sleep"],
            &["platform", "clock"],
            &["Uuid", "now_v7"],
            &["crossbeam_channel", "after"],
            &["crossbeam_channel", "tick"],
        ],
        calls: &["elapsed"],
        macros: &[],
        instead: "take the time as an argument, `now`, and let the driver wait",
    },
    Permission {
        name: "threads",
        paths: &[&["thread", "spawn"], &["thread", "Builder"], &["thread", "scope"]],
        calls: &[],
        macros: &[],
        instead: "leave threads to the layer that drives this one",
    },
    Permission {
        name: "print",
        paths: &[],
        calls: &["stdout", "stderr"],
        macros: &["print", "println", "eprint", "eprintln"],
        instead: "return what is to be said, or write to a `Write` that the caller hands in",
    },
    Permission {
        name: "exit",
        paths: &[&["process", "exit"], &["process", "abort"]],
        calls: &[],
        macros: &[],
        instead: "return an error; the command line makes an exit code of it",
    },
];

/// Clock, threads, printing and exiting are only where the table allows them. Tests may.
pub(super) fn permissions(source: &Source, house: &House) -> Vec<Breach> {
    let own = layer(&source.path).unwrap_or("lib");
    let forbidden = PERMISSIONS
        .iter()
        .filter(|permission| pure(source, house) || !house.permits(permission.name, own));
    forbidden.flat_map(|permission| without(source, permission)).collect()
}

fn without(source: &Source, permission: &Permission) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut add = |line, what: &str| {
        let what =
            format!("`{what}` without the permission `{}` (ARCHITECTURE.md)", permission.name);
        found.push(breach(source, line, &what, permission.instead));
    };
    for path in source.paths().iter().filter(|path| !path.test) {
        if permission.paths.iter().any(|banned| has(path, banned)) {
            add(path.line, &path.segments.join("::"));
        }
    }
    // A terminal's handles are the business of `platform`; what it does with them is not printing.
    let calls = if layer(&source.path) == Some("platform") { &[] } else { permission.calls };
    for (at, token) in source.tokens.iter().enumerate().filter(|(_, token)| !token.test) {
        let text = token.text.as_str();
        let defined = at > 0 && source.matches(at - 1, &["fn"]);
        if calls.contains(&text) && source.matches(at + 1, &["(", ")"]) && !defined {
            add(token.line, &format!("{text}()"));
        }
        if permission.macros.contains(&text) && source.matches(at + 1, &["!"]) {
            add(token.line, &format!("{text}!"));
        }
    }
    found
}

/// Every thread has a name, and the waiting table says for whom it waits.
pub(super) fn threads(source: &Source, house: &House) -> Vec<Breach> {
    let mut found = Vec::new();
    for path in source.paths().iter().filter(|path| !path.test && has(path, &["thread", "spawn"])) {
        let instead = "`thread::Builder` with a name";
        found.push(breach(source, path.line, "a thread without a name", instead));
    }
    for (line, name) in thread_names(source) {
        if !house.threads.contains(&name) {
            let instead = "a line for it in the waiting table of ARCHITECTURE.md";
            found.push(breach(
                source,
                line,
                &format!("`{name}` waits for nobody knows whom"),
                instead,
            ));
        }
    }
    found
}

/// The names that a file gives to threads, with their lines. `*` stands for what is filled in.
pub(super) fn thread_names(source: &Source) -> Vec<(usize, String)> {
    // Elsewhere these words name something else.
    let builds = source.paths().iter().any(|path| has(path, &["thread", "Builder"]));
    let calls = |word: &str| word == "spawn" || builds && matches!(word, "name" | "named");
    let starts = source.tokens.windows(3).enumerate().filter(|(_, words)| !words[0].test);
    let named = starts.filter_map(|(at, words)| {
        let [call, open, first] = words else { return None };
        if !calls(&call.text) || open.text != "(" {
            return None;
        }
        let formatted = source.matches(at + 2, &["format", "!", "("]);
        let literal = if formatted { source.tokens.get(at + 5)? } else { first };
        if literal.text != "\"\"" {
            return None;
        }
        let line = source.text.lines().nth(literal.line - 1)?;
        let after = line.rsplit_once(&format!("{}(", call.text)).map_or(line, |(_, after)| after);
        Some((literal.line, filled_in(after.split('"').nth(1)?)))
    });
    named.collect()
}

/// `reader-{id}` is `reader-*`.
fn filled_in(template: &str) -> String {
    let mut parts = template.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + "*" + part.split_once('}').map_or("", |(_, rest)| rest))
}

/// Channels have bounds, so that what waits in them has one. Tests may do without.
pub(super) fn bounds(source: &Source, _: &House) -> Vec<Breach> {
    let endless = [&["crossbeam_channel", "unbounded"], &["mpsc", "channel"]];
    let paths = source.paths().into_iter().filter(|path| !path.test);
    paths
        .filter(|path| endless.iter().any(|channel| has(path, *channel)))
        .map(|path| {
            let found = format!("`{}` has no bound", path.segments.join("::"));
            breach(source, path.line, &found, "a bounded channel, and an outcome where it is full")
        })
        .collect()
}

/// Pure layers know no system at all: no I/O, no locks, no randomness of their own. Their tests
/// may.
pub(super) fn purity(source: &Source, house: &House) -> Vec<Breach> {
    if !pure(source, house) {
        return Vec::new();
    }
    let modules = ["env", "fs", "io", "net", "process", "thread"];
    let shared = ["Arc", "LazyLock", "OnceLock"];
    let crates = ["crossbeam_channel", "getrandom", "parking_lot"];
    let impure =
        |path: &Named| match &path.segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            // A `Vec` is written to through this trait, and that is no I/O.
            ["std", "io", "Write"] => false,
            ["std", "sync", name, ..] => !shared.contains(name),
            ["std", name, ..] => modules.contains(name),
            [name, ..] => crates.contains(name),
            [] => false,
        };
    let paths = source.paths();
    let breaches = paths.iter().filter(|path| !path.test && impure(path)).map(|path| {
        let found = format!("`{}` in a pure layer", path.segments.join("::"));
        breach(source, path.line, &found, "values in, values out; the driver does the rest")
    });
    breaches.collect()
}

fn pure(source: &Source, house: &House) -> bool {
    let pure = house.permissions.get("pure").into_iter().flatten();
    let path = source.path.strip_prefix("src/").unwrap_or_default();
    pure.into_iter()
        .any(|name| path == format!("{name}.rs") || path.starts_with(&format!("{name}/")))
}

/// The longest function that still fits a screen, in lines from `fn` to the closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// No function is over 70 lines.
pub(super) fn lengths(source: &Source, _: &House) -> Vec<Breach> {
    let functions = source.functions().into_iter();
    functions
        .map(|function| (function.last - function.first + 1, function))
        .filter(|(lines, _)| *lines > FUNCTION_LINES_MAX)
        .map(|(lines, function)| {
            let found = format!("`{}` has {lines} lines", function.name);
            breach(source, function.first, &found, "name its parts; 70 lines are the limit")
        })
        .collect()
}

/// Nothing is left for later.
pub(super) fn unfinished(source: &Source, _: &House) -> Vec<Breach> {
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let name = token.text.as_str();
        if matches!(name, "todo" | "dbg" | "unimplemented") && source.matches(at + 1, &["!"]) {
            let instead = "finish it, or leave it out";
            found.push(breach(source, token.line, &format!("`{name}!`"), instead));
        }
        let attribute = name == "#" && source.matches(at + 1, &["["]);
        let end = if attribute { source.closing(at + 1) } else { at };
        if source.tokens[at..end].iter().any(|token| token.text == "ignore") {
            let instead = "let the test run, or delete it";
            found.push(breach(source, token.line, "an ignored test", instead));
        }
    }
    let mark = concat!("FIX", "ME");
    for (at, _) in source.text.lines().enumerate().filter(|(_, line)| line.contains(mark)) {
        found.push(breach(source, at + 1, mark, "fix it, or say in ARCHITECTURE.md why it is so"));
    }
    found
}

/// Every file says first what is in it.
pub(super) fn opening(source: &Source, _: &House) -> Vec<Breach> {
    if source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![breach(source, 1, "begins without `//!`", "a first line that says what is inside")]
}

/// Names say what a thing is; some words never do.
pub(super) fn names(source: &Source, _: &House) -> Vec<Breach> {
    let kinds = ["fn", "struct", "enum", "union", "trait", "type", "mod", "const", "static"];
    let mut found = Vec::new();
    for pair in source.tokens.windows(2) {
        let [kind, name] = pair else { continue };
        if let Some(word) = empty_word(&name.text).filter(|_| kinds.contains(&kind.text.as_str())) {
            let text = format!("`{}` is named after `{word}`", name.text);
            found.push(breach(
                source,
                name.line,
                &text,
                "a word of the glossary that says what it is",
            ));
        }
    }
    let file = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if let Some(word) = empty_word(file) {
        let text = format!("the file is named after `{word}`");
        found.push(breach(source, 1, &text, "a word of the glossary that says what is inside"));
    }
    found
}

/// The word in `snake_case` or `CamelCase` that says nothing.
fn empty_word(name: &str) -> Option<String> {
    let empty = ["common", "handler", "helper", "helpers", "manager", "misc", "util", "utils"];
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut()?.extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    words.into_iter().find(|word| empty.contains(&word.as_str()))
}

/// `unix.rs` and `windows.rs` of a feature offer the same.
pub(super) fn twins(unix: &Source, windows: &Source) -> Vec<Breach> {
    let (ours, theirs) = (offers(unix), offers(windows));
    let missing =
        |source: &Source, from: &BTreeSet<String>, own: &BTreeSet<String>| -> Vec<Breach> {
            let names = from.difference(own);
            names
            .map(|name| {
                let instead =
                    "the same public items in both; the tests of both systems then mean the same";
                breach(source, 1, &format!("its twin has `{name}`, it has not"), instead)
            })
            .collect()
        };
    let mut found = missing(unix, &theirs, &ours);
    found.extend(missing(windows, &ours, &theirs));
    found
}

/// Public items as `fn name`, `type Name` (however it is made) or `const NAME`; methods as
/// `fn Type::name`.
fn offers(source: &Source) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut blocks: Vec<(usize, String)> = Vec::new();
    for (at, token) in source.tokens.iter().enumerate().filter(|(_, token)| !token.test) {
        blocks.retain(|(end, _)| at <= *end);
        if token.text == "impl" && blocks.is_empty() {
            blocks.extend(block(source, at));
        }
        if token.text != "pub" {
            continue;
        }
        let start =
            if source.matches(at + 1, &["("]) { source.closing(at + 1) + 1 } else { at + 1 };
        let words: Vec<_> =
            source.tokens[start..].iter().take(6).map(|token| token.text.as_str()).collect();
        let kinds = ["fn", "struct", "enum", "union", "type", "trait", "mod", "static"];
        let kind = words.iter().position(|word| kinds.contains(word));
        let owner = blocks.last().map(|(_, name)| format!("{name}::")).unwrap_or_default();
        match (words.first(), kind) {
            (Some(&("const" | "unsafe" | "extern" | "async")), Some(at)) | (_, Some(at @ 0)) => {
                let kind = match words[at] {
                    "struct" | "enum" | "union" => "type",
                    other => other,
                };
                found.insert(format!("{kind} {owner}{}", words[at + 1]));
            }
            (Some(&"const"), None) => {
                found.insert(format!("const {owner}{}", words[1]));
            }
            _ => {}
        }
    }
    found
}

/// Where the braces of an `impl` end, and of which type it is.
fn block(source: &Source, at: usize) -> Option<(usize, String)> {
    let open = (at..source.tokens.len()).find(|at| source.tokens[*at].text == "{")?;
    let head: Vec<_> =
        source.tokens[at + 1..open].iter().map(|token| token.text.as_str()).collect();
    let of = head.iter().position(|word| *word == "for").map_or(0, |at| at + 1);
    let name = head[of..].iter().find(|word| word.starts_with(char::is_uppercase))?;
    Some((source.closing(open), (*name).to_owned()))
}

/// Every file of test data is named in some Rust file: by its name, or in quotes without its
/// extension.
pub(super) fn unused(data: &[String], sources: &[Source]) -> Vec<Breach> {
    let named = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = format!("\"{}\"", file.split('.').next().unwrap_or(file));
        sources.iter().any(|source| source.text.contains(file) || source.text.contains(&stem))
    };
    let unused = data.iter().filter(|path| !named(path)).map(|path| Breach {
        path: path.clone(),
        line: 1,
        found: "no test names this file".to_owned(),
        instead: "a test that reads it, or no file".to_owned(),
    });
    unused.collect()
}

/// Whether `segments` stand side by side in the path.
fn has(path: &Named, segments: &[&str]) -> bool {
    path.segments.windows(segments.len()).any(|window| window == segments)
}

fn breach(source: &Source, line: usize, found: &str, instead: &str) -> Breach {
    Breach { path: source.path.clone(), line, found: found.to_owned(), instead: instead.to_owned() }
}

/// Whether a name that `cargo test` is given is that of a test, or of a module, or how one begins.
pub(super) fn is_test(name: &str, sources: &[Source]) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or(("", name));
    let is_file = |source: &Source, module: &str| {
        source.path.ends_with(&format!("/{}.rs", module.replace("::", "/")))
    };
    sources.iter().any(|source| {
        let is_module = is_file(source, name.trim_end_matches("::"));
        let is_in = module.is_empty() || is_file(source, module);
        let mut functions = source.functions().into_iter();
        is_module
            || !function.is_empty() && is_in && functions.any(|it| it.name.starts_with(function))
    })
}
