//! Tests of how the keyboard's reader is determined from the processes in the foreground.

use super::*;
use crate::recipe::Book;

const COMMAND: u32 = 10;

fn program(line: &str) -> Program {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Program { path: words[0].clone(), arguments: Some(words), ..Program::default() }
}

/// Returns a process with the terminal as its input.
fn member(pid: u32, parent: u32, line: &str) -> Member {
    Member {
        pid,
        parent: Some(parent),
        program: Some(program(line)),
        is_stopped: false,
        reads_terminal: Some(true),
    }
}

fn reader_of(members: &[Member], accepts: bool) -> Reader {
    let book = Book::default();
    let recognise = |path: &str| book.recognise(path, "linux");
    Judge { command: COMMAND, accepts, recognise: &recognise, members }.reader()
}

fn alone(line: &str) -> Reader {
    reader_of(&[member(COMMAND, 1, line)], false)
}

fn agent(name: &str) -> Reader {
    Reader::Agent(name.to_owned())
}

fn barred(why: Obstacle, name: &str) -> Reader {
    Reader::Barred(why, Some(name.to_owned()))
}

#[test]
fn agent_cli_is_recognised_by_its_executable_or_script() {
    for (line, name) in [
        ("/x/@anthropic-ai/claude-code/bin/claude.exe --model x", "claude"),
        ("/home/ann/.local/share/claude/versions/2.1.330", "claude"),
        ("/usr/bin/node /x/@anthropic-ai/claude-code/cli.js", "claude"),
        ("/usr/bin/node /x/.bin/codex", "codex"),
        ("/x/@openai/codex-linux-x64/vendor/x86_64/bin/codex", "codex"),
        ("/usr/bin/node --max-old-space-size=12052 /x/.bin/gemini", "gemini"),
        ("/usr/bin/node /x/@google/gemini-cli/bundle/gemini.js", "gemini"),
        ("/x/opencode-linux-x64-baseline/bin/opencode", "opencode"),
        ("/usr/bin/python3.11 /home/ann/.local/bin/aider", "aider"),
        ("/usr/bin/python3.11 -m aider", "aider"),
        ("/x/@github/copilot-linux-x64/copilot --continue", "copilot"),
        ("/usr/bin/node /x/@github/copilot/npm-loader.js", "copilot"),
        (
            "C:\\Program Files\\nodejs\\node.exe C:\\npm\\node_modules\\@openai\\codex\\bin\\codex.js",
            "codex",
        ),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        // `C:\Program Files` has a blank in its name.
        let words = match words[..] {
            ["C:\\Program", "Files\\nodejs\\node.exe", script] => {
                vec!["C:\\Program Files\\nodejs\\node.exe", script]
            }
            _ => words,
        };
        let arguments = Some(words.iter().map(|word| (*word).to_owned()).collect());
        let program = Program { path: words[0].to_owned(), arguments, ..Program::default() };
        let found =
            reader_of(&[Member { program: Some(program), ..member(COMMAND, 1, "") }], false);
        assert_eq!(found, agent(name), "{line}");
    }
}

#[test]
fn agent_cli_is_recognised_by_the_target_of_a_link() {
    let linked = |to: &str| Member {
        program: Some(Program {
            script: Some(to.to_owned()),
            ..program("/usr/bin/node /home/ann/bin/assistant")
        }),
        ..member(COMMAND, 1, "")
    };
    let codex = linked("/x/@openai/codex/bin/codex.js");
    assert_eq!(reader_of(&[codex], false), agent("codex"));
    let other = linked("/x/other/index.js");
    assert_eq!(reader_of(&[other], false), barred(Obstacle::OtherProgram, "assistant"));
}

