"""ChatAgent: an agent that holds conversations, remembers them, and streams its answers.

It speaks the protocol of the ``agents`` chat clients (wire protocol document) on its WebSocket and
the AI SDK's UI message stream over plain HTTP. One agent holds any number of sessions; a client
chooses one with the query parameter ``session`` (the default session is '').
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from palimpsest.actor.agent import Agent
from palimpsest.actor.connections import Connection, query_of
from palimpsest.actor.hooks import Reject
from palimpsest.chat import clientframes, defaults
from palimpsest.chat.accumulator import Chunk
from palimpsest.chat.conversation import NEW_NAME, title_from
from palimpsest.chat.endpoints import answer_request
from palimpsest.chat.lane import WAKE_JOB, Lane
from palimpsest.chat.recovery import Recovery, recover
from palimpsest.chat.resume import greet
from palimpsest.chat.session_http import DELETE_JOB, delete_job, undelete
from palimpsest.chat.turns import Concurrency, Strategy, Turn
from palimpsest.errors import PalimpsestError, SessionNameError, error_words
from palimpsest.hosts.interface import Host, HttpRequest, HttpResponse
from palimpsest.jobs import Job, Postpone
from palimpsest.messages import Message, text_message, validate_message
from palimpsest.models.config import model_from_environment
from palimpsest.session.manager import SessionManager, check_session_id
from palimpsest.session.session import Session
from palimpsest.store.sessions import SessionRegistry
from palimpsest.store.streams import StreamStore
from palimpsest.store.turns import StoredTurn, TurnStore

if TYPE_CHECKING:
    from palimpsest.models.interface import Model

STREAM_KEPT_MS = 10 * 60 * 1000
"""How long the chunks of a turn are kept after its end: long enough for a client to come back."""

TURN_KEPT_MS = 24 * 60 * 60 * 1000
"""How long it is remembered that a request was answered, and how it ended."""

SWEEP_JOB = "chat:sweep"

UNEXPECTED = "Something went wrong while answering. What was written before has been kept."
"""What clients are told of a failure that is not meant for them."""


class ChatAgent(Agent):
    """An agent one can talk to. Subclass it and override what you need; all of it is optional.

    The least that is useful is a subclass with nothing in it: it answers with the model that the
    environment names, the offline model by default, and has the tools that are marked with
    ``@tool`` and those of its sessions.
    """

    concurrency: ClassVar[Concurrency | Strategy] = "queue"
    """What happens to a message that is sent while an answer is being written."""

    recovery: ClassVar[Recovery] = "continue"
    """What happens to an answer that an eviction or a crash cut off: ``continue`` or ``close``."""

    stall_seconds: ClassVar[float | None] = 120.0
    """A turn in which nothing comes for so long is ended with an error; None for no limit."""

    gather_deltas: ClassVar[bool] = True
    """Whether pieces of text that come faster than the event loop turns are sent together."""

    max_steps: ClassVar[int] = 10
    """Model steps (with tool calls between them) of one answer."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._lanes: dict[str, Lane] = {}
        self._manager: SessionManager | None = None
        self._model: Model | None = None
        self._turns: TurnStore | None = None
        self._streams: StreamStore | None = None

    # --- what users override -------------------------------------------------------------------

    def configure_sessions(self, sessions: SessionManager) -> None:
        """Give the sessions context blocks and a compaction policy; called once per wake.

        By default they compact at 85 % of what the model takes, summarized by the model.
        """
        sessions.on_compaction(defaults.compaction_policy(self))

    def model(self) -> Model:
        """The model that answers; by default the one that ``PALIMPSEST_MODEL`` names."""
        return model_from_environment(self.host)

    def on_chat_message(self, turn: Turn) -> Any:
        """Answer a message: an async iterator of UI message chunks or of text, or a text.

        The default runs the model with the tools of the agent, its sessions and the client.
        """
        return defaults.answer(self, turn)

    def before_save(self, message: Message, turn: Turn) -> Any:
        """Change an answer before it is stored; may be async.

        If it fails, the answer is stored as it was written, and the turn ends with an error.
        """
        return message

    def on_chat_response(
        self, turn: Turn, message: Message, outcome: str, error: str | None
    ) -> Any:
        """A turn has ended: outcome ``completed``, ``aborted`` or ``error``; may be async."""

    def on_chat_error(self, error: Exception, turn: Turn) -> Any:
        """The text that clients are shown for a failed turn; may be async."""
        return self.error_text(error)

    # --- what users call -----------------------------------------------------------------------

    @property
    def sessions(self) -> SessionManager:
        """The agent's sessions."""
        if self._manager is None:
            self._manager = SessionManager(self)
            self.configure_sessions(self._manager)
        return self._manager

    def session(self, session_id: str = "") -> Session:
        """One session."""
        return self.sessions.get_session(session_id)

    async def save_messages(
        self,
        messages: Sequence[Message | str],
        *,
        session_id: str = "",
        answer: bool = True,
        request_id: str | None = None,
    ) -> str:
        """Add messages from here, as a client's would be, and have them answered.

        They wait their turn: what runs or waits in the session comes first. To know how the turn
        ended, await :meth:`turn_result`, but not within a turn of the same session.

        :param messages: messages, or texts of the user.
        :param answer: False only stores them.
        :param request_id: names the turn; the same id a second time changes nothing.
        :returns: the turn's request id.
        :raises InvalidMessageError: a message is not valid, or there is none.
        """
        given = [
            text_message(self.host.random_id(), "user", item) if isinstance(item, str) else item
            for item in messages
        ]
        return self.lane(session_id).add_from_here(
            [validate_message(message) for message in given],
            answer=answer,
            request_id=request_id or f"server_{self.host.random_id()}",
        )

    async def turn_result(self, request_id: str, session_id: str = "") -> StoredTurn | None:
        """How a turn ended, once it has; None if it is not known (any more)."""
        lane = self.lane(session_id)
        while True:
            turn = self.turns.get(session_id, request_id)
            if turn is None or not turn.is_open:
                return turn
            await lane.changed.wait()

    async def stop(self, session_id: str = "") -> None:
        """Stop what runs in a session and forget what waits."""
        await self.lane(session_id).stop_all()

    # --- stores and lanes ----------------------------------------------------------------------

    @property
    def turns(self) -> TurnStore:
        """The turns' rows."""
        if self._turns is None:
            self._streams = StreamStore(self.host.sql)
            self._turns = TurnStore(self.host.sql)
        return self._turns

    @property
    def streams(self) -> StreamStore:
        """The stored chunks."""
        if self._streams is None:
            self._streams = StreamStore(self.host.sql)
        return self._streams

    @property
    def current_model(self) -> Model:
        """The model, made once per instance."""
        if self._model is None:
            self._model = self.model()
        return self._model

    @property
    def concurrency_policy(self) -> Concurrency:
        """The concurrency policy, checked."""
        return Concurrency.of(self.concurrency)

    def lane(self, session_id: str) -> Lane:
        """The lane of a session, made at first use."""
        lane = self._lanes.get(session_id)
        if lane is None:
            lane = self._lanes[session_id] = Lane(self, session_id)
            defaults.watch_compaction(lane)
        return lane

    def forget_lane(self, session_id: str) -> None:
        """Drop a lane whose session was deleted."""
        self._lanes.pop(session_id, None)

    @property
    def lanes(self) -> Mapping[str, Lane]:
        """The lanes made so far."""
        return self._lanes

    # --- the life of the agent -----------------------------------------------------------------

    async def prepare(self) -> None:
        """See :class:`palimpsest.actor.agent.Agent`."""
        await super().prepare()
        self.jobs.register(SWEEP_JOB, self._sweep)
        self.jobs.register(WAKE_JOB, self._wake_lanes)
        self.jobs.register(DELETE_JOB, lambda job: delete_job(self, job))
        _ = self.sessions  # made now, for an alarm may find a session's compaction due

    async def handle_start(self) -> None:
        """See :class:`palimpsest.hosts.interface.Actor`."""
        await super().handle_start()
        await recover(self)

    async def handle_frame(self, connection: Connection, frame: Mapping[str, Any]) -> bool:
        """See :class:`palimpsest.actor.agent.Agent`."""
        if await clientframes.take(self, connection, frame):
            return True
        return await super().handle_frame(connection, frame)

    async def handle_path(
        self, request: HttpRequest, segments: Sequence[str]
    ) -> HttpResponse | None:
        """See :class:`palimpsest.actor.agent.Agent`."""
        response = await answer_request(self, request, segments)
        return response or await super().handle_path(request, segments)

    def check_connection(self, request: HttpRequest) -> Reject | None:
        """See :class:`palimpsest.actor.agent.Agent`."""
        try:
            check_session_id(query_of(request.url).get("session", ""))
        except SessionNameError as error:
            return Reject(str(error), 4400, 400)
        return super().check_connection(request)

    async def connected(self, connection: Connection, request: HttpRequest) -> None:
        """See :class:`palimpsest.actor.agent.Agent`."""
        await super().connected(connection, request)
        await greet(self.lane(connection.session_id), connection)

    async def disconnected(self, connection: Connection) -> None:
        """See :class:`palimpsest.actor.agent.Agent`."""
        lane = self._lanes.get(connection.session_id)
        if lane is not None:
            lane.leave(connection)
        await super().disconnected(connection)

    # --- what the running of turns needs -------------------------------------------------------

    def answer_turn(self, turn: Turn) -> Any:
        """The chunks of a turn: a command's, or the hook's."""
        if defaults.is_compact_command(turn):
            return defaults.compact(turn)
        return self.on_chat_message(turn)

    async def failure_text(self, error: Exception, turn: Turn) -> str:
        """What clients are shown for an error of the hook."""
        if not isinstance(error, PalimpsestError):
            await self.report("chat.turn.failed", error)
        try:
            text = self.on_chat_error(error, turn)
            return str(await text if hasattr(text, "__await__") else text)
        except Exception as second:
            await self.report("on_chat_error.failed", second)
            return UNEXPECTED

    def error_text(self, error: BaseException) -> str:
        """An error in words for people: the library's own are, others say nothing of the inside."""
        return error_words(error) if isinstance(error, PalimpsestError) else UNEXPECTED

    def new_answer_id(self) -> str:
        """A fresh id for an answer."""
        return f"assistant_{self.host.now()}_{self.host.random_id()[:8]}"

    async def name_session(self, session_id: str, messages: list[Message]) -> None:
        """Give a session without a name the title that its first user message gives."""
        user = next((message for message in messages if message["role"] == "user"), None)
        if user is None:
            return
        info = await self.sessions.get(session_id)
        if info is None:
            await self.sessions.ensure(session_id, title_from(user))
        elif info.name == NEW_NAME:
            await self.sessions.rename(session_id, title_from(user))

    def keep_session(self, session_id: str) -> None:
        """A session in which something is said is not deleted, if it was about to be."""
        if self.turns.is_deleted(session_id):
            undelete(self, session_id)

    def touch_session(self, session_id: str) -> None:
        """Note and tell that something happened in a session: it is listed first."""
        now = self.host.now()
        SessionRegistry(self.host.sql).touch(session_id, now)
        self.tell_sessions_changed(session_id)

    def tell_sessions_changed(self, session_id: str) -> None:
        """Tell every client that the list of sessions is no longer what it was."""
        frame = {
            "type": "palimpsest_sessions",
            "sessionId": session_id,
            "updatedAt": self.host.now(),
        }
        self.connections.broadcast(frame, protocol_only=True)

    def plan_sweep(self) -> None:
        """Have old streams removed some time after now."""
        if self.jobs.get(SWEEP_JOB) is None:
            at = self.host.now() + STREAM_KEPT_MS
            self.jobs.put(id=SWEEP_JOB, kind=SWEEP_JOB, at_ms=at)

    async def _wake_lanes(self, _job: Job) -> None:
        for turn in self.turns.open_turns():
            self.lane(turn.session_id).wake()

    async def _sweep(self, _job: Job) -> Postpone | None:
        now = self.host.now()
        next_end = self.turns.sweep(
            streams_before=now - STREAM_KEPT_MS, turns_before=now - TURN_KEPT_MS
        )
        if next_end is None:
            return None
        kept = STREAM_KEPT_MS if next_end > now - STREAM_KEPT_MS else TURN_KEPT_MS
        return Postpone(max(next_end + kept + 1, now + 60_000))


__all__ = ["ChatAgent", "Chunk", "Turn"]
