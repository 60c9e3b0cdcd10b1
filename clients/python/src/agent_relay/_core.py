"""The state of a client: bytes and calls go in, frames come out. It has no I/O, thread, lock or clock.

An engine (`_blocking.py`, `_asyncio.py`) opens connections, passes on what it reads, writes what `take()`
returns, and says what time it is: `now` is in seconds of a clock that never goes back.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import OrderedDict, deque
from itertools import accumulate
from typing import Any, Callable, Deque, Dict, Generic, List, Optional, Set, Tuple, TypeVar

from ._message import Message
from ._outbox import NEVER, Outbox
from ._requests import ACK, ANSWER, REPLY_TO, Request
from ._types import Ended, Refused, RelayError
from ._wire import FRAME_BYTES, encode, get, parse

# Times of docs/PROTOCOL.md, section 15, in seconds.
WELCOME_S, STEADY_S, FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 10.0, 0.1, 30.0
ATTEMPTS = 10  # in a cycle of reconnecting
LONGEST_PAUSE_S = 86400.0  # that a BYE can ask for
TEMPORARY = {"HANDSHAKE_TIMEOUT", "HEARTBEAT_TIMEOUT", "TOO_MANY_CLIENTS", "SHUTTING_DOWN", "INTERNAL"}

# Bounds. Their outcomes are in README.md, "What the library promises".
UNREAD, UNREAD_BYTES = 1000, 4 << 20  # deliveries that wait for receive()
WAITING_FACTOR = 4  # of these limits, during a call that waits
INFLIGHT, STREAMS, SEEN, FAILURES, CONTROL_FRAMES = 4096, 1024, 16384, 1024, 16384
TEXT, NAME, CODE, ID, NONCE = 4096, 64, 64, 128, 1024  # characters of the daemon's texts that are kept

D = TypeVar("D", bound=Message)


class Core(Generic[D]):
    """A client under a name. `deliver` makes a delivery of an envelope and its size in bytes."""

    def __init__(self, name: str, key: str, max_inflight: int, attempts: int, forever: bool,
                 deliver: Callable[[Dict[str, Any], int], D]) -> None:
        self.name, self.session_id = name, ""
        self.failures: Deque[Refused] = deque(maxlen=FAILURES)
        self.ended: Optional[Ended] = None
        self.closing = self.ready = False
        self.waiting = 0  # Calls that wait for the daemon.
        self.retry_at = 0.0  # The next connection is opened then.
        self.outbox = Outbox()
        self.unread: Deque[D] = deque()
        self._unread_bytes = 0
        self._key, self._max_inflight, self._attempts, self._forever = key, max_inflight, attempts, forever
        self._deliver = deliver
        self._token = ""
        self._connected = self._resuming = False
        self._failed = self._waits = 0  # Attempts of this cycle.
        self._since = 0.0  # WELCOME of this connection.
        self._deadline = NEVER  # the deadline of WELCOME
        self._pause_s = 0.0  # The daemon's BYE asked for it.
        self._heartbeat, self._alive_at, self._frame_max = 5.0, NEVER, 1 << 20
        self._data = bytearray()
        self._control: List[bytes] = []  # Frames for this connection only.
        self._patterns: Set[str] = set()
        self._unanswered: Dict[str, str] = {}  # Patterns that this session possibly lacks, by SUBSCRIBE's id.
        self._seen: OrderedDict[str, Optional[bool]] = OrderedDict()  # Acknowledged? None: returned.
        self._positions: OrderedDict[Tuple[str, str], int] = OrderedDict()

    @property
    def state(self) -> str:
        if self.ended:
            return "closed" if self.closing else "ended"
        if self.closing:
            return "closing"
        return "ready" if self.ready else "reconnecting" if self.session_id else "joining"

    # Calls

    def add(self, request: Request[Any], now: float) -> None:
        """Sends a request as soon as possible. Raises `Ended`, or `Refused` if it is too large."""
        if self.ended:
            raise self.ended.with_traceback(None)
        if len(request.frame) - 4 > self._frame_max:
            raise Refused(f"the message exceeds {self._frame_max} bytes", "TOO_LARGE", id=request.id)
        if request.kind == "UNSUBSCRIBE":
            self._patterns.discard(request.topic)
        request.until = now + request.keep_s
        self.outbox.add(request)

    def settle(self, message: Message, kind: str, payload: Dict[str, Any]) -> None:
        """Acknowledges or returns a delivery, unless it was acknowledged. No `kind`: its answer has done so."""
        frame = encode(kind, {"ack_id": message.id, **payload})
        if len(frame) - 4 > self._frame_max:
            raise Refused(f"the reason exceeds {self._frame_max} bytes", "TOO_LARGE", id=message.id)
        if not self._seen.get(message.id):
            self._seen[message.id] = kind != "NACK" or None
            if kind and self.ready:  # Otherwise the delivery comes again, or its answer acknowledges it.
                self._control.append(frame)

    def next_delivery(self) -> Optional[D]:
        """Takes the oldest unread delivery. Raises `Ended` if there is none and the client was not closed."""
        if self.unread:
            delivery = self.unread.popleft()
            self._unread_bytes -= delivery._size
            return delivery
        if self.ended and not self.closing:
            raise self.ended.with_traceback(None)
        return None

    def is_full(self, factor: int = WAITING_FACTOR) -> bool:
        """Returns whether too many deliveries are unread."""
        return len(self.unread) >= factor * UNREAD or self._unread_bytes >= factor * UNREAD_BYTES

    def why_late(self, request: Optional[Request[Any]] = None) -> Exception:
        """Returns why a call that waits must fail now."""
        if self.ended:
            return self.ended.with_traceback(None)
        if self.is_full():
            return TimeoutError("too many deliveries are unread: call receive()")
        return TimeoutError(f"no answer from {request and request.to or 'the daemon'} in time")

    def close(self) -> None:
        """Leaves. An engine hangs up if the connection is not ready, or does not end soon."""
        if self.ready and not self.closing:
            self._put("BYE", reason="done")
        self.closing = True
        if not self._connected:
            self.end(Ended("the client was closed"))

    def end(self, error: Ended) -> None:
        """Ends the client, unless it has ended."""
        self.ended = self.ended or error

    # The connection

    def opened(self, now: float) -> None:
        """A stream is open. Raises `Ended` if the client was closed meanwhile."""
        if self.ended:
            raise self.ended
        self._connected, self._deadline = True, now + WELCOME_S
        self._resuming = bool(self._token and not self._key)
        self._greet()

    def feed(self, data: bytes, now: float) -> None:
        """Takes the bytes of a read; no bytes mean that the connection has ended, and raise `RelayError`."""
        if not data:
            raise RelayError("no WELCOME" if self.is_overdue(now) else "the connection ended")
        self._data += data

    def step(self, now: float) -> bool:
        """Handles the next frame; False if it is incomplete. An exception ends the connection."""
        if len(self._data) < 4:
            return False
        length = int.from_bytes(self._data[:4], "big")
        if not 1 <= length <= min(self._frame_max, FRAME_BYTES):
            raise RelayError(f"the daemon sent a frame of {length} bytes")
        if len(self._data) < 4 + length:
            return False
        envelope = parse(bytes(self._data[4 : 4 + length]))
        del self._data[: 4 + length]
        self._alive_at = now + self._heartbeat
        self._handle(envelope, length, now)
        if len(self._control) > CONTROL_FRAMES:
            raise RelayError("the daemon does not read")
        return True

    def is_paused(self) -> bool:
        """Returns whether no further frame is to be handled until something was received."""
        return self.ready and not self.closing and self.is_full(WAITING_FACTOR if self.waiting else 1)

    def stay_alive(self, now: float) -> float:
        """Shows the daemon during a pause that the client lives. Returns the seconds until the next call."""
        if now >= self._alive_at:
            self._put("PONG", nonce="")
            self._alive_at = now + self._heartbeat
        return self._alive_at - now

    def is_overdue(self, now: float) -> bool:
        """Returns whether WELCOME has not come in time: the engine then hangs up."""
        return now >= self._deadline

    def take(self, now: float) -> bytes:
        """Returns the frames that are to be written now."""
        if not self._connected:
            return b""
        frames, self._control = self._control, []
        return b"".join(frames + self.outbox.take(now) if self.ready else frames)

    def wake_at(self) -> float:
        """Returns when `take()` or `is_overdue()` may return something else by itself."""
        return min(self._deadline, self.outbox.retry_at() if self.ready else NEVER)

    def lost(self, error: Exception, now: float) -> None:
        """A connection has ended, or could not be opened. Sets `retry_at`, or `ended`."""
        self._connected = self.ready = False
        self._deadline, self._control = NEVER, []
        self._data.clear()
        self.outbox.start_over(now)
        if self._since and now - self._since >= STEADY_S:
            self._failed = self._waits = 0
        else:
            self._failed += 1
        limit: float = self._attempts
        if self.session_id:
            limit = NEVER if self._forever else ATTEMPTS
        if self.closing:
            self.end(Ended("the client was closed"))
        elif isinstance(error, Ended):
            self.end(error)
        elif self._failed < limit:
            wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(self._waits, 15)) * random.uniform(0.85, 1.15)
            self._waits += 1
            self.retry_at = now + max(wait, self._pause_s)
        else:
            is_absent = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            code = "NO_DAEMON" if is_absent else get(vars(error), "code", "")
            why = getattr(error, "strerror", None) or error
            self.end(Ended(f"{why} (attempts: {self._failed})" if self._failed > 1 else str(why), code))
        self._since = self._pause_s = 0.0

    # Envelopes

    def _put(self, kind: str, topic: str = "", id: str = "", **payload: Any) -> None:
        self._control.append(encode(kind, payload, id, topic=topic))

    def _greet(self) -> None:
        """Sends RESUME, or HELLO if the session cannot be resumed or the name has a key."""
        if self._resuming:
            every = [{"peer": of[0], "topic": of[1], "last_seq": seq} for of, seq in reversed(self._positions.items())]
            sizes = accumulate(len(json.dumps(stream)) + 64 for stream in every)  # SYNC adds a number to each.
            streams = [stream for stream, size in zip(every, sizes) if size <= self._frame_max - 1024]
            return self._put("RESUME", agent=self.name, resume_token=self._token, streams=streams)
        hello: Dict[str, Any] = {"session": {"resume_token": self._token}} if self._token else {}
        hello.update({"auth": {"key": self._key}} if self._key else {})
        limits = {"resume": True, "max_inflight": max(0, min(self._max_inflight, INFLIGHT))}
        self._put("HELLO", agent=self.name, capabilities=limits, **hello)

    def _handle(self, envelope: Dict[str, Any], size: int, now: float) -> None:
        kind, payload = envelope["type"], envelope["payload"]
        if kind in ("ACK", "NACK", "ERROR"):
            self._unanswered.pop(about(payload), None)
        if kind == "PING":
            self._put("PONG", nonce=get(payload, "nonce", "")[:NONCE])
        elif kind == "BYE":
            self._pause_s = min(get(payload, "retry_after_ms", 0) / 1000, LONGEST_PAUSE_S)
            raise RelayError("the daemon left: " + get(payload, "reason", "")[:TEXT])
        elif kind == "ERROR" and payload.get("fatal") is True:
            code = get(payload, "code", "")[:CODE]
            raise (RelayError if code in TEMPORARY else Ended)(get(payload, "message", "")[:TEXT], code)
        elif not self.ready:
            self._on_handshake(kind, payload, now)
        elif kind == "DELIVER":
            self._on_deliver(envelope, size)
        elif kind == "ACK":
            self._on_ack(envelope)
        elif kind == "BUSY" and self.outbox.get(about(payload)):
            self._on_busy(payload, now)
        elif kind in ("NACK", "ERROR", "BUSY"):
            self._on_failure(envelope)

    def _on_handshake(self, kind: str, payload: Dict[str, Any], now: float) -> None:
        if kind == "WELCOME":
            return self._on_welcome(payload, now)
        if kind not in ("ERROR", "NACK"):
            raise RelayError(f"the daemon sent {kind[:CODE]} before WELCOME")
        failure = refusal(kind, payload)
        if failure.code == "RESUME_REJECTED":
            self._token = ""
        if self._resuming:
            self._resuming, self._positions = False, OrderedDict()
            self.failures.append(failure)
            self._greet()

    def _on_welcome(self, payload: Dict[str, Any], now: float) -> None:
        session_id, server = get(payload, "session_id", ""), payload.get("server")
        is_same = self.session_id == session_id
        self.name, self.session_id = get(payload, "agent", ""), session_id
        self._token = get(payload, "resume_token", "")
        self._frame_max = get(server, "max_frame_bytes", 1 << 20)
        self._heartbeat = max(0.1, min(3600.0, get(server, "heartbeat_ms", 5000) / 1000))
        self._alive_at = now + self._heartbeat
        self.ready, self._since, self._deadline = True, now, NEVER
        if self._unanswered or not is_same:
            self._unanswered = {str(uuid.uuid4()): pattern for pattern in self._patterns}
        for id, pattern in self._unanswered.items():
            self._put("SUBSCRIBE", pattern, id)
        if not is_same:
            self._positions = OrderedDict()

    def _on_deliver(self, envelope: Dict[str, Any], size: int) -> None:
        delivery = self._deliver(envelope, size)
        reply_to = get(delivery.meta, "replyTo", "") if delivery.sender == "@relay" else ""
        if reply_to.startswith(REPLY_TO):
            request = self.outbox.get(reply_to)
            return request.succeed(envelope) if request else None  # Nobody waits for it any more.
        if delivery.requires_ack and self._seen.get(delivery.id):
            self._put("ACK", ack_id=delivery.id, seq=delivery.seq)
        elif self._is_new(delivery.id) and not self.closing:
            self.unread.append(delivery)
            self._unread_bytes += size
        if delivery.sender != "@relay":
            stream = (delivery.sender, delivery.topic)
            self._positions[stream] = max(self._positions.pop(stream, 0), delivery.seq)
            if len(self._positions) > STREAMS:
                self._positions.popitem(last=False)

    def _on_ack(self, envelope: Dict[str, Any]) -> None:
        payload = envelope["payload"]
        request = self.outbox.get(about(payload))
        is_answer = payload.get("state") != "accepted"
        if request and (request.waits_for == ACK or (request.waits_for == ANSWER and is_answer)):
            request.succeed(envelope)
            if request.kind == "SUBSCRIBE":
                self._patterns.add(request.topic)

    def _on_busy(self, payload: Dict[str, Any], now: float) -> None:
        request = self.outbox.get(about(payload))
        if request:
            first = max(0.001, min(get(payload, "retry_after_ms", 50) / 1000, LONGEST_WAIT_S))
            wait = min(LONGEST_WAIT_S, first * 2 ** min(request.busy, 15)) * random.uniform(0.85, 1.15)
            request.busy += 1
            self.outbox.hold(request, now + wait)

    def _on_failure(self, envelope: Dict[str, Any]) -> None:
        payload, failure = envelope["payload"], refusal(envelope["type"], envelope["payload"])
        if not self._is_new(envelope["id"] + failure.id):
            return
        request = self.outbox.get(failure.id)
        is_of_several = failure.to and request and request.to == "*" and "correlationId" not in payload
        is_late = failure.code == "SYNC_TIMEOUT"
        if request and not request.done and not is_of_several:
            request.fail(TimeoutError(get(payload, "message", "")[:TEXT]) if is_late else failure)
        elif not is_late:
            self.failures.append(failure)

    def _is_new(self, id: str) -> bool:
        is_new, self._seen[id] = self._seen.get(id) is None, self._seen.get(id) or False
        if len(self._seen) > SEEN:
            self._seen.popitem(last=False)
        return is_new


def about(payload: Dict[str, Any]) -> str:
    """Returns the id of the envelope that an ACK, NACK, BUSY or ERROR is about, or ""."""
    return get(payload, "ack_id", "")[:ID] or get(payload, "ref", "")[:ID]


def refusal(kind: str, payload: Dict[str, Any]) -> Refused:
    """Returns the error in a NACK, BUSY or ERROR."""
    code = get(payload, "code", "")[:CODE] or kind
    return Refused(get(payload, "message", "")[:TEXT], code, get(payload, "to", "")[:NAME], about(payload))


class Properties:
    """The properties of a client, blocking or not."""

    @property
    def _core(self) -> Core[Any]:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name, as the daemon writes it."""
        return self._core.name

    @property
    def session_id(self) -> str:
        """The session, which a new connection resumes unless the daemon has forgotten it."""
        return self._core.session_id

    @property
    def failures(self) -> Deque[Refused]:
        """The last 1,024 failures that no call raised, oldest first. They may be removed."""
        return self._core.failures
