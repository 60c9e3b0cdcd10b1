"""Streams to the daemon: Unix sockets and Windows named pipes, and the check of who listens there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
import threading
from queue import SimpleQueue
from typing import Any, Callable, Optional, Protocol, Tuple, TypeVar

CONNECT_S = 10.0  # the longest wait for a place in the queue of a daemon that does not accept
READ_BYTES = 1 << 16
T = TypeVar("T")

if sys.platform == "win32":
    import _winapi
    import ctypes
    from multiprocessing.connection import PipeConnection

    HOME = os.path.join(os.environ.get("LOCALAPPDATA", ""), "agent-relay")
    DEFAULTS = [r"\\.\pipe\agent-relay"]

    class Stream:
        """A connection to a named pipe, with the methods of a socket."""

        def __init__(self, name: str) -> None:
            # FILE_FLAG_OVERLAPPED, SECURITY_SQOS_PRESENT and SECURITY_IDENTIFICATION
            self._pipe = PipeConnection(_winapi.CreateFile(name, 0x12019B, 0, 0, 3, 0x40110000, 0))
            self.close, self.sendall = self._pipe.close, self._pipe.send_bytes
            api, token, owner = ctypes.windll.advapi32, ctypes.c_void_p(), ctypes.c_void_p()
            user, rest = (ctypes.c_void_p * 64)(), ctypes.c_void_p()  # A TOKEN_USER begins with a SID's address.
            process, handle = ctypes.c_void_p(_winapi.GetCurrentProcess()), ctypes.c_void_p(self._pipe.fileno())
            known = api.OpenProcessToken(process, 8, ctypes.byref(token))  # 8 is TOKEN_QUERY.
            known = known and api.GetTokenInformation(token, 1, user, ctypes.sizeof(user), ctypes.byref(rest))
            out = (ctypes.byref(owner), None, None, None, ctypes.byref(rest))
            known = known and not api.GetSecurityInfo(handle, 6, 1, *out)  # the owner of a kernel object
            system = known and any(api.IsWellKnownSid(owner, which) for which in (22, 26))  # and administrators
            if not system and not (known and api.EqualSid(owner, ctypes.c_void_p(user[0]))):
                self._pipe.close()
                raise PermissionError(13, "another user listens there")

        def recv(self, _: int) -> bytes:
            return self._pipe.recv_bytes()  # At most 128 bytes, as the pipe has no message boundaries.

        def shutdown(self, _: int) -> None:
            self._pipe.close()

    connect = Stream
else:
    HOME = os.path.join(os.environ.get("XDG_STATE_HOME") or "~/.local/state", "agent-relay")
    HOME = "~/Library/Application Support/agent-relay" if sys.platform == "darwin" else HOME
    DEFAULTS = ["/tmp/agent-relay.sock", f"/tmp/agent-relay-{os.getuid()}.sock"]
    Stream = socket.socket

    def connect(endpoint: str, wait_s: float = CONNECT_S) -> Stream:
        """Opens a stream. Raises `PermissionError` unless this user or the system runs the other end.

        With a `wait_s` of 0, it raises `BlockingIOError` if the daemon's queue is full, and the stream does
        not block.
        """
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.settimeout(wait_s)
            stream.connect(endpoint)
            stream.settimeout(None if wait_s else 0.0)
            # LOCAL_PEERCRED of macOS is option 1 of SOL_LOCAL (0). The second number of both is the uid.
            level = socket.SOL_SOCKET if sys.platform == "linux" else 0
            user = struct.unpack_from("I", stream.getsockopt(level, getattr(socket, "SO_PEERCRED", 1), 76), 4)[0]
            if user not in (0, os.getuid()):
                raise PermissionError(13, f"another user ({user}) listens there")
        except OSError as error:
            stream.close()
            why = f"no daemon at {endpoint}: {error.strerror or error} (`agent-relay up` starts one)"
            raise type(error)(error.errno, why) from error
        return stream


def default_endpoint() -> str:
    """Returns the endpoint of this user's daemon, as docs/PROTOCOL.md, section 2, says."""
    if os.environ.get("AGENT_RELAY_ENDPOINT"):
        return os.environ["AGENT_RELAY_ENDPOINT"]
    named = os.environ.get("AGENT_RELAY_HOME")
    path = os.path.join(named or HOME, "endpoint")
    with contextlib.suppress(OSError, UnicodeDecodeError), open(os.path.expanduser(path), encoding="utf-8") as file:
        return file.read(4096).strip()
    if named:  # The system's defaults are those of the default home only.
        return os.path.join(named, "relay.sock")
    return next((path for path in DEFAULTS if os.access(path, os.W_OK)), DEFAULTS[0])


class AsyncStream(Protocol):
    """A stream for asyncio. Any method but `close()` raises `OSError` if the stream has failed."""

    async def recv(self) -> bytes:
        """Reads at least one byte; none at the end of the stream."""

    async def sendall(self, data: bytes) -> None: ...

    def hang_up(self) -> None:
        """Ends the stream: `recv()` returns nothing, or fails."""

    def close(self) -> None: ...


class LoopStream:
    """A Unix socket that the event loop watches."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._loop = stream, asyncio.get_running_loop()

    async def recv(self) -> bytes:
        return await self._loop.sock_recv(self._stream, READ_BYTES)

    async def sendall(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._stream, data)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(2)

    def close(self) -> None:
        self._stream.close()


class Worker:
    """A thread that makes blocking calls for asyncio, one after the other, until `end()`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Optional[Tuple[asyncio.Future[Any], Callable[[], Any]]]] = SimpleQueue()
        threading.Thread(target=self._run, name="agent-relay stream", daemon=True).start()

    async def call(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((future, work))
        return await future

    def end(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        for future, work in iter(self._calls.get, None):
            try:
                result, error = work(), None
            except Exception as caught:
                result, error = None, caught
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(complete, future, result, error)


def complete(future: asyncio.Future[T], result: T, error: Optional[Exception]) -> None:
    if not future.done():
        future.set_exception(error) if error else future.set_result(result)


class ThreadedStream:
    """A stream outside the event loop: one thread reads, another one writes."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._reader, self._writer = stream, Worker(), Worker()

    async def recv(self) -> bytes:
        return await self._reader.call(lambda: bytes(self._stream.recv(READ_BYTES)))

    async def sendall(self, data: bytes) -> None:
        await self._writer.call(lambda: self._stream.sendall(data))

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.shutdown(2)

    def close(self) -> None:
        self.hang_up()  # Ends the waits of the threads.
        self._writer.end()
        self._reader.end()
        self._stream.close()


async def connect_async(endpoint: str) -> AsyncStream:
    """Opens a stream for the running event loop, as `connect()` does."""
    if sys.platform == "win32":
        return ThreadedStream(connect(endpoint))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CONNECT_S
    while True:
        try:
            return LoopStream(connect(endpoint, 0))
        except BlockingIOError:  # No event tells that the daemon's queue has room.
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(0.02)
