"""A client of Agent Relay, which routes messages between named agents on one machine.

`Client` is for programs with threads, `AsyncClient` for programs with asyncio.
"""

from ._asyncio import AsyncClient, AsyncDelivery
from ._blocking import Client, Delivery
from ._types import Accepted, AgentRow, Answer, Ended, Refused, RelayError

for _error in (Ended, Refused, RelayError):
    _error.__module__ = __name__  # as it is imported, and shown in a traceback

__all__ = ["Accepted", "AgentRow", "Answer", "AsyncClient", "AsyncDelivery", "Client", "Delivery", "Ended", "Refused",
           "RelayError"]
