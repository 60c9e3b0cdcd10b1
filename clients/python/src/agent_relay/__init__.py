"""A client of Agent Relay, which routes messages between named agents on one machine."""

from __future__ import annotations

import contextlib
import json
import random
import re
import threading
import time
import uuid
from collections import OrderedDict, deque
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ._stream import Stream, connect, default_endpoint

__all__ = "Answer Client Delivery Ended Refused RelayError".split()

WELCOME_S, STEADY_S, ATTEMPTS, FIRST_WAIT_S, LONGEST_WAIT_S, NEVER = 10.0, 10.0, 10, 0.1, 30.0, float("inf")
TEMPORARY = {"HANDSHAKE_TIMEOUT", "HEARTBEAT_TIMEOUT", "TOO_MANY_CLIENTS", "SHUTTING_DOWN", "INTERNAL"}
UNREAD, UNREAD_BYTES = 1000, 4 << 20  # deliveries that wait for receive(); four times that during a call
RECENT, RECENT_BYTES = 256, 4 << 20  # at-most-once messages and answers that may have to be sent again
INFLIGHT, STREAMS, SEEN, FAILURES, CONTROL_FRAMES, FRAME_BYTES = 4096, 1024, 16384, 1024, 16384, 64 << 20
TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)  # of JSON: texts and brackets

# An answer to a question. By custom, `body` is a member of `data`.
Answer = NamedTuple("Answer", [("sender", str), ("body", str), ("response", Optional[bool]), ("data", Any)])


class RelayError(Exception):
    """A failure, with its code (docs/PROTOCOL.md, section 14), recipient and message, or "" for each."""

    def __init__(self, message: str, code: str = "", to: str = "", id: str = "") -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.code, self.to, self.id = code, to, id


class Refused(RelayError):
    """The daemon or a recipient refused a message, a subscription or an answer."""


class Ended(RelayError):
    """The client has ended: closed, refused by the daemon, or without a daemon (`code` is `NO_DAEMON`)."""


class Delivery:
    """A received message. With `requires_ack`, it comes again until `ack()`, `refuse()` or `answer()`."""

    def __init__(self, client: Client, envelope: Dict[str, Any], size: int) -> None:
        delivery: Dict[str, Any] = envelope["delivery"]
        self._client, self._size, self.id = client, size, get(envelope, "id", "")
        self.sender, self.to, self.topic = (get(envelope, key, "")[:256] for key in ("from", "to", "topic"))
        self.payload: Dict[str, Any] = envelope["payload"]
        self.meta: Dict[str, Any] = envelope.get("payload_meta", {})
        self.seq, self.attempt = int(get(delivery, "seq", 0)), int(get(delivery, "attempt", 1))
        self.requires_ack, self.broadcast = delivery.get("requires_ack") is True, "originalTo" in delivery
        self.body, self.auth = get(self.payload, "body", ""), get(delivery.get("sender"), "auth", "")
        self.question = get(self.meta.get("sync"), "correlationId", "")  # "" if it is no question.

    def ack(self) -> None:
        """Acknowledges the message: it is safe here, and the daemon forgets it."""
        self._client._settle(self, "ACK", seq=self.seq)

    def refuse(self, reason: str, code: str = "REFUSED", retry_after: Optional[float] = None) -> None:
        """Returns the message to its sender, or lets it come again after `retry_after` seconds."""
        retry = {} if retry_after is None else {"retry_after_ms": int(retry_after * 1000)}
        self._client._settle(self, "NACK", code=code, message=reason, **retry)

    def answer(self, body: str, data: Optional[Dict[str, Any]] = None, response: bool = True) -> None:
        """Answers a question and acknowledges it. The next connection sends the answer again."""
        payload = {"ack_id": self.id, "seq": self.seq, "correlationId": self.question, "response": response}
        payload["responseData"] = {**(data or {}), "body": body}
        seconds = get(self.meta.get("sync"), "timeoutMs", 30_000) / 1000
        self._client._request("ACK", payload, seconds, "written", until=time.monotonic() + seconds)
        self._client._settle(self, "")