#[test]
fn name_in_the_command_line_does_not_count() {
    let as_claude = |path: &str| {
        let arguments = Some(vec!["claude".to_owned()]);
        Program { path: path.to_owned(), arguments, ..Program::default() }
    };
    let read_by =
        |program| reader_of(&[Member { program: Some(program), ..member(COMMAND, 1, "") }], true);
    assert_eq!(read_by(as_claude("/usr/bin/bash")), Reader::Shell);
    let copy = Program { copy_of: Some("bash".to_owned()), ..as_claude("/x/claude") };
    assert_eq!(read_by(copy), Reader::Shell);
    let copy = Program { copy_of: Some("busybox".to_owned()), ..as_claude("/x/claude") };
    assert_eq!(read_by(copy), barred(Obstacle::Shell, "busybox"));
    let copy = Program { copy_of: Some("python".to_owned()), ..as_claude("/x/claude") };
    assert_eq!(read_by(copy), barred(Obstacle::Interpreter, "python"));
}

#[test]
fn shell_has_a_harmless_form_only_if_it_was_wrapped_itself() {
    for line in ["/usr/bin/bash --norc", "/bin/zsh -l", "/bin/bash"] {
        assert_eq!(alone(line), Reader::Shell, "{line}");
        let other = reader_of(&[member(COMMAND + 1, COMMAND, line)], true);
        assert!(matches!(other, Reader::Barred(Obstacle::Shell, _)), "{line}: {other:?}");
    }
    for line in [
        "/usr/bin/fish",
        "/usr/bin/dash -i",
        "/bin/busybox sh",
        "/usr/bin/tcsh",
        "C:\\Windows\\System32\\cmd.exe /k x",
    ] {
        assert!(matches!(alone(line), Reader::Barred(Obstacle::Shell, _)), "{line}");
    }
}

#[test]
fn accepts_text_does_not_admit_commands_and_conduits() {
    for (line, why) in [
        ("/usr/bin/python3 -i agent.py", Obstacle::Interpreter),
        ("/usr/bin/python3.11", Obstacle::Interpreter),
        ("/usr/bin/node", Obstacle::Interpreter),
        ("/usr/bin/node inspect agent.js", Obstacle::Interpreter),
        ("/usr/bin/perl -d -e 1", Obstacle::Interpreter),
        ("/usr/bin/gdb", Obstacle::Interpreter),
        ("/usr/bin/sqlite3", Obstacle::Interpreter),
        ("/usr/bin/rlwrap bash", Obstacle::Interpreter),
        ("/usr/bin/vim.basic x", Obstacle::Interpreter),
        ("/usr/bin/tmux new", Obstacle::Conduit),
        ("/usr/bin/screen", Obstacle::Conduit),
        ("/usr/bin/ssh host", Obstacle::Conduit),
        ("/usr/bin/script -qc bash", Obstacle::Conduit),
        ("/usr/bin/docker run -it x", Obstacle::Conduit),
        ("/usr/bin/sudo claude", Obstacle::Conduit),
    ] {
        let mut own = member(COMMAND, 1, line);
        own.program.as_mut().unwrap().is_wrapped = true;
        let found = reader_of(&[own], true);
        assert!(matches!(found, Reader::Barred(it, _) if it == why), "{line}: {found:?}");
    }
}

#[test]
fn unknown_program_gets_text_only_if_wrapped_with_accepts_text() {
    for line in
        ["/x/agent", "/bin/sh /x/agent.sh", "/usr/bin/python3 /x/agent.py", "/usr/bin/node -- a.js"]
    {
        let own = |is_wrapped, accepts| {
            let mut own = member(COMMAND, 1, line);
            own.program.as_mut().unwrap().is_wrapped = is_wrapped;
            reader_of(&[own], accepts)
        };
        assert_eq!(own(true, true), Reader::Accepted, "{line}");
        assert!(matches!(own(true, false), Reader::Barred(Obstacle::Unaccepted, _)), "{line}");
        assert!(matches!(own(false, true), Reader::Barred(Obstacle::OtherProgram, _)), "{line}");
    }
    for line in [
        "/usr/bin/python3 -Wignore -Xdev /x/agent.py",
        "/bin/bash -euo pipefail /x/agent.sh",
        "/bin/bash -o vi -O extglob /x/agent.sh",
        "/usr/bin/perl -MIO::File /x/agent.pl",
    ] {
        let found = alone(line);
        assert!(
            matches!(found, Reader::Barred(Obstacle::OtherProgram, Some(name)) if name.starts_with("agent")),
            "{line}"
        );
    }
    assert_eq!(alone("/usr/bin/python3 -maider --model x"), agent("aider"));
    let inline = reader_of(&[member(COMMAND, 1, "/bin/sh -c cat")], true);
    assert_eq!(inline, barred(Obstacle::OtherProgram, "sh"));
}

