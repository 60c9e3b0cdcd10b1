"""Shared parts of the tests: the kit on the path, a watchdog, and runs of the kit in this process."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from typing import Dict, Iterable, List, Sequence, Set

TESTS = Path(__file__).resolve().parent
KIT = TESTS.parent
ROOT = KIT.parents[1]
sys.path.insert(0, str(KIT))
# After this folder, which has modules of the same names.
sys.path.append(str(ROOT / "clients" / "python" / "tests"))
from agent_relay_conformance.rules import (  # noqa: E402
    ABILITIES, CLIENT_RULES, DAEMON_RULES, RULES, SECTIONS, Rule,
)
from agent_relay_conformance.scripted_client import DaemonRun  # noqa: E402
from agent_relay_conformance import scripted_client, verdicts  # noqa: E402
from agent_relay_conformance.scripted_daemon import Options  # noqa: E402
from agent_relay_conformance.verdicts import FAIL, Verdict, judge_client  # noqa: E402
from watchdog import Watched  # noqa: E402

__all__ = [
    "AGENT_RELAY", "ALL", "CLIENT_RULES", "Case", "DAEMON", "DAEMON_RULES", "DaemonRun", "JOBS",
    "KIT", "LIMIT_S", "Options", "ROOT", "RULES", "Rule", "SECTIONS", "SHORT_S", "TESTS", "Verdict",
    "failures", "judge_client", "judge_daemon", "python", "scripted_client",
]

if sys.platform == "win32":
    raise unittest.SkipTest("the kit needs Unix sockets")
AGENT_RELAY = os.environ.get("AGENT_RELAY", "")
DAEMON = [AGENT_RELAY, "--home", "{home}", "--endpoint", "{endpoint}", "up", "--foreground"]
LIMIT_S = 20.0  # the longest wait for an event that comes
SHORT_S = 3.0  # the longest wait for an event that does not come
JOBS = 16  # Most runs wait most of the time.
ALL = frozenset(ABILITIES)


class Case(Watched):
    limit_s = 600.0


def python(*words: str) -> List[str]:
    """Returns the command of a Python program among the tests, with a fast start."""
    cache = f"pycache_prefix={ROOT / 'target' / 'pycache'}"
    return [sys.executable, "-I", "-S", "-X", cache, str(TESTS / words[0]), *words[1:]]


def judge_daemon(
    command: Sequence[str], rules: Iterable[Rule], breaks: Set[str],
) -> List[Verdict]:
    """Checks a daemon. Waits only shortly where it `breaks` a rule."""
    with DaemonRun(command, None, LIMIT_S) as run:
        found = []
        for rule in rules:
            run.timeout = SHORT_S if rule.id in breaks else LIMIT_S
            found.append(verdicts.judge_daemon(run, rule))
        return found


def failures(found: Iterable[Verdict]) -> Dict[str, str]:
    """Returns the ids of the rules that failed, with the reasons."""
    return {v.rule.id: v.why for v in found if v.result == FAIL}
