//! The rules, one function each: from a file to the places in it that break the rule.

use super::{
    repository::permits,
    source::{Source, Token},
};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that is checked for one file at a time. Returns its breaches.
pub(super) type Rule = fn(&Source) -> Vec<String>;

fn breach(source: &Source, line: usize, text: &str) -> String {
    format!("{}:{line}: {text}", source.path)
}

/// Returns the paths outside tests that `is_banned` selects, each with what to do instead.
fn banned(source: &Source, is_banned: impl Fn(&Token) -> bool, instead: &str) -> Vec<String> {
    let paths = source.paths.iter().filter(|path| !path.is_test && is_banned(path));
    paths.map(|path| breach(source, path.line, &format!("`{}`: {instead}", path.text))).collect()
}

/// Checks that only `platform/` distinguishes operating systems.
pub(super) fn systems(source: &Source) -> Vec<String> {
    if source.path.starts_with("platform/") {
        return Vec::new();
    }
    let is_system = |word: &str| ["unix", "windows"].contains(&word) || word.starts_with("target_");
    let is_condition = |at: &usize| {
        let rest = (at + 3..).map(|at| source.at(at));
        let mut condition = rest.take_while(|word| !["]", "{", ";", ""].contains(word));
        ["cfg", "cfg_attr", "cfg_select"].contains(&source.at(*at))
            && (is_system(source.at(at + 2)) || condition.any(is_system))
    };
    let conditions = (0..source.tokens.len()).filter(is_condition).map(|at| &source.tokens[at]);
    let modules = ["std::os", "consts::OS", "consts::FAMILY"];
    let named = source.paths.iter().filter(|path| modules.iter().any(|module| path.has(module)));
    let instead = "put it behind one function of `platform` that is the same on every system";
    named.chain(conditions).map(|token| breach(source, token.line, instead)).collect()
}

/// Permissions, each with the paths that need it. Clippy checks printing macros. Every module but
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

/// Checks that a module uses clocks, threads and I/O only if the table of permissions allows it.
pub(super) fn permissions(source: &Source) -> Vec<String> {
    let (is_pure, mut breaches) = (permits("pure", &source.path), Vec::new());
    for (name, paths) in PERMISSIONS {
        // `io::Write` needs no permission, since it also writes to a `Vec`.
        let is_banned = |path: &Token| {
            paths.split(' ').any(|banned| path.has(banned)) && !path.has("std::io::Write")
        };
        let instead = format!("needs the permission `{name}` (ARCHITECTURE.md)");
        if is_pure || name != "io" && !permits(name, &source.path) {
            breaches.extend(banned(source, is_banned, &instead));
        }
    }
    breaches
}

/// Checks that files begin with `//!`, have clear names, and contain nothing unfinished.
pub(super) fn files(source: &Source) -> Vec<String> {
    let empty = ["common", "handler", "helper", "helpers", "manager", "misc", "util", "utils"];
    let breaches = [
        (!source.text.starts_with("//!"), "begins without `//!`"),
        (source.module().iter().any(|name| empty.contains(&&**name)), "a name that says nothing"),
        (source.after("[").any(|(_, word)| word == "ignore"), "an ignored test"),
        (source.text.contains(concat!("FIX", "ME")), "unfinished"),
    ];
    let breaches = breaches.iter().filter(|(is_broken, _)| *is_broken);
    breaches.map(|(_, text)| breach(source, 1, text)).collect()
}

/// Returns the modules that use their siblings in a circle. A module counts with all modules inside
/// it.
pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let mut uses: BTreeMap<Vec<String>, Vec<Vec<String>>> = BTreeMap::new();
    for source in sources {
        let module = source.module();
        let children: BTreeSet<_> = source.after("mod").map(|(_, name)| name).collect();
        let paths = source.paths.iter().filter(|path| !path.is_test).filter_map(|path| {
            let path: Vec<_> = path.text.split("::").map(str::to_owned).collect();
            match &*path[0] {
                first if first == module[0] => Some(path),
                first => children.contains(first).then(|| [module.clone(), path].concat()),
            }
        });
        uses.insert(module.clone(), paths.collect());
    }
    let shared = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let mut edges: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (from, used) in &uses {
        for mut target in used {
            let depth = shared(from, target);
            // A name that the shared parent imports is replaced by the module that it comes from.
            if !target.get(..=depth).is_some_and(|module| uses.contains_key(module)) {
                let mut imports = uses.get(&target[..depth]).into_iter().flatten();
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
