#!/usr/bin/env python3
"""The Python client of this repository behind a proxy with one mistake, FLAG.

    python3 wrong_client.py FLAG

With `batches`, it makes no mistake: it acknowledges several messages by one ACK, has another name,
and asks for few messages at a time.
"""

import collections
import itertools
import json
import os
import runpy
import socket
import sys
import threading
import time
import uuid

TESTS = os.path.dirname(os.path.abspath(__file__))
ADAPTER = os.path.abspath(TESTS + "/../adapters/python_client.py")
sys.path[:0] = [TESTS, os.path.abspath(TESTS + "/../../python/src")]
from agent_relay import _blocking, _core  # noqa: E402
from proxy import Link, envelope, mistake  # noqa: E402

FLAG = sys.argv[1]
NAMES = {"batches": "carl_2.x", "bad-name": "bad name!", "no-name": "", "reserved-name": "Root"}
#: What each of these flags adds to a payload, and to `payload_meta` of a SEND.
PAYLOADS = {
    "null-session": ("HELLO", {"session": None}),
    "null-token": ("HELLO", {"session": {"resume_token": None}}),
    "null-companion": ("HELLO", {"companion_key": None}),
    "null-auth": ("HELLO", {"auth": None}),
    "null-key": ("HELLO", {"auth": {"key": None}}),
    "text-ack": ("HELLO", {"capabilities": {"ack": "yes"}}),
    "real-inflight": ("HELLO", {"capabilities": {"max_inflight": 8.0}}),
    "null-streams": ("RESUME", {"streams": None}),
    "null-cumulative": ("ACK", {"cumulative_seq": None}),
    "null-correlation": ("ACK", {"correlationId": None}),
}
METAS = {
    "null-ttl": {"ttl_ms": None}, "text-requires-ack": {"requires_ack": "true"},
    "at-most-once": {"requires_ack": False},
}
#: The fatal errors that make a client with each of these flags stay away.
STAYS_AWAY = {
    "comes-back": [], "ends-when-replaced": ["SESSION_REPLACED"],
    "ends-on-known": [
        "SESSION_REPLACED", "NAME_IN_USE", "INVALID_NAME", "UNAUTHORIZED", "BAD_FRAME"],
}
KNOWN = {"STALE", "UNKNOWN_AGENT", "EXPIRED", "REFUSED", "INVALID", "TOO_LARGE", "UNAUTHORIZED"}
MEMBERS = set("v type id ts from to topic payload payload_meta delivery".split())
#: What has passed, by its id, and the ids of SENDs by those that the daemon received instead.
SENT, IDS = {}, {}


def up(link, whole):
    kind, members = PAYLOADS.get(FLAG, ("", {}))
    if whole.type == kind:
        whole.payload.update(members)
    if whole.type == "SEND":
        whole.inside("payload_meta").update(METAS.get(FLAG, {}))
    return mistake(globals(), "up_", FLAG)(link, whole)


def down(link, whole):
    id = whole.payload.get("ack_id")
    if id in IDS:
        whole = whole.renamed(id, IDS[id])
    is_fatal = whole.type == "ERROR" and whole.payload["fatal"]
    if is_fatal and whole.payload["code"] not in STAYS_AWAY.get(FLAG, [whole.payload["code"]]):
        return []
    passed = mistake(globals(), "down_", FLAG)(link, whole)
    return [whole] if passed is None else passed


def was_sent(link, whole):
    """Whether a SEND was sent on an earlier connection."""
    return whole.type == "SEND" and SENT.setdefault(whole["id"], link) is not link


# Connections and frames


def down_blocks(link, whole):
    """No further frame is read until PONG is written."""
    if whole.type == "PING":
        link.daemon.send(envelope("PONG", whole.payload))
        return []


def up_cleans_up(link, whole):
    if whole.type == "BYE":
        os.unlink(os.environ["AGENT_RELAY_ENDPOINT"])


def down_long_frames(link, whole):
    if whole.type == "WELCOME":
        whole.payload["server"]["max_frame_bytes"] = 1 << 20


