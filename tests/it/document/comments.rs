//! The doc comments of the code, the source of tables in the documents.

use crate::tidy::{SOURCES, Source};
use std::mem;

/// A variant or a field with a doc comment.
pub(super) struct Documented {
    pub(super) name: String,
    /// The paragraphs of the comment. Each item of a list is a separate paragraph.
    pub(super) paragraphs: Vec<String>,
    /// The words of the code behind the comment: attributes, name and type.
    pub(super) code: Vec<String>,
}

/// The documented variants of an enum or fields of a struct, in their order.
pub(super) fn members(path: &str, item: &str) -> Vec<Documented> {
    let source = SOURCES.iter().find(|source| source.path == path).expect("a source");
    let is_item = |at: &usize| {
        source.at(at - 1) == item && (source.at(*at) == "{" || source.at(at - 2) == "struct")
    };
    let item = (2..source.tokens.len()).find(is_item).expect("the item is there");
    let opening = (item..).find(|at| source.at(*at) == "{").expect("it has members");
    let inside = opening..after_group(source, opening);
    let comments = comments(source).into_iter().filter(|(at, _)| inside.contains(at));
    let (starts, paragraphs): (Vec<_>, Vec<_>) = comments.unzip();
    let ends = starts.iter().skip(1).copied().chain([inside.end]);
    let members = starts.iter().zip(ends).zip(paragraphs).map(|((&start, end), paragraphs)| {
        let code = (start..end).map(|at| source.at(at).to_owned()).collect();
        Documented { name: name(source, start).to_owned(), paragraphs, code }
    });
    members.collect()
}

/// The name of a variant or a field, behind attributes and `pub`.
fn name(source: &Source, mut at: usize) -> &str {
    while source.at(at) == "#" {
        at = after_group(source, at + 1);
    }
    let is_name = |word: &&str| !["pub", "(", "crate", "super", ")"].contains(word);
    (at..).map(|at| source.at(at)).find(is_name).expect("a name follows a comment")
}

/// The documented constants outside tests with a text that begins with `prefix`: the values, with
/// the paragraphs of the comments.
pub(super) fn texts(prefix: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for source in &*SOURCES {
        for (at, paragraphs) in comments(source) {
            let words = (at..).map(|at| source.at(at));
            let mut words = words.take_while(|word| !matches!(*word, ";" | "{" | ""));
            let is_constant = !source.tokens[at].is_test && words.any(|word| word == "const");
            let value = words.find(|word| is_constant && word.starts_with('"'));
            let value = value.map(|literal| literal.trim_matches('"'));
            if let Some(value) = value.filter(|value| value.starts_with(prefix)) {
                found.push((value.to_owned(), paragraphs));
            }
        }
    }
    found
}

/// The paragraphs of each doc comment, with the index of the token that follows it.
fn comments(source: &Source) -> Vec<(usize, Vec<String>)> {
    let (mut at, mut lines, mut found) = (0, Vec::new(), Vec::new());
    while at < source.tokens.len() {
        if ["#", "[", "doc", "="].iter().zip(at..).all(|(word, at)| source.at(at) == *word) {
            lines.push(unquoted(source.at(at + 4)));
            at = after_group(source, at + 1);
        } else {
            if !lines.is_empty() {
                found.push((at, paragraphs(&mem::take(&mut lines))));
            }
            at += 1;
        }
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
