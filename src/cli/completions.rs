//! `completions`: completion scripts for shells, made from the descriptions of the commands.

use super::{
    escape::escaped,
    failure::{DONE, Failure},
    print::Out,
    values::{Completion, Kind},
};
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfoKind, FromArgs};
use std::{collections::BTreeSet, fmt::Write};

/// Print a completion script for bash, zsh, fish or powershell.
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
    #[argh(positional, arg_name = "shell")]
    shell: String,
}

impl Completions {
    /// Prints the script for the commands of a program.
    pub(super) fn run(self, program: &CommandInfoWithArgs) -> Result<i32, Failure> {
        let table = commands(program);
        let script = match self.shell.as_str() {
            "bash" => bash(&table),
            "zsh" => zsh(&table),
            "fish" => fish(&table),
            "powershell" | "pwsh" => powershell(&table),
            other => {
                return Err(Failure::usage(format!(
                    "no completions for {}: there are bash, zsh, fish and powershell",
                    escaped(other)
                )));
            }
        };
        Out::new().raw(&script)?;
        Ok(DONE)
    }
}

/// A command in a script. The program itself is a command with an empty name.
struct Command {
    name: String,
    /// The first line of its help.
    description: String,
    options: Vec<Flag>,
    /// The known words that may be arguments of the command: its subcommands, or values.
    arguments: String,
}

/// An option in a script.
struct Flag {
    long: String,
    /// The first line of its help.
    description: String,
    /// The placeholder and the completion of the option's value, if the option has one.
    value: Option<(String, Completion)>,
}

/// Returns how shells complete the value of a placeholder.
fn completion(placeholder: &str) -> Completion {
    Kind::of(placeholder).map_or(Completion::Nothing, Kind::completion)
}

fn commands(program: &CommandInfoWithArgs) -> Vec<Command> {
    let subcommands = program.commands.iter().map(|info| command(info.name, &info.command));
    std::iter::once(command("", program)).chain(subcommands).collect()
}

