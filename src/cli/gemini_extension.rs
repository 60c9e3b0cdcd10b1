//! `gemini-extension`: write the extension that makes Gemini CLI run hooks.

use super::{
    failure::{DONE, Failure},
    hook::HOOK,
    print::Out,
    run::own_command,
};
use crate::wrap::{agents, hooks::Extension};
use argh::{ArgsInfo, FromArgs};
use platform::{process, shell::quoted};
use protocol::text::escaped;
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::Path,
};

const CLI: &str = "gemini";

/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// Write an extension for Gemini CLI that runs hooks.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "gemini-extension",
    help_triggers("--help"),
    example = "agent-relay gemini-extension ~/agent-relay-extension",
    note = "`gemini extensions link DIR` installs it. Only a Gemini CLI that `agent-relay run` or",
    note = "`spawn` has started is told of messages by it; in others it does nothing. Not on Windows."
)]
pub(super) struct GeminiExtension {
    /// an empty or new directory, or one that has this extension
    #[argh(positional, arg_name = "dir")]
    directory: String,
}

impl GeminiExtension {
    pub(super) fn run(self) -> Result<i32, Failure> {
        let hooks = agents::named(CLI).and_then(|agent| agent.hooks);
        let extension = hooks.and_then(|hooks| hooks.extension.as_ref()).expect("an extension");
        if process::SYSTEM == "windows" {
            return Err(Failure::failed("Gemini CLI's hooks were never tried on Windows"));
        }
        let directory = Path::new(&self.directory);
        let shown = escaped(&self.directory);
        let failure = |error: io::Error| Failure::failed(format!("cannot write {shown}: {error}"));
        if !is_free(directory, extension).map_err(failure)? {
            return Err(Failure::failed(format!("{shown} holds something else"))
                .hint("name an empty or a new directory"));
        }
        let mut command = words(own_command(HOOK)?)?;
        command.push(CLI.to_owned());
        for (name, text) in (extension.files)(&command) {
            let path = directory.join(name);
            let folder = path.parent().expect("a file in a directory");
            fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(failure)?;
        }
        let mut out = Out::new();
        let pasted = escaped(&quoted(&self.directory));
        out.line(format_args!("written. To install it, run: gemini extensions link {pasted}"))?;
        Ok(DONE)
    }
}

/// Whether a directory may get the extension: there is none yet, it is empty, or has the extension.
fn is_free(directory: &Path, extension: &Extension) -> io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            Ok(entries.next().is_none() || is_ours(&directory.join(extension.manifest)))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether a file is the manifest of our extension.
fn is_ours(manifest: &Path) -> bool {
    #[derive(Deserialize)]
    struct Manifest {
        name: String,
    }
    let mut json = Vec::new();
    // A manifest that cannot be read belongs to another program.
    let read =
        File::open(manifest).and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_end(&mut json));
    let manifest: Option<Manifest> = read.ok().and_then(|_| serde_json::from_slice(&json).ok());
    manifest.is_some_and(|manifest| manifest.name == Extension::NAME)
}

fn words(command: Vec<OsString>) -> Result<Vec<String>, Failure> {
    let words = command.into_iter().map(OsString::into_string).collect::<Result<_, _>>();
    words.map_err(|word| {
        let shown = escaped(&word.to_string_lossy());
        Failure::failed(format!("{shown} is no valid text"))
            .hint("install agent-relay at another path")
    })
}