#[test]
fn launcher_counts_as_the_program_it_started() {
    let launched = |launcher: &str, program: &str| {
        reader_of(&[member(COMMAND, 1, launcher), member(11, COMMAND, program)], false)
    };
    assert_eq!(launched("/bin/sh /x/work.sh", "/x/claude"), agent("claude"));
    assert_eq!(launched("/bin/sh -c claude", "/x/claude"), agent("claude"));
    assert_eq!(launched("/usr/bin/node /x/.bin/codex", "/x/codex"), agent("codex"));
    assert_eq!(launched("/usr/bin/node /usr/bin/npx x", "/x/gemini"), agent("gemini"));
    assert_eq!(launched("/usr/bin/python3 /x/start.py", "/x/claude"), agent("claude"));
    assert_eq!(launched("/x/volta-shim", "/x/claude"), agent("claude"));
    assert_eq!(launched("/bin/sh /x/claude", "/bin/bash"), barred(Obstacle::Shell, "bash"));
    assert_eq!(launched("/bin/sh /x/work.sh", "/x/other"), barred(Obstacle::OtherProgram, "other"));
    let doubtful = Reader::Barred(Obstacle::Unidentified, None);
    assert_eq!(launched("/bin/bash", "/x/claude"), doubtful, "a shell at its prompt may read, too");
    let through_two = [
        member(COMMAND, 1, "/bin/sh /x/work.sh"),
        member(11, COMMAND, "/usr/bin/node /usr/bin/npx x"),
        member(12, 11, "/x/claude"),
    ];
    assert_eq!(reader_of(&through_two, false), agent("claude"));
}

#[test]
fn second_reader_next_to_an_agent_bars_it() {
    let beside = |line: &str, reads| {
        let other = Member { reads_terminal: reads, ..member(11, COMMAND, line) };
        reader_of(&[member(COMMAND, 1, "/x/claude"), other], true)
    };
    assert_eq!(beside("/usr/bin/vim x", Some(true)), barred(Obstacle::Interpreter, "vim"));
    assert_eq!(beside("/bin/bash", Some(true)), barred(Obstacle::Shell, "bash"));
    assert_eq!(beside("/x/server", Some(true)), barred(Obstacle::OtherProgram, "server"));
    assert_eq!(beside("/x/codex", Some(true)), Reader::Barred(Obstacle::Unidentified, None));
    // A tool server's input is a pipe. If the system does not tell, the server's parent identifies
    // it.
    assert_eq!(beside("/usr/bin/bash", Some(false)), agent("claude"));
    assert_eq!(beside("/usr/bin/node server.js", Some(false)), agent("claude"));
    assert_eq!(beside("/usr/bin/node server.js", None), agent("claude"));
    assert_eq!(beside("/bin/bash", None), barred(Obstacle::Shell, "bash"));
}

#[test]
fn nested_wrapper_outranks_other_readers() {
    let wrapper = Program { is_relay: true, ..program("/x/agent-relay run") };
    let members = [
        member(COMMAND, 1, "/bin/sh /x/work.sh"),
        Member { program: Some(wrapper), ..member(11, COMMAND, "") },
    ];
    assert!(reader_of(&members, true).is_relay());
}

#[test]
fn suspended_unreadable_and_absent_programs_are_barred() {
    let stopped = Member { is_stopped: true, ..member(COMMAND, 1, "/x/claude") };
    assert_eq!(reader_of(&[stopped], true), barred(Obstacle::Suspended, "claude"));
    let unreadable = Member { program: None, ..member(COMMAND, 1, "") };
    let unidentified = Reader::Barred(Obstacle::Unidentified, None);
    assert_eq!(reader_of(std::slice::from_ref(&unreadable), true), unidentified);
    assert_eq!(reader_of(&[member(COMMAND, 1, "/x/claude"), unreadable], true), unidentified);
    assert_eq!(reader_of(&[], true), unidentified);
}

