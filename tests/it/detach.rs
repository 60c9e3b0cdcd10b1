//! The key that detaches the terminal of `run` from an agent CLI, and the two processes of such a
//! `run`: the front, which the shell waits for, and the wrapper.

use crate::{
    commands::{err, run},
    tmux,
    wrap::without_blanks,
};
use serde_json::Value;
use std::fs;
use testkit::{
    claude,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::{output, until},
};

const DONE: i32 = 0;
const FAILED: i32 = 1;

const DETACH: &str = "\u{1c}";

/// A program under the name of Claude Code, which repeats lines. Ctrl-\ is a key like others.
const REPEATS: &str = r#"
stty -isig
trap 'echo told > "$HOME/told"; exit 129' HUP
printf '\033[?1002h'
echo ready
while read -r line; do
    case $line in
        end\ *) exit "${line#end }" ;;
        *) echo "heard: $line" ;;
    esac
done
"#;

/// The command line of a shell that runs the program as Ann.
fn line(sandbox: &Sandbox, options: &str) -> String {
    let program = claude::install_with_hooks(sandbox, REPEATS);
    let wrap = testkit::programs::program("agent-relay-wrap");
    format!("'{}' -n Ann --no-brief {options} -- '{program}'\r", wrap.display())
}

/// A shell, and Ann in it.
#[track_caller]
fn shell_with_ann(sandbox: &Sandbox, options: &str) -> Terminal {
    let mut shell = Terminal::run(sandbox, &["bash", "--norc", "--noprofile"]);
    shell.wait_for_row("$");
    shell.press(&line(sandbox, options));
    shell.wait_for_row("ready");
    shell
}

#[track_caller]
fn wait_for_prompt(shell: &Terminal) {
    shell.wait_until("a prompt", |screen| screen.trim_end().ends_with("\n$"));
}

/// Types a line, and waits until the program has read it.
#[track_caller]
fn say(terminal: &mut Terminal, word: &str) {
    terminal.press(&format!("{word}\r"));
    terminal.wait_for_row(&format!("heard: {word}"));
}

/// Ends a tmux server, however the test ends.
struct Ending<'a>(&'a Sandbox);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // It ends by itself with its last pane.
        let mut kill = self.0.program("tmux");
        kill.arg("-S").arg(self.0.directory().join("tmux")).arg("kill-server");
        kill.output().ok();
    }
}

#[track_caller]
fn state(sandbox: &Sandbox) -> Value {
    serde_json::from_slice(&run(sandbox, &["release", "Ann", "--json"], DONE).stdout).unwrap()
}

fn wrapper(sandbox: &Sandbox) -> u64 {
    state(sandbox)["wrapper_pid"].as_u64().unwrap()
}

#[track_caller]
fn wait_until_ended(sandbox: &Sandbox) {
    until("nobody is there", || {
        let released = sandbox.run(["release", "Ann"]);
        released.status.code() == Some(FAILED) && err(&released).contains("(none runs)")
    });
}

#[track_caller]
fn attach(sandbox: &Sandbox) -> Terminal {
    let terminal = Terminal::command_in(sandbox, SIZE, &["attach", "Ann"]);
    terminal.wait_for("attached to Ann");
    terminal
}

#[test]
fn detached_agent_gives_the_shell_back_and_runs_on() {
    let sandbox = Sandbox::new();
    let mut shell = shell_with_ann(&sandbox, "");
    say(&mut shell, "one");
    assert_eq!(state(&sandbox)["has_terminal"], true);
    // Keys that are typed before the key, in one write with it, reach the program.
    shell.press(&format!("two\r{DETACH}"));
    shell.wait_for("Ann runs on; `agent-relay attach Ann` shows it again");
    shell.press("echo \"code=$? $(stty -a | grep -c -- '-icanon')\"\r");
    shell.wait_for_row("code=0 0");
    assert!(shell.bytes().windows(8).any(|bytes| bytes == b"\x1b[?1002l"), "the mouse stays on");
    let state = state(&sandbox);
    assert_eq!((&state["has_terminal"], &state["attached"]), (&Value::Null, &0.into()));
    // Where the system shows them, no open file of the wrapper is another process's terminal.
    let files = fs::read_dir(format!("/proc/{}/fd", state["wrapper_pid"]));
    for file in files.into_iter().flatten().flatten() {
        let file = fs::read_link(file.path()).unwrap_or_default();
        assert!(!file.starts_with("/dev/pts") && !file.starts_with("/dev/tty"), "{file:?}");
    }
    shell.press("exit\r");
    assert_eq!(shell.finish(), 0);
    let mut again = attach(&sandbox);
    again.wait_for_row("heard: two");
    say(&mut again, "three");
    again.press("end 7\r");
    assert_eq!(again.finish(), 7);
    let log = sandbox.home().join("logs/Ann.log");
    until("the log says how it ended", || {
        fs::read_to_string(&log).is_ok_and(|log| {
            log.contains("the person has detached") && log.contains("Ann ended with code 7")
        })
    });
    assert!(!sandbox.directory().join("told").exists(), "it was hung up");
}

#[test]
fn shell_gets_the_end_of_the_agent_that_it_waits_for() {
    let sandbox = Sandbox::new();
    let mut shell = shell_with_ann(&sandbox, "");
    shell.press("end 7\r");
    wait_for_prompt(&shell);
    shell.press("echo code=$?\r");
    shell.wait_for_row("code=7");
    shell.press(&line(&sandbox, ""));
    shell.wait_until("it runs again", |screen| screen.matches("\nready\n").count() == 2);
    sandbox.signal("KILL", wrapper(&sandbox));
    shell.wait_for("Killed");
    shell.press("echo code=$?\r");
    shell.wait_for_row("code=137");
}

