//! The rules, one function each: from a file to the places in it that break the rule.

use super::{
    repository::{Architecture, layer},
    source::{Source, Token},
};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that is checked for one file at a time. Returns its breaches.
pub(super) type Rule = fn(&Source, &Architecture) -> Vec<String>;

fn breach(source: &Source, line: usize, text: &str) -> String {
    format!("{}:{line}: {text}", source.path)
}

/// Paths outside tests that `is_banned` picks, each with what to do instead.
fn banned(source: &Source, is_banned: impl Fn(&Token) -> bool, instead: &str) -> Vec<String> {
    let paths = source.paths.iter().filter(|path| !path.is_test && is_banned(path));
    paths.map(|path| breach(source, path.line, &format!("`{}`: {instead}", path.text))).collect()
}

/// Checks that a layer uses only the layers that the table allows.
pub(super) fn layers(source: &Source, architecture: &Architecture) -> Vec<String> {
    let Some(own) = layer(&source.path) else { return Vec::new() };
    let Some(allowed) = architecture.layers.get(own) else {
        return vec![breach(source, 1, &format!("no layer `{own}` in ARCHITECTURE.md"))];
    };
    let is_banned = |path: &Token| {
        let mut segments = path.text.split("::");
        let target = match segments.next() {
            Some("platform") => "platform",
            // In the executables and in `platform`, `crate` is not the library.
            Some("crate") if matches!(own, "bin" | "platform") => own,
            Some("crate" | "agent_relay") => segments.next().unwrap_or(own),
            _ => own,
        };
        target != own && !allowed.contains(target)
    };
    banned(source, is_banned, &format!("`{own}` may use {allowed:?} only (ARCHITECTURE.md)"))
}

/// Checks that only `platform/` distinguishes operating systems.
pub(super) fn systems(source: &Source, _: &Architecture) -> Vec<String> {
    let is_system = |word: &str| ["unix", "windows"].contains(&word) || word.starts_with("target_");
    let conditions = source.tokens.iter().enumerate().filter(|(at, token)| {
        let rest = source.tokens.iter().skip(at + 3).map(|token| &*token.text);
        let mut condition = rest.take_while(|text| !["]", "{", ";"].contains(text));
        ["cfg", "cfg_attr", "cfg_select"].contains(&&*token.text)
            && (is_system(source.at(at + 2)) || condition.any(is_system))
    });
    let modules = ["std::os", "consts::OS", "consts::FAMILY"];
    let named = source.paths.iter().filter(|path| modules.iter().any(|module| path.has(module)));
    let found = named.chain(conditions.map(|(_, token)| token));
    let found = found.filter(|_| layer(&source.path) != Some("platform"));
    let instead = "put it behind one function of `platform` that is the same on every system";
    found.map(|token| breach(source, token.line, instead)).collect()
}

/// Permissions, and the paths that need them. Printing macros are clippy's matter. Every module but
/// the pure ones has the permission `io`.
const PERMISSIONS: [(&str, &str); 5] = [
    (
        "clock",
        "time::Instant time::SystemTime Instant::now SystemTime::now thread::sleep platform::clock \
         Uuid::now_v7 crossbeam_channel::after crossbeam_channel::tick",
    ),
    ("threads", "thread::spawn thread::Builder thread::scope"),
    ("print", "io::stdout io::stderr"),
    ("exit", "process::exit process::abort"),
    (
        "io",
        "std::env std::fs std::io std::net std::process std::thread sync::Mutex sync::RwLock \
         sync::Condvar sync::atomic sync::mpsc parking_lot getrandom crossbeam_channel",
    ),
];

/// Checks that a module uses clocks, threads, I/O and such only if the table of permissions allows
/// it.
pub(super) fn permissions(source: &Source, architecture: &Architecture) -> Vec<String> {
    let is_pure = architecture.permits("pure", &source.path);
    let is_allowed = |name| match name {
        "io" => true,
        name => architecture.permits(name, &source.path),
    };
    let forbidden = PERMISSIONS.iter().filter(|(name, _)| is_pure || !is_allowed(name));
    let breaches = forbidden.flat_map(|(name, paths)| {
        // A `Vec` is written to through `io::Write`.
        let is_banned = |path: &Token| {
            paths.split(' ').any(|banned| path.has(banned)) && !path.has("std::io::Write")
        };
        banned(source, is_banned, &format!("needs the permission `{name}` (ARCHITECTURE.md)"))
    });
    breaches.collect()
}

