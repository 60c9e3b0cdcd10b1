//! Plays Claude Code in the tests, in the terminals of every system: it runs its hooks, and does
//! what a test tells it.
//!
//! The program appends its directory and its arguments to the file `started` in its own folder,
//! prints `ready`, and runs each line that the test appends to the file `script` there. A line is a
//! JSON array of words:
//! - `["print", TEXT]` prints TEXT.
//! - `["run", PROGRAM, ARGUMENT…]` runs a program in the same terminal.
//! - `["hook", EVENT, PAYLOAD]` runs the hook of an event, again and again until the next line,
//!   since a hook gives up when its wrapper is slow.
//! - `["end", CODE]` ends the program.
//!
//! What is typed is dropped. The program ends with its input.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

/// The pause between two looks for the next line.
const PAUSE: Duration = Duration::from_millis(20);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let program = env::current_exe()?;
    let folder = program.parent().ok_or("the program is in no folder")?;
    // Whoever only tries the program out gives it no arguments.
    if !arguments.is_empty() {
        note_start(&folder.join("started"), &arguments)?;
    }
    thread::spawn(|| {
        // An error is an end, too.
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        process::exit(0);
    });
    print("ready\r\n")?;
    let mut repeated: Option<(Vec<String>, String)> = None;
    for done in 0.. {
        let line = loop {
            let script = fs::read_to_string(folder.join("script")).unwrap_or_default();
            // A line without an end is still being written.
            let mut lines = script.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.nth(done) {
                break serde_json::from_str::<Vec<String>>(line)?;
            }
            match &repeated {
                Some((command, payload)) => run_hook(command, payload)?,
                None => thread::sleep(PAUSE),
            }
        };
        let words: Vec<_> = line.iter().map(String::as_str).collect();
        repeated = None;
        match words[..] {
            ["print", text] => print(text)?,
            ["run", program, ref arguments @ ..] => {
                Command::new(program).args(arguments).stdin(Stdio::null()).status()?;
            }
            ["hook", event, payload] => {
                repeated = Some((hook(&arguments, event)?, payload.to_owned()));
            }
            ["end", code] => process::exit(code.parse()?),
            _ => return Err(format!("unknown: {words:?}").into()),
        }
    }
    Ok(())
}

fn note_start(file: &Path, arguments: &[String]) -> Outcome {
    let directory = env::current_dir()?;
    let line = format!("{}\n", json!({"directory": directory, "arguments": arguments}));
    // One write, so that the test reads no half of a line.
    Ok(OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())?)
}

/// Returns the command of an event, as the file of `--settings` has it.
fn hook(arguments: &[String], event: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let at = arguments.iter().position(|word| word == "--settings").ok_or("there are no hooks")?;
    let settings = fs::read_to_string(arguments.get(at + 1).ok_or("--settings has no file")?)?;
    let settings: Value = serde_json::from_str(&settings)?;
    let hook = &settings["hooks"][event][0]["hooks"][0];
    let program = hook["command"].as_str().ok_or("this event has no hook")?;
    let words = hook["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok([program].into_iter().chain(words).map(str::to_owned).collect())
}

fn run_hook(command: &[String], payload: &str) -> Outcome {
    let mut hook = Command::new(&command[0]);
    hook.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut hook = hook.spawn()?;
    // The hook may have given up already.
    drop(hook.stdin.take().map(|mut input| input.write_all(payload.as_bytes())));
    hook.wait()?;
    Ok(())
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
