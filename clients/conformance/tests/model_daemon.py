#!/usr/bin/env python3
"""A small correct daemon, and wrong ones: each FLAG breaks one rule.

    python3 model_daemon.py ENDPOINT HOME [FLAG]

One lock guards everything. The state is written to a file whenever it changes.
"""

import collections
import contextlib
import heapq
import itertools
import json
import os
import pickle
import queue
import re
import socket
import struct
import sys
import threading
import time

ENDPOINT, HOME = sys.argv[1:3]
FLAG = sys.argv[3] if len(sys.argv) > 3 else ""
SETTINGS = {
    "max_frame_bytes": 1 << 20, "heartbeat_ms": 5000, "handshake_timeout_ms": 5000,
    "resume_window_ms": 600000, "queue_max_messages": 10000, "replay_messages": 1000}
with contextlib.suppress(FileNotFoundError), open(HOME + "/config.toml") as file:
    SETTINGS.update({key: int(n) for key, n in re.findall(r"(\w+) = (\d+)", file.read())})
RESERVED = ("user human owner operator overseer admin administrator root system assistant relay "
            "agent-relay cli all everyone").split()
FROM_DAEMON = "WELCOME DELIVER PING ERROR BUSY SYNC".split()
KINDS = [*"HELLO SEND ACK NACK PONG RESUME BYE SUBSCRIBE UNSUBSCRIBE".split(), *FROM_DAEMON]
TEXTS = ("type", "id", "from", "to", "topic")
MEMBERS = {"v", "ts", "payload", "payload_meta", "delivery", *TEXTS}
TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
MAX = SETTINGS["max_frame_bytes"]


class Error(Exception):
    def __init__(self, code, message, fatal=False, ref=None):
        super().__init__(message)
        self.code, self.fatal, self.ref = code, fatal, ref


class Refused(Exception):
    """Becomes a NACK."""


def number(text):
    return int(text) if len(text) < 20 else float(text)


