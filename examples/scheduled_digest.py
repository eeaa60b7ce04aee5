"""A digest by cron: every morning, what was said since the last one, in all sessions.

``DIGEST_CRON`` and ``DIGEST_ZONE`` set the time (07:00 in UTC by default). The digest is a message
in the session ``digest``, so that it can be read in the page, searched and asked about.
"""

from typing import Any, ClassVar

from palimpsest import ChatAgent, ExtractiveSummarizer, Message, callable_method
from palimpsest.actor.schedules import ScheduledRun
from palimpsest.hosts.workers import durable_object, worker_entrypoint

DIGEST = "digest"
MOST_TOKENS = 600


@durable_object
class Chronicler(ChatAgent):
    """Remembers what is said and sums it up."""

    initial_state: ClassVar[Any] = {"last": 0, "digests": 0}

    async def on_start(self) -> None:
        """Declaring a schedule again changes nothing, so it can be done at every wake."""
        await self.sessions.ensure(DIGEST, "Digests")
        line = str(self.host.environment.get("DIGEST_CRON", "0 7 * * *"))
        zone = str(self.host.environment.get("DIGEST_ZONE", "UTC"))
        self.schedule(line, "write_digest", id="digest", timezone=zone)

    async def write_digest(self, payload: None, run: ScheduledRun) -> None:
        """Sum up what came since the last digest; nothing is written where nothing was said."""
        since, until = self.state["last"], self.host.now()
        news = await self.messages_between(since, until)
        if not news:
            return
        text = ExtractiveSummarizer().summarize_messages(news, MOST_TOKENS)
        digest: Message = {
            "id": f"digest-{since}",  # the same if this run is cut short and made again
            "role": "assistant",
            "parts": [{"type": "text", "text": text}],
            "metadata": {"createdAt": run.due_ms, "until": until},
        }
        added = await self.session(DIGEST).append_message(digest)
        last = added.message["metadata"]["until"]  # an earlier try's, if that stored its digest
        self.set_state({"last": last, "digests": self.state["digests"] + 1})
        self.broadcast({"type": "digest", "text": text})

    async def messages_between(self, since_ms: int, until_ms: int) -> list[Message]:
        """What was said after one time and up to another, in every session but the digests' own.

        Each session's oldest first.
        """
        found: list[Message] = []
        for info in await self.sessions.list():
            if info.id == DIGEST or info.updated_at <= since_ms:
                continue
            session = self.session(info.id)
            async for message in session.history(newest_first=True, overlays=False):
                said_at = await session.get_created_at(message["id"]) or 0
                if said_at <= since_ms:
                    break
                if said_at <= until_ms:
                    found.insert(0, message)
        return found

    @callable_method
    async def latest_digest(self) -> str | None:
        """The newest digest's text."""
        newest = await self.session(DIGEST).get_latest_leaf()
        return None if newest is None else newest["parts"][0]["text"]


Default = worker_entrypoint(cors=True)
