"""Streams to the daemon: Unix sockets and Windows named pipes, and the check of who listens there."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys

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

    def connect(endpoint: str) -> Stream:
        """Opens a stream. Raises `PermissionError` unless this user or the system runs the other end."""
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.settimeout(10)
            stream.connect(endpoint)
            stream.settimeout(None)
            # LOCAL_PEERCRED of macOS is option 1 of SOL_LOCAL (0). The second number of both is the uid.
            level = socket.SOL_SOCKET if sys.platform == "linux" else 0
            user = struct.unpack_from("I", stream.getsockopt(level, getattr(socket, "SO_PEERCRED", 1), 76), 4)[0]
            if user not in (0, os.getuid()):
                raise PermissionError(13, f"another user ({user}) listens there")
        except OSError as error:
            stream.close()
            raise type(error)(error.errno, f"no daemon at {endpoint}: {error}") from error
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
