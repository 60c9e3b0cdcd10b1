"""Scripted clients, and the daemon that they check."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Sequence

from .wire import (
    Envelope, Failed, Skipped, Stopped, Stream, Trace, UsageError, brief, encode, envelope, frame,
    new_folder, new_trace, payload_of,
)

#: Short times and small queues, so that a run is short. The names are those of section 16.
CONFIG = """\
heartbeat_ms = 1200
handshake_timeout_ms = 2500
queue_max_messages = 16
replay_messages = 4
"""
POLL_S = 0.02
#: How long a program that accepts nothing may take to end.
ENDING_S = 1.0
#: So many times the kit starts a daemon again that a rule broke.
TIMES_BROKEN_MAX = 20


#: What HELLO states in the text of version 1.0.
CAPABILITIES_1_0 = {"ack": True, "resume": True, "max_inflight": 256, "supports_topics": True}


class Peer(Stream):
    """A connection to the daemon. PINGs are answered, and not counted among what comes.

    One that `speaks_1_0` acknowledges each DELIVER, drops what comes again, and counts no ACK and
    no BYE: version 1.0 does not say when they come.
    """

    def __init__(
        self, endpoint: str, timeout: float, trace: Trace, speaks_1_0: bool = False,
    ) -> None:
        stream = socket.socket(socket.AF_UNIX)
        super().__init__(stream, trace)
        stream.settimeout(timeout)
        try:
            stream.connect(endpoint)
        except OSError:
            stream.close()
            raise
        stream.settimeout(None)
        self.timeout, self.speaks_1_0, self.answers_pings = timeout, speaks_1_0, True
        self.name = self.session = self.token = ""
        self.server: Dict[str, Any] = {}
        self.incoming: queue.SimpleQueue[Optional[Envelope]] = queue.SimpleQueue()
        self.pings: queue.SimpleQueue[Optional[Envelope]] = queue.SimpleQueue()
        self.last_frame = b""
        self.texts: Dict[str, str] = {}
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        for received in self.frames():
            whole = received.envelope
            if whole is not None and whole.get("type") == "PING":
                if self.answers_pings:
                    pong = envelope("PONG", {"nonce": payload_of(whole).get("nonce")})
                    self.write_unnoted(encode(pong))
                else:
                    self.note("daemon", whole)
                self.pings.put(whole)
                continue
            self.note("daemon", whole)
            if self.speaks_1_0 and whole is not None and self.is_handled(whole):
                continue
            if whole is not None:
                self.texts[str(whole.get("id"))] = received.frame.decode()
            self.incoming.put(whole if whole is not None else {"type": repr(received.frame[:99])})
        self.incoming.put(None)
        self.pings.put(None)

    def is_handled(self, whole: Envelope) -> bool:
        """Does what a client of version 1.0 does. Returns whether that is all."""
        if whole.get("type") != "DELIVER":
            return whole.get("type") in ("ACK", "BYE")
        self.ack(whole, seq=(whole.get("delivery") or {}).get("seq"))
        return str(whole.get("id")) in self.texts

    def role(self) -> str:
        return f" ({self.name})" if self.name else ""

    def close(self) -> None:
        self.end()
        self.thread.join(self.timeout)
        super().close()

    # What comes

    def next(self, what: str) -> Envelope:
        """Returns the next envelope that is no PING."""
        try:
            whole = self.incoming.get(timeout=self.timeout)
        except queue.Empty:
            raise Failed(f"{what} did not come within {self.timeout:g} s") from None
        if whole is None:
            self.incoming.put(None)
            raise Failed(f"the daemon ended the connection before {what}")
        return whole

    def expect(self, kind: str, /, **payload: Any) -> Envelope:
        """Returns the next envelope. Fails if its type or a member of its payload is another."""
        what = f"{kind} {json.dumps(payload)}" if payload else kind
        whole = self.next(what)
        is_right = whole.get("type") == kind
        for key, value in payload.items():
            is_right = is_right and payload_of(whole).get(key) == value
        if not is_right:
            raise Failed(f"{what} was due, and {brief(whole)} came")
        return whole

    def expect_all(self, *wanted: Dict[str, Any]) -> None:
        """Expects these envelopes in any order. Each is a type and members of the payload."""
        left = list(wanted)
        while left:
            whole = self.next(f"{json.dumps(left)}")
            for row in left:
                members = {key: value for key, value in row.items() if key != "type"}
                is_kind = whole.get("type") == row["type"]
                if is_kind and members.items() <= payload_of(whole).items():
                    left.remove(row)
                    break
            else:
                raise Failed(f"one of {json.dumps(left)} was due, and {brief(whole)} came")

    def expect_end(self) -> None:
        """Waits until the daemon has ended the connection. Nothing may come before."""
        try:
            whole = self.incoming.get(timeout=self.timeout)
        except queue.Empty:
            raise Failed(f"the daemon left the connection open for {self.timeout:g} s") from None
        if whole is not None:
            raise Failed(f"the end of the connection was due, and {brief(whole)} came")
        self.incoming.put(None)

    def drain(self) -> None:
        """Waits until the daemon has ended the connection, whatever comes before."""
        while True:
            try:
                if self.incoming.get(timeout=self.timeout) is None:
                    break
            except queue.Empty:
                raise Failed(f"the daemon did not notice an end in {self.timeout:g} s") from None
        self.incoming.put(None)

    def expect_fatal(self, code: str) -> None:
        """Expects a fatal ERROR, and the end of the connection."""
        self.expect("ERROR", code=code, fatal=True)
        self.expect_end()

    def expect_invalid(self, *ref: str) -> None:
        """Expects an ERROR `INVALID`, which is not fatal, about this envelope if it is stated."""
        self.expect("ERROR", code="INVALID", fatal=False, **({"ref": ref[0]} if ref else {}))

    def expect_nothing(self) -> None:
        """Fails if something came, or comes before a message that the client sends itself."""
        body = f"fence {time.monotonic()}"
        self.message(self.name, body)
        whole = self.next("a message to itself")
        if payload_of(whole).get("body") != body:
            raise Failed(f"nothing was due, and {brief(whole)} came")

    def expect_ping(self) -> Envelope:
        with contextlib.suppress(queue.Empty):
            whole = self.pings.get(timeout=self.timeout)
            if whole is not None:
                return whole
            self.pings.put(None)
            raise Failed("the daemon ended the connection before PING")
        raise Failed(f"PING did not come within {self.timeout:g} s")

    # What the client does

    def hello(self, name: str, **payload: Any) -> Envelope:
        """Joins. Returns WELCOME."""
        self.name = name
        self.send("HELLO", {"agent": name, **payload})
        return self.welcome()

    def welcome(self) -> Envelope:
        whole = self.expect("WELCOME")
        payload = payload_of(whole)
        # In version 1.0, WELCOME does not state the name.
        self.name = str(payload.get("agent", self.name))
        self.session, self.token = (
            str(payload.get(member)) for member in ("session_id", "resume_token"))
        server = payload.get("server")
        self.server = server if isinstance(server, dict) else {}
        return whole

    def text(self, whole: str) -> None:
        """Writes a text as a frame."""
        self.write(frame(whole.encode("utf-8", "surrogatepass")))

    def message(self, to: Optional[str], body: str, id: str = "", **members: Any) -> str:
        """Sends a message. Returns its SEND's id."""
        payload = members.pop("payload", {"kind": "message", "body": body})
        return self.send("SEND", payload, id, **({"to": to} if to else {}), **members)

    def mail(self, to: Optional[str], body: str, id: str = "", **members: Any) -> str:
        """Sends a message at least once. Returns its SEND's id."""
        meta = {"requires_ack": True, **members.pop("payload_meta", {})}
        return self.message(to, body, id, payload_meta=meta, **members)

    def mailed(self, to: Optional[str], body: str, id: str = "", **members: Any) -> Envelope:
        """Sends a message at least once. Returns the ACK `accepted`."""
        id = self.mail(to, body, id, **members)
        return self.expect("ACK", ack_id=id, state="accepted")

    def receive(self, body: str) -> Envelope:
        """Expects a DELIVER with this body."""
        whole = self.expect("DELIVER", body=body)
        if not isinstance(whole.get("delivery"), dict):
            raise Failed(f"a DELIVER without `delivery`: {brief(whole)}")
        return whole

    def ack(self, delivered: Envelope, **payload: Any) -> None:
        self.send("ACK", {"ack_id": delivered["id"], **payload})

    def nack(self, delivered: Envelope, **payload: Any) -> None:
        answer = {"ack_id": delivered["id"], "code": "REFUSED", "message": "not now"}
        self.send("NACK", {**answer, **payload})

    def subscribe(self, pattern: str, kind: str = "SUBSCRIBE") -> None:
        id = self.send(kind, {}, topic=pattern)
        if self.speaks_1_0:
            self.expect_nothing()
        else:
            self.expect("ACK", ack_id=id)


