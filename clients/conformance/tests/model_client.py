#!/usr/bin/env python3
"""A small correct client, and wrong ones: each FLAG but `batches` breaks one rule.

With `batches`, it acknowledges several messages by one ACK, and asks for few at a time.

    python3 model_client.py [FLAG]
"""

import collections
import json
import os
import queue
import socket
import struct
import sys
import threading
import time

FLAG = sys.argv[1] if len(sys.argv) > 1 else ""
PATH = os.environ["AGENT_RELAY_ENDPOINT"]
NAME = {"batches": "carl_2.x", "bad-name": "bad name!", "no-name": "", "reserved-name": "Root"}.get(
    FLAG, "Ann")
PERMANENT = {"SESSION_REPLACED", "NAME_IN_USE", "INVALID_NAME", "UNAUTHORIZED"}
TEMPORARY = {
    "HANDSHAKE_TIMEOUT", "HEARTBEAT_TIMEOUT", "TOO_MANY_CLIENTS", "SHUTTING_DOWN", "INTERNAL"}
#: What each of these flags adds to the payload of HELLO, and to `payload_meta` of a SEND.
HELLOS = {
    "null-session": {"session": None}, "null-token": {"session": {"resume_token": None}},
    "null-companion": {"companion_key": None}, "null-auth": {"auth": None},
    "null-key": {"auth": {"key": None}}, "text-ack": {"capabilities": {"ack": "yes"}},
    "real-inflight": {"capabilities": {"max_inflight": 8.0}},
    "batches": {"capabilities": {"resume": True, "max_inflight": 5}},
}
#: What each of these flags adds to the payload of an ACK.
ACKS = {"null-cumulative": {"cumulative_seq": None}, "null-correlation": {"correlationId": None}}
METAS = {"null-ttl": {"ttl_ms": None}, "text-requires-ack": {"requires_ack": "true"}}
KNOWN = {"STALE", "UNKNOWN_AGENT", "EXPIRED", "REFUSED", "RESUME_REJECTED", "INVALID", "TOO_LARGE"}
MEMBERS = {"v", "type", "id", "ts", "from", "to", "topic", "payload", "payload_meta", "delivery"}


def new_id():
    return os.urandom(16).hex()


def jitter():
    """Up to 15 % more or less."""
    return 0.86 + os.urandom(1)[0] / 255 * 0.28