fn command(name: &str, info: &CommandInfoWithArgs) -> Command {
    // A command of the program has a row of its own. Subcommands are part of their command's row.
    let nested = if name.is_empty() { &[][..] } else { &info.commands };
    let mut flags: Vec<_> = info.flags.iter().filter(|flag| !flag.hidden).collect();
    for flag in nested.iter().flat_map(|nested| nested.command.flags.iter()) {
        if !flag.hidden && flags.iter().all(|other| other.long != flag.long) {
            flags.push(flag);
        }
    }
    let options = flags.into_iter().map(|flag| Flag {
        long: flag.long.to_owned(),
        description: first_line(flag.description),
        value: match flag.kind {
            FlagInfoKind::Switch => None,
            FlagInfoKind::Option { arg_name } => Some((arg_name.to_owned(), completion(arg_name))),
        },
    });
    let mut words: Vec<_> = nested.iter().map(|nested| nested.name).collect();
    let first = info.positionals.first().map(|argument| completion(argument.name));
    if let Some(Completion::Words(values)) = first {
        words.extend(values.iter().filter(|value| value.chars().all(char::is_alphanumeric)));
    }
    Command {
        name: name.to_owned(),
        description: first_line(info.description),
        options: options.collect(),
        arguments: words.join(" "),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Puts a text between a shell's single quotes: `quote` replaces a quote in it, and a backslash
/// precedes the characters of `special`.
fn quoted(text: &str, quote: &str, special: &str) -> String {
    let mut quoted = String::from("'");
    for character in text.chars() {
        match character {
            '\'' => quoted.push_str(quote),
            _ if special.contains(character) => quoted.extend(['\\', character]),
            _ => quoted.push(character),
        }
    }
    quoted + "'"
}

/// The options and arguments of a command.
fn words(command: &Command) -> String {
    let options = command.options.iter().map(|option| option.long.as_str());
    options.chain(command.arguments.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// The options, of all commands, with a value that has the completion `wanted`.
fn options_with(table: &[Command], wanted: Completion) -> Vec<&str> {
    let options = table.iter().flat_map(|command| &command.options);
    let options = options.filter(|option| option.value.as_ref().is_some_and(|(_, c)| *c == wanted));
    let options: BTreeSet<_> = options.map(|option| option.long.as_str()).collect();
    options.into_iter().collect()
}

fn bash(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program is the first");
    let names: Vec<_> = subcommands.iter().map(|command| command.name.as_str()).collect();
    let mut cases = String::new();
    for command in subcommands {
        put(
            &mut cases,
            format_args!("        {}) words=\"{}\" ;;\n", command.name, words(command)),
        );
    }
    let values = [(Completion::Files, "-f"), (Completion::Directories, "-d")];
    let values = values.map(|(completion, action)| {
        let options = options_with(table, completion).join("|");
        format!("        {options}) COMPREPLY=($(compgen {action} -- \"$current\")); return ;;\n")
    });
    let without = options_with(table, Completion::Nothing).join("|");
    format!(
        "_agent_relay() {{\n    local word command=\"\" words\n    \
         local current=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    \
         case \"${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{}        {without}) compopt +o default 2>/dev/null; return ;;\n    esac\n    \
         for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n        \
         case \"$word\" in {}) command=\"$word\"; break ;; esac\n    done\n    \
         case \"$command\" in\n{cases}        *) words=\"{} {}\" ;;\n    esac\n    \
         COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}}\n\
         complete -o default -F _agent_relay agent-relay\n",
        values.concat(),
        names.join("|"),
        names.join(" "),
        words(top),
    )
}

/// The code with which zsh completes a value.
fn zsh_action(completion: Completion) -> String {
    match completion {
        Completion::Files => "_files".to_owned(),
        Completion::Directories => "_files -/".to_owned(),
        Completion::Words(words) => format!("({})", words.join(" ")),
        Completion::Nothing => " ".to_owned(),
    }
}

fn zsh(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program is the first");
    let quoted = |text: &str| quoted(text, r"'\''", "");
    // Brackets and colons are syntax for `_arguments` and `_describe`.
    let plain = |text: &str| text.replace(['[', ']'], "").replace(':', ",");
    let option = |option: &Flag| {
        let value = option.value.as_ref();
        let value = value.map(|(name, completion)| format!(":{name}:{}", zsh_action(*completion)));
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

/// The options of `complete` with which fish completes the value of an option.
fn fish_action(completion: Completion) -> String {
    match completion {
        Completion::Files => " -r".to_owned(),
        Completion::Directories => " -x -a '(__fish_complete_directories)'".to_owned(),
        Completion::Words(words) => format!(" -x -a '{}'", words.join(" ")),
        Completion::Nothing => " -x".to_owned(),
    }
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
            let value = option.value.as_ref().map(|(_, completion)| fish_action(*completion));
            let value = value.unwrap_or_default();
            put(
                &mut script,
                format_args!("complete -c agent-relay -n {condition} -l {long}{value} -d {help}\n"),
            );
        }
    }
    script
}

fn powershell(table: &[Command]) -> String {
    let (top, subcommands) = table.split_first().expect("the program is the first");
    let mut options = String::new();
    for command in subcommands {
        put(&mut options, format_args!("        '{}' = '{}'\n", command.name, words(command)));
    }
    let names: Vec<_> = subcommands.iter().map(|command| command.name.as_str()).collect();
    // If a script returns no words, PowerShell offers files and directories. A script cannot have
    // PowerShell offer directories alone.
    let kinds = [Completion::Files, Completion::Directories, Completion::Nothing];
    let with_value: BTreeSet<_> =
        kinds.into_iter().flat_map(|kind| options_with(table, kind)).collect();
    let with_value: Vec<_> = with_value.into_iter().collect();
    format!(
        "Register-ArgumentCompleter -Native -CommandName agent-relay -ScriptBlock {{\n    \
         param($wordToComplete, $commandAst, $cursorPosition)\n    \
         $before = if ($wordToComplete) {{ -2 }} else {{ -1 }}\n    \
         if ('{}' -split ' ' -contains [string]@($commandAst.CommandElements)[$before]) {{ return }}\n    $options = @{{\n{options}    }}\n    \
         $words = '{} {}'\n    foreach ($element in $commandAst.CommandElements) {{\n        \
         $text = $element.ToString()\n        \
         if ($text -ne $wordToComplete -and $options.ContainsKey($text)) {{ $words = $options[$text]; break }}\n    \
         }}\n    $words -split ' ' | Where-Object {{ $_ -and $_.StartsWith($wordToComplete) }} | ForEach-Object {{\n        \
         [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)\n    }}\n}}\n",
        with_value.join(" "),
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
    use crate::cli::top_info;

    #[test]
    fn scripts_have_every_command_and_option() {
        let table = commands(&top_info());
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
        assert!(!bash(&table).contains("--detached"), "hidden options are left out");
    }

    #[test]
    fn powershell_script_is_balanced_and_plain() {
        let table = commands(&top_info());
        let script = powershell(&table);
        assert!(script.is_ascii(), "Windows PowerShell reads files in the system's own encoding");
        for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
            let count = |mark| script.matches(mark).count();
            assert_eq!(count(open), count(close), "{script}");
        }
        // Every text is in single quotes, and there are no double quotes.
        assert!(script.lines().all(|line| line.matches('\'').count() % 2 == 0), "{script}");
        assert!(!script.contains(['"', '`', '\u{2019}']), "{script}");
        let mut names: Vec<_> = table.iter().map(|command| command.name.to_lowercase()).collect();
        names.sort();
        assert!(
            names.is_sorted_by(|name, next| name < next),
            "a table has each key once: {names:?}"
        );
    }

    #[test]
    fn quotes_are_balanced() {
        assert_eq!(quoted("it's a\\b", r"'\''", ""), r"'it'\''s a\b'");
        assert_eq!(quoted("it's a\\b", r"\'", r"\"), r"'it\'s a\\b'");
        let odd =
            |line: &&str| line.replace(r"\\", "").replace(r"\'", "").matches('\'').count() % 2 == 1;
        let table = commands(&top_info());
        for script in [zsh(&table), fish(&table)] {
            assert_eq!(script.lines().find(odd), None);
        }
    }

    #[test]
    fn values_are_completed_by_their_kind() {
        let table = commands(&top_info());
        let (bash, zsh, fish) = (bash(&table), zsh(&table), fish(&table));
        assert!(bash.contains("--file|--key-file|--record) COMPREPLY=($(compgen -f"), "{bash}");
        assert!(bash.contains("--cwd|--home) COMPREPLY=($(compgen -d"), "{bash}");
        assert!(zsh.contains(":dir:_files -/'") && zsh.contains(":topic: '"), "{zsh}");
        assert!(zsh.contains("'1:word:(bash zsh fish powershell)'"), "{zsh}");
        let directory = "-l cwd -x -a '(__fish_complete_directories)'";
        assert!(fish.contains(directory) && fish.contains("-l ttl -x"), "{fish}");
        let powershell = powershell(&table);
        let with_value = powershell.lines().find(|line| line.ends_with("{ return }")).unwrap();
        assert!(with_value.contains("--cwd ") && with_value.contains("--file "), "{with_value}");
        assert!(!with_value.contains("--json"), "{with_value}");
    }
}
