//! HELLO of a link: how two bridges introduce themselves.

use crate::{
    machines::border::AGENTS_MAX,
    protocol::{name::Name, text::Quoted},
};
use serde::{Deserialize, Serialize};

/// The version of the link. It increases if an older side would misunderstand a newer one.
const VERSION: u64 = 1;

/// HELLO's payload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LinkHello {
    /// The version of the link.
    link: u64,
    /// The version of the program, for errors.
    #[serde(default)]
    program: String,
    /// The agents that this side exports.
    #[serde(default)]
    agents: Vec<String>,
    /// The longest frame that this side accepts.
    #[serde(default)]
    max_frame_bytes: u64,
}

impl LinkHello {
    pub(super) fn new(exports: &[Name], max_frame_bytes: u64) -> Self {
        Self {
            link: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            agents: exports.iter().map(Name::to_string).collect(),
            max_frame_bytes,
        }
    }

    /// Checks what the other side states. Returns its agents and its longest frame. The error
    /// follows the machine's name.
    pub(super) fn check(&self) -> Result<(Vec<Name>, usize), String> {
        if self.link != VERSION {
            let program: String = self.program.chars().take(32).collect();
            return Err(format!(
                "it speaks version {} of the link (agent-relay {}), and this side version {VERSION} \
                 (agent-relay {}): install the same version on both",
                self.link,
                Quoted(&program),
                env!("CARGO_PKG_VERSION")
            ));
        }
        let count = self.agents.len();
        if count > AGENTS_MAX {
            return Err(format!("it exports {count} agents, and {AGENTS_MAX} are the most"));
        }
        let agents = self.agents.iter().map(|text| {
            Name::parse(text).map_err(|why| format!("it exports {}: {why}", Quoted(text)))
        });
        let agents: Vec<_> = agents.collect::<Result<_, _>>()?;
        let most = usize::try_from(self.max_frame_bytes).unwrap_or(usize::MAX);
        Ok((agents, most))
    }
}