#[test]
fn stopped_agent_comes_to_the_foreground_again() {
    let sandbox = Sandbox::new();
    let mut shell = shell_with_ann(&sandbox, "");
    let stopped = |shell: &Terminal| {
        shell.wait_until("it is stopped", |screen| screen.contains("Stopped"));
        wait_for_prompt(shell);
    };
    sandbox.signal("STOP", wrapper(&sandbox));
    stopped(&shell);
    // The job's process group, which the next signal is for.
    shell.press("clear; jobs -p; fg\r");
    say(&mut shell, "one");
    let group = shell.text().lines().find_map(|row| row.trim().parse::<u32>().ok()).unwrap();
    let mut kill = sandbox.program("kill");
    kill.args(["-s", "TSTP", "--", &format!("-{group}")]);
    assert!(output(kill).status.success());
    stopped(&shell);
    shell.press("clear; fg\r");
    say(&mut shell, "two");
    shell.press("end 7\r");
    wait_for_prompt(&shell);
    shell.press("echo code=$?\r");
    shell.wait_for_row("code=7");
}

#[test]
fn signals_to_the_front_end_the_agent() {
    for signal in ["TERM", "HUP", "INT", "KILL"] {
        let sandbox = Sandbox::new();
        let program = claude::install_with_hooks(&sandbox, REPEATS);
        let ann = Terminal::wrap(&sandbox, "Ann", &[&program]);
        ann.wait_for_row("ready");
        assert_ne!(u64::from(ann.pty.pid()), wrapper(&sandbox));
        sandbox.signal(signal, ann.pty.pid().into());
        until("the program is told", || sandbox.directory().join("told").exists());
        wait_until_ended(&sandbox);
        let expected = if signal == "KILL" { 137 } else { 129 };
        assert_eq!(ann.finish(), expected, "{signal}");
        let cut_off = run(&sandbox, &["restore"], DONE);
        assert!(String::from_utf8_lossy(&cut_off.stdout).contains("cut off"), "{cut_off:?}");
    }
}

#[test]
fn other_key_detaches_and_a_pasted_one_does_not() {
    let sandbox = Sandbox::new();
    let mut shell = shell_with_ann(&sandbox, "--detach-key ctrl-]");
    shell.press(&format!("{DETACH}\r"));
    shell.wait_for("heard:");
    shell.press("\x1b[200~pasted \u{1d}text\x1b[201~\r");
    shell.wait_until("the paste", |screen| {
        without_blanks(screen).contains("heard:") && screen.matches("text").count() >= 2
    });
    shell.press("\u{1d}");
    shell.wait_for("Ann runs on");
    let others =
        format!("agent-relay: --detach-key does not apply: {}", "the command is not an agent CLI");
    let shell = Terminal::wrap_with(&sandbox, &["--detach-key", "ctrl-]"], &["cat"]);
    shell.wait_for(&others);
    let end = Sandbox::with_config("on_hangup = 'end'");
    let mut shell = shell_with_ann(&end, "");
    shell.press(&format!("{DETACH}one\r"));
    shell.wait_for("one\n");
    assert_eq!(state(&end)["has_terminal"], true);
}

#[test]
fn agent_in_a_wrapped_shell_detaches_from_it() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let mut shell = Terminal::wrap(&sandbox, "Shell", &["bash", "--norc", "--noprofile"]);
    shell.wait_for_row("$");
    shell.press(&line(&sandbox, ""));
    shell.wait_for_row("ready");
    shell.press(DETACH);
    shell.wait_for("Ann runs on");
    // The shell's wrapper takes every key for a part of a line, until Enter.
    shell.press("\r");
    // The shell gets its messages again, and the agent its own.
    for (to, heard) in [("Shell", "to the shell"), ("Ann", "to Ann")] {
        crate::wrap::send(&mut bob, to, heard);
    }
    shell.wait_for("to the shell");
    let ann = attach(&sandbox);
    ann.wait_for("to Ann");
}

#[test]
fn agent_that_reads_nothing_is_detached_from() {
    // More than the terminal and the wrapper buffer.
    const KEYS: usize = 90_000;
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, "stty raw\necho ready\nexec sleep 1000\n");
    let wrap = testkit::programs::program("agent-relay-wrap");
    let mut shell = Terminal::run(&sandbox, &["bash", "--norc", "--noprofile"]);
    shell.wait_for_row("$");
    shell.press(&format!("'{}' -n Ann --no-brief -- '{program}'\r", wrap.display()));
    shell.wait_for_row("ready");
    shell.press(&"x".repeat(KEYS));
    shell.press(DETACH);
    shell.wait_for("Ann runs on");
}

#[test]
fn agent_detaches_from_a_pane_of_tmux() {
    if !tmux::is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let _ending = Ending(&sandbox);
    let socket = sandbox.directory().join("tmux");
    let socket = socket.to_str().unwrap();
    let shell = "PS1='$ ' exec bash --norc --noprofile";
    let mut pane =
        Terminal::run(&sandbox, &["tmux", "-S", socket, "-f", "/dev/null", "new", shell]);
    pane.wait_for_row("$");
    pane.press(&line(&sandbox, ""));
    pane.wait_for_row("ready");
    say(&mut pane, "one");
    pane.press(DETACH);
    pane.wait_for("Ann runs on");
    pane.press("echo code=$?\r");
    pane.wait_for_row("code=0");
    pane.press("exit\r");
    assert_eq!(pane.finish(), 0);
    let mut again = attach(&sandbox);
    say(&mut again, "two");
}
