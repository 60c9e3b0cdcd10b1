//! Settings of a terminal side.

use super::{
    hooks::HookedBrief,
    recipe::{Book, Recipe},
};

/// Settings that a terminal side needs before its child runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The recipe by which messages are typed into the command.
    pub recipe: Recipe,
    /// All recipes. A program with one that the command starts is typed into as that one says,
    /// unless a transcript is followed.
    pub book: Book,
    /// The system, as [`std::env::consts::OS`] names it.
    pub system: &'static str,
    /// Whether a real terminal shows the screen and answers the child's queries.
    pub attached: bool,
    /// Whether the child's terminal may drop the sequences around a paste, as the pseudo consoles of
    /// Windows do for a program without virtual terminal input.
    pub may_drop_paste_marks: bool,
    /// The terminal's columns.
    pub columns: usize,
    /// The terminal's rows.
    pub rows: usize,
    /// Whether the one-line form `->relay:Bob hello` counts as a message.
    pub inline: bool,
    /// Whether the wrapper follows the transcript that the command writes.
    pub transcript: bool,
    /// Whether messages are read from the screen even if a transcript is followed.
    pub grid: bool,
    /// A text that is typed once, before anything else. It is ignored for a program that would run
    /// it.
    pub brief: Option<String>,
    /// The brief as the program's hooks give it to each conversation, if they can. Then the brief
    /// is typed only if no hook reports.
    pub hooked_brief: Option<HookedBrief>,
    /// The time for which the marks of an inner `run` may contradict the foreground.
    pub contradiction_ms: u64,
    /// The seed of the generator that draws the frames' digits.
    pub seed: [u8; 32],
}
