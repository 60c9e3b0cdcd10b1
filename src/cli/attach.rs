//! `attach`: look at a wrapped agent from another terminal, or drive it.

use super::{
    DONE, FAILED, Failure, argv,
    place::Asked,
    print::say,
    run::last_lines,
    wrapped::{self, explain},
};
use crate::wrap::{
    self,
    attach::{DetachKey, Left},
};
use argh::{ArgsInfo, FromArgs};
use platform::terminal::{Input, Output};

/// Show a wrapped agent in this terminal, and let you drive it. Ctrl-\\ leaves it running.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "attach",
    help_triggers("--help"),
    example = "agent-relay attach Ann",
    example = "agent-relay attach Ann --view --detach-key ctrl-]",
    note = "A spawned agent's terminal becomes as large as this one; one in another terminal keeps its size, and as much as fits is shown.",
    note = "If the agent ends meanwhile, the exit code is its own."
)]
pub(super) struct Attach {
    /// the wrapped agent
    #[argh(positional, from_str_fn(argv::text))]
    name: String,

    /// only look on: nothing that is typed here goes to the agent
    #[argh(switch)]
    view: bool,

    /// the key that leaves the agent: ctrl- and another one; ctrl-\\ where absent
    #[argh(option, arg_name = "key", default = "DetachKey::default()")]
    detach_key: DetachKey,
}

impl Attach {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        if !wrap::is_attached() {
            return Err(Failure::failed(
                "attach shows a terminal in a terminal, and this is none: run it in one",
            ));
        }
        let name = &self.name;
        let visit = wrapped::visit(asked, name)?;
        let settings = wrap::attach::Settings {
            name: name.clone(),
            drive: !self.view,
            detach_key: self.detach_key,
            keys: Input::new().map_err(Failure::because)?,
            screen: Box::new(Output::new().map_err(Failure::because)?),
        };
        match wrap::attach::attach(&visit, settings).map_err(|error| explain(name, &error))? {
            Left::Detached => {
                say(format_args!("{name} runs on; `agent-relay attach {name}` shows it again"));
                Ok(DONE)
            }
            Left::Ended(ended) => {
                say(format_args!("{name} {ended}{}", last_lines(&ended)));
                Ok(ended.code)
            }
            Left::Stopped => Ok(FAILED),
        }
    }
}
