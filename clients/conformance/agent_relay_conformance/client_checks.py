"""The checks of clients. Each plays a daemon to one client, and fails if it breaks a rule."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .envelopes import fault_of, is_at_least_once
from .scripted_daemon import ClientRun, Event, Link
from .wire import Envelope, Failed, Skipped, brief, encode, envelope, frame, payload_of

OTHER_USER = 65534
HANDSHAKE_S = 5.0
JITTER = 0.85
# Programs count whole milliseconds, so a wait may be shorter by a part of one at each end.
CLOCK_S = 0.002


def check(is_right: object, otherwise: str) -> None:
    if not is_right:
        raise Failed(otherwise)


# 1 First minute


def reads_while_it_writes(run: ClientRun) -> None:
    """The daemon writes 1 MiB of PINGs and reads none of the answers meanwhile."""
    link = run.join()
    nonces = [f"{number}-" + "x" * 480 for number in range(2000)]
    pings = b"".join(encode(envelope("PING", {"nonce": nonce})) for nonce in nonces)
    is_read = run.write_bounded(link, pings)
    check(is_read, "the client stopped reading while its own answers were not read")
    run.frame("PONG", link, nonce=nonces[-1])


# 2 Transport and endpoint


def checks_who_runs_the_daemon(run: ClientRun) -> None:
    """A process of another user listens. It must receive nothing."""
    if sys.platform != "linux" or os.getuid() != 0:
        raise Skipped("needs Linux and root, to run a process of another user")
    joins_elsewhere(run)
    # The system reports the user who called listen(), so that is done after the change of user.
    program = (
        "import os, socket, sys; path, user = sys.argv[1], int(sys.argv[2]);"
        "s = socket.socket(socket.AF_UNIX); s.bind(path); os.chown(path, user, user);"
        "os.chmod(path, 0o777); os.setgid(user); os.setuid(user); s.listen();"
        "print('ready', flush=True); c = s.accept()[0]; print(len(c.recv(64)), flush=True)")
    words = [sys.executable, "-I", "-c", program, run.endpoint, str(OTHER_USER)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            is_ready = server.stdout.readline() == "ready\n"
            check(is_ready, "the process of another user did not start")
            run.start()
            run.spawn_thread(end_server_after_client, run, server)
            received = server.stdout.readline().strip()
            check(received in ("", "0"), "the client sent something to a daemon of another user")
        finally:
            server.kill()


def joins_elsewhere(run: ClientRun) -> None:
    """Fails unless the client joins another daemon. One that never connects proves nothing."""
    with ClientRun(run.program, run.options, run.trace) as other:
        other.join()


def end_server_after_client(run: ClientRun, server: subprocess.Popen[str]) -> None:
    """Ends the process of the other user once the client has ended, with or without connecting."""
    assert run.process
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.process.wait(run.timeout)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stream:
        stream.connect(run.endpoint)  # The process reads that this one has left.


def leaves_the_socket(run: ClientRun) -> None:
    """The client leaves a daemon. The socket is still there."""
    run.join()
    before = os.stat(run.endpoint).st_ino
    run.leave()
    check(is_same_file(run.endpoint, before), "the client removed the socket when it left")


def leaves_a_dead_socket(run: ClientRun) -> None:
    """Nothing listens at the socket."""
    joins_elsewhere(run)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(run.endpoint)
    before = os.stat(run.endpoint).st_ino
    run.start()
    with contextlib.suppress(Failed):  # A client may go on trying.
        run.await_end("")
    check(is_same_file(run.endpoint, before), "the client removed a socket")


def is_same_file(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except FileNotFoundError:
        return False


# 3 Frames


def keeps_to_the_frame_limit(run: ClientRun) -> None:
    """WELCOME allows 4,096 bytes. A longer message may be refused, but not sent."""
    run.server["max_frame_bytes"] = 4096
    run.join("send Bob " + "x" * 5000, "send Bob short")
    _, send = run.sent()
    if len(send.frame) <= 4096:
        run.accept_message(send)
        if send.payload.get("body") != "short":
            raise Failed("the client shortened a message")
    for event in run.history:
        if event.kind == "frame":
            length = len(event.frame)
            check(1 <= length <= 4096, f"a frame of {length} bytes; max_frame_bytes is 4096")


def reads_frames_in_pieces(run: ClientRun) -> None:
    """WELCOME and a DELIVER come in single bytes, then two in one piece, then one of 64 KiB."""
    run.server["max_frame_bytes"] = 65536

    def greet(link: Link, greeting: Envelope) -> None:
        write_slowly(link, encode(run.welcome_envelope(link, greeting)))

    run.greet = greet
    link = run.join()
    run.admit(link, "d-1", 1)
    write_slowly(link, encode(run.delivery(link, "d-1", 1, "one")))
    run.answer("d-1", link)
    at_once = link.session.capabilities["max_inflight"] != 1
    for number in (2, 3):
        run.admit(link, f"d-{number}", number)
        if not at_once:
            link.write(encode(run.delivery(link, f"d-{number}", number)))
    if at_once:
        two, three = (encode(run.delivery(link, f"d-{number}", number)) for number in (2, 3))
        link.write(two + three)
    run.answer("d-2", link)
    run.answer("d-3", link)
    run.admit(link, "d-4", 4)
    empty = len(encode(run.delivery(link, "d-4", 4, "?"))) - 4
    whole = encode(run.delivery(link, "d-4", 4, "x" * (65536 - empty + 1)))
    assert len(whole) == 4 + 65536
    link.write(whole)
    run.answer("d-4", link)


def write_slowly(link: Link, data: bytes) -> None:
    for index in range(len(data)):
        link.write(data[index : index + 1])


# 4 Envelopes


def sends_envelopes(run: ClientRun) -> None:
    """Every frame of a client that does all it can is an envelope that a daemon accepts."""
    link = run.join()
    _, hello = find(run, "HELLO")
    run.command("send Bob hello")
    first = run.sent("hello")[1]
    run.accept_message(first)
    run.command("send Bob hello")
    again = run.sent("hello")[1]
    run.accept_message(again)
    check(again.id != first.id, f"two messages have the `id` {first.id!r}: one of them is lost")
    if "publish" in run.can:
        run.command("publish kit.topic hello")
        send = run.sent()[1]
        run.accept_message(send, recipients=0)
        check(send.envelope.get("topic") == "kit.topic", f"no topic in {brief(send.envelope)}")
    for command in ("subscribe", "unsubscribe"):
        if command in run.can:
            run.command(f"{command} kit.>")
            change = run.frame(command.upper())
            assert change.link
            change.link.send("ACK", {"ack_id": change.id})
            check(change.envelope.get("topic") == "kit.>", f"no topic in {brief(change.envelope)}")
            link = change.link
    run.deliver(link, "d-1", 1)
    run.answer("d-1", link)
    name = payload_of(hello).get("agent")
    for event in run.history:
        if event.kind == "frame":
            expect_accepted(event, name)
        if event.is_message and not is_at_least_once(event.envelope):
            what = "`send` and `publish` send at least once, with `requires_ack` true"
            raise Failed(f"{what}: {brief(event.envelope)}")


def expect_accepted(event: Event, name: Any) -> None:
    """Fails if a daemon would refuse this frame of the agent `name`."""
    fault = fault_of(event.envelope, name)
    shown = brief(event.envelope) if event.envelope else repr(event.frame[:200])
    check(not fault, f"{fault}: {shown}")


def find(run: ClientRun, kind: str) -> Tuple[Event, Envelope]:
    """Returns the first frame of a type that has come."""
    for event in list(run.history):
        if event.kind == "frame" and event.type == kind:
            return event, event.envelope
    raise Failed(f"the client sent no {kind}")


def ignores_unknown_members(run: ClientRun) -> None:
    """Every envelope of the daemon has members that no version has, at every level."""
    more: Dict[str, Any] = {"kit_number": 7, "kit_object": {"a": [None, {}]}, "kit_null": None}

    def greet(link: Link, greeting: Envelope) -> None:
        welcome = run.welcome_envelope(link, greeting)
        payload = {**more, **welcome["payload"]}
        payload["server"] = {**more, **payload["server"]}
        payload["capabilities"] = {**more, **payload["capabilities"]}
        link.write(encode({**more, **welcome, "payload": payload}))

    run.greet = greet
    link = run.join("send Bob hello")
    link.send("PING", {**more, "nonce": "0badcafe"}, **more)
    run.frame("PONG", link, nonce="0badcafe")
    send = run.sent("hello")[1]
    assert send.link
    accepted = {**more, "ack_id": send.id, "state": "accepted", "durability": "disk"}
    send.link.send("ACK", accepted, **more)
    run.printed("ACK")
    run.command("send Bob again")
    send = run.sent("again")[1]
    assert send.link
    nack = {**more, "ack_id": send.id, "code": "UNKNOWN_AGENT", "message": "no agent Bob"}
    send.link.send("NACK", nack, **more)
    run.printed("NACK")
    sender = {**more, "session": "s-b", "auth": "claim"}
    run.deliver(
        link, "d-1", 1, payload={**more, "kind": "message", "body": "one"},
        payload_meta={**more, "requires_ack": True}, delivery={**more, "sender": sender}, **more)
    is_ack = run.answer("d-1", link).type == "ACK"
    check(is_ack, "the client returned a message with unknown members")
    run.printed("DELIVER", lambda event: event.id == "d-1")


#: Payloads of other clients. Each is JSON with an object, and nothing more is promised.
PAYLOADS = [
    r'{"kind":"message","body":"\ud800"}',
    r'{"kind":"message","body":"\udc00\ud800 \u0000\u001b[2J"}',
    '{}',
    '{"body":7}',
    '{"body":null,"kind":null,"data":null,"thread":null}',
    '{"kind":["a"],"body":{"body":"a"},"thread":3}',
    '{"body":"first","body":"second","body":3}',
    '{"kind":"message","body":"a","data":1e999}',
    '{"kind":"message","body":"a","data":-0.0000000000000000000000000000000000000000001e-400}',
    '{"kind":"message","body":"a","data":' + "9" * 5000 + "}",
    '{"kind":"message","body":"a","data":' + "[" * 126 + "]" * 126 + "}",
    '{ "" : "" , "__proto__":{"a":1}, "constructor":null, "toString":1, "body" : "a"\n}',
]
METAS = ['{"requires_ack":true}', '{"replyTo":7,"importance":"high","x":[{}],"__proto__":null}']


def accepts_any_payload(run: ClientRun) -> None:
    """Each delivery of odd JSON is acknowledged or returned, and the connection continues."""
    link = run.join()
    cases = [(payload, METAS[0]) for payload in PAYLOADS] + [(PAYLOADS[2], METAS[1])]
    for number, (payload, meta) in enumerate(cases, 1):
        text = (
            f'{{"v":1,"type":"DELIVER","id":"d-{number}","ts":0,"from":"Bob",'
            f'"to":{json.dumps(link.session.agent)},'
            f'"payload":{payload},"payload_meta":{meta},'
            f'"delivery":{{"seq":{number},"session_id":"{link.session.id}","requires_ack":true}}}}')
        run.admit(link, f"d-{number}", number)
        link.write(frame(text.encode()))
        try:
            run.answer(f"d-{number}", link)
        except Failed as failed:
            raise Failed(f"{failed}; the payload was {payload[:80]}") from None
    run.deliver(link, "d-last", 99, "last")
    run.answer("d-last", link)


# 6 Handshake


def greets_first(run: ClientRun) -> None:
    """The first frame is HELLO or RESUME, as a daemon accepts it."""
    link = run.join()
    first = next(e for e in run.history if e.kind == "frame" and e.link is link)
    check(first.type in ("HELLO", "RESUME"), f"the first frame is {brief(first.envelope)}")
    expect_accepted(first, first.payload.get("agent"))


def greets_in_time(run: ClientRun) -> None:
    """HELLO comes within the default of `handshake_timeout_ms` after the connection."""
    link, hello = run.join(), find(run, "HELLO")[0]
    opened = next(e for e in run.history if e.kind == "opened" and e.link is link)
    seconds = hello.at - opened.at
    is_early = seconds <= HANDSHAKE_S
    check(is_early, f"HELLO came after {seconds:.1f} s; {HANDSHAKE_S:g} s are allowed")


def repeats_hello_after_invalid(run: ClientRun) -> None:
    """HELLO is answered with ERROR INVALID, which is not fatal: the client has not joined."""
    def refuse(link: Link, greeting: Envelope) -> None:
        run.greet = run.welcome
        error = {"code": "INVALID", "fatal": False, "message": "`capabilities.ack` is no boolean"}
        link.send("ERROR", {**error, "ref": greeting.get("id")})

    run.greet = refuse
    run.listen()
    run.start("send Bob early")
    link, greeting = run.greeting()

    def is_next(event: Event) -> bool:
        is_later = event.link is link and event.at >= greeting.at
        return is_later and event.kind in ("frame", "closed")

    # A client may leave instead, with BYE or without.
    after = run.wait("another HELLO, or the end of the connection", is_next)
    if after.kind == "frame":
        check(after.type in ("HELLO", "BYE"), f"after ERROR INVALID came {brief(after.envelope)}")


# 7 and 8: receiving


def answers_a_delivery(run: ClientRun) -> None:
    """A DELIVER with `requires_ack` is answered with ACK or NACK of its id."""
    link = run.join()
    run.deliver(link, "d-1", 1, "one")
    answer = run.answer("d-1", link)
    expect_accepted(answer, link.session.agent)
    seq = answer.payload.get("seq", 1)
    check(seq == 1, f"`seq` is {seq!r}, and that of the delivery 1")
    if answer.type == "NACK":
        for member in ("code", "message"):
            is_text = isinstance(answer.payload.get(member), str)
            check(is_text, f"no `{member}` in {brief(answer.envelope)}")


def acknowledges_everything(run: ClientRun) -> None:
    """Messages of two streams, redelivered ones and ones in between that need no ACK."""
    link = run.join()
    for number in range(1, 31):
        delivered: Dict[str, Any] = {"attempt": 2} if number % 3 == 0 else {}
        delivered.update({"originalTo": "*"} if number % 5 == 0 else {})
        members: Dict[str, Any] = {} if number % 2 else {"topic": "kit.topic"}
        run.deliver(link, f"d-{number}", (number + 1) // 2, delivery=delivered, **members)
        run.deliver(link, f"o-{number}", number, ack=False, topic="kit.once")
    for number in range(1, 31):
        run.answer(f"d-{number}", link)


def acknowledges_no_more_than_came(run: ClientRun) -> None:
    """Two streams with gaps. In each round, every ACK is compared with what its stream has had."""
    link = run.join()
    came: Dict[str, Any] = {}
    highest: Dict[Any, int] = {}
    for direct, published in ((1, 10), (2, 20), (5, 21)):
        for topic, seq in ((None, direct), ("kit.topic", published)):
            highest[topic], came[f"d-{seq}"] = seq, topic
            members: Dict[str, Any] = {"topic": topic} if topic else {}
            run.deliver(link, f"d-{seq}", seq, **members)
        for seq in (direct, published):
            run.answer(f"d-{seq}", link)
        for event in [e for e in run.history if e.kind == "frame" and e.type == "ACK"]:
            up_to = event.payload.get("cumulative_seq", 0)
            last = highest[came[event.payload["ack_id"]]]
            check(up_to <= last, f"{last} is the last number that came: {brief(event.envelope)}")


def drops_duplicates(run: ClientRun) -> None:
    """Deliveries come again, also on the next connection: they are acknowledged, and dropped."""
    link = run.join()
    ids = ["d-1", "d-2", "d-3"]
    deliver_all(run, link, ids)
    deliver_all(run, link, ids, attempt=2)
    if "reconnect" in run.can:
        run.cut(link)
        link, _ = run.greeting()
        deliver_all(run, link, ids, attempt=3)
    expect_each_once(run, link, ids)


def knows_as_many_ids_as_it_holds(run: ClientRun) -> None:
    """As many deliveries as `max_inflight` allows come twice."""
    link = run.join()
    granted = link.session.capabilities["max_inflight"]
    if granted > 10_000:
        raise Skipped(f"`max_inflight` is {granted}; the kit tries up to 10000")
    ids = [f"d-{number}" for number in range(1, granted + 1)]
    deliver_all(run, link, ids)
    deliver_all(run, link, ids, attempt=2)
    expect_each_once(run, link, ids)


def deliver_all(run: ClientRun, link: Link, ids: List[str], attempt: int = 1) -> None:
    """Delivers messages. Waits until each is answered with ACK."""
    more = {"attempt": attempt} if attempt > 1 else {}
    for number, id in enumerate(ids, 1):
        run.deliver(link, id, number, delivery=more)
        # Up to 64 are in flight, so that neither side waits for the other.
        if number > 64:
            expect_ack(run, link, ids[number - 65])
    for id in ids[max(0, len(ids) - 64) :]:
        expect_ack(run, link, id)


def expect_ack(run: ClientRun, link: Link, id: str) -> None:
    answer = run.answer(id, link)
    check(answer.type == "ACK", f"the delivery {id} was returned: {brief(answer.envelope)}")


def expect_each_once(run: ClientRun, link: Link, ids: List[str]) -> None:
    """Fails unless the client printed each delivery once. The last one shows that all are out."""
    run.deliver(link, "d-last", len(ids) + 1, "last")
    run.printed("DELIVER", lambda event: event.id == "d-last")
    printed = [e.id for e in run.history if e.kind == "printed" and e.type == "DELIVER"]
    for id in ids:
        count = printed.count(id)
        check(count == 1, f"the delivery {id} was passed on {count} times")


def drops_repeated_outcomes(run: ClientRun) -> None:
    """A NACK about an accepted message comes again, with the same id, on the next connection."""
    link = run.join("send * hello")
    send = run.sent("hello")[1]
    run.accept_message(send, recipients=2)
    run.printed("ACK")

    def expire(link: Link, id: str, to: str) -> None:
        expired = {"code": "EXPIRED", "message": "its time to live is over", "to": to}
        link.send("NACK", {"ack_id": send.id, **expired}, id)

    expire(link, "n-1", "Bob")
    run.printed("NACK")
    run.cut(link)
    link, _ = run.greeting()
    expire(link, "n-1", "Bob")
    expire(link, "n-2", "Carl")
    again = run.printed("NACK")
    is_new = again.payload.get("to") in (None, "Carl")
    check(is_new, "a NACK with an id that had come was passed on")
    run.leave()
    count = len([e for e in run.history if e.kind == "printed" and e.type == "NACK"])
    check(count == 2, f"of 2 NACKs, one of which came twice, {count} were passed on")


# 8 At least once


def repeats_an_unanswered_message(run: ClientRun) -> None:
    """The connection ends between SEND and its answer. The message comes with its id."""
    run.join("send Bob hello")
    link, first = run.sent("hello")
    run.cut(link)
    run.greeting()
    again = run.sent()[1]
    check(again.id == first.id, f"the message came again with the id {again.id}, not {first.id}")
    run.accept_message(again)
    run.printed("ACK")


def repeats_the_same_message(run: ClientRun) -> None:
    """The connection ends twice. The daemon compares the content byte for byte."""
    run.join('send Bob "h\u00e9llo" \\ / \u2028')
    link, first = run.sent()
    for _ in range(2):
        run.cut(link)
        run.greeting()
        link, again = run.sent()
        expect_same_content(first, again)
    run.accept_message(again)
    run.printed("ACK")


def expect_same(first: Event, again: Event) -> None:
    """Fails unless two SENDs are the same message to the daemon."""
    check(again.id == first.id, f"the message came again with the id {again.id}, not {first.id}")
    expect_same_content(first, again)


def expect_same_content(first: Event, again: Event) -> None:
    for member in ("to", "topic", "payload", "payload_meta"):
        one, other = member_text(first.frame, member), member_text(again.frame, member)
        check(one == other, f"the message came again with another `{member}`: {other} for {one}")


def member_text(data: bytes, wanted: str) -> Optional[str]:
    """Returns the text of a member of a JSON object, byte for byte."""
    text, decode = data.decode(), json.JSONDecoder().raw_decode

    def skip(at: int) -> int:
        while text[at] in " \t\r\n":
            at += 1
        return at

    at = skip(text.index("{") + 1)
    while text[at] != "}":
        key, at = decode(text, at)
        begin = skip(skip(at) + 1)
        _, at = decode(text, begin)
        if key == wanted:
            return text[begin:at]
        at = skip(at)
        at = skip(at + 1) if text[at] == "," else at
    return None


# 8 Questions


def asks(run: ClientRun) -> None:
    """The ACK `accepted` comes first and is no answer; the one with `correlationId` is."""
    run.join("ask Bob Which port?")
    link, send = run.sent("Which port?")
    expect_accepted(send, link.session.agent)
    meta = send.envelope.get("payload_meta")
    sync = meta.get("sync") if isinstance(meta, dict) else None
    check(isinstance(sync, dict), f"no `sync` in {brief(send.envelope)}")
    assert isinstance(sync, dict)
    id, timeout = sync.get("correlationId"), sync.get("timeoutMs", 30_000)
    is_right = isinstance(id, str) and 1 <= len(id.encode()) <= 256
    check(is_right, f"`correlationId` is {id!r}")
    is_right = isinstance(timeout, int) and 1 <= timeout <= 3_600_000
    check(is_right, f"`timeoutMs` is {timeout!r}")
    run.accept_message(send)
    answer = {"ack_id": send.id, "correlationId": id, "response": True}
    link.send("ACK", {**answer, "responseData": {"body": "8080"}}, from_="Bob")
    printed = run.printed("ACK", lambda event: event.payload.get("state") != "accepted")
    data = printed.payload.get("responseData")
    is_answer = isinstance(data, dict) and data.get("body") == "8080"
    check(is_answer, f"the answer was 8080, and the client took {brief(printed.envelope)}")


def answers_questions(run: ClientRun) -> None:
    """The answer is an ACK of the delivery with the question's `correlationId`."""
    link = run.join()
    sync = {"correlationId": "c-123", "timeoutMs": 30_000, "blocking": True}
    meta = {"requires_ack": True, "sync": sync}
    run.deliver(link, "d-1", 1, "Which port?", payload_meta=meta)
    run.printed("DELIVER", lambda event: event.id == "d-1")
    run.command("answer d-1 8080")
    while True:
        ack = run.frame("ACK", link)
        check(ack.payload.get("ack_id") == "d-1", f"an ACK of another id: {brief(ack.envelope)}")
        if "correlationId" in ack.payload or "responseData" in ack.payload:
            break
    expect_accepted(ack, link.session.agent)
    id, data = ack.payload.get("correlationId"), ack.payload.get("responseData")
    check(id == "c-123", f"`correlationId` is {id!r}, and that of the question c-123")
    is_answer = isinstance(data, dict) and data.get("body") == "8080"
    check(is_answer, f"no answer in {brief(ack.envelope)}")


