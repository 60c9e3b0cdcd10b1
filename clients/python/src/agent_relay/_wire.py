"""Frames and envelopes, as docs/PROTOCOL.md, sections 3 and 4, defines them."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any, Dict, TypeVar

FRAME_BYTES = 64 << 20
DEPTH = 128
TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)  # of JSON: texts and brackets

T = TypeVar("T")


def get(of: Any, key: str, default: T) -> T:
    """Returns a member of a JSON object if it is of the kind of `default`, and otherwise `default`."""
    value = of.get(key, default) if isinstance(of, dict) else default
    kinds = (int, float) if isinstance(default, float) else type(default)
    return value if isinstance(value, kinds) else default  # type: ignore[return-value]


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
    for token in TOKENS.finditer(frame) if frame.count(b"[") + frame.count(b"{") > DEPTH else ():
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        if depth > DEPTH:
            raise ValueError(f"the daemon sent JSON deeper than {DEPTH}")
    # The conversion of a long number takes quadratic time: such a number is returned as a text.
    envelope = json.loads(frame.decode(), parse_int=lambda n: int(n) if len(n) < 300 else n, parse_constant=str)
    is_envelope = isinstance(envelope, dict) and isinstance(envelope.get("payload"), dict)
    if not (is_envelope and get(envelope, "type", "") and 1 <= len(get(envelope, "id", "")) <= 128):
        raise ValueError("the daemon sent JSON that is no envelope")
    return dict(envelope)
