//! Completion in the real shells, typed into a terminal as a person does.

use crate::{
    commands::{DONE, known, out, run},
    shells::path_with_relay,
};
use platform::process::SYSTEM;
use std::{
    fs,
    process::{Command, Stdio},
};
use testkit::{
    sandbox::Sandbox,
    terminal::{SIZE, Terminal, environment},
    waiting::{not_tried, output, until},
};

const RELAY: &str = env!("CARGO_BIN_EXE_agent-relay");

/// A topic that runs a command, if a shell takes it for code.
const HOSTILE: &str = "x $(touch pwned)`touch pwned`y";

/// Keys, and the words of the line that they complete.
const CASES: [(&str, &str); 19] = [
    ("agent-relay rede\t", "<redeliver>"),
    ("agent-relay clau\t", "<claude>"),
    ("agent-relay -n Zed cod\t", "<-n><Zed><codex>"),
    ("agent-relay send Bo\t", "<send><Bob>"),
    ("agent-relay send Ann,Bo\t", "<send><Ann,Bob>"),
    ("agent-relay send \"Bo\t", "<send><Bob>"),
    ("agent-relay stop @rev\t", "<stop><@reviewers>"),
    ("agent-relay send Bob \t", "<send><Bob>"),
    ("agent-relay send --as=An\t", "<send><--as=Ann>"),
    ("agent-relay send --topic bui\t", "<send><--topic><build:main>"),
    ("agent-relay send --topic build:m\t", "<send><--topic><build:main>"),
    ("agent-relay send --topic=build:m\t", "<send><--topic=build:main>"),
    ("agent-relay send --topic x\t", "<send><--topic><x $(touch pwned)`touch pwned`y>"),
    ("agent-relay send --file=repo\t", "<send><--file=report.txt>"),
    ("agent-relay send --file repo\t", "<send><--file><report.txt>"),
    ("agent-relay --vers\t", "<--version>"),
    ("agent-relay run -n Zed -- agent-relay-wr\t", "<run><-n><Zed><--><agent-relay-wrap>"),
    ("agent-relay run -n Zed -- tool com\t", "<run><-n><Zed><--><tool><commit>"),
    ("agent-relay run Zed tool pu\t", "<run><Zed><tool><push>"),
];

#[test]
fn bash_completes_names_from_the_daemon() {
    let startup = r#"
        PS1='$ '
        p() { printf '<%s>' "$@"; echo; }
        _tool() { COMPREPLY=($(compgen -W 'commit push' -- "$2")); }
        complete -F _tool tool
    "#;
    completes("bash", &["--noprofile", "--rcfile", "startup", "-i"], "startup", startup);
}

#[test]
fn zsh_completes_names_from_the_daemon() {
    let startup = r#"
        PS1='$ '
        bindkey -e
        p() { printf '<%s>' "$@"; echo; }
        _tool() { compadd commit push }
        compdef _tool tool
    "#;
    completes("zsh", &["-i"], ".zshrc", startup);
}

#[test]
fn fish_completes_names_from_the_daemon() {
    let startup = r"
        set -g fish_greeting
        function fish_prompt; printf '$ '; end
        function p; printf '<%s>' $argv; echo; end
        complete -c tool -f -a 'commit push'
    ";
    completes("fish", &["-i"], ".config/fish/config.fish", startup);
}