# 9 Backpressure


def busy(send: Event, retry_after_ms: int) -> None:
    assert send.link
    answer = {"ack_id": send.id, "retry_after_ms": retry_after_ms, "queue_depth": 5000}
    send.link.send("BUSY", answer)


def repeats_the_same_after_busy(run: ClientRun) -> None:
    """BUSY answers a SEND twice. Then it is accepted."""
    run.join("send Bob hello")
    first = run.sent("hello")[1]
    busy(first, 20)
    again = run.sent()[1]
    expect_same(first, again)
    busy(again, 20)
    again = run.sent()[1]
    expect_same(first, again)
    run.accept_message(again)
    run.printed("ACK", lambda event: event.payload.get("state", "accepted") == "accepted")


def waits_after_busy(run: ClientRun) -> None:
    """The waits are 200, 400 and 800 ms long, or up to 15 % less."""
    run.join("send Bob hello")
    send = run.sent("hello")[1]
    for wanted in (0.2, 0.4, 0.8):
        before = time.monotonic()
        busy(send, 200)
        send = run.sent()[1]
        waited = send.at - before
        check(
            waited >= wanted * JITTER,
            f"after BUSY the message came again after {waited * 1000:.0f} ms; "
            f"{wanted * 1000:.0f} ms were to be waited")
    run.accept_message(send)


