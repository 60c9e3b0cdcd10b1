//! The decision whether a text may be typed now, and the reason if not.

use crate::{keyboard::Reader, obstacle::Obstacle, recipe::Form};

/// The facts on which the decision to type depends.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    /// Whether the person holds the agent's messages.
    pub(super) is_held: bool,
    /// Whether the program has printed nothing so far and may still be starting.
    pub(super) is_silent: bool,
    pub(super) reader: &'a Reader,
    /// Whether the screen changed, or a prompt was submitted, a moment ago.
    pub(super) is_changing: bool,
    /// Whether the agent is at work, according to its screen or its transcript.
    pub(super) is_at_work: bool,
    /// Whether the screen shows a message that the agent has not finished.
    pub(super) is_in_message: bool,
    /// Whether the person pressed a key a moment ago.
    pub(super) is_person_typing: bool,
    /// Whether the terminal has not yet accepted all bytes that were written to it.
    pub(super) has_unwritten: bool,
    /// Whether the program is in the middle of repainting its screen.
    pub(super) is_repainting: bool,
    /// The recipe's verdict on the screen: the form in which a text may be typed, or an obstacle.
    pub(super) form: Result<Form, Obstacle>,
    /// Whether the program has finished starting.
    pub(super) is_started: bool,
    /// Whether the agent may not have adopted the last text yet.
    pub(super) is_adopting: bool,
    /// Whether a key since the last Enter may have put a line editor into a mode for commands.
    pub(super) may_be_in_command_mode: bool,
    /// Whether the person's input line is empty.
    pub(super) is_line_empty: bool,
}

impl Facts<'_> {
    /// Returns the form in which text may be typed now, or the obstacle.
    pub(super) fn verdict(&self) -> Result<Form, Obstacle> {
        self.terminal_obstacle().map_or(Ok(()), Err)?;
        if !self.is_started {
            return Err(self.form.err().unwrap_or(Obstacle::Starting));
        }
        let form = self.form?;
        if self.is_adopting {
            return Err(Obstacle::Busy);
        }
        let is_command = form != Form::Plain && self.may_be_in_command_mode;
        if is_command || !self.is_line_empty { Err(Obstacle::HalfTyped) } else { Ok(form) }
    }

    /// Returns the first obstacle among the facts that do not depend on the input line.
    pub(super) fn terminal_obstacle(&self) -> Option<Obstacle> {
        match self.reader {
            _ if self.is_held => Some(Obstacle::Held),
            _ if self.is_silent => Some(Obstacle::Starting),
            Reader::Barred(why, _) => Some(*why),
            _ if self.is_changing && self.is_at_work => Some(Obstacle::Busy),
            _ if self.is_changing => Some(Obstacle::Printing),
            _ if self.is_in_message => Some(Obstacle::Busy),
            _ if self.is_person_typing => Some(Obstacle::Typing),
            _ if self.has_unwritten => Some(Obstacle::NotReading),
            _ if self.is_repainting => Some(Obstacle::Printing),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Facts<'static> = Facts {
        is_held: false,
        is_silent: false,
        reader: &Reader::Accepted,
        is_changing: false,
        is_at_work: false,
        is_in_message: false,
        is_person_typing: false,
        has_unwritten: false,
        is_repainting: false,
        form: Ok(Form::Plain),
        is_started: true,
        is_adopting: false,
        may_be_in_command_mode: false,
        is_line_empty: true,
    };

    #[test]
    fn quiet_program_with_an_empty_line_gets_text() {
        assert_eq!(READY.verdict(), Ok(Form::Plain));
        // Only a shell's line editor has a command mode.
        assert_eq!(Facts { may_be_in_command_mode: true, ..READY }.verdict(), Ok(Form::Plain));
    }

    #[test]
    fn each_fact_is_an_obstacle_of_its_own() {
        let barred = Reader::Barred(Obstacle::Nested, None);
        let here_document = Ok(Form::HereDocument);
        for (facts, why) in [
            (Facts { is_held: true, ..READY }, Obstacle::Held),
            (Facts { is_silent: true, ..READY }, Obstacle::Starting),
            (Facts { reader: &barred, ..READY }, Obstacle::Nested),
            (Facts { is_changing: true, ..READY }, Obstacle::Printing),
            (Facts { is_changing: true, is_at_work: true, ..READY }, Obstacle::Busy),
            (Facts { is_in_message: true, ..READY }, Obstacle::Busy),
            (Facts { is_person_typing: true, ..READY }, Obstacle::Typing),
            (Facts { has_unwritten: true, ..READY }, Obstacle::NotReading),
            (Facts { is_repainting: true, ..READY }, Obstacle::Printing),
            (Facts { form: Err(Obstacle::Dialog), ..READY }, Obstacle::Dialog),
            (Facts { is_started: false, ..READY }, Obstacle::Starting),
            (Facts { is_started: false, form: Err(Obstacle::Dialog), ..READY }, Obstacle::Dialog),
            (Facts { is_adopting: true, ..READY }, Obstacle::Busy),
            (
                Facts { form: here_document, may_be_in_command_mode: true, ..READY },
                Obstacle::HalfTyped,
            ),
            (Facts { is_line_empty: false, ..READY }, Obstacle::HalfTyped),
        ] {
            assert_eq!(facts.verdict(), Err(why), "{facts:?}");
        }
    }
}
