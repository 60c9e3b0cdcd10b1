//! A real CLI, as `ci/agents` installs it, in a terminal: bare, or wrapped as a person would wrap it.

use crate::{
    model::Model,
    sandbox::{Sandbox, WATCHDOG, output, until},
    terminal::Terminal,
};
use agent_relay::bridge::screen::Screen;
use platform::pty::Size;
use serde_json::json;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{self, Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Proves nothing to anybody.
const KEY: &str = "sk-ant-api03-a-key-that-opens-nothing-at-all-0123456789";

/// So long the screen stands still before a key that matters. An Enter that comes sooner after a paste
/// is taken for a part of it, and a key that comes sooner after a dialog does nothing.
const GUARD: Duration = Duration::from_millis(250);

/// How often the screen is looked at for what does not come.
const LOOK: Duration = Duration::from_millis(10);

/// So long a CLI may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The CLIs that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Claude,
    Codex,
    Gemini,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Its versions that `ci/agents` installs: the pinned one, then the current one where that is
    /// another.
    pub(crate) fn programs(self) -> Vec<PathBuf> {
        let modules = installed().join("node_modules");
        let mut programs = vec![modules.join(".bin").join(self.name())];
        if self == Self::Claude {
            programs.push(modules.join("claude-code-current/bin/claude.exe"));
        }
        for program in &programs {
            assert!(program.exists(), "{} is not there: run ci/agents", program.display());
        }
        programs
    }

    /// The one that is tried where nothing else is said.
    fn usual_program(self) -> PathBuf {
        let programs = self.programs();
        let place = if env::var_os("AGENT_RELAY_AGENTS_CURRENT").is_some() {
            programs.len() - 1
        } else {
            0
        };
        programs[place].clone()
    }

    /// Where its composer stands empty, and nothing else goes on that it would show.
    pub(crate) fn is_idle(self, screen: &Screen) -> bool {
        let composer = screen.row(screen.cursor().row).text;
        let (empty, busy) = match self {
            Self::Claude => (composer.trim_end() == "❯", "esc to interrupt"),
            Self::Codex => (composer.starts_with("› Ask Codex to do"), "esc to interrupt"),
            Self::Gemini => (composer.starts_with(" >   Type your message"), "esc to cancel"),
        };
        empty && !screen.text().contains(busy)
    }

    /// How it begins to ask whether a command may run, and the key that says yes, once.
    pub(crate) fn permission(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("Do you want to proceed?", "1"),
            Self::Codex => ("Would you like to run the following command?", "y"),
            Self::Gemini => ("Allow execution of", "1"),
        }
    }
}

/// What a CLI finds when it starts: a home with its settings, a project, and a model.
pub(crate) struct Household<'a> {
    pub(crate) kind: Kind,
    sandbox: &'a Sandbox,
    directory: PathBuf,
    program: PathBuf,
    env: Vec<(OsString, Option<OsString>)>,
    /// Codex's daemon may be started, and ends with this value.
    has_daemon: bool,
}

impl<'a> Household<'a> {
    /// In a folder of the sandbox; the name is for those of which there are several.
    pub(crate) fn new(sandbox: &'a Sandbox, kind: Kind, model: &Model, name: &str) -> Self {
        Self::furnished(sandbox, kind, model, name, false)
    }

    /// The same, and Codex starts its daemon there, as it does by default.
    pub(crate) fn with_daemon(sandbox: &'a Sandbox, kind: Kind, model: &Model, name: &str) -> Self {
        Self::furnished(sandbox, kind, model, name, true)
    }

    fn furnished(
        sandbox: &'a Sandbox,
        kind: Kind,
        model: &Model,
        name: &str,
        has_daemon: bool,
    ) -> Self {
        let directory = sandbox.directory().join(name);
        let program = kind.usual_program();
        let mut household = Self { kind, sandbox, directory, program, env: Vec::new(), has_daemon };
        for folder in [household.person(), household.project()] {
            fs::create_dir_all(folder).unwrap();
        }
        let settings = match kind {
            Kind::Claude => household.claude_settings(),
            Kind::Codex => household.codex_settings(model),
            Kind::Gemini => household.gemini_settings(),
        };
        let (file, text) = settings;
        let file = household.person().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        household.env = household.environment(model);
        household
    }

    /// The CLI asks its person at the start whether this folder may be trusted.
    pub(crate) fn distrust_project(&self) {
        let (file, trusts, asks) = match self.kind {
            Kind::Claude => (".claude.json", "DialogAccepted\":true", "DialogAccepted\":false"),
            Kind::Codex => panic!("Codex asks nobody who has settings such as these"),
            Kind::Gemini => {
                (".gemini/settings.json", "Trust\":{\"enabled\":false", "Trust\":{\"enabled\":true")
            }
        };
        let file = self.person().join(file);
        let settings = fs::read_to_string(&file).unwrap();
        assert!(settings.contains(trusts), "{settings}");
        fs::write(file, settings.replace(trusts, asks)).unwrap();
    }

