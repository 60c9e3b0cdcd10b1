//! `completions`: what a shell needs to complete our commands, made from the commands themselves.

use super::{DONE, Failure, Top, print::Out};
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfoKind, FromArgs};
use std::fmt::Write;

/// What the argument of `completions` may be.
const SHELLS: &str = "bash zsh fish powershell";

/// Print a shell's completion script: bash, zsh, fish or powershell.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "completions",
    help_triggers("--help"),
    example = "agent-relay completions bash > ~/.local/share/bash-completion/completions/agent-relay",
    example = "agent-relay completions fish > ~/.config/fish/completions/agent-relay.fish",
    example = "agent-relay completions powershell | Out-String | Invoke-Expression"
)]
pub(super) struct Completions {
    /// bash, zsh, fish or powershell
    #[argh(positional)]
    shell: String,
}

impl Completions {
    pub(super) fn run(self) -> Result<i32, Failure> {
        let table = commands();
        let script = match self.shell.as_str() {
            "bash" => bash(&table),
            "zsh" => zsh(&table),
            "fish" => fish(&table),
            "powershell" | "pwsh" => powershell(&table),
            other => {
                let other = super::print::foreign_line(other);
                return Err(Failure::usage(format!(
                    "no completions for {other}: there are bash, zsh, fish and powershell"
                )));
            }
        };
        Out::new().raw(&script)?;
        Ok(DONE)
    }
}

/// A command's name, its first line of help, and its options; the first is the program.
struct Command {
    name: String,
    description: String,
    options: Vec<Flag>,
    /// The words that may follow it, if they are known.
    arguments: String,
}

/// An option, its first line of help, and what its value is called, if it takes one.
struct Flag {
    long: String,
    description: String,
    value: Option<String>,
}

fn commands() -> Vec<Command> {
    let top = Top::get_args_info();
    let subcommands = top.commands.iter().map(|it| command(it.name, &it.command));
    std::iter::once(command("", &top)).chain(subcommands).collect()
}

