"""The command line of the kit, and the examples of its README."""

import json
import os
import re
import signal
import subprocess
import sys
import unittest
import tempfile
from pathlib import Path
from typing import List

from support import AGENT_RELAY, DAEMON, KIT, LIMIT_S, RULES, Case, DaemonRun, python

README = (KIT / "README.md").read_text(encoding="utf-8")


COMMAND = [sys.executable, "-m", "agent_relay_conformance"]
PIPE = subprocess.PIPE
UUID = "[0-9a-f]{8}-[0-9a-f-]{27}"


def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], cwd=KIT, stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, text=True,
        env={**os.environ, **variables})


def without_ids(text: str) -> str:
    """Returns an output without the ids of envelopes, which no two runs have in common."""
    return re.sub(UUID, "ID", text)


class Commands(Case):
    def expect_usage_error(self, text: str, *words: str, **variables: str) -> None:
        done = run(*words, **variables)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(text, done.stderr)

    def test_rules_are_listed(self) -> None:
        rows = [json.loads(line) for line in run("rules", "--json").stdout.splitlines()]
        self.assertEqual([row["rule"] for row in rows], [rule.id for rule in RULES])
        text = run("rules").stdout
        self.assertRegex(text, "(?m)^10-nonce +client  1.0  A client answers PING by PONG")
        self.assertIn("(not observable: ", text)

    def test_command_line_is_checked(self) -> None:
        program = ["--", "true"]
        self.expect_usage_error("there is no rule '99'", "client", "--only", "99", *program)
        # A daemon's rule is none of a client's.
        self.expect_usage_error("there is no rule '4-utf8'", "client", "--only", "4-utf8", *program)
        self.expect_usage_error("there is no 'fly'", "client", "--can", "send,fly", *program)
        self.expect_usage_error("the client's program is missing", "client")
        self.expect_usage_error("no program 'no-such-program'", "client", "--", "no-such-program")
        self.expect_usage_error("either the daemon's program", "daemon")
        self.expect_usage_error("no daemon at /nowhere", "daemon", "--endpoint", "/nowhere")
        options = ["--part", "1.0", "--only", "12"]
        self.expect_usage_error("none of these rules: 12", "client", *options, *program)
        self.expect_usage_error("required: COMMAND")
        for seconds in ("inf", "1e30", "nan", "0", "-1", "soon"):
            self.expect_usage_error("--timeout: ", "client", "--timeout", seconds, *program)

    def test_program_that_cannot_run_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "client")
            program.write_text("no program")
            words = ["client", "--only", "7-answer-delivery", "--", str(program)]
            self.expect_usage_error(f"chmod +x {program}", *words)
            program.chmod(0o700)
            self.expect_usage_error("does not start: Exec format error", *words)
        self.expect_usage_error("write './README.md'", "client", "--", "README.md")

    def test_long_path_of_temporary_files_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            long = Path(folder, "x" * 90)
            long.mkdir()
            for kind in ("client", "daemon"):
                words = [kind, "--part", "1.0", "--", "true"]
                self.expect_usage_error("set TMPDIR to a shorter", *words, TMPDIR=str(long))

    def test_daemon_that_does_not_start_ends_the_run(self) -> None:
        text = "it ended with the exit code 1, and printed: out of order"
        words = [sys.executable, "-c", "import sys; sys.exit('out of order')"]
        self.expect_usage_error(text, "daemon", "--", *words)
        text = "after 0.5 s, and printed nothing"
        self.expect_usage_error(text, "daemon", "--timeout", "0.5", "--", "sleep", "100")

    @unittest.skipUnless(AGENT_RELAY, "AGENT_RELAY does not name a daemon")
    def test_end_of_a_daemon_that_ran_already_ends_the_run(self) -> None:
        with DaemonRun(DAEMON, None, LIMIT_S) as daemon:
            daemon.start_afresh()
            words = [*COMMAND, "daemon", "--endpoint", daemon.endpoint]
            kit = subprocess.Popen(words, cwd=KIT, stdout=PIPE, stderr=PIPE, text=True)
            assert kit.stdout
            kit.stdout.readline()
            # A daemon that is killed accepts connections for a moment after it has ended others.
            kit.send_signal(signal.SIGSTOP)
            os.waitpid(kit.pid, os.WUNTRACED)
            daemon.kill()
            kit.send_signal(signal.SIGCONT)
            text, errors = kit.communicate()
        self.assertEqual(kit.returncode, 2, errors)
        self.assertIn("accepts no more connections", errors)
        self.assertLessEqual(text.count("FAIL"), 1, text)

    def test_output_in_any_encoding_is_printed(self) -> None:
        self.assertEqual(run("rules", PYTHONIOENCODING="ascii").returncode, 0)
        words = ["--only", "10-nonce", "--", *python("wrong_client.py", "ascii-nonce")]
        done = run("client", *words, PYTHONIOENCODING="ascii")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\\xe9 \\u2028", done.stdout)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_output_is_an_error(self) -> None:
        client = ["client", "--only", "10-nonce", "--", *python("client_1_0.py", "Ann")]
        for words in (["rules"], client):
            with self.subTest(words[0]), open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [*COMMAND, *words], cwd=KIT, stdout=full, stderr=PIPE, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, "^agent_relay_conformance: error: the output .*\n$")

    def test_closed_output_is_no_traceback(self) -> None:
        kit = subprocess.Popen([*COMMAND, "rules"], cwd=KIT, stdout=PIPE, stderr=PIPE)
        assert kit.stdout
        kit.stdout.close()
        self.assertEqual((kit.communicate()[1], kit.returncode), (b"", 2))

    def test_help_names_exit_codes_and_abilities(self) -> None:
        self.assertIn("Exit codes: 0", run("--help").stdout)
        self.assertIn("outcomes", run("client", "--help").stdout)
        self.assertIn("{home}", run("daemon", "--help").stdout)

    def test_exit_code_and_json_state_the_failure(self) -> None:
        options = ["--json", "--only", "10", "--only", "7-answer-delivery"]
        done = run("client", *options, "--", *python("wrong_client.py", "ascii-nonce"))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([row.get("verdict") for row in rows], ["pass", "fail", None])
        self.assertIn("the nonce is", rows[1]["why"])
        self.assertEqual(rows[1]["reference"], "docs/PROTOCOL.md#10-heartbeats")
        ping, pong = rows[1]["frames"][-2:]
        self.assertEqual((ping["by"], ping["type"]), ("kit", "PING"))
        self.assertEqual((pong["by"], pong["type"]), ("client", "PONG"))
        self.assertRegex(ping["id"] + pong["id"], f"^{UUID}{UUID}$")
        self.assertEqual((rows[2]["pass"], rows[2]["fail"]), (1, 1))

    def test_client_that_does_not_start_fails_with_its_error(self) -> None:
        words = [sys.executable, "-c", "import sys; sys.exit('out of order')"]
        done = run("client", "--only", "7-answer-delivery", "--", *words)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended before HELLO or RESUME; standard error: out of order", done.stdout)

    @unittest.skipUnless(AGENT_RELAY, "AGENT_RELAY does not name a daemon")
    def test_examples_of_the_readme_print_what_it_shows(self) -> None:
        # The directories of the daemon and of this Python come first.
        folders = [os.path.dirname(AGENT_RELAY), os.path.dirname(sys.executable)]
        path = os.pathsep.join([*folders, os.environ["PATH"]])
        examples = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
        self.assertGreater(len(examples), 3)
        for command, output in examples:
            with self.subTest(command):
                words: List[str] = command.split()
                done = subprocess.run(
                    words, cwd=KIT, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE)
                self.assertEqual(without_ids(done.stdout.decode()), without_ids(output))


if __name__ == "__main__":
    unittest.main()
