#!/usr/bin/env python3
"""A client of Agent Relay, written from docs/PROTOCOL.md alone: standard library, Unix sockets.

    python3 tests/client.py --socket /tmp/agent-relay.sock Ann

Joins under the name, then takes a command from each line of its input:

    send TO BODY            to an agent, or to everyone (*), at least once
    publish TOPIC BODY      to whoever subscribed, at least once
    subscribe PATTERN       and unsubscribe PATTERN
    quit                    leave, once everything sent was answered; so does the end of the input

What it hears goes to its output, one envelope a line; a message is acknowledged after that. It does not
connect again: when the daemon ends the connection, it says so and ends with 1.
"""
import argparse, collections, json, os, random, select, socket, struct, sys, time, uuid

REMEMBERED = 4096  # ids of messages that were heard, to know those that come again
NOT_HERE = 77  # exit code: this system has nothing that this client could run on


def check_server(stream):
    """Somebody else may have taken the path: only our own user and root may run what answers there."""
    if sys.platform == "linux":
        _, user, _ = struct.unpack("iII", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # LOCAL_PEERCRED: a version, the user, and groups
        _, user = struct.unpack("II", stream.getsockopt(0, 1, 76)[:8])
    if user not in (0, os.getuid()):
        sys.exit(f"what answers here is run by another user ({user})")


class Client:
    def __init__(self, path, name):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        check_server(self.stream)
        self.stream.setblocking(False)
        self.incoming, self.outgoing, self.typed = b"", b"", b""
        self.unanswered = {}  # SENDs by their id: [envelope, times BUSY, when to send it again]
        self.heard = collections.OrderedDict()
        self.ready = self.leaving = self.left = self.ended = False
        self.say("HELLO", {"agent": name})

    def say(self, kind, payload, **members):
        envelope = {"v": 1, "type": kind, "id": str(uuid.uuid4()), "ts": int(time.time() * 1000)}
        envelope.update(members, payload=payload)
        self.write(envelope)
        return envelope

    def write(self, envelope):
        frame = json.dumps(envelope).encode()
        self.outgoing += struct.pack(">I", len(frame)) + frame

    def run(self):
        """Waits for everything at once, so that it reads while it writes."""
        while True:
            again = [due for _, _, due in self.unanswered.values() if due]
            # What waits behind a busy recipient keeps its order: nothing more is taken in meanwhile.
            wants_input = self.ready and not (self.leaving or self.ended or again or self.outgoing)
            readers = [self.stream] + ([sys.stdin] if wants_input else [])
            timeout = max(0, min(again) - time.monotonic()) if again else None
            ready, writers, _ = select.select(readers, [self.stream] if self.outgoing else [], [], timeout)
            if self.stream in ready and not self.read():
                return
            if writers:
                self.send_on()
            if sys.stdin in ready:
                self.take_commands()
            for held in self.unanswered.values():
                if held[2] and held[2] <= time.monotonic():
                    held[2] = None
                    self.write(held[0])
            if self.leaving and not (self.unanswered or self.left or self.ended):
                self.left = True
                self.say("BYE", {"reason": "done"})

    def send_on(self):
        try:
            self.outgoing = self.outgoing[self.stream.send(self.outgoing):]
        except ConnectionError:
            self.outgoing = b""  # the reason is still to be read

    def read(self):
        """Takes what came; false at the end of the stream."""
        try:
            data = self.stream.recv(65536)
        except ConnectionError:
            return False
        self.incoming += data
        while len(self.incoming) >= 4:
            end = 4 + struct.unpack(">I", self.incoming[:4])[0]
            if len(self.incoming) < end:
                break
            frame, self.incoming = self.incoming[4:end], self.incoming[end:]
            # Agents may say numbers of any size; Python refuses the longest.
            self.hear(json.loads(frame, parse_int=lambda n: int(n) if len(n) < 20 else n, parse_float=str))
        return bool(data)

    def hear(self, envelope):
        kind, payload = envelope["type"], envelope["payload"]
        if kind == "PING":
            return self.say("PONG", {"nonce": payload["nonce"]})
        if kind == "DELIVER":
            return self.hear_message(envelope)
        print(json.dumps(envelope), flush=True)
        if kind == "WELCOME":
            self.ready = True
        elif kind == "BUSY" and payload["ack_id"] in self.unanswered:
            held = self.unanswered[payload["ack_id"]]
            wait = min(30_000, payload["retry_after_ms"] * 2 ** min(held[1], 20)) / 1000
            held[1:] = [held[1] + 1, time.monotonic() + wait * random.uniform(0.85, 1.15)]
        elif kind == "ACK" or kind == "NACK" and "to" not in payload:
            self.unanswered.pop(payload["ack_id"], None)
        elif kind == "ERROR":
            self.unanswered.pop(payload.get("ref"), None)
        self.ended |= kind == "BYE" or payload.get("fatal") is True

    def hear_message(self, envelope):
        answer = {"ack_id": envelope["id"]}
        if not isinstance(envelope["payload"].get("body"), str):
            return self.say("NACK", {**answer, "code": "INVALID", "message": "there is no text in it"})
        if envelope["id"] not in self.heard:
            print(json.dumps(envelope), flush=True)
            self.heard[envelope["id"]] = True
            if len(self.heard) > REMEMBERED:
                self.heard.popitem(last=False)
        if envelope["delivery"].get("requires_ack"):
            self.say("ACK", {**answer, "seq": envelope["delivery"]["seq"]})

    def take_commands(self):
        data = os.read(sys.stdin.fileno(), 65536)
        self.leaving = not data
        *lines, self.typed = (self.typed + (data or b"\n")).split(b"\n")
        for line in lines:
            command, target, body = (line.decode("utf-8", "replace").split(" ", 2) + ["", ""])[:3]
            if command in ("send", "publish"):
                to = {"to": target} if command == "send" else {"topic": target}
                meta, message = {"requires_ack": True}, {"kind": "message", "body": body}
                envelope = self.say("SEND", message, payload_meta=meta, **to)
                self.unanswered[envelope["id"]] = [envelope, 0, None]
            elif command in ("subscribe", "unsubscribe"):
                self.say(command.upper(), {}, topic=target)
            elif command == "quit":
                self.leaving = True
            elif line.strip():
                print(f"{command!r} is no command: send, publish, subscribe, unsubscribe, quit", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", default=os.environ.get("AGENT_RELAY_ENDPOINT", "/tmp/agent-relay.sock"))
    parser.add_argument("name")
    arguments = parser.parse_args()
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        print("this client knows Unix sockets only, and this system uses pipes", file=sys.stderr)
        sys.exit(NOT_HERE)
    try:
        client = Client(arguments.socket, arguments.name)
    except OSError as error:
        sys.exit(f"no daemon at {arguments.socket}: {error}")
    client.run()
    if not client.left:
        sys.exit("the daemon ended the connection")


main()