def keeps_order_after_busy(run: ClientRun) -> None:
    """A message meets BUSY, and another for the same agent follows while the first one waits."""
    run.join("send Bob one")
    link, one = run.sent("one")
    busy(one, 1000)
    run.fence(link)
    run.command("send Bob two")
    again = run.sent()[1]
    check(again.id == one.id, f"before the message that met BUSY came {brief(again.envelope)}")
    run.accept_message(again)
    run.accept_message(run.sent("two")[1])


# 10 Heartbeats


def answers_pings(run: ClientRun) -> None:
    """Two PINGs have different nonces."""
    link = run.join()
    for nonce in ("0badcafe", "a nonce of another kind: \u00e9 \u2028 \\ \""):
        run.forget(link)
        link.send("PING", {"nonce": nonce})
        pong = run.frame("PONG", link)
        repeated = pong.payload.get("nonce")
        check(repeated == nonce, f"the nonce is {repeated!r}, and that of the PING {nonce!r}")


# 11 Leaving


def waits_after_bye(run: ClientRun) -> None:
    """BYE asks for 1,500 ms. The usual first wait is 100 ms."""
    link = run.join()
    before = time.monotonic()
    link.send("BYE", {"reason": "upgrade", "retry_after_ms": 1500})
    link.end()
    run.wait("the end of the connection", lambda e: e.kind == "closed" and e.link is link)
    opened = run.wait("another connection", lambda e: e.kind == "opened" and e.link is not link)
    waited = opened.at - before
    check(waited >= 1.5 - CLOCK_S, f"the client connected after {waited * 1000:.0f} ms; 1500 ms were asked")


