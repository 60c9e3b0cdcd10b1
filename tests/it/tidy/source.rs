//! One Rust file as the rules see it: its tokens and paths, each with its line and whether only
//! tests have it.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// A file of the repository.
pub(super) struct Source {
    /// The path from the root of the repository, with `/` on every system.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    /// Paths of two segments or more, with `self` and `super` resolved: one for each leaf of a
    /// `use`.
    pub(super) paths: Vec<Token>,
}

/// A token, a delimiter, or a path.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
    /// Inside an item under `#[cfg(test)]` or `#[test]`.
    pub(super) is_test: bool,
}

impl Token {
    /// Whether these segments stand side by side in the path.
    pub(super) fn has(&self, segments: &str) -> bool {
        format!("::{}::", self.text).contains(&format!("::{segments}::"))
    }
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let stream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let is_test = path.starts_with("tests/") || path.contains("/tests/");
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut source = Self { path, text, tokens: Vec::new(), paths: Vec::new() };
        flatten(stream, is_test || source.text.contains("#![cfg(test)]"), &mut source.tokens);
        let mut at = 0;
        while at < source.tokens.len() {
            let is_joined = at > 0 && matches!(source.at(at - 1), "." | "::");
            at = match source.at(at) {
                "use" if source.at(at + 1) != "<" => source.read_use(at + 1, &[]),
                word if is_word(word) && !is_joined => source.read_path(at),
                _ => at + 1,
            };
        }
        source
    }

    /// The text of the token at `index`; empty beyond the end.
    pub(super) fn at(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// The words that stand after `keyword`, each with its index.
    pub(super) fn after(&self, keyword: &str) -> impl Iterator<Item = (usize, &str)> {
        let found = (1..self.tokens.len()).filter(move |&at| self.at(at - 1) == keyword);
        found.map(|at| (at, self.at(at)))
    }

    /// The module that the file is: `src/router/mail.rs` is `crate::router::mail`.
    pub(super) fn module(&self) -> Vec<String> {
        let inside = self.path.strip_prefix("platform/").unwrap_or(&self.path);
        let inside = inside.strip_prefix("src/").unwrap_or(inside).trim_end_matches(".rs");
        let parts = inside.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod"));
        ["crate"].into_iter().chain(parts).map(str::to_owned).collect()
    }

    /// Reads a path in code; returns the index after it.
    fn read_path(&mut self, first: usize) -> usize {
        let mut end = first + 1;
        while self.at(end) == "::" && is_word(self.at(end + 1)) {
            end += 2;
        }
        self.add((first..end).step_by(2).map(|at| self.at(at).to_owned()).collect(), first);
        end
    }

    /// Reads one branch of a `use`; returns the index after it.
    fn read_use(&mut self, first: usize, stem: &[String]) -> usize {
        let (mut at, mut path) = (first, stem.to_vec());
        loop {
            match self.at(at) {
                "{" => {
                    while !matches!(self.at(at), "}" | "") {
                        at = self.read_use(at + 1, &path);
                    }
                    return at + 1;
                }
                "," | ";" | "}" | "" => break,
                "as" => at += 1,
                "self" if !path.is_empty() => {}
                word if word == "*" || is_word(word) => path.push(word.to_owned()),
                _ => {}
            }
            at += 1;
        }
        if at > first {
            self.add(path, first);
        }
        at
    }

    fn add(&mut self, mut segments: Vec<String>, at: usize) {
        let ups = segments.iter().take_while(|segment| *segment == "super").count();
        let own = ups.max(segments.iter().take(1).filter(|segment| *segment == "self").count());
        let module = self.module();
        let stem = &module[..module.len().saturating_sub(ups).max(1)];
        segments.splice(..own, stem.iter().filter(|_| own > 0).cloned());
        if segments.len() > 1 {
            let Token { line, is_test, .. } = self.tokens[at];
            self.paths.push(Token { text: segments.join("::"), line, is_test });
        }
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Appends the tokens of a stream, and marks the items that only tests have.
fn flatten(stream: TokenStream, is_test: bool, tokens: &mut Vec<Token>) {
    let (mut in_test_item, mut in_item) = (false, false);
    let mut stream = stream.into_iter().peekable();
    while let Some(tree) = stream.next() {
        let is_test = is_test || in_test_item;
        let token = |text: &str, span: Span| {
            let line = span.start().line;
            Token { text: text.to_owned(), line, is_test }
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace | Delimiter::None => ("{", "}"),
                };
                tokens.push(token(open, group.span_open()));
                flatten(group.stream(), is_test, tokens);
                tokens.push(token(close, group.span_close()));
                (in_test_item, in_item) = (in_test_item && open != "{", in_item && open != "{");
            }
            TokenTree::Punct(punct) => {
                let is_colon = |tree: &TokenTree| tree.to_string() == ":";
                let is_joint = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                let is_path = is_joint && stream.next_if(is_colon).is_some();
                let text = if is_path { "::".to_owned() } else { punct.to_string() };
                tokens.push(token(&text, punct.span()));
                if text == ";" || text == "," && !in_item {
                    (in_test_item, in_item) = (false, false);
                }
                if let ("#", Some(TokenTree::Group(attribute))) = (&*text, stream.peek()) {
                    let text = attribute.stream().to_string();
                    let is_condition = text.starts_with("cfg") && !text.contains("not");
                    in_test_item |= text == "test" || is_condition && text.contains("test");
                }
            }
            other => {
                let items = ["fn", "mod", "impl", "struct", "enum", "use", "trait", "type"];
                in_item |= items.contains(&&*other.to_string());
                tokens.push(token(&other.to_string(), other.span()));
            }
        }
    }
}
