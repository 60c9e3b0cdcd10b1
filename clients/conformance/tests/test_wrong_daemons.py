"""Deliberately wrong daemons: each is caught by the rule that it breaks."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, Set, Tuple

from support import DAEMON_RULES, JOBS, Case, failures, judge_daemon, python

#: The rules that each wrong daemon breaks. It passes all others.
WRONG: Dict[str, Set[str]] = {
    "any-user": {"2.12"},
    "patient": {"3.11"},
    "re-encodes": {"4.29"},
    "any-sender": {"7.15"},
    "any-ack": {"8.15"},
    "id-only": {"8.22"},
    "every-answer": {"8.31"},
    "lasting-patterns": {"7.27"},
    # A broadcast to everyone and one on a topic have a rule each.
    "echo": {"7.12", "7.13"},
    # The dedup window must survive a crash, too.
    "accepts-twice": {"8.14", "8.21"},
}

#: More wrong daemons, of which only this rule is checked.
CAUGHT = {
    "open-socket": "2.11",
    "lenient-utf8": "4.13",
    "deep": "4.15",
    "not-a-number": "4.16",
    "row-7": "4.17",
    "row-8": "4.18",
    "row-9": "4.19",
    "row-10": "4.20",
    "row-11": "4.21",
    "row-12": "4.22",
    "row-13": "4.23",
    "row-14": "4.24",
    "strict-members": "4.32",
    "spelling": "5.12",
    "case": "5.13",
    "any-machine": "5.14",
    "many-hellos": "6.12",
    "no-window": "6.18",
    "any-bridge": "6.25",
    "bridge-as-agent": "6.26",
    "bridge-hears-all": "6.27",
    "wildcards": "7.16",
    "one-count": "7.19",
    "greedy-rest": "7.24",
    "once-for-each": "7.25",
    "forgetful": "8.14",
    "hasty-return": "8.17",
    "endless-failures": "8.19",
    "no-attempt": "8.20",
    "no-expiry": "8.23",
    "endless-question": "8.30",
    "bare-refusal": "8.33",
    "no-bound": "9.11",
    "whole-queue": "9.12",
    "pong-only": "10.13",
    "lasting-session": "11.11",
    "shared-session": "12.12",
    "lasting-token": "12.13",
    "any-name": "12.15",
    "gaps": "12.19",
    "wordless": "14.11",
}


def judge(flag: str, ids: Set[str], breaks: Set[str]) -> Dict[str, str]:
    command = python("model_daemon.py", "{endpoint}", "{home}", flag)
    rules = [rule for rule in DAEMON_RULES if rule.id in ids]
    return failures(judge_daemon(command, rules, breaks))


class WrongDaemons(Case):
    def test_each_fails_exactly_the_rules_that_it_breaks(self) -> None:
        every = {rule.id for rule in DAEMON_RULES}
        jobs: List[Tuple[str, Set[str]]] = [("", set()), *WRONG.items()]
        with ThreadPoolExecutor(JOBS) as pool:
            found = list(pool.map(lambda job: judge(job[0], every, job[1]), jobs))
        for (flag, breaks), failed in zip(jobs, found):
            with self.subTest(flag or "right"):
                self.assertEqual(set(failed), breaks, failed)

    def test_each_rule_catches_its_wrong_daemon(self) -> None:
        with ThreadPoolExecutor(JOBS // 2) as pool:
            found = list(pool.map(lambda row: judge(row[0], {row[1]}, {row[1]}), CAUGHT.items()))
        for (flag, id), failed in zip(CAUGHT.items(), found):
            with self.subTest(flag):
                self.assertEqual(set(failed), {id})

    def test_daemon_that_ends_each_connection_fails_every_rule(self) -> None:
        """Only the rules about files of the daemon need no connection."""
        every = {rule.id for rule in DAEMON_RULES}
        self.assertEqual(every - set(judge("mute", every, every)), {"2.11", "2.13"})


if __name__ == "__main__":
    unittest.main()