# 12 Resuming


def token_of(greeting: Envelope) -> Any:
    payload = payload_of(greeting)
    session = payload.get("session")
    inside = session.get("resume_token") if isinstance(session, dict) else None
    return payload.get("resume_token", inside)


def resumes_its_own_session(run: ClientRun) -> None:
    """After a lost connection, the greeting has the last token and the same name."""
    link = run.join()
    name = payload_of(find(run, "HELLO")[1]).get("agent")
    for _ in range(2):
        token = list(run.sessions)[-1]
        run.cut(link)
        link, greeting = run.greeting()
        expect_accepted(greeting, name)
        shown, agent = token_of(greeting.envelope), greeting.payload.get("agent")
        check(shown == token, f"no, or not the last token in {brief(greeting.envelope)}")
        needs = (name,) if greeting.type == "HELLO" else (name, None)
        check(agent in needs, f"`agent` is {agent!r}, and that of the session {name!r}")


def resumes_after_what_came(run: ClientRun) -> None:
    """Messages of two streams, and one that comes again. Then the connection ends, twice."""
    link = run.join()
    received = {"": 3, "kit.topic": 7}
    for seq in (1, 2, 3):
        run.deliver(link, f"d-{seq}", seq)
        run.answer(f"d-{seq}", link)
    run.deliver(link, "t-7", 7, ack=False, topic="kit.topic")
    run.deliver(link, "d-1", 1, delivery={"attempt": 2})
    run.answer("d-1", link)
    link = expect_positions(run, link, received)
    run.deliver(link, "t-8", 8, topic="kit.topic")
    run.answer("t-8", link)
    expect_positions(run, link, {**received, "kit.topic": 8})


