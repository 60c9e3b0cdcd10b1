//! `brief`: the text that tells an agent how to speak to others, printed, or put into a file that agents
//! read.

use super::{
    DONE, Failure, argv,
    identity::agent_around,
    print::{Out, foreign_line},
};
use crate::{protocol::name::Name, wrap::brief};
use argh::{ArgsInfo, FromArgs};
use serde::Serialize;
use std::{
    fmt::Display,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

/// A file for agents is shorter.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The file that is made where there is none: most agents read it.
const USUAL: &str = "AGENTS.md";

/// The files that agents read in their project.
const KNOWN: [&str; 3] = ["CLAUDE.md", USUAL, "GEMINI.md"];

/// Print the text that tells an agent how to speak to others, or put it into a file that agents read.
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
    note = "Without a file, --install and --remove mean those of CLAUDE.md, AGENTS.md and GEMINI.md that are in \
            this directory; where none is, --install makes AGENTS.md.",
    note = "`agent-relay run --brief` tells it to one agent, once."
)]
pub(super) struct Brief {
    /// whom it is for, so that it says the name; with --install or --remove, the file
    #[argh(positional, arg_name = "name", from_str_fn(argv::text))]
    subject: Option<String>,

    /// put it into files that agents read, between markers; an older one is replaced where it stands
    #[argh(switch)]
    install: bool,

    /// take it out again; a file that has nothing else is removed
    #[argh(switch)]
    remove: bool,

    /// the file is CLAUDE.md, which Claude Code reads
    #[argh(switch)]
    claude: bool,

    /// the file is AGENTS.md, which Codex and most others read
    #[argh(switch)]
    codex: bool,

    /// the file is GEMINI.md, which Gemini CLI reads
    #[argh(switch)]
    gemini: bool,

    /// print one JSON object, or one a line for each file
    #[argh(switch)]
    json: bool,
}

impl Brief {
    pub(super) fn run(self) -> Result<i32, Failure> {
        match (self.install, self.remove) {
            (true, true) => {
                Err(Failure::usage("--install and --remove undo each other: say one of them"))
            }
            (false, false) => self.print(),
            (true, false) => self.change(install),
            (false, true) => self.change(remove),
        }
    }

    fn print(self) -> Result<i32, Failure> {
        if self.claude || self.codex || self.gemini {
            return Err(Failure::usage("that names a file: say --install or --remove as well"));
        }
        let name = self.subject.or_else(agent_around);
        if let Some(name) = &name {
            Name::parse(name).map_err(|error| {
                let advice = "a file is named after --install";
                Failure::usage(format!("no agent can be called {name:?}: {error} ({advice})"))
            })?;
        }
        let text = brief::text(name.as_deref());
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

    /// Plans for all files, and then does it, so that one which can't be changed leaves the others alone as
    /// well. Where it turns out too late, what was done is shown all the same.
    fn change(&self, plan: fn(&Place) -> Result<Change, Failure>) -> Result<i32, Failure> {
        let places = self.places()?;
        let planned = |place| plan(place).and_then(|change| place.allows(&change).map(|()| change));
        let changes: Vec<_> = places.iter().map(planned).collect::<Result<_, _>>()?;
        for (done, (place, change)) in places.iter().zip(&changes).enumerate() {
            if let Err(failure) = place.apply(change) {
                if done > 0 {
                    self.show(&changes[..done])?;
                }
                return Err(failure);
            }
        }
        self.show(&changes)
    }

    /// The files that are meant, each once.
    fn places(&self) -> Result<Vec<Place>, Failure> {
        let chosen = [self.claude, self.codex, self.gemini];
        let mut files: Vec<&str> = self.subject.as_deref().into_iter().collect();
        files.extend(KNOWN.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(file, _)| *file));
        if files.is_empty() {
            files.extend(KNOWN.iter().filter(|file| fs::symlink_metadata(file).is_ok()));
            if files.is_empty() && self.install {
                files.push(USUAL);
            }
        }
        let mut places: Vec<Place> = Vec::new();
        for file in files {
            let place = Place::find(file)?;
            if places.iter().all(|other| other.real != place.real) {
                places.push(place);
            }
        }
        Ok(places)
    }

    fn show(&self, changes: &[Change]) -> Result<i32, Failure> {
        let mut out = Out::new();
        if self.json {
            changes.iter().try_for_each(|change| out.json("brief-file", change))?;
            return Ok(DONE);
        }
        if changes.is_empty() {
            out.line(format_args!("nothing to take out: none of {} is here", KNOWN.join(", ")))?;
        }
        for change in changes {
            let leads = change.leads_to.as_ref().map(|to| format!(" (which leads to {to})"));
            let (path, leads) = (&change.path, leads.unwrap_or_default());
            out.line(format_args!("{}{leads} {}", foreign_line(path), change.done.words()))?;
        }
        if self.install {
            out.raw(&format!("\n{}", brief::text(None)))?;
        }
        Ok(DONE)
    }
}