#[test]
fn shell_with_an_erased_command_line_prompts() {
    for arguments in [None, Some(Vec::new()), Some(vec!["bash".to_owned()])] {
        let program = Program { path: "/bin/bash".to_owned(), arguments, ..Program::default() };
        let found = reader_of(&[Member { program: Some(program), ..member(11, 1, "") }], true);
        assert_eq!(found, barred(Obstacle::Shell, "bash"));
    }
}

#[test]
fn cycle_of_parents_terminates() {
    let members = [member(1, 2, "/bin/sh /x/a.sh"), member(2, 1, "/bin/sh /x/b.sh")];
    assert_eq!(reader_of(&members, true), Reader::Barred(Obstacle::Unidentified, None));
}

/// Returns a process on Windows. The system does not say who reads the terminal.
fn attached(pid: u32, parent: u32, words: &[&str]) -> Member {
    let arguments = Some(words.iter().map(|word| (*word).to_owned()).collect());
    let program = Program { path: words[0].to_owned(), arguments, ..Program::default() };
    Member { program: Some(program), reads_terminal: None, ..member(pid, parent, "") }
}

fn wrapped(mut member: Member) -> Member {
    member.program.as_mut().unwrap().is_wrapped = true;
    member
}

const CMD: &str = r"C:\Windows\System32\cmd.exe";
const NODE: &str = r"C:\Program Files\nodejs\node.exe";

#[test]
fn shim_counts_as_its_child_if_the_reader_is_unknown() {
    let launched = |shim: &Member, program: &str| {
        reader_of(&[shim.clone(), attached(11, COMMAND, &[program])], true)
    };
    let shim = attached(COMMAND, 1, &[r"C:\scoop\shims\helper.exe"]);
    assert_eq!(launched(&shim, r"C:\apps\claude.exe"), agent("claude"));
    assert_eq!(launched(&shim, r"C:\tools\tool.exe"), barred(Obstacle::OtherProgram, "tool"));
    assert_eq!(launched(&shim, CMD), barred(Obstacle::Shell, "cmd"));
    assert_eq!(launched(&shim, NODE), barred(Obstacle::Interpreter, "node"));
    let program = wrapped(attached(11, COMMAND, &[r"C:\apps\helper.exe"]));
    assert_eq!(reader_of(&[shim.clone(), program], true), Reader::Accepted);

    let accepted = wrapped(shim.clone());
    assert_eq!(launched(&accepted, r"C:\apps\claude.exe"), agent("claude"));
    assert_eq!(launched(&accepted, r"C:\t\tool.exe"), barred(Obstacle::OtherProgram, "tool"));
    let told = Member { reads_terminal: Some(true), ..shim.clone() };
    assert_eq!(launched(&told, r"C:\apps\claude.exe"), agent("claude"));
    for other in [
        attached(COMMAND + 5, 1, &[r"C:\scoop\shims\helper.exe"]),
        attached(COMMAND, 1, &[CMD]),
        attached(COMMAND, 1, &["C:\\Python\\python.exe"]),
        attached(COMMAND, 1, &[r"C:\Windows\System32\OpenSSH\ssh.exe", "host"]),
        Member { program: None, ..shim },
    ] {
        let claude = attached(11, other.pid, &[r"C:\apps\claude.exe"]);
        let found = reader_of(&[other.clone(), claude], true);
        assert!(matches!(found, Reader::Barred(..)), "{other:?}: {found:?}");
    }
}

