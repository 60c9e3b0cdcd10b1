//! The command line of a program on Windows: all arguments in one UTF-16 text.
//!
//! Most programs split the line by the rules of the C runtime. A batch file is run by cmd.exe, to
//! which more characters are special, some of them also inside quotes: see [`of_batch_file`].

/// The characters, besides letters and digits, that need no quotes for a batch file.
const PLAIN: &str = r"#$*+-./:?@\_";

/// The start of a command line that runs cmd.exe: enables extensions, disables delayed expansion
/// and AutoRun commands, and opens the quotes around the command.
const SHELL: &str = "cmd.exe /e:on /v:off /d /c \"";

/// An escaped percent sign: a percent sign, and `%cd:~,%`, which expands to an empty text and keeps
/// the sign from starting a variable's name.
const PERCENT: &str = "%%cd:~,%";

/// The command line of a program and its arguments.
pub(crate) fn of_program(program: &[u16], arguments: &[Vec<u16>]) -> Vec<u16> {
    let mut line = Vec::new();
    append_word(&mut line, program);
    for argument in arguments {
        line.push(unit(' '));
        append_word(&mut line, argument);
    }
    line
}

/// The line that makes cmd.exe run a batch file with exactly these arguments. `Err` has the index
/// of an argument with a line break, which would end the line, even in quotes.
///
/// cmd.exe expands variables in this line, so percent signs are escaped here. It does not expand
/// them again when the batch file passes its arguments on, in quotes or as `%*`.
pub(crate) fn of_batch_file(script: &[u16], arguments: &[Vec<u16>]) -> Result<Vec<u16>, usize> {
    let breaks =
        |argument: &Vec<u16>| argument.iter().any(|&unit| is(unit, '\r') || is(unit, '\n'));
    if let Some(number) = arguments.iter().position(breaks) {
        return Err(number);
    }
    let mut line: Vec<u16> = SHELL.encode_utf16().collect();
    append_quoted(&mut line, script, Reader::Shell);
    for argument in arguments {
        line.push(unit(' '));
        if is_plain(argument) {
            line.extend(argument);
        } else {
            append_quoted(&mut line, argument, Reader::Shell);
        }
    }
    line.push(unit('"'));
    Ok(line)
}

/// Whether the system would run a file of this name with cmd.exe. Trailing dots and blanks are
/// ignored.
pub(crate) fn is_batch_file(name: &str) -> bool {
    let name = name.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    name.ends_with(".cmd") || name.ends_with(".bat")
}

/// The program that splits a quoted word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Program,
    Shell,
}

/// Appends a word, in quotes only if it needs them: some programs, such as cmd.exe, do not
/// recognize quoted options.
fn append_word(line: &mut Vec<u16>, word: &[u16]) {
    let needs_quotes = |unit: &u16| {
        [' ', '\t', '\n', '\x0b', '"'].into_iter().any(|character| is(*unit, character))
    };
    if word.is_empty() || word.iter().any(needs_quotes) {
        append_quoted(line, word, Reader::Program);
    } else {
        line.extend(word);
    }
}

/// Appends a quoted word. Backslashes are doubled before quotes. Inner quotes are escaped by a
/// backslash. For cmd.exe they are doubled instead: cmd.exe ignores the backslash, and would take
/// the rest of the word as not quoted.
fn append_quoted(line: &mut Vec<u16>, word: &[u16], reader: Reader) {
    line.push(unit('"'));
    let mut backslashes = 0;
    for &next in word {
        if is(next, '"') {
            line.extend(std::iter::repeat_n(unit('\\'), backslashes));
            line.push(unit(if reader == Reader::Shell { '"' } else { '\\' }));
        }
        backslashes = if is(next, '\\') { backslashes + 1 } else { 0 };
        if is(next, '%') && reader == Reader::Shell {
            line.extend(PERCENT.encode_utf16());
        } else {
            line.push(next);
        }
    }
    line.extend(std::iter::repeat_n(unit('\\'), backslashes));
    line.push(unit('"'));
}

