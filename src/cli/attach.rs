//! `attach`: show a wrapped agent in this terminal, and type into it.

use super::{
    failure::{DONE, FAILED, Failure},
    print::eprint_line,
    wrapped::{self, explain, last_lines},
};
use crate::wrap::{
    self,
    attach::{self, DetachKey, Left, Settings},
    control::client::{ControlClient, ControlError},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use platform::tty;

/// Show a wrapped agent in this terminal, and type into it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "attach",
    help_triggers("--help"),
    example = "agent-relay attach Ann",
    example = "agent-relay attach Ann --view --detach-key ctrl-]",
    note = "Ctrl-\\ detaches, and the agent runs on. If it ends, the exit code is the agent's.",
    note = "A spawned agent takes the size of this terminal. An agent in another terminal keeps its size, and the part that fits is shown."
)]
pub(super) struct Attach {
    /// the wrapped agent
    #[argh(positional, arg_name = "agent")]
    name: String,

    /// only show the agent: keys do not reach it
    #[argh(switch)]
    view: bool,

    /// the key that detaches: ctrl- and another key; default: ctrl-\\
    #[argh(option, arg_name = "key", default = "DetachKey::default()")]
    detach_key: DetachKey,
}

impl Attach {
    /// Attaches to an agent with the usual options.
    pub(super) fn to(name: String) -> Self {
        Self { name, view: false, detach_key: DetachKey::default() }
    }

    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if !wrap::is_attached() {
            return Err(Failure::failed(
                "attach needs a terminal, and standard input or output is none",
            ));
        }
        let Self { name, view, detach_key } = self;
        let wrapper = wrapped::connect(options, &name)?;
        let show = Show { name: &name, drive: !view, detach_key, has_notice: true };
        match show.until_left(&wrapper).map_err(|error| explain(&name, &error))? {
            Left::Detached => Ok(DONE),
            Left::Ended(ended) => {
                eprint_line(format_args!("{name} {ended}{}", last_lines(&ended)));
                Ok(ended.code)
            }
            Left::Stopped => Ok(FAILED),
        }
    }
}

/// The way that this terminal shows an agent.
pub(super) struct Show<'a> {
    pub(super) name: &'a str,
    pub(super) drive: bool,
    pub(super) detach_key: DetachKey,
    pub(super) has_notice: bool,
}

impl Show<'_> {
    /// Shows the agent of this wrapper until the person leaves it or it ends. A person who has
    /// detached is told how to attach.
    ///
    /// # Errors
    /// As [`attach::attach`].
    pub(super) fn until_left(self, wrapper: &ControlClient) -> Result<Left, ControlError> {
        let Self { name, drive, detach_key, has_notice } = self;
        let keys = tty::Input::new().map_err(ControlError::System)?;
        let screen = Box::new(tty::Output::new().map_err(ControlError::System)?);
        let settings = Settings { name: name.to_owned(), drive, detach_key, has_notice, screen };
        let left = attach::attach(wrapper, keys, settings)?;
        if left == Left::Detached {
            eprint_line(wrap::farewell(name));
        }
        Ok(left)
    }
}
