//! A unit of the user's systemd, as text.

use super::{Program, program, words};

/// Restrictions of the process. Restrictions that need a mount name space (`PrivateTmp`,
/// `ProtectSystem`, …) are left out: the socket in /tmp must be visible to other programs, and some
/// systems do not let users make name spaces.
const HARDENING: &str = "\
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077
";

/// The key of the command. The colon turns off the expansion of variables.
const START: &str = "ExecStart=:";

/// The text of a unit that runs this program.
pub(super) fn write(program: &Program) -> String {
    let command: Vec<_> = words(program).map(|word| quoted(&word)).collect();
    format!(
        "# Written by `agent-relay service install`; `agent-relay service uninstall` removes it.
[Unit]
Description=Agent Relay: lets AI coding agents on this machine talk to each other
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
{START}{}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
TimeoutStopSec=20
{HARDENING}
[Install]
WantedBy=default.target
",
        command.join(" ")
    )
}

/// The program that a unit in the form of [`write`] runs.
pub(super) fn read(unit: &str) -> Option<Program> {
    let line = unit.lines().find_map(|line| line.strip_prefix(START))?;
    let mut all = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (word, after) = unquoted(rest)?;
        all.push(word);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    program(all)
}

/// A quoted word of a systemd command line, with `%` doubled, since it introduces specifiers.
fn quoted(word: &str) -> String {
    let mut quoted = String::from('"');
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' => quoted.push_str("%%"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// The first word, and the rest of the text.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut characters = text.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => return Some((word, characters.as_str())),
            '\\' => word.push(characters.next()?),
            '%' => word.push(characters.next().filter(|&next| next == '%')?),
            character => word.push(character),
        }
    }
}
