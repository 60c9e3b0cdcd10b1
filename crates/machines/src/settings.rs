//! The settings of bridges that people write into files of the home: nats.toml and bridges.toml.

use crate::selector::Selector;
use client::home::{
    ConfigError, is_absent,
    parse::{self, Table},
    text,
};
use protocol::{name::Host, topic::Pattern};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use std::{
    collections::HashMap,
    fmt,
    marker::PhantomData,
    path::{Path, PathBuf},
};

/// The file of `agent-relay-nats` in the home directory.
pub const NATS_FILE: &str = "nats.toml";

/// The file of `agent-relay bridge` in the home directory.
pub const BRIDGES_FILE: &str = "bridges.toml";

/// The settings of `agent-relay-nats`. Every key is optional, and an option stands for it. A file
/// is named relative to the directory of nats.toml. docs/MACHINES.md has the comments of the fields
/// as a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// The name of this machine.
    #[serde(deserialize_with = "host")]
    pub host: Option<Host>,
    /// The URLs of the NATS servers.
    #[serde(deserialize_with = "texts")]
    pub server: Vec<String>,
    /// The file with the credentials.
    pub creds: Option<PathBuf>,
    /// Files with certificates of the servers' authorities.
    #[serde(deserialize_with = "texts")]
    pub tls_ca: Vec<PathBuf>,
    /// The file with this machine's certificate.
    pub tls_cert: Option<PathBuf>,
    /// The file with the key of that certificate.
    pub tls_key: Option<PathBuf>,
    /// The agents here that other machines may reach: names, or patterns such as `web-*`.
    #[serde(deserialize_with = "texts")]
    pub export: Vec<Selector>,
    /// The agents that may be reached from here, each as NAME@HOST or PATTERN@HOST; all without this
    /// key.
    #[serde(deserialize_with = "texts")]
    pub import: Vec<Import>,
    /// The topics on which messages cross, from here and to here: patterns such as `build.>`.
    #[serde(deserialize_with = "texts")]
    pub topic: Vec<Pattern>,
    /// Whether messages to everyone cross, from here and to here: `false` without this key.
    pub broadcasts: bool,
    /// The replicas of this machine's stream in NATS, if it does not exist: 1, 3 or 5.
    pub replicas: Option<usize>,
    /// Whether other machines are told which programs the exported agents run, and in which
    /// directories: `true` without this key.
    pub details: Option<bool>,
}

/// The settings of `agent-relay bridge` for a machine: a table of bridges.toml that is called as
/// the machine. docs/MACHINES.md has the comments of the fields as a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// The program that reaches the other machine, and its arguments.
    #[serde(deserialize_with = "texts")]
    pub command: Vec<String>,
    /// The agents of this machine that the other one may talk to: names, or patterns such as
    /// `web-*`.
    #[serde(deserialize_with = "texts")]
    pub export: Vec<Selector>,
    /// The agents of the other machine to link: names or patterns; all without this key.
    #[serde(default, deserialize_with = "texts")]
    pub import: Vec<Selector>,
    /// The topics on which messages cross, from here and to here: patterns such as `build.>`.
    #[serde(default, deserialize_with = "texts")]
    pub topic: Vec<Pattern>,
    /// Whether messages to everyone cross, from here and to here: `false` without this key.
    #[serde(default)]
    pub broadcasts: bool,
    /// Whether the other machine is told which programs the exported agents run, and in which
    /// directories: `true` without this key.
    #[serde(default)]
    pub details: Option<bool>,
}

/// Agents of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import(pub Selector, pub Host);

impl Nats {
    /// Reads a file. `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or not understood.
    pub fn load(path: &Path) -> Result<Option<Self>, ConfigError> {
        let Some(mut nats) = load::<Self>(path)? else { return Ok(None) };
        let directory = path.parent().unwrap_or(path);
        let single = [&mut nats.creds, &mut nats.tls_cert, &mut nats.tls_key];
        for file in single.into_iter().flatten().chain(&mut nats.tls_ca) {
            *file = directory.join(&*file);
        }
        Ok(Some(nats))
    }
}

impl Bridge {
    /// Reads the settings for each machine in a file. Empty if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or not understood.
    pub fn load_all(path: &Path) -> Result<HashMap<Host, Self>, ConfigError> {
        Ok(load::<Bridges>(path)?.map(|bridges| bridges.0).unwrap_or_default())
    }
}

fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, ConfigError> {
    match text::read(path) {
        Ok(text) => parse::parse(path, &text).map(Some),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(ConfigError::unreadable(path, &error)),
    }
}

/// A value that is a text in the file.
trait FromText: Sized {
    /// Reads the text. The error is a sentence.
    fn from_text(text: String) -> Result<Self, String>;
}

impl FromText for String {
    fn from_text(text: String) -> Result<Self, String> {
        Ok(text)
    }
}

impl FromText for PathBuf {
    fn from_text(text: String) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl FromText for Host {
    fn from_text(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|why| format!("{text:?} is no name of a machine: {why}"))
    }
}