def down_short_lengths(link, whole):
    """Of a length, the first two bytes are not read."""
    link.client.write_bytes((len(whole.data) & 0xFFFF).to_bytes(4, "big") + whole.data)
    return []


# Envelopes and the handshake


def up_no_ts(link, whole):
    if whole.type == "SEND":
        del whole["ts"]


def up_constant_id(link, whole):
    if whole.type == "SEND":
        IDS["m-1"] = whole["id"]
        return [whole.renamed(whole["id"], "m-1")]


def down_strict_members(link, whole):
    if set(whole) - MEMBERS:
        os._exit(1)


def down_texts_only(link, whole):
    if whole.type == "DELIVER" and not isinstance(whole.payload.get("body"), str):
        return []


def up_chatty(link, whole):
    if whole.type == "HELLO":
        return [envelope("PONG", {"nonce": "hello"}), whole]


def up_slow(link, whole):
    if whole.type == "HELLO":
        time.sleep(5.5)


def down_assumes_joined(link, whole):
    """ERROR about HELLO is taken for WELCOME."""
    if whole.type == "ERROR" and whole.payload["code"] == "INVALID":
        return [envelope("WELCOME", {"agent": "Ann", "session_id": "s-0"})]


def up_ascii_nonce(link, whole):
    if whole.type == "PONG":
        whole.payload["nonce"] = whole.payload["nonce"].encode("ascii", "replace").decode()


# Receiving


TOPICS = {}  # of deliveries, by their ids


def down_no_topics(link, whole):
    if whole.type == "DELIVER":
        TOPICS[whole["id"]] = whole.get("topic")


def up_no_topics(link, whole):
    """A message on a topic is not acknowledged."""
    if whole.type == "ACK" and TOPICS[whole.payload["ack_id"]]:
        return []


def up_wrong_number(link, whole):
    if whole.type == "ACK":
        whole.payload["seq"] += 1


def down_silent_on_duplicates(link, whole):
    if whole.type == "DELIVER" and SENT.setdefault(whole["id"], whole) is not whole:
        return []


def down_repeats_outcomes(link, whole):
    if whole.type == "NACK":
        whole["id"] = str(uuid.uuid4())


def up_no_correlation(link, whole):
    whole.payload.pop("correlationId", None)


LAST = [0]


def up_one_count(link, whole):
    """`cumulative_seq` is the highest number of all streams."""
    if whole.type == "ACK":
        LAST[0] = max(LAST[0], whole.payload["seq"])
        whole.payload["cumulative_seq"] = LAST[0]


def up_null_response(link, whole):
    if "response" in whole.payload:
        whole.payload["response"] = None


BATCHES, BATCHING = {}, threading.Lock()
down_batches = down_no_topics


def up_batches(link, whole):
    """One ACK for up to three deliveries of a stream, once 20 ms are over."""
    if whole.type == "HELLO":
        whole.payload["capabilities"]["max_inflight"] = 5
    if whole.type != "ACK" or "correlationId" in whole.payload:
        return None
    stream = link, TOPICS[whole.payload["ack_id"]]
    with BATCHING:
        batch = BATCHES.setdefault(stream, [])
        batch.append((whole.payload["seq"], whole.payload["ack_id"]))
    if len(batch) == 1:
        threading.Timer(0.02, acknowledge, [stream, batch]).start()
    elif len(batch) == 3:
        acknowledge(stream, batch)
    return []


def acknowledge(stream, batch):
    with BATCHING:
        if BATCHES.get(stream) is batch:
            del BATCHES[stream]
            seq, id = max(batch)
            stream[0].daemon.send(envelope("ACK", {"ack_id": id, "cumulative_seq": seq}))


# Sending


def up_new_id(link, whole):
    if was_sent(link, whole):
        alias = str(uuid.uuid4())
        IDS[alias] = whole["id"]
        return [whole.renamed(whole["id"], alias)]


def up_new_text(link, whole):
    if was_sent(link, whole):
        whole.payload["kind"] = "message again"


