#!/usr/bin/env python3
"""The daemon of this repository behind a proxy with one mistake, FLAG. Without it, all is right.

    python3 wrong_daemon.py AGENT_RELAY ENDPOINT HOME [FLAG]
"""

import collections
import contextlib
import fcntl
import glob
import itertools
import json
import os
import queue
import re
import socket
import struct
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from proxy import FRAME_BYTES_MAX, Link, envelope, mistake  # noqa: E402

PROGRAM, ENDPOINT, HOME = sys.argv[1:4]
FLAG = "".join(sys.argv[4:])
REAL_ENDPOINT = HOME + "/real.sock"
MEMBERS = set("v type id ts from to topic payload payload_meta delivery".split())
#: The connections of names, and the topics and patterns of each. None is a message without topic.
LINKS, TOPICS = {}, collections.defaultdict(lambda: {None})
#: The envelopes that each of these daemons does not send: a type and a code.
OMITTED = {
    "permissive": ("NACK", "INVALID"),
    "silent-timeout": ("ERROR", "HANDSHAKE_TIMEOUT"),
    "silent-death": ("ERROR", "HEARTBEAT_TIMEOUT"),
    "takes-names": ("ERROR", "NAME_IN_USE"),
    "endless-patterns": ("NACK", "LIMIT"),
    "silent-length": ("NACK", "TOO_LARGE"),
    "token-optional": ("NACK", "UNAUTHORIZED"),
}
#: The member that each of these daemons leaves out of a type: the type, its parent and its name.
LACKING = {
    "no-ref": ("ERROR", "payload", "ref"),
    "bare-welcome": ("WELCOME", "payload", "capabilities"),
    "bare-delivery": ("DELIVER", "delivery", "session_id"),
    "no-away": ("ACK", "payload", "away"),
    "uncounted": ("ACK", "payload", "recipients"),
    "no-durability": ("ACK", "payload", "durability"),
    "all-busy": ("BUSY", "payload", "busy"),
    "no-reason": ("BYE", "payload", "reason"),
    "no-reply-to": ("DELIVER", "payload_meta", "replyTo"),
}
#: The capability that each of these daemons does not read in HELLO.
UNREAD = {"always-ack": "ack", "always-topics": "supports_topics", "no-window": "max_inflight"}


def up(link, whole):
    if whole.type == "SUBSCRIBE":
        TOPICS[link.name].add(whole.get("topic", ""))
    if whole.type == "UNSUBSCRIBE":
        TOPICS[link.name].discard(whole.get("topic"))
    if whole.type == "HELLO" and FLAG in UNREAD:
        (whole.payload.get("capabilities") or {}).pop(UNREAD[FLAG], None)
    return mistake(globals(), "up_", FLAG)(link, whole)


def down(link, whole):
    if whole.type == "WELCOME":
        link.name = whole.payload["agent"]
        LINKS[link.name] = link
    if OMITTED.get(FLAG) == (whole.type, whole.payload.get("code")):
        return []
    kind, parent, member = LACKING.get(FLAG, ("", "", ""))
    if kind == whole.type:
        whole.inside(parent).pop(member, None)
    return mistake(globals(), "down_", FLAG)(link, whole)


# How a frame is checked


def edit(data):
    """Changes the bytes of a frame of a client."""
    if FLAG == "lenient-utf8":
        return data.decode(errors="replace").encode()
    if FLAG == "not-a-number":
        return data.replace(b"NaN", b"0")
    if FLAG == "deep":
        return re.sub(rb"\[{100,}\]{100,}", b"[]", data)
    if FLAG == "no-space" and data[:1].isspace():
        return b"x" + data
    is_skipped = {"no-empty": not data, "any-json": data.lstrip()[:1] != b"{"}.get(FLAG)
    return json.dumps(envelope("PONG", {"nonce": "skipped"})).encode() if is_skipped else data


#: What a daemon that skips this row of the table of section 4 takes for the missing member.
SKIPPED = {
    "row-7": {"v": 1}, "row-9": {}, "row-10": {"type": "SEND"}, "row-11": {"id": "k"},
    "row-12": {"ts": 0}, "row-13": {"payload": {}},
}


