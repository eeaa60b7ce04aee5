"""A limit on how fast one connection may send: a bucket that fills with time."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``burst`` messages at once, and ``per_second`` in the long run.

    :raises ValueError: a figure is not above 0.
    """

    burst: int
    per_second: float

    def __post_init__(self) -> None:
        if self.burst < 1 or not self.per_second > 0:
            raise ValueError(f"a rate limit's figures are above 0: {self}")


class RateBuckets:
    """What each connection may still send. Kept in memory: a waking object forgives."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._buckets: dict[Hashable, list[float]] = {}
        """What is left of each connection's bucket, and when that was reckoned (ms)."""

    def take(self, connection: Hashable, now: int) -> bool:
        """Whether a message may pass at ``now`` (ms since 1970); it is counted if so.

        :param connection: what tells connections apart, best the socket: naming it by its id would
            cost a question to the platform for each message.
        """
        bucket = self._buckets.get(connection)
        if bucket is None:
            bucket = self._buckets[connection] = [float(self._limit.burst), now]
        bucket[0] += max(now - bucket[1], 0) / 1000 * self._limit.per_second
        bucket[1] = now
        if bucket[0] > self._limit.burst:
            bucket[0] = float(self._limit.burst)
        if bucket[0] < 1:
            return False
        bucket[0] -= 1
        return True

    def forget(self, connection: Hashable) -> None:
        """Drop a closed connection's bucket."""
        self._buckets.pop(connection, None)
