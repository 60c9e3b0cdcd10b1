"""Shared parts of the tests: daemons, real and scripted, both clients with the same methods, and a watchdog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Optional, TypeVar, Union

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
from agent_relay import AsyncClient, AsyncDelivery, Client, Delivery  # noqa: E402
from agent_relay._core import Core  # noqa: E402
from agent_relay._wire import encode, parse  # noqa: E402
from watchdog import Watched  # noqa: E402

if sys.platform == "win32":
    raise unittest.SkipTest("these tests need Unix sockets")
T = TypeVar("T")
DAEMON = os.environ.get("AGENT_RELAY", "")
LIMIT_S = 20.0  # the watchdog of each wait
warnings.simplefilter("error", ResourceWarning)


class Daemon:
    """A daemon with its own home."""

    def __init__(self, config: str = "") -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.home, self.endpoint = self.folder.name, self.folder.name + "/relay.sock"
        Path(self.home, "config.toml").write_text(config)
        self.process: Optional[subprocess.Popen[str]] = None
        self.start()

    def start(self) -> None:
        command = [DAEMON, "--home", self.home, "--endpoint", self.endpoint, "up", "--foreground"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        log = self.process.stderr
        for line in log:
            if "listening at" in line:
                break
        else:
            raise AssertionError("the daemon did not start")
        self.drain = threading.Thread(target=lambda: [None for _ in log], daemon=True)
        self.drain.start()

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait(LIMIT_S)
            self.drain.join(LIMIT_S)
            assert self.process.stderr
            self.process.stderr.close()
        self.process = None

    def remove(self) -> None:
        self.kill()
        self.folder.cleanup()


class Connection:
    """The daemon's side of a connection to a scripted daemon."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream, self.file = stream, stream.makefile("rb")

    def read(self) -> Dict[str, Any]:
        length = int.from_bytes(self.file.read(4), "big")
        return parse(self.file.read(length)) if length else {"type": "", "payload": {}}

    def expect(self, kind: str) -> Dict[str, Any]:
        """Reads up to the next envelope of a type."""
        while True:
            envelope = self.read()
            if envelope["type"] == kind:
                return envelope
            if not envelope["type"]:
                raise AssertionError(f"the client left before {kind}")

    def write(self, kind: str, payload: Dict[str, Any], id: str = "", **members: Any) -> None:
        self.stream.sendall(encode(kind, payload, id, **members))

    def welcome(self, session: str = "s-1", frame_bytes: int = 1 << 20, heartbeat_ms: int = 5000) -> Dict[str, Any]:
        """Reads HELLO or RESUME, and answers it."""
        greeting = self.read()
        server = {"max_frame_bytes": frame_bytes, "heartbeat_ms": heartbeat_ms}
        payload = {"session_id": session, "resume_token": "token of " + session, "agent": "Ann", "server": server}
        self.write("WELCOME", payload)
        return greeting

    def deliver(self, id: str, seq: int, ack: bool = True, body: str = "") -> bytes:
        """Returns the frame of a delivery."""
        members = {"from": "Bob", "to": "Ann", "delivery": {"seq": seq, "requires_ack": ack}}
        return encode("DELIVER", {"kind": "message", "body": body or id}, id, **members)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)
        self.file.close()
        self.stream.close()


class Script:
    """A scripted daemon: one function for each connection, in order."""

    def __init__(self, *steps: Callable[[Connection], Any]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.endpoint, self.error = self.folder.name + "/s", None  # type: str, Optional[BaseException]
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.endpoint)
        self.listener.listen()
        self.listener.settimeout(LIMIT_S)
        self.thread = threading.Thread(target=self.run, args=(steps,), daemon=True)
        self.thread.start()

    def run(self, steps: Any) -> None:
        try:
            for step in steps:
                connection = Connection(self.listener.accept()[0])
                connection.stream.settimeout(LIMIT_S)
                try:
                    step(connection)
                finally:
                    connection.close()
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        """Waits until the script is played."""
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive(), "the script is not finished"
        if self.error:
            raise self.error

    def remove(self) -> None:
        self.listener.close()
        self.thread.join(LIMIT_S)
        self.folder.cleanup()


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Runs `work` in a thread. Returns a function that waits for its result."""
    results: List[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(LIMIT_S * 2)
        assert results, "the thread is not finished"
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    return join


class Driven:
    """An AsyncClient in a separate event loop and thread, with the methods of a Client."""

    def __init__(self, name: str, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

        async def join() -> AsyncClient:
            return await AsyncClient(name, **options)

        try:
            self.client = self.run(join())
        except BaseException:
            self.end_loop()
            raise

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(LIMIT_S * 2)

    def end_loop(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(LIMIT_S)
            self.loop.close()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.client, name)
        return (lambda *args, **options: self.run(member(*args, **options))) if callable(member) else member

    def __repr__(self) -> str:
        return repr(self.client)

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[DrivenDelivery]:
        return iter(self.receive, None)

    def receive(self, timeout: Optional[float] = None) -> Optional[DrivenDelivery]:
        delivery = self.run(self.client.receive(timeout))
        return DrivenDelivery(self, delivery) if delivery else None

    def close(self) -> None:
        if not self.loop.is_closed():
            self.run(self.client.close())


class DrivenDelivery:
    """An AsyncDelivery with the methods of a Delivery."""

    def __init__(self, client: Driven, delivery: AsyncDelivery) -> None:
        self.client, self.delivery = client, delivery

    def __repr__(self) -> str:
        return repr(self.delivery)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.delivery, name)
        if not callable(member):
            return member

        async def call(*args: Any, **options: Any) -> None:
            result = member(*args, **options)
            if result is not None:
                await result

        return lambda *args, **options: self.client.run(call(*args, **options))


AnyClient = Union[Client, Driven]
AnyDelivery = Union[Delivery, DrivenDelivery]


def core_of(client: AnyClient) -> Core[Any]:
    return client.client._engine.core if isinstance(client, Driven) else client._engine.core


class Case(Watched):
    """A test with a watchdog. `face` is the kind of client that it is about."""

    face: Callable[..., AnyClient] = Client

    def script(self, *steps: Callable[[Connection], Any]) -> Script:
        script = Script(*steps)
        self.addCleanup(script.remove)
        return script

    def join(self, where: Any, name: str = "Ann", **options: Any) -> Any:
        client = type(self).face(name, endpoint=where.endpoint, **options)
        if isinstance(client, Driven):
            self.addCleanup(client.end_loop)
        self.addCleanup(client.close)
        return client

    def wait(self, client: AnyClient, done: Callable[[], Any]) -> None:
        """Waits until an envelope, or the loss of a connection, makes `done()` true."""
        if isinstance(client, Driven):
            self.assertTrue(client.run(client.client._engine.changed.wait_for(done, LIMIT_S)))
        else:
            with client._engine.lock:
                self.assertTrue(client._engine.lock.wait_for(done, LIMIT_S))

    def receive(self, client: AnyClient) -> AnyDelivery:
        delivery = client.receive(LIMIT_S)
        assert delivery, "no delivery came"
        return delivery