def up_row(link, whole):
    return [{**SKIPPED[FLAG], **whole}]


up_row_7 = up_row_9 = up_row_10 = up_row_11 = up_row_12 = up_row_13 = up_row


def up_row_8(link, whole):
    whole["v"] = 1


def up_row_14(link, whole):
    if not link.name and whole.type not in ("HELLO", "RESUME"):
        return []


def up_strict_members(link, whole):
    if set(whole) - MEMBERS:
        del whole["ts"]  # The daemon answers with ERROR `INVALID`.


def up_any_payload(link, whole):
    if not isinstance(whole.payload.get("ack_id", ""), str):
        return []


def up_null_is_omitted(link, whole):
    for member in [member for member, value in whole.items() if value is None]:
        del whole[member]


def down_shared_fate(link, whole):
    """A fatal ERROR ends the other connections, too."""
    if whole.payload.get("fatal"):
        for other in LINKS.values():
            if other is not link:
                other.client.end(socket.SHUT_RDWR)


IDS_OF_THE_DAEMON = itertools.count(1)


def down_counted_ids(link, whole):
    whole["id"] = str(next(IDS_OF_THE_DAEMON))


def up_any_type(link, whole):
    if whole.type in ("WELCOME", "DELIVER", "PING", "ERROR", "BUSY", "SYNC"):
        return []


def down_re_encodes(link, whole):
    if whole.type == "DELIVER":
        return [dict(whole)]


def down_wordless(link, whole):
    if whole.type == "NACK":
        del whole["payload"]["message"]


# Names and the handshake


def up_spelling(link, whole):
    """Only the lower case of a reserved name is refused."""
    if whole.type == "HELLO" and whole.payload["agent"] != whole.payload["agent"].lower():
        whole.payload["agent"] += "-1"


def up_case(link, whole):
    if whole.type == "SEND" and whole.get("to") not in LINKS:
        whole["to"] = "nobody"


def up_loose_names(link, whole):
    """Joins under another name if one is not allowed."""
    name = r"\w[\w.-]{0,62}\w"
    if whole.type == "HELLO" and not re.fullmatch(name, whole.payload["agent"], re.A):
        whole.payload["agent"] = "x" + uuid.uuid4().hex


def up_one_chance(link, whole):
    """After an INVALID HELLO, none is read."""
    if whole.type == "HELLO" and getattr(link, "is_refused", False):
        return []


def down_one_chance(link, whole):
    link.is_refused = whole.type == "ERROR"


def up_any_mode(link, whole):
    if whole.payload.get("mode") in ("kit", "", "Guest"):
        del whole.payload["mode"]


KEYS = {}


def up_any_companion(link, whole):
    """A companion's key is not read."""
    payload = whole.payload
    if payload.get("mode") == "companion":
        payload["companion_key"] = KEYS.get(payload["agent"], "")
    elif "companion_key" in payload:
        KEYS[payload["agent"]] = payload["companion_key"]


def down_companion_as_agent(link, whole):
    sender = whole.inside("delivery").get("sender", {})
    if sender.get("auth") == "companion":
        sender["auth"] = "claim"


def down_guest_with_mail(link, whole):
    if whole.type == "WELCOME" and link.name.startswith("@guest"):
        whole.payload["capabilities"]["ack"] = True


def up_any_machine(link, whole):
    if whole.type == "HELLO":
        whole.payload["agent"] = whole.payload["agent"].replace("@", "-")


def down_many_hellos(link, whole):
    if whole.type == "WELCOME":
        link.welcome = whole


def up_many_hellos(link, whole):
    if whole.type == "HELLO" and link.name:
        link.client.send(link.welcome)
        return []


def up_any_bridge(link, whole):
    if whole.type == "HELLO":
        with open(HOME + "/operator.key") as file:
            whole.payload["auth"] = {"key": file.read().strip()}


up_any_operator = up_any_bridge


def down_bridge_as_agent(link, whole):
    sender = whole.inside("delivery").get("sender", {})
    if sender.get("auth") == "bridge":
        sender["auth"] = "token"


