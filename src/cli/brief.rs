//! `brief`: the instructions for agents on how to send messages, printed or written into files that
//! agents read.

use super::{
    failure::{DONE, Failure},
    groups,
    print::Out,
};
use crate::wrap::{agents, brief};
use argh::{ArgsInfo, FromArgs};
use client::home::{HomeOptions, agent_around};
use protocol::{name::Name, text::escaped};
use serde::Serialize;
use std::{
    fmt::Display,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

/// The size of the largest file that is changed.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file that `--install` makes if no file is named or found. Most agents read it.
const DEFAULT_FILE: &str = "AGENTS.md";

/// Print or install the instructions for agents on how to send messages.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "brief",
    help_triggers("--help"),
    usage = "[<name>] [--json] | --install [<file>] [--claude] [--codex] [--gemini] [--json] | --remove [<file>] …",
    example = "agent-relay brief Ann",
    example = "agent-relay brief --install",
    example = "agent-relay brief --install --claude --codex",
    example = "agent-relay brief --remove AGENTS.md",
    note = "Without a file, --install and --remove change those of CLAUDE.md, AGENTS.md and GEMINI.md that are in this directory. If there is none, --install makes AGENTS.md.",
    note = "`agent-relay run --brief` types the instructions into one agent."
)]
pub(super) struct Brief {
    /// the name of the agent to put into the text; with --install or --remove, the file to change
    #[argh(positional, arg_name = "name-or-file")]
    subject: Option<String>,

    /// write the instructions into files that agents read, between markers; replaces older ones
    #[argh(switch)]
    install: bool,

    /// take the instructions out of the files; a file without other text is removed
    #[argh(switch)]
    remove: bool,

    /// change CLAUDE.md, which Claude Code reads
    #[argh(switch)]
    claude: bool,

    /// change AGENTS.md, which Codex and most others read
    #[argh(switch)]
    codex: bool,

    /// change GEMINI.md, which Gemini CLI reads
    #[argh(switch)]
    gemini: bool,

    /// print one JSON object, or one a line for each file
    #[argh(switch)]
    json: bool,
}

impl Brief {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        match (self.install, self.remove) {
            (true, true) => Err(Failure::usage("--install and --remove exclude each other")),
            (false, false) => self.print(options),
            (true, false) => self.change(install),
            (false, true) => self.change(remove),
        }
    }

    fn print(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.claude || self.codex || self.gemini {
            return Err(Failure::usage("no --install or --remove").hint("give one of them"));
        }
        let name = self.subject.or_else(agent_around);
        if let Some(name) = &name {
            if ["install", "remove"].contains(&&**name) {
                let failure = Failure::usage(format!("unexpected argument {name:?}"));
                return Err(failure.hint(format!("did you mean --{name}?")));
            }
            Name::parse(name).map_err(|error| {
                let message = format!("an agent cannot have the name {name:?}: {error}");
                Failure::usage(message).hint("to change a file, use --install FILE")
            })?;
        }
        let mut text = brief::text(name.as_deref());
        text.push_str(groups::in_words(options)?.map_or("", |_| brief::GROUPS));
        let mut out = Out::new();
        if self.json {
            #[derive(Serialize)]
            struct Printed<'a> {
                name: Option<&'a str>,
                text: &'a str,
            }
            out.json("brief", &Printed { name: name.as_deref(), text: &text })?;
        } else {
            out.raw(&text)?;
        }
        Ok(DONE)
    }

    /// Plans the changes of all files before it makes any, so that an unchangeable file leaves the
    /// others unchanged. If a change fails later, the changes before it are shown.
    fn change(&self, plan: fn(&Target) -> Result<Change, Failure>) -> Result<i32, Failure> {
        let targets = self.targets()?;
        let planned =
            |target| plan(target).and_then(|change| target.allows(&change).map(|()| change));
        let changes: Vec<_> = targets.iter().map(planned).collect::<Result<_, _>>()?;
        for (done, (target, change)) in targets.iter().zip(&changes).enumerate() {
            if let Err(failure) = target.apply(change) {
                if done > 0 {
                    self.show(&changes[..done])?;
                }
                return Err(failure);
            }
        }
        self.show(&changes)
    }

    /// Returns the files to change, each once.
    fn targets(&self) -> Result<Vec<Target>, Failure> {
        let switches = [("claude", self.claude), ("codex", self.codex), ("gemini", self.gemini)];
        let chosen = switches.iter().filter(|(_, is_given)| *is_given);
        let mut files: Vec<&str> = self.subject.as_deref().into_iter().collect();
        files.extend(chosen.filter_map(|(name, _)| agents::named(name)?.instruction_file));
        if files.is_empty() {
            let is_there = |file: &&str| fs::symlink_metadata(file).is_ok();
            files.extend(agents::instruction_files().into_iter().filter(is_there));
            if files.is_empty() && self.install {
                files.push(DEFAULT_FILE);
            }
        }
        let mut targets: Vec<Target> = Vec::new();
        for file in files {
            let target = Target::find(file)?;
            if targets.iter().all(|other| other.real != target.real) {
                targets.push(target);
            }
        }
        Ok(targets)
    }

    fn show(&self, changes: &[Change]) -> Result<i32, Failure> {
        let mut out = Out::new();
        if self.json {
            changes.iter().try_for_each(|change| out.json("brief-file", change))?;
            return Ok(DONE);
        }
        if changes.is_empty() {
            let files = agents::instruction_files().join(", ");
            out.line(format_args!("nothing to remove: there is no {files}"))?;
        }
        for change in changes {
            let leads = change.leads_to.as_ref().map(|to| format!(" (which leads to {to})"));
            let (path, leads) = (&change.path, leads.unwrap_or_default());
            out.line(format_args!("{}{leads} {}", escaped(path), change.done.description()))?;
        }
        if self.install {
            out.raw(&format!("\n{}", brief::text(None)))?;
        }
        Ok(DONE)
    }
}

