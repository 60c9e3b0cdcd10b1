"""Requests that are not completed, or may have to be sent again, in the order of their calls."""

from __future__ import annotations

import bisect
import itertools
from typing import Any, Dict, List, Optional, Tuple

from ._requests import WRITTEN, Request

RECENT, RECENT_BYTES = 256, 4 << 20  # at-most-once messages and answers that may have to be sent again
NEVER = float("inf")
Entry = Tuple[int, Request[Any]]  # with its number, so that bisect finds it


class Outbox:
    """Decides which frames are to be written. Each step costs as little with many requests as with few."""

    def __init__(self) -> None:
        self._requests: Dict[str, Request[Any]] = {}
        self._ready: Dict[str, Request[Any]] = {}  # To be written now.
        self._held: Dict[str, List[Entry]] = {}  # Lanes whose first request was BUSY.
        self._recent: Dict[str, Request[Any]] = {}  # Completed by being written.
        self._recent_bytes = 0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, id: str) -> Optional[Request[Any]]:
        return self._requests.get(id)

    def add(self, request: Request[Any]) -> None:
        request.number = next(self._numbers)
        self._requests[request.id] = request
        if request.lane in self._held:
            self._held[request.lane].append((request.number, request))
        else:
            self._ready[request.id] = request

    def remove(self, request: Request[Any]) -> None:
        """Forgets a request that nothing waits for, unless it was written and may have to be sent again."""
        if request.done and request.waits_for == WRITTEN:
            return
        self._requests.pop(request.id, None)
        self._ready.pop(request.id, None)
        lane = self._held.get(request.lane, [])
        at = bisect.bisect_left(lane, (request.number,))
        if lane[at : at + 1] == [(request.number, request)]:
            del lane[at]
            if not lane:
                del self._held[request.lane]

    def hold(self, request: Request[Any], until: float) -> None:
        """Sends a request that was BUSY again at a time, and no later one of its lane before."""
        self._forget_recent(request)
        request.retry_at = until
        lane = self._held.setdefault(request.lane, [])
        waiting = [other for other in self._ready.values() if other.lane == request.lane]
        for each in [request, *waiting]:
            self._ready.pop(each.id, None)
            at = bisect.bisect_left(lane, (each.number,))
            if lane[at : at + 1] != [(each.number, each)]:
                lane.insert(at, (each.number, each))

    def retry_at(self) -> float:
        """Returns when the first request that was BUSY is to be sent again."""
        return min((lane[0][1].retry_at for lane in self._held.values()), default=NEVER)

    def take(self, now: float) -> List[bytes]:
        """Returns the frames that are to be written now."""
        due: List[Request[Any]] = []
        for name, lane in list(self._held.items()):
            while lane and lane[0][1].retry_at <= now:
                due.append(lane.pop(0)[1])
            if not lane:
                del self._held[name]
        due.sort(key=lambda request: request.number)
        due.extend(self._ready.values())
        self._ready = {}
        for request in due:
            if request.waits_for == WRITTEN:
                self._keep_recent(request)
        return [request.frame for request in due]

    def start_over(self, now: float) -> None:
        """Prepares for a new connection, without at-most-once messages that are possibly lost."""
        self._requests = {id: each for id, each in self._requests.items() if not each.done or now < each.until}
        for request in self._requests.values():
            request.retry_at = 0.0
        self._held, self._recent, self._recent_bytes = {}, {}, 0
        self._ready = dict(self._requests)

    def _keep_recent(self, request: Request[Any]) -> None:
        request.succeed({})
        self._recent[request.id] = request
        self._recent_bytes += len(request.frame)
        while len(self._recent) > RECENT or self._recent_bytes > RECENT_BYTES:
            oldest = next(iter(self._recent.values()))
            self._forget_recent(oldest)
            del self._requests[oldest.id]

    def _forget_recent(self, request: Request[Any]) -> None:
        if self._recent.pop(request.id, None):
            self._recent_bytes -= len(request.frame)
