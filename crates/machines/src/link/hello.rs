//! HELLO of a link: how two bridges introduce themselves.

use crate::{border::AGENTS_MAX, details};
use protocol::{
    name::{Name, first_repeated},
    secret::Secret,
    text::Quoted,
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
    /// The secret by which daemons know the bridge, from the side that has started the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bridge: Option<String>,
    /// What people of the other machine are shown of these agents. Only a later HELLO has it.
    #[serde(default, skip_serializing_if = "details::All::is_empty")]
    pub(super) details: details::All,
}

/// BYE's payload.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LinkBye {
    #[serde(default)]
    pub(super) reason: String,
    /// Whether another link would end in the same way.
    #[serde(default)]
    pub(super) refusal: bool,
}

/// What the other side's HELLO says, checked.
pub(super) struct Checked {
    pub(super) agents: Vec<Name>,
    pub(super) frame_bytes_max: usize,
    pub(super) bridge: Option<Secret>,
}

impl LinkHello {
    pub(super) fn new(exports: &[Name], bridge: Option<&Secret>, max_frame_bytes: u64) -> Self {
        Self {
            link: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            agents: exports.iter().map(Name::to_string).collect(),
            max_frame_bytes,
            bridge: bridge.map(|secret| secret.reveal().to_owned()),
            details: details::All::new(),
        }
    }

    /// A later HELLO, which a side of an earlier version ignores.
    pub(super) fn with_details(exports: &[Name], max_frame_bytes: u64, all: details::All) -> Self {
        Self { details: all, ..Self::new(exports, None, max_frame_bytes) }
    }

    /// Checks what the other side states. The error follows the machine's name.
    pub(super) fn check(&self) -> Result<Checked, String> {
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
        if let Some(twice) = first_repeated(&agents) {
            return Err(format!("it exports {twice} twice"));
        }
        Ok(Checked {
            agents,
            frame_bytes_max: usize::try_from(self.max_frame_bytes).unwrap_or(usize::MAX),
            bridge: self.bridge.as_deref().map(Secret::stated),
        })
    }
}