/// The change of a file.
#[derive(Debug, Serialize)]
struct Change {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    leads_to: Option<String>,
    done: Done,
    /// The text that was put into the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The new content of the file; `None` if it stays as it is.
    #[serde(skip)]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Done {
    Made,
    Added,
    Replaced,
    Unchanged,
    Removed,
    Deleted,
    Absent,
}

impl Done {
    fn description(self) -> &'static str {
        match self {
            Self::Made => "was made, with this text:",
            Self::Added => "now ends with this text:",
            Self::Replaced => "now has this text instead of an older one:",
            Self::Unchanged => "had this text already:",
            Self::Removed => "no longer has the text",
            Self::Deleted => "had no other text and was removed",
            Self::Absent => "does not have the text",
        }
    }
}

fn install(target: &Target) -> Result<Change, Failure> {
    let page = target.page()?;
    let after = page.with_block();
    let done = match &target.text {
        None => Done::Made,
        Some(text) if *text == after => Done::Unchanged,
        Some(_) if page.has_block() => Done::Replaced,
        Some(_) => Done::Added,
    };
    let after = Some(after).filter(|_| done != Done::Unchanged);
    Ok(Change { text: Some(brief::text(None)), ..target.change(done, after) })
}

fn remove(target: &Target) -> Result<Change, Failure> {
    let page = target.page()?;
    let after = page.without_block();
    // The target of a link may be in use elsewhere, and is not removed.
    let deletes = after.is_empty() && !target.is_link();
    Ok(match page.has_block() {
        false => target.change(Done::Absent, None),
        true if deletes => target.change(Done::Deleted, Some(after)),
        true => target.change(Done::Removed, Some(after)),
    })
}

/// A file to change, by its name and its real path.
#[derive(Debug)]
struct Target {
    named: PathBuf,
    real: PathBuf,
    /// The content; `None` if there is no file.
    text: Option<String>,
}

