//! A real CLI, as `ci/agents` installs it, in a terminal: bare, or in the wrapper.

use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{self, Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use terminal::screen::Screen;
use testkit::{
    model::Model,
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{WATCHDOG, output, until},
};

/// An API key that is not valid for any service.
const KEY: &str = "sk-ant-api03-a-key-that-opens-nothing-at-all-0123456789";

/// How long the screen must stay unchanged before a key that matters.
///
/// A CLI takes an Enter soon after a paste as part of the paste, and ignores a key soon after a
/// dialog has appeared.
const STILL: Duration = Duration::from_millis(250);

/// The interval between checks of the screen.
const POLL: Duration = Duration::from_millis(10);

/// How long a CLI may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A CLI that these tests know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cli {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Qwen,
    Copilot,
}

impl Cli {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
        }
    }

    /// The arguments that resume the latest conversation of the folder.
    pub(crate) fn resume_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Claude | Self::Opencode | Self::Qwen | Self::Copilot => &["--continue"],
            Self::Codex => &["resume", "--last"],
            Self::Gemini => &["--resume", "latest"],
        }
    }

    /// Panics, since the calling test does not know this CLI.
    #[track_caller]
    pub(crate) fn is_unknown_here(self) -> ! {
        panic!("this test does not know {}", self.name())
    }

    /// The installed versions: the pinned one, then the current one if it differs.
    pub(crate) fn programs(self) -> Vec<PathBuf> {
        let modules = installed().join("node_modules");
        let mut programs = vec![modules.join(".bin").join(self.name())];
        if self == Self::Claude {
            programs.push(modules.join("claude-code-current/bin/claude.exe"));
        }
        for program in &programs {
            assert!(program.exists(), "{} is missing: run ci/agents", program.display());
        }
        programs
    }

    /// The version that most tests use.
    fn usual_program(self) -> PathBuf {
        let programs = self.programs();
        let index = if env::var_os("AGENT_RELAY_AGENTS_CURRENT").is_some() {
            programs.len() - 1
        } else {
            0
        };
        programs[index].clone()
    }

    /// Whether the composer is empty and no sign of work is on the screen.
    pub(crate) fn is_idle(self, screen: &Screen) -> bool {
        let composer = screen.row(screen.cursor().row).text;
        let is_empty = match self {
            Self::Claude => composer.trim_end() == "❯",
            Self::Codex => composer.starts_with("› Ask Codex to do"),
            Self::Gemini => composer.starts_with(" >   Type your message"),
            // The placeholder is gone after the first prompt.
            Self::Opencode => {
                let composer = composer.trim();
                composer == "┃" || composer.starts_with("┃  Ask anything…")
            }
            Self::Qwen => composer.starts_with(">   Type your message"),
            Self::Copilot => composer.trim_end() == "❯" && screen.text().contains("? help"),
        };
        is_empty && !self.is_busy(screen)
    }

    /// Whether a sign of work is on the screen.
    pub(crate) fn is_busy(self, screen: &Screen) -> bool {
        let signs: &[_] = match self {
            Self::Claude | Self::Codex => &["esc to interrupt"],
            Self::Gemini => &["esc to cancel"],
            Self::Opencode => &["esc interrupt", "esc again to interrupt", self.permission().0],
            Self::Qwen => &["esc to cancel)"],
            Self::Copilot => &["esc esc interrupt", "esc again to interrupt"],
        };
        let text = screen.text();
        signs.iter().any(|sign| text.contains(sign))
    }

    /// The CLI's question before it runs a command, and the key that allows the command once.
    pub(crate) fn permission(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("Do you want to proceed?", "1"),
            Self::Codex => ("Would you like to run the following command?", "y"),
            Self::Gemini | Self::Qwen => ("Allow execution of", "1"),
            Self::Opencode => ("△ Permission required", "\r"),
            Self::Copilot => ("Do you want to run this command?", "1"),
        }
    }
}

/// A home directory with settings, a project directory and an environment for one CLI.
pub(crate) struct Workspace<'a> {
    pub(crate) cli: Cli,
    sandbox: &'a Sandbox,
    directory: PathBuf,
    program: PathBuf,
    env: Vec<(OsString, Option<OsString>)>,
    /// Whether Codex may start its own daemon. Dropping the workspace kills it.
    has_daemon: bool,
}