def expect_positions(run: ClientRun, link: Link, received: Dict[str, int]) -> Link:
    """Ends the connection. Fails if RESUME states another position than these. Returns the next."""
    run.fence(link)
    run.cut(link)
    link, _ = run.greeting()
    run.fence(link)
    frames = [event for event in run.history if event.link is link and event.kind == "frame"]
    resumes = [event for event in frames if event.type == "RESUME"]
    if not resumes:
        raise Skipped("the client resumes without RESUME")
    streams = resumes[0].payload.get("streams", [])
    rows = streams if isinstance(streams, list) else [
        {**row, "topic": topic, "peer": "Bob"} for topic, row in streams.items()]
    wanted = [{"topic": topic, "peer": "Bob", "last_seq": seq} for topic, seq in received.items()]
    check(rows, f"no stream in {brief(resumes[0].envelope)}")
    for row in rows:
        check(row in wanted, f"received was {wanted}, and RESUME states {row}")
    run.forget(link)
    return link


def refuse_resume(run: ClientRun, answer: Callable[[Link, Envelope], None]) -> None:
    """Answers a RESUME without WELCOME. Fails unless HELLO comes next on the connection."""
    def refuse(link: Link, greeting: Envelope) -> None:
        if greeting.get("type") == "RESUME":
            answer(link, greeting)
        else:
            run.welcome(link, greeting)

    link = run.join()
    run.greet = refuse
    run.cut(link)
    link, greeting = run.greeting()
    if greeting.type == "HELLO":
        raise Skipped("the client resumes with HELLO, not with RESUME")
    after = run.wait("HELLO", lambda e: e.kind == "frame" and e.at >= greeting.at, link)
    check(after.type == "HELLO", f"after the refused RESUME came {brief(after.envelope)}")
    run.deliver(link, "d-1", 1)
    run.answer("d-1", link)


