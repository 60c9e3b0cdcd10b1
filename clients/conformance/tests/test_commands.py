"""The command line of the kit, and the examples of its README."""

import json
import os
import re
import subprocess
import sys
import unittest
from typing import List

from support import AGENT_RELAY, KIT, RULES, Case, python

README = (KIT / "README.md").read_text(encoding="utf-8")


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agent_relay_conformance", *words]
    pipe = subprocess.PIPE
    return subprocess.run(
        command, cwd=KIT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


class Commands(Case):
    def expect_usage_error(self, text: str, *words: str) -> None:
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(text, done.stderr)

    def test_rules_are_listed(self) -> None:
        rows = [json.loads(line) for line in run("rules", "--json").stdout.splitlines()]
        self.assertEqual([row["rule"] for row in rows], [rule.id for rule in RULES])
        text = run("rules").stdout
        self.assertIn("10.1   client  1.0  10 Heartbeats\n       Any frame shows", text)
        self.assertIn("(not observable: ", text)

    def test_command_line_is_checked(self) -> None:
        program = ["--", "true"]
        self.expect_usage_error("there is no rule '99.9'", "client", "--only", "99.9", *program)
        # A daemon's rule is none of a client's.
        self.expect_usage_error("there is no rule '4.11'", "client", "--only", "4.11", *program)
        self.expect_usage_error("there is no 'fly'", "client", "--can", "send,fly", *program)
        self.expect_usage_error("the client's program is missing", "client")
        self.expect_usage_error("no program 'no-such-program'", "client", "--", "no-such-program")
        self.expect_usage_error("either the daemon's program", "daemon")
        self.expect_usage_error("no daemon at /nowhere", "daemon", "--endpoint", "/nowhere")
        options = ["--part", "1.0", "--only", "1.1"]
        self.expect_usage_error("none of these rules: 1.1", "client", *options, *program)
        self.expect_usage_error("required: COMMAND")

    def test_help_names_exit_codes_and_abilities(self) -> None:
        self.assertIn("Exit codes: 0", run("--help").stdout)
        self.assertIn("outcomes", run("client", "--help").stdout)
        self.assertIn("{home}", run("daemon", "--help").stdout)

    def test_exit_code_and_json_state_the_failure(self) -> None:
        options = ["--json", "--only", "10.1", "--only", "7.1"]
        done = run("client", *options, "--", *python("model_client.py", "ascii-nonce"))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([row.get("verdict") for row in rows], ["pass", "fail", None])
        self.assertIn("the nonce is", rows[1]["why"])
        self.assertEqual((rows[2]["pass"], rows[2]["fail"]), (1, 1))

    def test_client_that_does_not_start_fails_with_its_error(self) -> None:
        words = [sys.executable, "-c", "import sys; sys.exit('out of order')"]
        done = run("client", "--only", "7.1", "--", *words)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended before HELLO or RESUME; standard error: out of order", done.stdout)

    @unittest.skipUnless(AGENT_RELAY, "AGENT_RELAY does not name a daemon")
    def test_examples_of_the_readme_print_what_it_shows(self) -> None:
        # The directory of the daemon is first, and so is that of this Python.
        folders = [os.path.dirname(AGENT_RELAY), os.path.dirname(sys.executable)]
        path = os.pathsep.join([*folders, os.environ["PATH"]])
        examples = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
        self.assertGreater(len(examples), 3)
        for command, output in examples:
            with self.subTest(command):
                words: List[str] = command.split()
                done = subprocess.run(
                    words, cwd=KIT, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE)
                self.assertEqual(done.stdout.decode(), output)


if __name__ == "__main__":
    unittest.main()
