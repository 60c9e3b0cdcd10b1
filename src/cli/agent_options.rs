//! The options that `run` and `spawn` share, and their meaning for a command.

use super::{failure::Failure, print::eprint_line, wrapped::check_name};
use crate::{
    config::recipes,
    wrap::{self, Book, Prospect},
};
use platform::paths;
use protocol::{text::escaped, topic::Pattern};
use std::{ffi::OsString, path::Path};

/// The options that `run` and `spawn` share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentOptions<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) key_file: Option<&'a str>,
    pub(super) inline: bool,
    pub(super) grid: bool,
    pub(super) accepts_text: bool,
    pub(super) brief: bool,
    pub(super) no_brief: bool,
    pub(super) no_hooks: bool,
    pub(super) mcp: bool,
    pub(super) topics: &'a [String],
}

/// Declares `run` or `spawn`. Its own options stand in two blocks, after `--key-file` and after
/// `--mcp`. This is a macro because argh cannot take options from another struct.
macro_rules! agent_command {
    (
        $(#[$($attribute:tt)*])*
        $command:ident { $($after_key_file:tt)* } { $($after_mcp:tt)* }
    ) => {
        #[derive(Debug, argh::FromArgs, argh::ArgsInfo)]
        $(#[$($attribute)*])*
        pub(super) struct $command {
            /// the agent's name, which may also stand before the command
            #[argh(option, short = 'n', arg_name = "agent")]
            name: Option<String>,

            /// the file with the name's key, if it has one; default: keys/NAME in the home
            #[argh(option, arg_name = "file")]
            key_file: Option<String>,

            $($after_key_file)*

            /// also send `->relay:Bob hello` on one line as a message
            #[argh(switch)]
            inline: bool,

            /// read the agent's messages from its screen, not from its transcript
            #[argh(switch)]
            grid: bool,

            /// type messages into an unknown command that reads text; not into programs that it
            /// starts, nor into a shell, an interpreter or a multiplexer
            #[argh(switch)]
            accepts_text: bool,

            /// tell the agent first how to send messages (see `agent-relay brief`), also if the
            /// command is no known agent CLI; shells and interpreters are told nothing
            #[argh(switch)]
            brief: bool,

            /// tell an agent CLI nothing
            #[argh(switch)]
            no_brief: bool,

            /// give an agent CLI no hooks for this run: messages only reach it typed
            #[argh(switch)]
            no_hooks: bool,

            /// hand the agent's CLI tools to talk to others (MCP), for this run; for those CLIs
            /// that docs/MCP.md names
            #[argh(switch)]
            mcp: bool,

            /// a topic whose messages the agent gets, with * and > as wildcards; may be repeated
            #[argh(option, arg_name = "pattern")]
            topic: Vec<String>,

            $($after_mcp)*

            /// the command and its arguments
            #[argh(positional, greedy, arg_name = "command")]
            _command: Vec<String>,
        }

        impl $command {
            fn agent_options(&self) -> $crate::cli::agent_options::AgentOptions<'_> {
                $crate::cli::agent_options::AgentOptions {
                    name: self.name.as_deref(),
                    key_file: self.key_file.as_deref(),
                    inline: self.inline,
                    grid: self.grid,
                    accepts_text: self.accepts_text,
                    brief: self.brief,
                    no_brief: self.no_brief,
                    no_hooks: self.no_hooks,
                    mcp: self.mcp,
                    topics: &self.topic,
                }
            }
        }
    };
}
pub(super) use agent_command;

impl<'a> AgentOptions<'a> {
    /// Checks the values given to `run` or `spawn` (`word`): a command, topics, and perhaps a name.
    pub(super) fn named(
        &self,
        command: &[OsString],
        word: &str,
    ) -> Result<Option<&'a str>, Failure> {
        if command.is_empty() {
            let hint = format!("name the agent: {word} NAME -- COMMAND");
            return Err(Failure::usage("no command to run").hint(hint));
        }
        for topic in self.topics {
            Pattern::parse(topic).map_err(|error| Failure::usage(error.to_string()))?;
        }
        if self.brief && self.no_brief {
            return Err(Failure::usage("--brief and --no-brief exclude each other"));
        }
        self.name.map_or(Ok(()), check_name).map(|()| self.name)
    }

    /// Whether the agent gets a brief: by default, an agent CLI does.
    pub(super) fn briefs(&self, command: &[OsString], recipes: &Book) -> bool {
        self.brief || (!self.no_brief && wrap::agent_cli(command, recipes).is_some())
    }

    /// Loads the recipes, and refuses options that do not apply to the command.
    pub(super) fn recipes_for(
        &self,
        command: &[OsString],
        directory: Option<&Path>,
        home: &Path,
    ) -> Result<Book, Failure> {
        let recipes = recipes::load(home).map_err(|error| Failure::failed(error.to_string()))?;
        for advice in recipes.advice() {
            eprint_line(escaped(&format!("note: {}: {advice}", recipes::FILE)));
        }
        self.check(command, directory, &recipes)?;
        Ok(recipes)
    }

    /// Refuses options that do not apply to the command.
    pub(super) fn check(
        &self,
        command: &[OsString],
        directory: Option<&Path>,
        recipes: &Book,
    ) -> Result<(), Failure> {
        if self.accepts_text {
            check_accepts_text(command, directory, recipes)?;
        }
        if self.mcp { check_mcp(command, recipes) } else { Ok(()) }
    }

    /// The arguments that pass these options to `run`, except the name.
    pub(super) fn to_arguments(self) -> Result<Vec<OsString>, Failure> {
        let mut arguments = Vec::new();
        if let Some(file) = self.key_file {
            let file = paths::absolute(file).map_err(Failure::because)?;
            arguments.extend(["--key-file".into(), file.into_os_string()]);
        }
        let switches = [
            ("--inline", self.inline),
            ("--grid", self.grid),
            ("--accepts-text", self.accepts_text),
            ("--brief", self.brief),
            ("--no-brief", self.no_brief),
            ("--no-hooks", self.no_hooks),
            ("--mcp", self.mcp),
        ];
        arguments.extend(switches.iter().filter(|(_, on)| *on).map(|(switch, _)| switch.into()));
        arguments
            .extend(self.topics.iter().flat_map(|topic| ["--topic", topic]).map(OsString::from));
        Ok(arguments)
    }

    /// These arguments as texts. An argument that is not valid text is left out.
    pub(super) fn to_texts(self) -> Result<Vec<String>, Failure> {
        let arguments = self.to_arguments()?.into_iter();
        Ok(arguments.filter_map(|argument| argument.into_string().ok()).collect())
    }
}

/// Refuses `--accepts-text` for every command that the wrapper knows.
fn check_accepts_text(
    command: &[OsString],
    directory: Option<&Path>,
    recipes: &Book,
) -> Result<(), Failure> {
    let word = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let word = escaped(&word);
    match wrap::prospect(command, directory, recipes) {
        Prospect::Typed => {
            Err(Failure::usage(format!("--accepts-text is not needed for {word}"))
                .hint("leave it out"))
        }
        Prospect::Launches => Err(Failure::usage(format!(
            "--accepts-text does not apply to {word}, which starts another program"
        ))
        .hint("run that program itself")),
        Prospect::Barred(why) => Err(Failure::usage(format!(
            "--accepts-text does not apply to {word}: {}",
            escaped(&why)
        ))),
        Prospect::Unknown(_) | Prospect::NoFile => Ok(()),
    }
}

/// Refuses `--mcp` for every command that cannot be given our MCP server.
fn check_mcp(command: &[OsString], recipes: &Book) -> Result<(), Failure> {
    let Some(why) = wrap::mcp_obstacle(command, recipes) else { return Ok(()) };
    let word = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    Err(Failure::usage(format!("--mcp does not apply to {}: {why}", escaped(&word))))
}
