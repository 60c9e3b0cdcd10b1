//! A CLI's arguments, which tell whether a conversation begins.

use super::Unarmed;
use crate::words::Words;

/// Refuses a command line if an option before `--` turns hooks off or begins no conversation.
pub(crate) fn check_options(
    arguments: &[String],
    disabling: Words,
    is_not_interactive: impl Fn(&str) -> bool,
) -> Result<(), Unarmed> {
    for word in arguments.iter().take_while(|word| *word != "--") {
        if disabling.contains(word) {
            return Err(Unarmed::Disabled(word.clone()));
        }
        if is_not_interactive(word) {
            return Err(Unarmed::NotInteractive(word.clone()));
        }
    }
    Ok(())
}

/// Refuses a command line with this word, if there is one: it begins no conversation.
pub(crate) fn refuse(word: Option<&str>) -> Result<(), Unarmed> {
    word.map_or(Ok(()), |word| Err(Unarmed::NotInteractive(word.to_owned())))
}

/// Whether a word consists of short options and `switch` is one of them.
#[must_use]
pub(crate) fn has_switch(word: &str, switch: char) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    letters.is_some_and(|letters| {
        letters.contains(switch) && letters.chars().all(|letter| letter.is_ascii_alphabetic())
    })
}

/// Returns the first argument that is a subcommand. Words after `--`, and values of options, do not
/// count.
#[must_use]
pub(crate) fn subcommand(
    arguments: &[String],
    subcommands: Words,
    with_value: Words,
) -> Option<&str> {
    let mut before = "";
    let mut words = arguments.iter().map(String::as_str).take_while(|word| *word != "--");
    words.find(|word| {
        let option = std::mem::replace(&mut before, *word);
        subcommands.contains(word) && !with_value.contains(option)
    })
}

/// Returns the arguments before `--`, without the values of options that take any word as their
/// value, even one that looks like an option.
pub(crate) fn options(
    arguments: &[String],
    takes_any: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &str> {
    let mut is_value = false;
    let words = arguments.iter().map(String::as_str).filter(move |word| {
        let was_value = is_value;
        is_value = !was_value && takes_any(word);
        !was_value
    });
    words.take_while(|word| *word != "--")
}

/// Returns the first argument that is neither an option nor an option's value. Options in these
/// lists take the next word as their value, or all words up to the next option.
#[must_use]
pub(crate) fn free_word(
    arguments: &[String],
    with_value: Words,
    with_values: Words,
) -> Option<&str> {
    let (mut values, mut is_option_over) = (0, false);
    for word in arguments {
        match word.as_str() {
            word if is_option_over => return Some(word),
            "--" => is_option_over = true,
            word if word.len() > 1 && word.starts_with('-') => {
                values = match () {
                    () if with_values.contains(word) => usize::MAX,
                    () if with_value.contains(word) => 1,
                    () => 0,
                };
            }
            _ if values > 0 => values -= 1,
            word => return Some(word),
        }
    }
    None
}