def up_last_first(link, whole):
    """A message that comes again waits for the next one, which the client sends after an ACK."""
    if was_sent(link, whole):
        link.held = whole
        link.client.send(envelope("ACK", {"ack_id": whole["id"]}))
        return []
    if whole.type == "SEND" and hasattr(link, "held"):
        return [whole, link.held]


def up_no_subscribe(link, whole):
    if whole.type == "SUBSCRIBE" and link.number > 1:
        return []


def down_hasty(link, whole):
    """The ACK `accepted` is taken for the answer, which comes too late."""
    if "correlationId" in whole.payload:
        return []
    if whole.payload.get("state") == "accepted":
        whole["payload"] = {"ack_id": whole.payload["ack_id"], "responseData": {"body": "accepted"}}


def up_null_blocking(link, whole):
    if whole.type == "SEND":
        whole["payload_meta"]["sync"]["blocking"] = None


def up_busy_body(link, whole):
    if whole.type == "SEND" and SENT.setdefault(whole["id"], whole) is not whole:
        whole.payload["body"] += " again"


WAITS = collections.Counter()


def down_constant_wait(link, whole):
    """The client doubles a wait that is half as long each time."""
    if whole.type == "BUSY":
        whole.payload["retry_after_ms"] //= 2 ** WAITS[whole.payload["ack_id"]]
        WAITS[whole.payload["ack_id"]] += 1


def up_overtakes(link, whole):
    if whole.type == "SEND":
        SENT[whole["id"]] = whole


def down_overtakes(link, whole):
    """While the message waits, the client takes it for accepted and sends the next one."""
    if whole.type == "BUSY":
        id = whole.payload["ack_id"]
        WAITS[id] = max(whole.payload["retry_after_ms"] / 1000, 2 * WAITS[id])
        threading.Timer(WAITS[id], link.daemon.send, [SENT[id]]).start()
        return [envelope("ACK", {"ack_id": id})]


# Codes, leaving and resuming


def down_known_codes(link, whole):
    if whole.type == "NACK" and whole.payload["code"] not in KNOWN:
        os._exit(1)


def down_early_bird(link, whole):
    whole.payload.pop("retry_after_ms", None)


TOKENS = []


def down_old_token(link, whole):
    if whole.type == "WELCOME":
        TOKENS.append(whole.payload["resume_token"])


def up_old_token(link, whole):
    if whole.type == "RESUME":
        whole.payload["resume_token"] = TOKENS[0]


def up_ahead(link, whole):
    if whole.type == "RESUME":
        for stream in whole.payload["streams"]:
            stream["last_seq"] += 1


def down_no(link, whole):
    """Ends on the code that the flag names, such as `no-stale`."""
    if whole.payload.get("code") == FLAG[3:].upper():
        os._exit(1)


down_no_resume_rejected = down_no_unauthorized = down_no_stale = down_no


# The client


numbers = itertools.count(1)
original_connect, original_greet = _blocking.connect, _core.Core._greet


def connect(endpoint):
    if FLAG == "trusts-anyone":
        daemon = socket.socket(socket.AF_UNIX)
        daemon.connect(endpoint)
    else:
        try:
            daemon = original_connect(endpoint)
        except ConnectionRefusedError:
            if FLAG == "removes-socket":
                os.unlink(endpoint)
            raise
    near, far = socket.socketpair()
    link = Link(far, daemon, up, down)
    link.number = next(numbers)
    link.thread.start()
    return near


def greet(core):
    core._seen.clear()
    original_greet(core)


def print_raw(text, **options):
    print(json.dumps(json.loads(text), ensure_ascii=False), **options)


_blocking.connect = connect
if FLAG == "small-window":
    _core.SEEN = 100
if FLAG == "forgetful":
    _core.Core._greet = greet
sys.argv = [ADAPTER, NAMES.get(FLAG, "Ann")]
runpy.run_path(ADAPTER, {"print": print_raw} if FLAG == "raw-text" else {}, "__main__")
