//! recipes.toml: the owner's own recipes for the programs that are wrapped.

use client::home::{ConfigError, is_absent, parse::line_at, text};
use std::path::Path;
use terminal::recipe::Book;

/// The file's name in the home directory.
pub const FILE: &str = "recipes.toml";

/// Reads `<home>/recipes.toml`; a missing file means the built-in recipes.
pub fn load(home: &Path) -> Result<Book, ConfigError> {
    let path = home.join(FILE);
    match text::read(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if is_absent(&error) => Ok(Book::default()),
        Err(error) => Err(ConfigError::unreadable(&path, &error)),
    }
}

/// Parses the text of a file; `path` is for errors.
pub fn parse(path: &Path, text: &str) -> Result<Book, ConfigError> {
    Book::with(text).map_err(|error| {
        let line = error.span.map(|span| line_at(text, span.start));
        ConfigError { path: path.to_owned(), line, reason: error.reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, process};

    #[test]
    fn file_is_read_or_refused_with_its_line() {
        let home = env::temp_dir().join(format!("ar-recipes-{}", process::id()));
        fs::create_dir_all(&home).unwrap();
        let command = ["agent".to_owned()];
        let name = |book: Book| book.choose(&command, "linux", None).name;
        assert_eq!(name(load(&home).unwrap()), "generic");
        fs::write(home.join(FILE), "[[recipe]]\nname = 'mine'\ncommands = ['agent']\n").unwrap();
        assert_eq!(name(load(&home).unwrap()), "mine");
        fs::write(home.join(FILE), "[[recipe]]\nname = 'mine'\ncomands = ['agent']\n").unwrap();
        let error = load(&home).unwrap_err();
        assert_eq!((error.line, error.reason.contains("comands")), (Some(3), true), "{error}");
        fs::remove_dir_all(&home).unwrap();
    }
}
