//! Handing our MCP server over to an agent's CLI for one run.

use super::{
    Environment,
    arming::{self, Wrapper},
    run_folder::RunFolder,
};
use platform::process;
use std::{
    env,
    ffi::{OsStr, OsString},
    io,
};
use terminal::{
    agents::{self, AGENTS, Agent},
    handover::McpServer,
    hooks::Armed,
};

/// Our server as it is offered to a CLI.
pub(super) struct Offer<'a> {
    /// The program and its arguments.
    pub(super) command: &'a [OsString],
    /// The variables that let the server act as the agent.
    pub(super) variables: &'a [(&'static str, OsString)],
}

/// Returns why the CLI with this recipe cannot be given our server; `None` if it can.
pub(super) fn obstacle(recipe: &str) -> Option<String> {
    let Some(agent) = agents::named(recipe).filter(|agent| agent.mcp.is_some()) else {
        let known = AGENTS.iter().filter(|agent| agent.mcp.is_some());
        let known: Vec<_> = known.map(|Agent { name, .. }| *name).collect();
        return Some(format!("a way to hand it over is known only for {}", known.join(", ")));
    };
    let is_tried = agent.is_tried_on_windows || process::SYSTEM != "windows";
    (!is_tried).then(|| "that was never tried on Windows".to_owned())
}

/// Changes the arguments and the environment of the CLI with this recipe so that it starts our
/// server. `hooks` has the folder of this run and what its hooks need, if it has hooks; else a
/// folder is made, and returned.
pub(super) fn hand_over(
    recipe: &str,
    offer: &Offer<'_>,
    wrapper: &Wrapper<'_>,
    hooks: Option<&(RunFolder, Armed)>,
    arguments: &mut Vec<OsString>,
    env: &mut Environment,
) -> io::Result<Option<RunFolder>> {
    if let Some(why) = obstacle(recipe) {
        return Err(io::Error::other(why));
    }
    let give = agents::named(recipe).and_then(|agent| agent.mcp).expect("there is no obstacle");
    let made = match hooks {
        Some(_) => None,
        None => Some(RunFolder::create(wrapper.address)?),
    };
    let folder = hooks.map(|(folder, _)| folder).or(made.as_ref());
    let folder = folder.expect("a folder is given or made");
    let command = offer.command.iter().map(|word| text(word)).collect::<io::Result<Vec<_>>>()?;
    let variables = offer.variables.iter().map(|(name, value)| Ok((*name, text(value)?)));
    let server = McpServer {
        command: &command,
        variables: &variables.collect::<io::Result<Vec<_>>>()?,
        directory: &text(folder.path.as_os_str())?,
        env: &|name| variable(env, name),
        read: &|path| arming::read_if_there(path, wrapper.directory),
    };
    // The CLI's own arguments need not be text, and stay as they are.
    let mut armed = hooks.map(|(_, armed)| armed.clone()).unwrap_or_default();
    give(&server, &mut armed).map_err(|why| io::Error::other(why.to_string()))?;
    for (name, text) in &armed.files {
        folder.write(name, text)?;
    }
    env.extend(arming::variables(&armed));
    arguments.splice(0..0, armed.arguments.into_iter().map(OsString::from));
    Ok(made)
}

/// Returns the value of a variable after the changes of an environment.
fn variable(changes: &[(OsString, Option<OsString>)], name: &str) -> Option<String> {
    let changed = changes.iter().rev().find(|(changed, _)| changed == name);
    let value = changed.map_or_else(|| env::var_os(name), |(_, value)| value.clone());
    value.map(|value| value.to_string_lossy().into_owned())
}

fn text(word: &OsStr) -> io::Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| io::Error::other(format!("{} is not valid text", word.display())))
}