def up_bridge_hears_all(link, whole):
    if whole.get("to") == "*":
        return [whole, *({**whole, "to": name} for name in LINKS if "@" in name)]


# Messages and topics


def up_any_sender(link, whole):
    if isinstance(whole.get("from"), str):
        del whole["from"]


def up_never_oneself(link, whole):
    if whole.type == "SEND" and whole.get("to") == link.name:
        return []


FORGED = {}


def up_any_delivery(link, whole):
    if whole.type == "SEND":
        FORGED[link.name] = whole.get("delivery", {})


def down_any_delivery(link, whole):
    whole.inside("delivery").update(FORGED.get(whole.get("from"), {}))


def down_swaps(link, whole):
    """The first message of a topic's stream comes after the second one."""
    if whole.type == "DELIVER" and whole.get("topic"):
        if whole["delivery"]["seq"] == 1:
            link.held = whole
            return []
        if whole["delivery"]["seq"] == 2:
            return [whole, link.held]


def down_echo(link, whole):
    """A broadcast reaches its sender, too, once another agent receives it."""
    if "originalTo" in whole.inside("delivery") and whole.get("topic") in TOPICS[whole["from"]]:
        LINKS[whole["from"]].client.send(whole)


def up_wildcards(link, whole):
    if whole.type == "SEND":
        whole["topic"] = re.sub("[*>]", "x", whole["topic"])


def down_one_count(link, whole):
    if whole.type == "DELIVER":
        link.count = getattr(link, "count", 0) + 1
        whole["delivery"]["seq"] = link.count


def up_greedy_rest(link, whole):
    """`build.>` matches `build`, too."""
    if whole.type == "SUBSCRIBE" and whole["topic"].endswith(".>"):
        return [envelope("SUBSCRIBE", {}, topic=whole["topic"][:-2]), whole]


def down_greedy_rest(link, whole):
    if whole.payload.get("ack_id") == "proxy":
        return []


def down_once_for_each(link, whole):
    if "originalTo" in whole.inside("delivery"):
        return [whole] * len(TOPICS[link.name] - {None})


def down_lasting_patterns(link, whole):
    """Subscribes to the name's earlier patterns, and holds everything until the answers come."""
    if whole.type == "WELCOME":
        patterns = TOPICS[link.name] - {None}
        link.missing, link.held = len(patterns), []
        for pattern in patterns:
            link.daemon.send(envelope("SUBSCRIBE", {}, topic=pattern))
    if not link.name:
        return None
    if whole.payload.get("ack_id") == "proxy":
        link.missing -= 1
    else:
        link.held.append(whole)
    passed, link.held = ([], link.held) if link.missing else (link.held, [])
    return passed


# Delivery


def is_mail(whole):
    return whole.type == "SEND" and whole.inside("payload_meta").get("requires_ack") is True


def up_answers_all(link, whole):
    """A message at most once is answered, too."""
    if whole.type == "SEND" and not is_mail(whole):
        link.client.send(envelope("ACK", {"ack_id": whole["id"], "state": "accepted"}))


DELIVERED = {}


def down_repeats(link, whole):
    """A client that returns gets the last at-most-once message again."""
    if whole.type == "DELIVER" and not whole["delivery"].get("requires_ack"):
        DELIVERED[link.name] = whole
    if whole.type == "WELCOME" and link.name in DELIVERED:
        return [whole, DELIVERED[link.name]]


def up_one_by_one(link, whole):
    whole.payload.pop("cumulative_seq", None)


def up_covers_the_future(link, whole):
    link.covered = whole.payload.get("cumulative_seq", 0)


def down_covers_the_future(link, whole):
    """The messages up to `cumulative_seq` are never delivered."""
    if whole.type == "DELIVER" and whole["delivery"]["seq"] <= getattr(link, "covered", 0):
        link.daemon.send(envelope("ACK", {"ack_id": whole["id"]}))
        return []


def down_one_expiry(link, whole):
    """Of a broadcast, only the first recipient is named."""
    if whole.payload.get("code") == "EXPIRED":
        id = whole.payload["ack_id"]
        return [whole] if DELIVERED.setdefault(id, whole) is whole else []


HOLDERS = {}


