//! A Rust file as the rules see it: tokens without comments and without the insides of strings,
//! each with its line and whether it is test code. Enough of the language for rules, far from all
//! of it.

use std::path::Path;

/// A file of the repository.
pub(super) struct Source {
    /// From the root of the repository, with `/` on every system.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
}

/// A word, a number, `::`, a string (always `""`) or one character of punctuation.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
    /// Inside an item under `#[cfg(test)]` or `#[test]`.
    pub(super) test: bool,
}

/// `a::b::c` as it stands in the code, each leaf of a `use` on its own. `self` and `super` are
/// replaced by what they stand for, counted from `crate`.
pub(super) struct Named {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    pub(super) test: bool,
}

/// A function with a body; lines are those of `fn` and of the closing brace.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let mut tokens = Lexer { rest: text, line: 1, tokens: Vec::new() }.run();
        mark_tests(&mut tokens);
        if path.starts_with("tests/") || path.contains("/tests/") {
            tokens.iter_mut().for_each(|token| token.test = true);
        }
        Self { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    /// Whether the tokens from `at` on begin with `words`.
    pub(super) fn matches(&self, at: usize, words: &[&str]) -> bool {
        let rest = self.tokens.get(at..).unwrap_or_default();
        rest.len() >= words.len() && rest.iter().zip(words).all(|(token, word)| token.text == *word)
    }

    /// The last token that closes what opens at `at`, or the last of the file.
    pub(super) fn closing(&self, at: usize) -> usize {
        closing(&self.tokens, at)
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            if self.tokens[at].text != "fn" || !self.word(at + 1) {
                continue;
            }
            if let Some(open) = self.body(at + 2) {
                found.push(Function {
                    name: self.tokens[at + 1].text.clone(),
                    first: self.tokens[at].line,
                    last: self.tokens[self.closing(open)].line,
                });
            }
        }
        found
    }

    /// Where the braces of a function begin, if it has a body.
    fn body(&self, mut at: usize) -> Option<usize> {
        while at < self.tokens.len() {
            match self.tokens[at].text.as_str() {
                "{" => return Some(at),
                ";" => return None,
                "(" | "[" => at = self.closing(at),
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// The modules that a file declares without a body under `#[cfg(test)]`: other files that are
    /// tests.
    pub(super) fn test_files(&self) -> Vec<String> {
        let folder = match Path::new(&self.path).file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => self.path.rsplit_once('/').map_or("", |(dir, _)| dir),
            _ => self.path.trim_end_matches(".rs"),
        };
        (0..self.tokens.len())
            .filter(|&at| self.tokens[at].test && self.matches(at, &["mod"]))
            .filter(|&at| {
                self.word(at + 1) && self.tokens.get(at + 2).is_some_and(|t| t.text == ";")
            })
            .map(|at| format!("{folder}/{}", self.tokens[at + 1].text))
            .collect()
    }

    fn word(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| is_word(&token.text))
    }

    /// Every path of at least two segments, and every leaf of a `use`.
    pub(super) fn paths(&self) -> Vec<Named> {
        let mut paths = Paths { source: self, found: Vec::new(), modules: self.module() };
        paths.run();
        paths.found
    }

    /// `src/router/outbox.rs` is `router::outbox`.
    fn module(&self) -> Vec<String> {
        let path = self.path.strip_prefix("platform/").unwrap_or(&self.path);
        let path = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
        path.split('/')
            .filter(|part| !matches!(*part, "lib" | "main" | "mod"))
            .map(str::to_owned)
            .collect()
    }
}

/// Collects paths in one pass and knows in which module it is.
struct Paths<'a> {
    source: &'a Source,
    found: Vec<Named>,
    modules: Vec<String>,
}

