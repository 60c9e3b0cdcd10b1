"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import Any, Callable, Dict, Generator, List, Optional, Set, TypeVar

from . import _requests as requests
from ._core import Core, Properties
from ._message import Message
from ._stream import AsyncStream, connect_async, default_endpoint
from ._types import Accepted, AgentRow, Answer, Ended

T = TypeVar("T")
CLOSE_S = 2.0  # that `close()` waits for the daemon
LONGEST_SLEEP_S = 3600.0


class AsyncDelivery(Message):
    __doc__ = Message.__doc__
    _settler: Engine

    async def answer(self, body: str, data: Optional[Dict[str, Any]] = None, response: bool = True) -> None:
        """Answers a question and acknowledges it. The next connection sends the answer again.

        Waits until the answer is written to a connection, at most for the sender's time for an answer.
        """
        request = requests.answer(self, body, data, response)
        await self._settler.perform(request, request.keep_s)
        self._settler.settle(self, "", {})


class Bell:
    """Wakes all tasks that wait for a condition. Each then checks whether it is true.

    Nothing is handed over with the ring: a task that is cancelled meanwhile takes nothing with it.
    """

    def __init__(self) -> None:
        self._waiting: Set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        for waiter in self._waiting:
            wake(waiter)

    async def wait_for(self, done: Callable[[], object], timeout: Optional[float] = None) -> bool:
        """Waits until `done()`, or for `timeout` seconds. Returns whether it is done."""
        now = asyncio.get_running_loop().time
        deadline = None if timeout is None else now() + timeout
        while not done() and (deadline is None or now() < deadline):
            await self.wait(None if deadline is None else deadline - now())
        return bool(done())

    async def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the next ring, or for `timeout` seconds."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, wake, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            if timer:
                timer.cancel()


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Engine:
    """A connection that a task keeps up, with another task that writes to it: reading never waits for writing.

    The tasks hold the engine, but not the `AsyncClient`, whose end without `close()` is thus noticed.
    """

    def __init__(self, name: str, endpoint: str, key: str, max_inflight: int, attempts: int, forever: bool) -> None:
        self.core: Core[AsyncDelivery] = Core(name, key, max_inflight, attempts, forever, self._deliver)
        self.changed = Bell()  # of `ready` and `ended`
        self._arrived, self._work, self._room = Bell(), Bell(), Bell()  # for receive(), the writer, the reader
        self._calls: Set[Bell] = set()  # one for each request
        self._endpoint = endpoint
        self.was_cut_off = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    async def join(self) -> None:
        """Waits for the first WELCOME."""
        await self.changed.wait_for(lambda: self.core.session_id or self.core.ended)
        if self.core.ended:
            raise self.core.ended.with_traceback(None)

    async def perform(self, request: requests.Request[T], timeout: Optional[float]) -> T:
        """Sends a request and waits for its result. If cancelled, it forgets the request."""
        core, bell = self.core, Bell()
        core.add(request, self._loop.time())
        request.on_done = bell.ring
        core.waiting += 1
        self._calls.add(bell)
        self._work.ring()
        self._room.ring()
        try:
            await bell.wait_for(lambda: request.done or core.ended or core.is_full(), timeout)
            if not request.done:
                raise core.why_late(request)
        finally:
            core.waiting -= 1
            self._calls.discard(bell)
            core.outbox.remove(request)
            if not request.done:
                self._work.ring()  # Another request possibly waited for it.
        return request.result()

    def settle(self, message: Message, kind: str, payload: Dict[str, Any]) -> None:
        self.core.settle(message, kind, payload)
        self._work.ring()

    async def receive(self, timeout: Optional[float]) -> Optional[AsyncDelivery]:
        await self._arrived.wait_for(lambda: self.core.unread or self.core.ended, timeout)
        # Nothing is awaited from here on: a delivery is taken only if the caller gets it.
        self._room.ring()
        return self.core.next_delivery()

    async def close(self) -> None:
        self.core.close()
        self._ring()
        try:
            if self.core.ready:
                await self.changed.wait_for(lambda: self.core.ended, CLOSE_S)
        finally:
            self._task.cancel()
        await asyncio.wait({self._task})

    def abandon(self) -> None:
        """Hangs up. A finalizer calls it, in any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _deliver(self, envelope: Dict[str, Any], size: int) -> AsyncDelivery:
        return AsyncDelivery(self, envelope, size)

    def _ring(self) -> None:
        """Wakes whoever may have something to do after the core has handled envelopes, or ended."""
        for bell in (self.changed, self._arrived, self._work, self._room):
            bell.ring()
        if self.core.ended or self.core.is_full():
            for bell in self._calls:  # The others are rung by their requests.
                bell.ring()

    async def _run(self) -> None:
        core = self.core
        try:
            while not core.ended:
                error: Exception
                try:
                    await self._serve()
                except Exception as caught:  # Whatever it is, it ends this connection only.
                    error = caught
                core.lost(error, self._loop.time())
                self._ring()
                await self.changed.wait_for(lambda: core.ended, core.retry_at - self._loop.time())
        finally:
            self.was_cut_off = not core.ended and not core.closing  # The loop has ended, say.
            core.end(Ended("the client was closed"))
            self._ring()

    async def _serve(self) -> None:
        """Opens a connection and reads from it. Raises an exception when it ends."""
        core, now = self.core, self._loop.time
        link = await connect_async(self._endpoint or default_endpoint())
        try:
            core.opened(now())
            writer = self._loop.create_task(self._write(link))
            try:
                while True:
                    core.feed(await link.recv(), now())
                    while core.step(now()):
                        while core.is_paused():
                            wait = core.stay_alive(now())
                            self._ring()
                            await self._room.wait(wait)
                    self._ring()
                    await asyncio.sleep(0)  # recv() lets no other task run if there is more to read.
            finally:
                writer.cancel()
                await asyncio.wait({writer})
        finally:
            link.close()

    async def _write(self, link: AsyncStream) -> None:
        core, now = self.core, self._loop.time
        while True:
            if core.is_overdue(now()):
                return link.hang_up()
            batch = core.take(now())
            if batch:
                try:
                    await link.sendall(batch)
                except OSError:  # The reading task finds out why.
                    return
            else:
                await self._work.wait(min(LONGEST_SLEEP_S, core.wake_at() - now()))


class AsyncClient(Properties, contextlib.AbstractAsyncContextManager["AsyncClient"]):
    """A connection to the daemon under a name, kept up until `close()` or a permanent error.

    `async with AsyncClient("Ann") as relay:` and `relay = await AsyncClient("Ann")` try to join `attempts` times,
    then raise `Ended`. A lost connection is replaced; after ten failed attempts in a row the client ends, with
    `forever` never. `key` is the key of the name; at most `max_inflight` messages are unacknowledged. `failures`
    has the last 1,024 failures that no call raised. It belongs to the event loop that it joined in, and
    all methods must be called there; `timeout` is in seconds.

    All methods may be cancelled: a cancelled `receive()` takes no delivery, and a cancelled `send()` or `ask()` sends
    nothing that it has not yet sent.
    """

    _started: Optional[Engine] = None

    def __init__(self, name: str, *, endpoint: str = "", key: str = "", max_inflight: int = 256,
                 attempts: int = 1, forever: bool = False) -> None:
        self._name = name
        # A function's representation does not show the key.
        self._start: Callable[[], Engine] = lambda: Engine(name, endpoint, key, max_inflight, attempts, forever)

    async def _join(self) -> AsyncClient:
        if self._started:
            raise RuntimeError(f"{self!r} has joined before: make another AsyncClient")
        self._started = self._start()
        try:
            await self._started.join()
        except BaseException:
            await self._started.close()
            raise
        return self

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return self._join().__await__()

    async def __aenter__(self) -> AsyncClient:
        return await self._join()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = self._started.core.state if self._started else "not joined"
        return f"<{type(self).__name__} {self.name!r} {state}>"

    def __del__(self) -> None:
        engine: Optional[Engine] = vars(self).get("_started")
        if engine and not engine.core.closing and (engine.was_cut_off or not engine.core.ended):
            warning = f"unclosed {self!r}"
            engine.abandon()
            warnings.warn(warning, ResourceWarning, source=self)

    def __aiter__(self) -> AsyncClient:
        """Yields deliveries until the client is closed. Raises `Ended` if it ends otherwise."""
        return self

    async def __anext__(self) -> AsyncDelivery:
        delivery = await self.receive()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    @property
    def _engine(self) -> Engine:
        if not self._started:
            raise RuntimeError(f"{self!r}: use `async with`, or await it")
        return self._started

    @property
    def _core(self) -> Core[Any]:
        return self._engine.core

    @property
    def name(self) -> str:
        """The name, as the daemon writes it."""
        return self._core.name if self._started else self._name

    async def receive(self, timeout: Optional[float] = None) -> Optional[AsyncDelivery]:
        """Returns the next delivery; None if none comes in time, or once the client is closed."""
        return await self._engine.receive(timeout)

    async def send(self, to: str, body: str = "", *, topic: str = "", data: Any = None, thread: str = "",
                   kind: str = "message", ack: bool = True, meta: Optional[Dict[str, Any]] = None,
                   timeout: Optional[float] = None) -> Accepted:
        """Sends a message to an agent, to everyone (`*`), or to all subscribers of a topic (`*`).

        With `ack`, it is sent at least once, and the method returns the daemon's ACK: it has `recipients` of a
        broadcast, and `away` if the recipient is not there. `meta` has members of `payload_meta`, such as
        `ttl_ms`. Raises `Refused`; `TimeoutError` if it is not known whether the daemon has the message.
        """
        return await self._engine.perform(requests.send(to, body, topic, data, thread, kind, ack, meta), timeout)

    async def ask(self, to: str, body: str, *, timeout: float = 30.0, data: Any = None, topic: str = "") -> Answer:
        """Asks an agent a question and returns its answer. Raises `Refused` and `TimeoutError`."""
        return await self._engine.perform(requests.ask(to, body, timeout, data, topic), timeout)

    async def subscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Subscribes to the topics that match a pattern, until `unsubscribe()` or `close()`."""
        await self._engine.perform(requests.subscribe(pattern), timeout)

    async def unsubscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Ends the subscription with this pattern."""
        await self._engine.perform(requests.unsubscribe(pattern), timeout)

    async def agents(self, timeout: Optional[float] = None) -> List[AgentRow]:
        """Returns the agents that the daemon knows, in the order of their names."""
        now = asyncio.get_running_loop().time
        deadline = None if timeout is None else now() + timeout
        rows: List[AgentRow] = []
        cursor = ""
        while True:
            rest = None if deadline is None else max(0.0, deadline - now())
            page = await self._engine.perform(requests.agents(cursor), rest)
            rows += page.rows
            cursor = page.cursor
            if not cursor:
                return rows

    async def close(self) -> None:
        """Leaves. Unacknowledged messages wait in the daemon for the next client of this name."""
        if self._started:
            await self._started.close()
