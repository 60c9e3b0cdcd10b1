"""A proxy between a client and a daemon. A mistake changes the frames in flight.

A mistake NAME is a function `up_NAME` for what the client sends, `down_NAME` for what it receives,
or both. It changes the envelope, or returns the envelopes that are passed on instead.
"""

import contextlib
import json
import socket
import threading

FRAME_BYTES_MAX = 1 << 20


class Envelope(dict):
    """An envelope with the bytes that came, which are passed on unless a member was changed."""

    def __init__(self, data):
        super().__init__(object_of(data))
        self.data = data

    @property
    def type(self):
        return self.get("type")

    @property
    def payload(self):
        return self.inside("payload")

    def inside(self, member):
        """Returns an object in the envelope, or an empty one if there is none."""
        value = self.get(member)
        return value if isinstance(value, dict) else {}

    def renamed(self, old, new):
        """Returns the envelope with another id, and the other bytes as they came."""
        old, new = (json.dumps(id).encode() for id in (old, new))
        return Envelope(self.data.replace(old, new))


def object_of(data):
    """Returns the JSON object in a frame. Raises `ValueError` if there is none."""
    # The conversion of a long number would fail: it stays a text.
    value = json.loads(data.decode(), parse_int=lambda n: int(n) if len(n) < 300 else n)
    if not isinstance(value, dict):
        raise ValueError("the frame is no object")
    return value


def envelope(kind, payload, id="proxy", **members):
    return {"v": 1, "type": kind, "id": id, "ts": 0, **members, "payload": payload}


def mistake(names, prefix, flag):
    """Returns the function of a mistake for one direction. Without one, nothing is changed."""
    return names.get(prefix + flag.replace("-", "_"), lambda link, whole: None)


class End:
    """The proxy's socket to the client or to the daemon. Several threads may write to it."""

    def __init__(self, stream):
        self.stream, self.writing = stream, threading.Lock()

    def send(self, whole):
        """Writes an envelope. An end of the connection is not an error here: the reader notices it."""
        is_same = isinstance(whole, Envelope) and whole == object_of(whole.data)
        self.write(whole.data if is_same else json.dumps(whole).encode())

    def write(self, data):
        self.write_bytes(len(data).to_bytes(4, "big") + data)

    def write_bytes(self, data):
        with self.writing, contextlib.suppress(OSError):
            self.stream.sendall(data)

    def end(self, how):
        with contextlib.suppress(OSError):
            self.stream.shutdown(how)


class Link:
    """A connection through the proxy. Mistakes store their state in further attributes."""

    def __init__(
        self, client, daemon, up, down, *, edit=bytes, frame_bytes_max=FRAME_BYTES_MAX,
        one_a_piece=False,
    ):
        self.one_a_piece = one_a_piece
        self.client, self.daemon, self.up, self.down = End(client), End(daemon), up, down
        self.edit, self.frame_bytes_max = edit, frame_bytes_max
        self.name = ""
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        upward = threading.Thread(target=self.pass_up, daemon=True)
        upward.start()
        self.pump(self.daemon, self.client, self.down)
        self.client.end(socket.SHUT_RDWR)
        upward.join()
        self.client.stream.close()
        self.daemon.stream.close()

    def pass_up(self):
        self.pump(self.client, self.daemon, self.up)
        self.daemon.end(socket.SHUT_WR)

    def pump(self, source, target, change):
        data = bytearray()
        while True:
            more = b""
            with contextlib.suppress(OSError):
                more = source.stream.recv(65536)
            if not more:
                return
            data += more
            while len(data) >= 4:
                end = 4 + int.from_bytes(data[:4], "big")
                if end > 4 + self.frame_bytes_max:
                    target.write_bytes(data)  # The daemon refuses such a frame by its length.
                    data.clear()
                elif len(data) < end:
                    break
                else:
                    self.handle(bytes(data[4:end]), target, change)
                    del data[: len(data) if self.one_a_piece and change is self.up else end]

    def handle(self, data, target, change):
        data = self.edit(data)
        try:
            whole = Envelope(data)
        except (ValueError, RecursionError):
            return target.write(data)
        passed = change(self, whole)
        for each in [whole] if passed is None else passed:
            target.send(each)
