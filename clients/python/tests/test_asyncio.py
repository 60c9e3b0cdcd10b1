"""Cancellation and the end of clients that are never closed."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import unittest
import warnings
from typing import Any, Awaitable, Callable, List
from unittest import mock

from support import DAEMON, LIMIT_S, Case, Connection, Daemon
from agent_relay import AsyncClient, AsyncDelivery, Client, Ended, _core, _stream


async def within(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, LIMIT_S)


async def event(happened: threading.Event) -> None:
    """Waits for an event of the script's thread."""
    assert await asyncio.get_running_loop().run_in_executor(None, happened.wait, LIMIT_S)


async def until(client: AsyncClient, done: Callable[[], Any]) -> None:
    """Waits until an envelope, or the loss of a connection, makes `done()` true."""
    assert await client._engine.changed.wait_for(done, LIMIT_S)


async def receive(client: AsyncClient) -> AsyncDelivery:
    delivery = await client.receive(LIMIT_S)
    assert delivery, "no delivery came"
    return delivery


async def suspended(work: Awaitable[Any]) -> "asyncio.Task[Any]":
    """Starts a task that waits for something now."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    assert isinstance(task, asyncio.Task) and not task.done()
    return task


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


def idle(daemon: Connection) -> None:
    """Reads until the client leaves."""
    daemon.welcome()
    while daemon.read()["type"]:
        pass


class Cancellation(Case):
    def play(self, script: Any, work: Callable[[AsyncClient], Awaitable[None]], **options: Any) -> None:
        """Runs `work` with a client of a scripted daemon. Both must end, and leave no task."""
        async def main() -> None:
            async with AsyncClient("Ann", endpoint=script.endpoint, **options) as ann:
                await within(work(ann))
            self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})

        asyncio.run(main())
        script.finish()

    def test_receive_that_is_cancelled_as_a_message_comes_leaves_it(self) -> None:
        def delivers(daemon: Connection) -> None:
            daemon.welcome()
            self.assertTrue(waiting.wait(LIMIT_S))
            daemon.stream.sendall(daemon.deliver("d-1", 1) + daemon.deliver("d-2", 2))
            daemon.expect("BYE")

        async def work(ann: AsyncClient) -> None:
            calls = [await suspended(ann.receive()), await suspended(ann.receive(LIMIT_S))]
            waiting.set()
            # The deliveries are there and both calls are woken, but none of them has run yet.
            await until(ann, lambda: ann._engine.core.unread)
            self.assertFalse(any(call.done() for call in calls))
            await cancel(*calls)
            self.assertEqual([(await receive(ann)).id for _ in range(2)], ["d-1", "d-2"])

        waiting = threading.Event()
        self.play(self.script(delivers), work)

    def test_receive_that_times_out_takes_no_message(self) -> None:
        def delivers(daemon: Connection) -> None:
            daemon.welcome()
            self.assertTrue(timed_out.wait(LIMIT_S))
            daemon.stream.sendall(daemon.deliver("d-1", 1) + daemon.deliver("d-2", 2))
            daemon.expect("BYE")

        async def work(ann: AsyncClient) -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(ann.receive(), 0.01)
            self.assertIsNone(await ann.receive(0.01))
            self.assertIsNone(await ann.receive(0))
            timed_out.set()
            self.assertEqual([(await receive(ann)).id for _ in range(2)], ["d-1", "d-2"])

        timed_out = threading.Event()
        self.play(self.script(delivers), work)

    def test_calls_that_are_cancelled_before_they_are_written_are_never_sent(self) -> None:
        kinds: List[str] = []

        def asks(daemon: Connection) -> None:
            daemon.welcome()
            meta = {"sync": {"correlationId": "c", "timeoutMs": 60000}}
            daemon.write("DELIVER", {"body": "?"}, "d-1", payload_meta=meta, delivery={"seq": 1}, **{"from": "Bob"})
            self.assertTrue(asked.wait(LIMIT_S))

        def resumes(daemon: Connection) -> None:
            self.assertTrue(cancelled.wait(LIMIT_S))
            daemon.welcome()
            last = daemon.read()
            kinds.append(last["payload"]["body"])
            daemon.write("ACK", {"ack_id": last["id"], "state": "accepted"})
            daemon.expect("BYE")

        async def work(ann: AsyncClient) -> None:
            question = await receive(ann)
            asked.set()
            await until(ann, lambda: not ann._engine.core.ready)
            self.assertEqual(repr(ann), "<AsyncClient 'Ann' reconnecting>")
            calls: List[Awaitable[Any]] = [
                ann.send("Bob", "never"), ann.send("Bob", "never", ack=False), ann.ask("Bob", "never?"),
                ann.subscribe("never"), ann.agents(), question.answer("never")]
            tasks = [await suspended(call) for call in calls]
            self.assertEqual(len(ann._engine.core.outbox), len(calls))
            await cancel(*tasks)
            self.assertEqual(len(ann._engine.core.outbox), 0)
            cancelled.set()
            await ann.send("Bob", "last")

        asked, cancelled = threading.Event(), threading.Event()
        with mock.patch.object(_core, "FIRST_WAIT_S", 0.001):
            self.play(self.script(asks, resumes), work)
        self.assertEqual(kinds, ["last"])

    def test_calls_that_are_cancelled_after_they_were_written_are_not_sent_again(self) -> None:
        def takes(daemon: Connection) -> None:
            daemon.welcome()
            ids = [daemon.expect("SEND")["id"] for _ in range(2)]
            came.set()
            self.assertTrue(cancelled.wait(LIMIT_S))
            daemon.write("ACK", {"ack_id": ids[0], "state": "accepted"})
            daemon.write("BUSY", {"ack_id": ids[1], "retry_after_ms": 1, "queue_depth": 1})

        def resumes(daemon: Connection) -> None:
            daemon.welcome()
            self.assertEqual(daemon.read()["type"], "BYE")

        async def work(ann: AsyncClient) -> None:
            tasks = [await suspended(ann.send("Bob", "?")), await suspended(ann.ask("Bob", "?"))]
            await event(came)
            await cancel(*tasks)
            cancelled.set()
            self.assertEqual(len(ann._engine.core.outbox), 0)
            await until(ann, lambda: not ann._engine.core.ready)
            await until(ann, lambda: ann._engine.core.ready)
            self.assertEqual([failure.code for failure in ann.failures], ["BUSY"])

        came, cancelled = threading.Event(), threading.Event()
        self.play(self.script(takes, resumes), work)

    def test_cancelled_message_of_a_busy_recipient_lets_the_next_one_pass(self) -> None:
        def busy(daemon: Connection) -> None:
            daemon.welcome()
            first = daemon.expect("SEND")
            daemon.write("BUSY", {"ack_id": first["id"], "retry_after_ms": 60_000, "queue_depth": 1})
            second = daemon.expect("SEND")
            self.assertEqual(second["payload"]["body"], "second")
            daemon.write("ACK", {"ack_id": second["id"], "state": "accepted"})
            daemon.expect("BYE")

        async def work(ann: AsyncClient) -> None:
            first = await suspended(ann.send("Bob", "first"))
            await until(ann, lambda: ann._engine.core.outbox.retry_at() < float("inf"))
            second = await suspended(ann.send("Bob", "second"))
            await cancel(first)
            await within(second)

        with mock.patch.object(_core, "LONGEST_WAIT_S", 60.0):
            self.play(self.script(busy), work)

    def test_joining_that_is_cancelled_leaves_nothing(self) -> None:
        def silent(daemon: Connection) -> None:
            daemon.read()
            greeted.set()
            self.assertEqual(daemon.read()["type"], "")

        async def main() -> None:
            client = AsyncClient("Ann", endpoint=script.endpoint)
            self.assertEqual(repr(client), "<AsyncClient 'Ann' not joined>")
            with self.assertRaisesRegex(RuntimeError, "async with"):
                await client.send("Bob")
            task = await suspended(client.__aenter__())
            await event(greeted)
            await cancel(task)
            self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})
            self.assertIn("closed", repr(client))
            with self.assertRaisesRegex(RuntimeError, "another"):
                await client

        greeted = threading.Event()
        script = self.script(silent)
        asyncio.run(main())
        script.finish()

    def test_closing_that_is_cancelled_hangs_up(self) -> None:
        def stays(daemon: Connection) -> None:
            daemon.welcome()
            daemon.expect("BYE")
            left.set()
            self.assertEqual(daemon.read()["type"], "")

        async def main() -> None:
            client = await AsyncClient("Ann", endpoint=script.endpoint)
            iteration = await suspended(client.receive())
            task = await suspended(client.close())
            await event(left)
            await cancel(task)
            self.assertIsNone(await within(iteration))
            with self.assertRaises(Ended):
                await client.send("Bob")
            await client.close()

        left = threading.Event()
        script = self.script(stays)
        asyncio.run(main())
        script.finish()

    @unittest.skipUnless(sys.platform == "linux", "the queues of other systems have other sizes")
    def test_daemon_whose_queue_is_full_is_waited_for(self) -> None:
        refused = threading.Event()

        def waits(_: Connection) -> None:
            self.assertTrue(refused.wait(LIMIT_S))

        def connect(endpoint: str, wait_s: float) -> Any:
            try:
                return original_connect(endpoint, wait_s)
            except BlockingIOError:
                refused.set()
                raise

        async def work(_: AsyncClient) -> None:
            self.assertTrue(refused.is_set())

        script, original_connect = self.script(waits, lambda _: None, idle), _stream.connect
        script.listener.listen(0)  # Room for one, while the script waits in its first step.
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            first.connect(script.endpoint)
            second.connect(script.endpoint)
            with mock.patch.object(_stream, "connect", connect):
                self.play(script, work)

    def test_many_calls_at_once(self) -> None:
        count = 3000

        def accepts(daemon: Connection) -> None:
            daemon.welcome()
            for _ in range(count):
                daemon.write("ACK", {"ack_id": daemon.expect("SEND")["id"], "state": "accepted"})
            daemon.expect("BYE")

        async def work(ann: AsyncClient) -> None:
            sent = await asyncio.gather(*[ann.send("Bob", str(number)) for number in range(count)])
            self.assertEqual({ack["state"] for ack in sent}, {"accepted"})
            self.assertEqual(len(ann._engine.core.outbox), 0)

        self.play(self.script(accepts), work)


class Unclosed(Case):
    """A client that is dropped without `close()` gives a warning, and hangs up."""

    def assert_threads_end(self, drop: Callable[[], None], warning: str) -> None:
        before, errors = set(threading.enumerate()), []  # type: Any, List[Any]
        with self.assertWarnsRegex(ResourceWarning, warning), mock.patch.object(threading, "excepthook", errors.append):
            drop()
            gc.collect()
            for thread in set(threading.enumerate()) - before:
                thread.join(LIMIT_S)
                self.assertFalse(thread.is_alive())
        self.assertEqual(errors, [])

    def test_client_of_threads(self) -> None:
        script = self.script(idle)

        def drop() -> None:
            Client("Dropped", endpoint=script.endpoint)

        self.assert_threads_end(drop, "unclosed <Client 'Ann' ready>")
        script.finish()  # The daemon has seen the end of the connection.

    def test_client_of_threads_that_is_dropped_while_it_does_not_read(self) -> None:
        def floods(daemon: Connection) -> None:
            daemon.welcome(heartbeat_ms=100)
            daemon.stream.sendall(b"".join(daemon.deliver(f"d-{n}", n, ack=False) for n in range(1, 20)))
            daemon.expect("PONG")
            paused.set()
            while daemon.read()["type"]:
                pass

        def drop() -> None:
            client = Client("Dropped", endpoint=script.endpoint)
            self.assertTrue(paused.wait(LIMIT_S))
            self.assertTrue(client._engine.core.is_paused())

        paused = threading.Event()
        with mock.patch.object(_core, "UNREAD", 5):
            script = self.script(floods)
            self.assert_threads_end(drop, "unclosed <Client 'Ann' ready>")
            script.finish()

    def test_client_of_asyncio(self) -> None:
        async def drop() -> None:
            await AsyncClient("Dropped", endpoint=script.endpoint)

        async def main() -> None:
            with self.assertWarnsRegex(ResourceWarning, "unclosed <AsyncClient 'Ann' ready>"):
                await drop()
                gc.collect()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.wait(others, timeout=LIMIT_S)
            await asyncio.get_running_loop().run_in_executor(None, script.finish)

        script = self.script(idle)
        asyncio.run(main())

    def test_client_of_asyncio_at_the_end_of_its_loop(self) -> None:
        kept: List[AsyncClient] = []

        async def main() -> None:
            kept.append(await AsyncClient("Ann", endpoint=script.endpoint))

        script = self.script(idle)
        asyncio.run(main())
        script.finish()
        with self.assertWarns(ResourceWarning):
            kept.clear()
            gc.collect()

    def test_no_warning_after_close_or_a_permanent_error(self) -> None:
        def refuses(daemon: Connection) -> None:
            daemon.read()
            daemon.write("ERROR", {"code": "NAME_IN_USE", "fatal": True, "message": "why"})

        async def join() -> None:
            async with AsyncClient("Ann", endpoint=script.endpoint):
                pass
            with self.assertRaises(Ended):
                await AsyncClient("Ann", endpoint=script.endpoint)
            AsyncClient("Ann", endpoint=script.endpoint)  # It has not joined.

        script = self.script(idle, refuses, idle, refuses)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with Client("Ann", endpoint=script.endpoint):
                pass
            with self.assertRaises(Ended):
                Client("Ann", endpoint=script.endpoint)
            asyncio.run(join())
            gc.collect()
        script.finish()
        self.assertEqual([str(warning.message) for warning in caught], [])


@unittest.skipUnless(DAEMON, "AGENT_RELAY does not name a daemon")
class NameOfADroppedClient(Case):
    def test_name_is_free_again(self) -> None:
        daemon = Daemon()
        self.addCleanup(daemon.remove)

        def drop() -> None:
            Client("Ann", endpoint=daemon.endpoint).send("Ann", "kept")

        with self.assertWarns(ResourceWarning):
            drop()
            gc.collect()
        ann = self.join(daemon)
        self.assertEqual(self.receive(ann).body, "kept")


if __name__ == "__main__":
    unittest.main()
