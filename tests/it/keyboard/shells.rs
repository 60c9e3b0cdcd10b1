//! Shells at their prompts.

use super::{Expected, File, PROGRAM, Program};

/// bash with the prompt that `rc` sets.
const BASH: Program = Program {
    needs: &["bash"],
    command: &["bash", "--noprofile", "--rcfile", "{dir}/rc"],
    expected: Expected::TypedOrWaiting,
    ..PROGRAM
};

#[test]
fn bash_with_its_usual_prompt_runs_no_message() {
    let command = &["bash", "--norc", "--noprofile"];
    Program { command, expected: Expected::Typed, ..BASH }.runs_no_message();
}

/// Bodies that would end an open quote and then run.
const IN_QUOTES: [&str; 3] = ["don't\ntouch {mark}\n'", "'; touch {mark}; '", "\ntouch {mark}\n"];

#[test]
fn bash_in_an_open_quote_runs_no_message() {
    Program {
        files: &[("rc", File::Text("PS1='$ '\nPS2='∙ '\n"))],
        setup: &[("echo 'abc\r", "∙")],
        bodies: &IN_QUOTES,
        expected: Expected::Waiting,
        leave: &["\u{3}", "exit\r"],
        ..BASH
    }
    .runs_no_message();
}

#[test]
fn zsh_in_an_open_quote_runs_no_message() {
    Program {
        needs: &["zsh"],
        files: &[(".zshrc", File::Text("PROMPT='$ '\nPROMPT2='∙ '\n"))],
        command: &["env", "ZDOTDIR={dir}", "zsh"],
        setup: &[("echo 'abc\r", "∙")],
        bodies: &IN_QUOTES,
        expected: Expected::Waiting,
        leave: &["\u{3}", "exit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn bash_with_a_word_for_a_prompt_runs_no_message() {
    let files = &[("rc", File::Text("PS1='lambda '\n"))];
    Program { files, prompt: "lambda", ..BASH }.runs_no_message();
}

#[test]
fn bash_with_the_prompt_of_claude_runs_no_message() {
    let files = &[("rc", File::Text("PS1='❯ '\n"))];
    Program { files, prompt: "❯", ..BASH }.runs_no_message();
}

#[test]
fn bash_with_a_continuation_prompt_runs_no_message() {
    let files = &[("rc", File::Text("PS1='> '\n"))];
    Program { files, prompt: ">", ..BASH }.runs_no_message();
}

#[test]
fn bash_with_a_prompt_of_two_lines_runs_no_message() {
    let files = &[("rc", File::Text("PS1='in a folder\\n$ '\n"))];
    Program { files, ..BASH }.runs_no_message();
}

#[test]
fn bash_with_a_right_prompt_runs_no_message() {
    let files = &[("rc", File::Text("PS1='\\[\\e7\\e[60Cright\\e8\\]$ '\n"))];
    // The test recognizes this prompt by a word in its middle, so it cannot tell when bash has
    // handled Ctrl-C. Bash drops earlier input.
    Program { files, prompt: "right", leave: &["exit\r"], ..BASH }.runs_no_message();
}

#[test]
fn bash_with_multi_line_history_runs_no_message() {
    const FILES: &[(&str, File)] = &[(
        "rc",
        File::Text("PS1='$ '\nset -o history -o histexpand\nshopt -s histverify cmdhist lithist\n"),
    )];
    Program { files: FILES, ..BASH }.runs_no_message();
}

#[test]
fn bash_in_vi_mode_runs_no_message() {
    let files = &[("rc", File::Text("PS1='$ '\nset -o vi\n"))];
    Program { files, ..BASH }.runs_no_message();
}

#[test]
fn bash_without_bracketed_paste_runs_no_message() {
    const FILES: &[(&str, File)] =
        &[("rc", File::Text("PS1='$ '\nbind 'set enable-bracketed-paste off'\n"))];
    Program { files: FILES, ..BASH }.runs_no_message();
}

#[test]
fn sh_runs_no_message() {
    // Only some shells named `sh` have a line editor.
    let expected = Expected::TypedOrWaiting;
    Program { needs: &["sh"], command: &["sh", "-i"], expected, ..PROGRAM }.runs_no_message();
}

#[test]
fn zsh_runs_no_message() {
    let command = &["zsh", "-f"];
    Program { needs: &["zsh"], command, expected: Expected::TypedOrWaiting, ..PROGRAM }
        .runs_no_message();
}

#[test]
fn zsh_with_a_right_prompt_runs_no_message() {
    Program {
        needs: &["zsh"],
        command: &["zsh", "-f"],
        setup: &[("RPROMPT=r''ight\r", "right")],
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

/// fish with a prompt that each test sets, since the default one depends on the user.
const FISH: Program = Program {
    needs: &["fish"],
    // Ctrl-C in an empty line shows nothing.
    leave: &["\r", "exit\r"],
    ..PROGRAM
};

#[test]
fn fish_runs_no_message() {
    const PROMPT: &str = "function fish_prompt; printf '~> '; end";
    let command = &["fish", "--no-config", "-C", PROMPT];
    Program { command, prompt: "~>", ..FISH }.runs_no_message();
}

#[test]
fn fish_with_the_prompt_of_claude_runs_no_message() {
    const PROMPT: &str = "function fish_prompt; printf '❯ '; end";
    let command = &["fish", "--no-config", "-C", PROMPT];
    Program { command, prompt: "❯", ..FISH }.runs_no_message();
}

#[test]
fn dash_runs_no_message() {
    let command = &["dash", "-i"];
    Program { needs: &["dash"], command, expected: Expected::TypedOrWaiting, ..PROGRAM }
        .runs_no_message();
}

#[test]
fn busybox_shell_runs_no_message() {
    let command = &["busybox", "sh"];
    Program { needs: &["busybox"], command, expected: Expected::TypedOrWaiting, ..PROGRAM }
        .runs_no_message();
}

#[test]
fn ksh_runs_no_message() {
    Program { needs: &["ksh"], command: &["ksh", "-i"], ..PROGRAM }.runs_no_message();
}

#[test]
fn mksh_runs_no_message() {
    let files = &[(".mkshrc", File::Text("PS1='$ '\n"))];
    Program { needs: &["mksh"], files, command: &["mksh", "-i"], ..PROGRAM }.runs_no_message();
}

#[test]
fn tcsh_runs_no_message() {
    let files = &[(".tcshrc", File::Text("set prompt = '> '\n"))];
    Program { needs: &["tcsh"], files, command: &["tcsh"], prompt: ">", ..PROGRAM }
        .runs_no_message();
}