class Client:
    def __init__(self):
        self.lock = threading.Condition()
        self.outbox = []  # unanswered SENDs and changes of subscriptions, in their order
        self.seen = collections.deque(maxlen=100 if FLAG == "small-window" else 4096)
        self.outcomes, self.patterns, self.questions = set(), [], {}
        self.stream, self.frames = None, None
        self.token = self.first_token = self.session = ""
        self.frame_bytes, self.not_before = 1 << 20, 0.0
        self.ready = self.leaving = self.is_resume = False
        self.batch = {}  # the last delivery and how many wait for an ACK, by their topic

    # The connection

    def run(self):
        threading.Thread(target=self.take_commands, daemon=True).start()
        threading.Thread(target=self.send_when_due, daemon=True).start()
        for attempt in range(20):
            try:
                self.connect()
                self.serve()
            except (ConnectionError, FileNotFoundError) as error:
                if FLAG == "removes-socket" and isinstance(error, ConnectionRefusedError):
                    os.unlink(PATH)
                if self.leaving or not self.session:
                    sys.exit(0 if self.leaving else f"no daemon: {error}")
            with self.lock:
                self.ready = False
                for entry in self.outbox:
                    entry["sent"], entry["due"] = False, 0.0
                if FLAG == "new-id":
                    for entry in self.outbox:
                        entry["envelope"]["id"] = new_id()
                if FLAG == "new-text":
                    for entry in self.outbox:
                        entry["envelope"]["payload"]["kind"] = "message again"
                if FLAG == "forgetful":
                    self.seen.clear()
            left = 0.0 if FLAG == "early-bird" else self.not_before - time.monotonic()
            time.sleep(max(left, min(30.0, 0.1 * 2**attempt) * jitter()))

    def connect(self):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(PATH)
        user = struct.unpack("iII", self.stream.getsockopt(socket.SOL_SOCKET, 17, 12))[1]
        if user not in (0, os.getuid()) and FLAG != "trusts-anyone":
            sys.exit(f"user {user} runs the daemon")
        self.frames = queue.SimpleQueue()
        threading.Thread(target=self.write, args=(self.stream, self.frames), daemon=True).start()
        if FLAG == "chatty" and not self.session:
            self.send("PONG", {"nonce": "hello"})
        token = self.first_token if FLAG == "old-token" else self.token
        self.is_resume = bool(token)
        if FLAG == "slow":
            time.sleep(5.5)
        if token:
            streams = None if FLAG == "null-streams" else []
            self.send("RESUME", {"agent": NAME, "resume_token": token, "streams": streams})
        else:
            self.send("HELLO", self.hello())

    def hello(self):
        return {"agent": NAME, "capabilities": {"resume": True}, **HELLOS.get(FLAG, {})}

    def serve(self):
        while True:
            length = self.read(4)[2 if FLAG == "short-lengths" else 0 :]
            frame = self.read(int.from_bytes(length, "big"))
            # The conversion of a long number would fail: it stays a text.
            whole = json.loads(frame, parse_int=lambda n: int(n) if len(n) < 20 else n)
            with self.lock:
                self.handle(whole)
                self.lock.notify_all()

    def read(self, count):
        data = self.stream.recv(count, socket.MSG_WAITALL) if count else b""
        if len(data) < count:
            raise ConnectionError("the daemon ended the connection")
        return data

    def write(self, stream, frames):
        try:
            while True:
                stream.sendall(frames.get())
        except OSError:
            pass  # The reader reports why the connection ended.

    def send(self, kind, payload, **members):
        self.put({"v": 1, "type": kind, "id": new_id(), "ts": 0, **members, "payload": payload})

    def put(self, envelope):
        if FLAG == "no-ts" and envelope["type"] == "SEND":
            envelope = {key: value for key, value in envelope.items() if key != "ts"}
        data = json.dumps(envelope).encode()
        data = len(data).to_bytes(4, "big") + data
        if FLAG == "blocks" and envelope["type"] == "PONG":
            self.stream.sendall(data)
        else:
            self.frames.put(data)

    # What comes

    def show(self, envelope):
        text = json.dumps(envelope, ensure_ascii=FLAG != "raw-text")
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()

    def handle(self, whole):
        kind, payload = whole["type"], whole["payload"]
        if FLAG == "strict-members" and set(whole) - MEMBERS:
            sys.exit("unknown members")
        if kind == "PING":
            nonce = payload["nonce"]
            if FLAG == "ascii-nonce":
                nonce = nonce.encode("ascii", "replace").decode()
            self.send("PONG", {"nonce": nonce})
        elif kind == "WELCOME":
            self.welcome(payload)
        elif kind == "DELIVER":
            self.deliver(whole)
        elif kind == "BYE":
            self.not_before = time.monotonic() + payload.get("retry_after_ms", 0) / 1000
        elif kind == "BUSY":
            self.busy(payload)
        elif kind == "ERROR" and payload["fatal"]:
            permanent = payload["code"] not in TEMPORARY
            if FLAG == "ends-when-replaced":
                permanent = payload["code"] == "SESSION_REPLACED"
            if FLAG == "ends-on-known":
                permanent = payload["code"] in PERMANENT | {"BAD_FRAME"}
            if permanent and FLAG != "comes-back":
                self.show(whole)
                os._exit(1)
        elif kind in ("ERROR", "NACK") and not self.ready:
            self.not_joined(kind, payload)
        elif kind in ("ACK", "NACK"):
            self.answered(kind, payload, whole)

    def not_joined(self, kind, payload):
        """HELLO or RESUME was not successful, and the connection continues."""
        if FLAG == "assumes-joined" and not self.is_resume:
            self.ready = True
            return
        if not self.is_resume and payload["code"] == "RESUME_REJECTED":
            return  # WELCOME follows.
        code = payload["code"]
        if FLAG == "no-" + code.lower():
            os._exit(1)
        self.is_resume = False
        session = {"session": {"resume_token": self.token}} if payload["code"] == "STALE" else {}
        self.send("HELLO", {**self.hello(), **session})

    def welcome(self, payload):
        is_new = self.session != payload["session_id"]
        self.session, self.token = payload["session_id"], payload["resume_token"]
        self.first_token = self.first_token or self.token
        self.frame_bytes, self.ready = payload["server"]["max_frame_bytes"], True
        for pattern in self.patterns if is_new and FLAG != "no-subscribe" else ():
            self.send("SUBSCRIBE", {}, topic=pattern)

    def deliver(self, whole):
        id, delivery, body = whole["id"], whole["delivery"], whole["payload"].get("body")
        if FLAG == "texts-only" and not isinstance(body, str):
            return
        sync = whole.get("payload_meta", {}).get("sync")
        if id not in self.seen:
            self.seen.append(id)
            self.show(whole)
            if sync:
                self.questions[id] = sync["correlationId"]
                return
        elif FLAG == "silent-on-duplicates":
            return
        if not delivery.get("requires_ack") or (FLAG == "no-topics" and "topic" in whole):
            return
        if FLAG == "batches":
            return self.acknowledge_later(whole.get("topic"), id, delivery["seq"])
        seq = delivery["seq"] + (FLAG == "wrong-number")
        self.send("ACK", {"ack_id": id, "seq": seq, **ACKS.get(FLAG, {})})

    def acknowledge_later(self, topic, id, seq):
        """One ACK for up to three deliveries of a stream, once 20 ms are over."""
        batch = self.batch.setdefault(topic, [])
        batch.append((seq, id))
        if len(batch) == 1:
            threading.Timer(0.02, self.acknowledge, [topic, batch]).start()
        elif len(batch) == 3:
            self.acknowledge(topic, batch)

    def acknowledge(self, topic, batch):
        with self.lock:
            if self.batch.get(topic) is batch:
                del self.batch[topic]
                seq, id = max(batch)
                self.send("ACK", {"ack_id": id, "cumulative_seq": seq})

    def find(self, id):
        return next((entry for entry in self.outbox if entry["envelope"]["id"] == id), None)

    def busy(self, payload):
        entry = self.find(payload["ack_id"])
        if entry is None:
            return
        first = payload["retry_after_ms"] / 1000
        entry["wait"] = max(first, entry["wait"] * (1 if FLAG == "constant-wait" else 2))
        entry["due"] = time.monotonic() + min(30.0, entry["wait"]) * jitter()
        entry["sent"] = False
        if FLAG == "busy-body":
            entry["envelope"]["payload"]["body"] += " again"

    def answered(self, kind, payload, whole):
        if FLAG == "known-codes" and kind == "NACK" and payload["code"] not in KNOWN:
            sys.exit(f"unknown code {payload['code']}")
        if (whole["id"], payload["ack_id"]) in self.outcomes and FLAG != "repeats-outcomes":
            return
        self.outcomes.add((whole["id"], payload["ack_id"]))
        entry = self.find(payload["ack_id"])
        if entry:
            self.outbox.remove(entry)
        if entry and entry["pattern"] and kind == "ACK":
            self.patterns.append(entry["pattern"])
        if FLAG == "hasty" and payload.get("state") == "accepted":
            whole["payload"] = {"responseData": {"body": "accepted"}}
        self.show(whole)

    # What goes

    def send_when_due(self):
        with self.lock:
            while True:
                waits = [e["due"] - time.monotonic() for e in self.outbox if not e["sent"]]
                waits = [wait for wait in waits if wait > 0]
                self.send_due()
                self.lock.wait(min(waits) if waits else None)

    def send_due(self):
        held = set()
        is_wrong = FLAG == "last-first" and self.first_token != self.token
        for entry in (self.outbox[::-1] if is_wrong else self.outbox) if self.ready else ():
            target = entry["envelope"].get("to")
            if entry["due"] > time.monotonic():
                held.add(target)
            elif not entry["sent"] and (target not in held or FLAG == "overtakes"):
                self.put(entry["envelope"])
                entry["sent"] = True
            if FLAG == "overtakes" and not entry["sent"]:
                held.add(target)

    def post(self, kind, payload, pattern="", **members):
        id = "m-1" if FLAG == "constant-id" else new_id()
        envelope = {"v": 1, "type": kind, "id": id, "ts": 0, **members, "payload": payload}
        with self.lock:
            if len(json.dumps(envelope)) > self.frame_bytes and FLAG != "long-frames":
                nack = {"ack_id": envelope["id"], "code": "TOO_LARGE", "message": "too long"}
                return self.show({"type": "NACK", "payload": nack})
            entry = {"envelope": envelope, "sent": False, "due": 0.0, "wait": 0.0}
            self.outbox.append({**entry, "pattern": pattern})
            self.lock.notify_all()

    def take_commands(self):
        for line in open(0, "rb", buffering=0):
            with self.lock:
                self.lock.wait_for(lambda: self.ready or self.session)
            command, target, rest = (line.decode().rstrip("\n").split(" ", 2) + ["", ""])[:3]
            message = {"kind": "message", "body": rest}
            meta = {"requires_ack": True, **METAS.get(FLAG, {})}
            if FLAG == "at-most-once":
                meta = {}
            if command == "ask":
                meta["sync"] = {"correlationId": new_id(), "timeoutMs": 30000}
                if FLAG == "null-blocking":
                    meta["sync"]["blocking"] = None
            if command in ("send", "ask"):
                self.post("SEND", message, to=target, payload_meta=meta)
            elif command == "publish":
                self.post("SEND", message, topic=target, payload_meta=meta)
            elif command == "answer":
                response = None if FLAG == "null-response" else True
                answer = {"ack_id": target, "response": response, "responseData": {"body": rest}}
                if FLAG != "no-correlation":
                    answer["correlationId"] = self.questions[target]
                self.send("ACK", answer)
            else:
                kept = target if command == "subscribe" else ""
                self.post(command.upper(), {}, kept, topic=target)
        self.leaving = True
        if FLAG == "cleans-up":
            os.unlink(PATH)
        if not self.ready:
            os._exit(1)
        self.send("BYE", {"reason": "done"})


Client().run()