def members_of(text):
    """Returns the members of a JSON object: key, value and text."""
    decoder, rows = json.JSONDecoder(parse_int=number), []
    skip = lambda at: re.compile(r"[ \t\r\n]*").match(text, at).end()  # noqa: E731
    at = skip(skip(0) + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        begin = skip(skip(at) + 1)
        value, at = decoder.raw_decode(text, begin)
        rows.append((key, value, text[begin:at]))
        at = skip(at)
        at = skip(at + 1) if text[at] == "," else at
    return rows


def no_constant(text):
    if FLAG != "not-a-number":
        raise ValueError(text)
    return 0


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def parse(data, is_joined):
    """Returns an envelope, whose `raw` has the texts of its members. Checks rules 1 to 14."""
    if not data:
        raise Error("BAD_FRAME", "the frame is empty", True)
    try:
        text = data.decode("utf-8", "replace" if FLAG == "lenient-utf8" else "strict")
    except UnicodeDecodeError:
        raise Error("BAD_FRAME", "the frame is not UTF-8", True) from None
    if not text.strip(" \t\r\n").startswith("{"):
        raise Error("BAD_FRAME", "the frame is no object", True)
    depth = deepest = 0
    for token in TOKENS.findall(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        deepest = max(deepest, depth)
    if deepest > 128 and FLAG != "deep":
        raise Error("INVALID", "the JSON is nested too deep")
    try:
        json.loads(text, parse_constant=no_constant, parse_int=number)
    except (ValueError, RecursionError) as error:
        raise Error("BAD_FRAME", str(error), True) from None
    rows = members_of(text)
    whole = {key: value for key, value, _ in rows}
    whole["raw"] = {key: raw for key, _, raw in rows}
    count = collections.Counter(key for key, _, _ in rows)
    id = whole.get("id")
    is_id = isinstance(id, str) and count["id"] == 1
    ref = id if is_id and 1 <= len(id.encode("utf-8", "replace")) <= 128 else None

    is_early = not is_joined and FLAG != "row-14" and whole.get("type") not in ("HELLO", "RESUME")

    def require(row, is_right, why):
        """Checks a row of the table of section 4. A flag such as `row-7` leaves one out."""
        if not is_right and FLAG != f"row-{row}":
            if is_early:
                raise Error("HANDSHAKE_REQUIRED", "send HELLO first", True, ref)
            raise Error("INVALID", why, False, ref)

    is_number = lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)  # noqa: E731
    require(7, count["v"] == 1 and is_number(whole["v"]), "`v` is wrong")
    if whole.get("v") != 1 and FLAG not in ("row-7", "row-8"):
        raise Error("UNSUPPORTED_VERSION", "use version 1", True, ref)
    require(9, all(count[key] <= 1 for key in MEMBERS), "a member is given twice")
    texts = [whole[key] for key in TEXTS if key in whole]
    require(9, all(isinstance(text, str) for text in texts), "a member is no string")
    require(10, whole.get("type") in KINDS, "`type` is not known")
    require(11, ref is not None, "`id` is wrong")
    require(12, is_number(whole.get("ts")), "`ts` is wrong")
    require(13, isinstance(whole.get("payload"), dict), "`payload` is no object")
    for key in ("payload_meta", "delivery"):
        require(13, isinstance(whole.get(key, {}), dict), f"`{key}` is no object")
    require(0, FLAG != "strict-members" or set(whole) <= MEMBERS | {"raw"}, "an unknown member")
    require(14, not is_early, "the first frame is no HELLO")
    if whole.get("type") in FROM_DAEMON:
        require(0, False, "only the daemon sends that")
    return whole


def new_id():
    data = bytearray(os.urandom(16))
    data[6], data[8] = data[6] & 15 | 64, data[8] & 63 | 128
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_name(name):
    form = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    return len(name) <= 64 and re.fullmatch(form, name) is not None


def is_remote_name(name):
    local, _, host = name.partition("@")
    return is_name(local) and is_name(host) and len(host) <= 32


def is_topic(topic, is_pattern):
    if not topic or len(topic.encode()) > 256 or "" in topic.split("."):
        return False
    if is_pattern:
        return ">" not in topic.split(".")[:-1]
    return FLAG == "wildcards" or not {"*", ">"} & set(topic.split("."))


def matches(pattern, topic):
    want, have = pattern.split("."), topic.split(".")
    if want[-1] == ">":
        want, have = want[:-1], have[: len(want) - 1] + ([] if len(have) >= len(want) else ["", ""])
        if FLAG == "greedy-rest" and topic.split(".") == want:
            return True
    return len(want) == len(have) and all(w in ("*", h) for w, h in zip(want, have))


class Agent:
    """A name with its session and mailbox."""

    def __init__(self, name):
        self.name, self.session, self.token, self.auth = name, "", "", "claim"
        self.caps, self.companion_key = {}, None
        self.mailbox, self.replay, self.patterns, self.outcomes = [], [], set(), []
        self.dedup, self.partial = {}, {}
        self.here = None

    def __getstate__(self):
        return {**self.__dict__, "here": None, "partial": {}}


class Delivery:
    """A message for one recipient."""

    def __init__(self, **members):
        self.__dict__.update(members)
        self.id, self.attempts, self.failures, self.not_before = new_id(), 0, 0, 0.0
        self.in_flight, self.is_acknowledged = False, False

    def __getstate__(self):
        return {**self.__dict__, "origin": None, "in_flight": False, "not_before": 0.0}

    def frame(self, session, awaits_ack):
        delivery = {"seq": self.seq, "session_id": session}
        delivery.update({"originalTo": "*"} if self.is_broadcast else {})
        if self.attempts > 1 and FLAG != "no-attempt":
            delivery["attempt"] = self.attempts
        delivery.update({"requires_ack": True} if awaits_ack else {})
        delivery["sender"] = self.sender
        head = {"v": 1, "type": "DELIVER", "id": self.id, "ts": 0}
        head.update({"from": self.from_, "to": self.to})
        head.update({"topic": self.topic} if self.topic else {})
        text = json.dumps(head)[:-1] + ', "payload": ' + self.payload
        text += f', "payload_meta": {self.meta}' if self.meta else ""
        text += f', "delivery": {json.dumps(delivery)}}}'
        return text.encode("utf-8", "surrogatepass")


class Connection:
    def __init__(self, daemon, stream):
        self.daemon, self.stream, self.frames = daemon, stream, queue.SimpleQueue()
        self.agent, self.mode, self.name, self.caps, self.session = None, "", "", {}, ""
        self.seen, self.pinged, self.is_over, self.sent = time.monotonic(), False, False, set()
        self.key = None
        threading.Thread(target=self.write, daemon=True).start()

    def write(self):
        with contextlib.suppress(OSError):
            while True:
                data = self.frames.get()
                if data is None:
                    break
                self.stream.sendall(len(data).to_bytes(4, "big") + data)
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)

    def put(self, kind, payload, **members):
        payload = {key: value for key, value in payload.items() if value is not None}
        if FLAG == "wordless" and kind == "NACK":
            payload.pop("message")
        members = {"from" if key == "from_" else key: value for key, value in members.items()}
        whole = {"v": 1, "type": kind, "id": new_id(), "ts": 0, **members, "payload": payload}
        self.frames.put(json.dumps(whole).encode())

    def fail(self, error):
        payload = {"code": error.code, "fatal": error.fatal, "message": str(error)}
        self.put("ERROR", {**payload, "ref": error.ref})
        if error.fatal:
            self.close()

    def close(self):
        self.is_over = True
        self.frames.put(None)

    def read(self):
        """Reads frames until the connection ends. Each takes the lock."""
        data = bytearray()
        daemon = self.daemon
        while True:
            while len(data) >= 4:
                length = int.from_bytes(data[:4], "big")
                is_long = length > MAX
                if is_long and FLAG == "patient" and length <= MAX + 1 and len(data) < 4 + length:
                    break
                with daemon.lock:
                    if self.is_over:
                        break
                    if is_long:
                        self.fail(Error("FRAME_TOO_LARGE", f"{length} bytes are too many", True))
                        break
                    if len(data) < 4 + length:
                        break
                    frame = bytes(data[4 : 4 + length])
                    del data[: 4 + length]
                    daemon.handle(self, frame)
            more = b""
            with contextlib.suppress(OSError):
                more = self.stream.recv(65536)
            if not more:
                break
            data += more
        with daemon.lock:
            daemon.ended(self)