impl Paths<'_> {
    fn run(&mut self) {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < self.source.tokens.len() {
            if ends.last() == Some(&at) {
                ends.pop();
                self.modules.pop();
            }
            if self.source.matches(at, &["use"]) && !self.source.matches(at + 1, &["<"]) {
                at = self.tree(at + 1, &mut Vec::new());
            } else if self.source.matches(at, &["mod"]) && self.source.matches(at + 2, &["{"]) {
                self.modules.push(self.source.tokens[at + 1].text.clone());
                ends.push(self.source.closing(at + 2));
                at += 3;
            } else if self.begins(at) {
                at = self.plain(at);
            } else {
                at += 1;
            }
        }
    }

    /// A path begins at a word that no `::` and no `.` joins to something before it.
    fn begins(&self, at: usize) -> bool {
        let before =
            |back: usize| at.checked_sub(back).map(|at| self.source.tokens[at].text.as_str());
        let joined = match before(1) {
            Some(".") => true,
            Some("::") => before(2).is_some_and(|text| is_word(text) || text == ">"),
            _ => false,
        };
        self.source.word(at) && !joined
    }

    fn plain(&mut self, first: usize) -> usize {
        let mut segments = vec![self.text(first)];
        let mut at = first + 1;
        while self.source.tokens.get(at).is_some_and(|token| token.text == "::")
            && self.source.word(at + 1)
        {
            segments.push(self.text(at + 1));
            at += 2;
        }
        if segments.len() > 1 {
            self.add(segments, first);
        }
        at
    }

    /// One branch of a `use`; returns where the next one begins.
    fn tree(&mut self, mut at: usize, stem: &mut Vec<String>) -> usize {
        let (length, first) = (stem.len(), at);
        while at < self.source.tokens.len() {
            match self.source.tokens[at].text.as_str() {
                "::" => at += 1,
                "{" => {
                    let end = self.source.closing(at);
                    at += 1;
                    while at < end {
                        at = self.tree(at, stem);
                        at += usize::from(self.source.matches(at, &[","]));
                    }
                    stem.truncate(length);
                    return end + 1;
                }
                "as" => at += 2,
                "self" if length > 0 => at += 1,
                "$" => at += 1,
                "," | ";" | "}" => break,
                segment => {
                    stem.push(segment.to_owned());
                    at += 1;
                }
            }
        }
        self.add(stem.clone(), first.min(self.source.tokens.len() - 1));
        stem.truncate(length);
        at
    }

    fn add(&mut self, segments: Vec<String>, at: usize) {
        let ups = segments.iter().take_while(|segment| *segment == "super").count();
        let own = ups + usize::from(ups == 0 && segments.first().is_some_and(|s| s == "self"));
        let segments = if own == 0 {
            segments
        } else {
            let depth = self.modules.len().saturating_sub(ups);
            let stem =
                ["crate".to_owned()].into_iter().chain(self.modules[..depth].iter().cloned());
            stem.chain(segments[own..].iter().cloned()).collect()
        };
        let token = &self.source.tokens[at];
        self.found.push(Named { segments, line: token.line, test: token.test });
    }

    fn text(&self, at: usize) -> String {
        self.source.tokens[at].text.clone()
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Token> {
        while let Some(first) = self.rest.chars().next() {
            if first.is_whitespace() {
                self.skip(first.len_utf8());
            } else if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.skip(comment(self.rest));
            } else if let Some(length) = literal(self.rest) {
                self.token("\"\"", length);
            } else if self.rest.starts_with("::") {
                self.token("::", 2);
            } else if is_word(self.rest) || first.is_ascii_digit() {
                let length = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let length = length.unwrap_or(self.rest.len());
                self.token(&self.rest[..length], length);
            } else {
                self.token(&self.rest[..first.len_utf8()], first.len_utf8());
            }
        }
        self.tokens
    }

    fn token(&mut self, text: &str, length: usize) {
        self.tokens.push(Token { text: text.to_owned(), line: self.line, test: false });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.rest[..length].matches('\n').count();
        self.rest = &self.rest[length..];
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The length of the comment that `text` begins with; comments nest.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the string or character that `text` begins with. A lifetime is neither.
fn literal(text: &str) -> Option<usize> {
    let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(0);
    let rest = &text[prefix..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if prefix <= 2 && text[..prefix].ends_with('r') && rest[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = prefix + hashes + 1;
        return Some(text[inside..].find(&end).map_or(text.len(), |at| inside + at + end.len()));
    }
    if prefix <= 1 && rest.starts_with('"') {
        return Some(prefix + quoted(rest, '"'));
    }
    let mut after = rest.strip_prefix('\'')?.chars();
    let (first, second) = (after.next()?, after.next());
    (prefix <= 1 && (first == '\\' || second == Some('\''))).then(|| prefix + quoted(rest, '\''))
}

/// The length up to the closing `quote`, with escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

fn closing(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len().saturating_sub(1)
}

/// Marks each item that has `#[test]` or `#[cfg(test)]`, and everything after `#![cfg(test)]`.
fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        let inner = tokens[at + 1].text == "!";
        let open = at + 1 + usize::from(inner);
        if tokens[at].text != "#" || tokens[open].text != "[" {
            at += 1;
            continue;
        }
        let end = closing(tokens, open);
        if is_test_attribute(&tokens[open + 1..end]) {
            let last = if inner { tokens.len() - 1 } else { item_end(tokens, end + 1) };
            tokens[at..=last].iter_mut().for_each(|token| token.test = true);
        }
        at = end + 1;
    }
}

