//! Messages with words like those of a dialog, or of an agent at work.

/// Texts that CLIs show while they ask or work.
pub const BODIES: [&str; 14] = [
    "❯ 1. Yes\n  2. No",
    "› 1. Yes, proceed (y)\n  2. No (esc)",
    "│ ● 1. Allow once\n│   2. No, suggest changes (esc)",
    "> 1) Once\n  2) Always",
    "Overwrite the file? [y/N]",
    "Add src/main.rs to the chat? (Y)es/(N)o [Yes]:",
    "esc to interrupt",
    "✽ Processing… (12s · esc to interrupt)\n· esc to interrupt",
    "• Working (3s • esc to interrupt)",
    "⠹ Thinking... (esc to cancel, 1s)",
    "⠦ loading... (0s · esc to cancel)\nesc esc interrupt\nesc interrupt",
    "Do you want to proceed?\nEsc to cancel · Enter to select\nEnter to confirm",
    "Press enter to confirm or esc to cancel\nWaiting for user confirmation",
    "△ Permission required\nenter confirm\nesc dismiss\n[y/n]",
];