def down_any_ack(link, whole):
    if whole.type == "DELIVER":
        HOLDERS[whole["id"]] = link


def up_any_ack(link, whole):
    """An ACK counts as one of the agent that has the message."""
    holder = HOLDERS.get(whole.payload.get("ack_id")) if whole.type == "ACK" else None
    if holder:
        holder.daemon.send(whole)
        return []


SENT = {}


def up_id_only(link, whole):
    if is_mail(whole):
        return [SENT.setdefault((link, whole["id"]), whole)]


#: The ids of SENDs by those that the daemon knows, and the other way round until it accepts one.
IDS, ALIASES = {}, {}


def up_accepts_twice(link, whole):
    if is_mail(whole):
        alias = ALIASES.setdefault((link, whole["id"]), str(uuid.uuid4()))
        IDS[alias] = whole["id"]
        return [whole.renamed(whole["id"], alias)]


def down_accepts_twice(link, whole):
    alias = whole.payload.get("ack_id")
    if alias in IDS:
        if whole.payload.get("state") == "accepted":
            ALIASES.pop((link, IDS[alias]), None)
        return [whole.renamed(alias, IDS[alias])]


def up_hasty_return(link, whole):
    if whole.type == "NACK":
        whole.payload["retry_after_ms"] = 50


def down_endless_failures(link, whole):
    if whole.type == "DELIVER":
        link.delivered = whole


def up_endless_failures(link, whole):
    """The daemon does not see that the message was returned."""
    if whole.type == "NACK":
        link.client.send(link.delivered)
        return []


def down_overtaken(link, whole):
    if whole.type == "DELIVER":
        link.delivered = whole


def up_overtaken(link, whole):
    """The daemon takes a returned message for one in flight, which comes again all the same."""
    if whole.type == "NACK":
        wait = whole.payload["retry_after_ms"] / 1000
        threading.Timer(wait, link.client.send, [link.delivered]).start()
        return []


def down_no_attempt(link, whole):
    whole.inside("delivery").pop("attempt", None)


def up_no_expiry(link, whole):
    whole.inside("payload_meta").pop("ttl_ms", None)


def down_endless_question(link, whole):
    if whole.payload.get("code") == "SYNC_TIMEOUT":
        return []


def down_bare_refusal(link, whole):
    if whole.type == "NACK":
        whole.payload.pop("correlationId", None)


def up_forgets_outcomes(link, whole):
    if whole.type == "SEND":
        link.__dict__.setdefault("sent", set()).add(whole["id"])


def down_forgets_outcomes(link, whole):
    """A NACK reaches only the connection that has sent the message."""
    if whole.type == "NACK" and whole.payload["ack_id"] not in link.__dict__.get("sent", ()):
        return []


def down_re_encodes_answers(link, whole):
    if "responseData" in whole.payload:
        return [dict(whole)]


ANSWERS = collections.defaultdict(queue.SimpleQueue)
ANSWERED = set()


def down_every_answer(link, whole):
    if whole.type == "ACK" and "correlationId" in whole.payload:
        ANSWERS[whole["from"], whole.payload["correlationId"]].put((link, whole))


def up_every_answer(link, whole):
    """The second answer reaches the asker, too, after the first one."""
    if whole.type == "ACK" and "correlationId" in whole.payload:
        question = link.name, whole.payload["correlationId"]
        if question in ANSWERED:
            asker, answer = ANSWERS[question].get()
            asker.client.send(answer)
        ANSWERED.add(question)


# Backpressure, heartbeats and leaving


def down_no_bound(link, whole):
    if whole.type == "BUSY":
        return [envelope("ACK", {"ack_id": whole.payload["ack_id"], "state": "accepted"})]


def down_whole_queue(link, whole):
    """Half of the queue counts as the whole queue."""
    if whole.type == "WELCOME":
        whole.payload["server"]["queue_max_messages"] //= 2


def up_pong_only(link, whole):
    if whole.type not in ("HELLO", "PONG"):
        return []


def down_no_ping(link, whole):
    if whole.type == "PING":
        return []


def up_deaf_to_bye(link, whole):
    if whole.type == "BYE":
        return []