def begins_afresh_when_resume_is_rejected(run: ClientRun) -> None:
    """ERROR RESUME_REJECTED: after RESUME the client sends HELLO; after HELLO it has joined."""
    rejected = {"code": "RESUME_REJECTED", "fatal": False, "message": "the token was used"}

    def reject(link: Link, greeting: Envelope) -> None:
        link.send("ERROR", {**rejected, "ref": greeting.get("id")})

    def reject_and_welcome(link: Link, greeting: Envelope) -> None:
        if greeting.get("type") == "HELLO" and token_of(greeting):
            reject(link, greeting)
        run.write_welcome(link, greeting)

    with contextlib.suppress(Skipped):
        return refuse_resume(run, reject)
    # The client shows its token in HELLO.
    run.greet = reject_and_welcome
    run.cut(run.links[-1])
    link, _ = run.greeting()
    run.deliver(link, "d-2", 1)
    run.answer("d-2", link)


def says_hello_when_resume_is_unauthorized(run: ClientRun) -> None:
    """RESUME is answered with NACK UNAUTHORIZED."""
    def refuse(link: Link, greeting: Envelope) -> None:
        nack = {"code": "UNAUTHORIZED", "message": "RESUME has no token"}
        link.send("NACK", {"ack_id": greeting.get("id"), **nack})
    refuse_resume(run, refuse)