class Daemon:
    def __init__(self):
        self.lock = threading.RLock()
        self.agents, self.streams, self.questions, self.connections = {}, {}, {}, set()
        self.waiting, self.timers, self.count = [], [], itertools.count()
        self.wake = threading.Condition(self.lock)
        with contextlib.suppress(FileNotFoundError), open(HOME + "/state", "rb") as file:
            self.agents, self.streams = pickle.load(file)
        key = HOME + "/operator.key"
        if not os.path.exists(key):
            with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(os.urandom(32).hex())
        with open(key) as file:
            self.operator_key = file.read()
        for agent in list(self.agents.values()):
            for message in agent.mailbox:
                self.at(message.expires - time.time(), lambda a=agent, m=message: self.expire(a, m))

    def save(self):
        if FLAG == "forgetful":
            return
        with open(HOME + "/state.new", "wb") as file:
            pickle.dump((self.agents, self.streams), file)
        os.rename(HOME + "/state.new", HOME + "/state")

    # Timers and connections

    def at(self, seconds, work):
        """Calls a function after so many seconds, with the lock held."""
        with self.lock:
            heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.count), work))
            self.wake.notify()

    def run_timers(self):
        with self.lock:
            while True:
                while self.timers and self.timers[0][0] <= time.monotonic():
                    heapq.heappop(self.timers)[2]()
                self.wake.wait(self.timers[0][0] - time.monotonic() if self.timers else None)

    def listen(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ENDPOINT)
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177 if FLAG != "open-socket" else 0)
        listener.bind(ENDPOINT)
        os.umask(mask)
        listener.listen(256)
        with open(HOME + "/endpoint", "w") as file:
            file.write(ENDPOINT)
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def look(self):
        """Creates the socket again if it was removed."""
        if not os.path.exists(ENDPOINT):
            self.listen()
        self.at(0.2, self.look)

    def accept(self, listener):
        while True:
            stream = listener.accept()[0]
            connection = Connection(self, stream)
            if FLAG == "mute":
                connection.close()
            with self.lock:
                self.connections.add(connection)
                user = struct.unpack("iII", stream.getsockopt(socket.SOL_SOCKET, 17, 12))[1]
                if user != os.getuid() and FLAG != "any-user":
                    connection.fail(Error("UNAUTHORIZED", "this daemon is another user's", True))
                seconds = SETTINGS["handshake_timeout_ms"] / 1000
                self.at(seconds, lambda c=connection: self.check_handshake(c))
                self.beat(connection)
            threading.Thread(target=connection.read, daemon=True).start()

    def check_handshake(self, connection):
        if not connection.mode and not connection.is_over:
            connection.fail(Error("HANDSHAKE_TIMEOUT", "no HELLO came in time", True))

    def beat(self, connection):
        """Sends PING to a silent client, and ends a dead one."""
        if connection.is_over:
            return
        beat, silent = SETTINGS["heartbeat_ms"] / 1000, time.monotonic() - connection.seen
        if silent >= 3 * beat:
            return connection.fail(Error("HEARTBEAT_TIMEOUT", "no frame came for too long", True))
        due = 3 * beat - silent
        if silent >= beat and not connection.pinged and connection.mode:
            connection.pinged = True
            connection.put("PING", {"nonce": os.urandom(4).hex()})
        elif silent < beat:
            due = beat - silent
        self.at(max(due, 0.01), lambda: self.beat(connection))

    def ended(self, connection):
        """A connection has ended, with or without BYE."""
        connection.is_over = True
        self.connections.discard(connection)
        agent = connection.agent
        if agent and agent.here is connection:
            agent.here = None
            flying = [message for message in agent.mailbox if message.in_flight]
            for message in flying:
                message.in_flight = False
            if flying:
                self.failed(agent, flying[0])
            if connection.mode == "guest":
                del self.agents[agent.name.lower()]
            self.save()
        for name, waiter, join in list(self.waiting):
            if agent and name == agent.name.lower() and agent.here is None:
                self.waiting.remove((name, waiter, join))
                join()
        connection.frames.put(None)

    # Frames

    def handle(self, connection, data):
        if connection.is_over:
            return
        is_pong = b'"PONG"' in data
        if FLAG != "pong-only" or is_pong or not connection.pinged:
            connection.seen, connection.pinged = time.monotonic(), False
        whole = {}
        try:
            whole = parse(data, bool(connection.mode))
            kind = str(whole.get("type")).lower()
            getattr(self, "on_" + kind, self.on_pong)(connection, whole, whole["payload"])
        except Error as error:
            error.ref = error.ref or whole.get("id")
            connection.fail(error)
        except Refused as refused:
            code, message, *more = refused.args
            payload = {"ack_id": whole["id"], "code": code, "message": message}
            connection.put("NACK", {**payload, **(more[0] if more else {})})

    def require(self, is_right, why):
        if not is_right:
            raise Error("INVALID", why)

    def on_pong(self, connection, whole, payload):
        pass

    def on_bye(self, connection, whole, payload):
        agent = connection.agent
        if agent and agent.here is connection and FLAG != "lasting-session":
            agent.session, agent.token, agent.patterns = "", "", set()
            agent.outcomes, agent.replay = [], []
            for message in agent.mailbox:  # BYE is no failure.
                message.in_flight = False
            agent.here = None
        if connection.mode == "guest":
            del self.agents[agent.name]
        connection.close()

    def on_hello(self, connection, whole, payload):
        if connection.mode and FLAG != "many-hellos":
            raise Error("INVALID", "a second HELLO")
        kinds = {"agent": str, "capabilities": dict, "mode": str, "session": dict, "auth": dict,
                 "companion_key": str}
        for key, kind in kinds.items():
            is_right = isinstance(payload.get(key, kind()), kind)
            self.require(is_right, f"`{key}` is of the wrong kind")
        caps = {"ack": True, "resume": False, "max_inflight": 256, "supports_topics": True}
        given = payload.get("capabilities", {})
        for key, default in caps.items():
            value = given.get(key, default)
            is_number = is_int(value) and value >= 0
            is_right = is_number if key == "max_inflight" else isinstance(value, bool)
            self.require(is_right, f"`capabilities.{key}` is of the wrong kind")
            caps[key] = value
        token = payload.get("session", {}).get("resume_token")
        key = payload.get("auth", {}).get("key")
        self.require(isinstance(key, (str, type(None))), "`auth.key` is no string")
        self.require(isinstance(token, (str, type(None))), "`session.resume_token` is no string")
        mode, name = payload.get("mode"), payload.get("agent")
        sends_only = {**caps, "ack": False, "max_inflight": 0, "supports_topics": False}
        if mode == "operator":
            if key != self.operator_key:
                raise Error("UNAUTHORIZED", "the operator's key is wrong", True)
            return self.welcome(connection, mode, "@operator", sends_only, "")
        if mode == "guest":
            agent = self.agents.setdefault(name := "@guest-" + os.urandom(4).hex(), Agent(name))
            connection.agent, agent.here, agent.auth = agent, connection, "guest"
            return self.welcome(connection, mode, name, sends_only, self.begin(agent, sends_only))
        self.require(mode in (None, "companion", "bridge"), "`mode` is not known")
        self.require(name is not None, "`agent` is missing")
        if mode == "bridge":
            own = payload.get("companion_key")
            return self.on_bridge(connection, name, (key, own), {**caps, "supports_topics": False})
        reserved = name in RESERVED if FLAG == "spelling" else name.lower() in RESERVED
        is_valid = is_name(name) or FLAG == "any-machine" and is_remote_name(name)
        if not is_valid or reserved:
            raise Error("INVALID_NAME", "the name is not valid", True)
        agent = self.agents.get(name.lower())
        if mode == "companion":
            own = agent.companion_key if agent else None
            if own is None or own != payload.get("companion_key"):
                raise Error("UNAUTHORIZED", "the companion's key is wrong", True)
            connection.agent, connection.key = agent, payload["companion_key"]
            return self.welcome(connection, mode, agent.name, sends_only, agent.session)
        if FLAG == "case":
            agent = agent if agent and agent.name == name else None
        kept = name if FLAG == "case" else name.lower()
        agent = agent or self.agents.setdefault(kept, Agent(name))
        agent.companion_key = payload.get("companion_key")
        if token and token == agent.token:
            return self.take_over(connection, agent, caps)
        if token:
            rejected = Error("RESUME_REJECTED", "the token is not valid", False, whole["id"])
            connection.fail(rejected)
        join = lambda: self.join(connection, agent, caps, self.begin(agent, caps))  # noqa: E731
        if agent.here is None:
            return join()
        agent.here.put("PING", {"nonce": "alive"})
        connection.mode = "waiting"
        waiter = (agent.name.lower(), connection, join)
        self.waiting.append(waiter)
        self.at(0.25, lambda: self.give_up(waiter))

    def on_bridge(self, connection, name, keys, caps):
        key, own = keys
        if key != self.operator_key and FLAG != "any-bridge":
            raise Error("UNAUTHORIZED", "the operator's key is wrong", True)
        if not is_remote_name(name):
            raise Error("INVALID_NAME", "the name is not NAME@HOST", True)
        agent = self.agents.setdefault(name.lower(), Agent(name))
        if agent.here and agent.companion_key != own:
            agent.here.put("PING", {"nonce": "alive"})
            raise Error("NAME_IN_USE", "another bridge has this name", True)
        agent.companion_key = own
        if not agent.session:
            self.begin(agent, caps)
        self.take_over(connection, agent, caps)
        agent.auth = "token" if FLAG == "bridge-as-agent" else "bridge"

    def give_up(self, waiter):
        if waiter in self.waiting:
            self.waiting.remove(waiter)
            waiter[1].fail(Error("NAME_IN_USE", "a client has this name", True))

    def begin(self, agent, caps):
        """Begins a fresh session."""
        agent.session, agent.auth, agent.caps = "s-" + os.urandom(8).hex(), agent.auth, caps
        agent.auth = "guest" if agent.auth == "guest" else "claim"
        agent.outcomes, agent.replay = [], []
        if FLAG != "lasting-patterns":
            agent.patterns = set()
        return agent.session

    def take_over(self, connection, agent, caps):
        older, agent.here = agent.here, None
        if older and FLAG != "shared-session":
            older.fail(Error("SESSION_REPLACED", "another connection resumed", True))
        for message in agent.mailbox:
            message.in_flight = False
        agent.auth = "token"
        self.join(connection, agent, caps, agent.session)

    def join(self, connection, agent, caps, session, pumps=True):
        connection.agent, agent.here, agent.caps = agent, connection, caps
        self.welcome(connection, "agent", agent.name, caps, session)
        outcomes, agent.outcomes = agent.outcomes, []
        for kind, payload, members in outcomes:
            connection.put(kind, payload, **members)
        if pumps:
            self.pump(agent)

    def welcome(self, connection, mode, name, caps, session):
        connection.mode, connection.name, connection.caps = mode, name, caps
        connection.session = session or "s-" + os.urandom(8).hex()
        token = os.urandom(32).hex()
        if FLAG == "lasting-token" and mode == "agent" and connection.agent.token:
            token = connection.agent.token
        if mode == "agent":
            connection.agent.token = token
            self.save()
        names = ("max_frame_bytes", "heartbeat_ms", "resume_window_ms", "queue_max_messages")
        server = {"protocol": "1.1", "version": "0", **{key: SETTINGS[key] for key in names}}
        connection.put("WELCOME", {
            "session_id": connection.session, "resume_token": token, "agent": name,
            "capabilities": caps, "server": server})

    def on_resume(self, connection, whole, payload):
        streams = payload.get("streams", [])
        self.require(isinstance(streams, (list, dict)), "`streams` is of the wrong kind")
        if isinstance(streams, list):
            for row in streams:
                is_right = isinstance(row, dict) and isinstance(row.get("peer"), str)
                is_right = is_right and isinstance(row.get("topic"), str)
                is_right = is_right and is_int(row.get("last_seq"))
                self.require(is_right, "`streams[0]` is of the wrong kind")
        if connection.mode:
            if connection.mode != "agent":
                raise Refused("FORBIDDEN", "only an agent has a session")
            rows = self.rows_of(connection.agent, streams)
            connection.put("SYNC", {"session_id": connection.session, "streams": rows})
            return self.replay(connection.agent, rows)
        token, name = payload.get("resume_token"), payload.get("agent")
        if token is None:
            raise Refused("UNAUTHORIZED", "RESUME has no token")
        agent = next((a for a in self.agents.values() if a.token and a.token == token), None)
        if agent is None or (name not in (None, agent.name) and FLAG != "any-name"):
            raise Error("RESUME_REJECTED", "the token is not valid")
        rows = self.rows_of(agent, streams)
        older, agent.here = agent.here, None
        if older:
            older.fail(Error("SESSION_REPLACED", "another connection resumed", True))
        agent.auth = "token"
        self.join(connection, agent, agent.caps, agent.session, pumps=False)
        connection.put("SYNC", {"session_id": connection.session, "streams": rows})
        for message in agent.mailbox:
            message.in_flight = False
        self.replay(agent, rows)

    def rows_of(self, agent, streams):
        """Returns the rows of SYNC. Raises if something in the streams is not available."""
        own = [key for key in self.streams if key[1] == agent.name.lower()]
        if isinstance(streams, dict):
            streams = [
                {"topic": topic, "peer": self.agents[key[0]].name, "last_seq": row["last_seq"]}
                for topic, row in streams.items() for key in own if key[2] == topic]
        rows = []
        for row in streams:
            last = self.streams.get((row["peer"].lower(), agent.name.lower(), row["topic"]), 0)
            rows.append({key: row[key] for key in ("topic", "peer", "last_seq")})
            rows[-1]["server_last_seq"] = last
            have = {message.seq for message in self.in_stream(agent, row)}
            if FLAG != "gaps" and not set(range(row["last_seq"] + 1, last + 1)) <= have:
                raise Refused("STALE", "what comes after `last_seq` is gone")
        return rows

    def in_stream(self, agent, row):
        return [m for m in agent.mailbox + agent.replay
                if m.from_.lower() == row["peer"].lower() and m.topic == row["topic"]]

    def replay(self, agent, rows):
        for row in rows:
            for message in sorted(self.in_stream(agent, row), key=lambda m: m.seq):
                if message.seq > row["last_seq"]:
                    message.attempts += 1
                    message.in_flight = message in agent.mailbox
                    agent.here.frames.put(message.frame(agent.session, message.in_flight))
        self.pump(agent)

    # Topics

    def on_subscribe(self, connection, whole, payload):
        topic = whole.get("topic")
        if connection.mode != "agent" or not connection.caps["supports_topics"]:
            raise Refused("FORBIDDEN", "this client has no topics")
        if topic is None or not is_topic(topic, True):
            raise Refused("INVALID", "that is no pattern")
        patterns = connection.agent.patterns
        if whole["type"] == "UNSUBSCRIBE":
            patterns.discard(topic)
        elif topic not in patterns and len(patterns) >= 256:
            raise Refused("LIMIT", "the session has 256 patterns")
        else:
            patterns.add(topic)
        self.save()
        connection.put("ACK", {"ack_id": whole["id"]})

    on_unsubscribe = on_subscribe

    # Messages

    def on_send(self, connection, whole, payload):
        to, topic, meta = whole.get("to"), whole.get("topic"), whole.get("payload_meta", {})
        stated = whole.get("from", connection.name)
        if stated.lower() != connection.name.lower() and FLAG != "any-sender":
            raise Refused("FORBIDDEN", "`from` is another name")
        if topic is not None and not is_topic(topic, False):
            raise Refused("INVALID", "`topic` is not valid")
        sync = self.check_meta(meta)
        is_everyone = to == "*" or (to is None and topic is not None)
        is_valid = is_everyone or (
            to is not None and (is_name(to) or is_remote_name(to) or to.startswith("@")))
        if not is_valid:
            raise Refused("INVALID", "there is no recipient")
        if sync and to in ("@relay", "@operator"):
            raise Refused("INVALID", "a question is for an agent")
        if to == "@relay":
            return self.request(connection, whole, payload)
        if connection.mode == "companion":
            agent = connection.agent
            if agent.here is None or agent.companion_key != connection.key:
                raise Refused("AGENT_OFFLINE", "the agent is away")
        needs_ack = meta.get("requires_ack", False) or sync is not None
        raw = whole["raw"]
        if FLAG == "re-encodes":
            raw["payload"] = json.dumps(payload)
        content = (to, topic, raw["payload"], raw.get("payload_meta"))
        key = (whole["id"],) if FLAG == "id-only" else (whole["id"], *content)
        sender = connection.agent or Agent("@operator")
        if needs_ack and key in sender.dedup and FLAG != "accepts-twice":
            return connection.put("ACK", sender.dedup[key])
        if is_everyone:
            names = [a for a in self.agents.values() if a.here and a.here.mode == "agent"
                     and ("@" not in a.name or FLAG == "bridge-hears-all")]
            names = [a for a in names if a.name != connection.name or FLAG == "echo"]
            if topic is not None:
                names = [a for a in names for p in self.matching(a, topic)]
        else:
            names = [self.recipient(to)]
        self.route(connection, whole, sender, key, names, is_everyone, needs_ack, sync)

    def matching(self, agent, topic):
        found = [pattern for pattern in agent.patterns if matches(pattern, topic)]
        return found if FLAG == "once-for-each" else found[:1]

    def check_meta(self, meta):
        sync, is_right = meta.get("sync"), isinstance(meta.get("requires_ack", False), bool)
        ttl = meta.get("ttl_ms", 0)
        is_right = is_right and is_int(ttl) and ttl >= 0
        if "sync" in meta:
            is_right = is_right and isinstance(sync, dict)
            sync = sync if is_right else {}
            id, wait = sync.get("correlationId"), sync.get("timeoutMs", 30000)
            is_right = is_right and isinstance(id, str) and 1 <= len(id.encode()) <= 256
            is_right = is_right and is_int(wait) and 1 <= wait <= 3600000
            is_right = is_right and isinstance(sync.get("blocking", False), bool)
        if not is_right:
            raise Refused("INVALID", "`payload_meta` is not valid")
        return sync

    def recipient(self, to):
        agent = self.agents.get(to if FLAG == "case" else to.lower())
        if agent is None:
            here = ", ".join(a.name for a in self.agents.values() if a.here)
            raise Refused("UNKNOWN_AGENT", f"no agent {to} was ever here; here are {here}")
        return agent

    def route(self, connection, whole, sender, key, agents, is_everyone, needs_ack, sync):
        have = sender.partial.setdefault(key, set()) if is_everyone and needs_ack else set()
        refusals, busy, depth = [], [], 0
        accepted = []
        for agent in agents:
            if agent.name in have:
                continue
            try:
                message = self.message(connection, whole, agent, is_everyone, needs_ack, sync)
            except Refused as refused:
                if not is_everyone:
                    raise
                refusals.append((agent.name, refused.args))
                continue
            own = [m for m in agent.mailbox if m.from_ == connection.name]
            limit = SETTINGS["queue_max_messages"]
            half = limit if FLAG == "whole-queue" else limit // 2
            if FLAG != "no-bound" and (len(own) >= half or len(agent.mailbox) >= limit):
                busy.append(agent.name)
                depth = max(depth, len(agent.mailbox))
                continue
            accepted.append((agent, message))
        for agent, message in accepted:
            self.accept_message(agent, message, needs_ack, sync)
            have.add(agent.name)
            self.pump(agent)
        if busy:
            answer = {"ack_id": whole["id"], "retry_after_ms": 50, "queue_depth": depth}
            return connection.put("BUSY", {**answer, "busy": busy if is_everyone else None})
        for name, (code, message, *_) in refusals:
            refusal = {"ack_id": whole["id"], "code": code, "message": message, "to": name}
            connection.put("NACK", refusal)
        if needs_ack:
            answer = {"ack_id": whole["id"], "state": "accepted", "durability": "process"}
            if is_everyone:
                sender.partial.pop(key, None)
                answer["recipients"] = len(have)
            elif agents[0].here is None:
                answer["away"] = True
            sender.dedup[key] = answer
            self.save()
            connection.put("ACK", answer)

    def message(self, connection, whole, agent, is_everyone, needs_ack, sync):
        """Returns a message for a recipient, with its next number. Raises if it is refused."""
        if needs_ack and not agent.caps.get("ack", True):
            raise Refused("NO_ACK", f"{agent.name} acknowledges nothing")
        if not needs_ack and agent.here is None:
            raise Refused("AGENT_OFFLINE", f"{agent.name} is away")
        topic = whole.get("topic", "")
        key = (connection.name.lower(), agent.name.lower(), "" if FLAG == "one-count" else topic)
        auth = {"companion": "companion", "operator": "operator"}.get(
            connection.mode, connection.agent.auth if connection.agent else "")
        ttl = whole.get("payload_meta", {}).get("ttl_ms", 86400000)
        message = Delivery(
            from_=connection.name, to=agent.name, topic=topic, payload=whole["raw"]["payload"],
            meta=whole["raw"].get("payload_meta"), is_broadcast=is_everyone, send_id=whole["id"],
            sender={"session": connection.session, "auth": auth}, stream=key, origin=connection,
            sync=sync, seq=self.streams.get(key, 0) + 1, expires=time.time() + ttl / 1000)
        if len(message.frame(agent.session, needs_ack)) > MAX:
            raise Refused("TOO_LARGE", "the DELIVER would exceed a frame")
        return message

    def accept_message(self, agent, message, needs_ack, sync):
        self.streams[message.stream] = message.seq
        if not needs_ack:
            message.attempts = 1
            agent.here.frames.put(message.frame(agent.session, False))
            return self.keep(agent, message)
        agent.mailbox.append(message)
        if FLAG != "no-expiry":
            self.at(message.expires - time.time(), lambda: self.expire(agent, message))
        if sync:
            self.questions[message.id] = message
            self.at(sync.get("timeoutMs", 30000) / 1000, lambda: self.time_out(message))

    def keep(self, agent, message):
        """Keeps a message for replay."""
        if agent.caps.get("resume"):
            agent.replay.append(message)
            del agent.replay[: -SETTINGS["replay_messages"]]

    def pump(self, agent):
        """Delivers what waits and may be in flight."""
        held = set()
        limit = 1000 if FLAG == "no-window" else agent.caps.get("max_inflight", 256)
        for message in agent.mailbox if agent.here else ():
            if message.not_before > time.monotonic():
                held.add(message.stream)
            elif not message.in_flight and message.stream not in held:
                if len([m for m in agent.mailbox if m.in_flight]) >= limit:
                    break
                message.in_flight, message.attempts = True, message.attempts + 1
                agent.here.frames.put(message.frame(agent.session, True))

    def outcome(self, message, kind, payload, **members):
        """Sends an answer to the sender of a message, or lets it wait for the sender."""
        sender = self.agents.get(message.from_.lower())
        to = message.origin
        to = to if to and not to.is_over else sender and sender.here
        if to:
            to.put(kind, payload, **members)
        elif sender:
            sender.outcomes.append((kind, payload, members))

    def give_back(self, agent, message, code, why):
        """Ends a delivery with a NACK to its sender."""
        agent.mailbox.remove(message)
        question = self.questions.pop(message.id, None)
        id = question.sync["correlationId"] if question and FLAG != "bare-refusal" else None
        nack = {"ack_id": message.send_id, "code": code, "message": why, "to": agent.name}
        self.outcome(message, "NACK", {**nack, "correlationId": id})
        self.save()
        self.pump(agent)

    def expire(self, agent, message):
        if message in agent.mailbox:
            self.give_back(agent, message, "EXPIRED", "its time to live is over")

    def time_out(self, message):
        if self.questions.pop(message.id, None) and FLAG != "endless-question":
            nack = {"ack_id": message.send_id, "code": "SYNC_TIMEOUT", "to": message.to}
            id = message.sync["correlationId"]
            nack.update({"message": "no answer came", "correlationId": id})
            self.outcome(message, "NACK", nack)

    def failed(self, agent, message):
        """Counts a failure. Returns whether the message is given up."""
        message.failures += 1
        if message.failures < 10 or FLAG == "endless-failures":
            return False
        self.give_back(agent, message, "GAVE_UP", "it failed ten times")
        return True

    def on_ack(self, connection, whole, payload):
        id, up_to = payload.get("ack_id"), payload.get("cumulative_seq")
        self.require(isinstance(id, str), "`ack_id` is no string")
        if connection.mode != "agent":
            return
        agent = connection.agent
        places = self.agents.values() if FLAG == "any-ack" else [agent]
        for place in places:
            named = next((m for m in place.mailbox if m.id == id and m.attempts), None)
            if named:
                over = [m for m in place.mailbox if m is named or (
                    is_int(up_to) and m.stream == named.stream and m.attempts and m.seq <= up_to)]
                for message in over:
                    place.mailbox.remove(message)
                    self.keep(place, message)
        self.save()
        question = self.questions.get(id)
        shown = payload.get("correlationId")
        if question and question.to == agent.name and shown == question.sync["correlationId"]:
            if FLAG != "every-answer":
                del self.questions[id]
            self.pass_answer(question, agent, whole, payload)
        self.pump(agent)

    def pass_answer(self, question, agent, whole, payload):
        raw = {key: text for key, _, text in members_of(whole["raw"]["payload"])}
        answer = {"ack_id": question.send_id, "correlationId": payload["correlationId"]}
        answer["response"] = payload.get("response")
        answer["responseData"] = "@raw" if raw.get("responseData", "null") != "null" else None
        to = question.origin if question.origin and not question.origin.is_over else None
        if to is None:
            answer["responseData"] = payload.get("responseData")
            return self.outcome(question, "ACK", answer, from_=agent.name)
        answer = {key: value for key, value in answer.items() if value is not None}
        head = {"v": 1, "type": "ACK", "id": new_id(), "ts": 0, "from": agent.name}
        text = json.dumps({**head, "payload": answer})
        text = text.replace('"@raw"', raw.get("responseData", ""))
        to.frames.put(text.encode("utf-8", "surrogatepass"))

    def on_nack(self, connection, whole, payload):
        id, wait = payload.get("ack_id"), payload.get("retry_after_ms")
        self.require(isinstance(id, str), "`ack_id` is no string")
        agent = connection.agent if connection.mode == "agent" else None
        mailbox = agent.mailbox if agent else ()
        message = next((m for m in mailbox if m.id == id and m.attempts), None)
        if message is None:
            return
        message.in_flight = False
        if wait is None:
            words = f"{agent.name} refused it: {payload.get('message')}"
            return self.give_back(agent, message, "REFUSED", words)
        if not self.failed(agent, message):
            seconds = 0.05 if FLAG == "hasty-return" else max(50, wait) / 1000
            message.not_before = time.monotonic() + seconds
            self.at(seconds + 0.001, lambda: self.pump(agent))

    # Requests

    def request(self, connection, whole, payload):
        body = payload.get("body")
        if payload.get("kind") != "request" or body not in ("agents", "dead-letters", "stop"):
            raise Refused("INVALID", "that is no request")
        if body != "agents" and connection.mode != "operator":
            raise Refused("FORBIDDEN", "only operators may ask for that")
        rows = [{"name": a.name, "here": a.here is not None} for a in self.agents.values()]
        answer = {"kind": "response", "body": body, "data": {"agents": rows}}
        delivery = {"seq": 1, "session_id": connection.session}
        connection.put(
            "DELIVER", answer, from_="@relay", to=connection.name,
            payload_meta={"replyTo": whole["id"]}, delivery=delivery)
        if body == "stop":
            self.save()
            for other in list(self.connections):
                other.put("BYE", {"reason": "stop"})
                other.close()
            self.at(0.3, lambda: os._exit(0))


daemon = Daemon()
daemon.listen()
daemon.look()
daemon.run_timers()
