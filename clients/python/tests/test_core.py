"""The core of both clients, with a clock that the tests set."""

from __future__ import annotations

import unittest
from typing import Any, Dict, List

import support  # noqa: F401  It puts the library on the path.
from agent_relay import Ended, RelayError, _outbox
from agent_relay import _requests as requests
from agent_relay._core import ATTEMPTS, LONGEST_WAIT_S, STEADY_S, WELCOME_S, Core
from agent_relay._message import Message
from agent_relay._wire import encode, parse


class Nobody:
    """Settles nothing."""

    def settle(self, message: Message, kind: str, payload: Dict[str, Any]) -> None:
        raise AssertionError("the core settles no message by itself")


def frames(data: bytes) -> List[Dict[str, Any]]:
    envelopes = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        envelopes.append(parse(data[4:end]))
        data = data[end:]
    return envelopes


def message(to: str, body: str, ack: bool = True) -> requests.Request[Any]:
    return requests.send(to, body, "", None, "", "message", ack, None)


class Case(unittest.TestCase):
    def core(self, forever: bool = False, attempts: int = 1) -> Core[Message]:
        return Core("Ann", "", 256, attempts, forever, lambda envelope, size: Message(Nobody(), envelope, size))

    def read(self, core: Core[Any], now: float, *envelopes: bytes) -> None:
        core.feed(b"".join(envelopes), now)
        while core.step(now):
            pass

    def welcome(self, core: Core[Any], now: float) -> None:
        core.opened(now)
        self.assertIn(frames(core.take(now))[0]["type"], ("HELLO", "RESUME"))
        payload = {"session_id": "s-1", "resume_token": "token", "agent": "Ann", "server": {"heartbeat_ms": 5000}}
        self.read(core, now, encode("WELCOME", payload))
        self.assertEqual(core.state, "ready")

    def taken(self, core: Core[Any], now: float) -> List[str]:
        """Returns the bodies of the messages that are written now."""
        return [envelope["payload"]["body"] for envelope in frames(core.take(now))]