/// What becomes of a file.
#[derive(Debug, Serialize)]
struct Change {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    leads_to: Option<String>,
    done: Done,
    /// What was put into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// What the file says then; nothing where it stays as it is.
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
    fn words(self) -> &'static str {
        match self {
            Self::Made => "was made, with this text:",
            Self::Added => "has this text at its end now:",
            Self::Replaced => "has this text now, in place of an older one:",
            Self::Unchanged => "had this text already:",
            Self::Removed => "does not have it any more",
            Self::Deleted => "had nothing else and was removed",
            Self::Absent => "does not have it",
        }
    }
}

fn install(place: &Place) -> Result<Change, Failure> {
    let page = place.page()?;
    let after = page.with_block();
    let done = match &place.text {
        None => Done::Made,
        Some(text) if *text == after => Done::Unchanged,
        Some(_) if page.has_block() => Done::Replaced,
        Some(_) => Done::Added,
    };
    let after = Some(after).filter(|_| done != Done::Unchanged);
    Ok(Change { text: Some(brief::text(None)), ..place.change(done, after) })
}

fn remove(place: &Place) -> Result<Change, Failure> {
    let page = place.page()?;
    let after = page.without_block();
    // What a link leads to may be somebody else's to remove.
    let deletes = after.is_empty() && !place.is_link();
    Ok(match page.has_block() {
        false => place.change(Done::Absent, None),
        true if deletes => place.change(Done::Deleted, Some(after)),
        true => place.change(Done::Removed, Some(after)),
    })
}

/// A file as it was named, and what is there.
#[derive(Debug)]
struct Place {
    named: PathBuf,
    real: PathBuf,
    /// Nothing where there is no file.
    text: Option<String>,
}

impl Place {
    fn find(named: &str) -> Result<Self, Failure> {
        let path = Path::new(named);
        let failed = |why: String| Failure::failed(format!("{}: {why}", foreign_line(named)));
        let Ok(metadata) = fs::metadata(path) else { return Self::missing(named) };
        if !metadata.is_file() {
            return Err(failed("that is no file".to_owned()));
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(failed(format!("over {FILE_BYTES_MAX} bytes are no file for agents")));
        }
        let read = || Ok((path.canonicalize()?, fs::read(path)?));
        let (real, bytes) = read().map_err(|error: io::Error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| failed("it is not UTF-8, and stays as it is".to_owned()))?;
        Ok(Self { named: path.to_owned(), real, text: Some(text) })
    }

    /// A name without an ending may be an agent's, written in the wrong place.
    fn missing(named: &str) -> Result<Self, Failure> {
        let path = PathBuf::from(named);
        let shown = foreign_line(named);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(Failure::failed(format!("{shown} can't be read, or leads nowhere")));
        }
        if path.extension().is_none_or(|end| !end.eq_ignore_ascii_case("md")) {
            let advice = "only what ends in .md is made where there is none";
            return Err(Failure::usage(format!("there is no file {shown}: {advice}")));
        }
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new(".")).canonicalize();
        let directory = directory
            .map_err(|error| Failure::failed(format!("the directory of {shown}: {error}")))?;
        let real = directory.join(path.file_name().expect("it has an ending"));
        Ok(Self { named: path, real, text: None })
    }

    fn is_link(&self) -> bool {
        fs::symlink_metadata(&self.named).is_ok_and(|metadata| metadata.is_symlink())
    }

    fn page(&self) -> Result<brief::Page<'_>, Failure> {
        brief::Page::read(self.text.as_deref().unwrap_or_default()).map_err(|unpaired| {
            Failure::failed(format!(
                "{}:{}: this marker of agent-relay's has no other: take out what is left of the block, and \
                 the marker, by hand",
                foreign_line(&self.named.to_string_lossy()),
                unpaired.line
            ))
        })
    }

    fn change(&self, done: Done, after: Option<String>) -> Change {
        let leads_to = self.is_link().then(|| foreign_line(&self.real.to_string_lossy()));
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

    /// Whether the file may be changed, as far as that can be seen before.
    fn allows(&self, change: &Change) -> Result<(), Failure> {
        if change.after.is_none() || self.text.is_none() {
            return Ok(());
        }
        let metadata = fs::metadata(&self.real).map_err(|error| unwritable(change, &error))?;
        match metadata.permissions().readonly() {
            true => Err(unwritable(change, &"it may only be read")),
            false => Ok(()),
        }
    }

    /// Whoever reads meanwhile has the old text or the new one, and so has whoever comes after a crash.
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
            // The error is told; what is left of the try says nothing more.
            drop(fs::remove_file(&new));
        }
        written
    }
}

fn unwritable(change: &Change, why: &dyn Display) -> Failure {
    Failure::failed(format!("{} can't be written: {why}", foreign_line(&change.path)))
}

fn write(path: &Path, text: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    permissions.map_or(Ok(()), |all| file.set_permissions(all))?;
    file.sync_all()
}
