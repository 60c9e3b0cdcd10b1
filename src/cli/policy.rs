//! `policy`: keys for names, what a policy file means, and putting it in force.

use super::{
    DONE, Failure, argv,
    ask::{agent_name, ask, join},
    identity,
    place::Asked,
    print::{Out, foreign_line, say},
};
use crate::{
    config::policy,
    protocol::secret::{self, Secret},
};
use argh::{ArgsInfo, FromArgs};
use platform::paths;
use serde::Serialize;
use std::{num::NonZeroU32, path::Path};

/// Make keys for names, check a policy file, and put it in force.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "policy",
    help_triggers("--help"),
    example = "agent-relay policy key Ann",
    example = "agent-relay policy check policy.toml",
    example = "agent-relay policy reload"
)]
pub(super) struct Policy {
    #[argh(subcommand)]
    action: Action,
}

#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Action {
    Key(Key),
    Check(Check),
    Reload(Reload),
}

/// Make a key for a name, and say what goes into policy.toml.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "key",
    help_triggers("--help"),
    example = "agent-relay policy key Ann",
    example = "agent-relay policy key Ann --json"
)]
struct Key {
    /// whose key it is
    #[argh(positional, from_str_fn(agent_name))]
    name: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Say in words what a policy file means, or what is wrong with it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "check",
    help_triggers("--help"),
    example = "agent-relay policy check policy.toml",
    example = "agent-relay policy check policy.toml --json"
)]
struct Check {
    /// the file
    #[argh(positional, from_str_fn(argv::text))]
    file: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Let the daemon read policy.toml again. A broken one leaves the old policy in force.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "reload", help_triggers("--help"), example = "agent-relay policy reload")]
struct Reload {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Policy {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        match self.action {
            Action::Key(key) => key.run(asked),
            Action::Check(check) => check.run(),
            Action::Reload(reload) => reload.run(asked),
        }
    }
}

#[derive(Serialize)]
struct KeyReport<'a> {
    name: &'a str,
    key: &'a str,
    hash: &'a str,
    file: &'a Path,
}

impl Key {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let place = asked.place()?;
        // A service's is in its own home.
        let service = place.sources.service_used();
        let file = service.map_or(&place.home, |service| &service.home).join(policy::FILE);
        let mut bits = [0; 32];
        getrandom::fill(&mut bits)
            .map_err(|error| Failure::failed(format!("the system has no randomness: {error}")))?;
        let key = Secret::from_random(bits);
        let (name, hash) = (&*self.name, secret::hash_text(&key.hash()));
        let mut out = Out::new();
        if self.json {
            let report = KeyReport { name, key: key.reveal(), hash: &hash, file: &file };
            out.json("policy-key", &report)?;
            return Ok(DONE);
        }
        out.line(format_args!(
            "The key of {name}, shown only now and kept nowhere:\n\n    {}\n\n\
             Give it to {name}'s program alone, which says it in its HELLO as payload.auth.key; run,\n\
             send and listen read it from {}, which must be yours alone.\n\
             Nobody gets the name without it once this is in {}:\n\n\
             [[agent]]\nname = \"{name}\"\nkey = \"{hash}\"",
            key.reveal(),
            identity::key_file(&place.home, name).display(),
            file.display()
        ))?;
        Ok(DONE)
    }
}

#[derive(Serialize)]
struct PolicyReport<'a> {
    file: &'a str,
    keys: Vec<&'a str>,
    rules: Vec<RuleReport<'a>>,
    per_pair_per_minute: Option<NonZeroU32>,
}

#[derive(Serialize)]
struct RuleReport<'a> {
    line: usize,
    from: &'a str,
    to: &'a str,
    topic: &'a str,
    allow: bool,
}

impl Check {
    fn run(self) -> Result<i32, Failure> {
        let policy = policy::read(Path::new(&self.file))
            .map_err(|error| Failure::failed(foreign_line(&error.to_string())))?;
        let mut out = Out::new();
        if self.json {
            let rules = policy.rules.iter().map(|rule| RuleReport {
                line: rule.line,
                from: rule.from.as_str(),
                to: rule.to.as_str(),
                topic: rule.topic.as_str(),
                allow: rule.allow,
            });
            let report = PolicyReport {
                file: &self.file,
                keys: policy::keyed_names(&policy),
                rules: rules.collect(),
                per_pair_per_minute: policy.per_pair_per_minute,
            };
            out.json("policy", &report)?;
        } else {
            for line in policy::in_words(&policy) {
                out.line(line)?;
            }
        }
        if let Err(error) = paths::check_unchangeable(Path::new(&self.file)) {
            say(format_args!(
                "no daemon takes it as it lies there: {}",
                foreign_line(&error.to_string())
            ));
        }
        Ok(DONE)
    }
}

impl Reload {
    fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let client = join(asked)?;
        let answer = ask(&client, "reload", None)?;
        let mut out = Out::new();
        if self.json {
            out.json_text("policy-reload", &answer)?;
        } else {
            out.line("the policy is in force")?;
        }
        Ok(DONE)
    }
}
