"""Envelopes that calls of a client send, each with the awaited answer and the call's result."""

from __future__ import annotations

import uuid
from typing import Any, Callable, Dict, Generic, List, NamedTuple, Optional, TypeVar, cast

from ._message import Message
from ._types import Accepted, AgentRow, Answer
from ._wire import encode, get

T = TypeVar("T")

# The events that complete a request.
WRITTEN = "written"  # It is written to a connection.
ACK = "ack"  # The daemon has acknowledged it.
ANSWER = "answer"  # A recipient has answered it.
REPLY = "reply"  # `@relay` has delivered its response.

REPLY_TO = "reply-"  # begins the ids of the latter: a response that comes too late is recognized by it.


class Request(Generic[T]):
    """An envelope that is sent, on each new connection again, until the event that it waits for."""

    def __init__(self, kind: str, payload: Dict[str, Any], waits_for: str, read: Callable[[Dict[str, Any]], T],
                 members: Optional[Dict[str, Any]] = None, keep_s: float = 0.0) -> None:
        members = members or {}
        self.id = (REPLY_TO if waits_for == REPLY else "") + str(uuid.uuid4())
        self.kind, self.waits_for, self._read = kind, waits_for, read
        self.to = str(members.get("to") or "*").lower() if kind == "SEND" else ""
        self.topic = str(members.get("topic", ""))
        self.lane = self.to or self.id  # Of one lane, no request passes another one that must wait.
        self.keep_s = keep_s  # So long, in seconds, it is sent again although it was completed.
        self.frame = encode(kind, payload, self.id, **members)
        self.number, self.busy, self.retry_at, self.until = 0, 0, 0.0, 0.0
        self.done = False
        self.error: Optional[Exception] = None
        self.on_done: Callable[[], None] = lambda: None
        self._result: Optional[T] = None

    def succeed(self, envelope: Dict[str, Any]) -> None:
        """Completes the request with the envelope that answers it."""
        if not self.done:
            self._result, self.done = self._read(envelope), True
            self.on_done()

    def fail(self, error: Exception) -> None:
        """Completes the request with an error."""
        if not self.done:
            self.error, self.done = error, True
            self.on_done()

    def result(self) -> T:
        """Returns the result of a completed request, or raises its error."""
        if self.error:
            raise self.error
        return cast(T, self._result)


class AgentsPage(NamedTuple):
    """Some rows of `agents`, and the cursor of the next ones, or ""."""

    rows: List[AgentRow]
    cursor: str


def send(to: str, body: str, topic: str, data: Any, thread: str, kind: str, ack: bool,
         meta: Optional[Dict[str, Any]]) -> Request[Accepted]:
    payload = {"kind": kind, "body": body, "data": data, "thread": thread or None}
    members = {"to": to, "topic": topic, "payload_meta": {**(meta or {}), "requires_ack": True} if ack else meta}

    def read(envelope: Dict[str, Any]) -> Accepted:
        return cast(Accepted, envelope["payload"] if ack else {"ack_id": request.id})

    request = Request("SEND", payload, ACK if ack else WRITTEN, read, members)
    return request


def ask(to: str, body: str, timeout: float, data: Any, topic: str) -> Request[Answer]:
    sync = {"correlationId": str(uuid.uuid4()), "timeoutMs": max(1, int(timeout * 1000)), "blocking": True}
    members = {"to": to, "topic": topic, "payload_meta": {"requires_ack": True, "sync": sync}}

    def read(envelope: Dict[str, Any]) -> Answer:
        payload = envelope["payload"]
        data, response = payload.get("responseData"), payload.get("response")
        return Answer(get(envelope, "from", ""), get(data, "body", ""), response, data)

    return Request("SEND", {"kind": "message", "body": body, "data": data}, ANSWER, read, members)


def answer(message: Message, body: str, data: Optional[Dict[str, Any]], response: bool) -> Request[None]:
    payload = {"ack_id": message.id, "seq": message.seq, "correlationId": message.question, "response": response,
               "responseData": {**(data or {}), "body": body}}
    seconds = get(message.meta.get("sync"), "timeoutMs", 30_000) / 1000
    return Request("ACK", payload, WRITTEN, lambda _: None, keep_s=seconds)


def subscribe(pattern: str) -> Request[None]:
    return Request("SUBSCRIBE", {}, ACK, lambda _: None, {"topic": pattern})


def unsubscribe(pattern: str) -> Request[None]:
    return Request("UNSUBSCRIBE", {}, ACK, lambda _: None, {"topic": pattern})


def agents(cursor: str) -> Request[AgentsPage]:
    payload = {"kind": "request", "body": "agents", "data": {"cursor": cursor} if cursor else None}

    def read(envelope: Dict[str, Any]) -> AgentsPage:
        data = envelope["payload"].get("data")
        rows: List[Any] = get(data, "agents", [])
        return AgentsPage([cast(AgentRow, row) for row in rows if get(row, "name", "")], get(data, "next_cursor", ""))

    return Request("SEND", payload, REPLY, read, {"to": "@relay"})
