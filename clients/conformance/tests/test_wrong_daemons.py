"""Deliberately wrong daemons: each is caught by the rule that it breaks."""

import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List, Set
from unittest import mock

from support import (
    AGENT_RELAY, DAEMON_RULES, JOBS, Case, failures, judge_daemon, python, scripted_client,
)

EVERY = {rule.id for rule in DAEMON_RULES}

#: The rules that each wrong daemon breaks. It passes all others.
WRONG: Dict[str, Set[str]] = {
    "any-user": {"2-other-user"},
    "patient": {"3-frame-limit", "4-long-frame"},
    "re-encodes": {"4-unchanged"},
    "any-sender": {"7-own-name"},
    "any-ack": {"8-own-deliveries"},
    "id-only": {"8-other-content"},
    "every-answer": {"8-first-answer"},
    "lasting-patterns": {"7-session-patterns"},
    # The kit starts these again. The rules that follow find nothing wrong.
    "dies": {"6-second-hello"},
    "hangs": {"6-second-hello"},
    "closes": {"6-second-hello"},
    # A broadcast to everyone and one on a topic have a rule each.
    "echo": {"7-to-everyone", "7-to-topic"},
    # The dedup window must survive a crash, too, and is that of a guest that returns.
    "accepts-twice": {"8-crash", "8-accepted-once", "6-guest-key"},
}

#: More wrong daemons, of which only this rule is checked.
CAUGHT = {
    "open-socket": "2-socket-mode",
    "lenient-utf8": "4-utf8",
    "deep": "4-nesting",
    "not-a-number": "4-json",
    "row-7": "4-v-number",
    "row-8": "4-v-1",
    "row-9": "4-members",
    "row-10": "4-type",
    "row-11": "4-id",
    "row-12": "4-ts",
    "row-13": "4-payload",
    "row-14": "4-handshake-first",
    "strict-members": "4-ignored-members",
    "spelling": "5-reserved",
    "case": "5-case",
    "any-machine": "5-other-machine",
    "many-hellos": "6-second-hello",
    "no-window": "6-max-inflight",
    "any-bridge": "6-bridge-key",
    "bridge-as-agent": "6-bridge-session",
    "bridge-hears-all": "6-bridge-broadcast",
    "guest-of-today": "6-guest-key",
    "wildcards": "7-plain-topic",
    "one-count": "7-stream-number",
    "greedy-rest": "7-matches",
    "once-for-each": "7-matches-once",
    "forgetful": "8-crash",
    "hasty-return": "8-return",
    "endless-failures": "8-ten-failures",
    "no-attempt": "8-redelivery",
    "no-expiry": "8-expired",
    "endless-question": "8-question-time",
    "bare-refusal": "8-refused-question",
    "no-bound": "9-full-queue",
    "whole-queue": "9-half-queue",
    "pong-only": "10-any-frame",
    "lasting-session": "11-session",
    "shared-session": "12-replaced",
    "lasting-token": "12-used-token",
    "hasty-proof": "12-lost-welcome",
    "any-name": "12-other-agent",
    "gaps": "12-gap",
    "wordless": "14-message",
}


def command(flag: str) -> List[str]:
    return python("wrong_daemon.py", AGENT_RELAY, "{endpoint}", "{home}", flag)


def judge(flag: str, ids: Set[str], breaks: Set[str]) -> Dict[str, str]:
    rules = [rule for rule in DAEMON_RULES if rule.id in ids]
    return failures(judge_daemon(command(flag), rules, breaks))


@unittest.skipUnless(AGENT_RELAY, "AGENT_RELAY does not name a daemon")
class WrongDaemons(Case):
    found: Dict[str, "Future[Dict[str, str]]"]

    @classmethod
    def setUpClass(cls) -> None:
        # The rules mostly wait: those of one test are checked while those of the other are.
        pool = ThreadPoolExecutor(JOBS)
        jobs = {"": (EVERY, set()), **{flag: (EVERY, ids) for flag, ids in WRONG.items()}}
        jobs.update({flag: ({id}, {id}) for flag, id in CAUGHT.items()})
        cls.found = {flag: pool.submit(judge, flag, *ids) for flag, ids in jobs.items()}
        pool.shutdown(wait=False)

    def test_each_fails_exactly_the_rules_that_it_breaks(self) -> None:
        for flag, breaks in {"": set(), **WRONG}.items():
            failed = self.found[flag].result()
            with self.subTest(flag or "right"):
                self.assertEqual(set(failed), breaks, failed)

    def test_each_rule_catches_its_wrong_daemon(self) -> None:
        for flag, id in CAUGHT.items():
            with self.subTest(flag):
                self.assertEqual(set(self.found[flag].result()), {id})

    def test_verdict_states_how_a_rule_broke_the_daemon(self) -> None:
        for flag, text in {
            "dies": "it ended with the exit code 3", "hangs": "it answers HELLO no more",
            "closes": "it accepts no more connections",
        }.items():
            with self.subTest(flag):
                why = self.found[flag].result()["6-second-hello"]
                self.assertIn(f"this broke the daemon, which is started again: {text}", why)

    def test_kit_starts_a_daemon_again_within_bounds(self) -> None:
        rules = [rule for rule in DAEMON_RULES if rule.section == "8"]
        with mock.patch.object(scripted_client, "TIMES_BROKEN_MAX", 2):
            found = judge_daemon(command("mortal"), rules, {rule.id for rule in rules})
        self.assertEqual([v.result for v in found], ["fail"] * 2 + ["skipped"] * (len(rules) - 2))
        self.assertEqual(found[2].why, "2 rules broke the daemon: it is not started again")

    def test_daemon_that_ends_each_connection_fails_every_rule(self) -> None:
        """Only the rules about files of the daemon need no connection."""
        failed = set(judge("mute", EVERY, EVERY))
        self.assertEqual(EVERY - failed, {"2-socket-mode", "2-endpoint-file"})


if __name__ == "__main__":
    unittest.main()