impl FromText for Selector {
    fn from_text(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|why| format!("{text:?} is no name of an agent: {why}"))
    }
}

impl FromText for Pattern {
    fn from_text(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|why| format!("{text:?} is no pattern of topics: {why}"))
    }
}

impl FromText for Import {
    fn from_text(text: String) -> Result<Self, String> {
        let (name, host) =
            text.split_once('@').ok_or_else(|| format!("{text:?} must be NAME@HOST"))?;
        Ok(Self(Selector::from_text(name.to_owned())?, Host::from_text(host.to_owned())?))
    }
}

fn host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Host>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Host::from_text(text).map(Some).map_err(D::Error::custom)
}

/// Deserializes a list of texts.
fn texts<'de, D: Deserializer<'de>, T: FromText>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(Texts(PhantomData))
}

struct Texts<T>(PhantomData<T>);

impl<'de, T: FromText> Visitor<'de> for Texts<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a list of texts, such as ["one", "two"]"#)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            texts.push(T::from_text(text).map_err(A::Error::custom)?);
        }
        Ok(texts)
    }
}

struct Bridges(HashMap<Host, Bridge>);

impl<'de> Deserialize<'de> for Bridges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BridgesVisitor)
    }
}

struct BridgesVisitor;

impl<'de> Visitor<'de> for BridgesVisitor {
    type Value = Bridges;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table for each machine")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bridges, A::Error> {
        let mut bridges = HashMap::new();
        while let Some(host) = map.next_key::<String>()? {
            let host = Host::from_text(host).map_err(A::Error::custom)?;
            let Table(bridge) = map.next_value()?;
            if bridges.insert(host.clone(), bridge).is_some() {
                return Err(A::Error::custom(format!("{host} has a table already")));
            }
        }
        Ok(Bridges(bridges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nats(text: &str) -> Result<Nats, String> {
        parse::parse(Path::new("nats.toml"), text).map_err(|error| error.to_string())
    }

    fn bridges(text: &str) -> Result<Bridges, String> {
        parse::parse(Path::new("bridges.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_of_nats_are_read() {
        assert_eq!(nats("# nothing\n"), Ok(Nats::default()));
        let text = "host = 'desk'\nserver = ['nats://a', 'nats://b']\ncreds = 'desk.creds'\n\
                    export = ['Ann', 'web-*']\nimport = ['Bob@pi']\nreplicas = 3\n\
                    topic = ['build.>', 'ci']\nbroadcasts = true\n";
        let read = nats(text).unwrap();
        assert_eq!((read.topic.len(), read.broadcasts), (2, true));
        assert_eq!(read.host.unwrap().as_str(), "desk");
        assert_eq!(read.server, ["nats://a", "nats://b"]);
        let (bob, pi) = (Selector::parse("Bob").unwrap(), Host::parse("pi").unwrap());
        assert_eq!(read.import, [Import(bob, pi)]);
        assert_eq!((read.export.len(), read.replicas), (2, Some(3)));
    }

    #[test]
    fn settings_of_a_bridge_are_in_the_table_of_its_machine() {
        let text = "[pi]\ncommand = ['ssh', 'pi']\nexport = ['Ann']\n\
                    [lab]\ncommand = ['x']\nexport = []\nimport = ['Bob']\n";
        let Bridges(all) = bridges(text).unwrap();
        let pi = &all[&Host::parse("PI").unwrap()];
        assert_eq!((&pi.command[..], pi.import.len()), (&["ssh".to_owned(), "pi".into()][..], 0));
        assert_eq!(all[&Host::parse("lab").unwrap()].import.len(), 1);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("\nhost = 'p i'", "nats.toml:2: `host`: \"p i\" is no name of a machine: "),
            ("export = ['Ann',\n'@x']", ": `export`: \"@x\" is no name of an agent: "),
            ("import = ['Ann']", "nats.toml:1: `import`: \"Ann\" must be NAME@HOST"),
            ("topic = ['a..b']", "nats.toml:1: `topic`: \"a..b\" is no pattern of topics: "),
            ("server = 'nats://a'", "nats.toml:1: `server`: expected a list of texts, such as"),
            ("server = [1]", "nats.toml:1: `server`: expected a text in quotes"),
            ("\n\nexports = []", "nats.toml:3: unknown key \"exports\" (did you mean \"export\"?)"),
        ] {
            let said = nats(text).unwrap_err();
            assert!(said.starts_with("nats.toml:") && said.contains(error), "{text}: {said}");
        }
        for (text, error) in [
            ("pi = 1", "bridges.toml:1: `pi`: expected a table, with its keys below it"),
            ("[pi]\nexport = []", "bridges.toml:1: `pi`: missing field `command`"),
            ("['p i']\nexport = []", "\"p i\" is no name of a machine: "),
            (
                "[pi]\ncommand = []\nexport = []\n[PI]\ncommand = []\nexport = []",
                "has a table already",
            ),
        ] {
            let said = bridges(text).map(|_| ()).unwrap_err();
            assert!(said.starts_with("bridges.toml") && said.contains(error), "{text}: {said}");
        }
    }
}
