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
    # The dedup window must survive a crash, too, and also holds for a guest that returns.
    "accepts-twice": {"8-crash", "8-accepted-once", "6-guest-key"},
}

#: More wrong daemons, checked for these rules only. Each of the rules must fail.
CAUGHT = {
    "open-socket": "2-socket-mode",
    "wrong-file": "2-endpoint-file",
    "socket-once": "2-removed-socket",
    "one-a-piece": "3-frame-in-pieces",
    "no-space": "3-white-space",
    "no-empty": "4-empty-frame",
    "any-json": "4-object",
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
    "any-payload": "4-payload-kind",
    "permissive": "4-values 7-no-recipient 7-rest-is-last 8-instructions 8-question 14-bad-request",
    "no-ref": "4-ref",
    "null-is-omitted": "4-null",
    "shared-fate": "4-other-connections",
    "counted-ids": "4-uuid",
    "strict-members": "4-ignored-members",
    "loose-names": "5-name",
    "spelling": "5-reserved",
    "case": "5-case",
    "any-machine": "5-other-machine",
    "silent-timeout": "6-handshake-time",
    "many-hellos": "6-second-hello",
    "one-chance": "6-repeated-hello",
    "bare-welcome": "6-welcome",
    "no-away": "6-mail 8-away",
    "takes-names": "6-name-in-use",
    "always-ack": "6-no-ack 7-not-reached",
    "no-window": "6-max-inflight",
    "always-topics": "6-no-topics",
    "any-mode": "6-unknown-mode",
    "any-companion": "6-companion-key",
    "companion-as-agent": "6-companion",
    "any-operator": "6-operator-key",
    "guest-with-mail": "6-guest",
    "any-bridge": "6-bridge-key",
    "bridge-as-agent": "6-bridge-session",
    "bridge-hears-all": "6-bridge-broadcast",
    "guest-of-today": "6-guest-key",
    "never-oneself": "7-to-agent",
    "wildcards": "7-plain-topic",
    "bare-delivery": "1-version-1.0 7-deliver",
    "any-delivery": "7-set-by-daemon",
    "one-count": "7-stream-number",
    "swaps": "7-stream-order",
    "uncounted": "7-recipients",
    "greedy-rest": "7-matches",
    "once-for-each": "7-matches-once",
    "endless-patterns": "7-256-patterns",
    "answers-all": "8-at-most-once",
    "repeats": "8-never-again",
    "no-durability": "8-durability",
    "forgetful": "8-crash",
    "one-by-one": "8-cumulative-ack",
    "covers-the-future": "8-cumulative-future",
    "hasty-return": "8-return",
    "overtaken": "8-return-order",
    "wordless": "8-refused 8-unknown-agent 14-message",
    "endless-failures": "8-ten-failures",
    "no-attempt": "8-redelivery",
    "no-expiry": "8-expired",
    "one-expiry": "8-expired-broadcast",
    "silent-length": "8-too-large",
    "forgets-outcomes": "8-late-outcome",
    "re-encodes-answers": "8-answer",
    "endless-question": "8-question-time",
    "bare-refusal": "8-refused-question",
    "no-bound": "9-full-queue",
    "whole-queue": "9-half-queue",
    "all-busy": "9-busy-broadcast",
    "no-ping": "10-ping",
    "silent-death": "10-timeout",
    "pong-only": "10-any-frame",
    "deaf-to-bye": "11-bye",
    "lasting-session": "11-session",
    "no-reason": "11-stop",
    "no-resume": "12-resume",
    "shared-session": "12-replaced",
    "lasting-token": "12-used-token",
    "hasty-proof": "12-lost-welcome",
    "hello-only": "12-resume-first",
    "any-name": "12-other-agent",
    "token-optional": "12-no-token",
    "gaps": "12-gap 12-replay 12-topics-of-1.0",
    "no-reply-to": "13-request",
    "any-type": "14-only-daemon",
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
        # A right daemon keeps a dead connection for longer than the short wait, too.
        jobs.update({
            flag: (set(ids.split()), set(ids.split()) - {"10-timeout"})
            for flag, ids in CAUGHT.items()})
        cls.found = {flag: pool.submit(judge, flag, *ids) for flag, ids in jobs.items()}
        pool.shutdown(wait=False)

    def test_each_fails_exactly_the_rules_that_it_breaks(self) -> None:
        for flag, breaks in {"": set(), **WRONG}.items():
            failed = self.found[flag].result()
            with self.subTest(flag or "right"):
                self.assertEqual(set(failed), breaks, failed)

    def test_each_rule_catches_its_wrong_daemon(self) -> None:
        for flag, ids in CAUGHT.items():
            failed = self.found[flag].result()
            with self.subTest(flag):
                self.assertEqual(set(failed), set(ids.split()), failed)

    def test_every_rule_has_a_wrong_daemon(self) -> None:
        caught = set().union(*WRONG.values(), *(ids.split() for ids in CAUGHT.values()))
        self.assertEqual(caught, {rule.id for rule in DAEMON_RULES if rule.check})

    def test_verdict_states_how_a_rule_broke_the_daemon(self) -> None:
        for flag, text in {
            "dies": "it ended with the exit code 3", "hangs": "it no longer answers HELLO",
            "closes": "it no longer accepts connections",
        }.items():
            with self.subTest(flag):
                why = self.found[flag].result()["6-second-hello"]
                self.assertIn(f"this broke the daemon, which is started again: {text}", why)

    def test_kit_starts_a_daemon_again_within_bounds(self) -> None:
        rules = [rule for rule in DAEMON_RULES if rule.section == "8"]
        with mock.patch.object(scripted_client, "TIMES_BROKEN_MAX", 2):
            found = judge_daemon(command("mortal"), rules, {rule.id for rule in rules})
        self.assertEqual([v.result for v in found], ["fail"] * 2 + ["skipped"] * (len(rules) - 2))
        self.assertIn("this broke the daemon, which is started again: ", found[0].why)
        self.assertIn("this broke the daemon: it ended with the exit code 3", found[1].why)
        self.assertEqual(found[2].why, "2 rules broke the daemon: it is not started again")

    def test_daemon_that_ends_each_connection_fails_every_rule(self) -> None:
        """Only the rules about files of the daemon need no connection."""
        failed = set(judge("mute", EVERY, EVERY))
        self.assertEqual(EVERY - failed, {"2-socket-mode", "2-endpoint-file"})


if __name__ == "__main__":
    unittest.main()