impl<'a> Workspace<'a> {
    /// Creates a workspace in the folder `name` of the sandbox.
    pub(crate) fn new(sandbox: &'a Sandbox, cli: Cli, model: &Model, name: &str) -> Self {
        Self::with_settings(sandbox, cli, model, name, false)
    }

    /// Creates a workspace that lets Codex start its own daemon, as it does by default.
    pub(crate) fn with_daemon(sandbox: &'a Sandbox, cli: Cli, model: &Model, name: &str) -> Self {
        Self::with_settings(sandbox, cli, model, name, true)
    }

    fn with_settings(
        sandbox: &'a Sandbox,
        cli: Cli,
        model: &Model,
        name: &str,
        has_daemon: bool,
    ) -> Self {
        let directory = sandbox.directory().join(name);
        let program = cli.usual_program();
        let mut workspace = Self { cli, sandbox, directory, program, env: Vec::new(), has_daemon };
        for folder in [workspace.user_home(), workspace.project()] {
            fs::create_dir_all(folder).unwrap();
        }
        let settings = match cli {
            Cli::Claude => workspace.claude_settings().to_string(),
            Cli::Codex => workspace.codex_settings(model),
            Cli::Gemini => gemini_settings().to_string(),
            Cli::Opencode => opencode_settings(model).to_string(),
            Cli::Qwen => qwen_settings().to_string(),
            Cli::Copilot => json!({"trustedFolders": [workspace.project()]}).to_string(),
        };
        let file = workspace.settings_file();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, settings).unwrap();
        workspace.env = workspace.environment(model);
        workspace
    }

    /// The file with the settings of the CLI's user.
    fn settings_file(&self) -> PathBuf {
        self.user_home().join(match self.cli {
            Cli::Claude => ".claude.json",
            Cli::Codex => ".codex/config.toml",
            Cli::Gemini => ".gemini/settings.json",
            Cli::Opencode => ".config/opencode/opencode.json",
            Cli::Qwen => ".qwen/settings.json",
            Cli::Copilot => ".copilot/config.json",
        })
    }

    /// Sets members of settings in JSON.
    pub(crate) fn extend_settings(&self, more: Value) {
        let Value::Object(more) = more else { panic!("{more} is no object") };
        let settings = fs::read(self.settings_file()).unwrap();
        let mut settings: Value = serde_json::from_slice(&settings).unwrap();
        settings.as_object_mut().unwrap().extend(more);
        fs::write(self.settings_file(), settings.to_string()).unwrap();
    }

    /// Changes the settings so that the CLI asks at its start whether to trust the folder.
    pub(crate) fn ask_for_trust(&self) {
        let (trusted, untrusted) = match self.cli {
            Cli::Claude => ("DialogAccepted\":true", "DialogAccepted\":false"),
            Cli::Gemini => ("Trust\":{\"enabled\":false", "Trust\":{\"enabled\":true"),
            _ => self.cli.is_unknown_here(),
        };
        let file = self.settings_file();
        let settings = fs::read_to_string(&file).unwrap();
        assert!(settings.contains(trusted), "{settings}");
        fs::write(file, settings.replace(trusted, untrusted)).unwrap();
    }

    /// The home directory of the CLI's user.
    pub(crate) fn user_home(&self) -> PathBuf {
        self.directory.join("person")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    /// Starts the CLI without the wrapper.
    pub(crate) fn start(&self, size: Size, arguments: &[&str]) -> Agent {
        self.run(Vec::new(), size, arguments)
    }

    /// Starts the CLI in the wrapper, as an agent of the sandbox's daemon.
    pub(crate) fn wrap(&self, name: &str, size: Size, arguments: &[&str]) -> Agent {
        self.wrap_with(&["-n", name], size, arguments)
    }

    /// Starts the CLI in the wrapper with other options of `run`.
    pub(crate) fn wrap_with(&self, options: &[&str], size: Size, arguments: &[&str]) -> Agent {
        let relay = relay();
        let brief: &[&str] = if options.contains(&"--brief") { &[] } else { &["--no-brief"] };
        let words = ["run"].iter().chain(options).chain(brief).chain(&["--"]).map(OsString::from);
        self.run([relay.into_os_string()].into_iter().chain(words).collect(), size, arguments)
    }

    /// Starts the CLI in the background, and attaches a terminal to it. `agent-relay stop` ends the
    /// CLI.
    #[track_caller]
    pub(crate) fn spawn(&self, name: &str, size: Size) -> Agent {
        let relay = relay();
        let mut spawn = self.command(&relay);
        spawn.args(["spawn", name, "--no-brief", "--"]).arg(&self.program);
        let spawned = output(spawn);
        assert!(spawned.status.success(), "{spawned:?}");
        self.attach(name, size)
    }

    /// Attaches a terminal to an agent in the background.
    pub(crate) fn attach(&self, name: &str, size: Size) -> Agent {
        let relay = relay();
        let attach = [relay.as_os_str(), "attach".as_ref(), name.as_ref()];
        let terminal = Terminal::start(&attach, &self.env, &self.project(), size);
        Agent { cli: self.cli, terminal }
    }

    /// Restarts an agent that has ended. Returns the command's output.
    #[track_caller]
    pub(crate) fn restore(&self, name: &str) -> String {
        let relay = relay();
        let mut restore = self.command(&relay);
        restore.args(["restore", name]);
        let restored = output(restore);
        assert!(restored.status.success(), "{restored:?}");
        String::from_utf8(restored.stdout).unwrap()
    }

    /// A command in the workspace's environment and project.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(self.project());
        command
    }

    /// Replaces the version of the CLI.
    pub(crate) fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Adds a variable to the environment.
    pub(crate) fn set(&mut self, name: &str, value: &OsStr) {
        self.env.push((name.into(), Some(value.to_owned())));
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Starts any command in the wrapper, as Ann, with the workspace's environment.
    pub(crate) fn wrap_command(&self, command: &[&OsStr], size: Size) -> Agent {
        let relay = relay();
        let words = ["run", "-n", "Ann", "--no-brief", "--"].map(OsString::from);
        let line = [relay.into_os_string()].into_iter().chain(words);
        self.start_line(&line.chain(command.iter().map(OsString::from)).collect::<Vec<_>>(), size)
    }

    fn run(&self, mut command: Vec<OsString>, size: Size, arguments: &[&str]) -> Agent {
        command.push(self.program.clone().into_os_string());
        command.extend(arguments.iter().map(OsString::from));
        self.start_line(&command, size)
    }

    fn start_line(&self, command: &[OsString], size: Size) -> Agent {
        let terminal = Terminal::start(command, &self.env, &self.project(), size);
        Agent { cli: self.cli, terminal }
    }

    /// The workspace's variables, and a removal for each variable of this process.
    fn environment(&self, model: &Model) -> Vec<(OsString, Option<OsString>)> {
        let removed = env::vars_os().map(|(name, _)| (name, None));
        let (url, versioned) = (model.url(), format!("{}/v1", model.url()));
        let cache = installed().join("cache");
        let (user_home, relay_home) = (self.user_home(), self.sandbox.home());
        let endpoint = self.sandbox.endpoint();
        let path = search_path();
        let all: [(&str, &OsStr); 8] = [
            ("PATH", &path),
            ("HOME", user_home.as_ref()),
            ("TERM", "xterm-256color".as_ref()),
            ("COLORTERM", "truecolor".as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("SHELL", "/bin/bash".as_ref()),
            ("AGENT_RELAY_ENDPOINT", endpoint.as_text().as_ref()),
            ("AGENT_RELAY_HOME", relay_home.as_ref()),
        ];
        let own: &[(&str, &OsStr)] = match self.cli {
            Cli::Claude => &[
                ("ANTHROPIC_BASE_URL", url.as_ref()),
                ("ANTHROPIC_API_KEY", KEY.as_ref()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".as_ref()),
                // Claude Code would clone the marketplace with git.
                ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1".as_ref()),
            ],
            Cli::Codex => &[("MODEL_KEY", KEY.as_ref())],
            Cli::Gemini => {
                &[("GOOGLE_GEMINI_BASE_URL", url.as_ref()), ("GEMINI_API_KEY", KEY.as_ref())]
            }
            Cli::Opencode => &[
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".as_ref()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".as_ref()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".as_ref()),
            ],
            Cli::Qwen => &[
                ("OPENAI_BASE_URL", versioned.as_ref()),
                ("OPENAI_API_KEY", KEY.as_ref()),
                ("OPENAI_MODEL", "scripted".as_ref()),
            ],
            Cli::Copilot => &[
                // The folder where Copilot has unpacked itself.
                ("XDG_CACHE_HOME", cache.as_ref()),
                ("COPILOT_AUTO_UPDATE", "false".as_ref()),
                ("COPILOT_OFFLINE", "true".as_ref()),
                ("COPILOT_PROVIDER_BASE_URL", versioned.as_ref()),
                ("COPILOT_PROVIDER_API_KEY", KEY.as_ref()),
                ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "100000".as_ref()),
                ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "10000".as_ref()),
                ("COPILOT_MODEL", "scripted".as_ref()),
            ],
        };
        let set = all.iter().chain(own);
        removed.chain(set.map(|&(name, value)| (name.into(), Some(value.to_owned())))).collect()
    }

    fn claude_settings(&self) -> Value {
        let project = self.project();
        json!({
            "hasCompletedOnboarding": true,
            "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
            "projects": {project.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
        })
    }

    /// Codex's settings. They disable Codex's own daemon unless a test needs it: the daemon
    /// outlives Codex, and its executable is a copy of 300 MB in the workspace.
    fn codex_settings(&self, model: &Model) -> String {
        format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\
             check_for_update_on_startup = false\nfeatures.daemon_auto_start = {}\n\
             [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"MODEL_KEY\"\n\
             [projects.{:?}]\ntrust_level = \"trusted\"\n",
            self.has_daemon,
            model.url(),
            self.project()
        )
    }
}

fn gemini_settings() -> Value {
    json!({
        "security": {
            "auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false},
        },
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
    })
}

fn opencode_settings(model: &Model) -> Value {
    let models = json!({"scripted": {
        "name": "Scripted", "tool_call": true, "limit": {"context": 100_000, "output": 10_000},
    }});
    let options = json!({"baseURL": format!("{}/v1", model.url()), "apiKey": KEY});
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Scripted", "options": options, "models": models,
    });
    json!({
        "autoupdate": false, "share": "disabled", "enabled_providers": ["scripted"],
        "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": {"scripted": provider}, "permission": {"bash": "ask", "edit": "ask"},
    })
}

