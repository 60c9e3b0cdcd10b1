//! Message texts that the shells of every system pass, as docs/CONFIGURATION.md shows, and homes
//! with unusual characters in their paths, such as those in people's names.

use crate::{
    commands::{DONE, FAILED, err, known, out, run, run_with},
    wrap::fullscreen,
};
use platform::{endpoint::Endpoint, transport::Stream};
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    fs,
    path::{self, Path, PathBuf},
    process::{Command, Output, Stdio},
};
use testkit::{
    raw::Raw,
    sandbox::Sandbox,
    waiting::{not_tried, output, until},
};

const RELAY: &str = env!("CARGO_BIN_EXE_agent-relay");

#[test]
fn body_is_the_same_in_every_encoding() {
    let sandbox = known(&["Bob"]);
    let body = "Gr\u{fc}\u{df}e\r\nan alle \u{1f600}\r\n";
    let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
    };
    let written = [
        body.replace('\r', "").into_bytes(),
        body.as_bytes().to_vec(),
        format!("\u{feff}{body}").into_bytes(),
        utf_16(body, u16::to_le_bytes),
        utf_16(body, u16::to_be_bytes),
    ];
    let file = sandbox.directory().join("Gr\u{fc}\u{df}e an alle.txt");
    for bytes in &written {
        run_with(&sandbox, &["send", "Bob", "-"], bytes, DONE);
        fs::write(&file, bytes).unwrap();
        run(&sandbox, &["send", "Bob", "--file", file.to_str().unwrap()], DONE);
    }
    let bodies = received(&sandbox, written.len() * 2);
    assert!(bodies.iter().all(|text| *text == body.replace('\r', "")), "{bodies:?}");
}

#[test]
fn undecodable_body_is_refused_with_a_remedy() {
    let sandbox = known(&["Bob"]);
    for (bytes, why) in [
        (&b"Gr\x81\xe1e"[..], "it is not UTF-8"),
        (b"\xff\xfeG\0r", "it begins as UTF-16 and is not"),
    ] {
        for line in [&["send", "Bob", "-"], &["ask", "Bob", "-"]] {
            let refused = err(&run_with(&sandbox, line, bytes, FAILED));
            let words = format!(
                "standard input is not sent, since {why}; `agent-relay help send` shows how to give a \
                 text\n"
            );
            assert!(refused.ends_with(&words), "{refused}");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
    }
}

#[test]
fn files_of_the_home_are_read_in_every_encoding() {
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let config = "heartbeat_ms = 1\r\n";
    for bytes in [
        format!("\u{feff}{config}").into_bytes(),
        format!("\u{feff}{config}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
    ] {
        fs::write(sandbox.home().join("config.toml"), bytes).unwrap();
        let refused = err(&run(&sandbox, &["up"], FAILED));
        assert!(refused.contains("config.toml:1: "), "{refused}");
        assert!(refused.contains("heartbeat_ms"), "{refused}");
    }
}

#[test]
fn documented_examples_work_in_the_system_shell() {
    match env::var("ComSpec") {
        Ok(cmd) => Example::new("bat").works(&cmd, &["/d", "/c"], "\r\n"),
        Err(_) => Example::new("sh").works("bash", &["-e"], "\n"),
    }
}

#[test]
fn documented_examples_work_in_git_bash() {
    let Some(programs) = env::var_os("ProgramFiles") else {
        return eprintln!("not tried: only Windows has Git Bash");
    };
    let bash = Path::new(&programs).join(r"Git\bin\bash.exe");
    match bash.exists() {
        true => Example::new("sh").works(bash.to_str().unwrap(), &["-e"], "\n"),
        false => not_tried("there is no Git Bash"),
    }
}

#[test]
fn documented_examples_work_in_powershell() {
    let example = Example::new("powershell");
    for shell in power_shells() {
        example.works(shell, &POWER_SHELL_FILE, "\r\n");
    }
}

#[test]
fn powershell_completes_commands_and_options() {
    for shell in power_shells() {
        let sandbox = Sandbox::empty();
        let script = sandbox.directory().join("completed.ps1");
        let completions = out(&run(&sandbox, &["completions", "powershell"], DONE));
        let asked = [
            "agent-relay dem",
            "agent-relay send --to",
            "agent-relay send --topic=a ",
            "agent-relay completions pow",
        ];
        let asked = asked.map(|line| {
            format!("(TabExpansion2 '{line}' {}).CompletionMatches.CompletionText", line.len())
        });
        fs::write(&script, completions + &asked.join("\n")).unwrap();
        let mut command = sandbox.program(shell);
        command.env("PATH", path_with_relay());
        command.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text());
        command.env("AGENT_RELAY_HOME", sandbox.home());
        let completed = output({
            command.args(POWER_SHELL_FILE).arg(script);
            command
        });
        let lines = out(&completed);
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            ["demo", "--topic", "'*'", "powershell"],
            "{completed:?}"
        );
    }
}

