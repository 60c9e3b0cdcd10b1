//! The program and the directory of an exported agent, for people of other machines.
//!
//! Bridges carry these in an optional member, which a side of an earlier version ignores. They are
//! only shown: no decision follows from them.

use protocol::{
    name::Name,
    payload::{DIRECTORY_BYTES_MAX, PROGRAM_BYTES_MAX},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The program that an agent runs, and its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The agent's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program's initial working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// The details of agents, by their names on their machine.
pub type All = BTreeMap<String, Details>;

/// The details that another machine has stated of these agents, without texts that are longer than
/// a daemon allows.
#[must_use]
pub fn checked(stated: &All, agents: &[Name]) -> All {
    let short = |text: &Option<String>, bytes_max| text.clone().filter(|it| it.len() <= bytes_max);
    let of = |name: &Name| {
        let Details { program, directory } = stated.get(name.as_str())?;
        let program = short(program, PROGRAM_BYTES_MAX);
        let directory = short(directory, DIRECTORY_BYTES_MAX);
        Some((name.to_string(), Details { program, directory }))
    };
    agents.iter().filter_map(of).collect()
}

/// The details that fit into `bytes_max` bytes of JSON: all if possible, else first the programs.
#[must_use]
pub fn fitting(all: &All, bytes_max: usize) -> All {
    let bytes = |all: &All| serde_json::to_vec(all).map_or(usize::MAX, |json| json.len());
    let mut kept = All::new();
    for with_directories in [false, true] {
        for (name, details) in all {
            let directory = details.directory.clone().filter(|_| with_directories);
            let details = Details { program: details.program.clone(), directory };
            let before = kept.insert(name.clone(), details);
            if bytes(&kept) > bytes_max {
                match before {
                    Some(before) => kept.insert(name.clone(), before),
                    None => kept.remove(name),
                };
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machine_can_state_only_short_texts_about_its_agents() {
        let of = |program: &str, directory: &str| Details {
            program: Some(program.to_owned()),
            directory: Some(directory.to_owned()),
        };
        let stated = All::from([
            ("Bob".to_owned(), of("claude", "/src/\u{1b}[2Jweb")),
            ("Cid".to_owned(), of(&"p".repeat(65), &"d".repeat(513))),
            ("Eve".to_owned(), of("x", "y")),
        ]);
        let names = ["Bob", "Cid", "Dora"].map(|name| Name::parse(name).unwrap());
        let kept = checked(&stated, &names);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["Bob", "Cid"]);
        assert_eq!(kept["Bob"], stated["Bob"], "control characters are escaped where it is shown");
        assert_eq!(kept["Cid"], Details::default());
    }

    #[test]
    fn details_that_are_too_long_together_are_left_out() {
        let of = |directory: &str| Details {
            program: Some("claude".to_owned()),
            directory: Some(directory.to_owned()),
        };
        let all = All::from([
            ("Ann".to_owned(), of(&"d".repeat(500))),
            ("Bob".to_owned(), of("/src/web")),
            ("Cid".to_owned(), of("/src/api")),
        ]);
        assert_eq!(fitting(&all, 1000), all);
        let kept = fitting(&all, 200);
        assert_eq!((&kept["Bob"], &kept["Cid"]), (&all["Bob"], &all["Cid"]));
        assert_eq!(
            (kept["Ann"].program.as_deref(), &kept["Ann"].directory),
            (Some("claude"), &None)
        );
        assert_eq!(fitting(&all, 2), All::new());
    }
}
