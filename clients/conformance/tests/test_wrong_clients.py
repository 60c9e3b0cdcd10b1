"""Deliberately wrong clients: each is caught by the rule that it breaks."""

import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List, Set

from support import (
    ALL, CLIENT_RULES, JOBS, LIMIT_S, SHORT_S, Case, Options, Rule, Verdict, failures, judge_client,
    python,
)

#: The rules that each wrong client breaks. It passes all others.
WRONG: Dict[str, Set[str]] = {
    "blocks": {"1-read-while-writing"},
    "trusts-anyone": {"2-peer-user"},
    "long-frames": {"3-max-frame"},
    "assumes-joined": {"6-hello-again"},
    # Three rules deliver messages on a topic.
    "no-topics": {"8-acknowledge-all", "8-no-more-than-came", "12-last-seq"},
    "small-window": {"9-remembered-ids"},
    "repeats-outcomes": {"8-drop-outcomes"},
    "constant-wait": {"9-wait-after-busy"},
    "overtakes": {"9-order-after-busy"},
    "known-codes": {"14-unknown-code"},
    # A message that comes again with another id does so in both scenarios.
    "new-id": {"8-repeat-unanswered", "15-repeat-in-order"},
    "new-text": {"8-same-content", "15-repeat-in-order"},
    # This one is right, with few messages in flight, and one ACK for several of them.
    "batches": set(),
}

#: More wrong clients, checked for this rule only.
CAUGHT = {
    "cleans-up": "2-leave-socket",
    "removes-socket": "2-dead-socket",
    "short-lengths": "3-pieces",
    "no-ts": "4-envelope",
    "at-most-once": "4-envelope",
    "text-requires-ack": "4-envelope",
    "null-ttl": "4-envelope",
    "constant-id": "4-envelope",
    "strict-members": "4-unknown-members",
    "texts-only": "4-any-payload",
    "chatty": "6-hello-first",
    "null-session": "6-hello-first",
    "null-token": "6-hello-first",
    "null-companion": "6-hello-first",
    "null-auth": "6-hello-first",
    "null-key": "6-hello-first",
    "text-ack": "6-hello-first",
    "real-inflight": "6-hello-first",
    "bad-name": "6-hello-first",
    "no-name": "6-hello-first",
    "reserved-name": "6-hello-first",
    "slow": "6-hello-in-time",
    "wrong-number": "7-answer-delivery",
    "null-cumulative": "7-answer-delivery",
    "null-correlation": "7-answer-delivery",
    "one-count": "8-no-more-than-came",
    "forgetful": "8-drop-duplicates",
    "silent-on-duplicates": "8-drop-duplicates",
    "no-correlation": "8-answer-question",
    "null-response": "8-answer-question",
    "hasty": "8-ask",
    "null-blocking": "8-ask",
    "busy-body": "9-same-after-busy",
    "ascii-nonce": "10-nonce",
    "early-bird": "11-wait-after-bye",
    "old-token": "12-last-token",
    "null-streams": "12-last-token",
    "ahead": "12-last-seq",
    "no-resume_rejected": "12-rejected",
    "no-unauthorized": "12-unauthorized",
    "no-stale": "12-stale",
    "no-subscribe": "15-subscribe-again",
    "last-first": "15-repeat-in-order",
    "comes-back": "15-fatal-error",
    "ends-when-replaced": "15-fatal-error",
    "ends-on-known": "15-fatal-error",
    "raw-text": "17-control-characters",
}


class WrongClients(Case):
    exact: Dict[str, List["Future[Verdict]"]]
    caught: Dict[str, "Future[Verdict]"]

    @classmethod
    def setUpClass(cls) -> None:
        # Where a client is wrong, the kit mostly waits: others are checked meanwhile.
        pool = ThreadPoolExecutor(JOBS)

        def submit(flag: str, rule: Rule, is_broken: bool) -> "Future[Verdict]":
            seconds = SHORT_S if is_broken and flag != "slow" else LIMIT_S
            return pool.submit(
                judge_client, python("wrong_client.py", flag), rule, Options(ALL, seconds))

        rules = {rule.id: rule for rule in CLIENT_RULES}
        cls.caught = {flag: submit(flag, rules[id], True) for flag, id in CAUGHT.items()}
        cls.exact = {
            flag: [submit(flag, rule, rule.id in breaks) for rule in CLIENT_RULES]
            for flag, breaks in WRONG.items()}
        pool.shutdown(wait=False)

    def test_each_fails_exactly_the_rules_that_it_breaks(self) -> None:
        for flag, verdicts in self.exact.items():
            failed = failures(verdict.result() for verdict in verdicts)
            with self.subTest(flag):
                self.assertEqual(set(failed), WRONG[flag], failed)

    def test_each_rule_catches_its_wrong_client(self) -> None:
        for flag, future in self.caught.items():
            verdict = future.result()
            with self.subTest(flag):
                self.assertEqual(verdict.result, "fail", verdict.why)

    def test_every_rule_has_a_wrong_client(self) -> None:
        caught = set().union(*WRONG.values()) | set(CAUGHT.values())
        self.assertEqual(caught, {rule.id for rule in CLIENT_RULES if rule.check})


if __name__ == "__main__":
    unittest.main()
