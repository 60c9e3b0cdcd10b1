#!/usr/bin/env python3
"""A client of version 1.0 of the protocol, which knows nothing of version 1.1.

It was written from the text of version 1.0 alone, which has no code: sections 1 to 5 and 7. Its
envelopes have the members of that text, and its HELLO and ACK are the examples there. The commands
are those of tests/client.py: `send`, `publish`, `subscribe` and `unsubscribe`.
"""

import json
import os
import select
import socket
import sys
import time
import uuid

CAPABILITIES = {"ack": True, "resume": True, "max_inflight": 256, "supports_topics": True}


def number(text):
    """Reads a number as TypeScript does, the language of version 1.0."""
    return int(text) if len(text) < 16 else float(text)


class Client:
    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.frame_bytes, self.buffer, self.commands, self.is_ready = 1 << 20, b"", b"", False

    def send(self, kind, payload, **members):
        envelope = {"v": 1, "type": kind, "id": str(uuid.uuid4()), "ts": int(time.time() * 1000)}
        frame = json.dumps({**envelope, **members, "payload": payload}).encode()
        if len(frame) <= self.frame_bytes:
            self.stream.sendall(len(frame).to_bytes(4, "big") + frame)
        else:
            print("the message is too long", file=sys.stderr)

    def run(self, name):
        self.send("HELLO", {"agent": name, "capabilities": CAPABILITIES})
        inputs = [self.stream, 0]
        while True:
            # Commands wait until the session is there.
            ready, _, _ = select.select(inputs if self.is_ready else [self.stream], [], [])
            if self.stream in ready:
                self.read()
            if 0 in ready and self.is_ready and not self.read_commands():
                self.send("BYE", {})
                inputs.remove(0)

    def read(self):
        data = self.stream.recv(65536)
        if not data:
            sys.exit(0)
        self.buffer += data
        while len(self.buffer) >= 4:
            end = 4 + int.from_bytes(self.buffer[:4], "big")
            if len(self.buffer) < end:
                break
            frame, self.buffer = self.buffer[4:end], self.buffer[end:]
            self.handle(json.loads(frame, parse_int=number))

    def handle(self, envelope):
        payload = envelope["payload"]
        if envelope["type"] == "PING":
            return self.send("PONG", {"nonce": payload["nonce"]})
        print(json.dumps(envelope), flush=True)
        if envelope["type"] == "WELCOME":
            self.frame_bytes, self.is_ready = payload["server"]["max_frame_bytes"], True
        elif envelope["type"] == "DELIVER":
            self.send("ACK", {"ack_id": envelope["id"], "seq": envelope["delivery"]["seq"]})

    def read_commands(self):
        data = os.read(0, 65536)
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            command, target, body = (line.decode().split(" ", 2) + ["", ""])[:3]
            message = {"kind": "message", "body": body, "data": {}}
            meta = {"requires_ack": True, "ttl_ms": 60000}
            if command == "send":
                self.send("SEND", message, to=target, payload_meta=meta)
            elif command == "publish":
                self.send("SEND", message, to="*", topic=target, payload_meta=meta)
            else:
                self.send(command.upper(), {}, topic=target)
        return data


Client(os.environ["AGENT_RELAY_ENDPOINT"]).run(sys.argv[1])
