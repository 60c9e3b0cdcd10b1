//! Shells behind other programs, and under other names.

use super::{Expected, File, PROGRAM, Program};

/// A start-up file of bash that sets Claude Code's prompt.
const RC: (&str, File) = ("rc", File::Text("PS1='❯ '\n"));

/// A shell that the wrapper may have a harmless form for.
const SHELL: Program = Program { needs: &["bash"], expected: Expected::TypedOrWaiting, ..PROGRAM };

/// A shell with Claude Code's prompt, behind an executable `claude`.
const CLAUDE: Program = Program { command: &["{dir}/bin/claude"], prompt: "❯", ..SHELL };

/// A copy of bash named `claude`.
const COPY: Program = Program {
    files: &[RC, ("bin/claude", File::Copy("bash"))],
    command: &["{dir}/bin/claude", "--noprofile", "--rcfile", "{dir}/rc"],
    ..CLAUDE
};

/// A script `work` that runs a shell.
const WORK: Program = Program { command: &["{dir}/bin/work"], prompt: "λ work ⟩", ..SHELL };

#[test]
fn shell_behind_env_runs_no_message() {
    Program {
        needs: &["env", "bash"],
        command: &["env", "PS1=lambda ", "bash", "--norc", "--noprofile"],
        prompt: "lambda",
        ..SHELL
    }
    .runs_no_message();
}

#[test]
fn script_that_becomes_a_shell_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='λ work ⟩ ' exec bash --norc --noprofile\n";
    Program { files: &[("bin/work", File::Script(SCRIPT))], ..WORK }.runs_no_message();
}

#[test]
fn script_that_starts_a_shell_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='λ work ⟩ ' bash --norc --noprofile\n:\n";
    Program { files: &[("bin/work", File::Script(SCRIPT))], ..WORK }.runs_no_message();
}

#[test]
fn script_named_claude_that_starts_a_shell_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='❯ ' bash --norc --noprofile\n:\n";
    Program { files: &[("bin/claude", File::Script(SCRIPT))], ..CLAUDE }.runs_no_message();
}

#[test]
fn script_that_starts_a_shell_in_its_own_group_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='❯ ' dash -i +m\n:\n";
    Program { needs: &["dash"], files: &[("bin/claude", File::Script(SCRIPT))], ..CLAUDE }
        .runs_no_message();
}

#[test]
fn shell_that_calls_itself_claude_runs_no_message() {
    const LINE: &str = "exec -a claude bash --noprofile --rcfile {dir}/rc";
    Program { files: &[RC], command: &["bash", "-c", LINE], prompt: "❯", ..SHELL }
        .runs_no_message();
}

#[test]
fn script_named_claude_that_becomes_a_shell_of_that_name_runs_no_message() {
    const SCRIPT: &str = "#!/bin/bash\nexec -a claude bash --noprofile --rcfile {dir}/rc\n";
    Program { files: &[RC, ("bin/claude", File::Script(SCRIPT))], ..CLAUDE }.runs_no_message();
}

#[test]
fn copy_of_bash_named_claude_runs_no_message() {
    COPY.runs_no_message();
}

#[test]
fn deleted_copy_of_bash_runs_no_message() {
    Program { setup: &[("rm {dir}/bin/claude\r", "❯")], ..COPY }.runs_no_message();
}

#[test]
fn copy_of_busybox_named_codex_runs_no_message() {
    const SCRIPT: &str = "#!/bin/bash\nPS1='› ' exec -a sh {dir}/real/codex\n";
    Program {
        needs: &["bash", "busybox"],
        files: &[("real/codex", File::Copy("busybox")), ("bin/codex", File::Script(SCRIPT))],
        command: &["{dir}/bin/codex"],
        prompt: "›",
        ..SHELL
    }
    .runs_no_message();
}

