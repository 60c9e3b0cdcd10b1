//! The one line that a program on Windows gets for its arguments, in UTF-16.
//!
//! Most programs cut it up again by the rules of the C runtime. A batch file is read by cmd.exe, to which
//! more characters mean something, in quotes as well: see [`of_batch_file`].

/// What a batch file may get without quotes, beside letters and digits.
const PLAIN: &str = r"#$*+-./:?@\_";

/// Extensions on, delayed expansion off, no commands of the registry's, and one command in quotes of its own.
const SHELL: &str = "cmd.exe /e:on /v:off /d /c \"";

/// A percent sign, and a variable of which no character is taken: it keeps the sign from beginning the name
/// of another.
const PERCENT: &str = "%%cd:~,%";

/// The line of a program and its arguments.
pub(crate) fn of_program(program: &[u16], arguments: &[Vec<u16>]) -> Vec<u16> {
    let mut line = Vec::new();
    append_word(&mut line, program);
    for argument in arguments {
        line.push(unit(' '));
        append_word(&mut line, argument);
    }
    line
}

/// The line for cmd.exe that runs a batch file with these arguments as they are. `Err` has the number of one
/// with a line break: there the line would end, quotes or not.
///
/// A variable is expanded only in this line, not when the batch file passes on what it got, in quotes or
/// as `%*`.
pub(crate) fn of_batch_file(script: &[u16], arguments: &[Vec<u16>]) -> Result<Vec<u16>, usize> {
    let breaks = |argument: &Vec<u16>| argument.iter().any(|it| is(*it, '\r') || is(*it, '\n'));
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

/// Whether the system would have cmd.exe run a file of this name. Dots and blanks at its end don't count.
pub(crate) fn is_batch_file(name: &str) -> bool {
    let name = name.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    name.ends_with(".cmd") || name.ends_with(".bat")
}

/// Who reads a word in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Program,
    Shell,
}

/// Quotes only where they are needed: some programs, cmd.exe among them, don't find their options in quotes.
fn append_word(line: &mut Vec<u16>, word: &[u16]) {
    let cuts = |it: &u16| [' ', '\t', '\n', '\x0b', '"'].into_iter().any(|cut| is(*it, cut));
    if word.is_empty() || word.iter().any(cuts) {
        append_quoted(line, word, Reader::Program);
    } else {
        line.extend(word);
    }
}

/// Backslashes count only before quotes: twice as many stand for them. Quotes are marked by one more, or to
/// the shell, which would take what follows for its own, by other quotes.
fn append_quoted(line: &mut Vec<u16>, word: &[u16], reader: Reader) {
    line.push(unit('"'));
    let mut backslashes = 0;
    for &it in word {
        if is(it, '"') {
            line.extend(std::iter::repeat_n(unit('\\'), backslashes));
            line.push(unit(if reader == Reader::Shell { '"' } else { '\\' }));
        }
        backslashes = if is(it, '\\') { backslashes + 1 } else { 0 };
        if is(it, '%') && reader == Reader::Shell {
            line.extend(PERCENT.encode_utf16());
        } else {
            line.push(it);
        }
    }
    line.extend(std::iter::repeat_n(unit('\\'), backslashes));
    line.push(unit('"'));
}

/// A backslash at the end would make quotes that the batch file puts behind it a part of the word.
fn is_plain(argument: &[u16]) -> bool {
    let is_plain = |it: &u16| {
        let character = char::from_u32(u32::from(*it));
        character.is_some_and(|it| it.is_ascii_alphanumeric() || PLAIN.contains(it))
    };
    argument.last().is_some_and(|last| !is(*last, '\\')) && argument.iter().all(is_plain)
}

fn is(unit: u16, character: char) -> bool {
    u32::from(unit) == u32::from(character)
}

/// Of an ASCII character.
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
    fn what_means_something_to_the_shell_is_in_quotes() {
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

    /// As cmd.exe reads it: every other quote ends what the one before has begun.
    #[test]
    fn nothing_that_the_shell_would_act_on_is_outside_quotes() {
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
    fn a_line_break_is_refused() {
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
