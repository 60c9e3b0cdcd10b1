//! When a shell or an interpreter is one that prompts, rather than one that runs a script.

use super::Reads;

struct Options {
    /// Letters of options after which it runs what its arguments say.
    runs: &'static str,
    /// Letters of options after which it prompts all the same.
    stays: &'static str,
    /// Options whose value is an argument of its own.
    valued: &'static [&'static str],
}

/// Whether with these arguments it is something that is talked to.
pub(super) fn does_prompt(reads: Reads, arguments: &[String]) -> bool {
    let options = match reads {
        Reads::Text => return true,
        Reads::Shell => Options {
            runs: "c",
            stays: "s",
            valued: &["--rcfile", "--init-file", "-o", "+o", "-O", "+O"],
        },
        Reads::Python => Options { runs: "cm", stays: "i", valued: &["-W", "-X"] },
        Reads::OtherShell => Options { runs: "ce", stays: "i", valued: &[] },
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if options.valued.contains(&argument.as_str()) {
            arguments.next();
            continue;
        }
        let Some(option) = argument.strip_prefix(['-', '+']) else { return false };
        let letters = if option.starts_with('-') { "" } else { option };
        if letters.contains(|letter| options.stays.contains(letter)) {
            return true;
        }
        if letters.contains(|letter| options.runs.contains(letter)) {
            return false;
        }
    }
    true
}