/// Whether an argument needs no quotes. An argument with a final backslash needs them: the batch
/// file may append a quote, which the backslash would escape.
fn is_plain(argument: &[u16]) -> bool {
    let is_plain = |unit: &u16| {
        let character = char::from_u32(u32::from(*unit));
        character
            .is_some_and(|character| character.is_ascii_alphanumeric() || PLAIN.contains(character))
    };
    argument.last().is_some_and(|last| !is(*last, '\\')) && argument.iter().all(is_plain)
}

fn is(unit: u16, character: char) -> bool {
    u32::from(unit) == u32::from(character)
}

/// The UTF-16 unit of an ASCII character.
fn unit(character: char) -> u16 {
    character as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn batch(arguments: &[&str]) -> Result<String, usize> {
        let arguments: Vec<_> = arguments.iter().map(|argument| units(argument)).collect();
        let line = of_batch_file(&units(r"C:\a b\x.cmd"), &arguments)?;
        Ok(String::from_utf16(&line).unwrap())
    }

    #[test]
    fn programs_get_quotes_only_where_they_need_them() {
        for (words, line) in [
            (&[r"C:\a.exe", "/c", "echo", "-x=1"][..], r"C:\a.exe /c echo -x=1"),
            (&[r"C:\a b.exe", ""], r#""C:\a b.exe" """#),
            (&["a", r"c:\d\", r"e f\", r#"g"h"#], r#"a c:\d\ "e f\\" "g\"h""#),
            (&["a", r#"\\"\x"#, "tab\there"], "a \"\\\\\\\\\\\"\\x\" \"tab\there\""),
            (&["a", "^&|<>%PATH%", "字"], "a ^&|<>%PATH% 字"),
        ] {
            let arguments: Vec<_> = words[1..].iter().map(|word| units(word)).collect();
            assert_eq!(
                String::from_utf16(&of_program(&units(words[0]), &arguments)).unwrap(),
                line
            );
        }
    }

    #[test]
    fn shell_metacharacters_are_quoted() {
        for (argument, quoted) in [
            ("plain-1.2_x/y:z@w", "plain-1.2_x/y:z@w"),
            (r"C:\a\b", r"C:\a\b"),
            ("", r#""""#),
            (r"C:\a\", r#""C:\a\\""#),
            ("a b", r#""a b""#),
            ("a&calc", r#""a&calc""#),
            ("a|b<c>d^e!f", r#""a|b<c>d^e!f""#),
            ("(a,b;c=d)", r#""(a,b;c=d)""#),
            (r#"a"&calc"#, r#""a""&calc""#),
            (r#"{"k":"v\\"}"#, r#""{""k"":""v\\\\""}""#),
            ("100%", r#""100%%cd:~,%""#),
            ("%PATH%", r#""%%cd:~,%PATH%%cd:~,%""#),
            ("Größe", r#""Größe""#),
        ] {
            let line = format!(r#"cmd.exe /e:on /v:off /d /c ""C:\a b\x.cmd" {quoted}""#);
            assert_eq!(batch(&[argument]), Ok(line), "{argument}");
        }
    }

    /// Reads quotes as cmd.exe does: each quote begins or ends a quoted text.
    #[test]
    fn no_metacharacter_is_outside_quotes() {
        for argument in
            [r#"" & calc & ""#, r#"\" & calc"#, r#"""&x"#, r#"a"b"c&"d"#, r#"\"#, r#"&\"#]
        {
            let line = batch(&[argument]).unwrap();
            let command = line.strip_prefix(SHELL).unwrap().strip_suffix('"').unwrap();
            let outside: String = command.split('"').step_by(2).collect();
            assert!(!outside.contains(['&', '|', '<', '>', '^', '%']), "{argument}: {line}");
        }
    }

    #[test]
    fn line_break_is_refused() {
        assert_eq!(batch(&["a", "b\nc"]), Err(1));
        assert_eq!(batch(&["a\r"]), Err(0));
        assert_eq!(batch(&[]).unwrap(), r#"cmd.exe /e:on /v:off /d /c ""C:\a b\x.cmd"""#);
    }

    #[test]
    fn batch_files_are_known_by_their_names() {
        for name in ["a.cmd", r"C:\b\A.BAT", "a.Cmd. .", "a.bat "] {
            assert!(is_batch_file(name), "{name}");
        }
        for name in ["a.exe", "cmd", "a.cmd.exe", "bat", "a.cmdx"] {
            assert!(!is_batch_file(name), "{name}");
        }
    }
}
