#!/usr/bin/env python3
"""Lets the conformance kit drive the Rust client by its commands: rust_cli.py AGENT-RELAY NAME.

`agent-relay listen` receives; each message and question is an `agent-relay send` or `ask`, with a
connection of its own. The commands cannot answer a question, and show later NACKs to a person only.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List

PROGRAM, NAME = sys.argv[1:3]
printing = threading.Lock()


def show(kind: str, payload: Dict[str, Any], **members: Any) -> None:
    with printing:
        print(json.dumps({"type": kind, **members, "payload": payload}), flush=True)


def listen(*topics: str) -> "subprocess.Popen[bytes]":
    words = [PROGRAM, "listen", "--as", NAME, "--json"]
    for topic in topics:
        words += ["--topic", topic]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    threading.Thread(target=pass_on, args=(process,), daemon=True).start()
    # The first connection is the listener's: other commands wait until it has joined, or ended.
    is_ready = threading.Event()
    threading.Thread(target=pass_errors_on, args=(process, is_ready), daemon=True).start()
    is_ready.wait()
    return process


def pass_errors_on(process: "subprocess.Popen[bytes]", is_ready: threading.Event) -> None:
    assert process.stderr
    for line in process.stderr:
        print(line.decode(), end="", file=sys.stderr, flush=True)
        if b"listening for messages" in line:
            is_ready.set()
    is_ready.set()


def pass_on(process: "subprocess.Popen[bytes]") -> None:
    """Prints what `listen` prints. Ends this program when `listen` ends by itself."""
    assert process.stdout
    for line in process.stdout:
        with printing:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
    if process not in replaced:
        os._exit(process.wait())


def run(words: List[str]) -> None:
    """Runs a command, and prints its outcome as ACK or NACK."""
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    row: Dict[str, Any] = json.loads(done.stdout)
    if done.returncode != 0:
        show("NACK", {"code": row.get("code"), "message": row.get("message")})
    elif words[0] == "ask":
        show("ACK", {"response": row.get("response"), "responseData": row.get("data")})
    else:
        show("ACK", {"ack_id": row.get("send_id"), "state": row.get("state")})


def main() -> None:
    # A command starts a daemon where none listens. With this file, that daemon does not start.
    Path(os.environ["AGENT_RELAY_HOME"], "config.toml").write_text("conformance = true\n")
    listener = listen()
    for line in sys.stdin:
        words = line.rstrip("\n").split(" ", 2)
        command, target, body = (words + ["", ""])[:3]
        if command in ("send", "ask"):
            run([command, "--as", NAME, "--json", "--", target, body])
        elif command == "publish":
            run(["send", "--as", NAME, "--json", "--topic", target, "--", "*", body])
        elif command == "subscribe":
            replaced.append(listener)
            listener = listen(target)
            replaced[-1].terminate()
            replaced[-1].wait()
        else:
            sys.exit(f"the commands cannot {command}")
    replaced.append(listener)
    listener.terminate()
    listener.wait()


replaced: List["subprocess.Popen[bytes]"] = []
main()
