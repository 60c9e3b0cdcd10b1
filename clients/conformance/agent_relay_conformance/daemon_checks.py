"""The checks of daemons. Each plays clients to one daemon, and fails if it breaks a rule."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List

from .client_checks import CLOCK_S, OTHER_USER, check, member_text
from .scripted_client import POLL_S, DaemonRun, Peer
from .wire import Envelope, Failed, Skipped, brief, encode, envelope, frame, payload_of

V, ID, TS = '"v":1', '"id":"k-1"', '"ts":0'


def delivery_of(whole: Envelope) -> Dict[str, Any]:
    delivery = whole.get("delivery")
    return delivery if isinstance(delivery, dict) else {}


# Version 1.0. Its rules promise nothing beyond its text. Their clients speak it, too.


def serves_version_1_0(run: DaemonRun) -> None:
    """Two clients send what the text of version 1.0 shows, and nothing else."""
    ann, bob = run.join_1_0("Ann"), run.join_1_0("Bob")
    for peer in (ann, bob):
        texts = {"session_id": peer.session, "resume_token": peer.token}
        check(all(texts.values()) and "None" not in texts.values(), f"WELCOME states {texts}")
        for member in ("max_frame_bytes", "heartbeat_ms"):
            is_number = isinstance(peer.server.get(member), int)
            check(is_number, f"`server.{member}` is {peer.server.get(member)!r}")
    bob.subscribe("chat")
    payload = {"kind": "message", "body": "Your turn", "data": {}}
    meta = {"requires_ack": True, "ttl_ms": 60000}
    ann.message(bob.name, "", "m-001", topic="chat", payload=payload, payload_meta=meta)
    whole = bob.receive("Your turn")
    wanted = {"from": ann.name, "to": bob.name, "topic": "chat", "payload": payload}
    check(wanted.items() <= whole.items(), f"of {wanted}, {brief(whole)} came")
    delivery = delivery_of(whole)
    is_right = isinstance(delivery.get("seq"), int) and delivery.get("session_id") == bob.session
    check(is_right, f"`delivery` is {delivery}, and the session {bob.session}")
    bob.message(ann.name, "back")
    ann.receive("back")


# 2 Transport and endpoint


def socket_is_private(run: DaemonRun) -> None:
    mode = stat.S_IMODE(os.stat(run.endpoint).st_mode)
    check(mode == 0o600, f"the socket has the mode {mode:o}")


def other_user_is_refused(run: DaemonRun) -> None:
    """A process of another user sends HELLO, after the kit has let it reach the socket."""
    if sys.platform == "win32" or os.getuid() != 0:
        raise Skipped("needs root, to run a process of another user")
    program = (
        "import os, socket, sys; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]));"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.settimeout(float(sys.argv[3])); data = b'';"
        "exec('try: s.sendall(bytes.fromhex(sys.argv[4]))\\nexcept BrokenPipeError: pass');"
        "exec('while True:\\n more = s.recv(65536)\\n if not more: break\\n data += more');"
        "sys.stdout.buffer.write(data[4:])")
    modes = {path: stat.S_IMODE(os.stat(path).st_mode) for path in (run.folder, run.endpoint)}
    try:
        os.chmod(run.folder, 0o711)
        os.chmod(run.endpoint, 0o666)
        hello = encode(envelope("HELLO", {"agent": run.name("Ann")})).hex()
        words = [sys.executable, "-I", "-c", program, run.endpoint, str(OTHER_USER)]
        done = subprocess.run(
            [*words, str(run.timeout), hello], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        for path, mode in modes.items():
            os.chmod(path, mode)
    check(done.returncode == 0, f"the other user was not answered: {done.stderr.decode()[-200:]}")
    try:
        whole = json.loads(done.stdout)
    except ValueError:
        raise Failed(f"the other user received {done.stdout!r}") from None
    payload = payload_of(whole)
    is_right = payload.get("code") == "UNAUTHORIZED" and payload.get("fatal") is True
    check(is_right, f"the other user received {brief(whole)}")


def endpoint_is_in_its_file(run: DaemonRun) -> None:
    try:
        text = Path(run.home, "endpoint").read_text().strip()
    except OSError as error:
        raise Failed(f"no file `endpoint` in the home: {error}") from None
    check(text == run.endpoint, f"the file `endpoint` has {text!r}, not {run.endpoint!r}")


def removed_socket_is_created_again(run: DaemonRun) -> None:
    """The socket is removed under a connected client, which notices nothing."""
    ann = run.join("Ann")
    os.unlink(run.endpoint)
    removed = time.monotonic()
    while not run.accepts():
        check(time.monotonic() - removed < run.timeout, "the daemon did not create its socket")
        time.sleep(POLL_S)  # The standard library cannot wait for a file.
    took = time.monotonic() - removed
    # Three seconds more are for a loaded machine.
    check(took <= 8, f"the daemon created its socket after {took:.1f} s; 5 s are allowed")
    ann.expect_nothing()
    run.join("Bob")


# 3 Frames


def frame_limit_holds(run: DaemonRun) -> None:
    """A frame at the limit, then only the length of one that is a byte longer."""
    ann = run.join_1_0("Ann")
    limit = ann.server.get("max_frame_bytes")
    check(isinstance(limit, int) and limit > 0, f"`max_frame_bytes` is {limit!r}")
    assert isinstance(limit, int)
    start = f'{{{V},"type":"PONG",{ID},{TS},"payload":{{"nonce":"'
    ann.text(start + "x" * (limit - len(start) - 3) + '"}}')
    ann.expect_nothing()
    ann.write((limit + 1).to_bytes(4, "big"))
    ann.drain()


def frames_may_be_in_pieces(run: DaemonRun) -> None:
    """HELLO comes in single bytes, and two messages in one piece."""
    ann = run.connect(speaks_1_0=True)
    ann.name = run.name("Ann")
    for byte in encode(envelope("HELLO", {"agent": ann.name})):
        ann.write(bytes([byte]))
    ann.welcome()
    meta = {"to": ann.name}
    one, two = (envelope("SEND", {"body": body}, **meta) for body in ("one", "two"))
    ann.write(encode(one) + encode(two))
    ann.receive("one")
    ann.receive("two")


def white_space_is_allowed(run: DaemonRun) -> None:
    ann = run.join_1_0("Ann")
    members = f'{V},\n"type" : "SEND",{ID},{TS},"to":"{ann.name}","payload":{{"body":"a"}}'
    ann.text(f" \r\n\t{{ {members} }}\n ")
    ann.receive("a")


# 4 How a frame is checked


def expect_bad_frames(run: DaemonRun, code: str, *frames: bytes) -> None:
    """Each of these is fatal for a client that has joined."""
    for data in frames:
        ann = run.connect()
        ann.hello(run.name(f"A{len(run.peers)}"))
        ann.write(data)
        try:
            ann.expect_fatal(code)
        except Failed as failed:
            raise Failed(f"{failed}; the frame was {data[:80]!r}") from None


def expect_invalid(run: DaemonRun, *texts: str, ref: bool = True) -> None:
    """Each of these gets ERROR `INVALID`, and the connection continues."""
    ann = run.join(f"A{len(run.peers)}")
    for text in texts:
        ann.text(text)
        try:
            ann.expect_invalid(*(["k-1"] if ref else []))
        except Failed as failed:
            raise Failed(f"{failed}; the envelope was {text[:200]}") from None
    ann.expect_nothing()


def send_text(**members: str) -> str:
    """Returns the text of a SEND, with these members as JSON. An empty one is left out."""
    whole = {"v": "1", "type": '"SEND"', "id": '"k-1"', "ts": "0", "to": '"*"', "payload": "{}"}
    whole.update(members)
    return "{" + ",".join(f'"{key}":{value}' for key, value in whole.items() if value) + "}"


def empty_frame_is_bad(run: DaemonRun) -> None:
    expect_bad_frames(run, "BAD_FRAME", b"\0\0\0\0")


def long_frame_is_too_large(run: DaemonRun) -> None:
    """A whole frame, and only the lengths of two: one of a byte too many, and one of 4 GiB."""
    limit = int(run.join("Ann").server.get("max_frame_bytes", 0))
    whole = frame(b" " * (limit + 1))
    expect_bad_frames(run, "FRAME_TOO_LARGE", whole, whole[:4], b"\xff\xff\xff\xff")


def frame_must_be_utf8(run: DaemonRun) -> None:
    bad = [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
    texts = [send_text(payload='{"a":"?"}').encode().replace(b"?", data) for data in bad]
    expect_bad_frames(run, "BAD_FRAME", *[frame(text) for text in texts])


def frame_must_begin_with_an_object(run: DaemonRun) -> None:
    texts = [b"[]", b'"a"', b" 7", b"null", b"   ", b"\xef\xbb\xbf{}", b"x{}"]
    expect_bad_frames(run, "BAD_FRAME", *[frame(text) for text in texts])


def nesting_is_limited(run: DaemonRun) -> None:
    """128 levels are accepted; one more is not, also if the JSON is broken behind it."""
    ann = run.join("Ann")
    nested = '{"body":"deep","data":' + "[" * 126 + "]" * 126 + "}"
    ann.text(send_text(to=f'"{ann.name}"', payload=nested))
    ann.receive("deep")
    deep = "[" * 127 + "]" * 127
    for text in (deep, deep + "x", '{"a":' * 127 + "1" + "}" * 127):
        ann.text(send_text(to=f'"{ann.name}"', payload='{"body":"deep","data":' + text + "}"))
        ann.expect_invalid()
    ann.expect_nothing()


def frame_must_be_json(run: DaemonRun) -> None:
    texts = ["{} {}", "{}x", "{", '{"v":1,}', "{'v':1}", '{"v":01}', '{"a":"\n"}', '{"a":NaN}',
             '{"a":"\\x"}', '{"a":1 "b":2}', send_text() + "]", send_text(payload='{"a":+1}')]
    expect_bad_frames(run, "BAD_FRAME", *[frame(text.encode()) for text in texts])


def v_must_be_a_number(run: DaemonRun) -> None:
    expect_invalid(
        run, send_text(v=""), send_text(v='"1"'), send_text(v="null"), send_text(v="true"),
        send_text().replace(V, f"{V},{V}"))


def v_must_be_1(run: DaemonRun) -> None:
    """Also if a later rule is broken, too: the first one is answered."""
    texts = [send_text(v="2"), send_text(v="0"), send_text(v="-1"), send_text(v="2", ts="")]
    expect_bad_frames(run, "UNSUPPORTED_VERSION", *[frame(text.encode()) for text in texts])


def members_come_once_and_are_strings(run: DaemonRun) -> None:
    expect_invalid(
        run, send_text().replace(TS, f"{TS},{TS}"), send_text(to='"*","to":"*"'),
        send_text(to="7"), send_text(topic="[]"), send_text(**{"from": "{}"}), send_text(type="7"))
    expect_invalid(run, send_text(id="7"), send_text(id='"k-1","id":"k-1"'), ref=False)


def type_must_be_known(run: DaemonRun) -> None:
    expect_invalid(run, send_text(type=""), send_text(type='"KIT"'), send_text(type='"send"'))


def id_has_1_to_128_bytes(run: DaemonRun) -> None:
    expect_invalid(
        run, send_text(id=""), send_text(id='""'), send_text(id='"' + "x" * 129 + '"'),
        send_text(id='"' + "é" * 65 + '"'), ref=False)
    ann = run.peers[-1]
    id = "é" * 64
    ann.message("no name", "?", id)
    ann.expect("NACK", ack_id=id)


def ts_must_be_a_number(run: DaemonRun) -> None:
    expect_invalid(run, send_text(ts=""), send_text(ts='"0"'), send_text(ts="null"))


def payload_must_be_an_object(run: DaemonRun) -> None:
    expect_invalid(
        run, send_text(payload=""), send_text(payload="[]"), send_text(payload='"a"'),
        send_text(payload_meta="[]"), send_text(payload_meta="7"), send_text(delivery='"a"'))


def handshake_comes_first(run: DaemonRun) -> None:
    """A broken HELLO is INVALID, and another may follow."""
    for text in (send_text(), send_text(ts=""), send_text(type='"KIT"'), send_text(v="")):
        ann = run.connect()
        ann.text(text)
        ann.expect_fatal("HANDSHAKE_REQUIRED")
    bob = run.connect()
    for text in (send_text(type='"HELLO"', ts=""), send_text(type='"HELLO"', payload="[]")):
        bob.text(text)
        bob.expect_invalid("k-1")
    bob.hello(run.name("Bob"))


def payload_must_fit_its_type(run: DaemonRun) -> None:
    rows = ['{"type":"ACK","payload":{}}', '{"type":"ACK","payload":{"ack_id":7}}',
            '{"type":"NACK","payload":{"ack_id":[]}}',
            '{"type":"RESUME","payload":{"streams":[{"topic":"a","peer":7,"last_seq":1}]}}']
    expect_invalid(run, *["{" + f"{V},{ID},{TS}," + row[1:] for row in rows])


def values_must_be_allowed(run: DaemonRun) -> None:
    ann = run.join("Ann")
    cases: List[Dict[str, Any]] = [
        {"to": "no name"}, {"to": ""}, {"to": "*", "topic": ""}, {"to": "*", "topic": "a..b"},
        {"to": "*", "payload_meta": {"requires_ack": "yes"}},
        {"to": "*", "payload_meta": {"ttl_ms": "soon"}}]
    for case in cases:
        id = ann.send("SEND", {"body": "?"}, **case)
        ann.expect("NACK", ack_id=id, code="INVALID")
    ann.expect_nothing()


def error_has_ref(run: DaemonRun) -> None:
    expect_invalid(run, send_text(ts=""), send_text(payload=""))


def null_is_no_omission(run: DaemonRun) -> None:
    expect_invalid(
        run, send_text(to="null"), send_text(topic="null"), send_text(payload_meta="null"),
        send_text(**{"from": "null"}))
    ann = run.peers[-1]
    for meta in ({"requires_ack": None}, {"ttl_ms": None}, {"sync": None}):
        id = ann.message("*", "?", payload_meta=meta)
        ann.expect("NACK", ack_id=id, code="INVALID")


def payload_is_not_changed(run: DaemonRun) -> None:
    ann, bob = run.pair()
    payload = (
        '{ "body":"x" ,"a":1e999,"b":[ 1.0 ,-0, 123456789012345678901234567890 ],\n\t'
        '"c":"\\ud800\\u00e9\\/é","a" : null,"body":"x","": {} }')
    meta = '{"kit": 1.50 ,"requires_ack"  :true,"kit":[ ],"replyTo":7,"importance":"high"}'
    ann.text(send_text(to=f'"{bob.name}"', payload=payload, payload_meta=meta))
    ann.expect("ACK", ack_id="k-1")
    whole = bob.receive("x")
    text = bob.texts[str(whole.get("id"))].encode()
    for member, sent in (("payload", payload), ("payload_meta", meta)):
        got = member_text(text, member)
        check(got == sent, f"`{member}` was {sent}, and {got} came")


def other_connections_continue(run: DaemonRun) -> None:
    ann, bob = run.pair()
    ann.text("[]")
    ann.expect_fatal("BAD_FRAME")
    bob.expect_nothing()


def unknown_members_are_ignored(run: DaemonRun) -> None:
    """Every envelope of the client has members that no version has, at every level."""
    more: Dict[str, Any] = {"kit_number": 7, "kit_object": {"a": [None]}, "kit_null": None}
    ann, bob = run.connect(), run.join("Bob")
    hello = {**more, "agent": run.name("Ann"), "capabilities": {**more, "resume": True}}
    ann.send("HELLO", hello, **more)
    ann.welcome()
    ann.send("SUBSCRIBE", more, topic=run.topic("a"), **more)
    ann.expect("ACK")
    bob.mailed(ann.name, "one", payload_meta=more, **more)
    whole = ann.receive("one")
    ann.send("ACK", {**more, "ack_id": whole["id"]}, **more)
    ann.send("PONG", {**more, "nonce": "?"}, **more)
    id = ann.send("SEND", {**more, "body": "two"}, to=bob.name, payload_meta={
        **more, "sync": {**more, "correlationId": "c-1"}}, **more)
    ann.expect("ACK", ack_id=id, state="accepted")
    whole = bob.receive("two")
    answer = {**more, "ack_id": whole["id"], "correlationId": "c-1", "response": True}
    bob.send("ACK", answer, **more)
    ann.expect("ACK", ack_id=id, correlationId="c-1")
    resume = {**more, "streams": [{**more, "topic": "", "peer": bob.name, "last_seq": 1}]}
    ann.send("RESUME", resume, **more)
    ann.expect("SYNC")
    ann.send("BYE", more, **more)
    ann.expect_end()


def ids_are_uuids(run: DaemonRun) -> None:
    ann = run.connect()
    welcome = ann.hello(run.name("Ann"))
    ann.message(ann.name, "one")
    envelopes = [welcome, ann.receive("one")]
    ann.text(send_text(ts=""))
    envelopes.append(ann.expect("ERROR"))
    for whole in envelopes:
        with contextlib.suppress(ValueError):
            if uuid.UUID(str(whole.get("id"))).version == 4:
                continue
        raise Failed(f"`id` is no UUIDv4: {brief(whole)}")


# 5 Names


def names_are_checked(run: DaemonRun) -> None:
    suffix = f"{os.getpid()}{run.serial}"
    for name in (f"a{suffix}", f"Z.{suffix}-_z", suffix.rjust(64, "x")):
        run.connect().hello(name)
    bad = ["", "two words", "-a", "a-", ".a", "a.", "_", "a/b", "Zoë", "a\n", "a\0", "@a", "*"]
    for name in [*bad, "x" * 65]:
        peer = run.connect()
        peer.send("HELLO", {"agent": name})
        try:
            peer.expect_fatal("INVALID_NAME")
        except Failed as failed:
            raise Failed(f"{failed}; the name was {name!r}") from None


RESERVED = ("user human owner operator overseer admin administrator root system assistant relay "
            "agent-relay cli all everyone").split()


def names_are_reserved(run: DaemonRun) -> None:
    for name in [*RESERVED, "Root", "ALL", "Agent-Relay"]:
        peer = run.connect()
        peer.send("HELLO", {"agent": name})
        try:
            peer.expect_fatal("INVALID_NAME")
        except Failed as failed:
            raise Failed(f"{failed}; the name was {name!r}") from None


def case_does_not_distinguish_names(run: DaemonRun) -> None:
    ann, bob = run.pair()
    ann.message(bob.name.lower(), "hello")
    whole = bob.receive("hello")
    check(whole.get("to") == bob.name, f"`to` is {whole.get('to')!r}, and the name {bob.name!r}")
    other = run.connect()
    other.send("HELLO", {"agent": bob.name.upper()})
    other.expect_fatal("NAME_IN_USE")


# 6 Handshake


def handshake_has_a_time_limit(run: DaemonRun) -> None:
    run.connect().expect_fatal("HANDSHAKE_TIMEOUT")


def second_hello_is_invalid(run: DaemonRun) -> None:
    ann = run.join("Ann")
    id = ann.send("HELLO", {"agent": run.name("Other")})
    ann.expect_invalid(id)
    ann.expect_nothing()


def hello_may_be_repeated_after_invalid(run: DaemonRun) -> None:
    ann = run.connect()
    name = run.name("Ann")
    cases: List[Dict[str, Any]] = [
        {"agent": 7}, {}, {"agent": name, "capabilities": []}, {"agent": name, "session": "s"},
        {"agent": name, "capabilities": {"ack": 1}}, {"agent": name, "auth": {"key": 7}},
        {"agent": name, "capabilities": {"max_inflight": "9"}}]
    for payload in cases:
        ann.expect_invalid(ann.send("HELLO", payload))
    ann.hello(name)


def welcome_is_complete(run: DaemonRun) -> None:
    """WELCOME has what version 1.0 promised, and what 1.1 added."""
    tokens = set()
    for _ in range(2):
        ann = run.connect()
        payload = payload_of(ann.hello(run.name("Ann")))
        check(ann.session.startswith("s-"), f"`session_id` is {ann.session!r}")
        is_token = re.fullmatch("[0-9a-fA-F]{64}", ann.token)
        check(is_token and ann.token not in tokens, f"`resume_token` is {ann.token!r}")
        tokens.add(ann.token)
        check(payload.get("agent") == run.name("Ann"), f"`agent` is {payload.get('agent')!r}")
        granted = payload.get("capabilities")
        granted = granted if isinstance(granted, dict) else {}
        wanted = {"ack": True, "resume": False, "max_inflight": 256, "supports_topics": True}
        check(wanted.items() <= granted.items(), f"`capabilities` are {granted}")
        for member in ("max_frame_bytes", "heartbeat_ms", "resume_window_ms", "queue_max_messages"):
            is_number = isinstance(ann.server.get(member), int)
            check(is_number, f"`server.{member}` is {ann.server.get(member)!r}")
        check(ann.server.get("protocol") == "1.1", f"`protocol` is {ann.server.get('protocol')!r}")
        ann.send("BYE", {})
        ann.expect_end()


def mail_follows_welcome(run: DaemonRun) -> None:
    ann, bob = run.pair()
    leave(bob)
    check(payload_of(ann.mailed(bob.name, "one")).get("away") is True, "`away` is not true")
    ann.mailed(bob.name, "two")
    bob = run.join("Bob")
    bob.ack(bob.receive("one"))
    bob.ack(bob.receive("two"))


def leave(peer: Peer) -> None:
    peer.send("BYE", {"reason": "done"})
    peer.expect_end()


def connected_name_is_in_use(run: DaemonRun) -> None:
    """The older connection gets a PING. The name is free once it has left."""
    ann = run.join("Ann")
    other = run.connect()
    other.send("HELLO", {"agent": ann.name})
    ann.expect_ping()
    other.expect_fatal("NAME_IN_USE")
    ann.expect_nothing()
    leave(ann)
    run.join("Ann")


def ack_false_refuses_mail(run: DaemonRun) -> None:
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"ack": False})
    id = ann.mail(bob.name, "one")
    ann.expect("NACK", ack_id=id, code="NO_ACK")
    ann.message(bob.name, "two")
    bob.receive("two")


def max_inflight_holds(run: DaemonRun) -> None:
    """Two of four messages are in flight, while a message without ACK passes."""
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"max_inflight": 2})
    for body in ("one", "two", "three", "four"):
        ann.mailed(bob.name, body)
    one, two = bob.receive("one"), bob.receive("two")
    bob.expect_nothing()
    bob.ack(one)
    three = bob.receive("three")
    bob.ack(two)
    bob.ack(three)
    bob.ack(bob.receive("four"))
    carl = run.join("Carl", capabilities={"max_inflight": 0})
    ann.mailed(carl.name, "never")
    carl.expect_nothing()


def supports_topics_false_forbids_subscribe(run: DaemonRun) -> None:
    ann = run.join("Ann", capabilities={"supports_topics": False})
    for kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
        id = ann.send(kind, {}, topic="a")
        ann.expect("NACK", ack_id=id, code="FORBIDDEN")


def unknown_mode_is_invalid(run: DaemonRun) -> None:
    ann = run.connect()
    for mode in ("kit", "", "Guest", 7):
        ann.expect_invalid(ann.send("HELLO", {"agent": run.name("Ann"), "mode": mode}))


# 6 Modes


def companion(run: DaemonRun, agent: str, key: str) -> Peer:
    peer = run.connect()
    peer.send("HELLO", {"mode": "companion", "agent": agent, "companion_key": key})
    return peer


def companion_needs_the_key(run: DaemonRun) -> None:
    ann = run.join("Ann", companion_key="5d0f8b1c2a7e4936")
    companion(run, ann.name, "another").expect_fatal("UNAUTHORIZED")
    companion(run, run.name("Nobody"), "5d0f8b1c2a7e4936").expect_fatal("UNAUTHORIZED")
    right = companion(run, ann.name, "5d0f8b1c2a7e4936")
    check(payload_of(right.welcome()).get("agent") == ann.name, "a companion has another name")


def companion_speaks_for_its_agent(run: DaemonRun) -> None:
    ann, bob = run.join("Ann", companion_key="k"), run.join("Bob")
    ann.message(bob.name, "one")
    first = delivery_of(bob.receive("one"))
    other = companion(run, ann.name, "k")
    other.welcome()
    other.mailed(bob.name, "two")
    whole = bob.receive("two")
    delivery = delivery_of(whole)
    sender = delivery.get("sender")
    auth = sender.get("auth") if isinstance(sender, dict) else None
    check(whole.get("from") == ann.name, f"`from` is {whole.get('from')!r}")
    check(auth == "companion", f"`sender.auth` is {auth!r}")
    seq = delivery.get("seq")
    check(seq == first.get("seq", 0) + 1, f"`seq` is {seq!r}, after {first.get('seq')!r}")
    id = other.send("SUBSCRIBE", {}, topic="a")
    other.expect("NACK", ack_id=id, code="FORBIDDEN")
    leave(ann)
    id = other.mail(bob.name, "three")
    other.expect("NACK", ack_id=id, code="AGENT_OFFLINE")


def operator_needs_the_key(run: DaemonRun) -> None:
    peer = run.connect()
    peer.send("HELLO", {"mode": "operator", "auth": {"key": "0" * 64}})
    peer.expect_fatal("UNAUTHORIZED")
    if "start" in run.can:
        one, two = run.operator(), run.operator()
        names = {one.name, two.name}
        check(names == {"@operator"}, f"operators have the names {names}")


def name_of_another_machine_is_for_bridges(run: DaemonRun) -> None:
    peer = run.connect()
    peer.send("HELLO", {"agent": run.name("Ann") + "@kit"})
    peer.expect_fatal("INVALID_NAME")


def bridge_needs_the_key(run: DaemonRun) -> None:
    peer = run.connect()
    agent = run.name("Ann") + "@kit"
    peer.send("HELLO", {"mode": "bridge", "agent": agent, "auth": {"key": "0" * 64}})
    peer.expect_fatal("UNAUTHORIZED")


def bridge_resumes_without_a_token(run: DaemonRun) -> None:
    bob, agent = run.join("Bob"), run.name("Ann") + "@kit"
    one = run.bridge(agent)
    one.welcome()
    run.bridge(agent, "another").expect_fatal("NAME_IN_USE")
    two = run.bridge(agent)
    two.welcome()
    one.expect_ping()
    one.expect_fatal("SESSION_REPLACED")
    two.message(bob.name, "from afar")
    whole = bob.receive("from afar")
    check(whole.get("from") == agent, f"a bridge sends as {whole.get('from')!r}")
    sender = delivery_of(whole).get("sender")
    auth = sender.get("auth") if isinstance(sender, dict) else None
    check(auth == "bridge", f"`sender.auth` of a bridge is {auth!r}")


def bridge_gets_no_broadcasts(run: DaemonRun) -> None:
    bob, ann = run.join("Bob"), run.bridge(run.name("Ann") + "@kit")
    ann.welcome()
    bob.message("*", "to everyone")
    bob.message(ann.name, "to one")
    ann.receive("to one")
    ann.send("SUBSCRIBE", {}, topic="kit", id="s")
    ann.expect("NACK", ack_id="s", code="FORBIDDEN")


def guest_has_a_name_for_now(run: DaemonRun) -> None:
    ann, guest = run.join("Ann"), run.connect()
    guest.send("HELLO", {"mode": "guest"})
    granted = payload_of(guest.welcome()).get("capabilities")
    check(re.fullmatch("@guest-[0-9a-f]{8}", guest.name), f"a guest has the name {guest.name!r}")
    wanted = {"ack": False, "max_inflight": 0, "supports_topics": False}
    is_right = isinstance(granted, dict) and wanted.items() <= granted.items()
    check(is_right, f"a guest was granted {granted}")
    guest.mailed(ann.name, "one")
    whole = ann.receive("one")
    ann.message(str(whole.get("from")), "answer")
    guest.receive("answer")
    id = ann.mail(guest.name, "?")
    ann.expect("NACK", ack_id=id, code="NO_ACK")


def guest_that_returns_is_the_same(run: DaemonRun) -> None:
    ann = run.join("Ann")
    hello = {"mode": "guest", "guest_key": uuid.uuid4().hex}
    names = set()
    for _ in range(2):
        guest = run.connect()
        guest.send("HELLO", hello)
        guest.welcome()
        names.add(guest.name)
        guest.mailed(ann.name, "one", id="g")
        lost(guest)
    check(len(names) == 1, f"the guest was {' and '.join(names)}")
    ann.receive("one")
    ann.expect_nothing()


# 7 SEND and DELIVER


def message_reaches_its_agent(run: DaemonRun) -> None:
    ann, bob = run.join_1_0("Ann"), run.join_1_0("Bob")
    ann.message(bob.name, "one", topic=run.topic("a"))
    bob.receive("one")
    ann.message(ann.name, "to myself")
    ann.receive("to myself")
    bob.expect_nothing()


def everyone_is_everyone_but_the_sender(run: DaemonRun) -> None:
    run.start()  # Clients of earlier rules may not have left yet, and would be reported to Ann.
    ann, bob, carl = (run.join_1_0(label) for label in ("Ann", "Bob", "Carl"))
    ann.message("*", "all")
    for peer in (bob, carl):
        peer.receive("all")
        peer.expect_nothing()
    ann.expect_nothing()


def topic_reaches_its_subscribers(run: DaemonRun) -> None:
    """The sender has subscribed, too, and gets nothing."""
    ann, bob, carl = (run.join_1_0(label) for label in ("Ann", "Bob", "Carl"))
    topic = run.topic("a")
    ann.subscribe(topic)
    bob.subscribe(topic)
    ann.message("*", "one", topic=topic)
    whole = bob.receive("one")
    check(whole.get("topic") == topic, f"`topic` is {whole.get('topic')!r}")
    for peer in (carl, ann, bob):
        peer.expect_nothing()
    bob.subscribe(topic, "UNSUBSCRIBE")
    ann.message("*", "two", topic=topic)
    ann.message(bob.name, "three")
    bob.receive("three")


def recipient_must_be_there(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for to in (None, "", "two words", "a/b", "x" * 65):
        id = ann.send("SEND", {"body": "?"}, **({} if to is None else {"to": to}))
        ann.expect("NACK", ack_id=id, code="INVALID")


def sender_cannot_state_another_name(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.message(bob.name, "?", from_=bob.name)
    ann.expect("NACK", ack_id=id, code="FORBIDDEN")
    ann.message(bob.name, "right", from_=ann.name)
    bob.receive("right")


def topic_of_a_message_has_no_wildcards(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for topic in ("*", ">", "a.*", "a.>", "*.a"):
        id = ann.mail("*", "?", topic=topic)
        ann.expect("NACK", ack_id=id, code="INVALID")
    ann.mailed("*", "right", topic="kit.a*.b>")


def delivery_is_complete(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id)
    whole = bob.receive("one")
    check(whole.get("id") != id, "a DELIVER has the id of its SEND")
    check((whole.get("from"), whole.get("to")) == (ann.name, bob.name), f"names: {brief(whole)}")
    delivery = delivery_of(whole)
    wanted = {"seq": 1, "session_id": bob.session, "requires_ack": True}
    check(wanted.items() <= delivery.items(), f"`delivery` is {delivery}, and not {wanted}")
    sender = {"session": ann.session, "auth": "claim"}
    check(delivery.get("sender") == sender, f"`sender` is {delivery.get('sender')}, not {sender}")
    check("attempt" not in delivery, "a first DELIVER has `attempt`")
    check("originalTo" not in delivery, "a DELIVER to one agent has `originalTo`")
    topic = run.topic("a")
    bob.subscribe(topic)
    for to in ("*", None):
        ann.message(to, "two", topic=topic)
        delivery = delivery_of(bob.receive("two"))
        check(delivery.get("originalTo") == "*", f"`originalTo` is {delivery.get('originalTo')!r}")


def streams_count_for_themselves(run: DaemonRun) -> None:
    """Two topics and two recipients, and a refused message in between."""
    ann, bob = run.pair()
    carl, topic = run.join("Carl"), run.topic("a")

    def expect(peer: Peer, body: str, seq: int) -> None:
        got = delivery_of(peer.receive(body)).get("seq")
        check(got == seq, f"the message {body!r} has the number {got!r}, not {seq}")

    ann.message(bob.name, "one")
    expect(bob, "one", 1)
    ann.message(bob.name, "topic one", topic=topic)
    expect(bob, "topic one", 1)
    id = ann.message(bob.name, "?", payload_meta={"ttl_ms": "soon"})
    ann.expect("NACK", ack_id=id)
    ann.mailed(bob.name, "two")
    expect(bob, "two", 2)
    ann.message(carl.name, "carl one")
    expect(carl, "carl one", 1)
    ann.message(bob.name, "topic two", topic=topic)
    expect(bob, "topic two", 2)


def stream_is_in_order(run: DaemonRun) -> None:
    """Direct and published messages of both kinds share the stream of their topic."""
    ann, bob = run.join_1_0("Ann"), run.join_1_0("Bob")
    topic, last = run.topic("a"), 0
    bob.subscribe(topic)
    for first in range(1, 25, 6):
        numbers = range(first, first + 6)
        for number in numbers:
            send = ann.mail if number % 2 else ann.message
            send("*" if number % 3 == 0 else bob.name, str(number), topic=topic)
        for number in numbers:
            seq = int(delivery_of(bob.receive(str(number)))["seq"])
            check(seq > last, f"message {number} has the number {seq}, after {last}")
            last = seq
        bob.expect_nothing()  # Otherwise, his ACKs may come too late for the queue's room.


def broadcast_counts_its_recipients(run: DaemonRun) -> None:
    ann, bob = run.pair()
    carl, topic = run.join("Carl"), run.topic("a")
    check(payload_of(ann.mailed("*", "?", topic=topic)).get("recipients") == 0, "nobody is not 0")
    bob.subscribe(topic)
    carl.subscribe(topic)
    count = payload_of(ann.mailed("*", "one", topic=topic)).get("recipients")
    check(count == 2, f"`recipients` is {count!r}, and two have subscribed")


def broadcast_names_who_cannot_get_it(run: DaemonRun) -> None:
    ann, topic = run.join("Ann"), run.topic("a")
    bob = run.join("Bob", capabilities={"ack": False})
    carl = run.join("Carl")
    bob.subscribe(topic)
    carl.subscribe(topic)
    id = ann.mail("*", "one", topic=topic)
    ann.expect_all(
        {"type": "ACK", "ack_id": id, "recipients": 1},
        {"type": "NACK", "ack_id": id, "code": "NO_ACK", "to": bob.name})


# 7 Topics


def wildcard_for_the_rest_is_last(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for topic in ("a.>.b", ">.a", "a..b", ".a", "a.", "", "x" * 257):
        id = ann.send("SUBSCRIBE", {}, topic=topic)
        ann.expect("NACK", ack_id=id, code="INVALID")
    ann.expect("NACK", ack_id=ann.send("SUBSCRIBE", {}), code="INVALID")
    ann.subscribe("x" * 256)


MATCHES = [
    ("build", ["build"], ["build.linux"]),
    ("build.*", ["build.linux"], ["build", "build.linux.arm"]),
    ("build.>", ["build.linux", "build.linux.arm"], ["build"]),
    ("*.linux", ["build.linux"], ["linux", "a.build.linux"]),
    (">", ["build", "a.b.c"], []),
    ("x*", ["x*"], ["xy"]),
]


def patterns_match(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for number, (pattern, matching, others) in enumerate(MATCHES):
        bob = run.connect()
        bob.hello(run.name(f"Bob{number}"))
        bob.subscribe(pattern)
        for topic in matching + others + ["Build", "build.Linux"]:
            is_right = topic in matching or pattern == ">"
            is_right = is_right or (pattern in ("build.*", "build.>") and topic == "build.Linux")
            ann.message(None, topic, topic=topic)
            if is_right:
                bob.receive(topic)
        ann.message(bob.name, "no topic")
        bob.receive("no topic")
        leave(bob)


def several_patterns_match_once(run: DaemonRun) -> None:
    """Subscribing twice, and leaving a pattern without a subscription, is no error."""
    ann, bob = run.pair()
    topic = run.topic("a")
    for pattern in (topic, topic, topic.replace(".a", ".*"), topic.replace(".a", ".>")):
        bob.subscribe(pattern)
    ann.message(None, "one", topic=topic)
    bob.receive("one")
    bob.expect_nothing()
    bob.subscribe(run.topic("other"), "UNSUBSCRIBE")
    for pattern in (topic, topic.replace(".a", ".*"), topic.replace(".a", ".>")):
        bob.subscribe(pattern, "UNSUBSCRIBE")
    ann.message(None, "two", topic=topic)
    ann.message(bob.name, "three")
    bob.receive("three")


def session_has_256_patterns(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for number in range(256):
        ann.send("SUBSCRIBE", {}, topic=run.topic(str(number)))
    for _ in range(256):
        ann.expect("ACK")
    id = ann.send("SUBSCRIBE", {}, topic=run.topic("more"))
    ann.expect("NACK", ack_id=id, code="LIMIT")
    ann.subscribe(run.topic("0"))
    ann.subscribe(run.topic("0"), "UNSUBSCRIBE")
    ann.subscribe(run.topic("more"))


# 8 Delivery


def at_most_once_is_not_answered(run: DaemonRun) -> None:
    ann, bob = run.pair()
    ann.message(bob.name, "one")
    delivery = delivery_of(bob.receive("one"))
    check(not delivery.get("requires_ack"), "an at-most-once DELIVER requires an ACK")
    ann.expect_nothing()


def at_most_once_is_never_repeated(run: DaemonRun) -> None:
    """It was received when the connection was lost. The session is resumed."""
    ann, bob = run.pair()
    ann.message(bob.name, "one")
    bob.receive("one")
    lost(bob)
    bob = resumed(run, bob)
    bob.expect_nothing()
    leave(bob)
    id = ann.message(bob.name, "two")
    ann.expect("NACK", ack_id=id, code="AGENT_OFFLINE")


def resumed(run: DaemonRun, old: Peer, **capabilities: Any) -> Peer:
    """Joins with the token of a connection."""
    peer = run.connect()
    session = {"session": {"resume_token": old.token}}
    peer.hello(old.name, capabilities=capabilities, **session)
    check(peer.session == old.session, f"the session {old.session} was not resumed")
    return peer


def lost(peer: Peer) -> None:
    """Ends a connection without BYE. Waits until the daemon has noticed, and ended it, too."""
    peer.socket.shutdown(socket.SHUT_WR)
    peer.drain()


def acceptance_states_its_durability(run: DaemonRun) -> None:
    ann, bob = run.pair()
    durability = payload_of(ann.mailed(bob.name, "one")).get("durability")
    check(durability in ("disk", "process"), f"`durability` is {durability!r}")


def mail_survives_the_daemon(run: DaemonRun) -> None:
    """The daemon is killed after `accepted`, and after DELIVER. The dedup window survives, too."""
    ann, bob = run.pair()
    first = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=first)
    id = bob.receive("one")["id"]
    leave(bob)
    ann.mailed(bob.name, "two")
    run.kill()
    run.start()
    ann, bob = run.pair()
    whole = bob.receive("one")
    check(whole["id"] == id, "after a crash, a message came again with another id")
    bob.ack(whole)
    bob.ack(bob.receive("two"))
    ann.mail(bob.name, "one", first)
    ann.expect("ACK", ack_id=first, state="accepted")
    bob.expect_nothing()


def only_own_deliveries_are_acknowledged(run: DaemonRun) -> None:
    """Carl acknowledges Bob's message. ACKs of unknown ids are ignored, too."""
    ann, bob = run.pair()
    carl = run.join("Carl")
    ann.mailed(bob.name, "one")
    whole = bob.receive("one")
    carl.ack(whole)
    carl.ack({"id": "unknown"})
    carl.expect_nothing()
    lost(bob)
    bob = run.join("Bob")
    again = bob.receive("one")
    bob.ack(again)
    bob.ack(again)
    bob.expect_nothing()
    lost(bob)
    run.join("Bob").expect_nothing()


