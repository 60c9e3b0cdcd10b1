//! Notices to the agent's person: bytes for the terminal, or a command of the person's.

use super::threads::spawn;
use client::home::Notify;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::{
    io,
    process::{Command, Stdio},
};
use terminal::attention::Notice;

/// The most notices that wait for the command. Further ones are dropped, with a line in the log.
const WAITING_MAX: usize = 8;

/// The way to notify the person.
pub(super) struct Notifier {
    notify: Notify,
    /// The thread that runs the command, from the first notice on.
    commands: Option<Sender<Vec<String>>>,
}

impl Notifier {
    pub(super) fn new(notify: Notify) -> Self {
        Self { notify, commands: None }
    }

    /// Whether the person wants notices.
    pub(super) fn is_on(&self) -> bool {
        self.notify != Notify::Off
    }

    /// Notifies the person about this agent. Returns the bytes for the person's terminal, if any.
    pub(super) fn notify(&mut self, name: &str, notice: Notice) -> Option<Vec<u8>> {
        let alert = match &self.notify {
            Notify::Off => return None,
            Notify::Bell => "\x07".to_owned(),
            Notify::Osc9 => format!("\x1b]9;{name} {notice}\x07"),
            Notify::Osc777 => format!("\x1b]777;notify;Agent Relay;{name} {notice}\x07"),
            Notify::Command(words) => {
                let words = filled(words, name, &notice.to_string());
                if let Err(why) = self.run(words) {
                    tracing::warn!("the person is not notified: {why}");
                }
                return None;
            }
        };
        Some(alert.into_bytes())
    }

    fn run(&mut self, words: Vec<String>) -> Result<(), String> {
        let commands = match &self.commands {
            Some(commands) => commands,
            None => {
                let (sender, commands) = bounded(WAITING_MAX);
                // Waits for: its channel, then the person's command, perhaps without end. Not
                // joined: ends with the process; notices beyond the channel are dropped.
                spawn("notify", move || run_each(&commands)).map_err(|error| error.to_string())?;
                self.commands.insert(sender)
            }
        };
        commands.try_send(words).map_err(|error| match error {
            TrySendError::Full(_) => format!("{WAITING_MAX} notices wait for the command"),
            TrySendError::Disconnected(_) => "the thread that runs the command is gone".to_owned(),
        })
    }
}

/// Returns the words of a command for a notice. Without a placeholder, the sentence is the last
/// word.
fn filled(words: &[String], name: &str, text: &str) -> Vec<String> {
    let has_place = |word: &String| word.contains("{agent}") || word.contains("{text}");
    let mut filled: Vec<_> =
        words.iter().map(|word| word.replace("{agent}", name).replace("{text}", text)).collect();
    if !words.iter().any(has_place) {
        filled.push(format!("{name} {text}"));
    }
    filled
}

/// Runs each command to its end. While a command does not end, later notices are dropped.
fn run_each(commands: &Receiver<Vec<String>>) {
    for words in commands {
        if let Err(error) = run(&words) {
            tracing::warn!("the command of `notify`, {:?}, failed: {error}", words[0]);
        }
    }
}

fn run(words: &[String]) -> io::Result<()> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_or_the_sentence_is_the_last_word() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let filled = |command: &[&str]| filled(&words(command), "web-3", "has finished");
        assert_eq!(
            filled(&["say", "{agent}: {text}", "{text}"]),
            ["say", "web-3: has finished", "has finished"]
        );
        assert_eq!(filled(&["say", "-v"]), ["say", "-v", "web-3 has finished"]);
    }

    #[test]
    fn terminal_gets_the_bytes_of_its_kind() {
        let bytes = |notify| {
            let alert = Notifier::new(notify).notify("web-3", Notice::Finished);
            alert.map(|alert| String::from_utf8(alert).unwrap())
        };
        assert_eq!(bytes(Notify::Off), None);
        assert_eq!(bytes(Notify::Bell).unwrap(), "\x07");
        assert_eq!(bytes(Notify::Osc9).unwrap(), "\x1b]9;web-3 has finished\x07");
        let osc777 = "\x1b]777;notify;Agent Relay;web-3 has finished\x07";
        assert_eq!(bytes(Notify::Osc777).unwrap(), osc777);
    }
}
