"""Types that users of both clients meet: errors, results and rows. None of them holds a connection."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, TypedDict


class RelayError(Exception):
    """A failure, with its code (docs/PROTOCOL.md, section 14), recipient and message, or "" for each."""

    def __init__(self, message: str, code: str = "", to: str = "", id: str = "") -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.code, self.to, self.id = code, to, id


class Refused(RelayError):
    """The daemon or a recipient refused a message, a subscription, a request or an answer."""


class Ended(RelayError):
    """The client has ended: closed, refused by the daemon, or without a daemon (`code` is `NO_DAEMON`)."""


class Answer(NamedTuple):
    """An answer to a question. By custom, `body` is a member of `data`."""

    sender: str
    body: str
    response: Optional[bool]
    data: Any


class _Accepted(TypedDict):
    ack_id: str


class Accepted(_Accepted, total=False):
    """The daemon's ACK of a message (docs/PROTOCOL.md, section 8). `ack_id` is the message's id.

    Without `ack`, there is nothing but `ack_id`.
    """

    state: str
    durability: str
    recipients: int
    away: bool


class _AgentRow(TypedDict):
    name: str
    here: bool
    since: int
    queued: int
    queued_bytes: int
    in_flight: int
    waiting: int
    subscriptions: int


class AgentRow(_AgentRow, total=False):
    """An agent that the daemon knows (docs/RELAY-API.md, agents). Times are in milliseconds since 1970."""

    host: str
    reconnecting: bool
    session: str
    program: str
    directory: str
    why: str
    why_since: int
    activity: str
    activity_since: int
    activity_source: str
