"""Deliberately wrong clients: each is caught by the rule that it breaks."""

import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Tuple

from support import (
    ALL, CLIENT_RULES, JOBS, LIMIT_S, SHORT_S, Case, Verdict, judge_client, judge_clients, python,
)

#: The rules that each wrong client breaks. It passes all others.
WRONG = {
    "blocks": {"1.1"},
    "trusts-anyone": {"2.1"},
    "long-frames": {"3.1"},
    "assumes-joined": {"6.3"},
    "no-topics": {"8.2"},
    "small-window": {"9.4"},
    "repeats-outcomes": {"8.4"},
    "constant-wait": {"9.2"},
    "overtakes": {"9.3"},
    "known-codes": {"14.1"},
    # A message that comes again with another id does so in both scenarios.
    "new-id": {"8.1", "15.3"},
    "new-text": {"8.7", "15.3"},
}

#: More wrong clients, of which only this rule is checked.
CAUGHT = {
    "cleans-up": "2.3",
    "removes-socket": "2.4",
    "short-lengths": "3.2",
    "no-ts": "4.1",
    "at-most-once": "4.1",
    "text-requires-ack": "4.1",
    "null-ttl": "4.1",
    "constant-id": "4.1",
    "strict-members": "4.2",
    "texts-only": "4.3",
    "chatty": "6.1",
    "null-session": "6.1",
    "null-token": "6.1",
    "null-companion": "6.1",
    "null-auth": "6.1",
    "null-key": "6.1",
    "text-ack": "6.1",
    "real-inflight": "6.1",
    "bad-name": "6.1",
    "no-name": "6.1",
    "reserved-name": "6.1",
    "slow": "6.2",
    "wrong-number": "7.1",
    "null-cumulative": "7.1",
    "null-correlation": "7.1",
    "forgetful": "8.3",
    "silent-on-duplicates": "8.3",
    "no-correlation": "8.5",
    "null-response": "8.5",
    "hasty": "8.6",
    "null-blocking": "8.6",
    "busy-body": "9.1",
    "ascii-nonce": "10.1",
    "early-bird": "11.1",
    "old-token": "12.1",
    "null-streams": "12.1",
    "no-resume_rejected": "12.2",
    "no-unauthorized": "12.3",
    "no-stale": "12.4",
    "no-subscribe": "15.2",
    "last-first": "15.3",
    "comes-back": "15.4",
    "ends-when-replaced": "15.4",
    "ends-on-known": "15.4",
    "raw-text": "17.1",
}


class WrongClients(Case):
    def test_each_fails_exactly_the_rules_that_it_breaks(self) -> None:
        programs = {flag: (python("model_client.py", flag), ids) for flag, ids in WRONG.items()}
        programs["right"] = (python("model_client.py"), set())
        # Another name, few messages in flight, and one ACK for several of them.
        programs["batches"] = (python("model_client.py", "batches"), set())
        found = judge_clients(programs)
        for flag, failed in found.items():
            with self.subTest(flag):
                self.assertEqual(set(failed), WRONG.get(flag, set()), failed)

    def test_each_rule_catches_its_wrong_client(self) -> None:
        rules = {rule.id: rule for rule in CLIENT_RULES}

        def judge(row: Tuple[str, str]) -> Verdict:
            seconds = LIMIT_S if row[0] == "slow" else SHORT_S
            return judge_client(python("model_client.py", row[0]), rules[row[1]], ALL, seconds)

        with ThreadPoolExecutor(JOBS) as pool:
            verdicts = list(pool.map(judge, CAUGHT.items()))
        for flag, verdict in zip(CAUGHT, verdicts):
            with self.subTest(flag):
                self.assertEqual(verdict.result, "fail", verdict.why)

    def test_every_rule_has_a_wrong_client(self) -> None:
        caught = set().union(*WRONG.values()) | set(CAUGHT.values())
        self.assertEqual(caught, {rule.id for rule in CLIENT_RULES if rule.check})


if __name__ == "__main__":
    unittest.main()
