//! `policy`: make keys for names, check a policy file, and apply it.

use super::{
    context::context,
    failure::{DONE, Failure},
    identity,
    join::join,
    launch::make_home,
    print::{Out, eprint_line},
    request::call,
    values::agent_name,
};
use crate::{config::policy, daemon::mark::POLICY_IN_FORCE};
use argh::{ArgsInfo, FromArgs};
use client::home::{Context, HomeOptions, agent_around};
use platform::{paths, random};
use protocol::{
    relay::RequestName,
    secret::{self, Secret},
    text::escaped,
};
use serde::Serialize;
use std::{fs, num::NonZeroU32, path::Path};

/// Make keys for names, check a policy file, and apply it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "policy",
    help_triggers("--help"),
    example = "agent-relay policy key Ann",
    example = "agent-relay policy check policy.toml",
    example = "agent-relay policy reload",
    example = "agent-relay policy clear"
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
    Clear(Clear),
}

/// Make a key for a name, and show the lines for policy.toml.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "key",
    help_triggers("--help"),
    example = "agent-relay policy key Ann",
    example = "agent-relay policy key Ann --save"
)]
struct Key {
    /// the name that the key is for
    #[argh(positional, arg_name = "name", from_str_fn(agent_name))]
    name: String,

    /// write the key to keys/NAME in the home, rather than show it
    #[argh(switch)]
    save: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Describe a policy file in words, or show what is wrong with it.
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
    #[argh(positional, arg_name = "file")]
    file: String,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Apply policy.toml to the running daemon. After an error the old policy stays in force.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "reload", help_triggers("--help"), example = "agent-relay policy reload")]
struct Reload {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

/// Allow the daemon to go on without rules, after policy.toml was removed on purpose.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "clear",
    help_triggers("--help"),
    example = "agent-relay policy clear",
    note = "Rules that were in force stay, and no daemon starts without them, until you clear them."
)]
struct Clear {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

impl Policy {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        match self.action {
            Action::Key(key) => key.run(options),
            Action::Check(check) => check.run(),
            Action::Reload(reload) => reload.run(options),
            Action::Clear(clear) => clear.run(options),
        }
    }
}

/// The home with the policy.toml in force: a service has its own home.
fn policy_home(context: &Context) -> &Path {
    context.sources.service_used().map_or(&context.home, |service| &service.home)
}

#[derive(Serialize)]
struct KeyReport<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// The file with the key, if it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_to: Option<&'a Path>,
    hash: &'a str,
    /// The policy file.
    file: &'a Path,
}

impl Key {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let context = context(options)?;
        let file = policy_home(&context).join(policy::FILE);
        let key = Secret::from_random(random::bytes().map_err(Failure::because)?);
        let (name, hash) = (&*self.name, secret::hash_text(&key.hash()));
        let key_file = identity::key_file(&context.home, name);
        let saved_to = if self.save { Some(save(&key_file, &key)?) } else { None };
        let mut out = Out::new();
        if self.json {
            let shown = if self.save { None } else { Some(key.reveal()) };
            let report = KeyReport { name, key: shown, saved_to, hash: &hash, file: &file };
            out.json("policy-key", &report)?;
            return Ok(DONE);
        }
        let key_file = key_file.display();
        let where_it_is = match saved_to {
            Some(_) => format!("The key of {name} is in {key_file}."),
            None => format!(
                "The key of {name}, which is shown once and not stored:\n\n    {}\n\n\
                 Give it only to {name}'s program, which sends it in its HELLO as payload.auth.key.\n\
                 run, send and listen read it from {key_file}, which must be private (--save).",
                key.reveal()
            ),
        };
        out.line(format_args!(
            "{where_it_is}\n\
             The name requires the key once these lines are in {}:\n\n\
             [[agent]]\nname = \"{name}\"\nkey = \"{hash}\"",
            file.display()
        ))?;
        Ok(DONE)
    }
}

/// Writes a key to a file that must not exist.
fn save<'a>(file: &'a Path, key: &Secret) -> Result<&'a Path, Failure> {
    let directory = file.parent().expect("the keys are in a directory");
    let home = directory.parent().expect("the directory is in the home");
    make_home(home)?;
    paths::make_private_dir(directory).map_err(Failure::because)?;
    if file.exists() {
        let failure = Failure::failed(format!("{} exists", file.display()));
        return Err(failure.hint("remove it first, if its key is no longer needed"));
    }
    let text = format!("{}\n", key.reveal());
    paths::write_private_file(file, text.as_bytes()).map_err(Failure::because)?;
    Ok(file)
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
            .map_err(|error| Failure::failed(escaped(&error.to_string())))?;
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
        if let Err(error) = paths::check_only_owner_writes(Path::new(&self.file)) {
            eprint_line(format_args!(
                "no daemon accepts the file: {}",
                escaped(&error.to_string())
            ));
        }
        Ok(DONE)
    }
}

impl Reload {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let client = join(options)?;
        let answer = call(&client, RequestName::Reload, None)?;
        let mut out = Out::new();
        if self.json {
            out.json_text("policy-reload", &answer)?;
        } else {
            out.line("the policy is in force")?;
        }
        Ok(DONE)
    }
}

#[derive(Serialize)]
struct ClearReport<'a> {
    home: &'a Path,
    cleared: bool,
}

impl Clear {
    fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if let Some(agent) = agent_around() {
            return Err(Failure::failed(format!(
                "{} is an agent, and only your user clears the rules",
                escaped(&agent)
            )));
        }
        let context = context(options)?;
        let home = policy_home(&context);
        let file = home.join(policy::FILE);
        if fs::exists(&file).map_err(Failure::because)? {
            return Err(Failure::failed(format!("{} exists", file.display()))
                .hint("remove it first, then run `agent-relay policy clear` again"));
        }
        let cleared = POLICY_IN_FORCE.clear(home).map_err(Failure::because)?;
        let mut out = Out::new();
        if self.json {
            out.json("policy-clear", &ClearReport { home, cleared })?;
        } else if cleared {
            out.line(
                "the rules are cleared: they end with the running daemon, or now with `agent-relay \
                 policy reload`",
            )?;
        } else {
            out.line("no rules were in force")?;
        }
        Ok(DONE)
    }
}
