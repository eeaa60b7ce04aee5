"""Fixtures of these tests; see tests/fixtures.py."""

from tests.fixtures import assistant, snapshot, start_worker

__all__ = ["assistant", "snapshot", "start_worker"]
