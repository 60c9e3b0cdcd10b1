//! service.toml: the system service that runs this user's daemon under a separate account. The
//! service's installation writes the file, and commands use the file to find the service.

use crate::home::{
    error::{ConfigError, is_absent},
    parse::{self, non_empty_text},
};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::Value;

/// The file's name in the home directory.
pub const FILE: &str = "service.toml";

/// The longest file that is read.
const BYTES_MAX: usize = 16 << 10;

/// The account, home and endpoint of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The endpoint of the service's daemon.
    pub endpoint: String,
    /// The home of the service's daemon.
    pub home: PathBuf,
    /// The account that the service runs as, in the system's notation.
    pub account: String,
}

impl Service {
    /// Reads `<home>/service.toml`, if there is one.
    pub fn load(home: &Path) -> Result<Option<Self>, ConfigError> {
        let path = home.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&path, &text).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(ConfigError::unreadable(&path, &error)),
        }
    }

    /// Parses the text of a file; `path` is for errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let with_remedy = |error: ConfigError| ConfigError {
            reason: format!("{}; `agent-relay service install` writes it again", error.reason),
            ..error
        };
        Self::parse_checked(path, text).map_err(with_remedy)
    }

    fn parse_checked(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let error = |reason: String| ConfigError { path: path.to_owned(), line: None, reason };
        if text.len() > BYTES_MAX {
            return Err(error(format!("it is over {BYTES_MAX} bytes long")));
        }
        let file: File = parse::parse(path, text)?;
        let missing = |key: &str| error(format!("`{key}` is missing"));
        let service = Self {
            endpoint: file.endpoint.ok_or_else(|| missing("endpoint"))?,
            home: file.home.ok_or_else(|| missing("home"))?.into(),
            account: file.account.ok_or_else(|| missing("account"))?,
        };
        match service.home.is_absolute() {
            true => Ok(service),
            false => Err(error("`home` is not an absolute path".to_owned())),
        }
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |key: &str, value: &str| format!("{key} = {}\n", Value::from(value));
        let head = "# Written by `agent-relay service install`; \
                    `agent-relay service uninstall` removes it.\n";
        let home = self.home.to_string_lossy();
        let lines =
            [line("endpoint", &self.endpoint), line("home", &home), line("account", &self.account)];
        format!("{head}{}", lines.concat())
    }
}

/// The keys of the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    #[serde(deserialize_with = "non_empty_text")]
    endpoint: Option<String>,
    #[serde(deserialize_with = "non_empty_text")]
    home: Option<String>,
    #[serde(deserialize_with = "non_empty_text")]
    account: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// A service with a home that is absolute on every system.
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
    fn written_file_is_read_back() {
        for name in ["a", "J O'Brien \"x\" '''", "日本"] {
            let service = service(name);
            assert_eq!(parse(&service.to_text()), Ok(service));
        }
        assert_eq!(Service::load(Path::new("/nonexistent/home")), Ok(None));
    }

    #[test]
    fn broken_file_is_refused_with_its_line() {
        let text = service("a").to_text();
        for (broken, words) in [
            (text.replace("account", "accounts"), "service.toml:4: unknown key \"accounts\""),
            (
                text.replace("endpoint = ", "endpoint = 1 #"),
                ":2: `endpoint`: expected a text in quotes",
            ),
            (text.replace("endpoint = ", "#"), "service.toml: `endpoint` is missing"),
            (
                text.replace("\naccount = ", "\naccount = '' #"),
                ":4: `account`: expected a text that is not empty",
            ),
            (format!("{text}home = 'x'"), ":5: this key is there already"),
            (text.replace("home = ", "home = 'x' #"), "`home` is not an absolute path"),
            ("x".repeat(BYTES_MAX + 1), "it is over"),
            ("endpoint".to_owned(), ":1: a line is KEY = VALUE"),
        ] {
            let said = parse(&broken).unwrap_err();
            assert!(said.contains(words), "{said}");
            assert!(said.contains("`agent-relay service install` writes it again"), "{said}");
        }
    }
}