/// The search path with the folder of this `agent-relay` first.
pub(crate) fn path_with_relay() -> OsString {
    let folder = path::absolute(Path::new(RELAY).parent().unwrap()).unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(folder).chain(env::split_paths(&path))).unwrap()
}

/// The arguments before the path of a script.
const POWER_SHELL_FILE: [&str; 5] =
    ["-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"];

/// Returns the installed PowerShells. Windows always has one.
fn power_shells() -> Vec<&'static str> {
    let mut shells = vec!["powershell", "pwsh"];
    shells.retain(|shell| {
        let start = Command::new(shell)
            .args(["-NoProfile", "-Command", "exit"])
            .stdin(Stdio::null())
            .output();
        start.is_ok_and(|ended| ended.status.success())
    });
    assert!(env::var_os("ComSpec").is_none() || !shells.is_empty(), "no PowerShell starts");
    if shells.is_empty() {
        eprintln!("not tried: there is no PowerShell, which only Windows always has");
    }
    shells
}

/// A block of docs/CONFIGURATION.md that shows how a shell passes a text.
struct Example {
    language: &'static str,
    lines: Vec<String>,
}

impl Example {
    fn new(language: &'static str) -> Self {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/CONFIGURATION.md");
        let document = fs::read_to_string(document).unwrap();
        let lines = document.lines().skip_while(|line| *line != format!("```{language}")).skip(1);
        let lines: Vec<_> = lines.take_while(|line| *line != "```").map(str::to_owned).collect();
        assert!(!lines.is_empty(), "CONFIGURATION.md has no example for {language}");
        Self { language, lines }
    }

    /// Runs the example, and checks the messages, which are the same for every shell.
    fn works(&self, shell: &str, arguments: &[&str], line_end: &str) {
        let sandbox = known(&["Bob"]);
        let extension = if self.language == "powershell" { "ps1" } else { self.language };
        let script = sandbox.directory().join(format!("example.{extension}"));
        fs::write(&script, self.lines.join(line_end) + line_end).unwrap();
        fs::write(sandbox.directory().join("report.txt"), "All is green.\n").unwrap();
        let mut command = sandbox.program(shell);
        command.env("PATH", path_with_relay());
        command.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text());
        command.env("AGENT_RELAY_HOME", sandbox.home());
        command.args(arguments).arg(script);
        let ended = output(command);
        assert!(ended.status.success(), "{ended:?}");
        let bodies = received(&sandbox, 3);
        assert_eq!(
            bodies,
            [
                "It costs $5 & more.",
                "Two lines,\nthe second with \"quotes\", $names and `backticks`.\n",
                "All is green.\n"
            ],
            "{ended:?}"
        );
    }
}

