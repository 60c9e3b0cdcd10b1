//! Arming: giving an agent's CLI its hooks for one run.

use super::{
    Environment,
    run_folder::{RunFolder, WrapperAddress},
};
use platform::process;
use std::{
    env,
    error::Error,
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    mem,
    path::Path,
};
use terminal::{
    agents,
    hooks::{Armed, Arming, Extension, Hooks, Unarmed},
    recipe::Version,
};

/// The longest file of settings that is read.
const SETTINGS_BYTES_MAX: u64 = 4 << 20;

/// A wrapper that arms a CLI.
pub(super) struct Wrapper<'a> {
    /// The address that its hooks use.
    pub(super) address: &'a WrapperAddress,
    /// The program, and its first arguments, that run a hook; `None` for a run without hooks.
    pub(super) hook_command: Option<&'a [OsString]>,
    /// The CLI's version, if it is known.
    pub(super) version: Option<&'a Version>,
    /// The CLI's directory, if it is not this process's.
    pub(super) directory: Option<&'a Path>,
}

/// Changes the arguments and the environment of the CLI with this recipe so that it runs hooks.
/// Returns the folder with the files that the hooks need, and these files and the variables; `None`
/// for a CLI whose hooks are not known. Without hooks, arguments and environment stay as they are.
///
/// # Errors
/// The reason why there are no hooks, in words.
pub(super) fn arm(
    recipe: &str,
    wrapper: &Wrapper<'_>,
    arguments: &mut Vec<OsString>,
    env: &mut Environment,
) -> Result<Option<(RunFolder, Armed)>, String> {
    let Some(hooks) = agents::named(recipe).and_then(|agent| agent.hooks) else { return Ok(None) };
    let armed = armed(recipe, hooks, wrapper, arguments);
    let (folder, mut armed) = armed
        .inspect_err(|why| tracing::info!("there are no hooks: {why}"))
        .map_err(|why| why.to_string())?;
    *arguments = mem::take(&mut armed.arguments).into_iter().map(OsString::from).collect();
    env.extend(variables(&armed));
    Ok(Some((folder, armed)))
}

/// Returns the variables to set, as changes of an environment.
pub(super) fn variables(armed: &Armed) -> impl Iterator<Item = (OsString, Option<OsString>)> {
    armed.env.iter().map(|(name, value)| (name.into(), Some(value.into())))
}

fn armed(
    cli: &str,
    hooks: &Hooks,
    wrapper: &Wrapper<'_>,
    arguments: &[OsString],
) -> Result<(RunFolder, Armed), Box<dyn Error>> {
    let command = wrapper.hook_command.ok_or("they are off, or there is no endpoint for them")?;
    let before = texts(command)?;
    let since = Version::parse(hooks.since_version).expect("versions of ours are valid");
    if wrapper.version.is_none_or(|version| *version < since) {
        return Err(Unarmed::Version(hooks.since_version).into());
    }
    let words = texts(arguments)?;
    let user_settings = (hooks.user_settings)(&words)
        .map(|settings| settings_text(settings, wrapper.directory))
        .transpose()?;
    let folder = RunFolder::create(wrapper.address)?;
    let file = folder.wrapper_file();
    let file = file.to_str().ok_or(Unarmed::NotText)?;
    let command = |event: &str| {
        let words = [cli, event, "--to", file].map(str::to_owned);
        before.iter().cloned().chain(words).collect()
    };
    let is_tried = agents::named(cli).is_some_and(|agent| agent.is_tried_on_windows);
    if process::SYSTEM == "windows" && !is_tried {
        return Err(Unarmed::System.into());
    }
    let mut armed = (hooks.arm)(&Arming {
        command: &command,
        arguments: &words,
        user_settings: user_settings.as_deref(),
        env: &|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        read: &|path| read_if_there(path, wrapper.directory),
        directory: &folder.path,
    })?;
    if hooks.extension.is_some() {
        armed.env.push((Extension::WRAPPER_VARIABLE, file.to_owned()));
    }
    for (name, text) in &armed.files {
        folder.write(name, text)?;
    }
    Ok((folder, armed))
}

fn texts(words: &[OsString]) -> Result<Vec<String>, Unarmed> {
    words.iter().map(|word| word.to_str().map(str::to_owned).ok_or(Unarmed::NotText)).collect()
}

/// Returns the settings that an argument names: JSON, or the path of a file with it.
fn settings_text(argument: &str, directory: Option<&Path>) -> Result<String, Unarmed> {
    if argument.trim_start().starts_with('{') {
        return Ok(argument.to_owned());
    }
    read_settings(argument, directory).map_err(|_| Unarmed::Settings)
}

/// Returns the text of a file of defaults. The path is relative to `base`; `None` if there is no
/// such file.
pub(super) fn read_if_there(path: &str, base: Option<&Path>) -> Result<Option<String>, Unarmed> {
    match read_settings(path, base) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(Unarmed::Defaults),
    }
}

/// Reads a settings file. The path is relative to the CLI's directory.
fn read_settings(path: &str, directory: Option<&Path>) -> io::Result<String> {
    let path = directory.unwrap_or_else(|| Path::new("")).join(path);
    let mut text = String::new();
    // A pipe can be read only once, and the CLI has to read it.
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)?.take(SETTINGS_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
