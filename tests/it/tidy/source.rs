//! A Rust file as the rules see it: its tokens and paths, each with its line and whether it
//! belongs to tests only.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// A file of the repository.
pub(crate) struct Source {
    /// The path from the root of the repository, with `/` on every system.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    /// Paths of at least two segments, with `crate`, `self` and `super` resolved. A `use` of
    /// several names has a path for each name.
    pub(crate) paths: Vec<Token>,
}

/// A token, a delimiter, or a path.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Whether the token is inside an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) is_test: bool,
}

impl Token {
    fn new(text: &str, span: Span, is_test: bool) -> Self {
        Self { text: text.to_owned(), line: span.start().line, is_test }
    }

    /// Whether the path contains these consecutive segments.
    pub(crate) fn has(&self, segments: &str) -> bool {
        format!("::{}::", self.text).contains(&format!("::{segments}::"))
    }
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let stream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let is_test = path.starts_with("tests/")
            || path.contains("/tests/")
            || ["crates/testkit/", "fuzz/"].iter().any(|tests| path.starts_with(tests));
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut source = Self { path, text, tokens: Vec::new(), paths: Vec::new() };
        flatten(stream, is_test || source.text.contains("#![cfg(test)]"), &mut source.tokens);
        let mut at = 0;
        while at < source.tokens.len() {
            let is_joined = at > 0 && matches!(source.at(at - 1), "." | "::");
            let is_path = is_word(source.at(at)) && !is_joined;
            at = if is_path { source.read_path(at, &[]) } else { at + 1 };
        }
        source
    }

    /// The text of the token at `index`; empty beyond the end.
    pub(crate) fn at(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// The words that stand after `keyword`, each with its index.
    pub(crate) fn after(&self, keyword: &str) -> impl Iterator<Item = (usize, &str)> {
        let found = (1..self.tokens.len()).filter(move |&at| self.at(at - 1) == keyword);
        found.map(|at| (at, self.at(at)))
    }

    /// The file's module, below its crate: `crates/router/src/mail.rs` is `router::mail`. The root
    /// package is `crate`.
    pub(crate) fn module(&self) -> Vec<String> {
        let mut inside = self.path.trim_end_matches(".rs").split('/').peekable();
        let root = match *inside.peek().expect("a path has a part") {
            "crates" => inside.nth(1).expect("a crate has a name"),
            folder @ ("platform" | "nats" | "fuzz") => {
                inside.next();
                folder
            }
            _ => "crate",
        };
        let parts = inside.filter(|part| !matches!(*part, "src" | "lib" | "main" | "mod"));
        [root].into_iter().chain(parts).map(str::to_owned).collect()
    }

    /// Reads a path, or the branches of one, below `stem`; returns the index after it.
    fn read_path(&mut self, first: usize, stem: &[String]) -> usize {
        let (mut at, mut path) = (first, stem.to_vec());
        loop {
            match self.at(at) {
                "{" if !path.is_empty() => {
                    while !matches!(self.at(at), "}" | "") {
                        at = self.read_path(at + 1, &path);
                    }
                    return at + 1;
                }
                "self" if !path.is_empty() => {}
                word if word == "*" || is_word(word) => path.push(word.to_owned()),
                _ => break,
            }
            at += 1;
            if self.at(at) != "::" {
                break;
            }
            at += 1;
        }
        if at > first {
            self.add(path, first);
        }
        if !stem.is_empty() && self.at(at) == "as" { at + 2 } else { at }
    }

    fn add(&mut self, mut segments: Vec<String>, at: usize) {
        let ups = segments.iter().take_while(|segment| *segment == "super").count();
        let own = ups.max(segments.iter().take(1).filter(|segment| *segment == "self").count());
        let module = self.module();
        let stem = &module[..module.len().saturating_sub(ups).max(1)];
        segments.splice(..own, stem.iter().filter(|_| own > 0).cloned());
        if segments.first().is_some_and(|first| first == "crate") {
            segments[0].clone_from(&module[0]);
        }
        if segments.len() > 1 {
            let Token { line, is_test, .. } = self.tokens[at];
            self.paths.push(Token { text: segments.join("::"), line, is_test });
        }
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Appends the tokens of a stream. An item under a test attribute is marked as a test, up to its
/// `}`, `;` or `,`.
fn flatten(stream: TokenStream, is_test: bool, tokens: &mut Vec<Token>) {
    let mut in_test_item = false;
    let mut stream = stream.into_iter().peekable();
    while let Some(tree) = stream.next() {
        let is_test = is_test || in_test_item;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace | Delimiter::None => ("{", "}"),
                };
                let is_attribute = tokens.last().is_some_and(|last| last.text == "#");
                tokens.push(Token::new(open, group.span_open(), is_test));
                flatten(group.stream(), is_test, tokens);
                tokens.push(Token::new(close, group.span_close(), is_test));
                let text = group.stream().to_string();
                let is_condition = text.starts_with("cfg") && !text.contains("not");
                let is_of_test = text == "test" || is_condition && text.contains("test");
                in_test_item = is_attribute && is_of_test || in_test_item && open != "{";
            }
            TokenTree::Punct(punct) => {
                let is_joint = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                let is_path = is_joint && stream.next_if(|next| next.to_string() == ":").is_some();
                let text = if is_path { "::".to_owned() } else { punct.to_string() };
                tokens.push(Token::new(&text, punct.span(), is_test));
                in_test_item &= text != ";" && text != ",";
            }
            other => tokens.push(Token::new(&other.to_string(), other.span(), is_test)),
        }
    }
}
