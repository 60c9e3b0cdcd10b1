//! Words of a dialog or of a working agent in messages, in the agent's own text and in the person's
//! prompts: they must not keep a message back. The imitated CLIs are the worst case: no hook and no
//! transcript reports the agent's work.

use super::script::{reader, settings};
use crate::{recipe::Recipe, *};
use protocol::code::NackCode;
use testkit::foreign_words::BODIES;

/// How a CLI paints its composer.
pub(crate) struct Look {
    command: &'static str,
    /// The beginnings of the composer's first row, and of its further rows.
    prompt: &'static str,
    indent: &'static str,
    /// The rows above and below the composer.
    above: &'static str,
    below: &'static str,
}

pub(crate) const LOOKS: [Look; 7] = [
    Look {
        command: "claude", prompt: "❯ ", indent: "  ", above: "─────", below: "─────"
    },
    Look { command: "codex", prompt: "› ", indent: "  ", above: "", below: "" },
    Look { command: "gemini", prompt: " > ", indent: "   ", above: "─────", below: "" },
    Look {
        command: "qwen", prompt: "> ", indent: "  ", above: "─────", below: "─────"
    },
    Look {
        command: "copilot", prompt: "❯ ", indent: "  ", above: "─────", below: "─────"
    },
    Look {
        command: "opencode", prompt: "  ┃  ", indent: "  ┃  ", above: "  ┃", below: "  ┃"
    },
    Look { command: "aider", prompt: "> ", indent: "  ", above: "─────", below: "" },
];

/// A CLI without hooks and transcript, which paints what the test asks for.
pub(crate) struct Cli {
    look: &'static Look,
    side: TerminalSide,
    recipe: Recipe,
    now: Moment,
    conversation: Vec<String>,
    /// The text in the composer.
    draft: String,
    acknowledged: Vec<String>,
    /// The prompts that were submitted, each with its time.
    pub(crate) prompts: Vec<(Moment, String)>,
    /// Whether each relay prompt causes one more failure.
    pub(crate) fails: bool,
}

impl Cli {
    pub(crate) fn new(look: &'static Look) -> Self {
        let settings = Settings { columns: 100, rows: 40, ..settings(look.command) };
        let (recipe, now) = (settings.recipe.clone(), Moment(0));
        let mut side = TerminalSide::new(&settings);
        side.injector.assume_reader(reader(&recipe));
        side.injector.assume_started();
        let mut cli = Self {
            look,
            side,
            recipe,
            now,
            conversation: Vec::new(),
            draft: String::new(),
            acknowledged: Vec::new(),
            prompts: Vec::new(),
            fails: false,
        };
        cli.paint();
        cli
    }

    /// Paints the conversation's last rows and the composer, with the cursor at the draft's end.
    fn paint(&mut self) {
        let Look { prompt, indent, above, below, .. } = self.look;
        let mut draft = self.draft.split('\n');
        let mut composer = vec![format!("{prompt}{}", draft.next().unwrap_or_default())];
        composer.extend(draft.map(|row| format!("{indent}{row}")));
        let footer = [*below, "  project"];
        let room = 40 - composer.len() - 1 - footer.len();
        let first = self.conversation.len().saturating_sub(room);
        let mut rows: Vec<&str> = self.conversation[first..].iter().map(String::as_str).collect();
        rows.resize(room, "");
        rows.push(above);
        rows.extend(composer.iter().map(String::as_str));
        let cursor = rows.len();
        rows.extend(footer);
        let last = composer.last().map_or(0, |row| row.chars().count());
        let text = rows.join("\r\n");
        let bytes = format!("\x1b[?2004h\x1b[2J\x1b[H{text}\x1b[{cursor};{}H", last + 1);
        self.input(Input::Printed(bytes.as_bytes()));
    }

    /// Reports that a message from the agent was not delivered.
    pub(crate) fn fail(&mut self) {
        let to = format!("Bob{}", self.prompts.len());
        self.input(Input::Undelivered(DeliveryFailure {
            handle: None,
            id: None,
            to: Some(to),
            cause: FailureCause::Nack(NackCode::Refused),
            why: "not now".to_owned(),
        }));
    }

    pub(crate) fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.side.handle(self.now, input, &mut out);
        let (mut typed, mut identifies) = (Vec::new(), false);
        for output in out {
            match output {
                Output::Write(bytes) => typed.push(String::from_utf8(bytes).unwrap()),
                Output::Acknowledge(id) => self.acknowledged.push(id),
                Output::Identify => identifies = true,
                _ => {}
            }
        }
        if identifies {
            let reader = self.side.reader().clone();
            self.input(Input::Reads { reader, gathers_lines: false });
        }
        for text in typed {
            self.input(Input::Written(text.len()));
            self.read(&text);
        }
    }

    /// Reads typed text, as a composer does.
    fn read(&mut self, text: &str) {
        if text == self.recipe.submit {
            let prompt = std::mem::take(&mut self.draft);
            self.say(&prompt);
            self.prompts.push((self.now, prompt));
            if self.fails {
                self.fail();
            }
        } else {
            let text = text.replace("\x1b[200~", "").replace("\x1b[201~", "");
            self.draft.push_str(&text);
        }
        self.paint();
    }

    /// Adds rows to the conversation.
    fn say(&mut self, text: &str) {
        self.conversation.extend(text.lines().map(|row| format!("  {row}")));
    }

    pub(crate) fn deliver(&mut self, id: &str, body: &str) {
        self.input(Input::Delivered(IncomingMessage {
            id: id.to_owned(),
            from: "Bob".to_owned(),
            body: body.to_owned(),
            ..IncomingMessage::default()
        }));
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, ms: u64) {
        let until = self.now.plus(ms);
        while let Some(due) = self.side.deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
        }
        self.now = until;
    }

    #[track_caller]
    fn check_arrived(&mut self, id: &str, why: &str) {
        self.wait(60_000);
        let command = self.look.command;
        assert!(self.acknowledged.iter().any(|known| known == id), "{command}: {why}");
        assert_eq!(self.draft, "", "{command}: {why}");
    }
}

#[test]
fn message_with_words_of_a_dialog_or_of_work_arrives_like_the_next_one() {
    for look in &LOOKS {
        for body in BODIES {
            let mut cli = Cli::new(look);
            cli.deliver("first", body);
            cli.check_arrived("first", body);
            cli.deliver("second", "and on");
            cli.check_arrived("second", &format!("after {body}"));
        }
    }
}

#[test]
fn words_of_the_agent_and_of_the_person_do_not_delay_messages() {
    for look in &LOOKS {
        for body in BODIES {
            let mut cli = Cli::new(look);
            cli.say(&format!("{}{body}\n● {body}", look.prompt));
            cli.paint();
            cli.deliver("first", "hello");
            cli.check_arrived("first", body);
        }
    }
}
