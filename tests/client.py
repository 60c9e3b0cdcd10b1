#!/usr/bin/env python3
"""A client of Agent Relay, written from docs/PROTOCOL.md alone: standard library, Unix sockets.

    python3 tests/client.py --socket /tmp/agent-relay.sock Ann

Joins under the name, then takes a command from each line of its input:

    send TO BODY            to an agent, or to everyone (*), at least once
    publish TOPIC BODY      to whoever subscribed, at least once
    subscribe PATTERN       and unsubscribe PATTERN

At the end of its input it leaves. What it hears goes to its output, one envelope a line; a message is
acknowledged after that. It does not connect again: when the daemon ends the connection, it says so.
"""
import argparse, collections, contextlib, json, os, queue, random, socket, struct, sys, threading, time, uuid


def check_server(stream):
    """Somebody else may have taken the path: only our own user and root may run what answers there."""
    if sys.platform == "linux":
        _, user, _ = struct.unpack("iII", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # LOCAL_PEERCRED: a version, the user, and groups
        _, user = struct.unpack("II", stream.getsockopt(0, 1, 76)[:8])
    if user not in (0, os.getuid()):
        sys.exit(f"what answers here is run by another user ({user})")


class Client:
    """One thread reads and answers; one writes, so that reading never waits; one takes commands."""

    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        check_server(self.stream)
        self.outgoing, self.answers = queue.SimpleQueue(), queue.SimpleQueue()
        self.heard = collections.deque(maxlen=4096)  # ids, to know messages that come again
        self.left = self.ended = False
        self.longest = 1 << 20

    def run(self, name):
        self.say("HELLO", {"agent": name})
        for work in (self.write, self.take_commands):
            threading.Thread(target=work, daemon=True).start()
        while True:
            frame = self.read(int.from_bytes(self.read(4), "big"))
            # Agents may say numbers of any size; Python refuses the longest.
            self.hear(json.loads(frame, parse_int=lambda n: int(n) if len(n) < 20 else n, parse_float=str))

    def read(self, count):
        with contextlib.suppress(ConnectionError):
            if len(data := self.stream.recv(count, socket.MSG_WAITALL)) == count:
                return data
        sys.exit(0 if self.left else "the daemon ended the connection")

    def write(self):
        with contextlib.suppress(ConnectionError):  # why it ended is still to be read
            while True:
                frame = json.dumps(self.outgoing.get()).encode()
                self.stream.sendall(len(frame).to_bytes(4, "big") + frame)

    def hear(self, envelope):
        if envelope["type"] == "PING":
            self.say("PONG", {"nonce": envelope["payload"]["nonce"]})
        elif envelope["type"] == "DELIVER":
            self.hear_message(envelope)
        else:
            self.ended |= envelope["type"] == "BYE" or envelope["payload"].get("fatal", False)
            print(json.dumps(envelope), flush=True)
            self.answers.put(envelope)

    def hear_message(self, envelope):
        answer = {"ack_id": envelope["id"]}
        if not isinstance(envelope["payload"].get("body"), str):
            return self.say("NACK", {**answer, "code": "INVALID", "message": "there is no text in it"})
        if envelope["id"] not in self.heard:
            print(json.dumps(envelope), flush=True)
            self.heard.append(envelope["id"])
        if envelope["delivery"].get("requires_ack"):
            self.say("ACK", {**answer, "seq": envelope["delivery"]["seq"]})

    def say(self, kind, payload, **members):
        envelope = {"v": 1, "type": kind, "id": str(uuid.uuid4()), "ts": int(time.time() * 1000)}
        envelope.update(members, payload=payload)
        if len(json.dumps(envelope)) > self.longest:
            return print("not sent: longer than the daemon's frames may be", file=sys.stderr)
        self.outgoing.put(envelope)
        return envelope

    def ask(self, kind, payload, **members):
        """Says it until it is taken or refused. Nothing overtakes it meanwhile, so the order is kept."""
        envelope, wait = self.say(kind, payload, **members), 0
        while envelope:
            answer = self.answers.get()
            about = answer["payload"].get("ack_id", answer["payload"].get("ref"))
            if about == envelope["id"] and "to" not in answer["payload"]:  # not of one of several
                if answer["type"] != "BUSY":
                    return
                wait = min(30, max(2 * wait, answer["payload"]["retry_after_ms"] / 1000))
                time.sleep(wait * random.uniform(0.85, 1.15))
                self.outgoing.put(envelope)

    def take_commands(self):
        if (welcome := self.answers.get())["type"] != "WELCOME":
            return self.say("BYE", {"reason": "not welcome"})
        self.longest = welcome["payload"].get("server", {}).get("max_frame_bytes", self.longest)
        # Without a buffer, whose lock this thread would still hold when the program ends.
        for line in open(0, "rb", buffering=0):
            words = line.decode("utf-8", "replace").rstrip("\n").split(" ", 2)
            command, target, body = words + [""] * (3 - len(words))
            if command in ("send", "publish"):
                to = {"to": target} if command == "send" else {"topic": target}
                message = {"kind": "message", "body": body}
                self.ask("SEND", message, payload_meta={"requires_ack": True}, **to)
            elif command in ("subscribe", "unsubscribe"):
                self.ask(command.upper(), {}, topic=target)
            elif line.strip():
                print(f"there is no command {command!r}: see --help", file=sys.stderr)
        self.left = not self.ended
        self.say("BYE", {"reason": "done"})


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--socket", default=os.environ.get("AGENT_RELAY_ENDPOINT", "/tmp/agent-relay.sock"))
    parser.add_argument("name")
    arguments = parser.parse_args()
    if sys.platform == "win32":
        print("this client knows Unix sockets only, and this system uses pipes", file=sys.stderr)
        sys.exit(77)  # there is nothing here that this client could run on
    try:
        client = Client(arguments.socket)
    except OSError as error:
        sys.exit(f"no daemon at {arguments.socket}: {error}")
    client.run(arguments.name)


main()