fn qwen_settings() -> Value {
    json!({
        "$version": 4,
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": "scripted"},
        "tools": {"approvalMode": "default"},
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        // Otherwise Qwen Code asks the model outside the conversation.
        "memory": {"enableManagedAutoMemory": false, "enableManagedAutoDream": false},
        // The wrapper adds a member.
        "ui": {"hideTips": true},
    })
}

impl Drop for Workspace<'_> {
    /// Kills processes that run from this workspace and have outlived their terminal.
    fn drop(&mut self) {
        if !self.has_daemon {
            return;
        }
        let runs_from_here = |process: &Path| {
            fs::read_link(process.join("exe")).is_ok_and(|exe| exe.starts_with(&self.directory))
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        for process in processes.filter(|process| runs_from_here(process)) {
            let pid = process.file_name().unwrap();
            Command::new("kill").arg("-KILL").arg(pid).status().unwrap();
            until("the process has ended", || !runs_from_here(&process));
        }
    }
}

/// A running CLI. Dropping it ends the CLI and all its processes.
pub(crate) struct Agent {
    pub(crate) cli: Cli,
    pub(crate) terminal: Terminal,
}

impl Agent {
    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        self.terminal.wait_until_screen("an empty composer", |screen| self.cli.is_idle(screen));
    }

    /// Enters a text with [`Self::paste`], and submits it once the composer shows it.
    #[track_caller]
    pub(crate) fn submit(&mut self, text: &str) {
        self.paste(text);
        self.terminal.press("\r");
        self.ensure_submitted();
    }

    /// Presses Enter again until Gemini CLI has submitted the composer's text.
    #[track_caller]
    pub(crate) fn ensure_submitted(&mut self) {
        let end = Instant::now() + WATCHDOG;
        while self.cli == Cli::Gemini && !self.enter_submits() {
            assert!(Instant::now() < end, "no Enter submits:\n{}", self.terminal.text());
            self.terminal.press("\r");
        }
    }

    /// Whether the last Enter has submitted the text. Gemini CLI takes an Enter too soon after a
    /// paste as part of the paste.
    fn enter_submits(&self) -> bool {
        let end = Instant::now() + STILL * 8;
        let signs = [" >   Type your message", "(esc to cancel, ", self.cli.permission().0];
        while Instant::now() < end {
            let shown = self.terminal.text();
            if signs.iter().any(|sign| shown.contains(sign)) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    /// Pastes a text, and waits until the composer shows it. Types it into opencode, since opencode
    /// adds a blank to pasted text.
    #[track_caller]
    pub(crate) fn paste(&mut self, text: &str) {
        self.terminal.press(&match self.cli {
            Cli::Opencode => text.to_owned(),
            _ => format!("\x1b[200~{text}\x1b[201~"),
        });
        let pasted = |screen: &Screen| !self.cli.is_idle(screen);
        self.terminal.wait_until_screen("the pasted text", pasted);
        self.wait_until_still();
    }

    /// Types a command of the CLI itself, and waits after each key until the screen shows it.
    ///
    /// The CLI takes keys that arrive together for a paste and then shows other menu entries.
    #[track_caller]
    pub(crate) fn enter_command(&mut self, command: &str) {
        for (at, key) in command.char_indices() {
            self.terminal.press(&key.to_string());
            let typed = &command[..=at];
            self.terminal.wait_until_screen("the typed text", |screen| {
                screen.row(screen.cursor().row).text.trim_end().ends_with(typed)
            });
        }
        self.wait_until_still();
        self.terminal.press("\r");
    }

    /// Runs `action`. A panic prints the screen.
    pub(crate) fn with_screen_on_panic<T>(&self, action: impl FnOnce() -> T) -> T {
        self.with_details_on_panic(|| (), action)
    }

    /// Runs `action`. A panic prints the screen and then calls `details`.
    pub(crate) fn with_details_on_panic<T>(
        &self,
        details: impl Fn(),
        action: impl FnOnce() -> T,
    ) -> T {
        struct PrintOnPanic<'a, F: Fn()>(&'a Agent, F);
        impl<F: Fn()> Drop for PrintOnPanic<'_, F> {
            fn drop(&mut self) {
                if thread::panicking() {
                    eprintln!("{}", self.0.terminal.text());
                    (self.1)();
                }
            }
        }
        let _print = PrintOnPanic(self, details);
        action()
    }

    /// Waits for a question, and answers it with a key.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, key: &str) {
        self.terminal.wait_for(question);
        self.wait_until_still();
        self.terminal.press(key);
    }

    /// Takes the first conversation in a picker. The picker ignores Enter while it looks for more.
    #[track_caller]
    pub(crate) fn take_first_of(&mut self, picker: &str) {
        self.terminal.wait_for(picker);
        let end = Instant::now() + WATCHDOG;
        while self.terminal.text().contains(picker) {
            assert!(Instant::now() < end, "it stays open:\n{}", self.terminal.text());
            self.wait_until_still();
            self.terminal.press("\r");
            self.wait_until_still();
        }
    }

    /// Waits until the screen has not changed for [`STILL`].
    #[track_caller]
    pub(crate) fn wait_until_still(&self) {
        let end = Instant::now() + WATCHDOG;
        let (mut painted, mut since) = (0, Instant::now());
        while since.elapsed() < STILL {
            assert!(
                Instant::now() < end,
                "the screen never stays unchanged:\n{}",
                self.terminal.text()
            );
            thread::sleep(POLL);
            let now = self.terminal.bytes().len();
            if now != painted {
                (painted, since) = (now, Instant::now());
            }
        }
    }
}

impl Drop for Agent {
    /// Asks the process to end, so that a wrapper ends its command, and kills it after [`GRACE`].
    fn drop(&mut self) {
        self.terminal.pty.end(GRACE).ok();
    }
}

/// The path of `agent-relay`.
fn relay() -> PathBuf {
    path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap()
}

/// The folder of the CLIs that `ci/agents` has installed.
pub(crate) fn installed() -> PathBuf {
    let folder = env::var_os("AGENT_RELAY_AGENTS");
    let folder = folder.expect("AGENT_RELAY_AGENTS says where the CLIs are: run ci/agents");
    Path::new(&folder).to_owned()
}

/// A `PATH` with the CLIs, Node and the system's programs.
pub(crate) fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let node = env::split_paths(&path).find(|folder| folder.join("node").exists());
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let folders = [installed().join("node_modules/.bin")].into_iter().chain(node).chain(system);
    env::join_paths(folders).unwrap()
}