def redelivery_keeps_id_and_number(run: DaemonRun) -> None:
    ann, bob = run.pair()
    ann.mailed(bob.name, "one")
    first = bob.receive("one")
    lost(bob)
    bob = run.join("Bob")
    again = bob.receive("one")
    check(again["id"] == first["id"], "a redelivered message has another id")
    seq, attempt = delivery_of(again).get("seq"), delivery_of(again).get("attempt")
    check(seq == delivery_of(first).get("seq"), "a redelivered message has another `seq`")
    check(attempt == 2, f"`attempt` is {attempt!r}, and it is the second one")


def cumulative_ack_covers_the_stream(run: DaemonRun) -> None:
    ann, bob = run.pair()
    for body in ("one", "two", "three"):
        ann.mailed(bob.name, body)
    ann.mailed(bob.name, "other", topic=run.topic("a"))
    bob.receive("one")
    two = bob.receive("two")
    bob.receive("three")
    bob.receive("other")
    bob.ack(two, cumulative_seq=delivery_of(two)["seq"])
    bob.expect_nothing()
    lost(bob)
    bob = run.join("Bob")
    left = {str(payload_of(bob.expect("DELIVER")).get("body")) for _ in range(2)}
    check(left == {"three", "other"}, f"what is not acknowledged are {left}")
    bob.expect_nothing()


