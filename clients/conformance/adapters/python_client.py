#!/usr/bin/env python3
"""Lets the conformance kit drive the Python client: python_client.py NAME."""

import json
import os
import sys
import threading
from typing import Any, Dict

sys.path.insert(0, os.path.abspath(__file__ + "/../../../python/src"))
from agent_relay import Client, Delivery, Ended, Refused, RelayError  # noqa: E402

printing = threading.Lock()
questions: Dict[str, Delivery] = {}


def show(kind: str, payload: Dict[str, Any], **members: Any) -> None:
    with printing:
        print(json.dumps({"type": kind, **members, "payload": payload}), flush=True)


def show_refusal(error: RelayError) -> None:
    nack = {"ack_id": error.id, "code": error.code, "message": str(error)}
    show("NACK", {**nack, "to": error.to} if error.to else nack)


class Failures:
    """Prints the failures that no call raises, when the client adds them to its deque."""

    def append(self, error: Refused) -> None:
        show_refusal(error)


def receive(client: Client) -> None:
    for message in client:
        if message.question:
            questions[message.id] = message
        show("DELIVER", message.payload, id=message.id, **{"from": message.sender})
        if not message.question:
            message.ack()


def obey(client: Client, command: str, target: str, rest: str) -> None:
    if command == "send":
        show("ACK", client.send(target, rest))
    elif command == "publish":
        show("ACK", client.send("*", rest, topic=target))
    elif command == "subscribe":
        client.subscribe(target)
    elif command == "unsubscribe":
        client.unsubscribe(target)
    elif command == "ask":
        answer = client.ask(target, rest)
        data = {"response": answer.response, "responseData": answer.data}
        show("ACK", data, **{"from": answer.sender})
    elif command == "answer":
        questions[target].answer(rest)
    else:
        sys.exit(f"there is no command {command!r}")


def main() -> None:
    try:
        client = Client(sys.argv[1])
        client.failures = Failures()  # type: ignore[assignment]
        threading.Thread(target=take_commands, args=(client,), daemon=True).start()
        receive(client)
    except Ended as ended:
        sys.exit(str(ended))


def take_commands(client: Client) -> None:
    # Without a buffer, whose lock this thread would still hold when the program ends.
    for line in open(0, "rb", buffering=0):
        words = line.decode().rstrip("\n").split(" ", 2)
        try:
            obey(client, *(words + ["", ""])[:3])
        except Ended:
            return
        except Refused as refused:
            show_refusal(refused)
        except TimeoutError as error:
            print(error, file=sys.stderr, flush=True)
    client.close()


main()
