"""The Worker: its routes, and the example agent Assistant, as a user would write it."""

from palimpsest.actor.agent import Agent
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Assistant(Agent):
    """An assistant that remembers."""


Default = worker_entrypoint(cors=True)
