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