/// Types each of [`CASES`] into a shell that reads `startup` from a file in its home.
fn completes(shell: &str, arguments: &[&str], file: &str, startup: &str) {
    let found = Command::new(shell).args(["-c", "exit"]).stdin(Stdio::null()).status();
    if SYSTEM == "windows" || !found.is_ok_and(|ended| ended.success()) {
        return not_tried(&format!("there is no {shell}"));
    }
    let sandbox = known(&["Ann", "Bob"]);
    run(&sandbox, &["send", "--topic", "build:main", "Bob", HOSTILE], DONE);
    run(&sandbox, &["send", "--topic", HOSTILE, "Bob", "\u{1b}]0;title\u{7}"], DONE);
    fs::write(sandbox.directory().join("report.txt"), "").unwrap();
    let team = r#"{"file": "/x", "agreed": "", "is_up": true, "agents": [
        {"name": "Bob", "directory": "/x", "worktree": null, "groups": ["reviewers"]}]}"#;
    platform::paths::make_private_dir(&sandbox.home().join("teams")).unwrap();
    fs::write(sandbox.home().join("teams/x.json"), team).unwrap();
    let completions = out(&run(&sandbox, &["completions", shell], DONE));
    let first = if shell == "zsh" { "autoload -U compinit; compinit -u -D\n" } else { "" };
    let file = sandbox.directory().join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{first}{completions}\n{startup}")).unwrap();

    let mut environment = environment(&sandbox);
    environment.push(("PATH".into(), Some(path_with_relay())));
    environment.push(("ZDOTDIR".into(), Some(sandbox.directory().into())));
    environment.push(("XDG_CONFIG_HOME".into(), Some(sandbox.directory().join(".config").into())));
    let command: Vec<_> = std::iter::once(&shell).chain(arguments).collect();
    let mut terminal = Terminal::start(&command, &environment, sandbox.directory(), SIZE);
    terminal.wait_until("a prompt", is_prompt);
    for (keys, words) in CASES {
        let typed = keys.trim_end_matches('\t');
        let unchanged = format!("$ {typed}");
        // Nothing completes a body, which would be the word after a blank.
        complete(&mut terminal, keys, |line, _| line != unchanged || typed.ends_with(' '));
        // The line becomes the arguments of `p`, which shows its words.
        terminal.press("\u{1}p \u{5}\r");
        let row = format!("<agent-relay>{words}");
        terminal.wait_for_row(&row);
        terminal.press("clear\r");
        terminal.wait_until("a prompt on an empty screen", is_prompt);
    }
    // Bash shows no descriptions.
    let shown = if shell == "bash" { "\n" } else { "@operator -> Bob on build:main" };
    complete(&mut terminal, "agent-relay status \t\t", |_, printed| printed.contains(shown));
    assert!(!sandbox.directory().join("pwned").exists());
}

/// Whether the screen shows a prompt and nothing else. A shell may lose keys that come before its
/// prompt.
fn is_prompt(screen: &str) -> bool {
    screen.trim_end() == "$"
}

/// Types keys into an empty line until `is_offered` is true of the completed line and of all that
/// was printed. On a busy machine, completion may give up before the daemon answers.
fn complete(terminal: &mut Terminal, keys: &str, is_offered: impl Fn(&str, &str) -> bool) {
    until("something is offered", || {
        // The mark is shown when the shell has completed the line.
        terminal.press(&format!("{keys}#"));
        let line =
            |screen: &str| screen.lines().find_map(|row| row.strip_suffix('#')).map(str::to_owned);
        terminal.wait_until("the completed line", |screen| line(screen).is_some());
        let line = line(&terminal.text()).unwrap();
        let offered = is_offered(&line, &String::from_utf8_lossy(&terminal.bytes()));
        // The mark is erased, or the line.
        terminal.press(if offered { "\u{7f}" } else { "\u{15}" });
        terminal.wait_until("the mark's end", |screen| !screen.contains('#'));
        offered
    });
}

/// Returns the candidates for a line.
fn candidates(sandbox: &Sandbox, words: &[&str]) -> String {
    let mut command = sandbox.program(RELAY);
    command.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text());
    command.env("AGENT_RELAY_HOME", sandbox.home());
    command.args(["--as-agent-relay", "complete", "plain"]).args(words);
    let ended = output(command);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    out(&ended)
}

/// Returns the candidates for a line, and retries while only the candidates without a daemon are
/// offered.
fn candidates_of_daemon(sandbox: &Sandbox, words: &[&str]) -> String {
    let mut found = String::new();
    until("the daemon has answered", || {
        found = candidates(sandbox, words);
        !["words\n", "words\n*\tall agents\n"].contains(&&*found)
    });
    found
}

#[test]
fn completion_starts_no_daemon() {
    let sandbox = Sandbox::empty();
    assert_eq!(candidates(&sandbox, &["send", ""]), "words\n*\tall agents\n");
    assert_eq!(candidates(&sandbox, &["status", ""]), "words\n");
    assert!(!sandbox.home().exists());
}

#[test]
fn candidates_are_described() {
    let sandbox = known(&["Ann", "Bob"]);
    run(&sandbox, &["send", "Bob", "a\tb\u{1b}[31m\nc"], DONE);
    let agents = candidates_of_daemon(&sandbox, &["send", ""]);
    assert_eq!(agents, "words\nAnn\taway\nBob\taway, 1 message waiting\n*\tall agents\n");
    let ids = candidates_of_daemon(&sandbox, &["read", ""]);
    let (id, text) = ids.lines().nth(1).unwrap().split_once('\t').unwrap();
    assert!(id.len() == 8 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{ids}");
    assert_eq!(text, "@operator -> Bob: a b\\u{1b}[31m c");
    assert_eq!(candidates_of_daemon(&sandbox, &["purge", "--forget", "a"]), "words\nAnn\taway\n");
    assert_eq!(candidates(&sandbox, &["attach", ""]), "words\n");
}
