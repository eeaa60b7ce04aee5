"""The Worker: its routes, and the example agent Assistant, as a user would write it."""

from palimpsest import ChatAgent, SessionManager
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Assistant(ChatAgent):
    """An assistant that remembers."""

    def configure_sessions(self, sessions: SessionManager) -> None:
        """A notebook that the model may write to, and summaries of what lies far back."""
        sessions.with_context(
            "memory",
            description="What you know about the person you talk to, and about their plans.",
            max_tokens=1_100,
        )
        sessions.with_cached_prompt()
        threshold = int(self.host.environment.get("PALIMPSEST_COMPACT_AFTER", 24_000))
        sessions.compact_after(threshold)


Default = worker_entrypoint(cors=True)