fn is_test_attribute(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    match attribute.first().map(|token| token.text.as_str()) {
        Some("test") => attribute.len() == 1,
        Some("cfg") => has("test") && !has("not"),
        _ => false,
    }
}

/// The last token of the item, field or statement that begins at `at`, after further attributes.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    let text = |at: usize| tokens.get(at).map(|token| token.text.as_str());
    while text(at) == Some("#") {
        at = closing(tokens, at + 1) + 1;
    }
    let keywords = [
        "pub", "fn", "mod", "impl", "struct", "enum", "use", "const", "static", "trait", "type",
        "unsafe",
    ];
    let item = text(at).is_some_and(|word| keywords.contains(&word));
    while let Some(word) = text(at) {
        match word {
            "{" => return closing(tokens, at),
            ";" => return at,
            "," if !item => return at,
            "}" => return at.saturating_sub(1),
            "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    tokens.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let source = Source::new("src/x.rs", text);
        source.tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_the_insides_of_strings_are_no_tokens() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), "a f");
        assert_eq!(words(r##"x("a\"b", r#"c"d"#, b"e", '"', b'\'', '{')"##), {
            r#"x ( "" , "" , "" , "" , "" , "" )"#
        });
        assert_eq!(words("fn f<'a>(x: &'a str, c: char) {}"), {
            "fn f < ' a > ( x : & ' a str , c : char ) { }"
        });
        assert_eq!(words("r#type::b"), "r # type :: b");
        let source = Source::new("src/x.rs", "\"one\ntwo\"\n/*\n*/ here");
        assert_eq!(source.tokens[1].line, 4);
    }

    #[test]
    fn test_items_are_marked_to_their_end_and_no_further() {
        for before in
            ["#[cfg(test)] mod t {", "#[test] #[other] fn t<A, B>() {", "#[cfg(test)] impl T {"]
        {
            let source = Source::new("src/x.rs", &format!("one {before} two() }} three"));
            let marks: Vec<_> =
                source.tokens.iter().map(|token| (token.text.as_str(), token.test)).collect();
            assert!(marks.contains(&("one", false)), "{marks:?}");
            assert!(marks.contains(&("two", true)), "{marks:?}");
            assert!(marks.contains(&("three", false)), "{marks:?}");
        }
        let source =
            Source::new("src/x.rs", "struct S { #[cfg(test)] one: u8, two: u8 } fn three() {}");
        assert!(source.tokens.iter().any(|token| token.text == "one" && token.test));
        assert!(source.tokens.iter().all(|token| token.text != "two" || !token.test));
        let source = Source::new("src/x.rs", "#[cfg(not(test))] fn one() {}");
        assert!(source.tokens.iter().all(|token| !token.test));
        let source = Source::new("src/router.rs", "#[cfg(test)]\nmod sim;\nmod outbox;");
        assert_eq!(source.test_files(), ["src/router/sim"]);
    }

    #[test]
    fn paths_are_found_in_uses_and_in_code() {
        let text = "use crate::{a::{self, B as C}, d::*}; use super::super::e;
            fn f() { g::h(); ::i::j; x.k(); }
            mod m { use super::super::n; fn f() { self::o() } } use p;";
        let source = Source::new("src/router/outbox.rs", text);
        let paths: Vec<_> = source.paths().iter().map(|path| path.segments.join("::")).collect();
        let expected = "crate::a crate::a::B crate::d::* crate::e g::h i::j \
            crate::router::n crate::router::outbox::m::o p";
        assert_eq!(paths.join(" "), expected);
    }

    #[test]
    fn functions_are_measured_by_their_braces() {
        let text = "fn a(x: [u8; 2]) {\n\"}\";\n// }\n}\ntrait T {\nfn b();\n}\nfn c() { }";
        let source = Source::new("src/x.rs", text);
        let lengths: Vec<_> =
            source.functions().iter().map(|f| (f.name.clone(), f.first, f.last)).collect();
        assert_eq!(lengths, [("a".to_owned(), 1, 4), ("c".to_owned(), 8, 8)]);
    }
}
