"""A scripted daemon, and the client program that is checked against it.

Everything that happens is an event: a connection is opened or closed, a frame arrives, the client
prints a line. A rule waits for events and answers them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from .envelopes import granted
from .wire import (
    FRAME_BYTES_MAX, Envelope, Failed, Skipped, Stopped, Stream, Trace, brief, encode, envelope,
    new_folder, payload_of,
)

Greet = Callable[["Link", Envelope], None]


class Options(NamedTuple):
    """The settings of a client's check: its abilities, the longest wait in seconds, and the version."""

    can: FrozenSet[str]
    timeout: float
    part: str = "1.1"


class Session(NamedTuple):
    """The facts that WELCOME states about a client. A token resumes them."""

    id: str
    agent: str
    capabilities: Dict[str, Any]


class Delivery(NamedTuple):
    """An at-least-once DELIVER that was written and is not answered yet."""

    link: Link
    topic: Any
    seq: int


class Link(Stream):
    """The daemon's end of a connection of the client."""

    session = Session("", "Ann", granted({}))

    def __init__(self, stream: socket.socket, number: int, trace: Trace) -> None:
        super().__init__(stream, trace)
        self.number = number
        self.reading = threading.Event()
        self.reading.set()
        self.is_closed = False


class Event(NamedTuple):
    """Something that happened: `opened`, `closed`, `frame`, `answered` or `printed`.

    `handled` is set once the daemon has answered the frame by itself, such as HELLO by WELCOME. An
    ACK or NACK is one `frame`, and `answered` for each delivery that it is about, which is `about`.
    """

    kind: str
    link: Optional[Link]
    envelope: Envelope
    frame: bytes
    at: float
    handled: threading.Event
    about: str = ""

    @property
    def type(self) -> str:
        return str(self.envelope.get("type", ""))

    @property
    def payload(self) -> Dict[str, Any]:
        return payload_of(self.envelope)

    @property
    def is_message(self) -> bool:
        """Whether it is a SEND to an agent or on a topic. The kit itself answers for `@relay`."""
        is_send = self.kind == "frame" and self.type == "SEND"
        return is_send and self.envelope.get("to") != "@relay"

    @property
    def id(self) -> str:
        return str(self.envelope.get("id", ""))


