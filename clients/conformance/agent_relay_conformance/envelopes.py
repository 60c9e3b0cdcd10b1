"""The errors that a daemon finds in a client's envelope: sections 4 to 8 of docs/PROTOCOL.md."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from .wire import Envelope, payload_of

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,30}[A-Za-z0-9])?")
RESERVED = frozenset(
    "user human owner operator overseer admin administrator root system assistant relay "
    "agent-relay cli all everyone".split())
MODES = ("companion", "guest", "operator", "bridge")
TOPIC_BYTES_MAX = 256
TIMEOUT_MS_MAX = 3_600_000


class Kind(NamedTuple):
    """A kind of JSON value. The daemon accepts `null` for none of them."""

    name: str
    accepts: Callable[[Any], bool]


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


TEXT = Kind("a string", lambda value: isinstance(value, str))
FLAG = Kind("a boolean", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", is_whole)
NUMBER = Kind(
    "a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
STREAMS = Kind("an object or a list", lambda value: isinstance(value, (dict, list)))

ENVELOPE = {
    "v": NUMBER, "type": TEXT, "id": TEXT, "ts": NUMBER, "payload": OBJECT, "from": TEXT,
    "to": TEXT, "topic": TEXT, "payload_meta": OBJECT, "delivery": OBJECT,
}
#: The members of the payload of each type that a client sends. A parent comes before its members.
PAYLOADS: Dict[str, Dict[str, Kind]] = {
    "HELLO": {
        "agent": TEXT, "mode": TEXT, "companion_key": TEXT, "session": OBJECT,
        "session.resume_token": TEXT, "auth": OBJECT, "auth.key": TEXT, "capabilities": OBJECT,
        "capabilities.ack": FLAG, "capabilities.resume": FLAG,
        "capabilities.max_inflight": WHOLE, "capabilities.supports_topics": FLAG,
        "capabilities.reports": FLAG,
    },
    "SEND": {},
    "ACK": {
        "ack_id": TEXT, "seq": WHOLE, "cumulative_seq": WHOLE, "correlationId": TEXT,
        "response": FLAG,
    },
    "NACK": {"ack_id": TEXT, "code": TEXT, "message": TEXT, "retry_after_ms": WHOLE},
    "PONG": {"nonce": TEXT},
    "RESUME": {"session_id": TEXT, "agent": TEXT, "resume_token": TEXT, "streams": STREAMS},
    "BYE": {"reason": TEXT, "retry_after_ms": WHOLE},
    "SUBSCRIBE": {},
    "UNSUBSCRIBE": {},
}
META = {
    "requires_ack": FLAG, "ttl_ms": WHOLE, "sync": OBJECT, "sync.correlationId": TEXT,
    "sync.timeoutMs": WHOLE, "sync.blocking": FLAG,
}
REQUIRED = {"ACK": "ack_id", "NACK": "ack_id", "PONG": "nonce"}


def fault_of(whole: Envelope, name: Any) -> str:
    """Returns what is wrong with an envelope of the agent `name`, or nothing."""
    if not whole:
        return "the frame is no JSON object"
    for member in ("v", "type", "id", "ts", "payload"):
        if member not in whole:
            return f"the envelope has no `{member}`"
    kind, payload = whole["type"], whole["payload"]
    fault = fault_of_members(whole, ENVELOPE)
    if fault:
        return fault
    if whole["v"] != 1:
        return "`v` is not 1"
    if kind not in PAYLOADS:
        return f"a client sends no {kind!r}"
    if not 1 <= len(whole["id"].encode("utf-8", "replace")) <= 128:
        return "`id` has not 1 to 128 bytes"
    fault = fault_of_members(payload, PAYLOADS[kind], "payload.")
    required = REQUIRED.get(kind)
    if not fault and required and required not in payload:
        fault = f"`payload` has no `{required}`"
    if not fault and kind == "HELLO":
        fault = fault_of_hello(whole)
    if not fault and kind == "RESUME":
        fault = fault_of_streams(payload.get("streams", []))
    if not fault and kind == "SEND":
        fault = fault_of_send(whole, name)
    if not fault and kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
        fault = fault_of_topic(whole.get("topic"), is_pattern=True)
    return fault


def fault_of_members(value: Dict[str, Any], kinds: Dict[str, Kind], within: str = "") -> str:
    """Returns which member is of the wrong kind, or nothing. A path has dots."""
    for path, kind in kinds.items():
        *parents, last = path.split(".")
        parent = value
        for key in parents:
            parent = parent.get(key, {})
        if last in parent and not kind.accepts(parent[last]):
            return f"`{within}{path}` is {shown(parent[last])}, and not {kind.name}"
    return ""


def shown(value: Any) -> str:
    return "null" if value is None else repr(value)


def fault_of_hello(hello: Envelope) -> str:
    """Returns what is wrong with a HELLO with members of the right kinds, or nothing."""
    payload = payload_of(hello)
    mode, name = payload.get("mode"), payload.get("agent")
    if mode is not None and mode not in MODES:
        return f"`payload.mode` is {mode!r}, and not one of {', '.join(MODES)}"
    if mode in ("guest", "operator"):
        return ""
    if name is None:
        return "`payload` has no `agent`"
    local, at, host = name.partition("@") if mode == "bridge" else (name, "", "")
    is_name = bool(NAME.fullmatch(local)) and local.lower() not in RESERVED
    if mode == "bridge":
        is_name = is_name and bool(at) and bool(HOST.fullmatch(host))
    return "" if is_name else f"`payload.agent` is {name!r}, which is not allowed as a name"


def fault_of_streams(streams: Any) -> str:
    """Returns what is wrong with the positions of a RESUME, or nothing."""
    rows: List[Any] = list(streams.values()) if isinstance(streams, dict) else streams
    kinds = {"last_seq": WHOLE}
    if isinstance(streams, list):
        kinds.update(topic=TEXT, peer=TEXT)
    for row in rows:
        if not isinstance(row, dict):
            return f"`payload.streams` has {shown(row)}, and not only objects"
        for member in kinds:
            if member not in row:
                return f"a position in `payload.streams` has no `{member}`"
        fault = fault_of_members(row, kinds, "payload.streams.")
        if fault:
            return fault
    return ""


def fault_of_send(send: Envelope, name: Any) -> str:
    """Returns what is wrong with the recipients or the `payload_meta` of a SEND, or nothing."""
    meta = send.get("payload_meta", {})
    fault = fault_of_members(meta, META, "payload_meta.")
    if fault:
        return fault
    if send.get("from", name) != name:
        return "`from` is another name"
    if "sync" in meta:
        id, timeout = meta["sync"].get("correlationId", ""), meta["sync"].get("timeoutMs", 1)
        if not 1 <= len(id.encode("utf-8", "replace")) <= 256:
            return "`payload_meta.sync.correlationId` has not 1 to 256 bytes"
        if not 1 <= timeout <= TIMEOUT_MS_MAX:
            return f"`payload_meta.sync.timeoutMs` is {timeout}, and not 1 to {TIMEOUT_MS_MAX}"
    if "topic" in send:
        return fault_of_topic(send["topic"], is_pattern=False)
    return "" if "to" in send else "the SEND has neither `to` nor `topic`"


def fault_of_topic(topic: Any, is_pattern: bool) -> str:
    """Returns what is wrong with a topic or a pattern, or nothing."""
    if topic is None:
        return "the envelope has no `topic`"
    tokens = topic.split(".")
    if "" in tokens or len(topic.encode("utf-8", "replace")) > TOPIC_BYTES_MAX:
        return f"`topic` is {topic!r}, which is no topic"
    wild: Tuple[str, ...] = (">",) if is_pattern else ("*", ">")
    of_these = tokens[:-1] if is_pattern else tokens
    return f"`topic` is {topic!r}, with a wildcard" if set(wild) & set(of_these) else ""


def is_at_least_once(send: Envelope) -> bool:
    """Whether the daemon answers a SEND with ACK. `sync` implies `requires_ack`."""
    meta = send.get("payload_meta")
    meta = meta if isinstance(meta, dict) else {}
    return meta.get("requires_ack") is True or "sync" in meta


def granted(hello: Envelope) -> Dict[str, Any]:
    """Returns the capabilities that HELLO asks for. Others than the table's are not granted."""
    asked = payload_of(hello).get("capabilities")
    asked = asked if isinstance(asked, dict) else {}
    usual = {"ack": True, "resume": False, "max_inflight": 256, "supports_topics": True}
    kinds = {"ack": FLAG, "resume": FLAG, "max_inflight": WHOLE, "supports_topics": FLAG}
    return {
        key: asked[key] if key in asked and kinds[key].accepts(asked[key]) else usual[key]
        for key in usual}
