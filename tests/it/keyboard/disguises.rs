//! Shells behind other programs, and under other names.

use super::{Expected, File, PROGRAM, Program};

/// A shell that shows what Claude Code shows.
const RC: (&str, File) = ("rc", File::Text("PS1='❯ '\n"));

#[test]
fn a_shell_behind_env_runs_nothing() {
    Program {
        needs: &["env", "bash"],
        command: &["env", "PS1=lambda ", "bash", "--norc", "--noprofile"],
        prompt: "lambda",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_that_becomes_a_shell_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='λ work ⟩ ' exec bash --norc --noprofile\n";
    Program {
        needs: &["bash"],
        files: &[("bin/work", File::Script(SCRIPT))],
        command: &["{dir}/bin/work"],
        prompt: "λ work ⟩",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_that_starts_a_shell_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='λ work ⟩ ' bash --norc --noprofile\n:\n";
    Program {
        needs: &["bash"],
        files: &[("bin/work", File::Script(SCRIPT))],
        command: &["{dir}/bin/work"],
        prompt: "λ work ⟩",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_named_claude_that_starts_a_shell_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='❯ ' bash --norc --noprofile\n:\n";
    Program {
        needs: &["bash"],
        files: &[("bin/claude", File::Script(SCRIPT))],
        command: &["{dir}/bin/claude"],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_that_starts_a_shell_in_its_own_group_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='❯ ' dash -i +m\n:\n";
    Program {
        needs: &["dash"],
        files: &[("bin/claude", File::Script(SCRIPT))],
        command: &["{dir}/bin/claude"],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_that_calls_itself_claude_runs_nothing() {
    const LINE: &str = "exec -a claude bash --noprofile --rcfile {dir}/rc";
    Program {
        needs: &["bash"],
        files: &[RC],
        command: &["bash", "-c", LINE],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_named_claude_that_becomes_a_shell_of_that_name_runs_nothing() {
    const SCRIPT: &str = "#!/bin/bash\nexec -a claude bash --noprofile --rcfile {dir}/rc\n";
    Program {
        needs: &["bash"],
        files: &[RC, ("bin/claude", File::Script(SCRIPT))],
        command: &["{dir}/bin/claude"],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_copy_of_bash_named_claude_runs_nothing() {
    Program {
        needs: &["bash"],
        files: &[RC, ("bin/claude", File::Copy("bash"))],
        command: &["{dir}/bin/claude", "--noprofile", "--rcfile", "{dir}/rc"],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_copy_of_bash_that_is_gone_runs_nothing() {
    Program {
        needs: &["bash"],
        files: &[RC, ("bin/claude", File::Copy("bash"))],
        command: &["{dir}/bin/claude", "--noprofile", "--rcfile", "{dir}/rc"],
        prompt: "❯",
        first: &[("rm {dir}/bin/claude\r", "❯")],
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_copy_of_busybox_named_codex_runs_nothing() {
    const SCRIPT: &str = "#!/bin/bash\nPS1='› ' exec -a sh {dir}/real/codex\n";
    Program {
        needs: &["bash", "busybox"],
        files: &[("real/codex", File::Copy("busybox")), ("bin/codex", File::Script(SCRIPT))],
        command: &["{dir}/bin/codex"],
        prompt: "›",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_behind_rlwrap_runs_nothing() {
    let command = &["rlwrap", "bash", "--norc", "--noprofile"];
    Program { needs: &["rlwrap", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn a_shell_behind_script_runs_nothing() {
    let command = &["script", "-qc", "PS1='$ ' bash --norc --noprofile", "/dev/null"];
    Program { needs: &["script", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn a_shell_behind_strace_runs_nothing() {
    let command = &["strace", "-f", "-o", "/dev/null", "bash", "--norc", "--noprofile"];
    let expected = Expected::TypedOrWaiting;
    Program { needs: &["strace", "bash"], command, expected, ..PROGRAM }.runs_no_message();
}

#[test]
fn a_shell_behind_expect_runs_nothing() {
    const SCRIPT: &str = "spawn -noecho bash --norc --noprofile; interact";
    let command = &["expect", "-c", SCRIPT];
    Program { needs: &["expect", "bash"], command, ..PROGRAM }.runs_no_message();
}

#[test]
fn a_shell_behind_perl_runs_nothing() {
    let command = &["perl", "-e", "system('bash', '--norc', '--noprofile')"];
    let expected = Expected::TypedOrWaiting;
    Program { needs: &["perl", "bash"], command, expected, ..PROGRAM }.runs_no_message();
}

#[test]
fn a_shell_behind_make_runs_nothing() {
    Program {
        needs: &["make", "bash"],
        files: &[("Makefile", File::Text("shell:\n\t@PS1='$$ ' bash --norc --noprofile\n"))],
        command: &["make", "shell"],
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_behind_tmux_runs_nothing() {
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
fn a_shell_behind_screen_runs_nothing() {
    Program {
        needs: &["screen", "bash"],
        command: &["screen", "-c", "/dev/null", "-S", "{name}", "bash", "--norc", "--noprofile"],
        cleanup: &["screen", "-S", "{name}", "-X", "quit"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_script_named_ssh_that_becomes_a_shell_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='host$ ' exec bash --norc --noprofile\n";
    Program {
        needs: &["bash"],
        files: &[("bin/ssh", File::Script(SCRIPT))],
        command: &["{dir}/bin/ssh", "host"],
        prompt: "host$",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

/// As with the real one, the shell is in another terminal.
#[test]
fn a_shell_behind_ssh_runs_nothing() {
    Program {
        needs: &["script", "bash"],
        files: &[("bin/ssh", File::Copy("script"))],
        command: &["{dir}/bin/ssh", "-qc", "PS1='$ ' bash --norc --noprofile", "/dev/null"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_behind_docker_runs_nothing() {
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
fn a_shell_behind_sudo_runs_nothing() {
    Program {
        needs: &["bash"],
        files: &[("bin/sudo", File::Toy)],
        command: &["{dir}/bin/sudo", "run bash --norc --noprofile", "quit"],
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_behind_su_runs_nothing() {
    const SCRIPT: &str = "#!/bin/sh\nPS1='# ' bash --norc --noprofile\n:\n";
    Program {
        needs: &["bash"],
        files: &[("bin/su", File::Script(SCRIPT))],
        command: &["{dir}/bin/su", "-"],
        prompt: "#",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn a_shell_behind_npm_runs_nothing() {
    const SCRIPT: &str = "#!/usr/bin/env node\nprocess.on('SIGINT', () => {});\n\
        require('child_process').spawn('bash', ['--noprofile', '--rcfile', '{dir}/rc'], \
        {stdio: 'inherit'}).on('exit', process.exit);\n";
    Program {
        needs: &["node", "bash"],
        files: &[RC, ("bin/npm", File::Script(SCRIPT))],
        command: &["{dir}/bin/npm", "exec"],
        prompt: "❯",
        expected: Expected::TypedOrWaiting,
        ..PROGRAM
    }
    .runs_no_message();
}