def cumulative_ack_covers_what_came(run: DaemonRun) -> None:
    """It names a number that was not assigned yet. What comes later is delivered all the same."""
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"max_inflight": 1})
    ann.mailed(bob.name, "one")
    ann.mailed(bob.name, "two")
    bob.ack(bob.receive("one"), cumulative_seq=99)
    bob.ack(bob.receive("two"))
    ann.mailed(bob.name, "three")
    bob.ack(bob.receive("three"))
    bob.expect_nothing()


def later_messages_wait_for_a_returned_one(run: DaemonRun) -> None:
    """One is returned, and others of both kinds follow before it is due."""
    ann, bob = run.pair()
    ann.mailed(bob.name, "one")
    bob.nack(bob.receive("one"), retry_after_ms=600)
    bob.expect_nothing()
    ann.mailed(bob.name, "two")
    ann.message(bob.name, "three")
    bob.ack(bob.receive("one"))
    bob.ack(bob.receive("two"))
    bob.receive("three")


def returned_message_comes_again(run: DaemonRun) -> None:
    """After 300 ms, and no earlier."""
    ann, bob = run.pair()
    ann.mailed(bob.name, "one")
    whole = bob.receive("one")
    before = time.monotonic()
    bob.nack(whole, retry_after_ms=300)
    again = bob.receive("one")
    waited = time.monotonic() - before
    check(again["id"] == whole["id"], "a returned message came again with another id")
    check(waited >= 0.3 - CLOCK_S, f"it came again after {waited * 1000:.0f} ms; 300 ms were asked")
    attempt = delivery_of(again).get("attempt")
    check(attempt == 2, f"`attempt` is {attempt!r}")
    ann.expect_nothing()
    bob.ack(again)


