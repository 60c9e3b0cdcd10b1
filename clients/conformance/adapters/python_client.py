#!/usr/bin/env python3
"""Lets the conformance kit drive the Python clients: python_client.py NAME [--asyncio]."""

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import Any, AsyncIterator, Callable, Dict, Iterator, Union

sys.path.insert(0, os.path.abspath(__file__ + "/../../../python/src"))
from agent_relay import AsyncClient, AsyncDelivery, Client, Delivery, Ended, Refused, RelayError  # noqa: E402
from agent_relay import Accepted, Answer  # noqa: E402

printing = threading.Lock()


def show(kind: str, payload: Any, **members: Any) -> None:
    with printing:
        print(json.dumps({"type": kind, **members, "payload": payload}), flush=True)


def show_message(message: Union[Delivery, AsyncDelivery]) -> None:
    show("DELIVER", message.payload, id=message.id, **{"from": message.sender})
    if not message.question:
        message.ack()


def show_result(result: Union[None, Accepted, Answer]) -> None:
    if isinstance(result, Answer):
        data = {"response": result.response, "responseData": result.data}
        show("ACK", data, **{"from": result.sender})
    elif result:
        show("ACK", result)


def show_refusal(error: RelayError) -> None:
    nack = {"ack_id": error.id, "code": error.code, "message": str(error)}
    show("NACK", {**nack, "to": error.to} if error.to else nack)


@contextlib.contextmanager
def showing_failures() -> Iterator[None]:
    """Prints the failure of a command. `Ended` is passed on."""
    try:
        yield
    except Refused as refused:
        show_refusal(refused)
    except TimeoutError as error:
        print(error, file=sys.stderr, flush=True)


class Failures:
    """Prints the failures that no call raises, when the client adds them to its deque."""

    def append(self, error: Refused) -> None:
        show_refusal(error)


def call(client: Any, questions: Dict[str, Any], line: bytes) -> Callable[[], Any]:
    """Returns the call that a command is: its result is to be awaited if the client is for asyncio."""
    command, target, rest = (line.decode().rstrip("\n").split(" ", 2) + ["", ""])[:3]
    calls: Dict[str, Callable[[], Any]] = {
        "send": lambda: client.send(target, rest),
        "publish": lambda: client.send("*", rest, topic=target),
        "subscribe": lambda: client.subscribe(target),
        "unsubscribe": lambda: client.unsubscribe(target),
        "ask": lambda: client.ask(target, rest),
        "answer": lambda: questions[target].answer(rest),
    }
    return calls[command]


def with_threads(name: str) -> None:
    client = Client(name)
    client._engine.core.failures = Failures()  # type: ignore[assignment]
    questions: Dict[str, Delivery] = {}
    threading.Thread(target=take_commands, args=(client, questions), daemon=True).start()
    for message in client:
        if message.question:
            questions[message.id] = message
        show_message(message)


def take_commands(client: Client, questions: Dict[str, Delivery]) -> None:
    with contextlib.suppress(Ended):
        # Without a buffer, whose lock this thread would still hold when the program ends.
        for line in open(0, "rb", buffering=0):
            with showing_failures():
                show_result(call(client, questions, line)())
        client.close()


async def with_tasks(name: str) -> None:
    client = await AsyncClient(name)
    client._engine.core.failures = Failures()  # type: ignore[assignment]
    questions: Dict[str, AsyncDelivery] = {}
    commands = asyncio.create_task(take_commands_async(client, questions))
    try:
        async for message in client:
            if message.question:
                questions[message.id] = message
            show_message(message)
    finally:
        commands.cancel()
        await client.close()


async def take_commands_async(client: AsyncClient, questions: Dict[str, AsyncDelivery]) -> None:
    with contextlib.suppress(Ended):
        async for line in lines():
            with showing_failures():
                show_result(await call(client, questions, line)())
        await client.close()


async def lines() -> AsyncIterator[bytes]:
    """Yields the lines of the standard input, which a thread reads."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        for line in open(0, "rb", buffering=0):
            loop.call_soon_threadsafe(queue.put_nowait, line)
        loop.call_soon_threadsafe(queue.put_nowait, b"")

    threading.Thread(target=read, daemon=True).start()
    line = await queue.get()
    while line:
        yield line
        line = await queue.get()


def main() -> None:
    try:
        if "--asyncio" in sys.argv:
            asyncio.run(with_tasks(sys.argv[1]))
        else:
            with_threads(sys.argv[1])
    except Ended as ended:
        sys.exit(str(ended))


main()
