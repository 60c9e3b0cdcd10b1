//! Kinds of programs, by the executable's name and the command line.

use super::{
    Program,
    names::{COMMAND_READERS, CONDUITS, LAUNCHERS, SHELLS, SHELLS_BY_WORDS},
};
use crate::words::Words;

/// Interpreters: they run a script or, without a script, prompt for input.
const INTERPRETERS: &[Options] = &[
    Options { name: "python", runs: "c", modules: "m", stays: "i", values: "WX", ..PLAIN },
    Options { name: "pypy", runs: "c", modules: "m", stays: "i", values: "WX", ..PLAIN },
    Options { name: "node", runs: "ep", stays: "i", values: "rC", valued: NODE_VALUED, ..PLAIN },
    Options { name: "nodejs", runs: "ep", stays: "i", values: "rC", valued: NODE_VALUED, ..PLAIN },
    Options { name: "bun", runs: "ep", values: "rc", valued: &["--preload", "--cwd"], ..PLAIN },
    Options { name: "deno", ..PLAIN },
    Options { name: "ruby", runs: "e", values: "rIC", ..PLAIN },
    Options { name: "perl", runs: "eE", stays: "d", values: "IMm", ..PLAIN },
    Options { name: "php", runs: "rRB", stays: "aS", values: "dcz", ..PLAIN },
    Options { name: "lua", runs: "e", stays: "i", values: "l", ..PLAIN },
    Options { name: "luajit", runs: "e", stays: "i", values: "lj", ..PLAIN },
    Options { name: "julia", runs: "eE", stays: "i", values: "ptLCJ", ..PLAIN },
    Options { name: "rscript", runs: "e", ..PLAIN },
];

const NODE_VALUED: &[&str] =
    &["--require", "--import", "--loader", "--experimental-loader", "--conditions", "--env-file"];

/// Words in place of a script that make an interpreter prompt or debug.
const PROMPTING_WORDS: &[&str] = &["inspect", "repl", "debug"];

/// Words before an interpreter's script.
const RUNNING_WORDS: &[&str] = &["run", "x", "exec", "task"];

/// The command-line options of an interpreter or a shell.
struct Options {
    name: &'static str,
    /// The letters of options that run a text from the command line.
    runs: &'static str,
    /// The letters of options that name a module to run.
    modules: &'static str,
    /// The letters of options that make the program prompt even if it runs a script.
    stays: &'static str,
    /// The letters of options that have a value, in the same argument or in the next one.
    values: &'static str,
    /// Long options that take the next argument as their value.
    valued: &'static [&'static str],
}

const PLAIN: Options =
    Options { name: "", runs: "", modules: "", stays: "", values: "", valued: &[] };

const SHELL_OPTIONS: Options =
    Options { runs: "c", stays: "s", values: "oO", valued: &["--rcfile", "--init-file"], ..PLAIN };

/// The kind of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Agent Relay itself.
    Relay,
    /// A shell at its prompt, according to its command line.
    Shell,
    /// A shell that runs a script, or a text from its command line (then `None`).
    ShellScript(Option<String>),
    /// An interpreter with a script or a module.
    Script(String),
    /// An interpreter that runs a text from its command line.
    Inline,
    /// A program that runs typed text in its own language.
    Interpreter,
    /// A program that passes typed text to another program.
    Conduit,
    /// A program that starts another one and waits for it.
    Launcher,
    /// Any other program. The string is the path of its executable.
    Other(String),
}

