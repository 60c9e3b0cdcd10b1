"""A client of Agent Relay, which routes messages between named agents on one machine.

`Client` is for programs with threads, `AsyncClient` for programs with asyncio.
"""

from ._asyncio import AsyncClient, AsyncDelivery
from ._blocking import Client, Delivery
from ._types import Accepted, AgentRow, Answer, Ended, Refused, RelayError

__all__ = ["Accepted", "AgentRow", "Answer", "AsyncClient", "AsyncDelivery", "Client", "Delivery", "Ended", "Refused",
           "RelayError"]
