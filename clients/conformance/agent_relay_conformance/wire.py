"""Frames and envelopes of docs/PROTOCOL.md, and one end of a stream that carries them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from typing import Any, Deque, Dict, Iterator, NamedTuple, Optional

Envelope = Dict[str, Any]

FRAME_BYTES_MAX = 1 << 20
#: So many frames are cited in the verdict about a rule that failed.
CITED_MAX = 6
#: The longest path of a socket.
PATH_BYTES_MAX = 107 if sys.platform == "linux" else 103


class Failed(Exception):
    """A rule is broken. The text is what was expected and what came."""


class Skipped(Exception):
    """A rule cannot be checked here. The text is the reason."""


class UsageError(Exception):
    """The command line is wrong. The text is what is wrong and the remedy."""


class Stopped(Exception):
    """No further rule can be checked. The text is the reason and the remedy."""


class Received(NamedTuple):
    """A frame and the time it was complete. Without `envelope`, it was not a JSON object."""

    envelope: Optional[Envelope]
    frame: bytes
    at: float


class Cited(NamedTuple):
    """A frame that a verdict cites. `about` is the id of the envelope that it answers."""

    by: str
    type: str
    id: str
    about: str

    def __str__(self) -> str:
        return f"{self.by} {self.type} {self.id}" + (f" about {self.about}" if self.about else "")


#: The last frames of a rule's connections.
Trace = Deque[Cited]


def new_trace() -> Trace:
    return deque(maxlen=CITED_MAX)


def new_folder() -> str:
    """Creates a directory of a run, with room for the path of a socket."""
    longest = PATH_BYTES_MAX - len("/relay.sock")
    try:
        folder = tempfile.mkdtemp(prefix="ar-kit-")
    except OSError as error:
        raise Stopped(f"no temporary directory: {error}. Set TMPDIR to a directory") from None
    if len(os.fsencode(folder)) > longest:
        os.rmdir(folder)
        raise Stopped(
            f"{folder} is too long for the path of a socket: set TMPDIR to a shorter directory, "
            "such as /tmp")
    return folder


def envelope(kind: str, payload: Any, id: str = "", **members: Any) -> Envelope:
    """Returns an envelope. `from_` is the member `from`."""
    whole: Envelope = {"v": 1, "type": kind, "id": id or str(uuid.uuid4())}
    whole["ts"] = int(time.time() * 1000)
    whole.update({"from" if key == "from_" else key: value for key, value in members.items()})
    whole["payload"] = payload
    return whole


def frame(data: bytes) -> bytes:
    """Returns a frame with these bytes after its length."""
    return len(data).to_bytes(4, "big") + data


def encode(whole: Envelope) -> bytes:
    """Returns an envelope as a frame."""
    return frame(json.dumps(whole).encode())


def decode(data: bytes) -> Optional[Envelope]:
    """Returns the envelope in a frame without its length, or None if it is not a JSON object."""
    with contextlib.suppress(ValueError, RecursionError):
        whole = json.loads(data.decode())
        if isinstance(whole, dict):
            return whole
    return None


def payload_of(whole: Optional[Envelope]) -> Dict[str, Any]:
    """Returns the payload of an envelope, or an empty one if it is not an object."""
    payload = (whole or {}).get("payload")
    return payload if isinstance(payload, dict) else {}


def brief(whole: Any) -> str:
    """Returns an envelope or another value in at most 400 characters, for an error."""
    text = json.dumps(whole)
    return text if len(text) <= 400 else text[:300] + " … " + text[-90:]


class Stream:
    """One end of a stream of frames. Another thread can call `frames`.

    Frames that are written are noted in `trace`. A subclass notes those that come.
    """

    def __init__(self, stream: socket.socket, trace: Trace) -> None:
        self.socket, self.trace = stream, trace
        self.writing = threading.Lock()

    def write(self, data: bytes) -> None:
        """Writes bytes, and notes them if they are one frame."""
        self.note("kit", decode(data[4:]))
        self.write_unnoted(data)

    def write_unnoted(self, data: bytes) -> None:
        """Writes bytes. An end of the connection is not an error here: the reader notices it."""
        with self.writing, contextlib.suppress(OSError):
            self.socket.sendall(data)

    def note(self, by: str, whole: Optional[Envelope]) -> None:
        """Notes a frame in the trace. A frame without an envelope has no id to cite."""
        if whole is None:
            return
        payload = payload_of(whole)
        about = payload.get("ack_id") or payload.get("ref") or ""
        texts = (str(text)[:128] for text in (whole.get("type"), whole.get("id"), about))
        self.trace.append(Cited(by + self.role(), *texts))

    def role(self) -> str:
        """Returns what tells this connection from others, for the trace."""
        return ""

    def send(self, kind: str, payload: Any, id: str = "", **members: Any) -> str:
        """Sends an envelope and returns its id."""
        whole = envelope(kind, payload, id, **members)
        self.write(encode(whole))
        return str(whole["id"])

    def frames(self) -> Iterator[Received]:
        """Yields frames until the stream ends. A length over 64 MiB ends it, too."""
        data = bytearray()
        while True:
            length = int.from_bytes(data[:4], "big") if len(data) >= 4 else 0
            if len(data) >= 4 and length > 64 << 20:
                yield Received(None, bytes(data), time.monotonic())
                return
            if len(data) >= 4 and len(data) >= 4 + length:
                whole = bytes(data[4 : 4 + length])
                del data[: 4 + length]
                yield Received(decode(whole), whole, time.monotonic())
                continue
            more = b""
            with contextlib.suppress(OSError):
                more = self.socket.recv(65536)
            if not more:
                return
            data += more

    def end(self) -> None:
        """Ends the connection in both directions. The other end notices."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        self.socket.close()