class ClientRun:
    """A client program with its own scripted daemon. To be used in a `with` statement.

    The daemon speaks version 1.1. For the `part` 1.0, it sends nothing that is not in the text of
    that version: no ACK of a SEND, and no member that came later.
    """

    def __init__(self, program: Sequence[str], options: Options, trace: Trace) -> None:
        self.program, self.options, self.trace = program, options, trace
        self.can, self.timeout = options.can, options.timeout
        self.speaks_1_0 = options.part == "1.0"
        self.folder = new_folder()
        self.endpoint = self.folder + "/relay.sock"
        self.greet: Greet = self.welcome
        self.server: Dict[str, Any] = {
            "max_frame_bytes": FRAME_BYTES_MAX, "heartbeat_ms": 5000, "protocol": "1.1",
            "version": "0", "resume_window_ms": 600_000, "queue_max_messages": 10_000,
        }
        self.history: List[Event] = []
        self.pending: List[Event] = []
        self.changed = threading.Condition()
        self.links: List[Link] = []
        self.sessions: Dict[str, Session] = {}
        self.unanswered: Dict[str, Delivery] = {}
        self.numbers = itertools.count(1)
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.listener: Optional[socket.socket] = None
        self.threads: List[threading.Thread] = []
        self.has_printed_all = True
        self.is_over = False

    def __enter__(self) -> ClientRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            # The group has only the client and the processes that the client started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.listener:
            # Wakes the thread that accepts. One of the two works on each system.
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waker:
                self.is_over = True
                waker.connect(self.endpoint)
        with self.changed:
            links = list(self.links)
        for link in links:
            link.reading.set()
            link.end()
        for thread in self.threads:
            thread.join(self.timeout)
        for link in self.links:
            link.close()
        if self.listener:
            self.listener.close()
        if self.process and self.process.stdin:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Starting

    def listen(self) -> None:
        """Begins to accept connections at the endpoint."""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.endpoint)
        self.listener.listen(64)
        self.spawn_thread(self.accept, self.listener)

    def start(self, *commands: str) -> None:
        """Starts the client, with commands that wait on its standard input."""
        home = self.folder + "/home"
        os.mkdir(home, 0o700)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AGENT_RELAY")}
        variables = {"AGENT_RELAY_ENDPOINT": self.endpoint, "AGENT_RELAY_HOME": home}
        words = [word.replace("{endpoint}", self.endpoint) for word in self.program]
        errors = open(self.folder + "/stderr", "wb")
        with errors:
            try:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    env={**inherited, **variables}, start_new_session=True)
            except OSError as error:
                raise Stopped(f"the program {words[0]!r} does not start: {error.strerror}") from None
        self.has_printed_all = False
        self.spawn_thread(self.read_output, self.process)
        for command in commands:
            self.command(command)

    def join(self, *commands: str) -> Link:
        """Starts the daemon and the client, and waits until the client has been welcomed."""
        self.listen()
        self.start(*commands)
        return self.greeting()[0]

    def greeting(self) -> Tuple[Link, Event]:
        """Waits for the next HELLO or RESUME that begins a connection."""
        event = self.wait("HELLO or RESUME", lambda e: e.type in ("HELLO", "RESUME"))
        assert event.link
        return event.link, event

    # The client

    def command(self, command: str) -> None:
        """Gives the client a command."""
        assert self.process and self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()

    def leave(self) -> None:
        """Ends the client's input. Waits until the client has ended."""
        assert self.process and self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.await_end("the client does not end at the end of its input")

    def await_end(self, otherwise: str) -> None:
        """Waits until the client program has ended."""
        assert self.process
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{otherwise} (waited {self.timeout:g} s)") from None

    def read_output(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                try:
                    whole = json.loads(line)
                except ValueError:
                    whole = {"text": line.decode("utf-8", "replace")}
                if not isinstance(whole, dict):
                    whole = {"text": str(whole)}
                self.happened("printed", None, whole, line)
        # The program has closed its output, and ends.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.timeout)
        with self.changed:
            self.has_printed_all = True
            self.changed.notify_all()

    def errors(self) -> str:
        """Returns the end of what the client wrote to standard error."""
        with contextlib.suppress(OSError), open(self.folder + "/stderr", "rb") as file:
            return file.read()[-400:].decode("utf-8", "replace").strip()
        return ""

    # Connections

    def spawn_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream = listener.accept()[0]
                if self.is_over:
                    stream.close()
                    return
                with self.changed:
                    link = Link(stream, len(self.links), self.trace)
                    self.links.append(link)
                self.happened("opened", link)
                self.spawn_thread(self.read, link)

    def read(self, link: Link) -> None:
        is_greeted = False
        for received in link.frames():
            link.note("client", received.envelope)
            whole = received.envelope or {}
            kind = whole.get("type")
            handled = threading.Event()
            self.happened("frame", link, whole, received.frame, received.at, handled)
            # A client that sends something else first breaks a rule, and is welcomed all the same.
            if kind == "HELLO" or (kind == "RESUME" and not is_greeted):
                is_greeted = True
                self.greet(link, whole)
            elif kind == "RESUME":
                self.sync(link, whole)
            elif kind == "SEND" and whole.get("to") == "@relay":
                refusal = {"code": "NOT_FOUND", "message": "the kit knows no requests"}
                link.send("NACK", {"ack_id": whole.get("id"), **refusal})
            elif kind == "BYE":
                link.end()
            elif kind in ("ACK", "NACK"):
                self.answered(link, whole)
            with self.changed:
                handled.set()
                self.changed.notify_all()
            link.reading.wait()
        link.is_closed = True
        link.end()
        self.happened("closed", link)

    def welcome(self, link: Link, greeting: Envelope) -> None:
        """Answers HELLO or RESUME with WELCOME: of the token's session, or of a fresh one."""
        payload = payload_of(greeting)
        session = payload.get("session") if isinstance(payload.get("session"), dict) else {}
        token = payload.get("resume_token") or (session or {}).get("resume_token")
        self.write_welcome(link, greeting, self.sessions.pop(str(token), None))

    def write_welcome(
        self, link: Link, greeting: Envelope, session: Optional[Session] = None,
    ) -> None:
        """Writes a WELCOME; without `session`, a fresh one."""
        link.write(encode(self.welcome_envelope(link, greeting, session)))
        if greeting.get("type") == "RESUME":
            self.sync(link, greeting)

    def welcome_envelope(
        self, link: Link, greeting: Envelope, session: Optional[Session] = None,
    ) -> Envelope:
        """Returns a WELCOME and gives the connection its session; without `session`, a fresh one.

        It grants what HELLO asks for, and to RESUME what was granted before.
        """
        number = next(self.numbers)
        before = session or next(reversed(self.sessions.values()), link.session)
        name = payload_of(greeting).get("agent")
        is_hello = greeting.get("type") == "HELLO"
        link.session = Session(
            session.id if session else f"s-{number:016x}",
            name if isinstance(name, str) else before.agent,
            granted(greeting) if is_hello else before.capabilities)
        token = f"{number:064x}"
        self.sessions[token] = link.session
        payload = {"session_id": link.session.id, "resume_token": token, "server": self.server}
        if self.speaks_1_0:
            members = ("max_frame_bytes", "heartbeat_ms")
            payload["server"] = {member: self.server[member] for member in members}
        else:
            payload["agent"] = link.session.agent
            payload["capabilities"] = link.session.capabilities
        return envelope("WELCOME", payload)

    def sync(self, link: Link, resume: Envelope) -> None:
        streams = payload_of(resume).get("streams")
        rows = [
            {**row, "server_last_seq": row.get("last_seq", 0)}
            for row in (streams if isinstance(streams, list) else []) if isinstance(row, dict)]
        link.send("SYNC", {"session_id": link.session.id, "streams": rows})

    def answered(self, link: Link, answer: Envelope) -> None:
        """Settles the deliveries that an ACK or NACK is about: several, with `cumulative_seq`."""
        payload = payload_of(answer)
        id, up_to = payload.get("ack_id"), payload.get("cumulative_seq", 0)
        with self.changed:
            named = self.unanswered.get(id) if isinstance(id, str) else None
            if named is None:
                return  # It is unknown or answered already.
            is_cumulative = answer.get("type") == "ACK" and isinstance(up_to, int)
            settled = [
                other for other, delivery in self.unanswered.items()
                if other == id or (
                    is_cumulative and delivery.topic == named.topic and delivery.seq <= up_to)]
            for other in settled:
                del self.unanswered[other]
        for other in settled:
            self.happened("answered", link, answer, about=other)

    # Events

    def happened(
        self, kind: str, link: Optional[Link], whole: Optional[Envelope] = None,
        data: bytes = b"", at: float = 0.0, handled: Optional[threading.Event] = None,
        about: str = "",
    ) -> None:
        if handled is None:
            handled = threading.Event()
            handled.set()
        event = Event(kind, link, whole or {}, data, at or time.monotonic(), handled, about)
        with self.changed:
            self.history.append(event)
            self.pending.append(event)
            self.changed.notify_all()

    def wait(
        self, what: str, match: Callable[[Event], bool], link: Optional[Link] = None,
    ) -> Event:
        """Waits for an event and removes it. Fails once it can no longer happen.

        With `link`, only frames of that connection count.
        """
        deadline = time.monotonic() + self.timeout
        with self.changed:
            while True:
                found = next((
                    event for event in self.pending
                    if (link is None or event.link is link) and match(event)), None)
                # A rule must not write into the midst of WELCOME.
                if found and found.handled.is_set():
                    self.pending.remove(found)
                    return found
                if found is None and link and link.is_closed:
                    raise Failed(f"the client ended the connection before {what}{self.seen()}")
                if found is None and self.has_ended():
                    raise Failed(f"the client ended before {what}{self.seen()}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed(f"{what} did not come within {self.timeout:g} s{self.seen()}")
                self.changed.wait(left)

    def has_ended(self) -> bool:
        """Whether the client has ended, and everything that it wrote has been read."""
        if self.process is None or self.process.poll() is None or not self.has_printed_all:
            return False
        return all(link.is_closed for link in self.links)

    def seen(self) -> str:
        """Describes the last event and what the client wrote to standard error, for an error."""
        frames = [e for e in self.pending if e.kind in ("frame", "printed")]
        last = f"; last {frames[-1].kind}: {brief(frames[-1].envelope)}" if frames else ""
        errors = self.errors()
        return last + (f"; standard error: {errors}" if errors else "")

    def frame(self, kind: str, link: Optional[Link] = None, /, **payload: Any) -> Event:
        """Waits for a frame of a type with these members in its payload."""
        def match(event: Event) -> bool:
            is_right = all(event.payload.get(key) == value for key, value in payload.items())
            return event.kind == "frame" and event.type == kind and is_right
        return self.wait(f"{kind} {payload or ''}".strip(), match, link)

    def sent(self, body: Optional[str] = None) -> Tuple[Link, Event]:
        """Waits for a SEND to an agent or a topic, with this body if it is stated."""
        def match(event: Event) -> bool:
            return event.is_message and body in (None, event.payload.get("body"))
        event = self.wait("SEND" + (f" with the body {body!r}" if body else ""), match)
        assert event.link
        return event.link, event

    def accept_message(self, send: Event, **members: Any) -> None:
        """Answers a SEND with ACK `accepted`. Version 1.0 has no such answer."""
        assert send.link
        if self.speaks_1_0:
            return
        answer = {"ack_id": send.id, "state": "accepted", "durability": "disk", **members}
        send.link.send("ACK", answer)

    def printed(self, kind: str, match: Callable[[Event], bool] = lambda e: True) -> Event:
        """Waits until the client has printed an envelope of a type."""
        is_it = lambda e: e.kind == "printed" and e.type == kind and match(e)  # noqa: E731
        return self.wait(f"a printed {kind}", is_it)

    def deliver(
        self, link: Link, id: str, seq: int, body: str = "", *, ack: bool = True, **members: Any,
    ) -> None:
        """Sends a DELIVER, at least once with `ack`."""
        whole = self.delivery(link, id, seq, body, ack=ack, **members)
        if ack:
            self.admit(link, id, seq, members.get("topic"))
        link.write(encode(whole))

    def delivery(
        self, link: Link, id: str, seq: int, body: str = "", *, ack: bool = True, **members: Any,
    ) -> Envelope:
        """Returns a DELIVER to the agent of a connection."""
        delivery, more = {"seq": seq, "session_id": link.session.id}, members.pop("delivery", {})
        if self.speaks_1_0:
            members.setdefault("payload_meta", {"requires_ack": ack})
        else:
            delivery.update({"sender": {"session": "s-b", "auth": "claim"}, **more})
            delivery.update({"requires_ack": True} if ack else {})
        payload = members.pop("payload", {"kind": "message", "body": body or id})
        return envelope(
            "DELIVER", payload, id, from_="Bob", to=link.session.agent, **members,
            delivery=delivery)

    def admit(self, link: Link, id: str, seq: int, topic: Any = None) -> None:
        """Waits until `max_inflight` allows another at-least-once DELIVER, which is to be written.

        The DELIVER counts as unanswered from then on.
        """
        granted = link.session.capabilities
        if not granted["ack"] or granted["max_inflight"] == 0:
            raise Skipped("the client's HELLO asks for no at-least-once messages")
        deadline = time.monotonic() + self.timeout
        with self.changed:
            while True:
                waiting = [i for i, d in self.unanswered.items() if d.link is link and i != id]
                if len(waiting) < granted["max_inflight"]:
                    break
                left = deadline - time.monotonic()
                if left <= 0 or link.is_closed or self.has_ended():
                    named = f"{brief(waiting)}, and `max_inflight` is {granted['max_inflight']}"
                    raise Failed(f"no ACK or NACK of the deliveries {named}{self.seen()}")
                self.changed.wait(left)
            self.unanswered[id] = Delivery(link, topic, seq)

    def answer(self, id: str, link: Optional[Link] = None) -> Event:
        """Waits for the ACK or NACK of a delivery."""
        is_it = lambda e: e.kind == "answered" and e.about == id  # noqa: E731
        found = self.wait(f"ACK or NACK of the delivery {id}", is_it, link)
        with self.changed:
            self.pending[:] = [
                e for e in self.pending
                if e.kind != "frame" or e.envelope is not found.envelope]
        return found

    def cut(self, link: Link) -> None:
        """Ends a connection without a word, and waits until its reader has noticed."""
        link.end()
        self.wait("the end of the connection", lambda e: e.kind == "closed" and e.link is link)

    def forget(self, link: Link) -> None:
        """Removes the frames of a connection that were not waited for."""
        with self.changed:
            kept = [e for e in self.pending if e.kind != "frame" or e.link is not link]
            self.pending[:] = kept

    def fence(self, link: Link) -> None:
        """Waits until the client has handled every frame that was written before."""
        nonce = f"fence-{next(self.numbers)}"
        link.send("PING", {"nonce": nonce})
        self.frame("PONG", link, nonce=nonce)

    def write_bounded(self, link: Link, data: bytes) -> bool:
        """Writes without reading meanwhile. Returns false if the client does not read."""
        seconds = struct.pack("ll", int(self.timeout), int(self.timeout % 1 * 1e6))
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        link.reading.clear()
        try:
            link.socket.sendall(data)
        except OSError:
            return False
        finally:
            link.reading.set()
        return True