def says_hello_when_resume_is_stale(run: ClientRun) -> None:
    """RESUME is answered with NACK STALE."""
    def refuse(link: Link, greeting: Envelope) -> None:
        nack = {"code": "STALE", "message": "Bob's messages after 3 are gone"}
        link.send("NACK", {"ack_id": greeting.get("id"), **nack})
    refuse_resume(run, refuse)


# 14 Codes


def tolerates_unknown_codes(run: ClientRun) -> None:
    """A NACK and an ERROR have codes of the future. The connection continues."""
    link = run.join("send Bob one", "send Bob two")
    send = run.sent("one")[1]
    assert send.link
    nack = {"code": "KIT_CODE", "message": "a code of the future"}
    send.link.send("NACK", {"ack_id": send.id, **nack})
    run.printed("NACK")
    again = run.sent()[1]
    check(again.payload.get("body") == "two", f"after a NACK came {brief(again.envelope)}")
    run.accept_message(again)
    link.send("ERROR", {"code": "KIT_CODE", "fatal": False, "message": "a code of the future"})
    run.deliver(link, "d-1", 1)
    run.answer("d-1", link)


# 15 Life cycle of a client


def subscribes_again(run: ClientRun) -> None:
    """The next connection has a fresh session."""
    run.join("subscribe kit.>")
    change = run.frame("SUBSCRIBE")
    link = change.link
    assert link
    link.send("ACK", {"ack_id": change.id})
    run.fence(link)
    run.forget(link)
    run.greet = run.write_welcome
    run.cut(link)
    link, _ = run.greeting()
    again = run.frame("SUBSCRIBE", link)
    topic = again.envelope.get("topic")
    check(topic == "kit.>", f"the client subscribed to {topic!r}, and before to 'kit.>'")