def refusal_reaches_the_sender(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id)
    bob.nack(bob.receive("one"), message="not mine")
    nack = ann.expect("NACK", ack_id=id, code="REFUSED", to=bob.name)
    message = str(payload_of(nack).get("message"))
    check("not mine" in message, f"the recipient's words are not in the message {message!r}")
    bob.expect_nothing()
    lost(bob)
    run.join("Bob").expect_nothing()


def ten_failures_are_the_end(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id)
    for _ in range(10):
        bob.nack(bob.receive("one"), retry_after_ms=50)
    ann.expect("NACK", ack_id=id, code="GAVE_UP", to=bob.name)
    bob.expect_nothing()


def repeated_message_is_accepted_once(run: DaemonRun) -> None:
    """On the same connection, on the next one, and after it was acknowledged."""
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id, state="accepted")
    ann.mail(bob.name, "one", id)
    ann.expect("ACK", ack_id=id, state="accepted")
    bob.ack(bob.receive("one"))
    bob.expect_nothing()
    lost(ann)
    ann = run.join("Ann")
    ann.mail(bob.name, "one", id)
    ann.expect("ACK", ack_id=id, state="accepted")
    bob.expect_nothing()


def other_content_is_another_message(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id)
    ann.mail(bob.name, "two", id)
    ann.expect("ACK", ack_id=id)
    ann.mail(bob.name, "two", id, topic=run.topic("a"))
    ann.expect("ACK", ack_id=id)
    bob.ack(bob.receive("one"))
    bob.ack(bob.receive("two"))
    bob.ack(bob.receive("two"))


