"""Received messages, as far as both clients share them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Protocol

from ._wire import get

SHOWN = 60  # characters of a body in repr()


class Settler(Protocol):
    """The part of a client that acknowledges messages and returns them."""

    def settle(self, message: Message, kind: str, payload: Dict[str, Any]) -> None: ...


class Message:
    """A received message. With `requires_ack`, it comes again until `ack()`, `refuse()` or `answer()`.

    `payload` and `meta` are the sender's, whole; `kind`, `body`, `data` and `thread` are members of `payload`.
    `question` is not empty if the sender waits for an answer.
    """

    def __init__(self, settler: Settler, envelope: Dict[str, Any], size: int) -> None:
        delivery: Dict[str, Any] = get(envelope, "delivery", {})
        self._settler, self._size = settler, size
        self.id: str = get(envelope, "id", "")
        self.sender: str = get(envelope, "from", "")[:256]
        self.to: str = get(envelope, "to", "")[:256]
        self.topic: str = get(envelope, "topic", "")[:256]
        self.payload: Dict[str, Any] = envelope["payload"]
        self.meta: Dict[str, Any] = get(envelope, "payload_meta", {})
        self.kind: str = get(self.payload, "kind", "")
        self.body: str = get(self.payload, "body", "")
        self.data: Any = self.payload.get("data")
        self.thread: str = get(self.payload, "thread", "")
        self.seq: int = get(delivery, "seq", 0)
        self.attempt: int = get(delivery, "attempt", 1)
        self.requires_ack: bool = delivery.get("requires_ack") is True
        self.broadcast: bool = "originalTo" in delivery
        self.auth: str = get(delivery.get("sender"), "auth", "")
        self.question: str = get(self.meta.get("sync"), "correlationId", "")

    def __repr__(self) -> str:
        body = self.body if len(self.body) <= SHOWN else self.body[:SHOWN] + "…"
        topic = f" on {self.topic!r}" if self.topic else ""
        return f"<{type(self).__name__} {self.id} from {self.sender!r}{topic}: {body!r}>"

    def ack(self) -> None:
        """Acknowledges the message: it is safe here, and the daemon forgets it. Waits for nothing."""
        self._settler.settle(self, "ACK", {"seq": self.seq})

    def refuse(self, reason: str, code: str = "REFUSED", retry_after: Optional[float] = None) -> None:
        """Returns the message to its sender, or lets it come again after `retry_after` seconds.

        Waits for nothing. Raises `Refused` with `TOO_LARGE` if the reason does not fit a frame.
        """
        retry = {} if retry_after is None else {"retry_after_ms": int(retry_after * 1000)}
        self._settler.settle(self, "NACK", {"code": code, "message": reason, **retry})