    /// The person's home.
    pub(crate) fn person(&self) -> PathBuf {
        self.directory.join("person")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    /// Starts the CLI by itself.
    pub(crate) fn start(&self, size: Size, arguments: &[&str]) -> Agent {
        self.run(Vec::new(), size, arguments)
    }

    /// Starts the CLI in the wrapper, as an agent of the sandbox's daemon.
    pub(crate) fn wrap(&self, name: &str, size: Size, arguments: &[&str]) -> Agent {
        self.wrap_with(&["-n", name], size, arguments)
    }

    /// The same with other options of `run`.
    pub(crate) fn wrap_with(&self, options: &[&str], size: Size, arguments: &[&str]) -> Agent {
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words = ["run"].iter().chain(options).chain(&["--"]).map(OsString::from);
        self.run([relay.into_os_string()].into_iter().chain(words).collect(), size, arguments)
    }

    /// Starts the CLI in the background, and gives what shows it. `stop` ends it.
    #[track_caller]
    pub(crate) fn spawn(&self, name: &str, size: Size) -> Agent {
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let mut spawn = Command::new(&relay);
        for (name, value) in &self.env {
            match value {
                Some(value) => spawn.env(name, value),
                None => spawn.env_remove(name),
            };
        }
        spawn.current_dir(self.project()).args(["spawn", name, "--"]).arg(&self.program);
        let spawned = output(spawn);
        assert!(spawned.status.success(), "{spawned:?}");
        let attach = [relay.as_os_str(), "attach".as_ref(), name.as_ref()];
        let terminal = Terminal::start(&attach, &self.env, &self.project(), size);
        Agent { kind: self.kind, terminal }
    }

    /// Another version than the usual one.
    pub(crate) fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// One more variable of its environment.
    pub(crate) fn set(&mut self, name: &str, value: &OsStr) {
        self.env.push((name.into(), Some(value.to_owned())));
    }

    /// What starts the CLI.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Starts any command in the wrapper, as Ann, with the environment that the CLI gets.
    pub(crate) fn wrap_command(&self, command: &[&OsStr], size: Size) -> Agent {
        let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let words = ["run", "-n", "Ann", "--"].map(OsString::from);
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
        Agent { kind: self.kind, terminal }
    }

    /// Nothing of this machine's but where programs are.
    fn environment(&self, model: &Model) -> Vec<(OsString, Option<OsString>)> {
        let taken = env::vars_os().map(|(name, _)| (name, None));
        let url = model.url();
        let (person, home) = (self.person(), self.sandbox.home());
        let endpoint = self.sandbox.endpoint();
        let path = search_path();
        let all: [(&str, &OsStr); 8] = [
            ("PATH", &path),
            ("HOME", person.as_ref()),
            ("TERM", "xterm-256color".as_ref()),
            ("COLORTERM", "truecolor".as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("SHELL", "/bin/bash".as_ref()),
            ("AGENT_RELAY_ENDPOINT", endpoint.as_text().as_ref()),
            ("AGENT_RELAY_HOME", home.as_ref()),
        ];
        let own: &[(&str, &OsStr)] = match self.kind {
            Kind::Claude => &[
                ("ANTHROPIC_BASE_URL", url.as_ref()),
                ("ANTHROPIC_API_KEY", KEY.as_ref()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".as_ref()),
                // It would be fetched with git.
                ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1".as_ref()),
            ],
            Kind::Codex => &[("MODEL_KEY", KEY.as_ref())],
            Kind::Gemini => {
                &[("GOOGLE_GEMINI_BASE_URL", url.as_ref()), ("GEMINI_API_KEY", KEY.as_ref())]
            }
        };
        let set = all.iter().chain(own);
        taken.chain(set.map(|&(name, value)| (name.into(), Some(value.to_owned())))).collect()
    }

    fn claude_settings(&self) -> (&'static str, String) {
        let project = self.project();
        let settings = json!({
            "hasCompletedOnboarding": true,
            "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
            "projects": {project.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
        });
        (".claude.json", settings.to_string())
    }

    /// The daemon that it starts otherwise outlives it, and has to be copied first, 300 MB.
    fn codex_settings(&self, model: &Model) -> (&'static str, String) {
        let settings = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\
             check_for_update_on_startup = false\nfeatures.daemon_auto_start = {}\n\
             [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"MODEL_KEY\"\n\
             [projects.{:?}]\ntrust_level = \"trusted\"\n",
            self.has_daemon,
            model.url(),
            self.project()
        );
        (".codex/config.toml", settings)
    }

    fn gemini_settings(&self) -> (&'static str, String) {
        let settings = json!({
            "security": {
                "auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false},
            },
            "general": {"enableAutoUpdate": false},
            "privacy": {"usageStatisticsEnabled": false},
        });
        (".gemini/settings.json", settings.to_string())
    }
}

impl Drop for Household<'_> {
    /// What runs out of this home, and has not ended with its terminal: it tells nobody that it is there.
    fn drop(&mut self) {
        if !self.has_daemon {
            return;
        }
        let is_of_here = |process: &Path| {
            fs::read_link(process.join("exe")).is_ok_and(|exe| exe.starts_with(&self.directory))
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        for process in processes.filter(|process| is_of_here(process)) {
            let pid = process.file_name().unwrap();
            Command::new("kill").arg("-KILL").arg(pid).status().unwrap();
            until("it has ended", || !is_of_here(&process));
        }
    }
}

/// A CLI that runs. It ends, with all that it has started, with this value.
pub(crate) struct Agent {
    pub(crate) kind: Kind,
    pub(crate) terminal: Terminal,
}

impl Agent {
    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        self.terminal.wait_until_screen("an empty composer", |screen| self.kind.is_idle(screen));
    }

    /// Pastes a text, and submits it once it stands in the composer.
    #[track_caller]
    pub(crate) fn submit(&mut self, text: &str) {
        self.paste(text);
        self.terminal.press("\r");
        self.see_enter_taken();
    }

    /// After an Enter that was to submit what stood in the composer.
    #[track_caller]
    pub(crate) fn see_enter_taken(&mut self) {
        let end = Instant::now() + WATCHDOG;
        while self.kind == Kind::Gemini && !self.takes_enter() {
            assert!(Instant::now() < end, "no Enter is taken:\n{}", self.terminal.text());
            self.terminal.press("\r");
        }
    }

    /// Whether the Enter was taken for one: where the CLI was late with what was pasted, it is a part of that.
    fn takes_enter(&self) -> bool {
        let end = Instant::now() + GUARD * 8;
        let signs = [" >   Type your message", "(esc to cancel, ", self.kind.permission().0];
        while Instant::now() < end {
            let shown = self.terminal.text();
            if signs.iter().any(|sign| shown.contains(sign)) {
                return true;
            }
            thread::sleep(LOOK);
        }
        false
    }

    /// Pastes a text, and waits until it stands in the composer.
    #[track_caller]
    pub(crate) fn paste(&mut self, text: &str) {
        self.terminal.press(&format!("\x1b[200~{text}\x1b[201~"));
        let pasted = |screen: &Screen| !self.kind.is_idle(screen);
        self.terminal.wait_until_screen("what was pasted", pasted);
        self.stand_still();
    }

    /// Types one of the CLI's own commands, each key when the one before is seen: what comes at once counts as
    /// pasted, and the menu is another text's then.
    #[track_caller]
    pub(crate) fn enter_command(&mut self, command: &str) {
        for (at, key) in command.char_indices() {
            self.terminal.press(&key.to_string());
            let typed = &command[..=at];
            self.terminal.wait_until_screen("what was typed", |screen| {
                screen.row(screen.cursor().row).text.trim_end().ends_with(typed)
            });
        }
        self.stand_still();
        self.terminal.press("\r");
    }

    /// Does something; a failure shows the screen.
    pub(crate) fn while_running<T>(&self, what: impl FnOnce() -> T) -> T {
        self.while_running_or(|| (), what)
    }

    /// The same, and tells more of a failure.
    pub(crate) fn while_running_or<T>(&self, tell: impl Fn(), what: impl FnOnce() -> T) -> T {
        struct Shown<'a, F: Fn()>(&'a Agent, F);
        impl<F: Fn()> Drop for Shown<'_, F> {
            fn drop(&mut self) {
                if thread::panicking() {
                    eprintln!("{}", self.0.terminal.text());
                    (self.1)();
                }
            }
        }
        let _shown = Shown(self, tell);
        what()
    }

    /// Answers what it asks.
    #[track_caller]
    pub(crate) fn answer(&mut self, question: &str, key: &str) {
        self.terminal.wait_for(question);
        self.stand_still();
        self.terminal.press(key);
    }

    /// Waits until the screen has stood still for as long as keys need.
    #[track_caller]
    pub(crate) fn stand_still(&self) {
        let end = Instant::now() + WATCHDOG;
        let (mut painted, mut since) = (0, Instant::now());
        while since.elapsed() < GUARD {
            assert!(Instant::now() < end, "it never stands still:\n{}", self.terminal.text());
            thread::sleep(LOOK);
            let now = self.terminal.bytes().len();
            if now != painted {
                (painted, since) = (now, Instant::now());
            }
        }
    }
}

impl Drop for Agent {
    /// Asked politely at first: a wrapper then ends what it wraps.
    fn drop(&mut self) {
        self.terminal.pty.end(GRACE).ok();
    }
}

/// Where `ci/agents` has installed the CLIs.
fn installed() -> PathBuf {
    let folder = env::var_os("AGENT_RELAY_AGENTS");
    let folder = folder.expect("AGENT_RELAY_AGENTS says where the CLIs are: run ci/agents");
    Path::new(&folder).to_owned()
}

/// The CLIs', Node's and the system's own programs.
fn search_path() -> OsString {
    let ours = env::var_os("PATH").unwrap_or_default();
    let node = env::split_paths(&ours).find(|folder| folder.join("node").exists());
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let folders = [installed().join("node_modules/.bin")].into_iter().chain(node).chain(system);
    env::join_paths(folders).unwrap()
}