impl Kind {
    pub(super) fn of(program: &Program) -> Self {
        let name = base(program);
        // Some systems have variants of a program, such as vim.basic and vim.tiny.
        let kind = name.split('.').next().unwrap_or(&name);
        let listed = |list: Words| list.iter().any(|known| known.eq_ignore_ascii_case(kind));
        let arguments = program.arguments.as_deref().and_then(|arguments| arguments.get(1..));
        let arguments = arguments.unwrap_or_default();
        if program.is_relay {
            Self::Relay
        } else if listed(SHELLS) {
            match operand(&name, arguments) {
                // If its command line is unknown, it counts as a shell at its prompt.
                None | Some(Operand::Prompt) => Self::Shell,
                Some(Operand::Script(script)) => Self::ShellScript(Some(script)),
                Some(Operand::Module(_) | Operand::Inline) => Self::ShellScript(None),
            }
        } else if let Some(options) = options_of(&name) {
            match options.operand(arguments) {
                Operand::Prompt => Self::Interpreter,
                Operand::Script(script) if LAUNCHERS.contains(&name_of(&script)) => Self::Launcher,
                Operand::Script(run) | Operand::Module(run) => Self::Script(run),
                Operand::Inline => Self::Inline,
            }
        } else if listed(COMMAND_READERS) {
            Self::Interpreter
        } else if listed(CONDUITS) {
            Self::Conduit
        } else if listed(LAUNCHERS) {
            Self::Launcher
        } else {
            Self::Other(program.path.clone())
        }
    }

    /// Whether the program is a cmd.exe that runs a batch file, and so waits for each program in
    /// the file.
    pub(super) fn runs_batch_file(&self, program: &Program) -> bool {
        matches!(self, Self::ShellScript(Some(_))) && base(program) == "cmd"
    }

    /// Returns the program's name, or its script's name, for messages to a person.
    pub(super) fn name(&self, program: &Program) -> String {
        match self {
            Self::Script(script) | Self::ShellScript(Some(script)) => name_of(script),
            _ => base(program),
        }
    }
}

fn base(program: &Program) -> String {
    program.copy_of.clone().unwrap_or_else(|| name_of(&program.path))
}

/// The part of a command line that tells what a shell or an interpreter runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Neither a file nor a text: the program prompts for input.
    Prompt,
    /// A file.
    Script(String),
    /// A module.
    Module(String),
    /// A text in the command line.
    Inline,
}

/// Whether a program with this name is certainly a shell: no other program has the name.
#[must_use]
pub fn is_shell(name: &str) -> bool {
    SHELLS.contains(name) && !SHELLS_BY_WORDS.contains(name)
}

/// Returns the program's operand, if it is a shell or an interpreter.
#[must_use]
pub fn operand(path: &str, arguments: &[String]) -> Option<Operand> {
    let name = name_of(path);
    let runs =
        |words: &[&str]| arguments.iter().any(|it| words.contains(&&*it.to_ascii_lowercase()));
    match &*name {
        // These executables contain a shell, regardless of the arguments.
        "busybox" | "toybox" => Some(Operand::Prompt),
        "cmd" => Some(cmd_operand(arguments)),
        "powershell" | "pwsh" => {
            let runs = !runs(&["-noexit"]) && runs(&["-command", "-c", "-file", "-f"]);
            Some(if runs { Operand::Inline } else { Operand::Prompt })
        }
        name if SHELLS.contains(name) => Some(SHELL_OPTIONS.operand(arguments)),
        name => options_of(name).map(|options| options.operand(arguments)),
    }
}

/// Reads cmd.exe's options. The first among `/c`, `/r` and `/k` decides.
fn cmd_operand(arguments: &[String]) -> Operand {
    let is_option = |word: &String| {
        let word = word.to_ascii_lowercase();
        ["/c", "/r", "/k"].iter().any(|option| word.starts_with(option))
    };
    let Some(at) = arguments.iter().position(is_option) else { return Operand::Prompt };
    if !["/c", "/r"].contains(&&*arguments[at].to_ascii_lowercase()) {
        return Operand::Prompt;
    }
    batch_file(&arguments[at + 1..]).map_or(Operand::Inline, Operand::Script)
}