def message_expires(run: DaemonRun) -> None:
    """One waits for an agent that is away, and one is not acknowledged."""
    ann, bob = run.pair()
    carl = run.join("Carl")
    leave(carl)
    for peer, is_here in ((bob, True), (carl, False)):
        id = ann.mail(peer.name, "one", payload_meta={"ttl_ms": 200})
        ann.expect("ACK", ack_id=id)
        if is_here:
            peer.receive("one")
        ann.expect("NACK", ack_id=id, code="EXPIRED", to=peer.name)
    run.join("Carl").expect_nothing()


def broadcast_expires_for_each_recipient(run: DaemonRun) -> None:
    """Two have subscribed, and none acknowledges."""
    ann, bob = run.pair()
    carl, topic = run.join("Carl"), run.topic("a")
    bob.subscribe(topic)
    carl.subscribe(topic)
    id = ann.mail("*", "one", topic=topic, payload_meta={"ttl_ms": 200})
    ann.expect("ACK", ack_id=id, recipients=2)
    expired = {"type": "NACK", "ack_id": id, "code": "EXPIRED"}
    ann.expect_all({**expired, "to": bob.name}, {**expired, "to": carl.name})
    ann.expect_nothing()


def unknown_agent_is_reported(run: DaemonRun) -> None:
    ann = run.join("Ann")
    for send in (ann.message, ann.mail):
        id = send(run.name("Nobody"), "?")
        nack = ann.expect("NACK", ack_id=id, code="UNKNOWN_AGENT")
        message = str(payload_of(nack).get("message"))
        check(ann.name in message, f"the message does not list who is connected: {message!r}")


