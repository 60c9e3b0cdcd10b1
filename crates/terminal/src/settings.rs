//! Settings of a terminal side.

use super::{
    hooks::HookedBrief,
    recipe::{Book, Recipe},
};

/// Settings that a terminal side needs before its child runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The recipe for typing messages into the command.
    pub recipe: Recipe,
    /// All recipes. If the command starts a program with a recipe, that recipe is used for the
    /// program, unless a transcript is followed.
    pub book: Book,
    /// The system, as [`std::env::consts::OS`] names it.
    pub system: &'static str,
    /// Whether a real terminal shows the screen and answers the child's queries.
    pub attached: bool,
    /// Whether the child's terminal may drop the sequences around a paste. The pseudo consoles of
    /// Windows do so for a program without virtual terminal input.
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
    /// A text that is typed once, before anything else. A program that would run it does not get
    /// it.
    pub brief: Option<String>,
    /// The brief that the program's hooks give to each conversation, if they can. If so, the brief
    /// is typed only if no hook reports.
    pub hooked_brief: Option<HookedBrief>,
    /// How long the marks of an inner `run` may contradict the foreground.
    pub contradiction_ms: u64,
    /// The seed of the generator that draws the frames' digits.
    pub seed: [u8; 32],
}
