//! Hooks: commands that an agent CLI runs at certain points of its agent's work.
//!
//! Each CLI that has hooks gets ours for one run, without changing a file of the user's
//! ([`Hooks::arm`]). A hook reports the point to the wrapper ([`read`]), and prints the wrapper's
//! answer ([`Hooks::print`]). Before that, it tells the wrappers which files a tool has edited
//! ([`edited`]).

mod arguments;
mod edited;
mod input;
mod own_tool;
mod prompt_queue;

pub(crate) use arguments::{check_options, free_word, has_switch, options, refuse, subcommand};
pub use edited::{Edited, edited};
pub(super) use input::frames_in;
pub(super) use input::is_session;
pub use input::{REPORT_BYTES_MAX, read};
pub use prompt_queue::{PromptQueue, Step};

use protocol::hook::Point;
use serde_json::json;
use std::{fmt, path::Path};

/// The hooks of an agent CLI.
pub struct Hooks {
    /// The oldest version of the CLI that the hooks were tried with.
    pub since_version: &'static str,
    /// The CLI's names of the events that are reported.
    pub events: &'static [(&'static str, Point)],
    /// Returns the text of the settings that the user's arguments name: a file's path, or JSON.
    pub user_settings: fn(arguments: &[String]) -> Option<&str>,
    /// Changes a command line so that the CLI runs the hooks.
    pub arm: fn(&Arming<'_>) -> Result<Armed, Unarmed>,
    /// Returns what the hook of an event prints so that the agent gets a text.
    pub print: fn(event: &str, text: &str) -> Printed,
    /// When the CLI reports the beginning of its first conversation, if it takes a text for the
    /// agent then.
    pub begins: Option<Begins>,
    /// The arguments of another process of the CLI that serves its conversations' [`PromptQueue`]s,
    /// if it has these.
    pub prompt_queue: Option<&'static [&'static str]>,
    /// The extension that installs the hooks, if the CLI cannot be given hooks for one run.
    pub extension: Option<Extension>,
}

/// When a CLI reports the beginning of its first conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// When the CLI has started.
    AtStart,
    /// With the first prompt.
    WithPrompt,
}

/// The brief as hooks give it to an agent.
#[derive(Clone, Debug)]
pub struct HookedBrief {
    /// The text.
    pub text: String,
    /// When the first conversation gets it.
    pub begins: Begins,
}

/// An extension of a CLI. A run sets a variable that tells the hooks where their wrapper is.
pub struct Extension {
    /// The file that makes a folder an extension: JSON with a member `name`.
    pub manifest: &'static str,
    /// Returns the extension's files: paths in its folder, and texts. `command` is a hook's command
    /// without the event.
    pub files: fn(command: &[String]) -> Vec<(&'static str, String)>,
}

impl Extension {
    /// The name of each extension.
    pub const NAME: &'static str = "agent-relay";

    /// The file that tells the [hooks](docs/WRAPPER.md#hooks) of our extension which wrapper is
    /// theirs. It is set for a wrapped Gemini CLI; `GEMINI_CLI` is set to nothing then.
    pub const WRAPPER_VARIABLE: &'static str = "AGENT_RELAY_WRAPPER_FILE";
}

impl Hooks {
    /// Returns the point of an event, given the CLI's name for the event.
    #[must_use]
    pub fn point(&self, event: &str) -> Option<Point> {
        self.events.iter().find(|(name, _)| *name == event).map(|&(_, point)| point)
    }
}

/// A function that returns the text of a file of settings; `None` if there is no such file.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Option<String>, Unarmed>;

/// The inputs for arming a CLI's hooks.
pub struct Arming<'a> {
    /// Returns the command of the hook for an event: a program and its arguments.
    pub command: &'a dyn Fn(&str) -> Vec<String>,
    /// The CLI's arguments.
    pub arguments: &'a [String],
    /// The settings that the arguments name, as JSON; `None` if they name none.
    pub user_settings: Option<&'a str>,
    /// Returns the value of a variable of the person's environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file of settings.
    pub read: ReadFile<'a>,
    /// The directory for the files of this run.
    pub directory: &'a Path,
}

#[cfg(test)]
impl<'a> Arming<'a> {
    /// A run with these arguments in this directory, and with nothing else from the person.
    pub(crate) fn of(arguments: &'a [String], directory: &'static str) -> Self {
        Self {
            command: &|event| vec!["/a b/it's".into(), event.into()],
            arguments,
            user_settings: None,
            env: &|_| None,
            read: &|_| Ok(None),
            directory: Path::new(directory),
        }
    }
}

/// A command line with hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Armed {
    /// The arguments in place of the command's own.
    pub arguments: Vec<String>,
    /// Files to write before the command starts: their names in the directory of this run, and
    /// their texts.
    pub files: Vec<(&'static str, String)>,
    /// Variables to set for the command, and their values.
    pub env: Vec<(&'static str, String)>,
}

/// Why a run of a CLI gets no hooks.
#[derive(Debug, PartialEq, Eq)]
pub enum Unarmed {
    /// The CLI answers one prompt and ends, or runs a subcommand, as this argument says.
    NotInteractive(String),
    /// The CLI was told to run without hooks, by this argument.
    Disabled(String),
    /// The arguments set hooks in a way that ours cannot be added to.
    OwnHooks,
    /// The CLI's version is unknown, or older than this one.
    Version(&'static str),
    /// The hooks were never tried on this system.
    System,
    /// The settings that the arguments name are not a JSON object.
    Settings,
    /// The configuration in the CLI's variable is not a JSON object, or ours cannot be added to it.
    Configuration,
    /// A path or an argument is not valid text.
    NotText,
    /// The CLI's file with defaults for all users is not a JSON object, or ours cannot be added to
    /// it.
    Defaults,
}

impl fmt::Display for Unarmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInteractive(argument) => {
                return write!(f, "`{argument}` starts no conversation");
            }
            Self::Disabled(argument) => return write!(f, "`{argument}` turns hooks off"),
            Self::Version(since) => {
                return write!(f, "its version is unknown, or older than {since}");
            }
            Self::OwnHooks => "its arguments set hooks in a form that cannot be merged",
            Self::System => "they were never tried on this system",
            Self::Settings => {
                "its argument `--settings` is no JSON object, and no readable file with one"
            }
            Self::Configuration => {
                "the configuration in its variable is no JSON object, or too long"
            }
            Self::NotText => "an argument or a path is not valid text",
            Self::Defaults => "the defaults of its system are no JSON object",
        })
    }
}

impl std::error::Error for Unarmed {}

/// Returns a command as a line for sh.
#[must_use]
pub(crate) fn shell_line(words: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A hook's output, which its CLI reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Printed {
    /// The text for standard output.
    pub out: String,
    /// The text for standard error.
    pub error: String,
    /// The exit code.
    pub code: i32,
}

impl Printed {
    /// Returns a text for the agent in the form that Claude Code introduced: as the context of an
    /// event.
    #[must_use]
    pub fn context(event: &str, text: &str) -> Self {
        let context = json!({"hookEventName": event, "additionalContext": text});
        Self::out(json!({ "hookSpecificOutput": context }).to_string())
    }

    /// Returns a result of the hook on standard output.
    #[must_use]
    pub fn out(out: String) -> Self {
        Self { out, error: String::new(), code: 0 }
    }
}