#[test]
fn agent_started_by_an_npm_batch_file_is_recognised() {
    for (batch_file, script, name) in [
        ("claude", r"\@anthropic-ai\claude-code\cli.js", "claude"),
        ("codex", r"\@openai\codex\bin\codex.js", "codex"),
        ("gemini", r"\@google\gemini-cli\dist\index.js", "gemini"),
        ("opencode", r"\opencode-ai\bin\opencode", "opencode"),
        ("copilot", r"\@github\copilot\npm-loader.js", "copilot"),
    ] {
        let batch_file = format!(r"C:\Users\Ann B\AppData\Roaming\npm\{batch_file}.cmd");
        // The batch file names its directory with a backslash at the end, so the path has two.
        let script = format!(r"C:\Users\Ann B\AppData\Roaming\npm\\node_modules{script}");
        let shell = attached(COMMAND, 1, &[CMD, "/e:on", "/v:off", "/d", "/c", &batch_file]);
        let node = attached(11, COMMAND, &[NODE, &script]);
        assert_eq!(reader_of(&[wrapped(shell), node], false), agent(name), "{script}");
    }
    let shell = attached(COMMAND, 1, &[CMD, "/d", "/c", r"C:\npm\claude.cmd"]);
    let claude = r"C:\npm\\node_modules\@anthropic-ai\claude-code\bin\claude.exe";
    assert_eq!(reader_of(&[shell, attached(11, COMMAND, &[claude])], false), agent("claude"));
}

#[test]
fn accepts_text_for_a_batch_file_covers_its_program() {
    let shell = attached(COMMAND, 1, &[CMD, "/d", "/c", r"C:\x\agent.cmd"]);
    let batch_file = wrapped(shell.clone());
    let script = attached(11, COMMAND, &[NODE, r"C:\x\agent.js"]);
    let started =
        |member: &Member, accepts| reader_of(&[batch_file.clone(), member.clone()], accepts);
    assert_eq!(started(&script, true), Reader::Accepted);
    assert_eq!(started(&script, false), barred(Obstacle::Unaccepted, "agent"));
    assert_eq!(
        started(&attached(11, COMMAND, &[NODE]), true),
        barred(Obstacle::Interpreter, "node")
    );
    assert_eq!(started(&attached(11, COMMAND, &[CMD, "/k"]), true), barred(Obstacle::Shell, "cmd"));
    assert_eq!(reader_of(&[shell, script.clone()], true), barred(Obstacle::OtherProgram, "agent"));
    let tool = attached(12, 11, &[r"C:\x\tool.exe"]);
    let found = reader_of(&[batch_file.clone(), script, tool], true);
    assert_eq!(found, barred(Obstacle::OtherProgram, "tool"), "the program's own child");
    assert_eq!(reader_of(&[batch_file], true), Reader::Accepted);
    // `--accepts-text` covers a wrapped Unix shell script, but not a program that the script
    // starts.
    let shell = wrapped(attached(COMMAND, 1, &["/bin/sh", "/x/agent.sh"]));
    let found = reader_of(&[shell, attached(11, COMMAND, &["/x/other"])], true);
    assert_eq!(found, barred(Obstacle::OtherProgram, "other"));
}

#[test]
fn cmd_command_line_names_the_batch_file() {
    let of = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        operand(CMD, &words).unwrap()
    };
    let script = |path: &str| Operand::Script(path.to_owned());
    assert_eq!(of(&["/d", "/c", r"C:\x\a.cmd"]), script(r"C:\x\a.cmd"));
    // The system splits `/c ""C:\a b\a.cmd" --flag "an argument""` into these words.
    let words = ["/c", "C:\\a", "b\\a.CMD --flag an", "argument"];
    assert_eq!(of(&words), script(r"C:\a b\a.CMD"));
    assert_eq!(of(&["/C", "\"C:\\x\\a.bat\" b.cmd"]), script(r"C:\x\a.bat"));
    assert_eq!(of(&["/c", "a.cmd"]), script("a.cmd"));
    for words in [&["/c", "dir"][..], &["/c", "copy", "a.cmd", "b"], &["/c"], &["/c", "a.cmdlet"]] {
        assert_eq!(of(words), Operand::Inline, "{words:?}");
    }
    for words in [&[][..], &["/k", "a.cmd"], &["/k", "a.cmd", "/c"], &["/d", "/kx"], &["/cx"]] {
        assert_eq!(of(words), Operand::Prompt, "{words:?}");
    }
}
