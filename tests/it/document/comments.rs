//! The doc comments of the code, from which tables of the documents are made.

use crate::tidy::{SOURCES, Source};
use std::mem;

/// A variant, a field or a constant, and the paragraphs of its doc comment. An item of a list is a
/// paragraph of its own.
pub(super) struct Documented {
    pub(super) name: String,
    pub(super) paragraphs: Vec<String>,
}

/// The documented variants of an enum or fields of a struct, in their order.
pub(super) fn members(path: &str, item: &str) -> Vec<Documented> {
    let source = SOURCES.iter().find(|source| source.path == path).expect("a source");
    let opening = (1..source.tokens.len())
        .find(|&at| source.at(at - 1) == item && source.at(at) == "{")
        .unwrap_or_else(|| panic!("{path} has no {item}"));
    let inside = opening..after_group(source, opening);
    let inside = documented(source).into_iter().filter(|(at, _)| inside.contains(at));
    let named = inside.map(|(at, paragraphs)| {
        let is_name = |at: &usize| !["pub", "(", "crate", "super", ")"].contains(&source.at(*at));
        let at = (at..).find(is_name).expect("a name follows a comment");
        Documented { name: source.at(at).to_owned(), paragraphs }
    });
    named.collect()
}

/// The documented constants outside tests whose value is a text that begins with `prefix`. The
/// value is their name here.
pub(super) fn texts(prefix: &str) -> Vec<Documented> {
    let mut found = Vec::new();
    for source in &*SOURCES {
        for (at, paragraphs) in documented(source) {
            let words = (at..).map(|at| source.at(at));
            let mut words = words.take_while(|word| !matches!(*word, ";" | "{" | ""));
            let is_constant = !source.tokens[at].is_test && words.any(|word| word == "const");
            let value = words.find(|word| is_constant && word.starts_with('"'));
            let value = value.map(|literal| literal.trim_matches('"'));
            if let Some(name) = value.filter(|value| value.starts_with(prefix)) {
                found.push(Documented { name: name.to_owned(), paragraphs });
            }
        }
    }
    found
}

/// The indices of the tokens that follow a doc comment and other attributes, with the paragraphs of
/// the comment.
fn documented(source: &Source) -> Vec<(usize, Vec<String>)> {
    let (mut at, mut lines, mut found) = (0, Vec::new(), Vec::new());
    while at < source.tokens.len() {
        let is_attribute = source.at(at) == "#" && source.at(at + 1) == "[";
        if is_attribute && source.at(at + 2) == "doc" && source.at(at + 3) == "=" {
            lines.push(unquoted(source.at(at + 4)));
        } else if !is_attribute && !lines.is_empty() {
            found.push((at, paragraphs(&mem::take(&mut lines))));
        }
        at = if is_attribute { after_group(source, at + 1) } else { at + 1 };
    }
    found
}

/// The index after the group that begins at `opening`.
fn after_group(source: &Source, opening: usize) -> usize {
    let (mut at, mut depth) = (opening, 0);
    loop {
        match source.at(at) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

fn paragraphs(lines: &[String]) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in lines.iter().map(|line| line.trim()) {
        let item = line.strip_prefix("- ");
        if item.is_some() || line.is_empty() {
            paragraphs.push(String::new());
        }
        let last = paragraphs.last_mut().expect("there is one");
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(item.unwrap_or(line));
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// The text of a literal.
fn unquoted(literal: &str) -> String {
    serde_json::from_str(literal).unwrap_or_else(|why| panic!("{literal}: {why}"))
}