impl Target {
    fn find(named: &str) -> Result<Self, Failure> {
        let path = Path::new(named);
        let failed = |why: String| Failure::failed(format!("{}: {why}", escaped(named)));
        let Ok(metadata) = fs::metadata(path) else { return Self::missing(named) };
        if !metadata.is_file() {
            return Err(failed("it is not a file".to_owned()));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(failed(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let read = || Ok((path.canonicalize()?, fs::read(path)?));
        let (real, bytes) = read().map_err(|error: io::Error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| failed("it is not UTF-8, and is not changed".to_owned()))?;
        Ok(Self { named: path.to_owned(), real, text: Some(text) })
    }

    /// Returns a file that is to be made. Its name must end in `.md`, since any other word may be
    /// the name of an agent, given by mistake.
    fn missing(named: &str) -> Result<Self, Failure> {
        let path = PathBuf::from(named);
        let shown = escaped(named);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(Failure::failed(format!(
                "{shown} cannot be read, or is a link to a missing file"
            )));
        }
        if path.extension().is_none_or(|end| !end.eq_ignore_ascii_case("md")) {
            let advice = "only files that end in .md are made";
            return Err(Failure::usage(format!("there is no file {shown}; {advice}")));
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new(".")).canonicalize();
        let directory = directory.map_err(|error| {
            Failure::failed(format!("cannot find the directory of {shown}: {error}"))
        })?;
        let real = directory.join(path.file_name().expect("a name with an extension"));
        Ok(Self { named: path, real, text: None })
    }

    fn is_link(&self) -> bool {
        fs::symlink_metadata(&self.named).is_ok_and(|metadata| metadata.is_symlink())
    }

    fn page(&self) -> Result<brief::Page<'_>, Failure> {
        brief::Page::read(self.text.as_deref().unwrap_or_default()).map_err(|unpaired| {
            let (file, line) = (escaped(&self.named.to_string_lossy()), unpaired.line);
            Failure::failed(format!("{file}:{line}: this marker of agent-relay has no counterpart"))
                .hint("remove it and the rest of the text by hand")
        })
    }

    fn change(&self, done: Done, after: Option<String>) -> Change {
        let leads_to = self.is_link().then(|| escaped(&self.real.to_string_lossy()));
        let path = self.named.to_string_lossy().into_owned();
        Change { path, leads_to, done, text: None, after }
    }

    fn apply(&self, change: &Change) -> Result<(), Failure> {
        let applied = match (change.done, &change.after) {
            (Done::Deleted, _) => fs::remove_file(&self.real),
            (_, Some(text)) => self.replace(text),
            (_, None) => Ok(()),
        };
        applied.map_err(|error| unwritable(change, &error))
    }

    /// Checks that the file can be changed, as far as that is known before the change.
    fn allows(&self, change: &Change) -> Result<(), Failure> {
        if change.after.is_none() || self.text.is_none() {
            return Ok(());
        }
        let metadata = fs::metadata(&self.real).map_err(|error| unwritable(change, &error))?;
        match metadata.permissions().readonly() {
            true => Err(unwritable(change, &"it is read-only")),
            false => Ok(()),
        }
    }

    /// Replaces the content atomically: readers see the old or the new text, also after a crash.
    fn replace(&self, text: &str) -> io::Result<()> {
        let permissions = match &self.text {
            Some(_) => Some(fs::metadata(&self.real)?.permissions()),
            None => None,
        };
        let mut name = self.real.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", process::id()));
        let new = self.real.with_file_name(name);
        let written = write(&new, text, permissions).and_then(|()| fs::rename(&new, &self.real));
        if written.is_err() {
            // Ignored: the first error is reported.
            drop(fs::remove_file(&new));
        }
        written
    }
}

fn unwritable(change: &Change, why: &dyn Display) -> Failure {
    Failure::failed(format!("{} is not written: {why}", escaped(&change.path)))
}

fn write(path: &Path, text: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    permissions.map_or(Ok(()), |all| file.set_permissions(all))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_file_has_a_switch_and_is_in_the_help() {
        let help = Brief::get_args_info();
        for file in agents::instruction_files() {
            let names = |text: &str| text.contains(file);
            assert!(help.flags.iter().any(|flag| names(flag.description)), "no switch for {file}");
            assert!(help.notes.iter().any(|note| names(note)), "no note about {file}");
        }
        assert!(agents::instruction_files().contains(&DEFAULT_FILE));
    }
}