def away_agent_gets_mail_only(run: DaemonRun) -> None:
    ann, bob = run.pair()
    leave(bob)
    id = ann.message(bob.name, "one")
    ann.expect("NACK", ack_id=id, code="AGENT_OFFLINE")
    check(payload_of(ann.mailed(bob.name, "two")).get("away") is True, "`away` is not true")
    bob = run.join("Bob")
    bob.ack(bob.receive("two"))
    check("away" not in payload_of(ann.mailed(bob.name, "three")), "`away`, and the agent is here")


def delivery_fits_a_frame(run: DaemonRun) -> None:
    """The SEND fits a frame, and its DELIVER does not."""
    ann, bob = run.pair()
    limit = int(ann.server.get("max_frame_bytes", 0))
    start = f'{{"v":1,"type":"SEND","id":"k","ts":0,"to":"{bob.name}","payload":{{"body":"'
    ann.text(start + "x" * (limit - len(start) - 3) + '"}}')
    ann.expect("NACK", ack_id="k", code="TOO_LARGE")
    bob.expect_nothing()


def instructions_are_checked(run: DaemonRun) -> None:
    ann, bob = run.pair()
    bad: List[Dict[str, Any]] = [
        {"requires_ack": 1}, {"ttl_ms": "1"}, {"ttl_ms": -1}, {"ttl_ms": 1.5}, {"sync": True},
        {"sync": []}]
    for meta in bad:
        id = ann.message(bob.name, "?", payload_meta=meta)
        try:
            ann.expect("NACK", ack_id=id, code="INVALID")
        except Failed as failed:
            raise Failed(f"{failed}; `payload_meta` was {meta}") from None
    meta = {"importance": "high", "replyTo": [], "kit": None}
    ann.message(bob.name, "one", payload_meta=meta)
    got = bob.receive("one").get("payload_meta")
    check(got == meta, f"`payload_meta` is {got}, not {meta}")


