//! HELLO of a link: how two bridges introduce themselves, and how they state other agents later.
//!
//! A side of an earlier version refuses more than 20 agents, and ignores agents in a later HELLO.

use crate::{
    border::{AGENTS_MAX, EARLIER_AGENTS_MAX},
    details,
    exports::Exported,
};
use protocol::{
    name::{Name, first_repeated},
    secret::Secret,
    text::Quoted,
};
use serde::{Deserialize, Serialize};

/// The version of the link. It increases if an older side would misunderstand a newer one.
const VERSION: u64 = 1;

/// The most bytes of the details of agents in a HELLO.
const DETAILS_BYTES_MAX: usize = 3_072;

/// HELLO's payload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LinkHello {
    /// The version of the link.
    link: u64,
    /// The version of the program, for errors.
    #[serde(default)]
    program: String,
    /// The agents that this side exports; the rest of them is in `more`.
    #[serde(default)]
    agents: Vec<String>,
    /// The exported agents after the first 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<String>,
    /// Whether this side accepts `more`, and agents in a later HELLO.
    #[serde(default)]
    takes_more: bool,
    /// Whether a later HELLO of this side may state other agents.
    #[serde(default)]
    has_patterns: bool,
    /// Whether this side takes messages to everyone or on topics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    takes_topics: bool,
    /// The longest frame that this side accepts.
    #[serde(default)]
    max_frame_bytes: u64,
    /// The secret that identifies the bridge to daemons, from the side that has started the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bridge: Option<String>,
    /// The programs and directories of these agents. Only a later HELLO has them.
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

/// The content of the other side's HELLO, checked.
pub(super) struct Checked {
    /// The exported agents, and `all` if it takes messages to everyone or on topics.
    pub(super) agents: Vec<Name>,
    pub(super) takes_more: bool,
    pub(super) has_patterns: bool,
    pub(super) frame_bytes_max: usize,
    pub(super) bridge: Option<Secret>,
}

impl LinkHello {
    pub(super) fn new(exports: &[Name], has_patterns: bool, max_frame_bytes: u64) -> Self {
        let mut agents: Vec<_> = exports.iter().map(Name::to_string).collect();
        let more = agents.split_off(agents.len().min(EARLIER_AGENTS_MAX));
        Self {
            link: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            agents,
            more,
            takes_more: true,
            has_patterns,
            takes_topics: false,
            max_frame_bytes,
            bridge: None,
            details: details::All::new(),
        }
    }

    /// Returns the HELLO with the secret that identifies the bridge to daemons.
    pub(super) fn of_bridge(self, bridge: Option<&Secret>) -> Self {
        Self { bridge: bridge.map(|secret| secret.reveal().to_owned()), ..self }
    }

    /// Returns the HELLO with a statement whether the side takes messages to everyone or on topics.
    pub(super) fn taking_topics(self, takes_topics: bool) -> Self {
        Self { takes_topics, ..self }
    }

    /// Returns the HELLO with as many details of agents as fit.
    pub(super) fn with_details(self, exported: &Exported) -> Self {
        Self { details: details::fitting(&exported.details, DETAILS_BYTES_MAX), ..self }
    }

    /// Checks the other side's statements. The error follows the machine's name.
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
        let count = self.agents.len() + self.more.len();
        if count > AGENTS_MAX {
            return Err(format!("it exports {count} agents, and {AGENTS_MAX} are the most"));
        }
        let agents = self.agents.iter().chain(&self.more).map(|text| {
            Name::parse(text).map_err(|why| format!("it exports {}: {why}", Quoted(text)))
        });
        let mut agents: Vec<_> = agents.collect::<Result<_, _>>()?;
        if let Some(twice) = first_repeated(&agents) {
            return Err(format!("it exports {twice} twice"));
        }
        agents.extend(self.takes_topics.then(Name::all));
        Ok(Checked {
            agents,
            takes_more: self.takes_more,
            has_patterns: self.has_patterns,
            frame_bytes_max: usize::try_from(self.max_frame_bytes).unwrap_or(usize::MAX),
            bridge: self.bridge.as_deref().map(Secret::stated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_version_reads_the_first_agents() {
        let names: Vec<_> = (0..22).map(|n| Name::parse(&format!("a{n}")).unwrap()).collect();
        let hello = LinkHello::new(&names, true, 1_000);
        let json = serde_json::to_value(&hello).unwrap();
        assert_eq!(json["agents"].as_array().unwrap().len(), EARLIER_AGENTS_MAX);
        assert_eq!(json["more"], serde_json::json!(["a20", "a21"]));
        let checked = hello.check().ok().unwrap();
        assert_eq!((&checked.agents, checked.takes_more), (&names, true));
        assert!(json.get("takes_topics").is_none());
        let topics = LinkHello::new(&names, true, 1_000).taking_topics(true).check().ok().unwrap();
        assert_eq!(topics.agents, [&*names, &[Name::all()]].concat());
        let earlier = r#"{"link":1,"agents":["Bob"],"max_frame_bytes":1000}"#;
        let checked = serde_json::from_str::<LinkHello>(earlier).unwrap().check().ok().unwrap();
        assert_eq!((checked.agents.len(), checked.takes_more), (1, false));
    }
}
