//! An agent of launchd's, as text.

use super::{
    NAME, Program, program, words,
    xml::{escaped, plain},
};

const ARGUMENTS: &str = "<key>ProgramArguments</key>";

/// The text of a property list that has launchd run this program.
pub(super) fn write(program: &Program) -> String {
    let command: String = words(program)
        .map(|word| format!("        <string>{}</string>\n", escaped(&word)))
        .collect();
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by `agent-relay service install`; `agent-relay service uninstall` removes it. -->
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{NAME}</string>
    {ARGUMENTS}
    <array>
{command}    </array>
    <key>RunAtLoad</key>
    <true/>
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <key>ProcessType</key>
    <string>Adaptive</string>
    <key>Umask</key>
    <integer>63</integer>
</dict>
</plist>
"#
    )
}

/// What an agent runs that was written here.
pub(super) fn read(list: &str) -> Option<Program> {
    let (_, after) = list.split_once(ARGUMENTS)?;
    let (array, _) = after.split_once("</array>")?;
    let strings = array.split("<string>").skip(1);
    program(
        strings
            .map(|it| it.split_once("</string>").map(|it| plain(it.0)))
            .collect::<Option<_>>()?,
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use plist::{Dictionary, Value};

    use super::*;

    /// Words that say something else in XML, or nothing.
    const WORDS: [&str; 8] =
        ["up", "--home", " a \"b\" 'c' ", "", "<&>", "]]>", "&amp;", "\u{65e5}\u{672c} \u{1f600}"];

    fn odd() -> Program {
        let file = PathBuf::from("/Users/J Doe/<bin> & co/agent-relay");
        Program { file, arguments: WORDS.map(Into::into).to_vec() }
    }

    /// The property list, if it is one, and one that launchd takes: by what launchd.plist(5) says of the keys
    /// that we use. It passes over what it doesn't know, so that a slip of ours would never be told.
    fn checked(text: &str) -> Result<Dictionary, String> {
        // The reader leaves out what comes after the value.
        text.strip_suffix("\n</dict>\n</plist>\n").ok_or("it has no end")?;
        let value = Value::from_reader_xml(text.as_bytes()).map_err(|error| error.to_string())?;
        let list = value.into_dictionary().ok_or("it is no dictionary")?;
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
                _ => return Err(format!("launchd knows no {key}")),
            };
            if !is_right {
                return Err(format!("{key} is not what launchd takes"));
            }
        }
        let missing = ["Label", "ProgramArguments"].into_iter().find(|key| !list.contains_key(key));
        missing.map_or(Ok(list), |key| Err(format!("{key} is missing")))
    }

    #[test]
    fn it_is_a_property_list_that_launchd_takes() {
        let list = checked(&write(&odd())).unwrap();
        let words: Vec<_> = list["ProgramArguments"].as_array().unwrap().iter().collect();
        let expected: Vec<_> =
            std::iter::once("/Users/J Doe/<bin> & co/agent-relay").chain(WORDS).collect();
        assert_eq!(
            words.iter().map(|word| word.as_string().unwrap()).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(list["Label"].as_string(), Some(NAME));
        assert_eq!(list["RunAtLoad"].as_boolean(), Some(true));
        // Not again where it ended by itself.
        let when = list["KeepAlive"].as_dictionary().unwrap();
        assert_eq!(when["SuccessfulExit"].as_boolean(), Some(false));
        assert_eq!(list["Umask"].as_unsigned_integer(), Some(0o077));
    }

    #[test]
    fn what_launchd_would_not_take_is_noticed() {
        let text = write(&odd());
        for (from, to) in [
            ("</array>", ""),
            ("&lt;bin&gt;", "<bin>"),
            ("<true/>", "true"),
            ("<true/>", "<string>true</string>"),
            ("<integer>63</integer>", "<integer>077x</integer>"),
            ("<integer>63</integer>", "<string>077</string>"),
            ("Adaptive", "Adaptable"),
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