def outcome_waits_for_its_sender(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ann.mail(bob.name, "one")
    ann.expect("ACK", ack_id=id)
    whole = bob.receive("one")
    lost(ann)
    bob.nack(whole)
    bob.expect_nothing()
    resumed(run, ann).expect("NACK", ack_id=id, code="REFUSED", to=bob.name)


# 8 Questions


def ask(ann: Peer, bob: Peer, body: str = "Which port?", **sync: Any) -> str:
    """Sends a question. Returns its id once it is accepted."""
    id = ann.message(bob.name, body, payload_meta={"sync": {"correlationId": "c-1", **sync}})
    ann.expect("ACK", ack_id=id, state="accepted")
    return id


def answer_reaches_the_asker(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ask(ann, bob)
    whole = bob.receive("Which port?")
    meta = whole.get("payload_meta")
    check(isinstance(meta, dict) and "sync" in meta, f"no `sync` in {brief(whole)}")
    check(delivery_of(whole).get("requires_ack") is True, "a question requires no ACK")
    data = '{ "body":"8080" , "a":[1.0, 1e400] }'
    bob.text(
        f'{{{V},"type":"ACK",{ID},{TS},"payload":{{"ack_id":"{whole["id"]}",'
        f'"correlationId":"c-1","response":true,"responseData":{data}}}}}')
    answer = ann.expect("ACK", ack_id=id, correlationId="c-1", response=True)
    check(answer.get("from") == bob.name, f"`from` is {answer.get('from')!r}")
    text = member_text(ann.texts[answer["id"]].encode(), "payload") or "{}"
    got = member_text(text.encode(), "responseData")
    check(got == data, f"`responseData` was {data}, and {got} came")


def question_has_a_time_limit(run: DaemonRun) -> None:
    """The message itself is delivered all the same."""
    ann, bob = run.pair()
    id = ask(ann, bob, timeoutMs=200)
    ann.expect("NACK", ack_id=id, code="SYNC_TIMEOUT", correlationId="c-1", to=bob.name)
    bob.ack(bob.receive("Which port?"))
    bob.expect_nothing()
    ann.expect_nothing()


def second_ack_may_answer(run: DaemonRun) -> None:
    """The first ACK acknowledges only. Of two answers, the first one counts."""
    ann, bob = run.pair()
    id = ask(ann, bob)
    whole = bob.receive("Which port?")
    bob.ack(whole)
    bob.ack(whole, correlationId="c-1", response=True, responseData={"body": "8080"})
    bob.ack(whole, correlationId="c-1", response=True, responseData={"body": "9090"})
    bob.expect_nothing()
    ann.expect("ACK", ack_id=id, correlationId="c-1", responseData={"body": "8080"})
    ann.expect_nothing()


def question_is_checked(run: DaemonRun) -> None:
    ann, bob = run.pair()
    bad: List[Dict[str, Any]] = [
        {}, {"correlationId": ""}, {"correlationId": 7}, {"correlationId": "x" * 257},
        {"correlationId": "c", "timeoutMs": 0}, {"correlationId": "c", "timeoutMs": 3_600_001},
        {"correlationId": "c", "timeoutMs": "1"}, {"correlationId": "c", "blocking": 1}]
    for sync in bad:
        id = ann.message(bob.name, "?", payload_meta={"sync": sync})
        try:
            ann.expect("NACK", ack_id=id, code="INVALID")
        except Failed as failed:
            raise Failed(f"{failed}; `sync` was {sync}") from None
    for to in ("@relay", "@operator"):
        id = ann.message(to, "?", payload_meta={"sync": {"correlationId": "c"}})
        ann.expect("NACK", ack_id=id, code="INVALID")
    bob.expect_nothing()


def refusal_ends_a_question(run: DaemonRun) -> None:
    ann, bob = run.pair()
    id = ask(ann, bob, timeoutMs=500)
    bob.nack(bob.receive("Which port?"))
    ann.expect("NACK", ack_id=id, code="REFUSED", correlationId="c-1")
    # Another question's timeout, which is due later, shows that none came for this one.
    later = ask(ann, bob, "Later?", timeoutMs=700)
    ann.expect("NACK", ack_id=later, code="SYNC_TIMEOUT")


# 9 Backpressure


def fill(ann: Peer, bob: Peer) -> int:
    """Fills a sender's share of an empty queue. Returns the number of messages in it."""
    size = ann.server.get("queue_max_messages")
    check(isinstance(size, int) and size > 1, f"`queue_max_messages` is {size!r}")
    assert isinstance(size, int)
    if size > 20_000:
        raise Skipped(f"the queue has {size} messages; the kit fills up to 20000")
    # Half, rounded up, of seven eighths.
    share = (size - size // 8 + 1) // 2
    for number in range(share):
        ann.mailed(bob.name, str(number))
    return share


def expect_busy(peer: Peer, id: str) -> Dict[str, Any]:
    payload = payload_of(peer.expect("BUSY", ack_id=id))
    for member in ("retry_after_ms", "queue_depth"):
        value = payload.get(member)
        check(isinstance(value, int) and value > 0, f"`{member}` is {value!r}")
    return payload


def full_queue_is_busy(run: DaemonRun) -> None:
    """The message is not accepted. Once there is room, the same SEND is."""
    ann, bob = run.pair()
    count = fill(ann, bob)
    id = ann.mail(bob.name, "more")
    expect_busy(ann, id)
    expect_busy(ann, ann.message(bob.name, "at most once"))
    for number in range(count):
        bob.ack(bob.receive(str(number)))
    bob.expect_nothing()
    ann.mail(bob.name, "more", id)
    ann.expect("ACK", ack_id=id, state="accepted")
    whole = bob.receive("more")
    seq = delivery_of(whole).get("seq")
    check(seq == count + 1, f"`seq` is {seq!r}: a message that was not accepted used a number")


def one_sender_fills_half(run: DaemonRun) -> None:
    ann, bob = run.pair()
    fill(ann, bob)
    expect_busy(ann, ann.mail(bob.name, "more"))
    run.join("Carl").mailed(bob.name, "of another sender")


def busy_broadcast_reaches_the_others(run: DaemonRun) -> None:
    ann, bob = run.pair()
    carl, topic = run.join("Carl"), run.topic("a")
    bob.subscribe(topic)
    carl.subscribe(topic)
    count = fill(ann, bob)
    id = ann.mail("*", "all", topic=topic)
    names = expect_busy(ann, id).get("busy")
    check(names == [bob.name], f"`busy` is {names!r}, not {[bob.name]!r}")
    carl.ack(carl.receive("all"))
    for number in range(count):
        bob.ack(bob.receive(str(number)))
    bob.expect_nothing()
    ann.mail("*", "all", id, topic=topic)
    ann.expect("ACK", ack_id=id, state="accepted")
    bob.receive("all")
    carl.expect_nothing()


# 10 Heartbeats


def silent_client_gets_ping(run: DaemonRun) -> None:
    began = time.monotonic()
    ann = run.join_1_0("Ann")
    heartbeat = float(ann.server.get("heartbeat_ms", 0)) / 1000
    nonce = payload_of(ann.expect_ping()).get("nonce")
    check(isinstance(nonce, str) and nonce, f"`nonce` is {nonce!r}")
    waited = time.monotonic() - began
    check(waited >= heartbeat - 0.01, f"PING came after {waited:.2f} s, and not {heartbeat:.2f} s")


def dead_client_is_disconnected(run: DaemonRun) -> None:
    began = time.monotonic()
    ann = run.join("Ann")
    heartbeat = float(ann.server.get("heartbeat_ms", 0)) / 1000
    ann.answers_pings = False
    ann.expect_fatal("HEARTBEAT_TIMEOUT")
    waited = time.monotonic() - began
    check(waited >= 3 * heartbeat - 0.01, f"disconnected after {waited:.2f} s")


def any_frame_shows_life(run: DaemonRun) -> None:
    """For five heartbeats, a client answers PINGs with other frames than PONG."""
    ann = run.join("Ann")
    ann.answers_pings = False
    for _ in range(4):
        ann.expect_ping()
        ann.ack({"id": "unknown"})
    ann.expect_nothing()


# 11 Leaving


def bye_ends_the_connection(run: DaemonRun) -> None:
    ann = run.join_1_0("Ann")
    ann.send("BYE", {})
    ann.expect_end()


def bye_ends_the_session(run: DaemonRun) -> None:
    """The answer to an earlier frame is still written. The token is not valid any more."""
    ann = run.join("Ann")
    id = ann.message("no name", "?")
    ann.send("BYE", {"reason": "done"})
    ann.expect("NACK", ack_id=id)
    ann.expect_end()
    peer = run.connect()
    peer.send("HELLO", {"agent": ann.name, "session": {"resume_token": ann.token}})
    peer.expect("ERROR", code="RESUME_REJECTED", fatal=False)
    peer.welcome()
    check(peer.session != ann.session, "a session goes on after BYE")


def daemon_leaves_with_bye(run: DaemonRun) -> None:
    """An operator stops the daemon. The session is resumed with the next one."""
    ann, operator = run.join("Ann", capabilities={"resume": True}), run.operator()
    topic = run.topic("a")
    ann.subscribe(topic)
    operator.send("SEND", {"kind": "request", "body": "stop"}, to="@relay")
    with run.stopping():
        reason = payload_of(ann.expect("BYE")).get("reason")
        check(reason == "stop", f"`reason` is {reason!r}")
        ann.expect_end()
        assert run.process
        try:
            run.process.wait(run.timeout)
        except subprocess.TimeoutExpired:
            raise Failed("the daemon goes on after BYE") from None
    run.start()
    ann = resumed(run, ann, resume=True)
    bob = run.join("Bob")
    bob.message(None, "one", topic=topic)
    ann.receive("one")


# 12 Resuming


def token_resumes_the_session(run: DaemonRun) -> None:
    ann, bob = run.pair()
    ann.mailed(bob.name, "one")
    whole = bob.receive("one")
    lost(bob)
    old, bob = bob, resumed(run, bob)
    check(bob.token != old.token, "a resumed session has the token that was used")
    again = bob.receive("one")
    check(again["id"] == whole["id"], "an unacknowledged message has another id")
    bob.message(ann.name, "back")
    sender = delivery_of(ann.receive("back")).get("sender")
    auth = sender.get("auth") if isinstance(sender, dict) else None
    check(auth == "token", f"`sender.auth` is {auth!r}, and the session was resumed")


def token_takes_a_session_over(run: DaemonRun) -> None:
    ann = run.join("Ann")
    new = resumed(run, ann)
    ann.expect_fatal("SESSION_REPLACED")
    new.expect_nothing()


def rejected_token(run: DaemonRun, kind: str, payload: Dict[str, Any]) -> Peer:
    peer = run.connect()
    id = peer.send(kind, payload)
    peer.expect("ERROR", code="RESUME_REJECTED", fatal=False, ref=id)
    return peer


def used_token_is_rejected(run: DaemonRun) -> None:
    """After HELLO, a fresh session begins; after RESUME, HELLO may follow."""
    ann = run.join("Ann")
    lost(ann)
    new = resumed(run, ann)
    # The PING after WELCOME is answered.
    new.expect_nothing()
    lost(new)
    hello = {"agent": ann.name, "session": {"resume_token": ann.token}}
    peer = rejected_token(run, "HELLO", hello)
    peer.welcome()
    check(peer.session != ann.session, "a used token resumed its session")
    leave(peer)
    for token in (ann.token, "0" * 64, "kit"):
        peer = rejected_token(run, "RESUME", {"agent": ann.name, "resume_token": token})
        peer.hello(ann.name)
        leave(peer)


def token_holds_until_its_end_is_proved(run: DaemonRun) -> None:
    """WELCOME with the next token may have been lost. A notice waits for the proof, too."""
    ann, bob = run.pair()
    leave(bob)
    id = ann.mail(bob.name, "one", payload_meta={"ttl_ms": 500})
    ann.expect("ACK", ack_id=id)
    lost(ann)
    time.sleep(0.6)
    for _ in range(2):
        peer = run.connect()
        peer.answers_pings = False
        peer.hello(ann.name, session={"resume_token": ann.token})
        check(peer.session == ann.session, "the token that was shown before resumed no session")
        peer.expect_ping()
        lost(peer)
    resumed(run, ann).expect("NACK", ack_id=id, code="EXPIRED")


def resume_may_come_first(run: DaemonRun) -> None:
    """The capabilities are those that were granted last."""
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"resume": True, "max_inflight": 1})
    ann.mailed(bob.name, "one")
    ann.mailed(bob.name, "two")
    whole = bob.receive("one")
    lost(bob)
    new = run.connect()
    new.send("RESUME", {"agent": bob.name, "resume_token": bob.token, "streams": []})
    granted = payload_of(new.welcome()).get("capabilities")
    check(new.session == bob.session, "RESUME did not resume the session")
    wanted = {"resume": True, "max_inflight": 1}
    is_right = isinstance(granted, dict) and wanted.items() <= granted.items()
    check(is_right, f"granted were {granted}, not {wanted}")
    new.expect("SYNC", session_id=bob.session)
    check(new.receive("one")["id"] == whole["id"], "another id")
    new.expect_nothing()


def resume_is_for_the_token_of_its_agent(run: DaemonRun) -> None:
    """The token is not used up by that."""
    ann, bob = run.pair()
    lost(ann)
    rejected_token(run, "RESUME", {"agent": bob.name, "resume_token": ann.token})
    rejected_token(run, "HELLO", {
        "agent": run.name("Carl"), "session": {"resume_token": ann.token}}).welcome()
    resumed(run, ann)


def resume_without_token_is_unauthorized(run: DaemonRun) -> None:
    ann = run.connect()
    id = ann.send("RESUME", {"agent": run.name("Ann"), "streams": {}})
    ann.expect("NACK", ack_id=id, code="UNAUTHORIZED")
    ann.hello(run.name("Ann"))


def resume_replays_streams(run: DaemonRun) -> None:
    """Messages of both kinds, acknowledged or not, come again in order, with their ids."""
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"resume": True})
    ids = []
    for number in range(1, 5):
        body = str(number)
        if number % 2:
            ann.mailed(bob.name, body)
        else:
            ann.message(bob.name, body)
        whole = bob.receive(body)
        ids.append(whole["id"])
        if number == 1:
            bob.ack(whole)
    bob.expect_nothing()
    lost(bob)
    new = run.connect()
    streams = [{"topic": "", "peer": ann.name, "last_seq": 1}]
    payload = {"session_id": bob.session, "agent": bob.name, "streams": streams}
    new.send("RESUME", {**payload, "resume_token": bob.token})
    new.welcome()
    rows = payload_of(new.expect("SYNC")).get("streams")
    check(rows == [{**streams[0], "server_last_seq": 4}], f"`streams` of SYNC are {rows}")
    again = [new.receive(str(number))["id"] for number in range(2, 5)]
    check(again == ids[1:], f"the ids are {again}, and were {ids[1:]}")
    new.expect_nothing()