/// Returns the batch file that begins the command after cmd.exe's `/c`.
///
/// The words are joined again, since they may have been split at blanks within a path, and cmd.exe
/// does not treat quotes as a part of the path.
fn batch_file(words: &[String]) -> Option<String> {
    let line = words.join(" ").replace('"', "");
    let line = line.trim_start();
    let first = line.split(' ').next().unwrap_or_default();
    let lower = line.to_ascii_lowercase();
    let ends = [".cmd", ".bat"].iter().flat_map(|ending| lower.match_indices(ending));
    let ends = ends.map(|(at, ending)| at + ending.len());
    let end = ends.filter(|end| matches!(line.as_bytes().get(*end), None | Some(b' '))).min()?;
    (end <= first.len() || first.contains(['\\', '/'])).then(|| line[..end].to_owned())
}

fn options_of(name: &str) -> Option<&'static Options> {
    INTERPRETERS.iter().find(|options| options.name.eq_ignore_ascii_case(name))
}

/// Whether a program starts another one and leaves the terminal to it.
#[must_use]
pub fn is_launcher(program: &Program) -> bool {
    matches!(Kind::of(program), Kind::Launcher)
}

/// Whether a program with this name runs typed text or passes it on. A copy of its executable under
/// another name does the same.
#[must_use]
pub fn is_dangerous(name: &str) -> bool {
    let kind = name.split('.').next().unwrap_or(name);
    let lists = [SHELLS, COMMAND_READERS, CONDUITS];
    options_of(kind).is_some() || lists.iter().any(|list| list.contains(kind))
}

impl Options {
    fn operand(&self, arguments: &[String]) -> Operand {
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let letters = match argument.as_str() {
                "--eval" | "--print" => return Operand::Inline,
                "--interactive" | "-" => return Operand::Prompt,
                word if PROMPTING_WORDS.contains(&word) => return Operand::Prompt,
                word if !self.name.is_empty() && RUNNING_WORDS.contains(&word) => continue,
                word if self.valued.contains(&word) => {
                    arguments.next();
                    continue;
                }
                word if word.starts_with("--") => continue,
                word => match word.strip_prefix(['-', '+']) {
                    Some(letters) => letters,
                    None => return Operand::Script(argument.clone()),
                },
            };
            if let Some(operand) = self.letters(letters, &mut arguments) {
                return operand;
            }
        }
        Operand::Prompt
    }

    /// Reads the short options in one argument. An option's value is the rest of the argument or
    /// the next argument in `rest`.
    fn letters<'a>(
        &self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Option<Operand> {
        for (at, letter) in letters.char_indices() {
            let value = &letters[at + letter.len_utf8()..];
            let mut value = || match value {
                "" => rest.next().cloned().unwrap_or_default(),
                value => value.to_owned(),
            };
            match letter {
                _ if self.stays.contains(letter) => return Some(Operand::Prompt),
                _ if self.modules.contains(letter) => return Some(Operand::Module(value())),
                _ if self.runs.contains(letter) => return Some(Operand::Inline),
                // For a shell, the value is the next argument, and more options may follow in this
                // one.
                _ if self.values.contains(letter) && self.name.is_empty() => drop(rest.next()),
                _ if self.values.contains(letter) => {
                    value();
                    return None;
                }
                _ => {}
            }
        }
        None
    }
}

/// Returns a program's name: its file name without extension and version, such as `python` for
/// `/usr/bin/python3.11`.
#[must_use]
pub fn name_of(path: &str) -> String {
    const ENDINGS: [&str; 9] =
        [".exe", ".cmd", ".ps1", ".bat", ".com", ".js", ".mjs", ".cjs", ".py"];
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    let bare = ENDINGS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let bare = bare.trim_start_matches('-');
    let short = bare.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
    if short.is_empty() || is_exact(bare) { bare.to_owned() } else { short.to_owned() }
}

/// Whether a digit at the end of this name is a part of the name and not a version.
fn is_exact(name: &str) -> bool {
    matches!(name, "sqlite3" | "r2" | "run0" | "ksh93" | "qemu-system-x86_64" | "w3m")
}