#[test]
fn home_path_may_have_blanks_and_umlauts() {
    let sandbox = Sandbox::empty();
    let home = sandbox.directory().join("Zo\u{eb} M\u{fc}ller \u{5c71}");
    let data = sandbox.directory().to_owned();
    let relay = Away { sandbox: &sandbox, data, home: Some(home), endpoint: sandbox.endpoint() };
    relay.keeps_mail();
    relay.run(&["spawn", "Ann", "--", &fullscreen()]);
    until("she is here", || out(&relay.run(&["agents", "--json"])).contains(r#""name":"Ann""#));
    relay.run(&["hold", "Ann"]);
    relay.run(&["stop", "Ann"]);
}

#[test]
fn home_path_may_be_long() {
    let sandbox = Sandbox::empty();
    let mut data = sandbox.directory().to_owned();
    while data.as_os_str().len() < 300 {
        data.push("a folder with a name of s\u{f6}me length");
    }
    fs::create_dir_all(&data).unwrap();
    let relay = Away { sandbox: &sandbox, data, home: None, endpoint: sandbox.endpoint() };
    relay.keeps_mail();
    let status: Value = serde_json::from_slice(&relay.run(&["status", "--json"]).stdout).unwrap();
    let home = PathBuf::from(status["status"]["daemon"]["home"].as_str().unwrap());
    assert!(home.starts_with(&relay.data) && home.join("relay.db").exists(), "{home:?}");
}

/// An endpoint of the longest length that the system allows works, and a longer one is refused in
/// one line.
#[test]
fn endpoint_may_have_blanks_umlauts_and_the_longest_name() {
    let sandbox = Sandbox::empty();
    let directory = sandbox.directory().join("Zo\u{eb} M\u{fc}ller \u{5c71}");
    fs::create_dir(&directory).unwrap();
    let named = |length| Endpoint::inside(&directory, &"r".repeat(length));
    let longest = (1..1_000).find(|length| named(*length + 1).is_err()).unwrap();
    for length in [1, longest] {
        let (endpoint, data) = (named(length).unwrap(), sandbox.directory().to_owned());
        let relay = Away { sandbox: &sandbox, data, home: None, endpoint };
        relay.keeps_mail();
    }
    let endpoint = named(longest).unwrap();
    for excess in [1, 100] {
        let mut up = sandbox.program(RELAY);
        up.args(["--endpoint", &(endpoint.as_text().to_owned() + &"x".repeat(excess)), "up"]);
        let refused = output(up);
        let printed = err(&refused);
        assert!(!refused.status.success() && printed.lines().count() == 1, "{refused:?}");
        assert!(printed.contains("this system's limit") && printed.contains("choose"), "{printed}");
    }
}

/// An environment of commands with its own data directory. Dropping it stops the daemon.
struct Away<'a> {
    sandbox: &'a Sandbox,
    data: PathBuf,
    /// The home that `--home` names, or `None` for the default home.
    home: Option<PathBuf>,
    endpoint: Endpoint,
}

impl Away<'_> {
    /// Checks that a message survives a restart of the daemon, is found, and is delivered.
    fn keeps_mail(&self) {
        self.run(&["up"]);
        Raw::over(Stream::connect(&self.endpoint).unwrap()).hello("Bob");
        let note = self.data.join("a note.txt");
        fs::write(&note, "from far away").unwrap();
        self.run(&["send", "Bob", "--file", note.to_str().unwrap()]);
        self.run(&["down"]);
        self.run(&["up"]);
        let found = self.run(&["history", "--search", "far"]);
        assert!(out(&found).contains("from far away"), "{found:?}");
        let mail = self.run(&["listen", "--as", "Bob", "--count", "1"]);
        assert!(out(&mail).ends_with("from far away\n"), "{mail:?}");
        let doctor = self.output(&["doctor", "--json"]);
        assert!(!out(&doctor).contains(r#""state":"fail""#), "{doctor:?}");
    }

    fn output(&self, line: &[&str]) -> Output {
        let mut command = self.sandbox.program(RELAY);
        for name in ["HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_STATE_HOME"] {
            command.env(name, &self.data);
        }
        if let Some(home) = &self.home {
            command.arg("--home").arg(home);
        }
        command.arg("--endpoint").arg(self.endpoint.as_text()).args(line);
        output(command)
    }

    #[track_caller]
    fn run(&self, line: &[&str]) -> Output {
        let ended = self.output(line);
        if !ended.status.success() {
            let log = self.home.as_ref().map(|home| fs::read_to_string(home.join("daemon.log")));
            panic!("{line:?}: {ended:?}; the daemon's log: {log:?}");
        }
        ended
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.output(&["down"]);
    }
}

/// Receives messages as Bob. Returns their bodies.
fn received(sandbox: &Sandbox, count: usize) -> Vec<String> {
    let line = ["listen", "--as", "Bob", "--count", &count.to_string(), "--json"];
    let received = out(&run(sandbox, &line, DONE));
    let bodies = received.lines().map(|line| {
        let deliver: Value = serde_json::from_str(line).unwrap();
        deliver["payload"]["body"].as_str().unwrap().to_owned()
    });
    bodies.collect()
}