def resume_names_topics_as_in_1_0(run: DaemonRun) -> None:
    """HELLO with the token, then RESUME with an object of topics and without a token."""
    ann, bob = run.join_1_0("Ann"), run.join_1_0("Bob")
    topic = run.topic("chat")
    for body in ("1", "2"):
        ann.mail(bob.name, body, topic=topic)
    first, last = (int(delivery_of(bob.receive(body))["seq"]) for body in ("1", "2"))
    bob.expect_nothing()
    lost(bob)
    new = run.join_1_0("Bob", session={"resume_token": bob.token})
    streams = {topic: {"last_seq": first}}
    new.send("RESUME", {"session_id": bob.session, "agent": bob.name, "streams": streams})
    row = {"topic": topic, "peer": ann.name, "last_seq": first, "server_last_seq": last}
    rows = payload_of(new.expect("SYNC")).get("streams")
    check(rows == [row], f"`streams` of SYNC are {rows}, not {[row]}")
    new.receive("2")
    new.expect_nothing()


def gap_is_stale(run: DaemonRun) -> None:
    """More messages were acknowledged than are kept. The token stays valid."""
    ann, bob = run.join("Ann"), run.join("Bob", capabilities={"resume": False})
    for number in range(1, 4):
        ann.mailed(bob.name, str(number))
        bob.ack(bob.receive(str(number)))
    bob.expect_nothing()
    lost(bob)
    streams = [{"topic": "", "peer": ann.name, "last_seq": 0}]
    new = run.connect()
    resume = {"agent": bob.name, "resume_token": bob.token, "streams": streams}
    new.expect("NACK", ack_id=new.send("RESUME", resume), code="STALE")
    session = {"session": {"resume_token": bob.token}}
    new.hello(bob.name, **session)
    check(new.session == bob.session, "after STALE, the token was not valid")
    new.expect("NACK", ack_id=new.send("RESUME", {"streams": streams}), code="STALE")
    new.expect_nothing()


def subscriptions_belong_to_the_session(run: DaemonRun) -> None:
    ann, bob = run.pair()
    topic = run.topic("a")
    bob.subscribe(topic)
    lost(bob)
    bob = resumed(run, bob)
    ann.message(None, "one", topic=topic)
    bob.receive("one")
    lost(bob)
    bob = run.join("Bob")
    ann.message(None, "two", topic=topic)
    ann.message(bob.name, "three")
    bob.receive("three")


# 13 Requests to the daemon, 14 Codes


def request(peer: Peer, body: str, **data: Any) -> str:
    payload: Dict[str, Any] = {"kind": "request", "body": body}
    return peer.send("SEND", {**payload, "data": data} if data else payload, to="@relay")


def requests_are_answered(run: DaemonRun) -> None:
    """The list of agents, page by page, has the one that asks."""
    ann, names, arguments = run.join("Ann"), [], {}  # type: Peer, List[Any], Dict[str, Any]
    while ann.name not in names:
        id = request(ann, "agents", **arguments)
        whole = ann.expect("DELIVER", kind="response")
        meta, data = whole.get("payload_meta"), payload_of(whole).get("data")
        is_answer = isinstance(meta, dict) and meta.get("replyTo") == id
        check(is_answer, f"`replyTo` is not {id}: {meta}")
        check(whole.get("from") == "@relay", f"`from` is {whole.get('from')!r}")
        data = data if isinstance(data, dict) else {}
        names += [row.get("name") for row in data.get("agents") or () if isinstance(row, dict)]
        arguments = {"cursor": data.get("next_cursor")}
        is_found = ann.name in names or arguments["cursor"]
        check(is_found, f"{ann.name} is not among the {len(names)} agents {names[:9]}")


def requests_are_checked(run: DaemonRun) -> None:
    """An unknown request, and one that only operators may make."""
    ann = run.join("Ann")
    ann.expect("NACK", ack_id=request(ann, "kit"), code="INVALID")
    ann.expect("NACK", ack_id=request(ann, "dead-letters"), code="FORBIDDEN")


def codes_have_a_message(run: DaemonRun) -> None:
    ann = run.join("Ann")
    ann.text(send_text(ts=""))
    ann.message("no name", "?")
    envelopes = [ann.expect("ERROR"), ann.expect("NACK")]
    peer = run.connect()
    peer.send("HELLO", {"agent": "root"})
    envelopes.append(peer.expect("ERROR"))
    for whole in envelopes:
        message = payload_of(whole).get("message")
        check(isinstance(message, str) and message.strip(), f"no `message` in {brief(whole)}")


def only_the_daemon_sends_some_types(run: DaemonRun) -> None:
    """The client sends them, and an ERROR is the answer."""
    ann = run.join("Ann")
    for kind in ("WELCOME", "DELIVER", "PING", "ERROR", "BUSY", "SYNC"):
        ann.expect_invalid(ann.send(kind, {}))
    ann.expect_nothing()


def delivery_is_set_by_the_daemon(run: DaemonRun) -> None:
    """A client cannot set `delivery` of what another one receives."""
    ann, bob = run.pair()
    ann.message(bob.name, "one", delivery={"seq": 99, "attempt": 7, "sender": {"auth": "operator"}})
    delivery = delivery_of(bob.receive("one"))
    sender = {"session": ann.session, "auth": "claim"}
    is_right = delivery.get("seq") == 1 and "attempt" not in delivery
    check(is_right and delivery.get("sender") == sender, f"`delivery` is {delivery}")
