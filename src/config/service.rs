//! service.toml: where the service is that serves this home's user from an account of its own. Whoever
//! installed it has written that down here; commands follow it.

use super::{ConfigError, is_absent, line_at, not_toml};
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::{Value, de::DeTable};

/// The file's name in the home directory.
pub const FILE: &str = "service.toml";

/// More is no such file.
const BYTES_MAX: usize = 16 << 10;

/// Where a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Where its daemon listens.
    pub endpoint: String,
    /// The home of that daemon.
    pub home: PathBuf,
    /// The user as whom it runs, as the system writes users down.
    pub account: String,
}

impl Service {
    /// Reads `<home>/service.toml`, if there is one.
    pub fn load(home: &Path) -> Result<Option<Self>, ConfigError> {
        let path = home.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&path, &text).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(ConfigError { path, line: None, reason: error.to_string() }),
        }
    }

    /// Reads the text of a file; `path` is for what is said about it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let wrong = |line: Option<usize>, reason: String| ConfigError {
            path: path.to_owned(),
            line,
            reason: format!("{reason}; `agent-relay service install` writes it anew"),
        };
        if text.len() > BYTES_MAX {
            return Err(wrong(None, format!("it is over {BYTES_MAX} bytes long")));
        }
        let at = |place: usize| Some(line_at(text, place));
        let table = DeTable::parse(text).map_err(|error| {
            wrong(error.span().and_then(|span| at(span.start)), not_toml(error.message()))
        })?;
        let mut found = Self::default();
        for (key, value) in table.get_ref() {
            let name = key.get_ref().as_ref();
            let Some(value) = value.get_ref().as_str().filter(|value| !value.is_empty()) else {
                return Err(wrong(at(value.span().start), format!("`{name}` is a text in quotes")));
            };
            match name {
                "endpoint" => found.endpoint = value.to_owned(),
                "home" => found.home = value.into(),
                "account" => found.account = value.to_owned(),
                _ => return Err(wrong(at(key.span().start), format!("unknown key {name:?}"))),
            }
        }
        let home = found.home.to_string_lossy();
        let all = [("endpoint", &*found.endpoint), ("home", &home), ("account", &found.account)];
        match all.iter().find(|(_, value)| value.is_empty()) {
            Some((name, _)) => Err(wrong(None, format!("`{name}` is missing"))),
            None if !found.home.is_absolute() => {
                Err(wrong(None, "`home` is not an absolute path".to_owned()))
            }
            None => Ok(found),
        }
    }

    /// The text of a file that says so.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |key: &str, value: &str| format!("{key} = {}\n", Value::from(value));
        let head = "# Written by `agent-relay service install`; `agent-relay service uninstall` removes it.\n";
        let home = self.home.to_string_lossy();
        let lines =
            [line("endpoint", &self.endpoint), line("home", &home), line("account", &self.account)];
        format!("{head}{}", lines.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// Absolute on every system.
    fn service(name: &str) -> Service {
        Service {
            endpoint: r"\\.\pipe\agent-relay-S-1-5-21-1".to_owned(),
            home: env::temp_dir().join(name),
            account: "S-1-5-80-1".to_owned(),
        }
    }

    fn parse(text: &str) -> Result<Service, String> {
        Service::parse(Path::new("service.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read() {
        for name in ["a", "J O'Brien \"x\" '''", "日本"] {
            let service = service(name);
            assert_eq!(parse(&service.to_text()), Ok(service));
        }
        assert_eq!(Service::load(Path::new("/nonexistent/home")), Ok(None));
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_line() {
        let text = service("a").to_text();
        for (broken, words) in [
            (text.replace("account", "accounts"), "service.toml:4: unknown key \"accounts\""),
            (text.replace("endpoint = ", "endpoint = 1 #"), ":2: `endpoint` is a text in quotes"),
            (text.replace("endpoint = ", "#"), "service.toml: `endpoint` is missing"),
            (text.replace("\naccount = ", "\naccount = '' #"), ":4: `account` is a text in quotes"),
            (format!("{text}home = 'x'"), ":5: this key is there already"),
            (text.replace("home = ", "home = 'x' #"), "`home` is not an absolute path"),
            ("x".repeat(BYTES_MAX + 1), "it is over"),
            ("endpoint".to_owned(), ":1: a line is KEY = VALUE"),
        ] {
            let said = parse(&broken).unwrap_err();
            assert!(said.contains(words), "{said}");
            assert!(said.contains("`agent-relay service install` writes it anew"), "{said}");
        }
    }
}