class Order(Case):
    def busy(self, core: Core[Any], request: requests.Request[Any], now: float) -> None:
        self.read(core, now, encode("BUSY", {"ack_id": request.id, "retry_after_ms": 1000, "queue_depth": 1}))

    def test_later_messages_wait_for_a_busy_one(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        sent = [message(to, body) for to, body in [("Bob", "1"), ("bob", "2"), ("Carl", "3"), ("BOB", "4")]]
        for request in sent[:3]:
            core.add(request, 0.0)
        self.assertEqual(self.taken(core, 0.0), ["1", "2", "3"])
        core.add(sent[3], 0.0)  # It waits for its turn when both before it turn out to be busy.
        self.busy(core, sent[1], 0.0)
        self.busy(core, sent[0], 0.1)
        core.add(message("Carl", "5"), 0.1)
        self.assertEqual(self.taken(core, 0.1), ["5"])
        self.assertEqual(core.wake_at(), sent[0].retry_at)
        self.assertEqual(self.taken(core, sent[0].retry_at - 0.001), [])
        later = max(sent[0].retry_at, sent[1].retry_at)
        self.assertEqual(self.taken(core, later), ["1", "2", "4"])
        self.assertEqual(self.taken(core, later), [])
        core.add(message("Bob", "6"), later)
        self.assertEqual(self.taken(core, later), ["6"])

    def test_messages_to_several_busy_recipients_keep_their_order(self) -> None:
        core, sent = self.core(), [message("Carl", "1"), message("Bob", "2"), message("Carl", "3")]
        self.welcome(core, 0.0)
        for request in sent:
            core.add(request, 0.0)
        core.take(0.0)
        for request in reversed(sent):
            self.busy(core, request, 0.0)
        self.assertEqual(self.taken(core, 10.0), ["1", "2", "3"])

    def test_busy_message_that_is_given_up_leaves_nothing(self) -> None:
        core, sent = self.core(), [message("Bob", "1"), message("Bob", "2")]
        self.welcome(core, 0.0)
        for request in sent:
            core.add(request, 0.0)
        core.take(0.0)
        self.busy(core, sent[0], 0.0)
        self.busy(core, sent[1], 0.0)
        core.outbox.remove(sent[0])
        self.assertEqual(core.wake_at(), sent[1].retry_at)
        core.outbox.remove(sent[1])
        self.assertEqual(core.wake_at(), float("inf"))
        core.add(message("Bob", "3"), 0.0)
        self.assertEqual(self.taken(core, 0.0), ["3"])

    def test_waits_after_busy_double_up_to_a_limit(self) -> None:
        core, request = self.core(), message("Bob", "1")
        self.welcome(core, 0.0)
        core.add(request, 0.0)
        waits, now = [], 0.0
        for _ in range(2000):
            self.assertEqual(self.taken(core, now), ["1"])
            self.busy(core, request, now)
            waits.append(request.retry_at - now)
            now = request.retry_at
        self.assertTrue(0.85 <= waits[0] <= 1.15 and 1.7 <= waits[1] <= 2.3)
        self.assertLessEqual(max(waits), LONGEST_WAIT_S * 1.151)
        self.assertGreaterEqual(min(waits[5:]), LONGEST_WAIT_S * 0.849)

    def test_busy_for_what_is_written_no_more(self) -> None:
        core, request = self.core(), message("Bob", "1", ack=False)
        self.welcome(core, 0.0)
        core.add(request, 0.0)
        self.assertEqual(self.taken(core, 0.0), ["1"])
        self.busy(core, request, 0.0)
        core.outbox.remove(request)  # The call learns only now that its message was written.
        self.busy(core, request, 0.0)
        self.assertEqual(self.taken(core, request.retry_at), ["1"])
        self.assertEqual(self.taken(core, 10_000.0), [])

    def test_written_messages_are_kept_up_to_a_limit(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        for number in range(_outbox.RECENT + 50):
            core.add(message("Bob", str(number), ack=False), 0.0)
        self.assertEqual(len(self.taken(core, 0.0)), _outbox.RECENT + 50)
        self.assertEqual(len(core.outbox), _outbox.RECENT)
        for _ in range(10):
            core.add(message("Bob", "x" * 1_000_000, ack=False), 0.0)
            core.take(0.0)
        self.assertLessEqual(len(core.outbox), 5)
        core.lost(RelayError("gone"), 1.0)
        self.assertEqual(len(core.outbox), 0)


class Reconnecting(Case):
    def test_waits_grow_to_a_limit_and_forever_has_no_end(self) -> None:
        core, now, waits = self.core(forever=True), 0.0, []
        self.welcome(core, now)
        for _ in range(3000):
            core.lost(ConnectionRefusedError(111, "no daemon"), now)
            waits.append(core.retry_at - now)
            now = core.retry_at
        self.assertIsNone(core.ended)
        self.assertTrue(0.08 < waits[0] < 0.12 and 0.16 < waits[1] < 0.24)
        self.assertLessEqual(max(waits), LONGEST_WAIT_S * 1.151)
        core.opened(now)
        self.assertEqual(frames(core.take(now))[0]["type"], "RESUME")
        core.feed(encode("ERROR", {"code": "NAME_IN_USE", "fatal": True, "message": "why"}), now)
        with self.assertRaises(Ended) as ended:
            core.step(now)
        core.lost(ended.exception, now)
        self.assertEqual(core.state, "ended")

    def test_cycle_ends_unless_a_connection_was_steady(self) -> None:
        core, now = self.core(), 0.0
        for _ in range(5 * ATTEMPTS):
            self.welcome(core, now)
            now += STEADY_S
            core.lost(RelayError("gone"), now)
            now = core.retry_at
        for _ in range(ATTEMPTS):
            self.assertIsNone(core.ended)
            now = core.retry_at
            core.lost(FileNotFoundError(2, "no daemon"), now)
        assert core.ended
        self.assertEqual(core.ended.code, "NO_DAEMON")

    def test_first_connection_has_its_own_number_of_attempts(self) -> None:
        for forever in (False, True):
            core = self.core(forever, attempts=3)
            for _ in range(2):
                core.lost(FileNotFoundError(2, "no daemon"), 0.0)
                self.assertEqual(core.state, "joining")
            core.lost(FileNotFoundError(2, "no daemon"), 0.0)
            self.assertEqual(core.state, "ended")

    def test_welcome_that_does_not_come_is_noticed(self) -> None:
        core = self.core()
        core.opened(5.0)
        self.assertEqual(core.wake_at(), 5.0 + WELCOME_S)
        self.assertFalse(core.is_overdue(4.9 + WELCOME_S))
        self.assertTrue(core.is_overdue(5.0 + WELCOME_S))
        with self.assertRaisesRegex(RelayError, "no WELCOME"):
            core.feed(b"", 5.0 + WELCOME_S)

    def test_bye_of_the_daemon_asks_for_a_pause(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        core.feed(encode("BYE", {"reason": "upgrade", "retry_after_ms": 7000}), 1.0)
        with self.assertRaisesRegex(RelayError, "upgrade") as left:
            core.step(1.0)
        core.lost(left.exception, 1.0)
        self.assertEqual(core.retry_at, 8.0)
        core.lost(ConnectionRefusedError(111, "no daemon"), 8.0)
        self.assertLess(core.retry_at, 9.0)  # Only once.

    def test_client_that_is_closed_between_two_connections_ends_at_once(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        core.lost(RelayError("gone"), 1.0)
        core.close()
        self.assertEqual(core.state, "closed")
        with self.assertRaises(Ended):
            core.opened(2.0)


class Frames(Case):
    def test_frames_come_in_any_pieces(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        deliver = encode("DELIVER", {"body": "hello"}, "d-1", delivery={"seq": 1, "requires_ack": True})
        for byte in deliver[:-1]:
            core.feed(bytes([byte]), 0.0)
            self.assertFalse(core.step(0.0))
        core.feed(deliver[-1:] + deliver, 0.0)
        self.assertTrue(core.step(0.0) and core.step(0.0))
        self.assertFalse(core.step(0.0))
        delivery = core.next_delivery()
        assert delivery
        self.assertEqual((delivery.body, core.next_delivery()), ("hello", None))

    def test_rest_of_a_lost_connection_is_forgotten(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        core.feed(encode("PING", {"nonce": "1"})[:20], 0.0)
        core.lost(RelayError("gone"), 0.0)
        self.welcome(core, 1.0)

    def test_client_in_a_pause_shows_that_it_lives(self) -> None:
        core = self.core()
        self.welcome(core, 0.0)
        self.assertEqual(core.stay_alive(1.0), 4.0)
        self.assertEqual(core.take(1.0), b"")
        self.assertEqual(core.stay_alive(5.0), 5.0)
        self.assertEqual([envelope["type"] for envelope in frames(core.take(5.0))], ["PONG"])


if __name__ == "__main__":
    unittest.main()
