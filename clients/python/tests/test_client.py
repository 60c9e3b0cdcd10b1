"""Both clients, against the daemon that AGENT_RELAY names and against scripted daemons."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Set, Tuple
from unittest import mock

from support import DAEMON, LIMIT_S, ROOT, Case, Connection, Daemon, Driven, core_of, in_thread
from agent_relay import AsyncClient, Client, Ended, Refused, _asyncio, _core, _stream
from agent_relay._wire import encode, parse


@unittest.skipUnless(DAEMON, "AGENT_RELAY does not name a daemon")
class WithDaemon(Case):
    def setUp(self) -> None:
        super().setUp()
        # A mailbox of eight messages, four for each sender, makes recipients busy soon.
        self.daemon = Daemon("queue_max_messages = 8\n" if "busy" in self.id() else "")
        self.addCleanup(self.daemon.remove)

    def pair(self) -> List[Any]:
        return [self.join(self.daemon, "Ann"), self.join(self.daemon, "Bob")]

    def test_messages_arrive_in_both_directions(self) -> None:
        ann, bob = self.pair()
        text = "Zoë, 你好 \U0001f600 \ud800 \x00 \n"
        ack = ann.send("bob", text, data={"n": 2**70, "x": [1.5, None]}, thread="t", meta={"ttl_ms": 60000})
        self.assertEqual(ack["state"], "accepted")
        message = self.receive(bob)
        self.assertEqual((message.sender, message.to, message.topic), ("Ann", "Bob", ""))
        self.assertEqual((message.body, message.payload["data"]), (text, {"n": 2**70, "x": [1.5, None]}))
        self.assertEqual((message.kind, message.data, message.thread), ("message", message.payload["data"], "t"))
        self.assertEqual(message.meta["ttl_ms"], 60000)
        self.assertTrue(message.requires_ack and message.auth == "claim" and not message.question)
        message.ack()
        bob.send("Ann", "back", ack=False)
        message = self.receive(ann)
        self.assertEqual((message.body, message.requires_ack), ("back", False))
        message.ack()
        bob.send("Bob", "to myself")
        self.receive(bob).ack()

    def test_agents_are_listed(self) -> None:
        ann, bob = self.pair()
        bob.close()
        rows = {row["name"]: row for row in ann.agents(timeout=LIMIT_S)}
        self.assertEqual([(name, row["here"]) for name, row in rows.items()], [("Ann", True), ("Bob", False)])
        self.assertEqual(rows["Ann"]["session"], ann.session_id)
        self.assertNotIn("session", rows["Bob"])
        self.assertIsNone(ann.receive(0))

    def test_order_is_kept(self) -> None:
        ann, bob = self.pair()

        def send() -> None:
            for number in range(200):
                ann.send("Bob", str(number))

        sent = in_thread(send)
        for number in range(200):
            message = self.receive(bob)
            self.assertEqual(message.body, str(number))
            message.ack()
        sent()

    def test_broadcasts_and_topics(self) -> None:
        ann, bob = self.pair()
        self.assertEqual(ann.send("*", "all")["recipients"], 1)
        message = self.receive(bob)
        self.assertTrue(message.broadcast)
        message.ack()
        self.assertEqual(ann.send("*", "nobody", topic="bäu.linux")["recipients"], 0)
        bob.subscribe("bäu.*")
        bob.subscribe("bäu.>")
        self.assertEqual(ann.send("", "passed", topic="bäu.linux")["recipients"], 1)
        message = self.receive(bob)
        self.assertEqual((message.topic, message.body), ("bäu.linux", "passed"))
        message.ack()
        bob.unsubscribe("bäu.*")
        bob.unsubscribe("bäu.>")
        self.assertEqual(ann.send("*", "nobody", topic="bäu.linux")["recipients"], 0)

    def test_questions(self) -> None:
        ann, bob = self.pair()

        def answer() -> None:
            message = self.receive(bob)
            self.assertEqual((message.body, bool(message.question)), ("Which port?", True))
            message.answer("8080", data={"tls": False}, response=False)

        answered = in_thread(answer)
        reply = ann.ask("Bob", "Which port?", timeout=LIMIT_S)
        self.assertEqual(reply, ("Bob", "8080", False, {"tls": False, "body": "8080"}))
        answered()
        # An acknowledgement is not an answer; the second one answers.
        asked = in_thread(lambda: ann.ask("Bob", "Again?", timeout=LIMIT_S))
        message = self.receive(bob)
        message.ack()
        message.answer("yes")
        self.assertEqual(asked().body, "yes")
        # A peer that never answers, and one that refuses.
        with self.assertRaises(TimeoutError):
            ann.ask("Bob", "Are you there?", timeout=0.2)
        self.receive(bob).ack()
        asked = in_thread(lambda: ann.ask("Bob", "Please?", timeout=LIMIT_S))
        self.receive(bob).refuse("no time")
        with self.assertRaisesRegex(Refused, "no time") as refused:
            asked()
        self.assertEqual(refused.exception.code, "REFUSED")

    def test_nacks_have_codes(self) -> None:
        ann, bob = self.pair()
        cases: List[Tuple[Callable[[], Any], str]] = [
            (lambda: ann.send("Nobody", "?"), "UNKNOWN_AGENT"),
            (lambda: ann.send("two words", "?"), "INVALID"),
            (lambda: ann.send("", "?"), "INVALID"),
            (lambda: ann.send("*", "?", topic="x.*"), "INVALID"),
            (lambda: ann.send("Bob", "?", meta={"ttl_ms": "soon"}), "INVALID"),
            (lambda: ann.subscribe("a..b"), "INVALID"),
            (lambda: ann.send("Bob", "x" * (1 << 20)), "TOO_LARGE"),
            (lambda: ann.send("@relay", "nonsense", kind="request"), "INVALID"),
            (lambda: ann.ask("Nobody", "?"), "UNKNOWN_AGENT"),
        ]
        for send, code in cases:
            with self.subTest(code), self.assertRaises(Refused) as refused:
                send()
            self.assertEqual(refused.exception.code, code)
        deep: Any = []
        for _ in range(130):
            deep = [deep]
        with self.assertRaises(Refused) as refused:
            ann.send("Bob", data=deep)
        self.assertEqual(refused.exception.code, "INVALID")
        ann.send("Nobody", "?", ack=False)
        self.wait(ann, lambda: ann.failures)
        self.assertEqual(ann.failures.popleft().code, "UNKNOWN_AGENT")
        ann.send("Bob", "returned")
        self.receive(bob).refuse("not mine")
        self.wait(ann, lambda: ann.failures)
        self.assertEqual((ann.failures[0].code, ann.failures.popleft().to), ("REFUSED", "Bob"))
        ann.send("Bob", "later")
        self.receive(bob).refuse("busy", retry_after=0.05)
        message = self.receive(bob)
        self.assertEqual((message.body, message.attempt), ("later", 2))
        message.ack()

    def test_names(self) -> None:
        self.join(self.daemon, "Ann")
        for name, code in [("ANN", "NAME_IN_USE"), ("two words", "INVALID_NAME"), ("Zoë", "INVALID_NAME"),
                           ("admin", "INVALID_NAME"), ("", "INVALID_NAME")]:
            with self.subTest(name), self.assertRaises(Ended) as ended:
                self.join(self.daemon, name, attempts=3)
            self.assertEqual(ended.exception.code, code)

    def test_busy_recipient_gets_everything_in_order(self) -> None:
        ann, bob = self.join(self.daemon), self.join(self.daemon, "Bob", max_inflight=1)
        sent = in_thread(lambda: [ann.send("Bob", str(number)) for number in range(30)])
        # The daemon takes four messages while Bob acknowledges none, and answers the fifth with BUSY.
        self.wait(ann, lambda: any(request.busy for request in core_of(ann).outbox._requests.values()))
        self.join(self.daemon, "Carl")
        ann.send("Carl", "Carl is not busy", ack=False)
        for number in range(30):
            message = self.receive(bob)
            self.assertEqual(message.body, str(number))
            message.ack()
        sent()

    def test_busy_recipient_of_at_most_once_messages(self) -> None:
        ann, bob = self.pair()
        # Nobody receives, so that Bob's client stops reading, and then his mailbox is full.
        with mock.patch.object(_core, "UNREAD", 20):
            sent = in_thread(lambda: [ann.send("Bob", f"{n} " + "x" * 20_000, ack=False) for n in range(100)])
            self.wait(ann, lambda: any(request.busy for request in core_of(ann).outbox._requests.values()))
            self.wait(bob, lambda: len(core_of(bob).unread) == 20)
            received = {int(self.receive(bob).body.split()[0]) for _ in range(100)}
            sent()
        self.assertEqual(received, set(range(100)))
        self.assertEqual(list(ann.failures), [])

    def test_waiting_call_reads_on_and_fails_when_too_much_is_unread(self) -> None:
        ann, bob = self.pair()
        with mock.patch.object(_core, "UNREAD", 5):
            asked = in_thread(lambda: bob.ask("Ann", "?", timeout=LIMIT_S))
            self.receive(ann).ack()
            for number in range(20):
                ann.send("Bob", str(number), ack=False)
            with self.assertRaisesRegex(TimeoutError, "unread"):
                asked()
        self.assertEqual([self.receive(bob).body for _ in range(20)], [str(n) for n in range(20)])

    def test_mail_waits_for_a_name_and_close_keeps_it(self) -> None:
        ann, bob = self.pair()
        bob.close()
        self.assertTrue(ann.send("Bob", "for later")["away"])
        bob = self.join(self.daemon, "Bob")
        self.receive(bob)
        bob.close()
        self.assertIsNone(bob.receive())
        with self.assertRaises(Ended):
            bob.send("Ann")
        bob = self.join(self.daemon, "Bob")
        self.receive(bob).ack()

    def test_close_ends_iteration(self) -> None:
        ann = self.join(self.daemon)
        bodies: List[str] = []
        came = threading.Event()

        def receive() -> None:
            for message in ann:
                bodies.append(message.body)
                came.set()

        received = in_thread(receive)
        ann.send("Ann", "to myself")
        self.assertTrue(came.wait(LIMIT_S))
        ann.close()
        received()
        self.assertEqual(bodies, ["to myself"])

    def test_daemon_is_not_known_or_not_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(Ended) as ended:
                type(self).face("Ann", endpoint=folder + "/none")
            self.assertEqual(ended.exception.code, "NO_DAEMON")
            self.assertRegex(str(ended.exception), f"^no daemon at {folder}/none: .*`agent-relay up` starts one")
            with mock.patch.dict(os.environ, {"AGENT_RELAY_HOME": folder}), self.assertRaises(Ended) as ended:
                os.environ.pop("AGENT_RELAY_ENDPOINT", None)
                type(self).face("Ann")  # Not the daemon of the default home.
            self.assertEqual(ended.exception.code, "NO_DAEMON")
            self.assertIn(folder, str(ended.exception))
        with mock.patch.dict(os.environ, {"AGENT_RELAY_HOME": self.daemon.home}):
            os.environ.pop("AGENT_RELAY_ENDPOINT", None)
            ann = type(self).face("ANN")
            self.addCleanup(ann.close)
            self.assertEqual(ann.name, "ANN")


@unittest.skipUnless(DAEMON, "AGENT_RELAY does not name a daemon")
class WithDaemonThatDies(Case):
    def test_messages_survive_sigkill(self) -> None:
        daemon = Daemon()
        self.addCleanup(daemon.remove)
        ann, bob = self.join(daemon, "Ann"), self.join(daemon, "Bob")
        bob.subscribe("news")
        sessions = (ann.session_id, bob.session_id)
        count, kills = 300, 3
        half: Dict[str, int] = {"Ann": 0, "Bob": 0}
        progress = threading.Condition()

        def send(client: Any, to: str) -> None:
            for number in range(count):
                client.send(to, str(number))

        def receive(client: Any) -> List[str]:
            bodies: List[str] = []
            for _ in range(count):
                message = client.receive(LIMIT_S)
                assert message, f"{client.name} lost a message after {bodies[-1:]}"
                bodies.append(message.body)
                message.ack()
                with progress:
                    half[client.name] = len(bodies)
                    progress.notify_all()
            return bodies

        joins = [in_thread(lambda: send(ann, "Bob")), in_thread(lambda: send(bob, "Ann"))]
        received = [in_thread(lambda: receive(ann)), in_thread(lambda: receive(bob))]
        for kill in range(1, kills + 1):
            with progress:
                self.assertTrue(progress.wait_for(lambda: half["Bob"] >= count * kill // (kills + 1), LIMIT_S))
            daemon.kill()
            daemon.start()
        for join in joins:
            join()
        for join in received:
            self.assertEqual(join(), [str(number) for number in range(count)])
        self.assertEqual((ann.session_id, bob.session_id), sessions)
        self.assertEqual(ann.send("*", "still subscribed", topic="news")["recipients"], 1)
        self.assertEqual(self.receive(bob).body, "still subscribed")
        self.assertIsNone(bob.receive(0))
        # What the daemon has stored for neither of them is nothing: all was acknowledged, once.
        self.assertEqual([failure.code for client in (ann, bob) for failure in client.failures
                          if failure.code != "STALE"], [])

    def test_key_of_a_name(self) -> None:
        daemon = Daemon()
        self.addCleanup(daemon.remove)
        command = [DAEMON, "--home", daemon.home, "--endpoint", daemon.endpoint, "policy"]
        made = subprocess.run([*command, "key", "Ann"], capture_output=True, text=True, timeout=LIMIT_S)
        keys = re.findall(r"\b[0-9a-f]{64}\b", made.stdout + made.stderr)
        rule = re.search(r"^(\[.*?)(?=^\S*$|\Z)", made.stdout, re.DOTALL | re.MULTILINE)
        if not (keys and rule):
            self.skipTest(f"the output of `policy key` is not understood: {made.stdout!r}")
        Path(daemon.home, "policy.toml").write_text(rule.group(1))
        subprocess.run([*command, "reload"], check=True, capture_output=True, timeout=LIMIT_S)
        with self.assertRaises(Ended) as ended:
            self.join(daemon)
        self.assertEqual(ended.exception.code, "UNAUTHORIZED")
        ann = self.join(daemon, key=keys[0])
        session = ann.session_id
        ann.send("Ann", "the store has it and the session")
        self.receive(ann).ack()
        daemon.kill()
        daemon.start()
        ann.send("Ann", "back")
        self.assertEqual(self.receive(ann).auth, "key")
        self.assertEqual(ann.session_id, session)


class WithScript(Case):
    def test_connection_cut_within_a_frame_is_resumed(self) -> None:
        greetings: List[Dict[str, Any]] = []

        def first(daemon: Connection) -> None:
            greetings.append(daemon.welcome())
            daemon.stream.sendall(daemon.deliver("d-1", 1) + daemon.deliver("d-2", 2, ack=False))
            self.assertEqual(daemon.expect("ACK")["payload"]["ack_id"], "d-1")
            self.assertEqual(daemon.expect("ACK")["payload"]["ack_id"], "d-2")  # not needed, and allowed
            daemon.stream.sendall(daemon.deliver("d-3", 3)[:50])

        def second(daemon: Connection) -> None:
            greetings.append(daemon.welcome())
            daemon.write("SYNC", {"session_id": "s-1", "streams": []})
            daemon.stream.sendall(b"".join(daemon.deliver(f"d-{n}", n, ack=n != 2) for n in (1, 2, 3)))
            acks = [daemon.expect("ACK")["payload"] for _ in range(2)]
            self.assertEqual(acks, [{"ack_id": "d-1", "seq": 1}, {"ack_id": "d-3", "seq": 3}])  # d-1 once more
            daemon.expect("BYE")

        script = self.script(first, second)
        ann = self.join(script)
        for id in ("d-1", "d-2", "d-3"):
            message = self.receive(ann)
            self.assertEqual(message.id, id)
            message.ack()
            message.ack()
        ann.close()
        script.finish()
        self.assertIsNone(ann.receive(0))
        self.assertEqual(greetings[0]["payload"]["capabilities"], {"resume": True, "max_inflight": 256})
        self.assertEqual(greetings[1]["type"], "RESUME")
        self.assertEqual(greetings[1]["payload"]["resume_token"], "token of s-1")
        self.assertEqual(greetings[1]["payload"]["streams"], [{"peer": "Bob", "topic": "", "last_seq": 2}])

    def test_unanswered_send_is_sent_again_unchanged(self) -> None:
        frames: List[Dict[str, Any]] = []

        def lose(daemon: Connection) -> None:
            daemon.welcome()
            frames.append(daemon.expect("SEND"))

        def accept(daemon: Connection) -> None:
            daemon.welcome()
            frames.append(daemon.expect("SEND"))
            for _ in range(2):
                daemon.write("BUSY", {"ack_id": frames[0]["id"], "retry_after_ms": 1, "queue_depth": 1})
                frames.append(daemon.expect("SEND"))
            daemon.write("ACK", {"ack_id": frames[0]["id"], "state": "accepted"})
            daemon.expect("BYE")

        script = self.script(lose, accept)
        ann = self.join(script)
        ann.send("Bob", "once", timeout=LIMIT_S)
        ann.close()
        script.finish()
        self.assertEqual(len(frames), 4)
        self.assertTrue(all(frame == frames[0] for frame in frames))

    def test_later_message_waits_for_a_busy_one(self) -> None:
        bodies: List[str] = []

        def busy(daemon: Connection) -> None:
            daemon.welcome()
            for send in range(4):
                envelope = daemon.expect("SEND")
                bodies.append(envelope["payload"]["body"])
                if send == 0:
                    daemon.write("BUSY", {"ack_id": envelope["id"], "retry_after_ms": 200, "queue_depth": 1})

        script = self.script(busy)
        ann = self.join(script)
        ann.send("Bob", "first", ack=False)
        self.wait(ann, lambda: any(request.busy for request in core_of(ann).outbox._requests.values()))
        ann.send("Carl", "to another", ack=False)
        ann.send("BOB", "second", ack=False)
        script.finish()
        self.assertEqual([body for body in bodies if body != "to another"], ["first", "first", "second"])

    def test_message_that_is_given_up_lets_the_next_one_pass(self) -> None:
        def busy(daemon: Connection) -> None:
            daemon.welcome()
            busy = {"ack_id": daemon.expect("SEND")["id"], "retry_after_ms": 20_000, "queue_depth": 1}
            daemon.write("BUSY", busy)
            second = daemon.expect("SEND")
            self.assertEqual(second["payload"]["body"], "second")
            daemon.write("ACK", {"ack_id": second["id"], "state": "accepted"})

        script = self.script(busy)
        ann = self.join(script)
        first = in_thread(lambda: ann.send("Bob", "first", timeout=0.5))
        self.wait(ann, lambda: core_of(ann).outbox.retry_at() < float("inf"))
        ann.send("Bob", "second", timeout=LIMIT_S / 2)
        with self.assertRaises(TimeoutError):
            first()
        script.finish()

    def test_answer_is_sent_again(self) -> None:
        answers: List[Dict[str, Any]] = []

        def asks(daemon: Connection) -> None:
            daemon.welcome()
            members = {"from": "Bob", "to": "Ann", "delivery": {"seq": 1, "requires_ack": True}}
            sync = {"correlationId": "c", "timeoutMs": 60000}
            daemon.write("DELIVER", {"body": "?"}, "d-1", payload_meta={"sync": sync}, **members)
            answers.append(daemon.expect("ACK")["payload"])

        def again(daemon: Connection) -> None:
            daemon.welcome()
            answers.append(daemon.expect("ACK")["payload"])

        script = self.script(asks, again)
        self.receive(self.join(script)).answer("yes")
        script.finish()
        self.assertEqual(answers[0], answers[1])
        self.assertEqual((answers[0]["correlationId"], answers[0]["responseData"]), ("c", {"body": "yes"}))

    def test_agents_come_in_pages_also_over_a_lost_connection(self) -> None:
        asked: List[Any] = []

        def reply(daemon: Connection, rows: List[Any], cursor: str = "") -> None:
            request = daemon.expect("SEND")
            self.assertEqual((request["to"], request["payload"]["body"]), ("@relay", "agents"))
            asked.append(request["payload"].get("data"))
            meta = {"replyTo": request["id"]}
            payload = {"kind": "response", "body": "agents", "data": {"agents": rows, "next_cursor": cursor}}
            for id in ("r", "again"):  # The second one is answered, but no call waits for it.
                daemon.write("DELIVER", payload, id, payload_meta=meta, delivery={"seq": 1}, **{"from": "@relay"})

        def first(daemon: Connection) -> None:
            daemon.welcome()
            reply(daemon, [{"name": "Ann", "here": True}, "no row", {"here": True}], "Ann")
            daemon.expect("SEND")

        def second(daemon: Connection) -> None:
            daemon.welcome()
            reply(daemon, [{"name": "Bob", "here": False}])
            refused = daemon.expect("SEND")
            daemon.write("NACK", {"ack_id": refused["id"], "code": "LIMIT", "message": "too many"})
            late = daemon.expect("SEND")
            self.assertTrue(given_up.wait(LIMIT_S))
            daemon.write("DELIVER", {"kind": "response"}, "late", payload_meta={"replyTo": late["id"]},
                         delivery={"seq": 2}, **{"from": "@relay"})
            daemon.write("DELIVER", {"body": "own"}, "own", payload_meta={"replyTo": "of a SEND"},
                         delivery={"seq": 3}, **{"from": "@relay"})

        given_up = threading.Event()
        script = self.script(first, second)
        ann = self.join(script)
        self.assertEqual([row["name"] for row in ann.agents(timeout=LIMIT_S)], ["Ann", "Bob"])
        self.assertEqual(asked, [None, {"cursor": "Ann"}])
        with self.assertRaises(Refused) as refused:
            ann.agents(timeout=LIMIT_S)
        self.assertEqual(refused.exception.code, "LIMIT")
        with self.assertRaises(TimeoutError):
            ann.agents(timeout=0.01)
        given_up.set()
        self.assertEqual(self.receive(ann).body, "own")
        script.finish()

    def test_reconnecting_for_ever_ends_at_a_permanent_error(self) -> None:
        def refuses(daemon: Connection) -> None:
            daemon.welcome()
            daemon.write("ERROR", {"code": "SESSION_REPLACED", "fatal": True, "message": "why"})

        steps = [lambda daemon: daemon.welcome(), *[lambda daemon: None] * (3 * _core.ATTEMPTS), refuses]
        with mock.patch.object(_core, "LONGEST_WAIT_S", 0.001):
            script = self.script(*steps)
            ann = self.join(script, forever=True)
            with self.assertRaises(Ended) as ended:
                ann.receive(LIMIT_S)
        self.assertEqual(ended.exception.code, "SESSION_REPLACED")
        script.finish()
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(Ended) as ended:
            type(self).face("Ann", endpoint=folder + "/none", forever=True)  # It was never there.
        self.assertEqual(ended.exception.code, "NO_DAEMON")

    def test_representations_show_no_secrets(self) -> None:
        def delivers(daemon: Connection) -> None:
            daemon.welcome()
            daemon.stream.sendall(daemon.deliver("d-1", 1, body="a long text\x1b[2J" * 100))
            daemon.expect("BYE")

        script = self.script(delivers)
        ann = self.join(script, key="the key")
        message = self.receive(ann)
        kind = "AsyncClient" if isinstance(ann, Driven) else "Client"
        texts = [repr(ann), repr(message)]
        members = vars(ann.client if isinstance(ann, Driven) else ann)
        self.assertNotRegex(repr(members) + repr(vars(message)), "the key|token of")
        ann.close()
        self.assertEqual([texts[0], repr(ann)], [f"<{kind} 'Ann' ready>", f"<{kind} 'Ann' closed>"])
        self.assertRegex(texts[1], r"^<(Async)?Delivery d-1 from 'Bob': 'a long text")
        for text in texts:
            self.assertNotRegex(text, "the key|token|\x1b")
            self.assertLess(len(text), 200)
        script.finish()

    def test_fresh_session_is_subscribed_again(self) -> None:
        kinds: List[str] = []

        def second(daemon: Connection) -> None:
            kinds.append(daemon.read()["type"])
            daemon.write("ERROR", {"code": "RESUME_REJECTED", "fatal": False, "message": "expired"})
            hello = daemon.welcome("s-2")
            self.assertNotIn("session", hello["payload"])
            kinds.extend([hello["type"], daemon.expect("SUBSCRIBE")["topic"]])

        first_subscribed = threading.Event()

        def first_with_ping(daemon: Connection) -> None:
            daemon.welcome()
            daemon.write("ACK", {"ack_id": daemon.expect("SUBSCRIBE")["id"]})
            self.assertTrue(first_subscribed.wait(LIMIT_S))
            daemon.write("PING", {"nonce": "9f"})
            self.assertEqual(daemon.expect("PONG")["payload"], {"nonce": "9f"})

        script = self.script(first_with_ping, second)
        ann = self.join(script)
        ann.subscribe("news", timeout=LIMIT_S)
        first_subscribed.set()
        script.finish()
        self.assertEqual(kinds, ["RESUME", "HELLO", "news"])
        self.assertEqual(ann.failures[0].code, "RESUME_REJECTED")

    def test_subscriptions_are_repeated_until_they_are_answered(self) -> None:
        nexts: List[str] = []

        def acknowledges(daemon: Connection) -> None:
            daemon.welcome()
            daemon.write("ACK", {"ack_id": daemon.expect("SUBSCRIBE")["id"]})
            self.assertTrue(subscribed.wait(LIMIT_S))

        def rejects(daemon: Connection) -> None:
            self.assertEqual(daemon.read()["type"], "RESUME")
            daemon.write("ERROR", {"code": "RESUME_REJECTED", "fatal": False, "message": "expired"})
            daemon.welcome("s-2")
            daemon.expect("SUBSCRIBE")  # It is lost.

        def resumes(daemon: Connection) -> None:
            self.assertEqual(daemon.welcome("s-2")["type"], "RESUME")
            daemon.write("PING", {"nonce": "1"})
            subscribe = daemon.read()
            nexts.append(subscribe["type"])
            daemon.write("ACK", {"ack_id": subscribe["id"]})
            daemon.write("PING", {"nonce": "2"})
            while daemon.expect("PONG")["payload"]["nonce"] != "2":
                pass

        def resumes_subscribed(daemon: Connection) -> None:
            daemon.welcome("s-2")
            daemon.write("PING", {"nonce": "3"})
            nexts.append(daemon.read()["type"])

        subscribed = threading.Event()
        with mock.patch.object(_core, "FIRST_WAIT_S", 0.001):
            script = self.script(acknowledges, rejects, resumes, resumes_subscribed)
            self.join(script).subscribe("news", timeout=LIMIT_S)
            subscribed.set()
            script.finish()
        self.assertEqual(nexts, ["SUBSCRIBE", "PONG"])

    def test_long_topics_do_not_make_resume_too_large(self) -> None:
        limit, topics = 1 << 16, [f"{number:03}" + "\x01" * 242 for number in range(100)]

        def delivers(daemon: Connection) -> None:
            daemon.welcome(frame_bytes=limit)
            for topic in topics:
                members = {"from": "Bob", "topic": topic, "delivery": {"seq": 7}}
                daemon.write("DELIVER", {"body": ""}, "of " + topic[:3], **members)
            daemon.write("PING", {"nonce": ""})
            daemon.expect("PONG")

        def resumes(daemon: Connection) -> None:
            resume = daemon.welcome(frame_bytes=limit)
            self.assertEqual(resume["type"], "RESUME")
            self.assertLessEqual(len(json.dumps(resume)), limit)
            taken = [stream["topic"] for stream in resume["payload"]["streams"]]
            self.assertGreater(len(taken), 30)
            self.assertEqual(set(taken), set(topics[-len(taken):]))  # the latest

        script = self.script(delivers, resumes)
        self.join(script)
        script.finish()

    def test_busy_broadcast_holds_back_broadcasts_only(self) -> None:
        def busy(daemon: Connection) -> None:
            daemon.welcome()
            members = {"from": "Bob", "to": "Ann", "delivery": {"seq": 1, "requires_ack": True}}
            sync = {"correlationId": "c", "timeoutMs": 20_000}
            daemon.write("DELIVER", {"body": "?"}, "d-1", payload_meta={"sync": sync}, **members)
            daemon.write("BUSY", {"ack_id": daemon.expect("SEND")["id"], "retry_after_ms": 60000, "queue_depth": 1})
            daemon.write("ACK", {"ack_id": daemon.expect("SUBSCRIBE")["id"]})
            self.assertEqual(daemon.read()["payload"]["responseData"], {"body": "yes"})

        script = self.script(busy)
        ann = self.join(script)
        ann.send("*", "first", ack=False)
        self.wait(ann, lambda: any(request.busy for request in core_of(ann).outbox._requests.values()))
        with self.assertRaises(TimeoutError):
            ann.send("", "second", topic="news", ack=False, timeout=0.01)
        ann.subscribe("news", timeout=LIMIT_S)
        self.receive(ann).answer("yes")
        script.finish()

    def test_too_long_refusals_and_answers_are_not_sent(self) -> None:
        def asks(daemon: Connection) -> None:
            daemon.welcome()
            members = {"from": "Bob", "to": "Ann", "delivery": {"seq": 1, "requires_ack": True}}
            sync = {"correlationId": "c", "timeoutMs": 60000}
            daemon.write("DELIVER", {"body": "?"}, "d-1", payload_meta={"sync": sync}, **members)
            payload = daemon.read()["payload"]
            self.assertEqual(payload.get("responseData"), {"body": "yes"})
            daemon.expect("BYE")

        script = self.script(asks)
        ann = self.join(script)
        message = self.receive(ann)
        for call in (message.refuse, message.answer, lambda text: message.refuse("", code=text)):
            with self.assertRaises(Refused) as refused:
                call("x" * 2_000_000)
            self.assertEqual(refused.exception.code, "TOO_LARGE")
            self.assertFalse(core_of(ann)._seen["d-1"] or len(core_of(ann).outbox))
        message.answer("yes")
        ann.close()
        script.finish()

    def test_stale_resume_continues_with_hello(self) -> None:
        def stale(daemon: Connection) -> None:
            resume = daemon.read()
            daemon.write("NACK", {"ack_id": resume["id"], "code": "STALE", "message": "gone"})
            hello = daemon.welcome()
            self.assertEqual(hello["payload"]["session"], {"resume_token": "token of s-1"})

        script = self.script(lambda daemon: daemon.welcome(), stale)
        ann = self.join(script)
        script.finish()
        self.assertEqual([failure.code for failure in ann.failures], ["STALE"])

    def test_errors_that_repeat_are_permanent(self) -> None:
        def fails(code: str) -> Callable[[Connection], None]:
            def step(daemon: Connection) -> None:
                daemon.welcome()
                daemon.write("ERROR", {"code": code, "fatal": True, "message": "why"})

            return step

        script = self.script(fails("SHUTTING_DOWN"), fails("INTERNAL"), fails("SESSION_REPLACED"))
        ann = self.join(script)
        with self.assertRaises(Ended) as ended:
            ann.receive(LIMIT_S)
        self.assertEqual(ended.exception.code, "SESSION_REPLACED")
        with self.assertRaises(Ended):
            ann.send("Bob", "?")
        with self.assertRaises(Ended):
            list(ann)

    def test_cycle_of_attempts_ends(self) -> None:
        script = self.script(lambda daemon: daemon.welcome(), *[lambda daemon: None] * 9)
        with mock.patch.object(_core, "FIRST_WAIT_S", 0.001):
            ann = self.join(script)
            with self.assertRaisesRegex(Ended, "attempts: 10"):
                ann.receive(LIMIT_S)
        script.finish()

    def test_bye_from_the_daemon_is_followed_by_a_new_connection(self) -> None:
        def leaves(daemon: Connection) -> None:
            daemon.welcome()
            daemon.write("BYE", {"reason": "upgrade", "retry_after_ms": 10})

        script = self.script(leaves, lambda daemon: daemon.welcome())
        self.join(script)
        script.finish()

    def test_frames_that_are_not_valid_end_the_connection(self) -> None:
        deep = b'{"v":1,"type":"DELIVER","id":"x","ts":1,"payload":{"body":%s}}' % (b"[" * 300_000 + b"]" * 300_000)
        many = b'{"v":1,"type":"PONG","id":"x","ts":1,"payload":{"body":"' + b"[{" * 1000 + b'\\""}}'
        number = b'{"v":1,"type":"PONG","id":"x","ts":1,"payload":{"n":' + b"9" * 900_000 + b"}}"

        def frame(data: bytes) -> bytes:
            return len(data).to_bytes(4, "big") + data

        bad = [b"\0\0\0\0", b"\xff\xff\xff\xff", frame(b" " * 5000), frame(deep), frame(b"[]"), frame(b"\xff{}"),
               frame(b"{}"), frame(b'{"type":"PING","id":"x","payload":[]}')]

        def sends(data: bytes) -> Callable[[Connection], None]:
            def step(daemon: Connection) -> None:
                daemon.welcome(frame_bytes=4096 if data[4:5] == b" " else 1 << 20)
                with contextlib.suppress(OSError):  # The client is possibly gone before it has all.
                    daemon.stream.sendall(frame(many) + frame(number) + data if len(data) > 10_000 else data)
                while daemon.read()["type"]:
                    pass  # The client ends the connection.

            return step

        script = self.script(*[sends(data) for data in bad])
        with mock.patch.object(_core, "FIRST_WAIT_S", 0.001):
            self.join(script)
            script.finish()

    def test_text_with_brackets_is_not_deep(self) -> None:
        body = "[" * 1000 + '"{' * 1000 + "\\"
        self.assertEqual(parse(encode("SEND", {"body": body})[4:])["payload"]["body"], body)
        nested = b'{"type":"x","id":"x","payload":{"a":%s}}'
        parse(nested % (b"[" * 126 + b"]" * 126))
        with self.assertRaisesRegex(ValueError, "deeper"):
            parse(nested % (b"[" * 127 + b"]" * 127))
        for text in (b'{"a":' * 128 + b"1" + b"}" * 128, b'"' * 300_000 + b"[" * 200, b'"\\' * 300_000 + b"[" * 200):
            with self.assertRaises(ValueError):
                parse(text)

    def test_daemon_that_never_answers(self) -> None:
        gone = threading.Event()

        def silent(daemon: Connection) -> None:
            while daemon.read()["type"]:
                pass
            gone.set()

        script = self.script(silent)
        with mock.patch.object(_core, "WELCOME_S", 0.1), self.assertRaisesRegex(Ended, "no WELCOME"):
            self.join(script)
        self.assertTrue(gone.wait(LIMIT_S))
        script.finish()

        def accepts_nothing(daemon: Connection) -> None:
            daemon.welcome()
            silent(daemon)

        script = self.script(accepts_nothing)
        ann = self.join(script)
        calls: List[Callable[[], Any]] = [
            lambda: ann.send("Bob", timeout=0.05), lambda: ann.ask("Bob", "?", timeout=0.05),
            lambda: ann.subscribe("x", timeout=0.05)]
        for call in calls:
            with self.assertRaises(TimeoutError):
                call()
        self.assertEqual(len(core_of(ann).outbox), 0)

    def test_client_that_does_not_receive_stops_reading_and_stays_alive(self) -> None:
        state: Dict[str, Any] = {}

        def floods(daemon: Connection) -> None:
            daemon.welcome(heartbeat_ms=100)
            self.assertTrue(joined.wait(LIMIT_S))  # A call that waits has four times the room.
            daemon.stream.sendall(b"".join(daemon.deliver(f"d-{n}", n, ack=False) for n in range(1, 1101)))
            self.assertEqual(daemon.expect("PONG")["payload"], {"nonce": ""})
            state["unread"] = len(core_of(ann).unread)
            paused.set()
            daemon.expect("BYE")

        joined, paused = threading.Event(), threading.Event()
        script = self.script(floods)
        ann = self.join(script)
        joined.set()
        self.assertTrue(paused.wait(LIMIT_S))
        self.assertEqual(state["unread"], _core.UNREAD)
        self.assertEqual([self.receive(ann).seq for _ in range(1100)], list(range(1, 1101)))
        ann.close()
        script.finish()

    def test_receiving_ends_the_pause(self) -> None:
        def floods(daemon: Connection) -> None:
            daemon.welcome(heartbeat_ms=3_600_000)
            daemon.stream.sendall(b"".join(daemon.deliver(f"d-{n}", n, ack=False) for n in range(1, 21)))
            daemon.expect("BYE")

        with mock.patch.object(_core, "UNREAD", 5):
            script = self.script(floods)
            ann = self.join(script)
            self.assertEqual([self.receive(ann).seq for _ in range(20)], list(range(1, 21)))
            ann.close()
            script.finish()

    def test_daemon_that_does_not_read_cannot_fill_memory(self) -> None:
        def pings(daemon: Connection) -> None:
            daemon.welcome()
            frame = encode("PING", {"nonce": "x" * 1000}) * 100
            with self.assertRaises(OSError):
                while True:
                    daemon.stream.sendall(frame)

        script = self.script(pings)
        with mock.patch.object(_core, "CONTROL_FRAMES", 500):
            self.join(script)
            script.finish()

    @unittest.skipUnless(sys.platform == "linux" and os.getuid() == 0, "needs root to run another user's process")
    def test_server_of_another_user_is_refused(self) -> None:
        program = ("import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
                   "os.chmod(sys.argv[1], 0o777); print('ready', flush=True); c = s.accept()[0]; "
                   "print(len(c.recv(9)), flush=True)")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            command = [sys.executable, "-c", program, folder + "/s"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                self.addCleanup(server.kill)
                assert server.stdout
                self.assertEqual(server.stdout.readline(), "ready\n")
                with self.assertRaisesRegex(Ended, "another user"):
                    type(self).face("Ann", endpoint=folder + "/s")
                self.assertEqual(server.stdout.readline(), "0\n")  # Nothing was sent to it.


@unittest.skipUnless(DAEMON, "AGENT_RELAY does not name a daemon")
class Readme(Case):
    def setUp(self) -> None:
        super().setUp()
        self.daemon = Daemon()
        self.addCleanup(self.daemon.remove)

    def play(self, code: str) -> Callable[[], str]:
        """Runs an example. Returns a function that returns its output."""
        environment = {**os.environ, "AGENT_RELAY_ENDPOINT": self.daemon.endpoint, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
        join = in_thread(lambda: subprocess.run(
            command, env=environment, capture_output=True, timeout=LIMIT_S, text=True))

        def check() -> str:
            result = join()
            self.assertEqual((result.returncode, result.stderr), (0, ""), code)
            return str(result.stdout)

        return check

    def test_examples(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        sections = re.findall(r"^## (\w+)\n(.*?)(?=^## )", readme, re.DOTALL | re.MULTILINE)
        code = {name: re.findall(r"^```python\n(.*?)```$", text, re.DOTALL | re.MULTILINE) for name, text in sections}
        (send,), (receive,), (ask,), (answer,) = code["Send"], code["Receive"], code["Ask"], code["Answer"]
        (topics,), (agents,), (asks, answers) = code["Topics"], code["Agents"], code["Asyncio"]
        Client("Bob", endpoint=self.daemon.endpoint).close()  # The daemon knows Bob.
        self.assertEqual(self.play(send)(), "the daemon has it\n")
        self.assertEqual(self.play(receive)(), "Ann says Your turn\n")
        asked = self.play(ask)
        self.assertEqual(self.play(answer)(), "")
        self.assertEqual(asked(), "Bob answers 8080\n")
        self.assertEqual(self.play(topics)(), "build.linux passed\n")
        self.assertIn("Bob is away\n", self.play(agents)())
        asked = self.play(asks)
        self.assertEqual(self.play(answers)(), "Which port?\nWhich host?\n")
        self.assertEqual(asked(), "8080 localhost\n")


class Options(Case):
    def test_tables_are_those_of_the_code(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (options,) = re.findall(r"^## Options\n(.*?)(?=^## )", readme, re.DOTALL | re.MULTILINE)
        tables = options.strip().split("\n\n")
        shown = [re.findall(r"^\| `(\w+)` \| (?:required|`(.*?)`) \| \S", table, re.MULTILINE) for table in tables]

        def of_code(call: Callable[..., object]) -> List[Tuple[str, str]]:
            own = [one for name, one in inspect.signature(call).parameters.items() if name != "self"]
            return [(one.name, "" if one.default is one.empty else repr(one.default)) for one in own]

        clients: List[Any] = [Client, AsyncClient]
        for client in clients:
            self.assertEqual(shown, [of_code(client), of_code(client.send)])


class AsyncWithDaemon(WithDaemon):
    face = Driven


class AsyncWithDaemonThatDies(WithDaemonThatDies):
    face = Driven


class AsyncWithScript(WithScript):
    face = Driven


class ThreadedStreamWithScript(AsyncWithScript):
    """The stream of Windows, which has its own threads, on a Unix socket."""

    def setUp(self) -> None:
        super().setUp()

        async def connect(endpoint: str) -> _stream.AsyncStream:
            return _stream.ThreadedStream(_stream.connect(endpoint))

        patch = mock.patch.object(_asyncio, "connect_async", connect)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(self.join_threads, set(threading.enumerate()))

    def join_threads(self, others: Set[threading.Thread]) -> None:
        for thread in set(threading.enumerate()) - others:
            if thread.name == "agent-relay stream":
                thread.join(LIMIT_S)
                self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