def up_lasting_session(link, whole):
    if whole.type == "BYE":
        link.daemon.end(socket.SHUT_WR)
        return []


# Resuming


def down_shared_session(link, whole):
    if whole.payload.get("code") == "SESSION_REPLACED":
        threading.Event().wait()  # The connection stays open.


TOKENS = {}


def down_lasting_token(link, whole):
    if whole.type == "WELCOME":
        TOKENS[link.name] = whole.payload["resume_token"]


def up_lasting_token(link, whole):
    session = whole.payload.get("session", whole.payload)
    if "resume_token" in session:
        session["resume_token"] = TOKENS[whole.payload["agent"]]


def down_hasty_proof(link, whole):
    if whole.type == "PING":
        link.daemon.send(envelope("PONG", {"nonce": whole.payload["nonce"]}))


def up_no_resume(link, whole):
    whole.payload.pop("session", None)


def up_hello_only(link, whole):
    if whole.type == "RESUME":
        whole.payload.pop("resume_token", None)


def up_guest_of_today(link, whole):
    whole.payload.pop("guest_key", None)


def up_any_name(link, whole):
    if whole.type == "RESUME":
        del whole["payload"]["agent"]


def up_gaps(link, whole):
    if whole.type == "RESUME":
        whole.payload["streams"] = []


# A daemon that breaks


BREAKS = threading.Event()


def up_breaks(link, whole):
    """A second HELLO breaks the daemon."""
    if whole.type == "HELLO" and link.name:
        BREAKS.set()
        threading.Event().wait()


up_hangs = up_closes = up_breaks


def up_dies(link, whole):
    if whole.type == "HELLO" and link.name:
        os._exit(3)


def up_mortal(link, whole):
    if whole.type == "SEND":
        os._exit(3)


# The sockets


def connect():
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(REAL_ENDPOINT)
    return stream


def await_daemon():
    """Waits until the daemon listens, and has stated its endpoint, which is replaced."""
    while True:
        with contextlib.suppress(OSError), open(HOME + "/endpoint") as file:
            if file.read().strip() == REAL_ENDPOINT:
                connect().close()
                break
        time.sleep(0.01)  # The standard library cannot wait for a file.
    with open(HOME + "/endpoint", "w") as file:
        file.write(REAL_ENDPOINT if FLAG == "wrong-file" else ENDPOINT)


def listen():
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ENDPOINT)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(ENDPOINT)
    os.chmod(ENDPOINT, 0o666 if FLAG == "open-socket" else 0o600)
    listener.listen(256)
    listener.settimeout(0.2)
    return listener


def serve(links):
    listener = listen()
    while True:
        try:
            stream = listener.accept()[0]
        except socket.timeout:
            if FLAG == "closes" and BREAKS.is_set():
                return listener.close()
            if FLAG != "socket-once" and not os.path.exists(ENDPOINT):
                listener = listen()
            continue
        if BREAKS.is_set():
            threading.Event().wait()
        if FLAG == "mute":
            stream.close()
            continue
        user = struct.unpack("iII", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        daemon = connect()
        limit = FRAME_BYTES_MAX + (FLAG == "patient")
        link = Link(
            stream, daemon, up, down, edit=edit, frame_bytes_max=limit,
            one_a_piece=FLAG == "one-a-piece")
        if user != os.getuid() and FLAG != "any-user":
            error = {"code": "UNAUTHORIZED", "fatal": True, "message": "another user's daemon"}
            link.client.send(envelope("ERROR", error))
            daemon.shutdown(socket.SHUT_RDWR)
        link.thread.start()
        links.append(link)


def main():
    with open(HOME + "/daemon.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The daemon that was killed before has ended.
    if FLAG == "forgetful":
        for path in glob.glob(HOME + "/relay.db*"):
            os.unlink(path)
    daemon = os.fork()
    if not daemon:
        words = [PROGRAM, "--home", HOME, "--endpoint", REAL_ENDPOINT, "up", "--foreground"]
        os.execv(PROGRAM, words)
    await_daemon()
    links = []
    threading.Thread(target=serve, args=(links,), daemon=True).start()
    os.waitpid(daemon, 0)
    for link in links:
        link.thread.join()


main()