fn command(name: &str, info: &CommandInfoWithArgs) -> Command {
    // The program's commands stand beside it in the table; a command's own are told with it.
    let nested = if name.is_empty() { &[][..] } else { &info.commands };
    let mut flags: Vec<_> = info.flags.iter().filter(|flag| !flag.hidden).collect();
    for flag in nested.iter().flat_map(|nested| nested.command.flags.iter()) {
        if !flag.hidden && flags.iter().all(|other| other.long != flag.long) {
            flags.push(flag);
        }
    }
    let words: Vec<_> = nested.iter().map(|nested| nested.name).collect();
    let options = flags.into_iter().map(|flag| Flag {
        long: flag.long.to_owned(),
        description: first_line(flag.description),
        value: match flag.kind {
            FlagInfoKind::Switch => None,
            FlagInfoKind::Option { arg_name } => Some(arg_name.to_owned()),
        },
    });
    Command {
        name: name.to_owned(),
        description: first_line(info.description),
        options: options.collect(),
        arguments: if name == "completions" { SHELLS.to_owned() } else { words.join(" ") },
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A text between the single quotes of a shell, with a backslash before what else it would read as
/// its own.
fn quoted(text: &str, quote: &str, own: &str) -> String {
    let mut quoted = String::from("'");
    for character in text.chars() {
        match character {
            '\'' => quoted.push_str(quote),
            _ if own.contains(character) => quoted.extend(['\\', character]),
            _ => quoted.push(character),
        }
    }
    quoted + "'"
}

/// The options, and what else may follow.
fn words(command: &Command) -> String {
    let options = command.options.iter().map(|option| option.long.as_str());
    options.chain(command.arguments.split_whitespace()).collect::<Vec<_>>().join(" ")
}

fn bash(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program itself is the first");
    let names: Vec<_> = subcommands.iter().map(|command| command.name.as_str()).collect();
    let mut cases = String::new();
    for command in subcommands {
        put(
            &mut cases,
            format_args!("        {}) words=\"{}\" ;;\n", command.name, words(command)),
        );
    }
    format!(
        "_agent_relay() {{\n    local word command=\"\" words\n    \
         for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        \
         case \"$word\" in {}) command=\"$word\"; break ;; esac\n    done\n    \
         case \"$command\" in\n{cases}        *) words=\"{} {}\" ;;\n    esac\n    \
         COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\n\
         complete -o default -F _agent_relay agent-relay\n",
        names.join("|"),
        names.join(" "),
        words(top),
    )
}

fn zsh(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program itself is the first");
    let quoted = |text: &str| quoted(text, r"'\''", "");
    // Brackets and colons are marks in what `_arguments` and `_describe` are given.
    let plain = |text: &str| text.replace(['[', ']'], "").replace(':', ",");
    let option = |option: &Flag| {
        let value = option.value.as_ref().map(|value| format!(":{value}:_files"));
        let (help, value) = (plain(&option.description), value.unwrap_or_default());
        quoted(&format!("{}[{help}]{value}", option.long))
    };
    let all = |command: &Command| -> String {
        command.options.iter().map(option).collect::<Vec<_>>().join(" ")
    };
    let mut described = String::new();
    let mut cases = String::new();
    for command in subcommands {
        let help = quoted(&format!("{}:{}", command.name, plain(&command.description)));
        put(&mut described, format_args!("        {help}\n"));
        let rest = match command.arguments.as_str() {
            "" => "'*:file:_files'".to_owned(),
            words => format!("'1:word:({words})' '*:file:_files'"),
        };
        put(
            &mut cases,
            format_args!("            {}) _arguments {} {rest} ;;\n", command.name, all(command)),
        );
    }
    format!(
        "#compdef agent-relay\n_agent_relay() {{\n    local state line\n    local -a commands=(\n\
         {described}    )\n    _arguments -C {} '1:command:->command' '*::argument:->argument'\n    \
         case $state in\n        command) _describe command commands ;;\n        \
         argument)\n            case $line[1] in\n{cases}            esac ;;\n    esac\n}}\n\
         if [ \"$funcstack[1]\" = _agent_relay ]; then _agent_relay \"$@\"; \
         else compdef _agent_relay agent-relay; fi\n",
        all(top),
    )
}

fn fish(table: &[Command]) -> String {
    let mut script = String::new();
    for command in table {
        let condition = if command.name.is_empty() {
            "__fish_use_subcommand".to_owned()
        } else {
            let help = quoted(&command.description, r"\'", r"\");
            put(
                &mut script,
                format_args!(
                    "complete -c agent-relay -f -n __fish_use_subcommand -a {} -d {help}\n",
                    command.name
                ),
            );
            format!("'__fish_seen_subcommand_from {}'", command.name)
        };
        if !command.arguments.is_empty() {
            put(
                &mut script,
                format_args!(
                    "complete -c agent-relay -f -n {condition} -a '{}'\n",
                    command.arguments
                ),
            );
        }
        for option in &command.options {
            let long = option.long.trim_start_matches('-');
            let help = quoted(&option.description, r"\'", r"\");
            let value = if option.value.is_some() { " -r" } else { "" };
            put(
                &mut script,
                format_args!("complete -c agent-relay -n {condition} -l {long}{value} -d {help}\n"),
            );
        }
    }
    script
}

fn powershell(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program itself is the first");
    let mut options = String::new();
    for command in subcommands {
        put(&mut options, format_args!("        '{}' = '{}'\n", command.name, words(command)));
    }
    let names: Vec<_> = subcommands.iter().map(|command| command.name.as_str()).collect();
    format!(
        "Register-ArgumentCompleter -Native -CommandName agent-relay -ScriptBlock {{\n    \
         param($wordToComplete, $commandAst, $cursorPosition)\n    $options = @{{\n{options}    }}\n    \
         $words = '{} {}'\n    foreach ($element in $commandAst.CommandElements) {{\n        \
         $text = $element.ToString()\n        \
         if ($text -ne $wordToComplete -and $options.ContainsKey($text)) {{ $words = $options[$text]; break }}\n    \
         }}\n    $words -split ' ' | Where-Object {{ $_ -and $_.StartsWith($wordToComplete) }} | ForEach-Object {{\n        \
         [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)\n    }}\n}}\n",
        names.join(" "),
        words(top),
    )
}

fn put(script: &mut String, line: std::fmt::Arguments<'_>) {
    script.write_fmt(line).expect("a String takes every text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_knows_every_command_and_option() {
        let table = commands();
        for (script, dashes) in [
            (bash(&table), "--"),
            (zsh(&table), "--"),
            (fish(&table), ""),
            (powershell(&table), "--"),
        ] {
            for command in &table {
                assert!(script.contains(&command.name), "{}: {script}", command.name);
                assert!(script.contains(&command.arguments), "{}: {script}", command.name);
                for option in &command.options {
                    let option = option.long.replace("--", dashes);
                    assert!(script.contains(&option), "{option}: {script}");
                }
            }
        }
        assert!(table.iter().any(|command| command.name == "send"));
        assert!(!bash(&table).contains("--detached"), "what is hidden stays so");
    }

    #[test]
    fn powershells_script_is_whole_and_plain() {
        let script = powershell(&commands());
        assert!(script.is_ascii(), "Windows PowerShell reads files in the system's own encoding");
        for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
            let count = |mark| script.matches(mark).count();
            assert_eq!(count(open), count(close), "{script}");
        }
        // Between single quotes nothing is special, and there are no double ones.
        assert!(script.lines().all(|line| line.matches('\'').count() % 2 == 0), "{script}");
        assert!(!script.contains(['"', '`', '\u{2019}']), "{script}");
        let mut names: Vec<_> = commands().into_iter().map(|it| it.name.to_lowercase()).collect();
        names.sort();
        assert!(names.is_sorted_by(|one, next| one < next), "a table has each key once: {names:?}");
    }

    #[test]
    fn quotes_end_where_they_should() {
        assert_eq!(quoted("it's a\\b", r"'\''", ""), r"'it'\''s a\b'");
        assert_eq!(quoted("it's a\\b", r"\'", r"\"), r"'it\'s a\\b'");
        let odd = |line: &&str| line.replace(r"\'", "").matches('\'').count() % 2 == 1;
        for script in [zsh(&commands()), fish(&commands())] {
            assert_eq!(script.lines().find(odd), None);
        }
    }
}