/// Checks that threads have names, and that the waiting table lists each name.
pub(super) fn threads(source: &Source, architecture: &Architecture) -> Vec<String> {
    let unknown = thread_names(source).into_iter();
    let unknown = unknown.filter(|(_, name)| !architecture.threads.contains(name));
    let text = |name| format!("the waiting table of ARCHITECTURE.md has no thread `{name}`");
    unknown.map(|(line, name)| breach(source, line, &text(name))).collect()
}

/// The names that a file gives to threads, with their lines. `*` stands for what is filled in.
pub(super) fn thread_names(source: &Source) -> Vec<(usize, String)> {
    // Elsewhere these words name something else.
    let builds = source.paths.iter().any(|path| path.has("thread::Builder"));
    let mut found = Vec::new();
    for (at, token) in source.tokens.iter().enumerate().filter(|(_, token)| !token.is_test) {
        let is_call = token.text == "spawn" || builds && ["name", "named"].contains(&&*token.text);
        let formatted = source.at(at + 2) == "format" && source.at(at + 3) == "!";
        let literal = source.at(if formatted { at + 5 } else { at + 2 });
        if is_call && source.at(at + 1) == "(" && literal.starts_with('"') {
            let mut parts = literal.trim_matches('"').split('{');
            let first = parts.next().unwrap_or_default().to_owned();
            let rest = |part: &str| part.split_once('}').map_or("", |(_, rest)| rest).to_owned();
            found.push((token.line, parts.fold(first, |name, part| name + "*" + &rest(part))));
        }
    }
    found
}

/// Checks that files begin with `//!`, have specific names, and contain no unfinished code.
pub(super) fn files(source: &Source, _: &Architecture) -> Vec<String> {
    let empty = ["common", "handler", "helper", "helpers", "manager", "misc", "util", "utils"];
    let module = source.module();
    let breaches = [
        (!source.text.starts_with("//!"), "begins without `//!`"),
        (module.iter().any(|name| empty.contains(&&**name)), "a name that says nothing"),
        (source.text.contains(concat!("#[", "ignore")), "an ignored test"),
        (source.text.contains(concat!("FIX", "ME")), "unfinished"),
    ];
    let breaches = breaches.iter().filter(|(is_broken, _)| *is_broken);
    breaches.map(|(_, text)| breach(source, 1, text)).collect()
}

/// Modules with the same parent do not use each other in a circle. A module counts with all that is
/// inside it.
pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let mut paths: BTreeMap<Vec<String>, Vec<Vec<String>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| layer(&source.path).is_some()) {
        let root = if layer(&source.path) == Some("platform") { "platform" } else { "crate" };
        let module = [vec![root.to_owned()], source.module().split_off(1)].concat();
        let children: BTreeSet<_> = source.after("mod").map(|(_, name)| name).collect();
        let used = source.paths.iter().filter(|path| !path.is_test).filter_map(|path| {
            let path: Vec<_> = path.text.split("::").map(str::to_owned).collect();
            match &*path[0] {
                "crate" => Some([vec![root.to_owned()], path[1..].to_vec()].concat()),
                first => children.contains(first).then(|| [module.clone(), path].concat()),
            }
        });
        let used = used.collect();
        paths.insert(module, used);
    }
    let shared = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let mut edges: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (from, used) in &paths {
        for mut target in used {
            let depth = shared(from, target);
            // A name that the shared parent imports leads to where that is.
            if !target.get(..=depth).is_some_and(|module| paths.contains_key(module)) {
                let mut imports = paths.get(&target[..depth]).into_iter().flatten();
                target = imports.find(|it| it.last() == target.get(depth)).unwrap_or(target);
            }
            let depth = shared(from, target);
            if depth < from.len().min(target.len()) {
                edges.entry(&from[..=depth]).or_default().insert(&target[..=depth]);
            }
        }
    }
    let is_in_circle = |from: &&&[String]| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![**from]);
        while let Some(targets) = next.pop().map(|at| edges.get(at).into_iter().flatten()) {
            next.extend(targets.filter(|target| seen.insert(**target)));
        }
        seen.contains(**from)
    };
    edges.keys().filter(is_in_circle).map(|module| module.join("::")).collect()
}

/// Whether a name that `cargo test` is given is that of a test, or of a module, or how one begins.
pub(super) fn is_test(name: &str, sources: &[Source]) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or(("", name));
    let is_file = |source: &Source, module: &str| {
        source.path.ends_with(&format!("/{}.rs", module.replace("::", "/")))
    };
    sources.iter().any(|source| {
        let is_in = module.is_empty() || is_file(source, module);
        let has = |function| source.after("fn").any(|(_, name)| name.starts_with(function));
        is_file(source, name.trim_end_matches("::"))
            || !function.is_empty() && is_in && has(function)
    })
}
