"""The clients and the daemon of this repository keep the rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Sequence, Set

from support import (
    AGENT_RELAY, CLIENT_RULES, DAEMON, DAEMON_RULES, JOBS, KIT, LIMIT_S, ROOT, TESTS, Case,
    DaemonRun, Options, Verdict, failures, judge_client, judge_daemon,
)

ADAPTERS = KIT / "adapters"
TYPESCRIPT = ROOT / "clients" / "typescript" / "dist" / "src" / "index.js"
GO = ROOT / "target" / "clients" / "go_client"
NODE = shutil.which("node")
NPM = os.environ.get("AGENT_RELAY_1_0", "")
IS_ROOT = sys.platform == "linux" and os.getuid() == 0
COMMANDS = frozenset("send publish subscribe unsubscribe outcomes".split())
RECONNECTS = frozenset("reconnect resume".split())
QUESTIONS = frozenset("ask answer".split())


@dataclass
class Own:
    """A client, its abilities, and the rules that are skipped for it or fail."""

    command: Sequence[str]
    can: FrozenSet[str]
    skipped: Set[str] = field(default_factory=set)
    only: Set[str] = field(default_factory=set)
    part: str = "1.1"
    fails: Set[str] = field(default_factory=set)


OF_1_0 = {rule.id for rule in CLIENT_RULES if rule.since == "1.0"}
#: Rules that version 1.0 has not, and that its clients keep.
KEPT_BY_1_0 = {"4-unknown-members", "4-any-payload", "6-hello-in-time", "14-unknown-code"}
NEED_RECONNECT = {rule.id for rule in CLIENT_RULES if "reconnect" in rule.needs}
CLIENTS = {
    "tests/client.py": Own(
        [sys.executable, "-I", str(ROOT / "tests" / "client.py"), "Ann"], COMMANDS,
        skipped=NEED_RECONNECT | {"8-answer-question", "8-ask", "17-control-characters"}),
    "Python": Own(
        [sys.executable, "-I", str(ADAPTERS / "python_client.py"), "Ann"],
        COMMANDS | RECONNECTS | QUESTIONS, skipped={"17-control-characters"}),
    "Python, asyncio": Own(
        [sys.executable, "-I", str(ADAPTERS / "python_client.py"), "Ann", "--asyncio"],
        COMMANDS | RECONNECTS | QUESTIONS, skipped={"17-control-characters"}),
    # The commands cannot answer or end a subscription, and resume with HELLO.
    "Rust": Own(
        [sys.executable, "-I", str(ADAPTERS / "rust_cli.py"), AGENT_RELAY, "Ann"],
        frozenset("send publish subscribe ask".split()) | RECONNECTS,
        skipped={
            "8-drop-outcomes", "8-answer-question", "12-unauthorized", "12-stale",
            "17-control-characters"}),
    "Rust, for a person": Own(
        [AGENT_RELAY, "listen", "--as", "Ann"], frozenset({"show"}),
        only={"17-control-characters"}),
    "TypeScript": Own(
        [NODE or "", str(ADAPTERS / "typescript_client.mjs"), "Ann"],
        COMMANDS | RECONNECTS | QUESTIONS, skipped={"17-control-characters"}),
    "Go": Own(
        [str(GO), "Ann"], COMMANDS | RECONNECTS | QUESTIONS, skipped={"17-control-characters"}),
    "version 1.0": Own(
        [sys.executable, "-I", str(TESTS / "client_1_0.py"), "Ann"], COMMANDS,
        only=OF_1_0 | KEPT_BY_1_0),
    "version 1.0 with its daemon": Own(
        [sys.executable, "-I", str(TESTS / "client_1_0.py"), "Ann"], COMMANDS,
        only=OF_1_0, part="1.0"),
    # This one writes frames of up to 1 MiB, whatever WELCOME states.
    "npm": Own(
        [NODE or "", str(ADAPTERS / "npm_client_1_0.mjs"), NPM, "Ann"],
        frozenset("send subscribe unsubscribe".split()), only=OF_1_0, part="1.0",
        fails={"3-max-frame"}),
}
#: This one ignores RESUME.
NPM_DAEMON = [NODE or "", str(ADAPTERS / "npm_daemon_1_0.mjs"), NPM, "{endpoint}", "{home}"]
NPM_DAEMON_FAILS = {"12-topics-of-1.0"}
HAS_NPM = bool(NODE and NPM)
WHY_NO_NPM = "there is no Node, or AGENT_RELAY_1_0 does not name agent-relay 1.6.0 of npm"


def without_root(ids: Set[str], of_root: str) -> Set[str]:
    return ids if IS_ROOT else ids | {of_root}


def judge_own_daemon() -> List[Verdict]:
    return judge_daemon(DAEMON, DAEMON_RULES, set())


@unittest.skipUnless(AGENT_RELAY, "AGENT_RELAY does not name a daemon")
class OwnPrograms(Case):
    of_daemon: "Future[List[Verdict]]"

    @classmethod
    def setUpClass(cls) -> None:
        # The daemon's rules mostly wait: they are checked while the clients' are.
        pool = ThreadPoolExecutor(1)
        cls.of_daemon = pool.submit(judge_own_daemon)
        pool.shutdown(wait=False)

    def test_clients_keep_the_rules(self) -> None:
        clients = dict(CLIENTS)
        if NODE is None or not TYPESCRIPT.exists():
            del clients["TypeScript"]
            with self.subTest("TypeScript"):
                self.skipTest("there is no Node, or the TypeScript client is not built")
        if not HAS_NPM:
            del clients["npm"]
            with self.subTest("npm"):
                self.skipTest(WHY_NO_NPM)
        if not GO.exists():
            del clients["Go"]
            with self.subTest("Go"):
                self.skipTest("the adapter of the Go client is not built: see ci/clients")
        jobs = [
            (name, own, rule) for name, own in clients.items() for rule in CLIENT_RULES
            if not own.only or rule.id in own.only]
        with ThreadPoolExecutor(JOBS) as pool:
            verdicts = list(pool.map(
                lambda job: judge_client(
                    job[1].command, job[2], Options(job[1].can, LIMIT_S, job[1].part)), jobs))
        found: Dict[str, List[Verdict]] = {name: [] for name in clients}
        for (name, _, _), verdict in zip(jobs, verdicts):
            found[name].append(verdict)
        for name, own in clients.items():
            with self.subTest(name):
                failed = failures(found[name])
                self.assertEqual(set(failed), own.fails, failed)
                skipped = {v.rule.id: v.why for v in found[name] if v.result == "skipped"}
                wanted = own.skipped if own.only else without_root(own.skipped, "2-peer-user")
                self.assertEqual(set(skipped), wanted, skipped)

    def test_daemon_keeps_the_rules(self) -> None:
        verdicts = self.of_daemon.result()
        failed = failures(verdicts)
        self.assertEqual(failed, {})
        skipped = {v.rule.id: v.why for v in verdicts if v.result == "skipped"}
        self.assertEqual(set(skipped), without_root(set(), "2-other-user"), skipped)

    @unittest.skipUnless(HAS_NPM, WHY_NO_NPM)
    def test_daemon_of_version_1_0_fails_what_its_specification_says(self) -> None:
        rules = [rule for rule in DAEMON_RULES if rule.since == "1.0"]
        found = judge_daemon(NPM_DAEMON, rules, NPM_DAEMON_FAILS)
        others = {v.rule.id: (v.result, v.why) for v in found if v.result != "pass"}
        self.assertEqual(set(others), NPM_DAEMON_FAILS, others)

    def test_daemon_that_runs_already_is_checked_by_its_endpoint(self) -> None:
        program = [
            sys.executable, "-m", "agent_relay_conformance", "daemon", "--only", "6-second-hello"]
        with DaemonRun(DAEMON, None, LIMIT_S) as run:
            run.start_afresh()
            words = [*program, "--only", "2-endpoint-file", "--endpoint", run.endpoint]
            done = subprocess.run(words, cwd=KIT, stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(lines[0].startswith("skipped         2-endpoint-file "), lines[0])
        self.assertTrue(lines[2].startswith("pass            6-second-hello "), lines[2])


if __name__ == "__main__":
    unittest.main()
