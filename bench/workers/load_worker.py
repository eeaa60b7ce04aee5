"""Agents for the load test: one callable method that changes the state all clients see."""

from __future__ import annotations

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Loaded(Agent):
    """Counts, and tells every connected client."""

    initial_state = 0

    @callable_method
    def bump(self) -> int:
        """Add one to the state; every client gets a frame."""
        self.set_state(self.state + 1)
        return self.state


Default = worker_entrypoint()