class DaemonRun:
    """A daemon under check, which the kit has started or not. To be used in a `with` statement."""

    def __init__(self, program: Sequence[str], endpoint: Optional[str], timeout: float) -> None:
        self.program, self.timeout, self.start_timeout = program, timeout, timeout
        self.folder = new_folder()
        self.home = self.folder + "/home"
        self.endpoint = endpoint or self.folder + "/relay.sock"
        self.can: FrozenSet[str] = frozenset({"start"} if program else ())
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.peers: List[Peer] = []
        self.trace = new_trace()
        self.serial = self.probes = self.times_broken = 0
        self.welcomes = False  # A daemon without a fault answers HELLO after its start.

    def __enter__(self) -> DaemonRun:
        if not self.program and not self.accepts():
            shutil.rmtree(self.folder)
            raise UsageError(f"--endpoint: there is no daemon at {self.endpoint}")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, trace: Trace) -> None:
        """Prepares a rule: the daemon runs, and names are new. Otherwise no rule can follow."""
        self.serial += 1
        self.trace = trace
        if not self.program and not self.accepts():
            raise Stopped(
                f"the daemon at {self.endpoint} accepts no more connections: the other rules were "
                "not checked")
        if self.times_broken >= TIMES_BROKEN_MAX:
            raise Skipped(f"{self.times_broken} rules broke the daemon: it is not started again")
        if self.program and (self.process is None or self.process.poll() is not None):
            try:
                self.start_afresh()
            except Failed as failed:
                raise Stopped(str(failed)) from None

    def finish(self) -> None:
        """Ends the connections of a rule."""
        for peer in self.peers:
            peer.close()
        self.peers.clear()

    def mend(self) -> str:
        """Ends a daemon that a rule broke. Returns what is wrong with it, or nothing.

        The next rule starts another one, with an empty home.
        """
        if self.process is None:
            return ""
        accepts = self.accepts()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A program that dies closes its sockets first.
            self.process.wait(0.0 if accepts else ENDING_S)
        code = self.process.poll()
        if code is not None:
            wrong = f"it ended with the exit code {code}, and printed{self.output()}"
        elif not accepts:
            wrong = "it no longer accepts connections"
        elif self.welcomes and not self.answers_hello(self.timeout):
            wrong = "it no longer answers HELLO"
        else:
            return ""
        self.times_broken += 1
        self.kill()
        again = ", which is started again" if self.times_broken < TIMES_BROKEN_MAX else ""
        return f"this broke the daemon{again}: {wrong}"

    def answers_hello(self, timeout: float) -> bool:
        """Whether an agent with a new name can join."""
        try:
            peer = Peer(self.endpoint, timeout, new_trace())
        except OSError:
            return False
        self.probes += 1
        try:
            peer.hello(self.name(f"Probe{self.probes}"))
            peer.send("BYE", {})
        except Failed:
            return False
        finally:
            peer.close()
        return True

    def start_afresh(self) -> None:
        """Starts a daemon with an empty home."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)
        os.mkdir(self.home, 0o700)
        Path(self.home, "config.toml").write_text(CONFIG)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.endpoint)
        self.start()
        self.welcomes = self.answers_hello(self.start_timeout)

    def start(self) -> None:
        """Starts the daemon, and waits until it accepts connections."""
        self.kill()
        places = {"{endpoint}": self.endpoint, "{home}": self.home}
        words = list(self.program)
        for place, value in places.items():
            words = [word.replace(place, value) for word in words]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AGENT_RELAY")}
        variables = {"AGENT_RELAY_ENDPOINT": self.endpoint, "AGENT_RELAY_HOME": self.home}
        with open(self.folder + "/stderr", "wb") as errors:
            try:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                    env={**inherited, **variables}, start_new_session=True)
            except OSError as error:
                raise Stopped(f"the program {words[0]!r} does not start: {error.strerror}") from None
        deadline = time.monotonic() + self.start_timeout
        while not self.accepts():
            code = self.process.poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                ended = f"it does not listen at {self.endpoint} after {self.start_timeout:g} s"
                ended = ended if code is None else f"it ended with the exit code {code}"
                raise Failed(f"the daemon does not start: {ended}, and printed{self.output()}")
            time.sleep(POLL_S)  # The start of an unknown program is no event for others.

    def output(self) -> str:
        """Returns the end of what the daemon has printed since its last start."""
        with open(self.folder + "/stderr", "rb") as file:
            text = file.read()[-400:].decode("utf-8", "replace").strip()
        return f": {text}" if text else " nothing"

    def accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as stream, contextlib.suppress(OSError):
            stream.settimeout(self.timeout)
            stream.connect(self.endpoint)
            return True
        return False

    def kill(self) -> None:
        """Kills the daemon, as a crash would."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """Kills a daemon that was asked to stop if the rest of the block fails."""
        try:
            yield
        except Failed:
            self.kill()
            raise

    # Clients

    def name(self, label: str) -> str:
        """Returns a name that no other rule uses."""
        return f"{label}-{os.getpid()}-{self.serial}"

    def topic(self, label: str) -> str:
        """Returns a topic that no other rule uses."""
        return f"kit-{os.getpid()}-{self.serial}.{label}"

    def connect(self, speaks_1_0: bool = False) -> Peer:
        """Opens a connection without sending anything."""
        try:
            peer = Peer(self.endpoint, self.timeout, self.trace, speaks_1_0)
        except OSError as error:
            raise Failed(f"no connection to {self.endpoint}: {error}") from None
        self.peers.append(peer)
        return peer

    def join(self, label: str, **payload: Any) -> Peer:
        """Joins as an agent with a new name."""
        peer = self.connect()
        peer.hello(self.name(label), **payload)
        return peer

    def join_1_0(self, label: str, **payload: Any) -> Peer:
        """Joins as an agent that speaks version 1.0, with a new name."""
        peer = self.connect(speaks_1_0=True)
        peer.hello(self.name(label), capabilities=CAPABILITIES_1_0, **payload)
        return peer

    def pair(self) -> List[Peer]:
        return [self.join("Ann"), self.join("Bob")]

    def operator(self) -> Peer:
        """Joins as an operator of a daemon that the kit has started."""
        peer = self.with_key(mode="operator")
        peer.welcome()
        return peer

    def bridge(self, agent: str, key: str = "kit") -> Peer:
        """Asks to join a daemon that the kit has started, as an agent of another machine."""
        return self.with_key(mode="bridge", agent=agent, companion_key=key,
                             capabilities={"resume": True})

    def with_key(self, **payload: Any) -> Peer:
        with open(self.home + "/operator.key", encoding="ascii") as file:
            key = file.read().strip()
        peer = self.connect()
        peer.send("HELLO", {"auth": {"key": key}, **payload})
        return peer
