"""One session's lane: requests are accepted, wait, and are answered one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from palimpsest.actor.connections import Connection
from palimpsest.chat import frames
from palimpsest.chat.conversation import Conversation
from palimpsest.chat.frames import ChatRequest, ResponseFrames
from palimpsest.chat.reconcile import Submission, needs_continuation, plan_submission
from palimpsest.chat.running import ActiveTurn, run_turn
from palimpsest.chat.turns import (
    APPEND_ONLY,
    CONTINUE,
    MAX_WAITING_TURNS,
    Concurrency,
    merge_messages,
)
from palimpsest.errors import InvalidMessageError, LimitError
from palimpsest.hosts.interface import Socket
from palimpsest.messages import Message
from palimpsest.store import turns as rows
from palimpsest.store.turns import StoredTurn

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent

WAKE_JOB = "chat:wake"
"""The kind of the job that wakes a lane whose turns were told to wait."""

WAKE_MARGIN_MS = 5_000

SHOW_DELAY_SECONDS = 0.05
"""Messages that are accepted within this time while a turn runs are shown to others together."""

CONTINUATION_DELAY_SECONDS = 0.05
"""How long a continuation waits for further results of the same batch of tool calls."""


class Pulse:
    """Wakes whoever waits, each time it is fired."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Wake all who wait now."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def wait(self) -> None:
        """Until the next time it is fired."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


class Lane:
    """The turns of one session."""

    def __init__(self, agent: ChatAgent, session_id: str) -> None:
        self.agent = agent
        self.session_id = session_id
        self.conversation = Conversation(
            agent.host, agent.sessions.get_session(session_id), agent.turns
        )
        self.active: ActiveTurn | None = None
        self.parked: dict[Socket, tuple[Connection, str | None]] = {}
        """Connections that wait for a stream to begin, by socket, with their probe's id."""
        self.owed: dict[Socket, StoredTurn] = {}
        """New views that are to be told, once, how the newest turn failed."""
        self.recovering: str | None = None
        """The request whose interrupted turn is being taken up again."""
        self.changed = Pulse()
        """Fired when a turn begins or ends."""
        self._draining = False
        self._pauses = 0
        self._held: asyncio.TimerHandle | None = None
        self._unshown: set[str] | None = None
        """Who needs not be shown what has been accepted; None where nothing is to be shown."""

    # --- what is there -------------------------------------------------------------------------

    @property
    def connections(self) -> list[Connection]:
        """The connections that follow this session."""
        return self.agent.connections.of_session(self.session_id)

    def waiting(self) -> list[StoredTurn]:
        """The turns that wait."""
        return self.agent.turns.waiting(self.session_id)

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits."""
        return self.active is not None or self.recovering is not None or bool(self.waiting())

    def waiting_messages(self) -> list[Message]:
        """The messages of the turns that wait: accepted, not yet part of the conversation."""
        return [
            message
            for turn in self.waiting()
            for message in self.agent.turns.request(turn.turn).get("messages", [])
        ]

    def open_ids(self) -> set[str]:
        """The ids of all messages of turns that wait or run, the running answer's included."""
        ids = {identifier for turn in self.waiting() for identifier in turn.message_ids}
        if self.active is not None:
            ids.update(self.active.row.message_ids)
            ids.add(self.active.turn.message_id)
        return ids

    def broadcast(self, frame: str, exclude: Sequence[str] = ()) -> None:
        """Send a frame to the connections of this session."""
        self.agent.connections.broadcast(frame, session=self.session_id, exclude=exclude)

    async def broadcast_transcript(self, exclude: Sequence[str] = ()) -> None:
        """Show the conversation to everyone of the session, if anyone is there."""
        if not exclude:
            self._unshown = None
        if any(connection.id not in exclude for connection in self.connections):
            frame = await self.conversation.transcript_frame(self.waiting_messages())
            try:
                self.broadcast(frame, exclude)
            except LimitError as error:
                self.agent.events.failure("chat.transcript.too_large", error)

    def _show_soon(self, exclude: Sequence[str]) -> None:
        """Show the conversation in a moment, once for all that is accepted until then.

        A transcript may be megabytes, for each client: a burst of messages must not send one each.
        """
        if self._unshown is not None:
            self._unshown &= set(exclude)
            return
        self._unshown = set(exclude)
        self.agent.host.spawn(self._show_accepted(), name=f"chat:show:{self.session_id}")

    async def _show_accepted(self) -> None:
        await asyncio.sleep(SHOW_DELAY_SECONDS)
        exclude, self._unshown = self._unshown, None
        if exclude is not None:
            await self.broadcast_transcript(sorted(exclude))

    # --- accepting -----------------------------------------------------------------------------

    async def submit(
        self, request: ChatRequest, connection: Connection | None
    ) -> StoredTurn | None:
        """Accept a request, or answer it at once; the turn that stands for it, None if refused."""
        known = self.agent.turns.get(self.session_id, request.request_id)
        if known is not None:
            self._repeat(known, connection)
            return known
        policy = self.agent.concurrency_policy
        is_message = request.trigger == "submit-message"
        if is_message and policy.strategy == "drop" and self.is_busy:
            await self._refuse(request, connection)
            return None
        if len(self.waiting()) >= MAX_WAITING_TURNS:
            text = f"Too many messages wait already ({MAX_WAITING_TURNS}); try again later."
            self._answer_error(request.request_id, connection, text)
            return None
        try:
            plan = await self._plan(request)
        except InvalidMessageError as error:
            self._answer_error(request.request_id, connection, str(error))
            return None
        return await self._accept(request, plan, policy, connection)

    async def _plan(self, request: ChatRequest) -> Submission:
        session = self.conversation.session
        merges = self.agent.concurrency_policy.strategy == "merge"
        return await plan_submission(
            request.messages,
            session.get_message,
            open_ids=self.open_ids(),
            # A merged message has the id of one and the parts of several: not told from an edit.
            waiting={} if merges else {str(one["id"]): one for one in self.waiting_messages()},
            store_is_empty=session.message_count() == 0 and not self.is_busy,
            new_id=self.agent.host.random_id,
        )

    async def _accept(
        self,
        request: ChatRequest,
        plan: Submission,
        policy: Concurrency,
        connection: Connection | None,
    ) -> StoredTurn | None:
        self.agent.keep_session(self.session_id)
        self.agent.turns.set_last_request(self.session_id, request.client_tools, request.body)
        if plan.answered_parts:
            changed = await self.conversation.take_client_parts(plan.answered_parts)
            if changed is not None:
                self.broadcast(frames.message_updated(changed))
        payload, resync = await self._payload(request, plan)
        trigger, base = request.trigger, None
        if not payload["messages"] and payload.get("answerTo") is None:
            base = await self._base_of(plan)
            if base is None:
                self._answer_error(
                    request.request_id, connection, "There is no new message to answer."
                )
                return None
            trigger = CONTINUE
        # A client that sent more while it was being answered has its own order of things.
        payload["resync"] = resync or self.is_busy
        message_ids = [str(message["id"]) for message in payload["messages"]]
        if request.trigger == "submit-message" and payload["messages"]:
            message_ids = self._take_over_waiting(policy, payload, message_ids)
        row = self.agent.turns.add(
            session_id=self.session_id,
            request_id=request.request_id,
            trigger=trigger,
            status=rows.WAITING,
            connection_id=None if connection is None else connection.id,
            request=payload,
            message_ids=message_ids or ([payload["answerTo"]] if payload.get("answerTo") else []),
            base_id=base,
            now=self.agent.host.now(),
        )
        if self.is_running:
            exclude = [] if connection is None or resync else [connection.id]
            self._show_soon(exclude)
        if policy.strategy == "debounce" and request.trigger == "submit-message":
            self._hold(policy.debounce_ms / 1000)
        else:
            self.wake()
        return row

    @property
    def is_running(self) -> bool:
        """Whether a turn runs."""
        return self.active is not None

    async def _payload(self, request: ChatRequest, plan: Submission) -> tuple[dict[str, Any], bool]:
        """What is stored of a request, and whether the client's own view must be set right."""
        session = self.conversation.session
        payload: dict[str, Any] = {
            "messages": plan.new_messages,
            "clientTools": request.client_tools,
            "body": request.body,
        }
        leaf = await self.conversation.leaf_id()
        if plan.edited is not None:
            if not self._replace_waiting(plan.edited, payload):
                payload["parent"] = await session.get_parent_id(plan.edited)
            return payload, True
        if not plan.new_messages:
            if plan.last_role == "user":
                payload["answerTo"] = plan.anchor
                payload["again"] = request.trigger == "regenerate-message"
            return payload, False
        if request.trigger == "regenerate-message" and plan.anchor is not None:
            # Where the client knows nothing of what is here, its message goes to the end.
            payload["parent"] = plan.anchor
        in_step = plan.anchor_is_open or (plan.anchor == leaf and not plan.anchor_differs)
        return payload, not in_step

    def _replace_waiting(self, message_id: str, payload: dict[str, Any]) -> bool:
        """Let an edited message take the place of the turn that waits with it, if one does."""
        for turn in self.waiting():
            request = self.agent.turns.request(turn.turn)
            earlier: list[Message] = request.get("messages", [])
            if message_id not in [message["id"] for message in earlier]:
                continue
            kept = [message for message in earlier if message["id"] != message_id]
            payload["messages"] = [*kept, *payload["messages"]]
            if "parent" in request:
                payload["parent"] = request["parent"]
            self.end_waiting(turn, rows.SKIPPED)
            return True
        return False

    async def _base_of(self, plan: Submission) -> str | None:
        """The answer that a request without new messages continues."""
        if plan.anchor is None or plan.last_role != "assistant":
            return None
        message = await self.conversation.session.get_message(plan.anchor)
        return None if message is None or message["role"] != "assistant" else plan.anchor

    def _take_over_waiting(
        self, policy: Concurrency, payload: dict[str, Any], message_ids: list[str]
    ) -> list[str]:
        """Under ``latest``, ``merge`` and ``debounce`` the new turn replaces those that wait."""
        if policy.strategy not in ("latest", "merge", "debounce"):
            return message_ids
        earlier: list[Message] = []
        for turn in self.waiting():
            if turn.trigger not in ("submit-message", APPEND_ONLY):
                continue
            earlier += self.agent.turns.request(turn.turn).get("messages", [])
            self.end_waiting(turn, rows.SKIPPED)
        messages = [*earlier, *payload["messages"]]
        if policy.strategy == "merge":
            payload["resync"] = len(messages) > 1
            messages = merge_messages(messages)
        payload["messages"] = messages
        return [str(message["id"]) for message in messages]

    def end_waiting(self, turn: StoredTurn, status: str) -> None:
        """End a turn that never ran and tell everyone."""
        self.agent.turns.finish(turn.turn, status, self.agent.host.now())
        self.broadcast(ResponseFrames(turn.request_id).done(status, turn.message_ids))
        self.changed.fire()

    def _repeat(self, known: StoredTurn, connection: Connection | None) -> None:
        """The same request again: it is not run twice; if it has ended, that is said once more."""
        if connection is None or known.is_open:
            return
        answer = ResponseFrames(known.request_id, continuation=known.trigger == CONTINUE)
        if known.status == rows.ERROR:
            connection.send(answer.error(known.error or "The turn failed.", known.message_ids))
        else:
            connection.send(answer.done(known.status, known.message_ids))

    async def _refuse(self, request: ChatRequest, connection: Connection | None) -> None:
        if connection is not None:
            connection.send(await self.conversation.transcript_frame(self.waiting_messages()))
            connection.send(ResponseFrames(request.request_id).done(rows.SKIPPED))

    def _answer_error(self, request_id: str, connection: Connection | None, text: str) -> None:
        if connection is not None:
            connection.send(ResponseFrames(request_id).error(text))

    def add_from_here(self, messages: list[Message], *, answer: bool, request_id: str) -> str:
        """Let messages of the server's own wait for their turn; the turn's request id.

        :raises InvalidMessageError: there is none.
        """
        if not messages:
            raise InvalidMessageError("there is no message")
        if self.agent.turns.get(self.session_id, request_id) is None:
            tools, body = self.agent.turns.last_request(self.session_id)
            self.agent.turns.add(
                session_id=self.session_id,
                request_id=request_id,
                trigger="submit-message" if answer else APPEND_ONLY,
                status=rows.WAITING,
                connection_id=None,
                request={"messages": messages, "clientTools": tools, "body": body, "resync": True},
                message_ids=[str(message["id"]) for message in messages],
                now=self.agent.host.now(),
            )
            self.wake()
        return request_id

    # --- continuing ----------------------------------------------------------------------------

    async def continue_answer(
        self, message: Message, connection: Connection | None, client_tools: list[dict[str, Any]]
    ) -> None:
        """Plan the continuation of an answer whose tool calls have all been answered."""
        if not needs_continuation(message):
            return
        base_id = str(message["id"])
        for turn in self.waiting():
            if turn.trigger == CONTINUE and turn.base_id == base_id:
                return
        tools, body = self.agent.turns.last_request(self.session_id)
        self.agent.turns.add(
            session_id=self.session_id,
            request_id=f"continue_{self.agent.host.random_id()}",
            trigger=CONTINUE,
            status=rows.WAITING,
            connection_id=None if connection is None else connection.id,
            request={"messages": [], "clientTools": client_tools or tools, "body": body},
            message_ids=[],
            base_id=base_id,
            now=self.agent.host.now(),
        )
        self._hold(CONTINUATION_DELAY_SECONDS)

    async def continue_after(self, message: Message, connection_id: str) -> None:
        """Plan the continuation that a client asked for while the answer was being written."""
        connection = self.agent.connections.get(connection_id)
        await self.continue_answer(message, connection, [])

    # --- running -------------------------------------------------------------------------------

    def _hold(self, seconds: float) -> None:
        """Begin no turn before that time; a job sees to it should the agent go meanwhile."""
        if self._held is not None:
            self._held.cancel()
        self._held = asyncio.get_running_loop().call_later(seconds, self._release)
        at = self.agent.host.now() + int(seconds * 1000) + WAKE_MARGIN_MS
        self.agent.jobs.put(id=self._wake_job, kind=WAKE_JOB, at_ms=at)

    @property
    def _wake_job(self) -> str:
        return f"{WAKE_JOB}:{self.session_id}"

    def _release(self) -> None:
        self._held = None
        self.agent.jobs.cancel(self._wake_job)
        self.wake()

    @property
    def _may_begin(self) -> bool:
        return self._held is None and self._pauses == 0

    @contextmanager
    def paused(self) -> Generator[None]:
        """Begin no turn inside the block; what is accepted meanwhile waits until its end.

        Whoever stops a turn and then changes the conversation needs this: between the turn's end
        and the change another turn would begin, on messages that are about to go.
        """
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.wake()

    def wake(self) -> None:
        """Run what waits, unless that is happening already.

        The lease is taken before anything is awaited: from the moment in which a turn was accepted
        an alarm is armed that finds it, should the process die.
        """
        if not self._draining and self._may_begin and self.waiting():
            self._draining = True
            lease = self.agent.jobs.lease()
            lease.__enter__()
            self.agent.host.spawn(self._drain(lease), name=f"chat:{self.session_id}")

    async def _drain(self, lease: AbstractContextManager[None]) -> None:
        try:
            while self._may_begin:
                waiting = self.waiting()
                if not waiting:
                    break
                await run_turn(self, waiting[0])
        finally:
            self._draining = False
            lease.__exit__(None, None, None)

    def begin_recovery(self, request_id: str) -> None:
        """An interrupted turn is taken up again; nothing else runs before it has ended."""
        self.recovering = request_id
        self._draining = True

    def end_recovery(self) -> None:
        """The recovered turn has ended; others may run."""
        self.recovering = None
        self._draining = False
        self.wake()

    def cancel(self, request_id: str) -> bool:
        """Stop a turn: a running one keeps its partial text, a waiting one only its messages."""
        if self.active is not None and self.active.row.request_id == request_id:
            self.active.stop()
            return True
        turn = self.agent.turns.get(self.session_id, request_id)
        if turn is None or turn.status != rows.WAITING or turn.trigger == APPEND_ONLY:
            return False
        if self.agent.turns.request(turn.turn).get("messages"):
            self.agent.turns.set_trigger(turn.turn, APPEND_ONLY)
            self.broadcast(ResponseFrames(request_id).done(rows.ABORTED, turn.message_ids))
        else:
            self.end_waiting(turn, rows.ABORTED)
            self.release_parked()
        return True

    async def stop_all(self) -> None:
        """Stop the running turn and forget those that wait; nothing runs when this returns."""
        for turn in self.waiting():
            self.end_waiting(turn, rows.ABORTED)
        active = self.active
        if active is not None:
            active.stop()
            await active.ended.wait()
        self.release_parked()

    # --- who waits for a stream ----------------------------------------------------------------

    def announce(self, active: ActiveTurn) -> None:
        """A stream begins: offer it to the connections that were told to wait."""
        self.owed.clear()
        self.changed.fire()
        parked, self.parked = self.parked, {}
        for connection, probe in parked.values():
            if connection.is_open:
                active.live.offer(connection)
                connection.send(frames.stream_resuming(active.row.request_id, probe))

    def leave(self, connection: Connection) -> None:
        """A connection has closed. Its turn goes on: only Stop stops a turn."""
        self.parked.pop(connection.socket, None)
        self.owed.pop(connection.socket, None)
        if self.active is not None:
            self.active.live.forget(connection)

    def release_parked(self) -> None:
        """There will be no stream after all, unless another turn waits."""
        self.changed.fire()
        if self.is_busy:
            return
        parked, self.parked = self.parked, {}
        for connection, probe in parked.values():
            if connection.is_open:
                connection.send(frames.resume_none(probe))