class Client(contextlib.AbstractContextManager["Client"]):
    """A connection to the daemon under a name, kept up until `close()` or a permanent error.

    The constructor tries to join `attempts` times, then raises `Ended`. `key` is the key of the name; at most
    `max_inflight` messages are unacknowledged. `failures` has the last 1,024 failures that no call raised.
    """

    def __init__(self, name: str, *, endpoint: str = "", key: str = "", max_inflight: int = 256,
                 attempts: int = 1) -> None:
        self.name, self.session_id, self._token, self._key = name, "", "", key
        self._max_inflight, self._endpoint, self._attempts = max_inflight, endpoint, attempts
        self.failures: Deque[Refused] = deque(maxlen=FAILURES)
        self._lock = threading.Condition()  # Private methods expect it to be held unless they say so.
        self._link: Optional[Stream] = None
        self._control: List[bytes] = []  # Frames for this connection only.
        self._ready = self._resuming = self._writing = self._closing = False
        self._ended: Optional[Ended] = None
        self._since, self._not_before, self._heartbeat, self._frame_max = 0.0, 0.0, 5.0, 1 << 20
        self._deadline, self._unread_bytes, self._waiting = NEVER, 0, 0  # The deadline is that of WELCOME.
        self._outbox: Dict[str, Any] = {}  # Messages and requests by their ids, in order.
        self._patterns: Set[str] = set()
        self._unanswered: Dict[str, str] = {}  # Patterns that this session possibly lacks, by SUBSCRIBE's id.
        self._unread: Deque[Delivery] = deque()
        self._seen: OrderedDict[str, Optional[bool]] = OrderedDict()  # Acknowledged? None: returned.
        self._positions: OrderedDict[Tuple[str, str], int] = OrderedDict()
        for run in (self._run, self._write):  # Reading never waits for writing.
            threading.Thread(target=run, daemon=True).start()
        with self._lock:
            self._await(lambda: self.session_id, None, "")

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Delivery]:
        """Yields deliveries until the client is closed. Raises `Ended` if it ends otherwise."""
        return iter(self.receive, None)

    def receive(self, timeout: Optional[float] = None) -> Optional[Delivery]:
        """Returns the next delivery; None if none comes in time, or once the client is closed."""
        with self._lock:
            self._lock.wait_for(lambda: self._unread or self._ended, timeout)
            if self._unread:
                self._unread_bytes -= self._unread[0]._size
                self._lock.notify_all()
                return self._unread.popleft()
            if self._ended and not self._closing:
                raise self._ended
            return None

    def send(self, to: str, body: str = "", *, topic: str = "", data: Any = None, thread: str = "",
             kind: str = "message", ack: bool = True, meta: Optional[Dict[str, Any]] = None,
             timeout: Optional[float] = None) -> Dict[str, Any]:
        """Sends a message to an agent, to everyone (`*`), or to all subscribers of a topic (`*`).

        With `ack`, it is sent at least once, and the method returns the daemon's ACK: it has `recipients` of a
        broadcast, and `away` if the recipient is not there. `meta` has members of `payload_meta`, such as
        `ttl_ms`. Raises `Refused`; `TimeoutError` if it is not known whether the daemon has the message.
        """
        payload = {"kind": kind, "body": body, "data": data, "thread": thread or None}
        members = {"to": to, "topic": topic, "payload_meta": {**(meta or {}), "requires_ack": True} if ack else meta}
        return dict(self._request("SEND", payload, timeout, "ack" if ack else "written", members))

    def ask(self, to: str, body: str, *, timeout: float = 30.0, data: Any = None, topic: str = "") -> Answer:
        """Asks an agent a question and returns its answer. Raises `Refused` and `TimeoutError`."""
        payload = {"kind": "message", "body": body, "data": data}
        sync = {"correlationId": str(uuid.uuid4()), "timeoutMs": max(1, int(timeout * 1000)), "blocking": True}
        members = {"to": to, "topic": topic, "payload_meta": {"requires_ack": True, "sync": sync}}
        return Answer(*self._request("SEND", payload, timeout, "answer", members))

    def subscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Subscribes to the topics that match a pattern, until `unsubscribe()` or `close()`."""
        self._request("SUBSCRIBE", {}, timeout, "ack", {"topic": pattern})

    def unsubscribe(self, pattern: str, timeout: Optional[float] = None) -> None:
        """Ends the subscription with this pattern."""
        self._patterns.discard(pattern)
        self._request("UNSUBSCRIBE", {}, timeout, "ack", {"topic": pattern})

    def close(self) -> None:
        """Leaves. Unacknowledged messages wait in the daemon for the next client of this name."""
        with self._lock:
            self._put("BYE", reason="done") if self._ready else self._hang_up()
            self._closing = True
            self._lock.notify_all()
            if not self._lock.wait_for(lambda: self._ended, 2):
                self._hang_up()

    def _await(self, done: Callable[[], object], timeout: Optional[float], why: str) -> None:
        self._waiting += 1
        self._lock.notify_all()
        self._lock.wait_for(lambda: done() or self._ended or self._is_full(4), timeout)
        self._waiting -= 1
        if not done():
            why = "too many deliveries are unread: call receive()" if self._is_full(4) else why
            raise (self._ended or TimeoutError(why)).with_traceback(None)

    def _request(self, kind: str, payload: Dict[str, Any], timeout: Optional[float], waits_for: str,
                 members: Dict[str, Any] = {}, until: float = 0.0) -> Any:
        """Sends an envelope until it is `written`, or its `ack` or `answer` has come. Takes the lock."""
        id, to = str(uuid.uuid4()), str(members.get("to") or "*").lower() if kind == "SEND" else ""
        request = SimpleNamespace(id=id, waits_for=waits_for, to=to, until=until, written=False, busy=0, retry_at=0.0)
        request.frame = frame = encode(kind, payload, id, **members)
        request.result, request.patterns = None, [members["topic"]] if kind == "SUBSCRIBE" else []
        with self._lock:
            if len(frame) - 4 > self._frame_max:
                raise Refused(f"the message exceeds {self._frame_max} bytes", "TOO_LARGE", id=id)
            try:
                self._outbox[id] = request
                self._await(lambda: request.result, timeout, f"no answer from {to or 'the daemon'} in time")
            finally:
                if waits_for != "written" or not request.result:
                    self._outbox.pop(id, None)
        if isinstance(request.result, Exception):
            raise request.result
        return request.result

    def _settle(self, delivery: Delivery, kind: str, **payload: Any) -> None:
        """Acknowledges or returns a delivery, unless it was acknowledged before. Takes the lock."""
        with self._lock:
            if len(encode(kind, {"ack_id": delivery.id, **payload})) - 4 > self._frame_max:
                raise Refused(f"the reason exceeds {self._frame_max} bytes", "TOO_LARGE", id=delivery.id)
            if not self._seen.get(delivery.id):
                self._seen[delivery.id] = kind != "NACK" or None
                if kind and self._ready:  # Otherwise the delivery comes again, or its answer acknowledges it.
                    self._put(kind, ack_id=delivery.id, **payload)

    def _put(self, kind: str, topic: str = "", id: str = "", **payload: Any) -> None:
        self._control.append(encode(kind, payload, id, topic=topic))
        self._lock.notify_all()

    def _is_new(self, id: str) -> bool:
        is_new, self._seen[id] = self._seen.get(id) is None, self._seen.get(id) or False
        if len(self._seen) > SEEN:
            self._seen.popitem(last=False)
        return is_new

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # The link has ended, or there is none.
            self._link.shutdown(2)  # type: ignore[union-attr]

    def _is_full(self, factor: int) -> bool:
        return len(self._unread) >= factor * UNREAD or self._unread_bytes >= factor * UNREAD_BYTES

    def _write(self) -> None:  # Takes the lock.
        while not self._ended:
            with self._lock:
                batch, wake_at = self._take()
                if not batch:
                    self._lock.wait(min(3600.0, max(0.0, wake_at - time.monotonic())))
                    continue
                link, self._writing = self._link, True
            with contextlib.suppress(OSError):  # The reading thread finds out why.
                link.sendall(batch)  # type: ignore[union-attr]
            with self._lock:
                self._writing = False
                self._lock.notify_all()

    def _take(self) -> Tuple[bytes, float]:
        """Returns the frames to be written now, and when to call again at the latest."""
        now, wake_at, busy = time.monotonic(), self._deadline, set()
        if not self._link or wake_at <= now:
            self._hang_up()
            return b"", NEVER
        frames, self._control = self._control, []
        for request in list(self._outbox.values()) if self._ready else []:
            if not request.written and request.retry_at > now:
                busy.add(request.to or request.id)  # No later message may overtake this one.
                wake_at = min(wake_at, request.retry_at)
            elif not request.written and request.to not in busy:
                frames.append(request.frame)
                request.written = True
                request.result = request.result or (request.waits_for == "written" and {"ack_id": request.id})
        recent = [r for r in self._outbox.values() if r.written and r.waits_for == "written"]
        while len(recent) > RECENT or sum(len(r.frame) for r in recent) > RECENT_BYTES:
            del self._outbox[recent.pop(0).id]
        return b"".join(frames), wake_at

    def _run(self) -> None:  # Takes the lock.
        attempts = waits = 0
        while not self._ended:
            attempts, self._since, self._not_before = attempts + 1, 0.0, 0.0
            try:
                self._serve()
            except Exception as caught:  # Whatever it is, it ends this connection only.
                error = caught
            with self._lock:
                self._ready, self._deadline, self._control = False, NEVER, []
                self._outbox = {id: r for id, r in self._outbox.items() if not r.result or time.monotonic() < r.until}
                for request in self._outbox.values():  # Without at-most-once messages, which are possibly lost.
                    request.written, request.retry_at = False, 0.0
                self._hang_up()
                self._lock.wait_for(lambda: not self._writing)
                if self._link:
                    self._link.close()
                self._link = None
                if self._since and time.monotonic() - self._since >= STEADY_S:
                    attempts = waits = 0
                limit = 0 if self._closing or isinstance(error, Ended) else self._attempts
                if attempts < (ATTEMPTS if limit and self.session_id else limit):
                    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**waits) * random.uniform(0.85, 1.15)
                    waits += 1
                    if not self._lock.wait_for(lambda: self._closing, max(wait, self._not_before)):
                        continue
                is_absent = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
                why = "the client was closed" if self._closing else f"{error} (attempts: {attempts})"
                code = "NO_DAEMON" if is_absent else getattr(error, "code", "")
                self._ended = error if isinstance(error, Ended) else Ended(why, code)
                self._lock.notify_all()

    def _serve(self) -> None:
        """Opens a connection and reads from it. Takes the lock. Raises an exception when it ends."""
        link, data = connect(self._endpoint or default_endpoint()), bytearray()
        with self._lock:
            self._link, self._deadline = link, time.monotonic() + WELCOME_S
            self._resuming = bool(self._token and not self._key)
            self._greet()
            if self._closing:
                raise Ended("the client was closed")
        while True:
            length = int.from_bytes(data[:4], "big") if len(data) >= 4 else 1
            if not 1 <= length <= min(self._frame_max, FRAME_BYTES):
                raise RelayError(f"the daemon sent a frame of {length} bytes")
            if len(data) < 4 + length:
                more = link.recv(65536)
                if not more:
                    raise RelayError("no WELCOME" if time.monotonic() >= self._deadline else "the connection ended")
                data += more
                continue
            envelope = parse(bytes(data[4 : 4 + length]))
            del data[: 4 + length]
            with self._lock:
                self._handle(envelope, length)
                self._lock.notify_all()
                if len(self._control) > CONTROL_FRAMES:
                    raise RelayError("the daemon does not read")
                due = time.monotonic() + self._heartbeat
                while self._ready and not self._closing and self._is_full(4 if self._waiting else 1):
                    self._lock.wait(max(0.0, due - time.monotonic()))
                    if time.monotonic() >= due:
                        self._put("PONG", nonce="")
                        due += self._heartbeat

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

    def _handle(self, envelope: Dict[str, Any], size: int) -> None:
        kind, payload, message = envelope["type"], envelope["payload"], get(envelope["payload"], "message", "")[:4096]
        code, id = get(payload, "code", "")[:64], get(payload, "ack_id", "")[:128] or get(payload, "ref", "")[:128]
        request, failure = self._outbox.get(id), Refused(message, code or kind, get(payload, "to", "")[:64], id)
        self._unanswered.pop(id if kind in ("ACK", "NACK", "ERROR") else "", None)
        if kind == "PING":
            self._put("PONG", nonce=get(payload, "nonce", "")[:1024])
        elif kind == "BYE":
            self._not_before = min(get(payload, "retry_after_ms", 0) / 1000, 86400)
            raise RelayError("the daemon left: " + get(payload, "reason", "")[:1024])
        elif kind == "ERROR" and payload.get("fatal") is True:
            raise (RelayError if code in TEMPORARY else Ended)(message, code)
        elif not self._ready and kind == "WELCOME":
            is_same, server = self.session_id == get(payload, "session_id", ""), payload.get("server")
            self.name, self.session_id = get(payload, "agent", ""), get(payload, "session_id", "")
            self._token, self._frame_max = get(payload, "resume_token", ""), get(server, "max_frame_bytes", 1 << 20)
            self._heartbeat = max(0.1, min(3600.0, get(server, "heartbeat_ms", 5000) / 1000))
            self._ready, self._since, self._deadline = True, time.monotonic(), NEVER
            if self._unanswered or not is_same:
                self._unanswered = {str(uuid.uuid4()): pattern for pattern in list(self._patterns)}
            for id, pattern in self._unanswered.items():
                self._put("SUBSCRIBE", pattern, id)
            self._positions = self._positions if is_same else OrderedDict()
        elif not self._ready and kind not in ("ERROR", "NACK"):
            raise RelayError(f"the daemon sent {kind[:16]} before WELCOME")
        elif not self._ready:
            self._token = "" if code == "RESUME_REJECTED" else self._token
            if self._resuming:
                self._resuming, self._positions = False, OrderedDict()
                self.failures.append(failure)
                self._greet()
        elif kind == "DELIVER":
            self._deliver(envelope, size)
        elif kind == "ACK" and request and (request.waits_for == "ack" or payload.get("state") != "accepted"):
            data, response = payload.get("responseData"), payload.get("response")
            answer = Answer(get(envelope, "from", ""), get(data, "body", ""), response, data)
            request.result = payload if request.waits_for == "ack" else answer
            self._patterns.update(request.patterns)
        elif kind == "BUSY" and request:
            first = max(0.001, min(get(payload, "retry_after_ms", 50) / 1000, LONGEST_WAIT_S))
            wait = min(LONGEST_WAIT_S, first * 2 ** min(request.busy, 15)) * random.uniform(0.85, 1.15)
            request.busy, request.retry_at, request.written = request.busy + 1, time.monotonic() + wait, False
        elif kind in ("NACK", "ERROR", "BUSY") and self._is_new(envelope["id"] + id):
            of_several = failure.to and request and request.to == "*" and "correlationId" not in payload
            if request and not request.result and not of_several:
                request.result = TimeoutError(message) if code == "SYNC_TIMEOUT" else failure
            elif code != "SYNC_TIMEOUT":
                self.failures.append(failure)

    def _deliver(self, envelope: Dict[str, Any], size: int) -> None:
        delivery = Delivery(self, envelope, size)
        if delivery.requires_ack and self._seen.get(delivery.id):
            self._put("ACK", ack_id=delivery.id, seq=delivery.seq)
        elif self._is_new(delivery.id) and not self._closing:
            self._unread.append(delivery)
            self._unread_bytes += size
        if delivery.sender != "@relay":
            stream = (delivery.sender, delivery.topic)
            self._positions[stream] = max(self._positions.pop(stream, 0), delivery.seq)
            if len(self._positions) > STREAMS:
                self._positions.popitem(last=False)


def get(of: Any, key: str, default: Any) -> Any:
    """Returns a member of a JSON object if it is of the kind of `default`, and otherwise `default`."""
    value = of.get(key, default) if isinstance(of, dict) else default
    return value if isinstance(value, (int, float) if isinstance(default, float) else type(default)) else default


def encode(kind: str, payload: Dict[str, Any], id: str = "", **members: Any) -> bytes:
    """Returns a frame, without what is None in `payload`, and what is empty in `members`."""
    envelope = {"v": 1, "type": kind, "id": id or str(uuid.uuid4()), "ts": int(time.time() * 1000)}
    envelope.update({key: value for key, value in members.items() if value})
    envelope["payload"] = {key: value for key, value in payload.items() if value is not None}
    frame = json.dumps(envelope, allow_nan=False).encode()
    return len(frame).to_bytes(4, "big") + frame


def parse(frame: bytes) -> Dict[str, Any]:
    """Returns the envelope in a frame without its length. Raises `ValueError` if there is none."""
    depth = 0
    for token in TOKENS.finditer(frame) if frame.count(b"[") + frame.count(b"{") > 128 else ():
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        if depth > 128:
            raise ValueError("the daemon sent JSON deeper than 128")
    # The conversion of a long number takes quadratic time: such a number is returned as a text.
    envelope = json.loads(frame.decode(), parse_int=lambda n: int(n) if len(n) < 300 else n, parse_constant=str)
    is_envelope = isinstance(envelope, dict) and isinstance(envelope.get("payload"), dict)
    if not (is_envelope and get(envelope, "type", "") and 1 <= len(get(envelope, "id", "")) <= 128):
        raise ValueError("the daemon sent JSON that is no envelope")
    return dict(envelope)