#[test]
fn shell_behind_rlwrap_runs_no_message() {
    let command = &["rlwrap", "bash", "--norc", "--noprofile"];
    Program { needs: &["rlwrap", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn shell_behind_script_runs_no_message() {
    let command = &["script", "-qc", "PS1='$ ' bash --norc --noprofile", "/dev/null"];
    Program { needs: &["script", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn shell_behind_strace_runs_no_message() {
    let command = &["strace", "-f", "-o", "/dev/null", "bash", "--norc", "--noprofile"];
    Program { needs: &["strace", "bash"], command, ..SHELL }.runs_no_message();
}

#[test]
fn shell_behind_expect_runs_no_message() {
    const SCRIPT: &str = "spawn -noecho bash --norc --noprofile; interact";
    let command = &["expect", "-c", SCRIPT];
    Program { needs: &["expect", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn shell_behind_perl_runs_no_message() {
    let command = &["perl", "-e", "system('bash', '--norc', '--noprofile')"];
    Program { needs: &["perl", "bash"], command, ..SHELL }.runs_no_message();
}

#[test]
fn shell_behind_make_runs_no_message() {
    Program {
        needs: &["make", "bash"],
        files: &[("Makefile", File::Text("shell:\n\t@PS1='$$ ' bash --norc --noprofile\n"))],
        command: &["make", "shell"],
        ..SHELL
    }
    .runs_no_message();
}

#[test]
fn shell_behind_tmux_runs_no_message() {
    const LINE: &str = "PS1='$ ' bash --norc --noprofile";
    Program {
        needs: &["tmux", "bash"],
        command: &["tmux", "-S", "{dir}/tmux", "-f", "/dev/null", "new", LINE],
        cleanup: &["tmux", "-S", "{dir}/tmux", "kill-server"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn shell_behind_screen_runs_no_message() {
    Program {
        needs: &["screen", "bash"],
        command: &["screen", "-c", "/dev/null", "-S", "{name}", "bash", "--norc", "--noprofile"],
        cleanup: &["screen", "-S", "{name}", "-X", "quit"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn script_named_ssh_that_becomes_a_shell_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='host$ ' exec bash --norc --noprofile\n";
    Program {
        files: &[("bin/ssh", File::Script(SCRIPT))],
        command: &["{dir}/bin/ssh", "host"],
        prompt: "host$",
        ..SHELL
    }
    .runs_no_message();
}

/// A stand-in for ssh that, like ssh, runs the shell in another terminal.
#[test]
fn shell_behind_ssh_runs_no_message() {
    Program {
        needs: &["script", "bash"],
        files: &[("bin/ssh", File::Copy("script"))],
        command: &["{dir}/bin/ssh", "-qc", "PS1='$ ' bash --norc --noprofile", "/dev/null"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn shell_behind_docker_runs_no_message() {
    Program {
        needs: &["script", "bash"],
        files: &[("bin/docker", File::Copy("script"))],
        command: &["{dir}/bin/docker", "-qc", "PS1='❯ ' bash --norc --noprofile", "/dev/null"],
        prompt: "❯",
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn shell_behind_sudo_runs_no_message() {
    Program {
        files: &[("bin/sudo", File::Toy)],
        command: &["{dir}/bin/sudo", "run bash --norc --noprofile", "quit"],
        ..SHELL
    }
    .runs_no_message();
}

#[test]
fn shell_behind_su_runs_no_message() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='# ' bash --norc --noprofile\n:\n";
    Program {
        files: &[("bin/su", File::Script(SCRIPT))],
        command: &["{dir}/bin/su", "-"],
        prompt: "#",
        ..SHELL
    }
    .runs_no_message();
}

#[test]
fn shell_behind_npm_runs_no_message() {
    const SCRIPT: &str = "#!/usr/bin/env node\nprocess.on('SIGINT', () => {});\n\
        require('child_process').spawn('bash', ['--noprofile', '--rcfile', '{dir}/rc'], \
        {stdio: 'inherit'}).on('exit', process.exit);\n";
    Program {
        needs: &["node", "bash"],
        files: &[RC, ("bin/npm", File::Script(SCRIPT))],
        command: &["{dir}/bin/npm", "exec"],
        prompt: "❯",
        ..SHELL
    }
    .runs_no_message();
}
