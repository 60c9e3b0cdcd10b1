//! Interpreters, debuggers and databases: programs with their own languages.

use super::{File, PROGRAM, Program};

const PYTHON: Program = Program {
    needs: &["python3"],
    bodies: &[
        "open('{mark}', 'w')",
        "\nopen('{mark}', 'w')\n\n",
        "'''\nopen('{mark}', 'w')\n'''\nopen('{mark}', 'w')",
        "1)\nimport os; os.system('touch {mark}')\n",
    ],
    leave: &["\r", "\u{3}", "exit()\r"],
    ..PROGRAM
};

#[test]
fn python_runs_no_message() {
    let command = &["python3", "-E", "-S", "-i", "-c", "exit = __import__('os')._exit"];
    let leave = &["\r", "\u{3}", "exit(0)\r"];
    Program { command, prompt: ">>>", leave, ..PYTHON }.runs_no_message();
}

#[test]
fn python_with_a_prompt_like_a_line_reader_runs_no_message() {
    let command = &["python3", "-E", "-i", "-c", "import sys; sys.ps1 = '> '"];
    Program { command, prompt: ">", ..PYTHON }.runs_no_message();
}

#[test]
fn python_with_the_prompt_of_claude_runs_no_message() {
    let command = &["python3", "-E", "-i", "-c", "import sys; sys.ps1 = '❯ '"];
    Program { command, prompt: "❯", ..PYTHON }.runs_no_message();
}

#[test]
fn script_that_executes_its_input_runs_no_message() {
    const SCRIPT: &str = "import os\nwhile True:\n    line = input('> ')\n    \
                          if line == 'exit': break\n    os.system(line)\n";
    Program {
        needs: &["python3"],
        files: &[("agent.py", File::Text(SCRIPT))],
        command: &["python3", "agent.py"],
        prompt: ">",
        leave: &["\r", "exit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn node_runs_no_message() {
    Program {
        needs: &["node"],
        command: &["node"],
        prompt: ">",
        bodies: &[
            "require('fs').writeFileSync('{mark}', '')",
            "`\nrequire('child_process').execSync('touch {mark}')\n`",
            ".editor\nrequire('fs').writeFileSync('{mark}', '')\n\u{4}",
        ],
        leave: &["\r", "\u{3}", ".exit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn sqlite3_runs_no_message() {
    Program {
        needs: &["sqlite3"],
        command: &["sqlite3"],
        prompt: "sqlite>",
        bodies: &[
            ".shell touch {mark}",
            ".system touch {mark}",
            "\n.shell touch {mark}\n",
            ";\n.output {mark}\n.output",
        ],
        leave: &["\r", ".quit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn copy_of_sqlite3_named_claude_runs_no_message() {
    Program {
        needs: &["sqlite3"],
        files: &[("bin/claude", File::Copy("sqlite3"))],
        command: &["{dir}/bin/claude", "-cmd", ".prompt '❯ '"],
        prompt: "❯",
        bodies: &[".shell touch {mark}", "\n.shell touch {mark}\n"],
        leave: &["\r", ".quit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn gdb_runs_no_message() {
    Program {
        needs: &["gdb"],
        command: &["gdb", "-q", "-nx"],
        prompt: "(gdb)",
        bodies: &["shell touch {mark}", "!touch {mark}", "\npython open('{mark}', 'w')\n"],
        leave: &["\r", "\u{3}", "quit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn perl_debugger_runs_no_message() {
    Program {
        needs: &["perl"],
        command: &["perl", "-d", "-e", "1"],
        prompt: "DB<1>",
        bodies: &[
            "system('touch {mark}')",
            "!!touch {mark}",
            "\n`touch {mark}`\n",
            "|touch {mark}",
        ],
        leave: &["\r", "q\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn lua_runs_no_message() {
    Program {
        needs: &["lua5.4"],
        command: &["lua5.4"],
        prompt: ">",
        bodies: &["os.execute('touch {mark}')", "io.open('{mark}', 'w')"],
        leave: &["\r", "os.exit()\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn expect_runs_no_message() {
    Program {
        needs: &["expect"],
        command: &["expect"],
        prompt: "expect1.1>",
        bodies: &["exec touch {mark}", "open {mark} w"],
        leave: &["\r", "exit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn ed_runs_no_message() {
    Program {
        needs: &["ed"],
        command: &["ed", "-p", "> "],
        prompt: ">",
        bodies: &["!touch {mark}", "w {mark}", "a\nx\n.\nw {mark}"],
        leave: &["\r", "Q\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn dc_runs_no_message() {
    Program {
        needs: &["dc"],
        command: &["dc"],
        prompt: "",
        setup: &[("6 7*p\r", "42")],
        bodies: &["!touch {mark}", "[!touch {mark}]x"],
        leave: &["\r", "q\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn bc_runs_no_message() {
    Program {
        needs: &["bc"],
        command: &["bc", "-q"],
        prompt: "",
        setup: &[("6*7\r", "42")],
        leave: &["\r", "quit\r"],
        ..PROGRAM
    }
    .runs_no_message();
}

#[test]
fn cat_gets_no_message() {
    Program {
        needs: &["cat"],
        command: &["cat"],
        prompt: "",
        setup: &[("here\r", "here")],
        leave: &["\r", "\u{4}"],
        ..PROGRAM
    }
    .runs_no_message();
}
