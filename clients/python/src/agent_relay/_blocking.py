"""The client for programs with threads: its calls block."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

from . import _requests as requests
from ._core import Core, Properties
from ._message import Message
from ._stream import READ_BYTES, Stream, connect, default_endpoint
from ._types import Accepted, AgentRow, Answer, RelayError

T = TypeVar("T")
CLOSE_S = 2.0  # that `close()` waits for the daemon
LONGEST_SLEEP_S = 3600.0  # as a lock cannot wait without end with a limit
monotonic = time.monotonic


class Delivery(Message):
    __doc__ = Message.__doc__
    _settler: Engine

    def answer(self, body: str, data: Optional[Dict[str, Any]] = None, response: bool = True) -> None:
        """Answers a question and acknowledges it. The next connection sends the answer again.

        Waits until the answer is written to a connection, at most for the sender's time for an answer.
        """
        request = requests.answer(self, body, data, response)
        self._settler.perform(request, request.keep_s)
        self._settler.settle(self, "", {})


class Engine:
    """A connection that two threads keep up: reading never waits for writing.

    The threads hold the engine, but not the `Client`, whose end without `close()` is thus noticed.
    """

    def __init__(self, name: str, endpoint: str, key: str, max_inflight: int, attempts: int, forever: bool) -> None:
        self.lock = threading.Condition()  # All below needs it, but for `_abandoned`.
        self.core: Core[Delivery] = Core(name, key, max_inflight, attempts, forever, self._deliver)
        self._endpoint = endpoint
        self._link: Optional[Stream] = None
        self._writing = self._abandoned = False
        for run in (self._run, self._write):
            threading.Thread(target=run, name=f"agent-relay {name}", daemon=True).start()

    def join(self) -> None:
        """Waits for the first WELCOME."""
        with self.lock:
            self.lock.wait_for(lambda: self.core.session_id or self.core.ended)
            if self.core.ended:
                raise self.core.ended.with_traceback(None)

    def perform(self, request: requests.Request[T], timeout: Optional[float]) -> T:
        """Sends a request and waits for its result."""
        core = self.core
        with self.lock:
            core.add(request, monotonic())
            core.waiting += 1
            self.lock.notify_all()
            try:
                self.lock.wait_for(lambda: request.done or core.ended or core.is_full(), timeout)
                if not request.done:
                    raise core.why_late(request)
            finally:
                core.waiting -= 1
                core.outbox.remove(request)
                if not request.done:
                    self.lock.notify_all()  # Another request possibly waited for it.
        return request.result()

    def settle(self, message: Message, kind: str, payload: Dict[str, Any]) -> None:
        with self.lock:
            self.core.settle(message, kind, payload)
            self.lock.notify_all()

    def receive(self, timeout: Optional[float]) -> Optional[Delivery]:
        with self.lock:
            self.lock.wait_for(lambda: self.core.unread or self.core.ended, timeout)
            self.lock.notify_all()
            return self.core.next_delivery()

    def close(self) -> None:
        with self.lock:
            self.core.close()
            if not self.core.ready:
                self._hang_up()
            self.lock.notify_all()
            if not self.lock.wait_for(lambda: self.core.ended, CLOSE_S):
                self._hang_up()

    def abandon(self) -> None:
        """Hangs up without the lock, which the thread that collects the `Client` possibly holds."""
        self._abandoned = True
        self._hang_up()

    def _deliver(self, envelope: Dict[str, Any], size: int) -> Delivery:
        return Delivery(self, envelope, size)

    def _hang_up(self) -> None:
        link = self._link
        if link:
            with contextlib.suppress(OSError):  # It has ended.
                link.shutdown(2)

    def _run(self) -> None:
        while not self.core.ended:
            error: Exception
            try:
                self._serve()
            except Exception as caught:  # Whatever it is, it ends this connection only.
                error = caught
            with self.lock:
                self._hang_up()
                self.lock.wait_for(lambda: not self._writing)
                if self._link:
                    self._link.close()
                self._link = None
                self._leave_if_abandoned()
                self.core.lost(error, monotonic())
                self.lock.notify_all()
                self.lock.wait_for(lambda: self.core.ended, max(0.0, self.core.retry_at - monotonic()))
                self._leave_if_abandoned()

    def _leave_if_abandoned(self) -> None:
        if self._abandoned:
            self.core.close()
            self.lock.notify_all()

    def _serve(self) -> None:
        """Opens a connection and reads from it. Raises an exception when it ends."""
        core, link = self.core, connect(self._endpoint or default_endpoint())
        with self.lock:
            self._link = link
            core.opened(monotonic())
            self.lock.notify_all()
        while not self._abandoned:
            data = link.recv(READ_BYTES)
            with self.lock:
                core.feed(data, monotonic())
                while core.step(monotonic()):
                    while core.is_paused() and not self._abandoned:
                        wait = core.stay_alive(monotonic())
                        self.lock.notify_all()
                        self.lock.wait(wait)
                self.lock.notify_all()
        raise RelayError("the client was dropped")

    def _write(self) -> None:
        core = self.core
        while not core.ended:
            with self.lock:
                now = monotonic()
                if core.is_overdue(now):
                    self._hang_up()
                batch, link = core.take(now), self._link
                if not batch or not link:
                    late = core.is_overdue(now)  # The reading thread ends the connection.
                    self.lock.wait(LONGEST_SLEEP_S if late else max(0.0, min(LONGEST_SLEEP_S, core.wake_at() - now)))
                    continue
                self._writing = True
            with contextlib.suppress(OSError):  # The reading thread finds out why.
                link.sendall(batch)
            with self.lock:
                self._writing = False
                self.lock.notify_all()


class Client(Properties, contextlib.AbstractContextManager["Client"]):
    """A connection to the daemon under a name, kept up until `close()` or a permanent error.

    The constructor tries to join `attempts` times, then raises `Ended`. A lost connection is replaced; after ten
    failed attempts in a row the client ends, with `forever` never. `key` is the key of the name; at most
    `max_inflight` messages are unacknowledged. `failures` has the last 1,024 failures that no call raised.
    All methods may be called in any thread; `timeout` is in seconds.
    """

    _engine: Engine

    def __init__(self, name: str, *, endpoint: str = "", key: str = "", max_inflight: int = 256,
                 attempts: int = 1, forever: bool = False) -> None:
        engine = Engine(name, endpoint, key, max_inflight, attempts, forever)
        try:
            engine.join()
        except BaseException:
            engine.close()
            raise
        self._engine = engine

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._engine.core.state}>"

    def __del__(self) -> None:
        engine: Optional[Engine] = vars(self).get("_engine")  # There is none if the constructor has failed.
        if engine and not engine.core.closing and not engine.core.ended:
            warning = f"unclosed {self!r}"
            engine.abandon()
            warnings.warn(warning, ResourceWarning, source=self)

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delivery]:
        """Yields deliveries until the client is closed. Raises `Ended` if it ends otherwise."""
        return iter(self.receive, None)

    @property
    def _core(self) -> Core[Any]:
        return self._engine.core

    def receive(self, timeout: Optional[float] = None) -> Optional[Delivery]:
        """Returns the next delivery; None if none comes in time, or once the client is closed."""
        return self._engine.receive(timeout)

    def send(self, to: str, body: str = "", *, topic: str = "", data: Any = None, thread: str = "",
             kind: str = "message", ack: bool = True, meta: Optional[Dict[str, Any]] = None,
             timeout: Optional[float] = None) -> Accepted:
        """Sends a message to an agent, to everyone (`*`), or to all subscribers of a topic (`*`).

        With `ack`, it is sent at least once, and the method returns the daemon's ACK: it has `recipients` of a
        broadcast, and `away` if the recipient is not there. `meta` has members of `payload_meta`, such as
        `ttl_ms`. Raises `Refused`; `TimeoutError` if it is not known whether the daemon has the message.
        """
        return self._engine.perform(requests.send(to, body, topic, data, thread, kind, ack, meta), timeout)

    def ask(self, to: str, body: str, *, timeout: float = 30.0, data: Any = None, topic: str = "") -> Answer:
        """Asks an agent a question and returns its answer. Raises `Refused` and `TimeoutError`."""
        return self._engine.perform(requests.ask(to, body, timeout, data, topic), timeout)

    def subscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Subscribes to the topics that match a pattern, until `unsubscribe()` or `close()`."""
        self._engine.perform(requests.subscribe(pattern), timeout)

    def unsubscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Ends the subscription with this pattern."""
        self._engine.perform(requests.unsubscribe(pattern), timeout)

    def agents(self, timeout: Optional[float] = None) -> List[AgentRow]:
        """Returns the agents that the daemon knows, in the order of their names."""
        deadline = None if timeout is None else monotonic() + timeout
        rows: List[AgentRow] = []
        cursor = ""
        while True:
            rest = None if deadline is None else max(0.0, deadline - monotonic())
            page = self._engine.perform(requests.agents(cursor), rest)
            rows += page.rows
            cursor = page.cursor
            if not cursor:
                return rows

    def close(self) -> None:
        """Leaves. Unacknowledged messages wait in the daemon for the next client of this name."""
        self._engine.close()
