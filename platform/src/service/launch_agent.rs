//! The property list of a launchd agent.

use plist::{Dictionary, Value};

use super::{Program, program, words};

/// The label of the agent, and the name of its file.
pub(super) const LABEL: &str = "dev.agent-relay.daemon";

/// The key of the program and its arguments.
const ARGUMENTS: &str = "ProgramArguments";

/// A comment in the file, for a person who finds the file. The plist crate cannot write comments.
const COMMENT: &str = "<!-- Written by `agent-relay service install`; `agent-relay service uninstall` removes it. -->";

/// The umask of the program, which gives only its user access to new files. In the property list,
/// launchd reads a decimal number.
const UMASK: u64 = 0o077;

/// Returns the property list that makes launchd run `program`, and restart it after a failure.
pub(super) fn write(program: &Program) -> String {
    let keep_alive = dictionary([("SuccessfulExit", false.into())]);
    let command = words(program).map(|word| Value::from(&*word)).collect();
    let agent = dictionary([
        ("Label", LABEL.into()),
        (ARGUMENTS, Value::Array(command)),
        ("RunAtLoad", true.into()),
        ("KeepAlive", keep_alive),
        // Other types may get less of the processors and disks, and agents wait for the daemon.
        ("ProcessType", "Interactive".into()),
        ("Umask", UMASK.into()),
    ]);
    let mut xml = Vec::new();
    agent.to_writer_xml(&mut xml).expect("a vector takes every byte");
    let xml = String::from_utf8(xml).expect("XML is written in UTF-8");
    xml.replacen("<plist", &format!("{COMMENT}\n<plist"), 1) + "\n"
}

/// Reads the program that a property list runs; `None` if the list names no program.
pub(super) fn read(list: &str) -> Option<Program> {
    let list = Value::from_reader_xml(list.as_bytes()).ok()?.into_dictionary()?;
    let words = list.get(ARGUMENTS)?.as_array()?.iter();
    program(words.map(|word| word.as_string().map(str::to_owned)).collect::<Option<_>>()?)
}

fn dictionary<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let mut dictionary = Dictionary::new();
    for (key, value) in entries {
        dictionary.insert(key.to_owned(), value);
    }
    Value::Dictionary(dictionary)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Words with special characters of XML, and an empty word.
    const WORDS: [&str; 8] =
        ["up", "--home", " a \"b\" 'c' ", "", "<&>", "]]>", "&amp;", "\u{65e5}\u{672c} \u{1f600}"];

    fn odd() -> Program {
        let file = PathBuf::from("/Users/J Doe/<bin> & co/agent-relay");
        Program { file, arguments: WORDS.map(Into::into).to_vec() }
    }

    /// Parses a property list and checks it by the rules of launchd.plist(5). launchd ignores
    /// unknown keys, so it would not report a misspelt key.
    fn checked(text: &str) -> Result<Dictionary, String> {
        // The parser ignores text after the value.
        text.strip_suffix("\n</dict>\n</plist>\n").ok_or("it is not closed")?;
        let value = Value::from_reader_xml(text.as_bytes()).map_err(|error| error.to_string())?;
        let list = value.into_dictionary().ok_or("it is not a dictionary")?;
        for (key, value) in &list {
            let is_right = match key.as_str() {
                "Label" => value.as_string().is_some_and(|label| !label.is_empty()),
                "ProgramArguments" => value.as_array().is_some_and(|words| {
                    let first = words.first().and_then(Value::as_string);
                    first.is_some_and(|file| file.starts_with('/'))
                        && words.iter().all(|word| word.as_string().is_some())
                }),
                "RunAtLoad" => value.as_boolean().is_some(),
                "KeepAlive" => value.as_dictionary().is_some_and(|when| {
                    when.iter().all(|(key, value)| {
                        matches!(key.as_str(), "SuccessfulExit" | "Crashed")
                            && value.as_boolean().is_some()
                    })
                }),
                "ProcessType" => value.as_string().is_some_and(|kind| {
                    ["Background", "Standard", "Adaptive", "Interactive"].contains(&kind)
                }),
                "Umask" => value.as_unsigned_integer().is_some_and(|mask| mask <= 0o777),
                _ => return Err(format!("launchd does not know {key}")),
            };
            if !is_right {
                return Err(format!("{key} is not what launchd takes"));
            }
        }
        let missing = ["Label", "ProgramArguments"].into_iter().find(|key| !list.contains_key(key));
        missing.map_or(Ok(list), |key| Err(format!("{key} is missing")))
    }

    #[test]
    fn written_property_list_is_valid_for_launchd() {
        let list = checked(&write(&odd())).unwrap();
        let words: Vec<_> = list["ProgramArguments"].as_array().unwrap().iter().collect();
        let expected: Vec<_> =
            std::iter::once("/Users/J Doe/<bin> & co/agent-relay").chain(WORDS).collect();
        assert_eq!(
            words.iter().map(|word| word.as_string().unwrap()).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(list["Label"].as_string(), Some(LABEL));
        assert_eq!(list["RunAtLoad"].as_boolean(), Some(true));
        // launchd restarts the program only after a failure.
        let when = list["KeepAlive"].as_dictionary().unwrap();
        assert_eq!(when["SuccessfulExit"].as_boolean(), Some(false));
        assert_eq!(list["Umask"].as_unsigned_integer(), Some(0o077));
    }

    #[test]
    fn invalid_property_lists_are_detected() {
        let text = write(&odd());
        for (from, to) in [
            ("</array>", ""),
            ("&lt;bin&gt;", "<bin>"),
            ("<true/>", "true"),
            ("<true/>", "<string>true</string>"),
            ("<integer>63</integer>", "<integer>077x</integer>"),
            ("<integer>63</integer>", "<string>077</string>"),
            ("Interactive", "Interactively"),
            ("KeepAlive", "KeepALive"),
            ("SuccessfulExit", "SuccesfulExit"),
            ("<key>Label</key>", "<key>Lable</key>"),
            ("<string>/Users", "<string>Users"),
            ("</plist>", ""),
        ] {
            let broken = text.replacen(from, to, 1);
            assert_ne!(broken, text, "{from}");
            assert!(checked(&broken).is_err(), "{from} -> {to}");
        }
    }
}