def repeats_messages_in_order(run: ClientRun) -> None:
    """Two messages are not answered when the connection ends."""
    run.join("send Bob one", "send Bob two")
    link, one = run.sent("one")
    run.cut(link)
    seen = {e.payload.get("body"): e for e in run.history if e.is_message}
    run.forget(link)
    run.greeting()
    for body in ("one", "two"):
        again = run.sent()[1]
        came = again.payload.get("body")
        check(came == body, f"on the new connection, {body!r} was due, and {came!r} came")
        if body in seen:
            expect_same(seen[body], again)
        run.accept_message(again)


def stays_away_after_a_fatal_error(run: ClientRun) -> None:
    """A fatal ERROR ends the client, also one with a code that no version has."""
    for code in ("SESSION_REPLACED", "BAD_FRAME", "KIT_CODE"):
        with ClientRun(run.program, run.options, run.trace) as other:
            stays_away_after(other, code)


def stays_away_after(run: ClientRun, code: str) -> None:
    link = run.join()
    link.send("ERROR", {"code": code, "fatal": True, "message": "the kit ends the connection"})
    link.end()
    try:
        run.wait("another connection", lambda e: e.kind == "opened" and e.link is not link)
    except Failed:
        return run.await_end(f"the client goes on after a fatal {code}")
    raise Failed(f"after a fatal {code}, the client connected again")


# 17 Security


CONTROLS = ["\x1b", "\x07", "\x08", "\x7f", "\x9b", "\x9d", "\u202e", "\u2066"]


def escapes_control_characters(run: ClientRun) -> None:
    """A body has characters that control a terminal."""
    link = run.join()
    body = "begin " + " ".join(f"{c}[2J" for c in CONTROLS) + " end"
    run.deliver(link, "d-1", 1, body)
    def is_it(event: Event) -> bool:
        return event.kind == "printed" and b"end" in event.frame
    shown = run.wait("a line with the body", is_it)
    for line in [e.frame.decode("utf-8", "replace") for e in run.history if e.kind == "printed"]:
        for control in CONTROLS:
            check(control not in line, f"the client shows the character {control!r}: {line!r}")
    check(b"begin" in shown.frame, "the client shows the body in part only")
